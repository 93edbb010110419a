package service

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/status"
)

// GroupDiff is what an operation would change in clusters, as all that the group is described by is now. Nothing of it is stored or
// done. It compares what is wanted with what Drover has applied, not with what others have made of it in the clusters since.
type GroupDiff struct {
	Group     domain.Key       `json:"group"`              // its path below /v2; of a migrate that of the group that would take over
	Operation domain.Operation `json:"operation"`          // instantiate, update, rollback or migrate
	From      int              `json:"from,omitempty"`     // the revision that is there, or of which it was asked what an update would make of it; missing for 0
	To        *int             `json:"to,omitempty"`       // of a rollback: the revision that would be there again
	Source    domain.Key       `json:"source,omitempty"`   // of a migrate: the group that has the instance, by its path
	Changes   DiffCounts       `json:"changes"`            // of all apps and clusters, whatever is asked for
	Unchanged int              `json:"unchanged"`          // how many resources stay as they are, counted so, too
	Clusters  int              `json:"clusters"`           // on how many clusters something would be done
	Apps      []DiffApp        `json:"apps"`               // those with changes, in the order of the composite app
	Items     []DiffItem       `json:"items"`              // those of this page, by app and then by the first of their clusters
	Continue  string           `json:"continue,omitempty"` // asks for the page that follows; missing at the end
	Warnings  []string         `json:"warnings,omitempty"` // what the operation would warn of, or be refused for
}

// DiffCounts is how many resources would be created and so on, each counted once a cluster.
type DiffCounts struct {
	Create int `json:"create"` // new ones
	Change int `json:"change"` // to say something else
	Again  int `json:"again"`  // applied as they were, since nobody knows whether they are there so
	Run    int `json:"run"`    // hooks
	Delete int `json:"delete"` // not wanted any more
}

// DiffApp is how much of an app would change.
type DiffApp struct {
	App      string     `json:"app"`      // its name
	Clusters int        `json:"clusters"` // on how many clusters something would be done
	Changes  DiffCounts `json:"changes"`
}

// DiffItem is what would be done for an app on clusters on which the same would be done.
type DiffItem struct {
	App       string         `json:"app"`               // its name
	Clusters  []string       `json:"clusters"`          // as provider+cluster
	Arrives   bool           `json:"arrives,omitempty"` // the app is new to these clusters
	Leaves    bool           `json:"leaves,omitempty"`  // the app would not go to these clusters any more
	Resources []DiffResource `json:"resources"`         // those that are applied, in their order, then those that are deleted
}

// DiffResource is what would be done with a resource.
type DiffResource struct {
	Resource string      `json:"resource"`          // kind/name, with the namespace in between where the manifest has one
	Version  string      `json:"version"`           // its apiVersion
	Action   plan.Action `json:"action"`            // create, change, again, run or delete
	Fields   []DiffField `json:"fields,omitempty"`  // of a change: the members that would say something else
	More     int         `json:"more,omitempty"`    // how many more members would, that are too many or too large to be shown
	Object   any         `json:"object,omitempty"`  // of what is created: all of it
	Replace  bool        `json:"replace,omitempty"` // it is annotated with drover.io/replace: where its cluster refuses to change it, it is deleted and made anew
	Cut      bool        `json:"cut,omitempty"`     // object, or fields, are missing, since they or the item are too large to be shown
}

// DiffField is a member of a resource that would say something else. Of Secrets the values are digests.
type DiffField struct {
	Path   string `json:"path"`             // such as spec.template.spec.containers[name="web"].image
	Before any    `json:"before,omitempty"` // missing where the member is not there
	After  any    `json:"after,omitempty"`  // missing where it would not be there
	Cut    bool   `json:"cut,omitempty"`    // texts end early, others are missing: they are too large to be shown
}

// diffQuery is what a difference is asked for with.
type diffQuery struct {
	operation domain.Operation // "" for the one that is due
	revision  *int             // nil for none; that which a migrate has made is 0
	reapply   bool
	version   string
	group     string
	apps      []string
	clusters  []domain.ClusterName
	limit     int
	after     string
}

