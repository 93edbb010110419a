package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/status"
)

// deployFlags are those of deploy.
type deployFlags struct {
	name, version, cloud   string
	cloudNamed             func() bool // says that cloud is given
	clusters, anyOf        []string
	values, set, setString []string
	wait, dryRun           bool
	timeout                time.Duration
	waited                 time.Duration // in all, of the timeout
}

// What deploy calls what nobody has named.
const (
	defaultProject = "default"
	defaultCloud   = "default"
	profileName    = "values"
)

// deploy is the command deploy.
func (s *session) deploy() *cobra.Command {
	f := &deployFlags{}
	c := &cobra.Command{
		Use: "deploy CHART --name NAME --clusters WHICH", Short: "Put a Helm chart onto clusters: make what is missing, approve, instantiate",
		Long: `Put a Helm chart, a folder or a tgz, onto clusters. What is missing is made: the project, a logical cloud of level 0 with the clusters,
a composite app with the chart, a profile with the values, a group with its placement; then the group is approved and
instantiated. A second run makes of it what is said then: it shows the difference and updates. A chart of another name needs
another --name. What was made can be shown, changed and deleted as anything else (get, edit, delete). A logical cloud that is
instantiated is waited for, also without --wait: at level 1 it makes a namespace and a user in each cluster first.

WHICH clusters: a name (edge01, provider+edge01), or a label (label=edge, provider/label=edge) for all that carry it. Of those
of --any-of one is taken.`,
		Example: `  drover deploy ./web --name web --clusters label=edge --wait
  drover deploy web-1.2.tgz --name web --clusters label=edge --set replicas=3 --values prod.yaml --wait
  drover deploy ./web --name web --any-of edge01,edge02`,
		Args: numbered(1, 1, "a chart: a folder or a tgz"),
	}
	c.Flags().StringVar(&f.name, "name", "", "the `name` of the composite app, its group and its release")
	c.Flags().StringVar(&f.version, "app-version", "v1", "the `version` of the composite app")
	c.Flags().StringVar(&f.cloud, "cloud", defaultCloud, "the logical `cloud` to deploy in; what is there already stays in its own")
	f.cloudNamed = func() bool { return c.Flags().Changed("cloud") }
	c.Flags().StringSliceVar(&f.clusters, "clusters", nil, "`which` clusters to deploy on, all of them")
	c.Flags().StringSliceVar(&f.anyOf, "any-of", nil, "`which` clusters to take one of")
	c.Flags().StringSliceVar(&f.values, "values", nil, "a `file` with values of the chart; later files win")
	c.Flags().StringArrayVar(&f.set, "set", nil, "a `value` of the chart, over the files: image.tag=v2")
	c.Flags().StringArrayVar(&f.setString, "set-string", nil, "the same, as text whatever it looks like")
	c.Flags().BoolVar(&f.wait, "wait", false, "wait for the end, and show what is going on")
	c.Flags().DurationVar(&f.timeout, "timeout", defaultWait, "how long to wait, in all, also for a logical cloud without --wait; 0 for as long as it takes")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would be made, and do nothing")
	s.completeFlag(c, "cloud", func(ctx context.Context) []string {
		project, err := s.project(false)
		if err != nil {
			return nil
		}
		return s.completeOf(ctx, domain.LogicalClouds, &where{in: or(project.Name(), defaultProject), all: true})
	})
	s.completeFlag(c, "clusters", s.completeWhich)
	s.completeFlag(c, "any-of", s.completeWhich)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := timed(c, true, ""); err != nil { // the cloud is waited for without --wait, too
			return err
		}
		return s.doDeploy(c.Context(), f, args[0])
	}
	return c
}

