package service

import (
	"context"
	"io"
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/logicalcloud"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/view"
)

// StatusDocument is the answer to a status query, ready to be written.
type StatusDocument struct {
	query  status.Query
	source status.Source
	leave  func() // gives back the manifests that were read; nil for a document that shows none
}

// Write writes the document as JSON. A query that cannot be answered is refused before the first byte, and so is one for whose first manifests
// there is no room: as Exhausted or Unavailable.
func (d *StatusDocument) Write(w io.Writer) error {
	if d.leave != nil {
		defer d.leave()
		if err := d.begin(); err != nil {
			return err
		}
	}
	return status.Write(w, d.query, d.source)
}

// begin reads the manifests of the first app that the document shows.
func (d *StatusDocument) begin() error {
	rows, err := d.query.Rows(&d.source)
	if err != nil {
		return err
	}
	next, stop := iter.Pull2(rows)
	defer stop()
	r, err, there := next()
	if there && err == nil {
		_, err = r.Manifest()
	}
	return err
}

// Status gathers what a status query of an owner asks for. A summary without filters asks the running
// operation's root only, or reads one record; everything else reads the plan and the leaves' records, and
// asks the apps of a running operation for their open leaves.
func (l *Lifecycle) Status(ctx context.Context, key domain.Key, parameters url.Values) (*StatusDocument, error) {
	return l.document(ctx, key, func() (status.Query, error) {
		q, err := status.ParseQuery(parameters)
		return q.For(status.SubjectOf(key)), err
	})
}

// document gathers what a query of an owner asks for. What is asked of an owner that is not there is not looked at.
func (l *Lifecycle) document(ctx context.Context, key domain.Key, ask func() (status.Query, error)) (d *StatusDocument, err error) {
	last, known := l.told.Get(key)
	if known = known && l.now().Sub(last.at) < policy.Told; !known {
		last.at = l.now()
	}
	beside := panics.New(ctx) // without a context of its own: the document reads with ctx when it is written
	beside.Go(func() (err error) {
		if !known {
			last.warnings, err = l.unenforced(ctx, key)
		}
		return err
	})
	owner, err := l.owner(ctx, key)
	if err == nil {
		d, err = l.gathered(ctx, owner, ask)
	}
	if failed := beside.Wait(); err == nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	goesOn, contextID := d.source.Status.InProgress(), owner.Track().ContextID()
	if known && (!goesOn || last.contextID != contextID) { // nothing is kept of who is not waited for
		if last.warnings, err = l.unenforced(ctx, key); err != nil {
			return nil, err
		}
		known, last.at = false, l.now()
	}
	if goesOn && !known {
		last.contextID = contextID
		l.told.Add(key, last, domain.WeightOfTexts(last.warnings))
	}
	d.source.Warnings = last.warnings
	return d, nil
}

func (l *Lifecycle) gathered(ctx context.Context, owner domain.Owner, ask func() (status.Query, error)) (*StatusDocument, error) {
	q, err := ask()
	if err != nil {
		return nil, err
	}
	if err := l.foresee(ctx, owner); err != nil {
		return nil, err
	}
	d := &StatusDocument{query: q, source: heading(owner)}
	if d.source.ContextID, err = q.ContextID(d.source.History); err != nil {
		return nil, err
	}
	switch cloud, ok := owner.(*domain.LogicalCloud); {
	case d.source.ContextID == "":
	case ok && cloud.Admin(): // there is nothing but its document, and the clusters that it refers to
		d.source.Status = adminStatus(cloud, d.source.ContextID)
		d.source.Apps, err = l.adminApps(ctx, cloud)
	default:
		err = l.gather(ctx, owner, d)
	}
	return d, err
}

// adminApps is the one app of an admin cloud, which puts nothing into its clusters.
func (l *Lifecycle) adminApps(ctx context.Context, cloud *domain.LogicalCloud) ([]view.App, error) {
	references, err := l.store.List(ctx, domain.ClusterReferences, domain.KeyOf(cloud))
	if err != nil {
		return nil, err
	}
	app := view.App{Name: logicalcloud.App}
	for _, r := range references {
		app.Clusters = append(app.Clusters, view.Cluster{ClusterName: r.(*domain.ClusterReference).ClusterName()})
	}
	slices.SortFunc(app.Clusters, func(a, b view.Cluster) int { return a.Compare(b.ClusterName) })
	return []view.App{app}, nil
}

// adminStatus is where a context of an admin cloud stands: a new one begins when the one before it is over, or takes over from it.
func adminStatus(cloud *domain.LogicalCloud, contextID string) domain.ContextStatus {
	if contextID == cloud.History.ContextID() {
		return cloud.AdminStatus()
	}
	next := domain.Created
	for _, a := range slices.Backward(cloud.History.Actions) {
		if a.ContextID == contextID {
			break
		}
		next = a.State
	}
	if next == domain.Updated {
		return domain.ContextUpdated
	}
	return domain.ContextTerminated
}

// heading is what a status document says of the owner itself.
func heading(owner domain.Owner) status.Source {
	noun, key := owner.Noun(), domain.KeyOf(owner)
	names, _ := noun.Split(key)
	name, _ := noun.Fill(noun.Owner.Name, key)
	h := status.Source{
		Subject: status.SubjectOf(key), Name: name, History: *owner.Track(),
		Project: names["project"], CompositeApp: names["compositeApp"], Version: names["compositeAppVersion"],
	}
	if group, ok := owner.(*domain.DeploymentIntentGroup); ok {
		h.CompositeProfile = group.Spec.CompositeProfile
	}
	return h
}

