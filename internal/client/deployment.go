package client

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// M is a JSON object.
type M = map[string]any

// Named is a body of metadata alone, with a spec when one is given.
func Named(name string, spec ...any) M {
	m := M{"metadata": M{"name": name}}
	if len(spec) > 0 {
		m["spec"] = spec[0]
	}
	return m
}

// App is one app of a Deployment.
type App struct {
	Name           string
	Chart, Profile []byte // tgz
	Intent         any    // the placement: {"allOf": …, "anyOf": …}
	Overrides      map[string]string
}

// Deployment is all that a user says of one deployment intent group, in the order of the API's calls.
type Deployment struct {
	Project, CompositeApp, Version, Profile, LogicalCloud, Group, Release string
	Apps                                                                  []App
	Clusters                                                              []Cluster // references of the logical cloud
}

// Cluster names a registered cluster.
type Cluster struct{ Provider, Name string }

// CompositeAppPath is the path of the composite app.
func (d *Deployment) CompositeAppPath() string {
	return fmt.Sprintf("/projects/%s/composite-apps/%s/%s", d.Project, d.CompositeApp, d.Version)
}

// Path is the path of the deployment intent group.
func (d *Deployment) Path() string {
	return d.CompositeAppPath() + "/deployment-intent-groups/" + d.Group
}

// Create makes the project, the admin logical cloud, the composite app and the group with its intents;
// report, when not nil, is called before each step.
func (d *Deployment) Create(ctx context.Context, c *Client, report func(what string)) error {
	return Run(ctx, c, append(d.CloudSteps(), d.GroupSteps()...), report)
}

// Step is one call.
type Step struct {
	What, Path string
	Body       any
	File       []byte
}

// Run makes the calls one after the other; report, when not nil, is called before each.
func Run(ctx context.Context, c *Client, steps []Step, report func(what string)) error {
	for _, s := range steps {
		if report != nil {
			report(s.What)
		}
		var err error
		if s.File != nil {
			_, err = c.PostFile(ctx, s.Path, s.Body, s.File)
		} else {
			_, err = c.Post(ctx, s.Path, s.Body)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.What, err)
		}
	}
	return nil
}

// CloudSteps make the project and its admin logical cloud, instantiated.
func (d *Deployment) CloudSteps() []Step {
	clouds := "/projects/" + d.Project + "/logical-clouds"
	cloud := clouds + "/" + d.LogicalCloud
	steps := []Step{
		{What: "project " + d.Project, Path: "/projects", Body: Named(d.Project)},
		{What: "logical cloud " + d.LogicalCloud, Path: clouds, Body: Named(d.LogicalCloud, M{"level": "0"})},
	}
	for _, k := range d.Clusters {
		steps = append(steps, Step{
			What: "reference to cluster " + k.Name, Path: cloud + "/cluster-references",
			Body: Named(k.Provider+"-"+k.Name, M{"clusterProvider": k.Provider, "cluster": k.Name}),
		})
	}
	return append(steps, Step{What: "instantiate logical cloud", Path: cloud + "/instantiate"})
}

// GroupSteps make the composite app, its profiles and the group with its intents.
func (d *Deployment) GroupSteps() []Step {
	app, profiles := d.CompositeAppPath(), d.CompositeAppPath()+"/composite-profiles"
	steps := []Step{{
		What: "composite app " + d.CompositeApp + " " + d.Version, Path: "/projects/" + d.Project + "/composite-apps",
		Body: Named(d.CompositeApp, M{"compositeAppVersion": d.Version}),
	}}
	overrides := []M{}
	for _, a := range d.Apps {
		steps = append(steps, Step{What: "app " + a.Name, Path: app + "/apps", Body: Named(a.Name), File: a.Chart})
		if len(a.Overrides) > 0 {
			overrides = append(overrides, M{"app": a.Name, "values": a.Overrides})
		}
	}
	steps = append(steps, Step{What: "composite profile " + d.Profile, Path: profiles, Body: Named(d.Profile)})
	for _, a := range d.Apps {
		steps = append(steps, Step{
			What: "profile of app " + a.Name, Path: profiles + "/" + d.Profile + "/profiles",
			Body: Named(a.Name+"-profile", M{"app": a.Name}), File: a.Profile,
		})
	}
	steps = append(steps,
		Step{What: "deployment intent group " + d.Group, Path: app + "/deployment-intent-groups", Body: Named(d.Group, M{
			"compositeProfile": d.Profile, "version": d.Release, "logicalCloud": d.LogicalCloud, "overrideValues": overrides,
		})},
		Step{What: "intent", Path: d.Path() + "/intents", Body: Named("intent", M{"intent": M{"genericPlacementIntent": "placement"}})},
		Step{What: "generic placement intent", Path: d.Path() + "/generic-placement-intents", Body: Named("placement")},
	)
	for _, a := range d.Apps {
		steps = append(steps, Step{
			What: "placement of app " + a.Name, Path: d.Path() + "/generic-placement-intents/placement/app-intents",
			Body: Named(a.Name+"-placement", M{"app": a.Name, "intent": a.Intent}),
		})
	}
	return steps
}

// Do posts a lifecycle operation without a body: approve, instantiate, terminate, stop, update.
func (d *Deployment) Do(ctx context.Context, c *Client, operation string) error {
	_, err := c.Post(ctx, d.Path()+"/"+operation, nil)
	return err
}

// Status asks for the status document with the query, such as "output=summary".
func (d *Deployment) Status(ctx context.Context, c *Client, query string) (*Status, error) {
	s := &Status{}
	_, err := c.Get(ctx, d.Path()+"/status?"+query, s)
	return s, err
}

// Wait polls the summary until done says so or ctx ends, and returns the last one seen.
func (d *Deployment) Wait(ctx context.Context, c *Client, every time.Duration, done func(*Status) bool) (*Status, error) {
	t := time.NewTicker(every)
	defer t.Stop()
	var last *Status
	for {
		s, err := d.Status(ctx, c, "output=summary")
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
func Register(ctx context.Context, c *Client, provider string, kubeconfigs map[string][]byte, names, labels []string, report func(string)) error {
	steps := []Step{{What: "cluster provider " + provider, Path: "/cluster-providers", Body: Named(provider)}}
	for _, name := range names {
		clusters := "/cluster-providers/" + provider + "/clusters"
		steps = append(steps, Step{What: "cluster " + name, Path: clusters, Body: Named(name), File: kubeconfigs[name]})
		for _, label := range labels {
			steps = append(steps, Step{What: "label " + label + " of cluster " + name, Path: clusters + "/" + name + "/labels", Body: M{"clusterLabel": label}})
		}
	}
	return Run(ctx, c, steps, report)
}