func (s *session) doDeploy(ctx context.Context, f *deployFlags, chart string) error {
	switch {
	case f.name == "":
		return usage("--name is needed")
	case len(f.clusters)+len(f.anyOf) == 0:
		return usage("--clusters or --any-of is needed: on which clusters to deploy, such as --clusters label=edge")
	}
	for _, which := range slices.Concat(f.clusters, f.anyOf) {
		if err := checkWhich(which); err != nil {
			return err
		}
	}
	current, err := s.current()
	if err != nil {
		return err
	}
	project := or(current.Project, defaultProject)
	for _, given := range [][3]string{ // else what comes before the wrong one is made
		{"--name", "name", f.name}, {"--app-version", "compositeAppVersion", f.version}, {"--cloud", "logicalCloud", f.cloud}, {"--project", "project", project},
	} {
		if err := checkGiven(given[0], given[1], given[2]); err != nil {
			return err
		}
	}
	if err := chartutil.ValidateReleaseName(f.name); err != nil { // else all is made, and then never approved
		return usage("--name %q is to be the name of a release of Helm, too: %w", f.name, err)
	}
	app, tgz, err := readChart(chart)
	if err != nil {
		return err
	}
	if err := checkGiven(fmt.Sprintf("the app is called as the chart %s is,", chart), "app", app); err != nil {
		return err
	}
	profile, err := f.profile()
	if err != nil {
		return err
	}
	api, err := s.api()
	if err != nil {
		return err
	}
	all, clusters, err := s.selectAll(ctx, api, f.clusters)
	if err != nil {
		return err
	}
	one, more, err := s.selectAll(ctx, api, f.anyOf)
	if err != nil {
		return err
	}
	placement := domain.Placement{AnyOf: one}
	for _, c := range all {
		placement.AllOf = append(placement.AllOf, domain.AllOf{Clusters: c})
	}
	d := &client.Deployment{
		API: api, Project: project, CompositeApp: f.name, Version: f.version, Profile: profileName,
		LogicalCloud: f.cloud, Group: f.name, Release: f.name, Clusters: slices.Concat(clusters, more),
		Apps: []client.App{{Name: app, Chart: tgz, Profile: profile, Intent: placement}},
	}
	if err := sameCloud(ctx, f, d); err != nil {
		return err
	}
	if err := sameApp(ctx, d); err != nil {
		return err
	}
	return s.bringAbout(ctx, api, f, d)
}

// checkGiven refuses what cannot be the name of what nouns call by a word.
func checkGiven(by, called, name string) error {
	var p fail.Problems
	if domain.CheckCalled(&p, called, name); p.Err() != nil {
		return usage("%s %q: %s", by, name, strings.TrimPrefix(p.Err().Error(), "Invalid Input:\n"+called+": "))
	}
	return nil
}

// sameCloud refuses another logical cloud than that of a group that is there, which keeps its own. Where none is named it is that one.
func sameCloud(ctx context.Context, f *deployFlags, d *client.Deployment) error {
	o, err := d.API.Get(ctx, domain.DeploymentIntentGroups, d.Key())
	if fail.Is(err, fail.NotFound) || fail.Is(err, fail.Forbidden) {
		return nil
	}
	if err != nil {
		return err
	}
	has := o.(*domain.DeploymentIntentGroup).Spec.LogicalCloud
	if f.cloudNamed() && has != d.LogicalCloud {
		return fail.New(fail.Conflict, "%s is in the logical cloud %s, and stays there: --cloud %s needs another --name, or the group to be terminated and deleted first", d.Key(), has, d.LogicalCloud)
	}
	d.LogicalCloud = has
	return nil
}

