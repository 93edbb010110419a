package domain

// Project is the outermost grouping of a user's work.
type Project struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
}

// Projects is the noun.
var Projects = &Noun{
	Kind: "projects", Title: "project", Collection: "projects", Names: []string{"project"},
	New: func() Object { return &Project{} }, Bounds: true,
}

// Noun is Projects.
func (*Project) Noun() *Noun { return Projects }
