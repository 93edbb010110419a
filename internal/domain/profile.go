package domain

import "github.com/drover-io/drover/internal/fail"

// Profile customises one app: values and files put over its chart.
type Profile struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     ProfileSpec `json:"spec" api:"required"`
	Archive  Digest      `json:"-" bson:"archive"` // blob: the tgz as it was sent; "" for none
	Stay     bool        `json:"-" bson:"-"`       // the archive that was stored before stays, as none has come in its place
	// Remarks are what the user should know of the archive that was accepted.
	Remarks []string `json:"-" bson:"-"`
}

// ProfileSpec names the app.
type ProfileSpec struct {
	App string `json:"app" api:"required"` // the app that is customised
}

// Profiles is the noun.
var Profiles = &Noun{
	Kind: "profiles", Title: "profile", Collection: "profiles", Names: []string{"profile"},
	Parent: CompositeProfiles, New: func() Object { return &Profile{} }, File: true,
}

// Noun is Profiles.
func (*Profile) Noun() *Noun { return Profiles }

// Validate checks the body.
func (o *Profile) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	CheckName(p, "spec.app", o.Spec.App)
}

// References is the app.
func (o *Profile) References() []Reference {
	return []Reference{{"spec.app", Apps, compositeAppOf(o.Parent).Child(Apps.Collection, o.Spec.App)}}
}

// compositeAppOf cuts the key of anything below a composite app down to the composite app's.
func compositeAppOf(k Key) Key {
	composite, _ := CompositeApps.Above(k)
	return composite
}