// sameApp refuses a chart of another name than what the composite app has: it would be one app more, and the one before stay in clusters. An app that users
// have put beside that of deploy stays there.
func sameApp(ctx context.Context, d *client.Deployment) error {
	list, err := d.API.List(ctx, domain.Apps, d.CompositeAppKey())
	var left leftOut
	if err = left.keep(err); fail.Is(err, fail.NotFound) || fail.Is(err, fail.Forbidden) {
		return nil
	}
	if err != nil {
		return err
	}
	var names []string
	for _, o := range list {
		names = append(names, o.LocalName())
	}
	app := d.Apps[0].Name
	switch {
	case slices.Contains(names, app):
		return nil
	case left.first != nil: // it may be the one
		return left.first
	case len(names) == 0:
		return nil
	}
	return fail.New(fail.Conflict, "%s has the app %s, and the chart is called %s: it would be one more beside that. To replace it, terminate the group and delete the composite app first "+
		"('drover delete %s --terminate --cascade'), or deploy by another --name or --app-version; to have both, 'drover apply' takes any number of apps",
		d.CompositeAppKey(), few(names), app, d.CompositeAppKey())
}

// bringAbout makes what a deployment says, and then asks for the operation that is due.
func (s *session) bringAbout(ctx context.Context, api *client.API, f *deployFlags, d *client.Deployment) error {
	a := s.applier(api, f.dryRun)
	if err := s.mayDeploy(ctx, a, d); err != nil {
		return err
	}
	further := false // the cloud got a cluster more
	for _, step := range append(d.CloudSteps(), d.GroupSteps()...) {
		if step.Object == nil {
			if err := s.cloudUp(ctx, a, f, d, further); err != nil {
				return err
			}
			continue
		}
		key := domain.KeyOf(step.Object)
		if keeps(step.Object) {
			old, err := a.before(ctx, step.Object)
			if err != nil {
				return err
			}
			if old != nil {
				continue
			}
		}
		if ref, ok := step.Object.(*domain.ClusterReference); ok {
			there, err := a.refers(ctx, ref)
			if err != nil {
				return err
			}
			if there {
				continue
			}
			ref.Name = a.referenceName(ref)
			key, further = domain.KeyOf(ref), true
		}
		done, err := a.put(ctx, step.Object, nil, step.File, nil)
		if err != nil {
			return fmt.Errorf("%s %s: %w", step.Object.Noun().Title, step.Object.LocalName(), err)
		}
		if done != unchanged {
			if f.dryRun {
				done += " (dry run)"
			}
			s.sayf("%s %s", key, done)
		}
	}
	if f.dryRun {
		return s.foretell(ctx, a, d.Key())
	}
	return s.goOn(ctx, api, f, d.Key())
}

// mayDeploy refuses, before anything is made, what the caller may not do to its end. Of a project that is to be made nothing more is asked: who
// may do what in it may come with it. What a cloud needs of its clusters does not. A dry run writes nothing: of a group that is there who may read it may see what
// would become of it.
func (s *session) mayDeploy(ctx context.Context, a *applier, d *client.Deployment) error {
	project := d.ProjectKey()
	missing, newProject := map[domain.Key]bool{}, false
	further, more := false, false // whether the cloud gets a cluster more, and has more than a namespace of its own there
	moved := false                // whether something of the group is written, by which it is approved no more
	var cloud *domain.LogicalCloud
	var needed []right
	need := func(verb string, n *domain.Noun, scope domain.Key) {
		if r := (right{verb, n, scope}); !slices.Contains(needed, r) {
			needed = append(needed, r)
		}
	}
	for _, step := range append(d.CloudSteps(), d.GroupSteps()...) {
		if step.Object == nil {
			continue
		}
		key, n := domain.KeyOf(step.Object), step.Object.Noun()
		is, there := step.Object, !missing[step.Object.Base().Parent]
		if there {
			old, err := a.before(ctx, step.Object)
			if err != nil {
				return err
			}
			if there = old != nil; there {
				is = old
			}
		}
		ref, refers := step.Object.(*domain.ClusterReference)
		if refers && !missing[ref.Parent] { // under whatever name
			var err error
			if there, err = a.refers(ctx, ref); err != nil {
				return err
			}
		}
		if c, ok := is.(*domain.LogicalCloud); ok {
			cloud = c
		}
		if there {
			if keeps(is) || refers || a.dryRun {
				continue
			}
			put := right{"put", n, project}
			replaced, err := s.replaces(ctx, a, &step, is, put)
			if err != nil {
				return err
			}
			if replaced {
				need(put.verb, put.noun, put.scope)
				moved = moved || within(key, d.Key())
			}
			continue
		}
		missing[key] = true
		moved = moved || within(key, d.Key())
		switch {
		case n == domain.Projects:
			newProject = true
			need("create", n, "")
		case !newProject:
			need("create", n, project)
		}
		if refers {
			provider := domain.Join(domain.ClusterProviders.Collection, ref.ClusterName().Provider)
			need(rights.Use, domain.ClustersNoun, provider)
			if !further { // all are of one cloud
				var err error
				if more, err = a.beyond(ctx, cloud, missing[ref.Parent]); err != nil {
					return err
				}
			}
			if more {
				need("put", domain.ClustersNoun, provider)
			}
			further = true
		}
	}
	if !newProject {
		op, err := a.cloudOperation(ctx, cloud, missing[d.CloudKey()], further)
		if err != nil {
			return err
		}
		if op != "" {
			need(string(op), domain.LogicalClouds, project)
		}
	}
	if !newProject && (missing[d.Key()] || !a.dryRun) {
		ops, err := a.groupOperations(ctx, d.Key(), missing[d.Key()], moved)
		if err != nil {
			return err
		}
		for _, op := range ops {
			need(string(op), domain.DeploymentIntentGroups, project)
		}
	}
	return s.needs(ctx, a.api, needed...)
}

