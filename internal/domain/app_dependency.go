package domain

import (
	"strings"

	"github.com/drover-io/drover/internal/fail"
)

// AppDependency makes an app wait for another one of its composite app when it is instantiated.
type AppDependency struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     AppDependencySpec `json:"spec" api:"required"`
}

// AppDependencySpec says for what is waited.
type AppDependencySpec struct {
	App string `json:"app" api:"required"` // the app of the same composite app that is waited for
	// Deployed: all its resources are applied; Ready: they do their work; in any case of letters
	OpStatus string `json:"opStatus" api:"required,enum=Deployed;Ready"`
	Wait     int    `json:"wait,omitempty"` // how many seconds longer, after the status was reached: 0 to 4096
}

// What an app can be waited for. Deployed: all its resources are Applied on all its clusters; Ready: they do
// their work there.
const (
	UntilDeployed = "Deployed"
	UntilReady    = "Ready"
)

// MaxDependencyWait is the longest wait, in seconds (EMCO's schema).
const MaxDependencyWait = 4096

// AppDependencies is the noun.
var AppDependencies = &Noun{
	Kind: "app-dependencies", Title: "app dependency", Collection: "dependency", Names: []string{"dependency"},
	Parent: Apps, New: func() Object { return &AppDependency{} },
}

// Noun is AppDependencies.
func (*AppDependency) Noun() *Noun { return AppDependencies }

// Validate checks the body.
func (o *AppDependency) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	CheckName(p, "spec.app", o.Spec.App)
	switch {
	case o.Spec.OpStatus == "":
		p.Add("spec.opStatus", "is required")
	case !strings.EqualFold(o.Spec.OpStatus, UntilDeployed) && !strings.EqualFold(o.Spec.OpStatus, UntilReady):
		p.Add("spec.opStatus", "must be %s or %s", UntilDeployed, UntilReady)
	}
	switch {
	case o.Spec.Wait < 0:
		p.Add("spec.wait", "Must be greater than or equal to 0")
	case o.Spec.Wait > MaxDependencyWait:
		p.Add("spec.wait", "Must be less than or equal to %d", MaxDependencyWait)
	}
}

// References is the app that is waited for.
func (o *AppDependency) References() []Reference {
	return []Reference{{"spec.app", Apps, compositeAppOf(o.Parent).Child(Apps.Collection, o.Spec.App)}}
}

// Ready says whether the app is waited for until it is Ready, rather than Deployed.
func (o *AppDependency) Ready() bool { return strings.EqualFold(o.Spec.OpStatus, UntilReady) }
