package combine_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/domain"
)

func says(tb testing.TB, cluster, status string) combine.Reported {
	tb.Helper()
	s, err := combine.Decode(json.RawMessage(status))
	require.NoError(tb, err)
	return combine.Reported{Cluster: domain.ClusterName{Provider: "p", Name: cluster}, Status: s}
}

var multi = combine.Want{Multi: true}

// TestAggregate: what the conformance table does not have.
func TestAggregate(t *testing.T) {
	late := says(t, "w2", `{"observedGeneration":1,"replicas":3,"unavailableReplicas":1}`)
	late.Generation = 2
	stale := says(t, "w2", `{"replicas":3}`)
	stale.Stale = true
	short, cut := says(t, "w2", `{"replicas":3,"conditions":[{"type":"Available","status":"True"}]}`), says(t, "w2", `{}`)
	short.Summarised, cut.Summarised = true, true
	gone := says(t, "w2", ``)
	gone.Gone = true
	extra := says(t, "w2", `{"replicas":4}`)
	extra.Spec = map[string]any{"replicas": int64(3)}
	for name, c := range map[string]struct {
		kind    string
		targets []combine.Reported
		want    string
		reason  string
	}{
		"a silent cluster has none": {
			"Deployment", []combine.Reported{says(t, "w1", `{"replicas":3}`), says(t, "w2", ``)},
			`{"replicas":0,"updatedReplicas":0,"readyReplicas":0,"availableReplicas":0,"unavailableReplicas":0}`, "of 2 clusters; silent: p+w2",
		},
		"a status of an earlier generation": {
			"Deployment", []combine.Reported{says(t, "w1", `{"replicas":3}`), late},
			`{"replicas":0,"updatedReplicas":0,"readyReplicas":0,"availableReplicas":0,"unavailableReplicas":1}`, "of 2 clusters; of an earlier generation: p+w2",
		},
		"a stale cluster counts": {
			"Deployment", []combine.Reported{says(t, "w1", `{"replicas":5}`), stale},
			`{"replicas":3,"updatedReplicas":0,"readyReplicas":0,"availableReplicas":0,"unavailableReplicas":0}`, "of 2 clusters; stale: p+w2",
		},
		"one that is not there": {
			"Deployment", []combine.Reported{says(t, "w1", `{"replicas":3}`), gone},
			`{"replicas":0,"updatedReplicas":0,"readyReplicas":0,"availableReplicas":0,"unavailableReplicas":0}`, "of 2 clusters; not there: p+w2",
		},
		"one that the agent has summarised": {
			"Deployment", []combine.Reported{says(t, "w1", `{"replicas":3,"conditions":[{"type":"Available","status":"True"}]}`), short},
			`{"replicas":3,"updatedReplicas":0,"readyReplicas":0,"availableReplicas":0,"unavailableReplicas":0,
				"conditions":[{"type":"Available","status":"True","message":"p+w1"}]}`, "of 2 clusters; summarised: p+w2",
		},
		"one whose whole status the agent has cut": {
			"Deployment", []combine.Reported{says(t, "w1", `{"replicas":3,"conditions":[{"type":"Available","status":"True"}]}`), cut},
			`{"replicas":0,"updatedReplicas":0,"readyReplicas":0,"availableReplicas":0,"unavailableReplicas":0,"conditions":[
				{"type":"Available","status":"Unknown","reason":"NotReported","message":"p+w2: it may have been cut from what the cluster reports"}]}`,
			"of 2 clusters; summarised without its status, whose numbers count as 0: p+w2",
		},
		"more than there are to be": {
			"Deployment", []combine.Reported{says(t, "w1", `{"replicas":3}`), extra},
			`{"replicas":4,"updatedReplicas":0,"readyReplicas":0,"availableReplicas":0,"unavailableReplicas":0}`, "of 2 clusters",
		},
		"a ReplicaSet": {
			"ReplicaSet", []combine.Reported{says(t, "w1", `{"replicas":3,"fullyLabeledReplicas":2}`), says(t, "w2", `{"replicas":2,"fullyLabeledReplicas":3}`)},
			`{"replicas":2,"fullyLabeledReplicas":2,"readyReplicas":0,"availableReplicas":0}`, "of 2 clusters",
		},
		"a Job": {
			"Job", []combine.Reported{says(t, "w1", `{"active":1,"succeeded":2}`), says(t, "w2", `{"succeeded":3,"failed":4}`)},
			`{"active":1,"succeeded":2,"failed":4}`, "of 2 clusters",
		},
		"a DaemonSet that is short where many are wanted": {
			"DaemonSet", []combine.Reported{
				says(t, "w1", `{"desiredNumberScheduled":2,"currentNumberScheduled":2,"updatedNumberScheduled":2,"numberReady":2,"numberAvailable":2}`),
				says(t, "w2", `{"desiredNumberScheduled":5,"currentNumberScheduled":5,"updatedNumberScheduled":5,"numberReady":4,"numberAvailable":3,"numberUnavailable":2,"numberMisscheduled":1}`),
			},
			`{"desiredNumberScheduled":5,"currentNumberScheduled":2,"updatedNumberScheduled":2,"numberReady":2,"numberAvailable":2,"numberUnavailable":2,"numberMisscheduled":1}`, "of 2 clusters",
		},
		"a StatefulSet on its way": {
			"StatefulSet", []combine.Reported{says(t, "w1", `{"currentRevision":"a","updateRevision":"a"}`), says(t, "w2", `{"currentRevision":"a","updateRevision":"b"}`)},
			`{"replicas":0,"readyReplicas":0,"currentReplicas":0,"updatedReplicas":0,"availableReplicas":0,"currentRevision":"a","updateRevision":"b"}`, "of 2 clusters",
		},
		"another kind": {
			"Claim", []combine.Reported{
				says(t, "w1", `{"phase":"Bound","capacity":{"a":1,"b":[1,2]},"observedGeneration":1,"one":1}`),
				says(t, "w2", `{"phase":"Pending","capacity":{"b":[1,2],"a":1},"observedGeneration":1}`),
			},
			`{"capacity":{"a":1,"b":[1,2]}}`, "of 2 clusters",
		},
		"conditions": {
			"Claim", []combine.Reported{
				says(t, "w1", `{"conditions":[{"type":"Ready","status":"True"},{"type":"MemoryPressure","status":"True","reason":"Full"},{"type":"Failed","status":"False"},{"type":"Seen","status":"True"}]}`),
				says(t, "w2", `{"conditions":[{"type":"Ready","status":"False","reason":"Slow","message":"not yet","lastTransitionTime":"2024-01-01T00:00:00Z"},{"type":"Seen","status":"Unknown"}]}`),
				says(t, "w3", `{"conditions":[{"type":"Ready","status":"Unknown"}]}`),
			},
			`{"conditions":[
				{"type":"Failed","status":"False","message":"p+w1"},{"type":"MemoryPressure","status":"True","reason":"Full","message":"p+w1"},
				{"type":"Ready","status":"False","reason":"Slow","message":"p+w2: not yet","lastTransitionTime":"2024-01-01T00:00:00Z"},
				{"type":"Seen","status":"Unknown","message":"p+w2"}]}`, "of 3 clusters",
		},
		"a condition that is missing": {
			"Claim", []combine.Reported{says(t, "w1", `{"conditions":[{"type":"Ready","status":"True"}]}`), says(t, "w2", `{}`)},
			`{"conditions":[{"type":"Ready","status":"Unknown","reason":"NotReported","message":"p+w2: has not reported it"}]}`, "of 2 clusters",
		},
		"nonsense": {
			"Claim", []combine.Reported{says(t, "w1", `{"conditions":"x"}`), says(t, "w2", `{"conditions":[1,{},{"type":7}]}`)}, `{}`, "of 2 clusters",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				got := combine.Aggregate(groups[c.kind], c.kind, multi, c.targets)
				require.Equal(t, combine.StateAggregated, got.State)
				require.JSONEq(t, c.want, written(t, got.Status))
				require.Equal(t, c.reason, got.Reason)
				c.targets[0], c.targets[1] = c.targets[1], c.targets[0] // the order does not matter
			}
		})
	}
	none := combine.Aggregate("apps", "Deployment", combine.Want{}, []combine.Reported{says(t, "w1", `{}`)})
	require.Equal(t, combine.Aggregated{State: combine.StateNone, Reason: "no status intent asks for it"}, none)
	none = combine.Aggregate("apps", "Deployment", multi, nil)
	require.Equal(t, combine.StateNone, none.State)
	one := says(t, "w1", `{"observedGeneration":1}`)
	one.Stale = true
	copied := combine.Aggregate("apps", "Deployment", multi, []combine.Reported{one})
	require.Equal(t, combine.Aggregated{Status: one.Status, State: combine.StateCopied, Reason: "of 1 cluster, p+w1; stale: p+w1"}, copied)
	require.Equal(t, "of 1 cluster, p+w2; summarised: p+w2", combine.Aggregate("apps", "Deployment", multi, []combine.Reported{short}).Reason)
	require.Equal(t, combine.Aggregated{State: combine.StateNone, Reason: "of 1 cluster; not there: p+w2"}, combine.Aggregate("apps", "Deployment", multi, []combine.Reported{gone}))
}