// replaces says whether a step is to replace a document that is there, by which right. A file that is all that may differ is compared, as it may be large,
// only for who does not have that right.
func (s *session) replaces(ctx context.Context, a *applier, step *client.Step, old domain.Object, by right) (bool, error) {
	complete(step.Object, old)
	if !bytes.Equal(mustJSON(step.Object), mustJSON(old)) {
		return true, nil
	}
	if step.File == nil {
		return false, nil
	}
	if lacks, err := s.lacks(ctx, a.api, by); err != nil || lacks == "" {
		return false, err
	}
	key := domain.KeyOf(step.Object)
	same, _, err := a.sameFiles(ctx, key, step.File, nil)
	a.same[key] = same
	return !same, err
}

// groupOperations are what goOn is to ask for of a group, of which something may be written before.
func (a *applier) groupOperations(ctx context.Context, key domain.Key, isNew, moved bool) ([]domain.Operation, error) {
	if isNew {
		return due(domain.Created), nil
	}
	d, err := a.api.Status(ctx, key, summary)
	if err != nil {
		return nil, err
	}
	state := d.States.State()
	if state == domain.Approved && moved {
		state = domain.Created
	}
	return due(state), nil
}

// beyond says whether a logical cloud has more in its clusters than a namespace of its own, as one of level 0 or with a namespace kube-…: such a one is
// brought to a cluster by who may write that alone. Of permissions that the caller may not list the API alone knows, as it does of the standard of Pod Security
// that its namespaces enforce.
func (a *applier) beyond(ctx context.Context, cloud *domain.LogicalCloud, isNew bool) (bool, error) {
	if service.Beyond(cloud, nil, "") != "" {
		return true, nil
	}
	if isNew {
		return false, nil
	}
	permissions, err := a.api.List(ctx, domain.UserPermissions, domain.KeyOf(cloud))
	var left leftOut
	if err = left.keep(err); err != nil && !fail.Is(err, fail.Forbidden) {
		return false, err
	}
	return service.Beyond(cloud, permissions, "") != "", nil
}

// cloudOperation is what cloudUp is to ask for of a logical cloud that may get a cluster more, "" for nothing.
func (a *applier) cloudOperation(ctx context.Context, cloud *domain.LogicalCloud, isNew, further bool) (domain.Operation, error) {
	if isNew {
		return domain.OpInstantiate, nil
	}
	d, err := a.api.Status(ctx, domain.KeyOf(cloud), summary)
	switch {
	case err != nil:
		return "", err
	case d.Status != domain.ContextInstantiated && d.Status != domain.ContextInstantiating:
		return domain.OpInstantiate, nil
	case further && !cloud.Admin():
		return domain.OpUpdate, nil
	}
	return "", nil
}

