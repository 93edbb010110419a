package domain

import (
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
	Metadata `json:"metadata"`
	Spec     DeploymentIntentSpec `json:"spec"`
}

// DeploymentIntentSpec holds the map.
type DeploymentIntentSpec struct {
	Intent map[string]string `json:"intent"`
}

// DeploymentIntents is the noun.
var DeploymentIntents = &Noun{
	Kind: "deployment-intents", Title: "deployment intent", Collection: "intents",
	Parent: DeploymentIntentGroups, New: func() Object { return &DeploymentIntent{} },
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
