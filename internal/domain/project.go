package domain

// Project is the outermost grouping of a user's work.
type Project struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     *ProjectSpec `json:"spec,omitempty"` // EMCO's projects have none
}

// ProjectSpec is what a project asks for.
type ProjectSpec struct {
	// true: who has changed a deployment intent group, or an intent of it, since it was last approved may not approve it
	FourEyes bool `json:"fourEyes"`
}

// FourEyes says whether groups of the project are approved by others than those who changed them.
func (p *Project) FourEyes() bool { return p.Spec != nil && p.Spec.FourEyes }

// Projects is the noun.
var Projects = &Noun{
	Kind: "projects", Title: "project", Collection: "projects", Names: []string{"project"},
	New: func() Object { return &Project{} }, Bounds: true,
}

// Noun is Projects.
func (*Project) Noun() *Noun { return Projects }