// keeps says whether a document that is there stays as it is: of those deploy needs no more than that they are there, and their users
// may have said more in them. The chart, the values and the placement are what it is told.
func keeps(o domain.Object) bool {
	switch o.(type) {
	case *domain.App, *domain.Profile, *domain.AppIntent, *domain.ClusterReference:
		return false
	default:
		return true
	}
}

// refers says whether a logical cloud has a cluster, under whatever name.
func (a *applier) refers(ctx context.Context, ref *domain.ClusterReference) (bool, error) {
	if _, err := a.before(ctx, ref); err != nil {
		return false, err
	}
	for _, o := range a.lists[ref.Parent.Child(domain.ClusterReferences.Collection)] {
		if o.(*domain.ClusterReference).ClusterName() == ref.ClusterName() {
			return true, nil
		}
	}
	return false, nil
}

// referenceName is what a reference is to be called in a logical cloud that does not refer to its cluster.
func (a *applier) referenceName(ref *domain.ClusterReference) string {
	if a.lists[ref.Parent.Child(domain.ClusterReferences.Collection)][domain.KeyOf(ref)] == nil {
		return ref.Name
	}
	return client.ReferenceName(ref.ClusterName(), func(string) bool { return true })
}

// cloudUp instantiates a logical cloud that is not, and updates one of level 1 that is and got a cluster more, now or by an earlier run: neither its
// namespace nor its user is there yet.
func (s *session) cloudUp(ctx context.Context, a *applier, f *deployFlags, of *client.Deployment, further bool) error {
	key := of.CloudKey()
	wait := func() error {
		a.forget()
		return f.await(ctx, s, a.api, key, domain.OpInstantiate)
	}
	if f.dryRun && a.made[key] {
		return nil
	}
	d, err := a.api.Status(ctx, key, summary)
	if err != nil {
		return err
	}
	up := d.Status == domain.ContextInstantiated || d.Status == domain.ContextInstantiating
	if up && !further { // an earlier run may have ended between the reference and the update
		if further, err = a.lacks(ctx, of); err != nil {
			return err
		}
	}
	waits := d.Status == domain.ContextInstantiating && !f.dryRun
	if waits && !further { // an instance that is there can be updated all the same
		if waits, err = s.isNew(ctx, a.api, of.Key()); err != nil {
			return err
		}
	}
	if waits { // while one goes on an update does nothing, and no group begins in it
		if err := wait(); err != nil {
			return err
		}
	}
	op := domain.OpInstantiate
	if up {
		if !further {
			return nil
		}
		admin, err := a.admin(ctx, of)
		if err != nil || admin {
			return err
		}
		op = domain.OpUpdate
	}
	if f.dryRun {
		s.sayf("%s would be %s (dry run)", key, doneBy[op])
		return nil
	}
	accepted, err := s.ask(ctx, a.api, key, op, nil)
	if err != nil {
		return err
	}
	s.warn(accepted.Warnings)
	s.sayf("%s %s", key, past(op, accepted))
	return wait()
}

// admin says whether a logical cloud is of level 0, which has nothing in clusters.
func (a *applier) admin(ctx context.Context, of *client.Deployment) (bool, error) {
	o, err := a.api.Get(ctx, domain.LogicalClouds, of.CloudKey())
	if err != nil {
		return false, err
	}
	return o.(*domain.LogicalCloud).Admin(), nil
}

