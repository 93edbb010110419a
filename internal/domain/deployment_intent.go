package domain

import (
	"fmt"
	"maps"
	"slices"

	"github.com/drover-io/drover/internal/fail"
)

// PlacementIntentKey is the member of a DeploymentIntent that names the generic placement intent; the
// other members name intents of controllers.
const PlacementIntentKey = "genericPlacementIntent"

// DeploymentIntent binds intents to a deployment intent group: controller name to intent name.
type DeploymentIntent struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     DeploymentIntentSpec `json:"spec" api:"required"`
}

// DeploymentIntentSpec has the intents that are bound.
type DeploymentIntentSpec struct {
	// genericPlacementIntent to the name of the placement, or a controller to the name of its intent
	Intent map[string]string `json:"intent" api:"required"`
}

// DeploymentIntents is the noun.
var DeploymentIntents = &Noun{
	Kind: "deployment-intents", Title: "deployment intent", Collection: "intents", Names: []string{"intent"},
	Parent: DeploymentIntentGroups, New: func() Object { return &DeploymentIntent{} }, Ordered: true,
}

// Noun is DeploymentIntents.
func (*DeploymentIntent) Noun() *Noun { return DeploymentIntents }

// References are the controllers.
func (o *DeploymentIntent) References() []Reference {
	var refs []Reference
	for _, k := range slices.Sorted(maps.Keys(o.Spec.Intent)) {
		if k != PlacementIntentKey {
			refs = append(refs, Reference{"spec.intent[" + k + "]", Controllers, Join(Controllers.Collection, k)})
		}
	}
	return refs
}

// Enforced says whether Drover itself brings about what a deployment intent binds to its group under a name. It is the one
// place that decides what is built in. The registration is that of the name, nil when there is none: EMCO lets users
// choose the names of controllers, so that one which is built in may have to be known by its host.
func Enforced(name string, c *Controller) bool {
	return name == PlacementIntentKey || ActorOf(name, c) != ""
}

// Unenforced is a binding of a deployment intent that nothing brings about.
type Unenforced struct {
	DeploymentIntent string
	Controller       string
	Intent           string // of the controller
	Registered       bool   // the controller is
	Part             string // one of dtc's controllers that is not built in, while the rest of the intent is enforced; "" for all of it
}

// UnenforcedOf finds what nothing brings about of deployment intents, in their order and by controller.
func UnenforcedOf(intents []*DeploymentIntent, registered map[string]*Controller) []Unenforced {
	var found []Unenforced
	for _, i := range intents {
		for _, name := range slices.Sorted(maps.Keys(i.Spec.Intent)) {
			if c := registered[name]; !Enforced(name, c) {
				found = append(found, Unenforced{DeploymentIntent: i.Name, Controller: name, Intent: i.Spec.Intent[name], Registered: c != nil})
			}
		}
	}
	return found
}

// String says it to a user.
func (u Unenforced) String() string {
	what := fmt.Sprintf("deployment intent %q: intent %q of controller %q is not enforced: ", u.DeploymentIntent, u.Intent, u.Controller)
	switch {
	case u.Part != "": // service discovery, say
		return fmt.Sprintf("deployment intent %q: what %q of /v2/dtc-controllers does for intent %q of controller %q is not done: Drover does not act for it",
			u.DeploymentIntent, u.Part, u.Intent, u.Controller)
	case !u.Registered:
		return what + "the controller is not registered, and until it is instantiate, update and migrate are refused"
	}
	return what + "Drover does not act for this controller"
}

// Refusal is why a group with the binding cannot be deployed, nil when it can.
func (u Unenforced) Refusal() error {
	if u.Registered {
		return nil
	}
	return fail.New(fail.NotFound, "Controller not found: deployment intent %q names controller %q, which is not registered; register it at /v2/controllers, or take it out of the intent",
		u.DeploymentIntent, u.Controller)
}

// Validate checks the body. The intents named need not exist yet: EMCO's examples create them afterwards.
func (o *DeploymentIntent) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	if o.Spec.Intent == nil {
		p.Add("spec.intent", "Invalid type. Expected: object, given: null")
	}
	for _, k := range slices.Sorted(maps.Keys(o.Spec.Intent)) {
		CheckLength(p, "spec.intent["+k+"]", o.Spec.Intent[k], MaxName)
	}
}
