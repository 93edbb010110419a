package domain

// CompositeProfile groups the profiles of a composite app's apps.
type CompositeProfile struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
}

// CompositeProfiles is the noun.
var CompositeProfiles = &Noun{
	Kind: "composite-profiles", Title: "composite profile", Collection: "composite-profiles", Names: []string{"compositeProfile"},
	Parent: CompositeApps, New: func() Object { return &CompositeProfile{} },
}

// Noun is CompositeProfiles.
func (*CompositeProfile) Noun() *Noun { return CompositeProfiles }