// lacks says whether a logical cloud of level 1 has an instance that was not brought to a cluster to which it refers.
func (a *applier) lacks(ctx context.Context, of *client.Deployment) (bool, error) {
	switch admin, err := a.admin(ctx, of); {
	case fail.Is(err, fail.Forbidden), admin: // who may not read it need not bring it anywhere
		return false, nil
	case err != nil:
		return false, err
	}
	for some := range slices.Chunk(of.Clusters, askedAtOnce) {
		asked := maps.Clone(standingOf(of.CloudKey()))
		for _, k := range some {
			asked.Add("cluster", k.String())
		}
		d, err := a.api.Status(ctx, of.CloudKey(), asked)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(some, func(k domain.ClusterName) bool {
			return !slices.ContainsFunc(d.Clusters, func(c status.DocumentCluster) bool { return c.Provider == k.Provider && c.Name == k.Name })
		}) {
			return true, nil
		}
	}
	return false, nil
}

// askedAtOnce is of how many clusters is asked in one address: proxies take some 8 KiB.
const askedAtOnce = 20

// isNew says whether a group has no instance yet.
func (*session) isNew(ctx context.Context, api *client.API, group domain.Key) (bool, error) {
	d, err := api.Status(ctx, group, summary)
	if fail.Is(err, fail.NotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return due(d.States.State())[0] != domain.OpUpdate, nil
}

// await waits for the end of an operation as long as is left of the timeout, and looks at it in any case. What the command does between two waits, such as
// to send a large chart, takes nothing of it.
func (f *deployFlags) await(ctx context.Context, s *session, api *client.API, key domain.Key, op domain.Operation) error {
	if f.timeout == 0 {
		return s.await(ctx, api, key, op, 0)
	}
	begun := time.Now()
	defer func() { f.waited += time.Since(begun) }()
	return s.await(ctx, api, key, op, max((f.timeout-f.waited).Round(time.Second), min(f.timeout, time.Second)))
}

// doneBy says of an operation what it would have done.
var doneBy = map[domain.Operation]string{domain.OpApprove: "approved", domain.OpInstantiate: "instantiated", domain.OpUpdate: "updated"}

// due are the operations that bring clusters in line with a group in a state.
func due(state domain.State) []domain.Operation {
	switch state {
	case domain.Instantiated, domain.InstantiateStopped:
		return []domain.Operation{domain.OpUpdate}
	case domain.Approved, domain.TerminateStopped:
		return []domain.Operation{domain.OpInstantiate}
	default:
		return []domain.Operation{domain.OpApprove, domain.OpInstantiate}
	}
}

// foretell says what goOn would ask for. What would be written is not in the API's difference, so that this is shown where nothing would be.
func (s *session) foretell(ctx context.Context, a *applier, key domain.Key) error {
	state := domain.Created
	if !a.made[key] {
		d, err := a.api.Status(ctx, key, summary)
		if err != nil {
			return err
		}
		if d.Status.InProgress() {
			s.note("%s is %s: that comes to its end first", key, d.Status)
		}
		if state = d.States.State(); state == domain.Approved && a.changed(key) { // which it would be no more
			state = domain.Created
		}
	}
	todo := due(state)
	if todo[0] == domain.OpUpdate && !a.touched(key) {
		d, err := a.api.Diff(ctx, key, url.Values{"limit": {mostAtOnce}})
		switch {
		case err != nil && transient(err):
			return err
		case err != nil:
			s.note("What would change cannot be shown: %s", s.text(err))
		case len(d.Items) == 0:
			s.sayf("%s %s (dry run)", key, unchanged)
			return nil
		case !s.flags.quiet:
			writeLines(s.Out, differenceLines(d, false))
		}
	}
	var done []string
	for _, op := range todo {
		done = append(done, doneBy[op])
	}
	s.sayf("%s would be %s (dry run)", key, strings.Join(done, " and "))
	return nil
}

// goOn asks for what brings clusters in line with the group: an update where it has an instance, else approve and instantiate. Whether
// there is something to update is the API's to say: what an earlier run has written may never have come to clusters. With --wait an
// operation that goes on comes to its end before; without it the API refuses the update.
func (s *session) goOn(ctx context.Context, api *client.API, f *deployFlags, key domain.Key) error {
	d, err := api.Status(ctx, key, summary)
	if err != nil {
		return err
	}
	if f.wait && d.Status.InProgress() {
		s.note("%s is %s: that comes to its end first", key, d.Status)
		if err := f.await(ctx, s, api, key, domain.OpStop); err != nil {
			return err
		}
		if d, err = api.Status(ctx, key, summary); err != nil {
			return err
		}
	}
	todo := due(d.States.State())
	if todo[0] == domain.OpUpdate {
		if err := s.showDue(ctx, api, key); err != nil {
			return err
		}
	}
	for _, op := range todo {
		accepted, err := s.ask(ctx, api, key, op, nil)
		if fail.Is(err, fail.Invalid) { // only the API renders the chart, from what is written
			return errHelped{fmt.Errorf("%s: %w", op, err), "Nothing has changed in clusters, and what was written stays. Mend what is refused, such as a value, and run the command again"}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		if s.saySame(key, op, accepted, d.States.Revision()) {
			return nil
		}
		if op != domain.OpApprove { // which warns of the same
			s.warn(accepted.Warnings)
		}
		s.sayf("%s %s", key, past(op, accepted))
	}
	if !f.wait {
		s.note("See how it goes on: %s status %s --watch", s.Program, key)
		return nil
	}
	return f.await(ctx, s, api, key, domain.OpInstantiate)
}

// readChart reads a chart, a folder or a tgz, and says how its folder in the archive is called: that is the app's name.
func readChart(path string) (app string, tgz []byte, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", nil, errUsage{err}
	}
	if info.IsDir() {
		data, err := os.ReadFile(filepath.Join(path, "Chart.yaml"))
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil, usage("%s is no chart: there is no Chart.yaml", path)
		}
		if err != nil {
			return "", nil, errUsage{err}
		}
		var chart struct {
			Name string `json:"name"`
		}
		if err := yaml.Unmarshal(data, &chart); err != nil || chart.Name == "" {
			return "", nil, usage("%s has no name in its Chart.yaml", path)
		}
		tgz, err = packAs(path, chart.Name)
		return chart.Name, tgz, err
	}
	if tgz, err = os.ReadFile(path); err != nil {
		return "", nil, errUsage{err}
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(tgz))
	if err != nil {
		return "", nil, usage("%s is neither a folder nor a tgz: %w", path, err)
	}
	archive := tar.NewReader(unzipped)
	for {
		header, err := archive.Next()
		if err != nil {
			return "", nil, usage("%s is no chart: no folder in it has a Chart.yaml", path)
		}
		parts := strings.Split(strings.TrimPrefix(filepath.ToSlash(header.Name), "./"), "/")
		if len(parts) == 2 && parts[1] == "Chart.yaml" {
			return parts[0], tgz, nil
		}
	}
}

