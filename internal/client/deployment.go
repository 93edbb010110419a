package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
)

// App is one app of a Deployment.
type App struct {
	Name           string
	Chart, Profile []byte // tgz
	Intent         domain.Placement
	Overrides      map[string]string
}

// Deployment is all that a user says of one deployment intent group, in the order of the API's calls, and the API to which
// it is said.
type Deployment struct {
	API *API

	Project, CompositeApp, Version, Profile, LogicalCloud, Group, Release string
	Apps                                                                  []App
	Clusters                                                              []domain.ClusterName // references of the logical cloud
}

// ProjectKey is the key of the project.
func (d *Deployment) ProjectKey() domain.Key {
	return domain.Join(domain.Projects.Collection, d.Project)
}

// CloudKey is the key of the logical cloud.
func (d *Deployment) CloudKey() domain.Key {
	return d.ProjectKey().Child(domain.LogicalClouds.Collection, d.LogicalCloud)
}

// CompositeAppKey is the key of the composite app.
func (d *Deployment) CompositeAppKey() domain.Key {
	return d.ProjectKey().Child(domain.CompositeApps.Collection, d.CompositeApp, d.Version)
}

// ProfileKey is the key of the composite profile.
func (d *Deployment) ProfileKey() domain.Key {
	return d.CompositeAppKey().Child(domain.CompositeProfiles.Collection, d.Profile)
}

// Key is the key of the deployment intent group.
func (d *Deployment) Key() domain.Key {
	return d.CompositeAppKey().Child(domain.DeploymentIntentGroups.Collection, d.Group)
}

// PlacementKey is the key of the generic placement intent.
func (d *Deployment) PlacementKey() domain.Key {
	return d.Key().Child(domain.PlacementIntents.Collection, "placement")
}

// AppOf is the app of a name as the API has it.
func (d *Deployment) AppOf(name string) *domain.App {
	return &domain.App{Identity: below(d.CompositeAppKey()), Metadata: named(name)}
}

// ProfileOf is the profile of an app.
func (d *Deployment) ProfileOf(app string) *domain.Profile {
	return &domain.Profile{Identity: below(d.ProfileKey()), Metadata: named(nameOf(app, "-profile")), Spec: domain.ProfileSpec{App: app}}
}

// PlacementOf says where an app goes.
func (d *Deployment) PlacementOf(app string, where domain.Placement) *domain.AppIntent {
	return &domain.AppIntent{
		Identity: below(d.PlacementKey()), Metadata: domain.AppIntentMetadata{Name: nameOf(app, "-placement")},
		Spec: domain.AppIntentSpec{App: app, Intent: where},
	}
}

func below(parent domain.Key) domain.Identity { return domain.Identity{Parent: parent} }

func named(name string) domain.Metadata { return domain.Metadata{Name: name} }

// Create makes the project, the admin logical cloud, the composite app and the group with its intents;
// report, when not nil, is called before each step.
func (d *Deployment) Create(ctx context.Context, report func(what string)) error {
	return d.API.Run(ctx, append(d.CloudSteps(), d.GroupSteps()...), report)
}

// Step is one call: what is to be created, with its file if it has one, or the owner that is to be instantiated.
type Step struct {
	Object      domain.Object
	File        []byte
	Instantiate domain.Key // when there is no Object
}

func (s *Step) what() string {
	if s.Object == nil {
		return "instantiate " + domain.OwnerNoun(s.Instantiate).Title
	}
	return s.Object.Noun().Title + " " + s.Object.LocalName()
}

// Run makes the calls one after the other; report, when not nil, is called before each.
func (a *API) Run(ctx context.Context, steps []Step, report func(what string)) error {
	for _, s := range steps {
		if report != nil {
			report(s.what())
		}
		var err error
		if s.Object != nil {
			_, err = a.Create(ctx, s.Object, s.File)
		} else {
			_, err = a.Operate(ctx, s.Instantiate, domain.OpInstantiate)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.what(), err)
		}
	}
	return nil
}

// CloudSteps make the project and its admin logical cloud, instantiated.
func (d *Deployment) CloudSteps() []Step {
	steps := []Step{
		{Object: &domain.Project{Metadata: named(d.Project)}},
		{Object: &domain.LogicalCloud{Identity: below(d.ProjectKey()), Metadata: named(d.LogicalCloud), Spec: domain.LogicalCloudSpec{Level: "0"}}},
	}
	has := map[string]domain.ClusterName{}
	for _, k := range d.Clusters {
		name := ReferenceName(k, func(name string) bool { of, taken := has[name]; return taken && of != k })
		has[name] = k
		steps = append(steps, Step{Object: &domain.ClusterReference{
			Identity: below(d.CloudKey()), Metadata: named(name), Spec: domain.ClusterReferenceSpec{ClusterProvider: k.Provider, Cluster: k.Name},
		}})
	}
	return append(steps, Step{Instantiate: d.CloudKey()})
}