// TestTheWorstDecides: kstatus finds the object with the aggregated status Current only if it is so in every cluster.
func TestTheWorstDecides(t *testing.T) {
	current := map[string]int{}
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 6))
		kinds := []string{"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Widget"}
		kind := kinds[r.IntN(len(kinds))]
		counters := map[string][]string{
			"Deployment":  {"replicas", "updatedReplicas", "readyReplicas", "availableReplicas"},
			"ReplicaSet":  {"replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"},
			"StatefulSet": {"replicas", "readyReplicas", "currentReplicas", "updatedReplicas"},
			"DaemonSet":   {"desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberReady", "numberAvailable"},
		}[kind]
		spec := map[string]any{"replicas": int64(3)}
		if r.IntN(2) == 0 {
			spec["progressDeadlineSeconds"] = int64(600)
		}
		everywhere := true
		var targets []combine.Reported
		for i := range 2 + r.IntN(3) {
			desired := int64(3)
			if kind == "DaemonSet" {
				desired = int64(r.IntN(5))
			}
			s := map[string]any{"observedGeneration": int64(2)}
			if kind != "Widget" && r.IntN(12) == 0 { // a Widget without conditions has nothing to show it by
				s["observedGeneration"] = int64(1)
			}
			for _, name := range counters {
				s[name] = desired
				if r.IntN(25) == 0 {
					s[name] = int64(r.IntN(5))
				}
				if replicas, ok := s["replicas"].(int64); ok { // no controller counts more of some kind than there are
					s[name] = min(s[name].(int64), replicas)
				}
			}
			if r.IntN(20) == 0 {
				s["currentRevision"], s["updateRevision"] = "a", "b"
			}
			var conditions []any
			for _, kind := range []string{"Available", "Progressing", "Ready", "ReplicaFailure", "Stalled", "Reconciling"} {
				ok, bad := "True", "False"
				if kind == "ReplicaFailure" || kind == "Stalled" || kind == "Reconciling" {
					ok, bad = bad, ok
				}
				condition := map[string]any{"type": kind, "status": ok, "reason": "NewReplicaSetAvailable"}
				switch r.IntN(30) {
				case 0:
					condition["status"], condition["reason"] = bad, "ProgressDeadlineExceeded"
				case 1:
					condition["status"] = "Unknown"
				case 2:
					condition["reason"] = "ReplicaSetUpdated"
				case 3:
					continue
				}
				conditions = append(conditions, condition)
			}
			s["conditions"] = conditions
			target := combine.Reported{Cluster: domain.ClusterName{Name: fmt.Sprint("w", i)}, Status: s, Spec: spec, Generation: 2}
			if kind != "Widget" && r.IntN(12) == 0 {
				switch r.IntN(3) {
				case 0:
					s, target.Status, target.Spec, target.Generation = nil, nil, nil, 0
				case 1: // no controller has seen it yet
					s, target.Status = map[string]any{}, map[string]any{}
				case 2: // the status alone is not known
					s, target.Status, target.Generation = nil, nil, 2
				}
			}
			isCurrent := s != nil && judged(t, kind, 2, spec, s)
			everywhere = everywhere && isCurrent
			targets = append(targets, target)
		}
		got := combine.Aggregate(groups[kind], kind, multi, targets)
		// The object as it is shown has no generation of its own, but a DaemonSet's is asked for.
		shown := map[string]any{"observedGeneration": int64(2)}
		for name, v := range got.Status {
			shown[name] = v
		}
		if judged(t, kind, 2, spec, shown) {
			current[kind]++
			require.True(t, everywhere, "seed %d: %s is Current with %s of %s", seed, kind, written(t, got.Status), written(t, targets))
		}
	}
	require.Len(t, current, 5, "every kind is Current at times: %v", current)
}