func readDiffQuery(v url.Values) (q diffQuery, err error) {
	q.operation, q.version, q.group = domain.Operation(v.Get("operation")), v.Get("version"), v.Get("group")
	filters, err := status.ParseQuery(url.Values{"app": v["app"], "cluster": v["cluster"]})
	if err != nil {
		return q, err
	}
	q.apps, q.clusters = filters.Apps, filters.Clusters
	switch q.operation {
	case "", domain.OpInstantiate, domain.OpUpdate, domain.OpRollback, domain.OpMigrate:
	default:
		return q, fail.Query("operation", "%q; use instantiate, update, rollback or migrate", q.operation)
	}
	switch {
	case q.operation == domain.OpRollback, q.operation == domain.OpUpdate && v.Has("revision"):
		revision, err := strconv.Atoi(v.Get("revision"))
		if q.revision = &revision; err != nil || revision < 0 {
			return q, fail.Query("revision", "%q; a rollback needs the number of the revision to go back to, an update may have one", v.Get("revision"))
		}
	case v.Has("revision"):
		return q, fail.Query("revision", "only a rollback and an update have one (operation=rollback)")
	}
	if q.reapply, err = Truth("reapply", v.Get("reapply")); err != nil {
		return q, err
	}
	if q.reapply && q.operation != domain.OpUpdate {
		return q, fail.Query("reapply", "only an update has it (operation=update)")
	}
	if q.reapply && q.revision != nil {
		return q, fail.Query("reapply", "an update after a rollback to revision %d finds all that it has applied", *q.revision)
	}
	if q.operation == domain.OpMigrate {
		var p fail.Problems
		domain.CheckName(&p, "version", q.version)
		if q.group != "" {
			domain.CheckName(&p, "group", q.group)
		}
		if err := p.Err(); err != nil {
			return q, err
		}
	} else {
		for _, word := range []string{"version", "group"} {
			if v.Has(word) {
				return q, fail.Query(word, "only a migrate has it (operation=migrate)")
			}
		}
	}
	q.limit, q.after, err = pageAsked(v, ofParts(2))
	return q, err
}

// passes says whether a difference is asked for.
func (q *diffQuery) passes(app string, c domain.ClusterName) bool {
	return (len(q.apps) == 0 || slices.Contains(q.apps, app)) && (len(q.clusters) == 0 || slices.Contains(q.clusters, c))
}

// check refuses, as Invalid, a filter that names an app which the group neither has nor would have, as a status query does, and one that
// names a cluster which is not registered and has nothing of the group: that nothing would be done there would be no answer. To who does not see the
// cluster it is one.
func (l *Lifecycle) check(ctx context.Context, q *diffQuery, group domain.Key, p *plan.Plan) error {
	var names []string
	var targets []domain.ClusterName
	for i := range p.Apps {
		names = append(names, p.Apps[i].Name)
		for j := range p.Apps[i].Targets {
			targets = append(targets, p.Apps[i].Targets[j].ClusterName)
		}
	}
	if err := knownApps(q.apps, names, "deployment intent group "+group.Name()); err != nil {
		return err
	}
	for _, c := range q.clusters {
		if slices.Contains(targets, c) || !rights.Of(ctx).Shows(domain.ClustersNoun, c.Key()) { // whether there is one is not for everybody to learn
			continue
		}
		there, err := l.store.Exists(ctx, domain.ClustersNoun, c.Key())
		if err != nil {
			return err
		}
		if !there {
			return fail.New(fail.Invalid, "Filter cluster %s: there is no such cluster, and deployment intent group %s has nothing there", c, group.Name())
		}
	}
	return nil
}

// Diff says what an operation would change: the one that the parameters name, or that is due: an update where there is an instance, else an
// instantiate. Errors are those of the operation.
func (l *Lifecycle) Diff(ctx context.Context, key domain.Key, parameters url.Values) (*GroupDiff, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Accept)
	defer cancel()
	q, err := readDiffQuery(parameters)
	if err != nil {
		return nil, err
	}
	if l.Foresee == nil {
		return nil, fail.New(fail.Internal, "nobody here can render charts")
	}
	out := &GroupDiff{Group: key, Operation: q.operation}
	goal, err := l.foreseen(ctx, out, &q)
	if err != nil {
		return nil, err
	}
	way, err := l.Foresee(ctx, domain.Scope{Owner: out.Group, ContextID: foreseenID, Operation: out.Operation}, goal)
	if err != nil {
		return nil, err
	}
	if err := l.check(ctx, &q, out.Group, way.Change.Plan); err != nil {
		return nil, err
	}
	out.Warnings = way.Warnings
	differences, err := way.Differences(waited(ctx), func(string, domain.ClusterName) bool { return true })
	if err != nil {
		return nil, err
	}
	out.count(differences)
	out.Unchanged = way.Change.Unchanged
	if len(q.apps)+len(q.clusters) > 0 {
		if differences, err = way.Differences(waited(ctx), q.passes); err != nil {
			return nil, err
		}
	}
	return out, l.fillDiff(ctx, out, differences, &q)
}

