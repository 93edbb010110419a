package domain

import (
	"slices"
	"strings"
)

// Actor is one of EMCO's controllers whose work Drover does itself, between rendering and planning.
type Actor string

// The actors.
const (
	// ActorOVN gives workloads the network interfaces of network controller intents.
	ActorOVN Actor = "ovnaction"
	// ActorHPA gives containers the resources, and pods the nodes, of hpa intents.
	ActorHPA Actor = "hpaac"
	// ActorHPAPlacement has apps go to clusters with such nodes. It acts before the others: they see the clusters that are left.
	ActorHPAPlacement Actor = "hpaplc"
	// ActorHPABoth is what EMCO has two controllers for.
	ActorHPABoth Actor = "hpa"
)

// ActorDTC controls the traffic to apps, as traffic group intents say.
const ActorDTC Actor = "dtc"

// ActorGAC adds objects, and patches those that there are, by generic k8s intents.
const ActorGAC Actor = "gac"

// actors says by what a registration is known (EMCO's installation): the name of the controller, the name of its service, or
// its port there and on nodes. They are in the order in which those of equal priority act: ovnaction, hpa action, dtc, gac. Who
// patches whatever there is comes last.
var actors = []struct {
	actor Actor
	ports []int
}{
	{ActorOVN, []int{9032, 30432}},
	{ActorHPA, []int{9042}},
	{ActorHPAPlacement, []int{9099, 30499}},
	{ActorHPABoth, nil},
	{ActorDTC, []int{9048, 30448}},
	{ActorGAC, []int{9033, 30433}},
}

// Order is the place of an actor among those of equal priority.
func (a Actor) Order() int {
	for i := range actors {
		if actors[i].actor == a {
			return i
		}
	}
	return len(actors)
}

// ActorOf is what carries out the intents that a deployment intent binds under a name; "" for nothing. The name counts
// first. EMCO lets users choose it, so that the registration of the name counts next, which is nil when there is none: its
// host, then its port.
func ActorOf(name string, c *Controller) Actor {
	for _, a := range actors {
		if name == string(a.actor) {
			return a.actor
		}
	}
	if c == nil {
		return hpaOf(name, "")
	}
	service, _, _ := strings.Cut(c.Spec.Host, ".")
	for _, a := range actors {
		if service == string(a.actor) {
			return a.actor
		}
	}
	for _, a := range actors {
		if slices.Contains(a.ports, c.Spec.Port) {
			return a.actor
		}
	}
	return hpaOf(name, c.Spec.Type)
}

// hpaOf tells EMCO's two controllers of hpa apart, which its examples call hpa-placement-controller-1 and
// hpa-action-controller-1: by the type of the registration, else by the name.
func hpaOf(name, registered string) Actor {
	switch {
	case !strings.Contains(name, string(ActorHPABoth)):
		return ""
	case registered == "placement", registered == "" && strings.Contains(name, "placement"):
		return ActorHPAPlacement
	case registered == "action", registered == "" && strings.Contains(name, "action"):
		return ActorHPA
	default:
		return ""
	}
}
