package domain

import "github.com/drover-io/drover/internal/fail"

// CompositeApp is one version of a set of apps that belong together. Its path has two segments, name and
// version.
type CompositeApp struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     CompositeAppSpec `json:"spec" api:"required"`
}

// CompositeAppSpec holds the version.
type CompositeAppSpec struct {
	Version string `json:"compositeAppVersion" api:"required"` // the version, part of the path
}

// CompositeApps is the noun.
var CompositeApps = &Noun{
	Kind: "composite-apps", Title: "composite app", Collection: "composite-apps", Names: []string{"compositeApp", "compositeAppVersion"},
	Parent: Projects, New: func() Object { return &CompositeApp{} },
}

// Noun is CompositeApps.
func (*CompositeApp) Noun() *Noun { return CompositeApps }

// LocalName is name and version.
func (c *CompositeApp) LocalName() string { return c.Name + "/" + c.Spec.Version }

// Validate checks the body.
func (c *CompositeApp) Validate(p *fail.Problems) {
	c.Metadata.Validate(p)
	CheckName(p, "spec.compositeAppVersion", c.Spec.Version)
}