// waited is the error of ctx, with its cause.
func waited(ctx context.Context) func() error {
	return func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	}
}

// foreseenID is the id of a context that does not come about; no real one is so short.
const foreseenID = "0"

// foreseen says which operation it is about, and refuses what its owners' states do not allow. Unlike decide it mends nothing.
func (l *Lifecycle) foreseen(ctx context.Context, out *GroupDiff, q *diffQuery) (goal domain.Goal, err error) {
	key := out.Group
	owner, stands, err := l.lookAt(ctx, key)
	if err != nil {
		return goal, err
	}
	state := owner.Track().State()
	if out.Operation == "" {
		out.Operation = domain.OpInstantiate
		if state == domain.Instantiated || state == domain.InstantiateStopped {
			out.Operation = domain.OpUpdate
		}
	}
	if out.Operation == domain.OpUpdate && q.revision != nil { // which may be asked while the rollback to it goes on
		out.From = *q.revision
		goal.Revert, err = revisionOf(owner, key, *q.revision)
		return goal, err
	}
	if _, err := owner.Decide(stands, out.Operation); err != nil && (out.Operation != domain.OpInstantiate || !unapproved(owner, stands)) {
		return goal, err
	}
	switch out.Operation {
	case domain.OpInstantiate:
		return goal, nil
	case domain.OpRollback:
		if goal.Revert, err = revisionOf(owner, key, *q.revision); err != nil {
			return goal, err
		}
		out.To = q.revision
	case domain.OpMigrate:
		target, err := targetOf(key, q.version, cmp.Or(q.group, key.Name()))
		if err != nil {
			return goal, err
		}
		taker, takers, err := l.lookAt(ctx, target)
		if err != nil {
			return goal, err
		}
		if _, err := taker.Decide(takers, domain.OpReceive); err != nil {
			return goal, err
		}
		goal.Source, out.Source, out.Group = key, key, target
	default:
		goal.Reapply = q.reapply
	}
	out.From = owner.Track().Revision()
	return goal, nil
}

// unapproved says that nothing but its approval keeps an owner from being instantiated.
func unapproved(owner domain.Owner, stands domain.ContextStatus) bool {
	_, err := owner.Decide(stands, domain.OpApprove)
	return err == nil
}

// lookAt reads an owner and where its last context stands.
func (l *Lifecycle) lookAt(ctx context.Context, key domain.Key) (domain.Owner, domain.ContextStatus, error) {
	owner, err := l.owner(ctx, key)
	if err != nil {
		return nil, "", err
	}
	stands, err := l.ContextStatus(ctx, key, owner.Track().ContextID())
	return owner, stands, err
}

// count counts all that would be done.
func (d *GroupDiff) count(differences []plan.Difference) {
	d.Apps = []DiffApp{}
	clusters := map[domain.ClusterName]bool{}
	for i := range differences {
		x := &differences[i]
		if n := len(d.Apps); n == 0 || d.Apps[n-1].App != x.App {
			d.Apps = append(d.Apps, DiffApp{App: x.App})
		}
		a := &d.Apps[len(d.Apps)-1]
		a.Clusters += len(x.Clusters)
		a.Changes.add(x.Counts)
		d.Changes.add(x.Counts)
		for _, c := range x.Clusters {
			clusters[c] = true
		}
	}
	d.Clusters = len(clusters)
}

func (c *DiffCounts) add(more plan.Counts) {
	c.Create += more[plan.ActionCreate]
	c.Change += more[plan.ActionChange]
	c.Again += more[plan.ActionAgain]
	c.Run += more[plan.ActionRun]
	c.Delete += more[plan.ActionDelete]
}

// fillDiff adds the items of a page. A page ends early when it is large.
func (l *Lifecycle) fillDiff(ctx context.Context, out *GroupDiff, differences []plan.Difference, q *diffQuery) error {
	out.Items = []DiffItem{}
	first := 0
	if q.after != "" {
		first = 1 + slices.IndexFunc(differences, func(d plan.Difference) bool { return placeOfItem(&d) == q.after })
		if first == 0 {
			return fail.New(fail.Conflict, "what would be done is not any more what it was for the page before; ask for the first one again")
		}
	}
	size := 0
	for i := range differences[first:] {
		d := &differences[first+i]
		if i > 0 && (i >= q.limit || size > limits.DiffPage) {
			out.Continue = goOn(placeOfItem(&differences[first+i-1]))
			return nil
		}
		item, bytes, err := l.itemOf(ctx, d, out.Group)
		if err != nil {
			return err
		}
		out.Items = append(out.Items, item)
		size += bytes
	}
	return nil
}