// profile is the profile with the values that were given, nil for none: EMCO's archive of a manifest and a file of values.
func (f *deployFlags) profile() ([]byte, error) {
	values := map[string]any{}
	for _, name := range f.values {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, errUsage{err}
		}
		more, err := loader.LoadValues(bytes.NewReader(data))
		if err != nil {
			return nil, usage("values of %s: %w", name, err)
		}
		merge(values, more)
	}
	for _, one := range f.set {
		if err := strvals.ParseInto(one, values); err != nil {
			return nil, usage("--set %s: %w", one, err)
		}
	}
	for _, one := range f.setString {
		if err := strvals.ParseIntoString(one, values); err != nil {
			return nil, usage("--set-string %s: %w", one, err)
		}
	}
	text, err := yaml.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("encode values: %w", err)
	}
	return packFiles([2]string{"manifest.yaml", "version: v1\ntype:\n  values: override_values.yaml\n"}, [2]string{"override_values.yaml", string(text)})
}

// merge puts values over others, map by map, as Helm does.
func merge(into, more map[string]any) {
	for name, value := range more {
		below, isMap := value.(map[string]any)
		if old, ok := into[name].(map[string]any); ok && isMap {
			merge(old, below)
			continue
		}
		into[name] = value
	}
}

// packFiles makes a tgz of texts by their names.
func packFiles(files ...[2]string) ([]byte, error) {
	var data bytes.Buffer
	zipped := gzip.NewWriter(&data)
	archive := tar.NewWriter(zipped)
	var failed error
	for _, f := range files {
		failed = errors.Join(failed, archive.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1])), Format: tar.FormatUSTAR}))
		_, err := archive.Write([]byte(f[1]))
		failed = errors.Join(failed, err)
	}
	if err := errors.Join(failed, archive.Close(), zipped.Close()); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return data.Bytes(), nil
}

