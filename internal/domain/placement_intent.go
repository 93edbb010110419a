package domain

import (
	"fmt"

	"github.com/drover-io/drover/internal/fail"
)

// PlacementIntent (generic placement intent) groups the app intents of a deployment intent group.
type PlacementIntent struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
}

// PlacementIntents is the noun.
var PlacementIntents = &Noun{
	Kind: "generic-placement-intents", Title: "generic placement intent", Collection: "generic-placement-intents", Names: []string{"genericPlacementIntent"},
	Parent: DeploymentIntentGroups, New: func() Object { return &PlacementIntent{} },
}

// Noun is PlacementIntents.
func (*PlacementIntent) Noun() *Noun { return PlacementIntents }

// AppIntent says on which clusters an app is to run.
type AppIntent struct {
	Identity `bson:",inline"`
	Metadata AppIntentMetadata `json:"metadata" api:"required"`
	Spec     AppIntentSpec     `json:"spec" api:"required"`
}

// AppIntentMetadata is Metadata without its empty members, which EMCO omits here.
type AppIntentMetadata struct {
	Name        string `json:"name" api:"required"`   // how the intent is named
	Description string `json:"description,omitempty"` // for people; at most 1024 characters
	UserData1   string `json:"userData1,omitempty"`   // whatever the user wants to keep with it; at most 512 characters
	UserData2   string `json:"userData2,omitempty"`   // more of the same kind; at most 512 characters
}

// AppIntentSpec names the app and its placement.
type AppIntentSpec struct {
	App    string    `json:"app" api:"required"` // the app that is placed
	Intent Placement `json:"intent"`
}

// Placement is satisfied by every entry of allOf and one cluster of anyOf.
type Placement struct {
	AllOf []AllOf    `json:"allOf,omitempty"` // every entry is taken
	AnyOf []Clusters `json:"anyOf,omitempty"` // one cluster of them is taken
}

// Clusters names one cluster, or by a label all of a provider's clusters that carry it.
type Clusters struct {
	ClusterProvider string `json:"clusterProvider,omitempty" api:"required"` // the provider of the clusters
	Cluster         string `json:"cluster,omitempty"`                        // the one cluster; without clusterLabel
	ClusterLabel    string `json:"clusterLabel,omitempty"`                   // all clusters that carry the label; without cluster
}

// AllOf is one entry of a placement's allOf: clusters, or one cluster of a nested group.
type AllOf struct {
	Clusters `api:"optional"`
	AnyOf    []Clusters `json:"anyOf,omitempty"` // one cluster of them is taken; without other members
}

// Bytes is what a placement takes in memory, about.
func (p *Placement) Bytes() (n int) {
	const entry, names = 88, 48 // of allOf, and of anyOf
	of := func(c *Clusters) int { return len(c.ClusterProvider) + len(c.Cluster) + len(c.ClusterLabel) }
	for i := range p.AllOf {
		n += entry + of(&p.AllOf[i].Clusters)
		for j := range p.AllOf[i].AnyOf {
			n += names + of(&p.AllOf[i].AnyOf[j])
		}
	}
	for i := range p.AnyOf {
		n += names + of(&p.AnyOf[i])
	}
	return n
}

// AppIntents is the noun.
var AppIntents = &Noun{
	Kind: "app-intents", Title: "app intent", Collection: "app-intents", Names: []string{"appIntent"},
	Parent: PlacementIntents, New: func() Object { return &AppIntent{} },
}

// Noun is AppIntents.
func (*AppIntent) Noun() *Noun { return AppIntents }

// LocalName is the name.
func (o *AppIntent) LocalName() string { return o.Metadata.Name }

// Validate checks the body.
func (o *AppIntent) Validate(p *fail.Problems) {
	m := Metadata(o.Metadata)
	m.Validate(p)
	if o.Spec.App == "" {
		p.Add("spec.app", "Missing app for the intent")
	} else {
		CheckName(p, "spec.app", o.Spec.App)
	}
	for i, a := range o.Spec.Intent.AllOf {
		path := fmt.Sprintf("spec.intent.allOf[%d]", i)
		if len(a.AnyOf) == 0 {
			a.validate(p, path)
			continue
		}
		if a.Clusters != (Clusters{}) {
			p.Add(path, "anyOf cannot be combined with clusterProvider, cluster or clusterLabel")
		}
		for j, c := range a.AnyOf {
			c.validate(p, fmt.Sprintf("%s.anyOf[%d]", path, j))
		}
	}
	for i, c := range o.Spec.Intent.AnyOf {
		c.validate(p, fmt.Sprintf("spec.intent.anyOf[%d]", i))
	}
}

func (c Clusters) validate(p *fail.Problems, path string) {
	if c.ClusterProvider == "" {
		p.Add(path+".clusterProvider", "Missing clusterProvider in an intent")
	} else {
		CheckName(p, path+".clusterProvider", c.ClusterProvider)
	}
	switch {
	case c.Cluster == "" && c.ClusterLabel == "":
		p.Add(path, "Missing cluster or clusterLabel")
	case c.Cluster != "" && c.ClusterLabel != "":
		p.Add(path, "Only one of cluster name or cluster label allowed")
	case c.Cluster != "":
		CheckName(p, path+".cluster", c.Cluster)
	default:
		CheckName(p, path+".clusterLabel", c.ClusterLabel)
	}
}

// Selection is one of the places of an intent where clusters are selected.
type Selection struct {
	Path string // of the member
	Clusters
}

// Selections are all of them.
func (o *AppIntent) Selections() []Selection {
	var all []Selection
	for i, a := range o.Spec.Intent.AllOf {
		path := fmt.Sprintf("spec.intent.allOf[%d]", i)
		if len(a.AnyOf) == 0 {
			all = append(all, Selection{path, a.Clusters})
		}
		for j, c := range a.AnyOf {
			all = append(all, Selection{fmt.Sprintf("%s.anyOf[%d]", path, j), c})
		}
	}
	for i, c := range o.Spec.Intent.AnyOf {
		all = append(all, Selection{fmt.Sprintf("spec.intent.anyOf[%d]", i), c})
	}
	return all
}

// References are the app and every cluster named; a label need not match anything.
func (o *AppIntent) References() []Reference {
	refs := []Reference{{"spec.app", Apps, compositeAppOf(o.Parent).Child(Apps.Collection, o.Spec.App)}}
	for _, c := range o.Selections() {
		if c.Cluster != "" {
			refs = append(refs, Reference{c.Path + ".cluster", ClustersNoun, ClusterName{Provider: c.ClusterProvider, Name: c.Cluster}.Key()})
		}
	}
	return refs
}
