package vary

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/quantity"
)

// HPA has workloads ask for what hpa intents say that they need: requests and limits of a container, labels of nodes. All intents
// of the group are in it, as in EMCO's hpa-ac. What is not mandatory chooses among clusters, and is not asked for: pods would wait
// for ever where it is not.
type HPA struct {
	Needs map[string][]domain.HPANeed // domain.HPANeeds
}

// Concerns says whether a workload of the app needs anything.
func (h *HPA) Concerns(app string) bool { return len(h.Needs[app]) > 0 }

// Check has nothing to say: what can be done depends on what the intents before have made of the app.
func (h *HPA) Check(*App) ([]string, error) { return nil, nil }

// Sort is the same for all clusters.
func (h *HPA) Sort(string, *Cluster) string { return "" }

// asked is what was asked for, by what and which requirement, so that two that contradict each other are found.
type asked map[string]struct{ value, by string }

func (a asked) add(what, value string, n *domain.HPANeed, app string) error {
	by := fmt.Sprintf("hpa intent %s, consumer %q, requirement %q", n.Intent, n.Consumer, n.Resource)
	if is, found := a[what]; found && is.value != value {
		return fail.New(fail.Malformed, "app %q: %s %q: %s is %s by %s, and %s by %s", app, n.Workload(), n.Name, what, is.value, is.by, value, by)
	}
	a[what] = struct{ value, by string }{value, by}
	return nil
}

// Vary sets what is needed.
func (h *HPA) Vary(w *Work) error {
	known := asked{}
	for i := range h.Needs[w.App] {
		n := &h.Needs[w.App][i]
		refuse := func(format string, args ...any) error {
			return fail.New(fail.Malformed, "hpa intent %s, consumer %q: app %q: %s", n.Intent, n.Consumer, w.App, fmt.Sprintf(format, args...))
		}
		indices := w.Find(n.Workload(), n.Name)
		id := "hpa/" + n.Workload() + "/" + n.Name
		if len(indices) == 0 {
			w.Lacks(id, refuse("there is no %s %q (it has: %s)", n.Workload(), n.Name, has(w)))
			continue
		}
		w.Met(id)
		for _, index := range indices {
			if err := h.ask(w, index, n, known, refuse); err != nil {
				return err
			}
		}
	}
	return nil
}

// Tolerations are what the pods of a workload tolerate as it was rendered; nothing when it is not there.
func Tolerations(resources []plan.Resource, kind, name string) []domain.Toleration {
	for i := range resources {
		r := &resources[i]
		if r.Kind != kind || r.Name != name {
			continue
		}
		object, err := decode(r.Manifest)
		if err != nil {
			continue
		}
		spec, _ := template(object)["spec"].(map[string]any)
		var tolerations []domain.Toleration
		if text, err := encode(spec["tolerations"]); err == nil && json.Unmarshal(text, &tolerations) == nil {
			return tolerations
		}
	}
	return nil
}

