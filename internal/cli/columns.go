package cli

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/service"
)

// column is one of a table. Those that are wide are shown with -o wide only.
type column struct {
	head string
	wide bool
	cell func(item) string
}

// columnsOf are those of a selection: which one it is, in the names that are not given, and what people ask of its noun first. Of
// a noun of which nothing else is known that is what its spec says in single words.
func columnsOf(x *selection, now func() time.Time) []column {
	var all []column
	free := x.free()
	for _, level := range x.noun.Lineage() {
		for i, called := range level.Names {
			own := level == x.noun
			if !own && !slices.Contains(free, called) {
				continue
			}
			head := strings.ToUpper(kebab(called))
			if own && i == 0 {
				head = "NAME"
			} else if own {
				head = strings.TrimPrefix(head, strings.ToUpper(kebab(level.Names[0]))+"-")
			}
			all = append(all, column{head: head, cell: func(one item) string {
				found, _ := x.noun.Split(one.key)
				if len(found) == 0 {
					return one.key.Name()
				}
				return found[called]
			}})
		}
	}
	switch x.noun {
	case domain.DeploymentIntentGroups:
		return append(all, groupColumns(now)...)
	case domain.ClustersNoun:
		return append(all, clusterColumns(now)...)
	case domain.Workloads:
		return append(all, workloadColumns...)
	case domain.Matches:
		return append(all, matchColumns...)
	}
	return append(all, specColumns(x.noun)...)
}

func groupColumns(now func() time.Time) []column {
	of := func(cell func(*domain.DeploymentIntentGroup, service.GroupStatus) string) func(item) string {
		return func(one item) string {
			g, _ := one.object.(*domain.DeploymentIntentGroup)
			status, ok := one.status.(service.GroupStatus)
			if g == nil || !ok {
				return ""
			}
			return cell(g, status)
		}
	}
	return []column{
		{head: "STATE", cell: of(func(_ *domain.DeploymentIntentGroup, s service.GroupStatus) string { return string(s.State) })},
		{head: "STATUS", cell: of(func(_ *domain.DeploymentIntentGroup, s service.GroupStatus) string { return dash(string(s.Context)) })},
		{head: "REVISION", cell: of(func(_ *domain.DeploymentIntentGroup, s service.GroupStatus) string { return fmt.Sprint(s.Revision) })},
		{head: "RESOURCES", cell: of(func(_ *domain.DeploymentIntentGroup, s service.GroupStatus) string { return dash(tally(s.Counts)) })},
		{head: "READY", cell: of(func(_ *domain.DeploymentIntentGroup, s service.GroupStatus) string { return healthText(s.Health) })},
		{head: "SINCE", cell: of(func(_ *domain.DeploymentIntentGroup, s service.GroupStatus) string { return age(now(), s.Since) })},
		{head: "PROFILE", wide: true, cell: of(func(g *domain.DeploymentIntentGroup, _ service.GroupStatus) string { return g.Spec.CompositeProfile })},
		{head: "RELEASE", wide: true, cell: of(func(g *domain.DeploymentIntentGroup, _ service.GroupStatus) string { return g.Spec.Version })},
		{head: "LOGICAL-CLOUD", wide: true, cell: of(func(g *domain.DeploymentIntentGroup, _ service.GroupStatus) string { return g.Spec.LogicalCloud })},
		{head: "REASON", wide: true, cell: of(func(_ *domain.DeploymentIntentGroup, s service.GroupStatus) string { return s.Reason })},
	}
}

// heardOf says when somebody has told of a cluster last. Where nobody is to, as nothing that is watched runs there, that is no loss.
func heardOf(s *service.ClusterStatus, now time.Time) string {
	switch {
	case s.Heard:
		return "now"
	case s.LastHeard != nil:
		return age(now, *s.LastHeard) + " ago"
	default:
		return "-"
	}
}

