package domain

import (
	"fmt"
	"maps"
	"slices"

	"github.com/drover-io/drover/internal/fail"
)

// DeploymentIntentGroup (DIG) says how one composite app is deployed: with which profile, release name,
// override values and into which logical cloud. It carries the history of its lifecycle.
type DeploymentIntentGroup struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata"`
	Spec     DeploymentIntentGroupSpec `json:"spec"`
	History  History                   `json:"-" bson:"history"`
}

// DeploymentIntentGroupSpec in EMCO's order of members.
type DeploymentIntentGroupSpec struct {
	CompositeProfile string           `json:"compositeProfile"`
	Version          string           `json:"version"` // the Helm release name
	OverrideValues   []OverrideValues `json:"overrideValues"`
	LogicalCloud     string           `json:"logicalCloud"`
}

// OverrideValues are set on one app's chart as with Helm's --set.
type OverrideValues struct {
	App    string            `json:"app"`
	Values map[string]string `json:"values"`
}

// DeploymentIntentGroups is the noun.
var DeploymentIntentGroups = &Noun{
	Kind: "deployment-intent-groups", Title: "deployment intent group", Collection: "deployment-intent-groups",
	Parent: CompositeApps, New: func() Object { return &DeploymentIntentGroup{} },
}

// Noun is DeploymentIntentGroups.
func (d *DeploymentIntentGroup) Noun() *Noun { return DeploymentIntentGroups }

// Project is the name of the project that the group belongs to.
func (d *DeploymentIntentGroup) Project() Key { return Join(d.Parent.Segments()[:2]...) }

// CompositeProfileKey names the profile.
func (d *DeploymentIntentGroup) CompositeProfileKey() Key {
	return d.Parent.Child(CompositeProfiles.Collection, d.Spec.CompositeProfile)
}

// LogicalCloudKey names the logical cloud.
func (d *DeploymentIntentGroup) LogicalCloudKey() Key {
	return d.Project().Child(LogicalClouds.Collection, d.Spec.LogicalCloud)
}

// Validate checks the body.
func (d *DeploymentIntentGroup) Validate(p *fail.Problems) {
	d.Metadata.Validate(p)
	CheckName(p, "spec.compositeProfile", d.Spec.CompositeProfile)
	CheckName(p, "spec.version", d.Spec.Version)
	CheckName(p, "spec.logicalCloud", d.Spec.LogicalCloud)
	if d.Spec.OverrideValues == nil {
		p.Add("spec.overrideValues", "Invalid type. Expected: array, given: null")
	}
	for i, o := range d.Spec.OverrideValues {
		path := fmt.Sprintf("spec.overrideValues[%d]", i)
		CheckName(p, path+".app", o.App)
		if o.Values == nil {
			p.Add(path+".values", "Invalid type. Expected: object, given: null")
		}
		for _, k := range slices.Sorted(maps.Keys(o.Values)) {
			CheckLength(p, path+".values["+k+"]", o.Values[k], 128)
		}
	}
}

// References are the composite profile, the logical cloud, and the apps that have override values.
func (d *DeploymentIntentGroup) References() []Reference {
	refs := []Reference{
		{"spec.compositeProfile", CompositeProfiles, d.CompositeProfileKey()},
		{"spec.logicalCloud", LogicalClouds, d.LogicalCloudKey()},
	}
	for i, o := range d.Spec.OverrideValues {
		refs = append(refs, Reference{fmt.Sprintf("spec.overrideValues[%d].app", i), Apps, d.Parent.Child(Apps.Collection, o.App)})
	}
	return refs
}
