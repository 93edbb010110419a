package domain

// App is one Helm chart of a composite app.
type App struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Chart    Digest `json:"-" bson:"chart"` // blob: the tgz as it was sent
}

// Apps is the noun.
var Apps = &Noun{
	Kind: "apps", Title: "app", Collection: "apps", Names: []string{"app"},
	Parent: CompositeApps, New: func() Object { return &App{} }, File: true, Ordered: true,
}

// Noun is Apps.
func (*App) Noun() *Noun { return Apps }