func (l *Lifecycle) gather(ctx context.Context, owner domain.Owner, d *StatusDocument) error {
	i, err := l.instance(ctx, domain.KeyOf(owner), d.source.ContextID)
	if err != nil {
		return err
	}
	if i.Profile != "" {
		d.source.CompositeProfile = i.Profile
	}
	if d.query.CountsSuffice() && i.Status.InProgress() {
		if counts, err := l.engine.Counts(ctx, working(i)); err == nil && len(counts) > 0 {
			d.source.Status, d.source.Counts = i.Status, counts
			return nil
		}
	}
	if d.source.Status, err = l.shown(ctx, owner, i); err != nil {
		return err
	}
	if i.Plan == "" { // accepted a moment ago
		return nil
	}
	if d.source.Status == domain.ContextUpdated && i.ContextID == owner.Track().ContextID() {
		return nil // what is there is the group's that it was migrated to, and only that knows what has become of it
	}
	running := d.source.Status.InProgress()
	s := at(i, d.source.Status)
	if d.query.CountsSuffice() && !running && i.Counts != nil && i.Status == d.source.Status {
		d.source.Counts = i.Counts
		return nil
	}
	if err := l.gatherApps(ctx, d, i, s, running); err != nil {
		return err
	}
	if d.query.CountsSuffice() {
		all := d.query
		all.Output = status.OutputAll
		d.source.Counts, err = status.Summary(all, d.source)
	}
	return err
}

// gatherApps reads every leaf, and what the query asks for beside. The open ones are asked for before the records are read: a leaf that ends
// in between is then found in both, and its record is the later word.
func (l *Lifecycle) gatherApps(ctx context.Context, d *StatusDocument, i *domain.Instance, s domain.Scope, running bool) error {
	records, err := l.recordsOf(ctx, i, s, running)
	if err != nil {
		return err
	}
	switch {
	case d.query.Reported():
		return l.gatherReports(ctx, &d.source.Source, i, records, d.query.Clusters)
	case d.query.Output == status.OutputDetail && d.query.List == status.ListNone:
		d.source.Manifest, d.leave = l.manifests(ctx, i.Plan, records.Plan)
	}
	d.source.Apps = records.Apps()
	return nil
}

// gatherReports takes what was done, and reads what the clusters report of it, nil for all clusters.
func (l *Lifecycle) gatherReports(
	ctx context.Context, s *view.Source, i *domain.Instance, records *view.Records, clusters []domain.ClusterName,
) error {
	s.Apps, s.Namespace = records.Apps(), i.Namespace
	if !records.Running {
		s.Ended = i.Ended
	}
	return l.hear(ctx, s, i.LabelID(), clusters, records.Words())
}

// recordsOf reads what there is of every leaf.
func (l *Lifecycle) recordsOf(ctx context.Context, i *domain.Instance, s domain.Scope, running bool) (*view.Records, error) {
	p, err := l.recall.plan(ctx, l.records, i.Plan)
	if err != nil {
		return nil, err
	}
	records := &view.Records{ContextID: i.ContextID, Plan: p, Operation: s.Operation, Running: running}
	if i.Operation == s.Operation {
		records.Began = i.Began
	}
	if running {
		if records.Open, err = l.open(ctx, p, s); err != nil {
			return nil, err
		}
	}
	if records.NotStarted, err = l.notStarted(ctx, p, i, s, running); err != nil {
		return nil, err
	}
	leaves, err := l.recall.leaves(ctx, l.records, i)
	unreadable, err := domain.UnreadableOf(err)
	if err != nil {
		return nil, err
	}
	records.Leaves = unread(leaves, unreadable, domain.Leaf{ContextID: i.ContextID, Operation: s.Operation, Turn: domain.Turn{Began: records.Began}})
	return records, nil
}

// unread are leaves with one in place of each that a record belongs to which cannot be read; of it that alone is known, and nothing is
// said of what an earlier operation left there.
func unread(leaves []domain.Leaf, records []string, as domain.Leaf) []domain.Leaf {
	if len(records) == 0 {
		return leaves
	}
	unreadable := map[string]bool{}
	for _, record := range records {
		id, _, _ := strings.Cut(record, "#")
		unreadable[id] = true
	}
	all := slices.DeleteFunc(slices.Clone(leaves), func(leaf domain.Leaf) bool { return unreadable[leaf.ID] })
	for id := range unreadable {
		as.ID, as.LastError = id, "its record cannot be read: who changed it in the database was not the product, or its key is missing"
		all = append(all, as)
	}
	return all
}

// notStarted are the apps that were not started because of others, and why.
func (l *Lifecycle) notStarted(ctx context.Context, p *plan.Plan, i *domain.Instance, s domain.Scope, running bool) (map[string]string, error) {
	waits := slices.ContainsFunc(p.Apps, func(a plan.App) bool { return len(a.Needs) > 0 })
	if !waits || !running {
		return i.NotStarted, nil
	}
	apps, err := l.engine.NotStarted(ctx, s)
	if fail.Is(err, fail.NotFound) { // not begun, or over
		return nil, nil
	}
	return apps, err
}

// open asks the apps of a running operation for their open leaves, side by side.
func (l *Lifecycle) open(ctx context.Context, p *plan.Plan, s domain.Scope) ([]domain.Leaf, error) {
	answers := make([][]domain.Leaf, len(p.Apps))
	g, ctx := panics.WithContext(ctx)
	for i, a := range p.Apps {
		g.Go(func() error {
			leaves, err := l.engine.Open(ctx, s, a.Name)
			if fail.Is(err, fail.NotFound) { // not begun, or over
				return nil
			}
			answers[i] = leaves
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(answers...), nil
}
