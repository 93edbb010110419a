package combine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
)

// Want says what status is wanted in an object: the flags of the status intents that match it, joined by OR.
type Want struct{ Singleton, Multi bool }

// Reported is what a target says of an object, for Aggregate.
type Reported struct {
	Cluster domain.ClusterName
	// Status is the member status as Decode reads it: nil where the cluster has not reported the object, or is silent about it;
	// empty where it has none.
	Status map[string]any
	// Spec is the member spec as the cluster has it, and Generation its metadata.generation; nil and 0 where they are not known. A
	// status of an earlier generation says nothing of the object as it is: its counters count as 0.
	Spec       map[string]any
	Generation int64
	Stale      bool // as propagation.stale: what was last reported counts, and the reason says so
	// Summarised is as propagation.summarised: what is missing may have been there. Numbers are cut with the whole status alone, which
	// is empty then.
	Summarised bool
	// Gone says that the cluster has reported the object, is heard, and has it no more.
	Gone bool
}

// ReportedState is the value of the annotation drover.io/reported-state.
type ReportedState string

// The reported states.
const (
	StateCopied     ReportedState = "copied"     // of the one cluster
	StateAggregated ReportedState = "aggregated" // of several
	StateNone       ReportedState = "none"
)

// Aggregated is the status of an object over all clusters.
type Aggregated struct {
	Status map[string]any // nil for no member status
	State  ReportedState
	Reason string // the annotation drover.io/reported-state-reason: how many clusters, which are silent, stale, summarised or without it
}