// judged says whether kstatus finds an object Current.
func judged(t *testing.T, kind string, generation int64, spec, s map[string]any) bool {
	t.Helper()
	version := "apps/v1"
	if kind == "Widget" {
		version = "example.com/v1"
	}
	object := map[string]any{
		"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": "a", "generation": generation}, "spec": spec, "status": s,
	}
	result, err := status.Compute(&unstructured.Unstructured{Object: object})
	require.NoError(t, err)
	return result.Status == status.CurrentStatus
}

// TestTroubleIsTheWorst: of a condition that reports trouble, what is shown is the cluster where it is True.
func TestTroubleIsTheWorst(t *testing.T) {
	for _, kind := range append([]string{"DiskPressure"}, combine.BadWhenTrue...) {
		got := combine.Aggregate("", "Claim", multi, []combine.Reported{
			says(t, "w1", `{"conditions":[{"type":"`+kind+`","status":"True"}]}`),
			says(t, "w2", `{"conditions":[{"type":"`+kind+`","status":"False"}]}`),
		})
		require.JSONEq(t, `{"conditions":[{"type":"`+kind+`","status":"True","message":"p+w1"}]}`, written(t, got.Status), kind)
	}
	require.Subset(t, combine.BadWhenTrue, []string{"Degraded", "NetworkUnavailable", "DisruptionTarget", "FailureTarget", "ReplicaFailure", "Failed", "Stalled", "Reconciling"})
}
