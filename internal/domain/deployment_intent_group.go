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
	Metadata `json:"metadata" api:"required"`
	Spec     DeploymentIntentGroupSpec `json:"spec" api:"required"`
	History  History                   `json:"-" bson:"history"`
	// ChangedBy are those who changed it, or an intent of it, since it was last approved, as far as that was proven.
	ChangedBy []string `json:"-" bson:"changedBy,omitempty"`
	// Reviewing are those of them whose changes an operation is to take in that somebody else has asked for. They count until it has.
	Reviewing []string `json:"-" bson:"reviewing,omitempty"`
	// Review is what has made them so, of several that go on the one that began last: it has seen them all.
	Review string `json:"-" bson:"review,omitempty"`
}

// DeploymentIntentGroupSpec says what is deployed with which values, and where. Its members have EMCO's order.
type DeploymentIntentGroupSpec struct {
	CompositeProfile string           `json:"compositeProfile" api:"required"` // the composite profile with which the apps are rendered
	Version          string           `json:"version" api:"required"`          // the Helm release name
	OverrideValues   []OverrideValues `json:"overrideValues"`                  // values that go over those of charts and profiles
	LogicalCloud     string           `json:"logicalCloud" api:"required"`     // the logical cloud in which the apps run
}

// OverrideValues are set on one app's chart as with Helm's --set.
type OverrideValues struct {
	App    string            `json:"app" api:"required"`    // the app
	Values map[string]string `json:"values" api:"required"` // keys as with Helm's --set, to values of at most 128 characters; one value for a key of an app
}

// DeploymentIntentGroups is the noun.
var DeploymentIntentGroups = &Noun{
	Kind: "deployment-intent-groups", Title: "deployment intent group", Collection: "deployment-intent-groups", Names: []string{"deploymentIntentGroup"},
	Parent: CompositeApps, New: func() Object { return &DeploymentIntentGroup{} },
	Owner: &OwnerKind{
		ID:    "{project}/{compositeApp}/{compositeAppVersion}/{deploymentIntentGroup}",
		Label: "{project} / {compositeApp} / {compositeAppVersion} / {deploymentIntentGroup}", Name: "{deploymentIntentGroup}",
		Attributes: []Attribute{{"DroverProject", "{project}"}, {"DroverCompositeApp", "{compositeApp}/{compositeAppVersion}"}, {"DroverGroup", "{deploymentIntentGroup}"}},
		Operations: []OwnerOperation{
			{Operation: OpApprove, Summary: "Approve a deployment intent group", About: "It is rendered and placed, and nothing is done in any cluster; what cannot be rendered is refused with the reason."},
			{Operation: OpInstantiate, Summary: "Instantiate a deployment intent group", About: "An approved group is rendered, placed and applied in its clusters. The answer comes when it is accepted: follow it with status."},
			{Operation: OpTerminate, Summary: "Terminate a deployment intent group", About: "What it has in its clusters is deleted. The answer comes when it is accepted: follow it with status."},
			{Operation: OpStop, Summary: "Stop the running operation of a deployment intent group", About: "What has been done stays; terminate takes it out."},
			{Operation: OpUpdate, Summary: "Bring the instance of a deployment intent group in line with its intents, profiles and apps", About: "What is not wanted any more is pruned. The answer is the revision that the instance has then."},
			{Operation: OpRollback, Summary: "Bring the instance of a deployment intent group back to a revision", About: "Revisions count from 1 since the last instantiate, and from 0 in a group that has taken over by a migrate; the rollback makes a new one."},
			{Operation: OpMigrate, Summary: "Hand the instance of a deployment intent group over to a group of another composite app version", About: "What both groups have stays in its clusters and is updated; the rest is applied or pruned. The other group must be approved."},
		},
	},
}

// Noun is DeploymentIntentGroups.
func (d *DeploymentIntentGroup) Noun() *Noun { return DeploymentIntentGroups }

// Track is the history.
func (d *DeploymentIntentGroup) Track() *History { return &d.History }

// maxChangers bounds how many of those who changed a group are known by name. ManyChangers follows them when there are more.
const (
	maxChangers  = 64
	ManyChangers = "many others"
)