// Aggregate makes the status that an object is shown with. Group and kind are the object's. With one target it is that one's.
// With more and want.Multi it is what the worst of them would say, so that kstatus finds the object Current only if it is so
// everywhere. The order of targets does not matter; the maps are not changed.
func Aggregate(group, kind string, want Want, targets []Reported) Aggregated {
	targets = slices.SortedFunc(slices.Values(targets), func(a, b Reported) int { return a.Cluster.Compare(b.Cluster) })
	none := func(format string, args ...any) Aggregated {
		return Aggregated{State: StateNone, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case !want.Singleton && !want.Multi:
		return none("no status intent asks for it")
	case len(targets) == 0:
		return none("the object goes to 0 clusters")
	case len(targets) == 1 && targets[0].Gone:
		return none("of 1 cluster; not there: %s", targets[0].id())
	case len(targets) == 1 && targets[0].Status == nil:
		return none("of 1 cluster; silent: %s", targets[0].id())
	case len(targets) == 1:
		return Aggregated{Status: targets[0].Status, State: StateCopied, Reason: reason(targets)}
	case !want.Multi:
		return none("of %d clusters; the status of one is copied only where there is 1", len(targets))
	}
	status := map[string]any{}
	if counters, ok := counted[group+"/"+kind]; ok {
		counters.aggregate(status, targets)
	} else {
		equalMembers(status, targets)
	}
	if all := conditions(targets); len(all) > 0 {
		status["conditions"] = all
	}
	return Aggregated{Status: status, State: StateAggregated, Reason: reason(targets)}
}

func (t *Reported) id() string { return Key{Cluster: t.Cluster}.ClusterID() }

// late says whether the status is of an earlier generation.
func (t *Reported) late() bool {
	seen, ok := t.Status["observedGeneration"].(int64)
	return ok && t.Generation > seen
}

// maxNamed is how many clusters a reason names.
const maxNamed = 20

func reason(targets []Reported) string {
	text := fmt.Sprintf("of %d clusters", len(targets))
	if len(targets) == 1 {
		text = "of 1 cluster, " + targets[0].id()
	}
	for _, group := range []struct {
		name string
		is   func(*Reported) bool
	}{
		{"not there", func(t *Reported) bool { return t.Gone }},
		{"silent", func(t *Reported) bool { return t.Status == nil && !t.Gone }},
		{"stale", func(t *Reported) bool { return t.Status != nil && t.Stale }},
		{"of an earlier generation", (*Reported).late},
		{"summarised", func(t *Reported) bool { return t.Summarised && len(t.Status) > 0 }},
		{"summarised without its status, whose numbers count as 0", func(t *Reported) bool { return t.Summarised && t.Status != nil && len(t.Status) == 0 }},
	} {
		var names []string
		for i := range targets {
			if group.is(&targets[i]) {
				names = append(names, targets[i].id())
			}
		}
		if more := len(names) - maxNamed; more > 0 {
			names = append(names[:maxNamed], fmt.Sprintf("and %d more", more))
		}
		if names != nil {
			text += "; " + group.name + ": " + strings.Join(names, ", ")
		}
	}
	return text
}

// counters are those of a kind's status.
type counters struct {
	least []string // shown by minimum
	most  []string // those of trouble, shown by maximum
	// desired is the counter that says how many there should be, "" where that is spec.replicas.
	desired string
}

// counted are the kinds whose statuses have counters.
var counted = map[string]counters{
	"apps/Deployment": {
		least: []string{"replicas", "updatedReplicas", "readyReplicas", "availableReplicas"}, most: []string{"unavailableReplicas"},
	},
	"apps/ReplicaSet": {least: []string{"replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"}},
	"apps/StatefulSet": {
		least: []string{"replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"},
	},
	"apps/DaemonSet": {
		least: []string{"currentNumberScheduled", "updatedNumberScheduled", "numberReady", "numberAvailable"},
		most:  []string{"numberUnavailable", "numberMisscheduled"}, desired: "desiredNumberScheduled",
	},
	"batch/Job": {least: []string{"succeeded"}, most: []string{"active", "failed"}},
}

// aggregate adds the counters to a status. One that a cluster omits is 0, and so are those of a silent cluster.
func (c counters) aggregate(status map[string]any, targets []Reported) {
	for _, name := range c.least {
		least := targets[0].counter(name)
		for i := range targets {
			least = min(least, targets[i].counter(name))
		}
		status[name] = least
	}
	for _, name := range c.most {
		var most int64
		for i := range targets {
			most = max(most, targets[i].told(name))
		}
		status[name] = most
	}
	if c.desired != "" {
		c.shortOf(status, targets)
	}
	extraReplicas(status, targets)
	revisions(status, targets)
}

// shortOf adds how many there should be, which differs between clusters: a cluster that has fewer than it should must not look
// complete because another needs few.
func (c counters) shortOf(status map[string]any, targets []Reported) {
	// What a cluster wanted of an earlier generation is not there of this one. One that is silent, or whose controller has not
	// seen the object yet, has not said that it wants none.
	wants := func(t *Reported) int64 {
		if _, seen := t.Status["observedGeneration"]; t.late() || t.Status == nil || !seen && t.Generation > 0 {
			return max(1, t.told(c.desired))
		}
		return t.told(c.desired)
	}
	least := wants(&targets[0])
	for i := range targets {
		least = min(least, wants(&targets[i]))
	}
	wanted := int64(-1) // the least of a cluster that is short
	short := map[string]int64{}
	for i := range targets {
		desired := wants(&targets[i])
		for _, name := range c.least {
			if lacks := desired - targets[i].counter(name); lacks > 0 {
				short[name] = max(short[name], lacks)
				if wanted < 0 || desired < wanted {
					wanted = desired
				}
			}
		}
	}
	if wanted >= 0 {
		least = wanted
	}
	status[c.desired] = least
	for name, lacks := range short {
		status[name] = min(status[name].(int64), max(0, least-lacks))
	}
}

// extraReplicas: a cluster with more replicas than it is to have is not done either. That is seen only where its spec is known.
func extraReplicas(status map[string]any, targets []Reported) {
	shown, ok := status["replicas"].(int64)
	if !ok {
		return
	}
	most := shown
	for i := range targets {
		wanted, known := targets[i].Spec["replicas"].(int64)
		has := targets[i].counter("replicas")
		if !known {
			continue
		}
		if has < wanted {
			return // fewer says so already
		}
		if has > wanted {
			most = max(most, has)
		}
	}
	status["replicas"] = most
}

// revisions adds those of a StatefulSet of which some cluster has not come to the last one.
func revisions(status map[string]any, targets []Reported) {
	for i := range targets {
		current, update := targets[i].Status["currentRevision"], targets[i].Status["updateRevision"]
		if current != nil && update != nil && current != update {
			status["currentRevision"], status["updateRevision"] = current, update
			return
		}
	}
}

// counter is one that says how far the object is: 0 where its status is of an earlier generation.
func (t *Reported) counter(name string) int64 {
	if t.late() {
		return 0
	}
	return t.told(name)
}

func (t *Reported) told(name string) int64 {
	n, _ := t.Status[name].(int64)
	return n
}

// equalMembers adds those that all clusters have, and have alike.
func equalMembers(status map[string]any, targets []Reported) {
	for name, v := range targets[0].Status {
		if name == "observedGeneration" || name == "conditions" {
			continue
		}
		text, err := appendJSON(nil, v)
		same := err == nil
		for i := 1; i < len(targets) && same; i++ {
			other, there := targets[i].Status[name]
			otherText, err := appendJSON(nil, other)
			same = there && err == nil && string(text) == string(otherText)
		}
		if same {
			status[name] = v
		}
	}
}

// badWhenTrue are types of conditions that report trouble.
var badWhenTrue = []string{
	"ReplicaFailure", "Failed", "FailureTarget", "Stalled", "Reconciling", "Degraded", "NetworkUnavailable", "DisruptionTarget",
}

func isBadWhenTrue(kind string) bool {
	return slices.Contains(badWhenTrue, kind) || strings.HasSuffix(kind, "Pressure")
}

// conditions are those that any cluster has, by type, each as the worst cluster has it.
func conditions(targets []Reported) (all []any) {
	kinds := map[string]bool{}
	has := make([]map[string]map[string]any, len(targets))
	for i := range targets {
		has[i] = map[string]map[string]any{}
		list, _ := targets[i].Status["conditions"].([]any)
		for _, one := range list {
			condition, _ := one.(map[string]any)
			kind, ok := condition["type"].(string)
			if !ok || kind == "" || has[i][kind] != nil {
				continue
			}
			kinds[kind] = true
			if condition["status"] == "True" && targets[i].late() && !isBadWhenTrue(kind) {
				continue // that it was well says nothing of the object as it is
			}
			has[i][kind] = condition
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		worst, badness := 0, -1
		for i := range targets {
			if b := badnessOf(kind, has[i][kind]); b > badness {
				worst, badness = i, b
			}
		}
		all = append(all, shownCondition(kind, &targets[worst], has[worst][kind]))
	}
	return all
}

// badnessOf orders conditions: the greater the worse. A nil one is missing.
func badnessOf(kind string, condition map[string]any) int {
	status, _ := condition["status"].(string)
	if isBadWhenTrue(kind) {
		switch {
		case condition == nil:
			return 0
		case status == "False":
			return 1
		case status == "True":
			return 3
		default:
			return 2
		}
	}
	switch {
	case status == "False":
		return 3
	case status != "True":
		return 2
	case kind == "Progressing" && condition["reason"] != "NewReplicaSetAvailable":
		return 1 // a Deployment that is on its way
	default:
		return 0
	}
}

// shownCondition is a condition as a cluster has it.
func shownCondition(kind string, of *Reported, condition map[string]any) map[string]any {
	id := of.id()
	if condition == nil {
		why := "has not reported it"
		if of.Summarised {
			why = "it may have been cut from what the cluster reports"
		}
		return map[string]any{"type": kind, "status": "Unknown", "reason": "NotReported", "message": id + ": " + why}
	}
	shown := map[string]any{"type": kind, "status": "Unknown"}
	for _, name := range []string{"status", "reason", "lastTransitionTime"} {
		if v, ok := condition[name]; ok {
			shown[name] = v
		}
	}
	message, _ := condition["message"].(string)
	shown["message"] = strings.TrimSuffix(id+": "+message, ": ")
	return shown
}