// ask has one workload ask for what it needs.
func (h *HPA) ask(w *Work, index int, n *domain.HPANeed, known asked, refuse func(string, ...any) error) error {
	by := "hpa intent " + n.Intent
	var effects []string
	err := w.Edit(index, func(object map[string]any) error {
		at := fmt.Sprintf("%s %q ", n.Workload(), n.Name)
		pods := template(object)
		if pods == nil {
			return refuse("%s has no pods", at)
		}
		switch spec, _ := object["spec"].(map[string]any); {
		case n.Replicas == nil:
		case spec["replicas"] == nil:
			w.Warn("hpa intent %s, consumer %q: app %q: %shas no spec.replicas, so that replicas %d does nothing", n.Intent, n.Consumer, w.App, at, *n.Replicas)
		default:
			replicas := fmt.Sprint(*n.Replicas)
			if err := known.add(at+"replicas", replicas, n, w.App); err != nil {
				return err
			}
			spec["replicas"] = json.Number(replicas)
			effects = append(effects, "replicas "+replicas)
		}
		if !n.Required() {
			return nil
		}
		spec, err := member(pods, "spec")
		if err != nil {
			return refuse("%s: %s", at, err)
		}
		r := &n.HPAResourceSpec.Resource
		if n.IsLabel() {
			labels, err := member(spec, "nodeSelector")
			if err != nil {
				return refuse("%s: %s", at, err)
			}
			if err := known.add(at+"nodeSelector "+r.Key, *r.Value, n, w.App); err != nil {
				return err
			}
			labels[r.Key] = *r.Value
			effects = append(effects, "nodeSelector "+n.Label())
			return nil
		}
		container, names := containerOf(spec, n.Container)
		if container == nil {
			return refuse("%sthere is no container %q in it (it has: %s)", at, n.Container, cmp.Or(strings.Join(names, ", "), "none"))
		}
		requests, limits := r.Requests.Quantity(r.Name), r.Limits.Quantity(r.Name)
		if whole(r.Name) && limits == "" { // Kubernetes takes it in no other way
			limits = requests
		}
		for _, set := range []struct{ member, value string }{{"requests", requests}, {"limits", limits}} {
			if set.value == "" {
				continue
			}
			if err := known.add(fmt.Sprintf("%scontainer %s %s %s", at, n.Container, set.member, r.Name), set.value, n, w.App); err != nil {
				return err
			}
			resources, err := member(container, "resources")
			if err == nil {
				resources, err = member(resources, set.member)
			}
			if err != nil {
				return refuse("%s: container %q: %s", at, n.Container, err)
			}
			resources[r.Name] = set.value
			effects = append(effects, fmt.Sprintf("%s %s=%s of container %s", set.member, r.Name, set.value, n.Container))
		}
		return fits(container, r.Name, func(format string, args ...any) error {
			return refuse("%scontainer %q: %s", at, n.Container, fmt.Sprintf(format, args...))
		})
	})
	if err != nil {
		return err
	}
	for _, what := range effects {
		w.Effect(index, what, by)
	}
	return nil
}

// whole says whether pods get a resource as a whole, without more than they have asked for: what is not Kubernetes' own, and huge
// pages.
func whole(resource string) bool {
	domain, _, own := strings.Cut(resource, "/")
	return own && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") || strings.HasPrefix(resource, "hugepages-")
}

// fits refuses what Kubernetes would refuse: limits less than requests, or others where there are none but whole ones.
func fits(container map[string]any, resource string, refuse func(string, ...any) error) error {
	of := func(name string) *big.Rat {
		resources, _ := container["resources"].(map[string]any)
		amounts, _ := resources[name].(map[string]any)
		if amounts[resource] == nil {
			return nil
		}
		worth, err := quantity.Parse(fmt.Sprint(amounts[resource]))
		if err != nil { // the chart's, which the cluster will judge
			return nil
		}
		return worth
	}
	requests, limits := of("requests"), of("limits")
	switch {
	case requests == nil || limits == nil:
		return nil
	case whole(resource) && requests.Cmp(limits) != 0:
		return refuse("of %s as much has to be requested as is the limit", resource)
	case requests.Cmp(limits) > 0:
		return refuse("its limit of %s is less than what is requested", resource)
	default:
		return nil
	}
}

// containerOf finds a container of pods, and names those that there are.
func containerOf(spec map[string]any, wanted string) (found map[string]any, names []string) {
	for _, list := range []string{"containers", "initContainers"} {
		all, _ := spec[list].([]any)
		for _, c := range all {
			container, _ := c.(map[string]any)
			name, _ := container["name"].(string)
			if name == wanted && container != nil && found == nil {
				found = container
			}
			names = append(names, name)
		}
	}
	return found, slices.Clip(names[:min(len(names), maxNamed)])
}

var _ Intent = (*HPA)(nil)