// NoteChange notes that somebody has changed the group, or an intent of it, and says whether that was not known; "" is nobody.
// Approving the group forgets it.
func (d *DeploymentIntentGroup) NoteChange(by string) bool {
	if by == "" || slices.Contains(d.ChangedBy, by) || slices.Contains(d.ChangedBy, ManyChangers) {
		return false
	}
	if len(d.ChangedBy) >= maxChangers {
		by = ManyChangers
	}
	d.ChangedBy = append(slices.Clip(d.ChangedBy), by)
	return true
}

// Project is the name of the project that the group belongs to.
func (d *DeploymentIntentGroup) Project() Key {
	project, _ := Projects.Above(d.Parent)
	return project
}

// Changers are all whose changes nobody else has approved, or taken in.
func (d *DeploymentIntentGroup) Changers() []string {
	all := slices.Clone(d.Reviewing)
	for _, by := range d.ChangedBy {
		if !slices.Contains(all, by) {
			all = append(all, by)
		}
	}
	return all
}

// CompositeAppVersion is the version of the composite app that a group belongs to; false for another key.
func CompositeAppVersion(group Key) (version string, ok bool) {
	names, ok := DeploymentIntentGroups.Split(group)
	return names["compositeAppVersion"], ok
}

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
	type set struct{ app, key string }
	first := map[set]int{} // which entry has a value for a key
	for i, o := range d.Spec.OverrideValues {
		path := fmt.Sprintf("spec.overrideValues[%d]", i)
		CheckName(p, path+".app", o.App)
		if o.Values == nil {
			p.Add(path+".values", "Invalid type. Expected: object, given: null")
		}
		for _, k := range slices.Sorted(maps.Keys(o.Values)) {
			CheckLength(p, path+".values["+k+"]", o.Values[k], 128)
			if before, found := first[set{o.App, k}]; !found {
				first[set{o.App, k}] = i
			} else if d.Spec.OverrideValues[before].Values[k] != o.Values[k] { // in groups that were stored before, the last one counts
				p.Add(path+".values["+k+"]", "spec.overrideValues[%d] has another value for this key of app %q", before, o.App)
			}
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

// SameInstance says whether an instance of the group can become one of next by an update: what decides the
// names and the namespace of its resources must stay.
func (d *DeploymentIntentGroup) SameInstance(next *DeploymentIntentGroup) bool {
	return d.Spec.Version == next.Spec.Version && d.Spec.LogicalCloud == next.Spec.LogicalCloud
}

// SaysTheSame says whether an instance of the group is one of next as it is.
func (d *DeploymentIntentGroup) SaysTheSame(next *DeploymentIntentGroup) bool {
	return d.SameInstance(next) && d.Spec.CompositeProfile == next.Spec.CompositeProfile &&
		slices.EqualFunc(d.Spec.OverrideValues, next.Spec.OverrideValues, func(a, b OverrideValues) bool { return a.App == b.App && maps.Equal(a.Values, b.Values) })
}

// Fill has a group that says nothing of override values have none.
func (d *DeploymentIntentGroup) Fill() {
	if d.Spec.OverrideValues == nil {
		d.Spec.OverrideValues = []OverrideValues{}
	}
}

// Decide is the table of reference 2.3 (seeds: a change of an approved group sets it back to Created).
func (d *DeploymentIntentGroup) Decide(c ContextStatus, op Operation) (Transition, error) {
	name, s := d.Name, d.History.State()
	refuse := func(format string, args ...any) (Transition, error) {
		return Transition{}, fail.New(fail.Conflict, "deployment intent group %q cannot %s in state %s%s: "+format,
			append([]any{name, op, s, ofContext(c)}, args...)...)
	}
	busy := c.InProgress()
	stopping := s == InstantiateStopped && c == ContextInstantiating || s == TerminateStopped && c == ContextTerminating
	wait := func(until string) (Transition, error) {
		if stopping { // by another stop it would end no sooner
			return refuse("wait until the stop has ended")
		}
		return refuse("wait until %s, or stop it", until)
	}
	switch op {
	case OpApprove:
		switch {
		case s == Approved:
			return Transition{To: Approved, Same: true}, nil
		case s == Created && c != ContextTerminating, s == Terminated && !busy:
			return Transition{To: Approved}, nil
		case s == Updated:
			return Transition{To: Approved}, nil
		case s == Created, s == Terminated:
			return wait("it is terminated")
		case s == Instantiated, s == InstantiateStopped:
			return refuse("it has already been instantiated; update it, or terminate it first")
		case stopping:
			return refuse("wait until the stop has ended, then instantiate or terminate it instead")
		default:
			return refuse("instantiate or terminate it instead")
		}
	case OpInstantiate:
		switch {
		case s == Created, s == Updated:
			return refuse("it must be approved before instantiating")
		case s == Instantiated:
			return refuse("it has already been instantiated; update it, or terminate it first")
		case s == InstantiateStopped:
			return refuse("terminate it first")
		case busy:
			return wait("the last operation has ended")
		default:
			return Transition{To: Instantiated, Revision: 1}, nil
		}
	case OpTerminate:
		switch {
		case s == Instantiated, s == InstantiateStopped:
			return Transition{To: Terminated}, nil
		case s == Updated:
			return refuse(migrated)
		// EMCO has no way to finish a termination that failed or was stopped; leftovers would stay for ever.
		// Nor to end an instantiate that goes on after its terminate was ended by hand. What is wanted next does not matter.
		case c == ContextTerminateFailed, c == ContextInstantiating:
			return Transition{To: Terminated}, nil
		case stopping:
			return refuse("wait until the stop has ended, then terminate it again")
		case s == Terminated && busy, c == ContextTerminating && s != TerminateStopped:
			return refuse("it is already being terminated")
		case s == Terminated:
			return refuse("it is already terminated")
		default:
			return refuse("it is not instantiated")
		}
	case OpUpdate, OpRollback, OpMigrate:
		switch {
		case s == Updated:
			return refuse(migrated)
		case s != Instantiated && s != InstantiateStopped:
			return refuse("it is not instantiated")
		case busy:
			return wait("the last operation has ended")
		case op == OpMigrate:
			return Transition{To: Updated}, nil
		default:
			return Transition{To: Instantiated, Revision: d.History.Revision() + 1, Leaves: true}, nil
		}
	case OpReceive:
		switch {
		case s != Approved:
			return refuse("it is not approved")
		case busy:
			return wait("the last operation has ended")
		case c == ContextTerminateFailed: // nothing could name what is left once the group has another context
			return refuse("it has left something in clusters; terminate it first")
		default:
			return Transition{To: Instantiated}, nil
		}
	case OpStop:
		switch {
		case s == Instantiated && c == ContextInstantiating:
			return Transition{To: InstantiateStopped}, nil
		case s == Terminated && c == ContextTerminating:
			return Transition{To: TerminateStopped}, nil
		case (s == InstantiateStopped || s == TerminateStopped) && busy:
			return Transition{To: s, Same: true}, nil
		// An approval or a change that comes while a terminate is asked for again is recorded before that begins.
		case (s == Created || s == Approved) && c == ContextTerminating:
			return Transition{To: s, Same: true}, nil
		case s == InstantiateStopped, s == TerminateStopped:
			return refuse("it is already stopped")
		default:
			return refuse("it is not instantiating or terminating")
		}
	case OpChange, OpChangeBelow:
		switch {
		case s == Instantiated, s == InstantiateStopped: // the instance has its own plan; an update takes it over
			return Transition{To: s, Same: true}, nil
		// A terminate goes by the instance's plan, too: only what the group itself says is held, such as its logical cloud.
		case busy && (op == OpChange || s == Updated):
			return wait("it is terminated")
		case s == Created:
			return Transition{To: Created, Same: true}, nil
		default:
			return Transition{To: Created}, nil
		}
	case OpDelete:
		switch {
		case s == Instantiated, s == InstantiateStopped:
			return refuse("it is instantiated; terminate it first")
		case busy:
			return wait("it is terminated")
		default:
			return Transition{To: s, Same: true}, nil
		}
	default:
		return Transition{}, fail.New(fail.Internal, "unknown operation %q", op)
	}
}

const migrated = "its instance belongs to the deployment intent group that it was migrated to"

func ofContext(c ContextStatus) string {
	if c == ContextNone {
		return ""
	}
	return " (" + string(c) + ")"
}