func clusterColumns(now func() time.Time) []column {
	of := func(cell func(service.ClusterStatus) string) func(item) string {
		return func(one item) string {
			status, ok := one.status.(service.ClusterStatus)
			if !ok {
				return ""
			}
			return cell(status)
		}
	}
	return []column{
		{head: "CONNECTIVITY", cell: of(func(s service.ClusterStatus) string { return string(s.Connectivity) })},
		{head: "REPORT", cell: of(func(s service.ClusterStatus) string { return string(s.Report) })},
		{head: "HEARD", cell: of(func(s service.ClusterStatus) string { return heardOf(&s, now()) })},
		{head: "GROUPS", cell: of(func(s service.ClusterStatus) string { return fmt.Sprint(s.Groups) })},
		{head: "REASON", wide: true, cell: of(func(s service.ClusterStatus) string { return s.Reason })},
	}
}

var workloadColumns = []column{
	{head: "TYPE", cell: func(one item) string { return one.object.(*domain.Workload).ResourceType }},
	{head: "NAMESPACE", cell: func(one item) string { return one.object.(*domain.Workload).ResourceNamespace }},
	{head: "RESOURCE", cell: func(one item) string { return one.object.(*domain.Workload).ResourceName }},
	{head: "NODE", cell: func(one item) string { return dash(one.object.(*domain.Workload).NodeName) }},
	{head: "READY", cell: func(one item) string { return fmt.Sprint(one.object.(*domain.Workload).Ready) }},
}

var matchColumns = []column{
	{head: "STATE", cell: func(one item) string { return string(one.object.(service.Match).State) }},
	{head: "CLUSTER", cell: func(one item) string { return dash(one.object.(service.Match).Cluster) }},
	{head: "OBJECT", cell: func(one item) string {
		o := one.object.(service.Match).Object
		if o == nil {
			return "-"
		}
		return o.Kind + "/" + o.Namespace + "/" + o.Name
	}},
	{head: "REASON", wide: true, cell: func(one item) string { return one.object.(service.Match).Reason }},
}

// specColumns are the members of a noun's spec that are single words, four of them unless wide, and the description.
func specColumns(n *domain.Noun) []column {
	var all []column
	spec, ok := reflect.TypeOf(n.New()).Elem().FieldByName("Spec")
	if ok && spec.Type.Kind() == reflect.Struct {
		for i := range spec.Type.NumField() {
			name, _, _ := strings.Cut(spec.Type.Field(i).Tag.Get("json"), ",")
			kind := spec.Type.Field(i).Type.Kind()
			if name == "" || name == "-" || slices.Contains(n.Names, name) || !slices.Contains([]reflect.Kind{reflect.String, reflect.Bool, reflect.Int, reflect.Int64}, kind) {
				continue
			}
			all = append(all, column{head: strings.ToUpper(kebab(name)), wide: len(all) >= 4, cell: func(one item) string {
				value, _ := members(one.object)["spec"].(map[string]any)
				if value[name] == nil {
					return "-"
				}
				return dash(fmt.Sprint(value[name]))
			}})
		}
	}
	return append(all, column{head: "DESCRIPTION", wide: len(all) > 0, cell: func(one item) string {
		metadata, _ := members(one.object)["metadata"].(map[string]any)
		text, _ := metadata["description"].(string)
		return text
	}})
}

// members are those of what the API has answered.
func members(v any) map[string]any {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var m map[string]any
	if json.Unmarshal(data, &m) != nil {
		return nil
	}
	return m
}

// tally is counts by state: 6 Applied, 2 Pending.
func tally(counts map[domain.ResourceState]int) string {
	var parts []string
	for _, state := range domain.ResourceStates {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return strings.Join(parts, ", ")
}

func dash(text string) string { return or(text, "-") }

// age is how long ago something was, as kubectl shows it: 12s, 5m, 3h, 2d.
func age(now, then time.Time) string {
	if then.IsZero() {
		return "-"
	}
	switch d := max(now.Sub(then), 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	}
}