// selectAll reads which clusters are meant: what a placement says of them, and which they are now.
func (s *session) selectAll(ctx context.Context, api *client.API, which []string) (all []domain.Clusters, clusters []domain.ClusterName, err error) {
	for _, one := range which {
		found, names, err := s.selectOne(ctx, api, one)
		if err != nil {
			return nil, nil, err
		}
		all, clusters = append(all, found...), append(clusters, names...)
	}
	return all, clusters, nil
}

// checkWhich refuses an empty name, as that of a variable that is not set: without its provider a cluster is looked for in all.
func checkWhich(which string) error {
	provider, name, ok := strings.Cut(strings.ReplaceAll(which, "+", "/"), "/")
	if !ok {
		name = provider
	}
	if provider == "" || strings.TrimPrefix(name, "label=") == "" {
		return noCluster(which)
	}
	return nil
}

func noCluster(which string) error {
	return usage("%q names no cluster: edge01, provider+edge01, label=edge and provider/label=edge do", which)
}

func (s *session) selectOne(ctx context.Context, api *client.API, which string) (all []domain.Clusters, clusters []domain.ClusterName, err error) {
	text := strings.ReplaceAll(which, "+", "/")
	provider, name, ok := strings.Cut(text, "/")
	if !ok {
		provider, name = "", text
	}
	providers := []string{provider}
	if provider == "" {
		list, err := api.List(ctx, domain.ClusterProviders, "")
		var left leftOut
		if err = left.keep(err); err != nil {
			return nil, nil, err
		}
		if left.first != nil {
			s.warn([]string{left.first.Error()})
		}
		providers = nil
		for _, o := range list {
			providers = append(providers, o.LocalName())
		}
	}
	label, byLabel := strings.CutPrefix(name, "label=")
	for _, p := range providers {
		key := domain.Join(domain.ClusterProviders.Collection, p)
		if byLabel {
			names, err := api.ClustersByLabel(ctx, key, label)
			if err != nil {
				return nil, nil, err
			}
			if len(names) > 0 {
				all = append(all, domain.Clusters{ClusterProvider: p, ClusterLabel: label})
			}
			for _, n := range names {
				clusters = append(clusters, domain.ClusterName{Provider: p, Name: n})
			}
			continue
		}
		var problems fail.Problems
		if domain.CheckName(&problems, "cluster", name); problems.Err() != nil {
			return nil, nil, noCluster(which)
		}
		_, err := api.Get(ctx, domain.ClustersNoun, key.Child(domain.ClustersNoun.Collection, name))
		if fail.Is(err, fail.NotFound) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		all = append(all, domain.Clusters{ClusterProvider: p, Cluster: name})
		clusters = append(clusters, domain.ClusterName{Provider: p, Name: name})
	}
	switch {
	case len(clusters) == 0 && byLabel:
		return nil, nil, fail.New(fail.NotFound, "no cluster carries the label %q; 'drover get labels' lists them", label)
	case len(clusters) == 0:
		return nil, nil, fail.New(fail.NotFound, "cluster %q not found; 'drover get clusters' lists them", which)
	case !byLabel && len(clusters) > 1:
		return nil, nil, usage("%q may be a cluster of several providers: provider+%s names one", which, name)
	}
	return all, clusters, nil
}
