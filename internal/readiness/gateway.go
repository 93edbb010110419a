package readiness

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// gatewayAPI is the group of the Gateway API. Its controllers say what has become of an object in conditions that kstatus does not know: what no controller
// has seen yet, as where there is none, does nothing for anybody.
const gatewayAPI = "gateway.networking.k8s.io"

// gatewayLacks: its controller says that traffic can come. Controllers had Ready before that.
func gatewayLacks(gateway map[string]any) string {
	programmed := condition(gateway, "Programmed")
	unsaid := programmed == nil || programmed["status"] == "Unknown" && programmed["reason"] == "Pending" // the CRD's default
	switch {
	case unsaid && condition(gateway, "Ready")["status"] == "True":
		return ""
	case programmed == nil:
		return "Gateway is not programmed yet"
	case programmed["status"] != "True":
		return fmt.Sprintf("Gateway is not programmed: %v", programmed["message"])
	default:
		return behind(&unstructured.Unstructured{Object: gateway}, programmed)
	}
}

// gatewayClassLacks: its controller says that it takes Gateways of the class.
func gatewayClassLacks(class map[string]any) string {
	switch accepted := condition(class, "Accepted"); {
	case accepted == nil:
		return "GatewayClass is not accepted yet"
	case accepted["status"] != "True":
		return fmt.Sprintf("GatewayClass is not accepted: %v", accepted["message"])
	default:
		return behind(&unstructured.Unstructured{Object: class}, accepted)
	}
}

// routeLacks: each parent that the route names, mostly a Gateway, has a controller that says in conditions of its own what has become of the route there.
// One without a parent has nobody who would.
func routeLacks(route map[string]any) string {
	parents, _, _ := unstructured.NestedSlice(route, "spec", "parentRefs")
	entries, _, _ := unstructured.NestedSlice(route, "status", "parents")
	for _, p := range parents {
		if lacking := parentLacks(route, parentOf(route, p), entries); lacking != "" {
			return lacking
		}
	}
	return ""
}

// parent is what a route is to be attached to. Which listener of it a reference names is left out: some controllers have that otherwise in a status than it is
// in the spec.
type parent struct{ group, kind, namespace, name string }

func (p parent) String() string { return fmt.Sprintf("%s %s/%s", p.kind, p.namespace, p.name) }

// parentOf is the parent that a reference of a route names.
func parentOf(route map[string]any, reference any) parent {
	ref, _ := reference.(map[string]any)
	said := func(member, otherwise string) string {
		if text, ok := ref[member].(string); ok { // also "", the group of a Service
			return text
		}
		return otherwise
	}
	own := (&unstructured.Unstructured{Object: route}).GetNamespace()
	group := said("group", gatewayAPI)
	if group == "core" { // as Linkerd calls the group of Services in a status
		group = ""
	}
	return parent{group, said("kind", "Gateway"), cmp.Or(said("namespace", own), own), said("name", "")}
}

// routeConditions are those by which a route is judged at a parent, all of which are to be True. Accepted has to be there, Programmed is of some controllers alone.
var routeConditions = []string{"Accepted", "ResolvedRefs", "Programmed"}

// parentLacks says why a route is not attached to a parent by the entries of its status, "" where it is. An entry of an earlier generation counts where the
// parent has no other one: some controllers leave the one of a listener there that the route names no more.
func parentLacks(route map[string]any, of parent, entries []any) string {
	lacking := "the route is not accepted yet"
	attached := false
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		conditions, _ := entry["conditions"].([]any)
		if parentOf(route, entry["parentRef"]) != of || conditionIn(conditions, "Accepted") == nil {
			continue
		}
		earlier, untrue := "", ""
		for _, kind := range routeConditions {
			c := conditionIn(conditions, kind)
			earlier = cmp.Or(earlier, behind(&unstructured.Unstructured{Object: route}, c))
			if c != nil && c["status"] != "True" {
				untrue = cmp.Or(untrue, fmt.Sprintf("%s is %v: %v", kind, c["status"], c["message"]))
			}
		}
		switch {
		case earlier != "":
			lacking = earlier
		case untrue != "":
			return fmt.Sprintf("%s: %s", of, untrue)
		default:
			attached = true
		}
	}
	if attached {
		return ""
	}
	return fmt.Sprintf("%s: %s", of, lacking)
}