// placeOfItem is where an item stands in the list: no two have an app and a first cluster in common.
func placeOfItem(d *plan.Difference) string { return placeOf(d.App, d.Clusters[0].String()) }

// itemOf is a difference as it is answered, and about how many bytes it has. It has one manifest in memory decoded at a time, or the two
// that it compares.
func (l *Lifecycle) itemOf(ctx context.Context, d *plan.Difference, group domain.Key) (DiffItem, int, error) {
	changes := d.Changes()
	item := DiffItem{App: d.App, Arrives: d.Arrives, Leaves: d.Leaves, Resources: make([]DiffResource, len(changes))}
	named := 0
	for _, c := range d.Clusters {
		item.Clusters = append(item.Clusters, c.String())
		named += len(c.Provider) + len(c.Name)
	}
	project, room := string(domain.ScopeOf(group)), limits.DiffItem
	for i, c := range changes {
		r := &item.Resources[i]
		r.Resource, r.Version, r.Action = called(&c.ResourceID), strings.TrimPrefix(c.Group+"/"+c.Version, "/"), c.Action
		r.Replace = c.MayReplace()
		named += len(r.Resource) + len(r.Version)
		var err error
		switch {
		case c.Action != plan.ActionCreate && c.Action != plan.ActionChange:
		case room <= 0, len(c.Before) > limits.DiffManifest, len(c.After) > limits.DiffManifest:
			r.Cut = true
		case c.Action == plan.ActionCreate:
			room -= r.show(func() json.RawMessage { return l.Masks.Mask(project, c.After) }, len(c.After))
			err = waited(ctx)()
		default:
			var size int
			size, err = r.compare(ctx, l.Masks.Mask(project, c.Before), l.Masks.Mask(project, c.After), room)
			room -= size
		}
		if err != nil {
			return item, 0, err
		}
	}
	return item, named + limits.DiffItem - room, nil
}

// show takes the manifest of what is created if it is not too large, and says how many bytes it has.
func (r *DiffResource) show(manifest func() json.RawMessage, size int) int {
	if size <= limits.DiffValue {
		if object, err := json.Marshal(plan.Shown(manifest())); err == nil && len(object) <= 2*limits.DiffValue { // digests are longer
			r.Object = json.RawMessage(object)
			return len(object)
		}
	}
	r.Cut = true
	return 0
}

// compare takes the members in which manifests differ as long as there is room for them, and says about how many bytes they have.
func (r *DiffResource) compare(ctx context.Context, before, after json.RawMessage, room int) (size int, err error) {
	fields, more, err := plan.Fields(waited(ctx), before, after, limits.DiffFields)
	if err != nil {
		return 0, err
	}
	r.More = more
	for i, f := range fields {
		if size > room || len(f.Path) > limits.DiffValue {
			r.More += len(fields) - i
			break
		}
		x := DiffField{Path: f.Path}
		var before, after int
		x.Before, before, x.Cut = shortened(f.Before, x.Cut)
		x.After, after, x.Cut = shortened(f.After, x.Cut)
		size += len(f.Path) + before + after
		r.Fields = append(r.Fields, x)
	}
	return size, nil
}

// shortened is a value that is not too large to be shown, as text or in JSON, and how many bytes it has.
func shortened(v any, cut bool) (any, int, bool) {
	if text, ok := v.(string); ok {
		if len(text) <= limits.DiffValue {
			return text, len(text), cut
		}
		text = text[:limits.DiffValue]
		for !utf8.ValidString(text[max(0, len(text)-utf8.UTFMax):]) && len(text) > limits.DiffValue-utf8.UTFMax {
			text = text[:len(text)-1]
		}
		return strings.Clone(text), len(text), true // the whole is not kept for it
	}
	if v == nil {
		return nil, 0, cut
	}
	if data, err := json.Marshal(v); err == nil && len(data) <= limits.DiffValue {
		return json.RawMessage(data), len(data), cut
	}
	return nil, 0, true
}