// ReferenceName is what a reference to a cluster is called in a logical cloud: by both names, and where another cluster's has that one, as edge/eu-1 and
// edge-eu/1 would, or both together are too long, with a digest of them behind it.
func ReferenceName(k domain.ClusterName, taken func(name string) bool) string {
	name := k.Provider + "-" + k.Name
	if len(name) > domain.MaxName || taken(name) {
		name = cut(name, k.String(), domain.MaxName)
	}
	return name
}

// nameOf is how something of an app is called: by the app's name and what it is, and by a part of the name where that is too long.
func nameOf(app, what string) string {
	if len(app)+len(what) > domain.MaxName {
		app = cut(app, app, domain.MaxName-len(what))
	}
	return app + what
}

// cut is a name of so many bytes at most, with a digest of what it stands for in place of the rest.
func cut(name, whole string, most int) string {
	sum := sha256.Sum256([]byte(whole))
	digest := "-" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), most-len(digest))] + digest
}

// GroupSteps make the composite app, its profiles and the group with its intents.
func (d *Deployment) GroupSteps() []Step {
	steps := []Step{{Object: &domain.CompositeApp{
		Identity: below(d.ProjectKey()), Metadata: named(d.CompositeApp), Spec: domain.CompositeAppSpec{Version: d.Version},
	}}}
	for _, a := range d.Apps {
		steps = append(steps, Step{Object: d.AppOf(a.Name), File: a.Chart})
	}
	steps = append(steps, Step{Object: &domain.CompositeProfile{Identity: below(d.CompositeAppKey()), Metadata: named(d.Profile)}})
	for _, a := range d.Apps {
		steps = append(steps, Step{Object: d.ProfileOf(a.Name), File: a.Profile})
	}
	return append(steps, d.IntentSteps()...)
}

// IntentSteps make the group with its intents.
func (d *Deployment) IntentSteps() []Step {
	overrides := []domain.OverrideValues{}
	for _, a := range d.Apps {
		if len(a.Overrides) > 0 {
			overrides = append(overrides, domain.OverrideValues{App: a.Name, Values: a.Overrides})
		}
	}
	steps := []Step{
		{Object: &domain.DeploymentIntentGroup{
			Identity: below(d.CompositeAppKey()), Metadata: named(d.Group), Spec: domain.DeploymentIntentGroupSpec{
				CompositeProfile: d.Profile, Version: d.Release, LogicalCloud: d.LogicalCloud, OverrideValues: overrides,
			},
		}},
		{Object: &domain.DeploymentIntent{
			Identity: below(d.Key()), Metadata: named("intent"),
			Spec: domain.DeploymentIntentSpec{Intent: map[string]string{"genericPlacementIntent": d.PlacementKey().Name()}},
		}},
		{Object: &domain.PlacementIntent{Identity: below(d.Key()), Metadata: named(d.PlacementKey().Name())}},
	}
	for _, a := range d.Apps {
		steps = append(steps, Step{Object: d.PlacementOf(a.Name, a.Intent)})
	}
	return steps
}

// Do asks an operation that needs nothing to be said with it: approve, instantiate, terminate, stop, update.
func (d *Deployment) Do(ctx context.Context, operation domain.Operation) error {
	_, err := d.API.Operate(ctx, d.Key(), operation)
	return err
}

// Status asks where the group stands; otherwise as API.Status.
func (d *Deployment) Status(ctx context.Context, query url.Values) (*status.Document, error) {
	return d.API.Status(ctx, d.Key(), query)
}

// Summary is the status without what stands in single clusters.
func (d *Deployment) Summary(ctx context.Context) (*status.Document, error) {
	return d.Status(ctx, url.Values{"output": {"summary"}})
}

// Wait polls the summary until done says so or ctx ends, and returns the last one seen.
func (d *Deployment) Wait(ctx context.Context, every time.Duration, done func(*status.Document) bool) (*status.Document, error) {
	t := time.NewTicker(every)
	defer t.Stop()
	var last *status.Document
	for {
		s, err := d.Summary(ctx)
		if err == nil {
			if last = s; done(s) {
				return s, nil
			}
		}
		select {
		case <-ctx.Done():
			return last, fmt.Errorf("wait for %s: %w (last status %+v)", d.Group, errors.Join(context.Cause(ctx), err), last)
		case <-t.C:
		}
	}
}

// Register makes the provider and registers its clusters, with labels if any.
func (a *API) Register(ctx context.Context, provider string, kubeconfigs map[string][]byte, names, labels []string, report func(string)) error {
	steps := []Step{{Object: &domain.ClusterProvider{Metadata: named(provider)}}}
	for _, name := range names {
		c := &domain.Cluster{Identity: below(domain.Join(domain.ClusterProviders.Collection, provider)), Metadata: named(name)}
		steps = append(steps, Step{Object: c, File: kubeconfigs[name]})
		for _, label := range labels {
			steps = append(steps, Step{Object: &domain.ClusterLabel{Identity: below(domain.KeyOf(c)), Label: label}})
		}
	}
	return a.Run(ctx, steps, report)
}
