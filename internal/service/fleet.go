package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/view"
)

// Group is a deployment intent group with where it stands.
type Group struct {
	*domain.DeploymentIntentGroup
	Resource domain.Key  `json:"resource"` // its path below /v2
	Status   GroupStatus `json:"status"`
}

// GroupStatus is where a group stands, as its status says it.
type GroupStatus struct {
	State    domain.State         `json:"state"`                   // the last thing that a user asked for
	Since    time.Time            `json:"since"`                   // when that was
	Instance string               `json:"instance,omitempty"`      // the id of the app context
	Context  domain.ContextStatus `json:"contextStatus,omitempty"` // where the app context stands
	Revision int                  `json:"revision"`                // counts the app contexts since the last instantiate
	// Counts are the instance's resources by state; of an operation that goes on they may be missing, where many do.
	Counts map[domain.ResourceState]int `json:"counts,omitempty"`
	// Health is what clusters report of the instance. It is found out beside the list: missing until it is known, and in a large fleet
	// some seconds behind.
	Health *GroupHealth `json:"health,omitempty"`
	Reason string       `json:"reason,omitempty"` // why the last operation failed
}

// GroupList is a page of groups, sorted by their paths.
type GroupList struct {
	Items []Group `json:"items"` // the groups of this page
	// Continue asks for the page that follows, "" at the end.
	Continue string `json:"continue,omitempty"`
}

// Cluster is a registered cluster with where it stands.
type Cluster struct {
	*domain.Cluster
	Resource domain.Key    `json:"resource"` // its path below /v2
	Status   ClusterStatus `json:"status"`
}

// ClusterStatus is where a cluster stands.
type ClusterStatus struct {
	// Connectivity is what work last saw of it: Retrying when it did not answer, Available when it did or when it is heard,
	// else Unknown.
	Connectivity domain.Connectivity `json:"connectivity"`
	// UnreachableSince is when work first had no answer of a cluster that is Retrying; missing where nobody has noted it.
	UnreachableSince *time.Time `json:"unreachableSince,omitempty"`
	Heard            bool       `json:"heard"`               // whether what changes there would be heard of now
	LastHeard        *time.Time `json:"lastHeard,omitempty"` // when that was so for the last time
	Reason           string     `json:"reason,omitempty"`    // why it is not heard now, or could not be used when its registration was tried
	// TriedAt is when its registration was tried, where the reason is what that came to, or why it was never heard since.
	TriedAt *time.Time `json:"triedAt,omitempty"`
	// Report is how it reports, the default too.
	Report domain.Report `json:"report"`
	// CredentialsExpire is when the first credential of its kubeconfig does, as far as that can be told.
	CredentialsExpire *time.Time `json:"credentialsExpire,omitempty"`
	// Groups is how many deployment intent groups may have something there.
	Groups int `json:"groups"`
	// Working is of how many of these groups an operation goes on. It may go on in other clusters, and be over in this one.
	Working int `json:"working,omitempty"`
	// Failed is of how many of these groups the last operation has failed. It may have failed in other clusters alone.
	Failed int      `json:"failed,omitempty"`
	Labels []string `json:"labels,omitempty"` // the cluster labels that it carries, sorted
	// Version is that of its Kubernetes when its registration was tried last; missing where the cluster did not tell.
	Version string `json:"version,omitempty"`
}

// ClusterList is a page of clusters, sorted by provider and name.
type ClusterList struct {
	Items []Cluster `json:"items"` // the clusters of this page
	// Continue asks for the page that follows, "" at the end.
	Continue string `json:"continue,omitempty"`
}

// Fleet lists many resources with where each of them stands, with few questions for a page of them.
type Fleet struct {
	lifecycle *Lifecycle
	pages     Pages
	journal   *Journal
	health    *health
	latest    latest
}

// Pages reads many documents.
type Pages interface {
	// Page reads documents of the noun below prefix whose keys come after a key, sorted by key, limit at the most. It ends with the one that takes more
	// than room, in bytes, together with those before it; left is negative then.
	Page(ctx context.Context, noun *domain.Noun, prefix, after domain.Key, limit, room int) (objects []domain.Object, left int, err error)
	// UnreachableSince are the clusters that did not answer when they were last tried, with since when; zero where that is not known.
	UnreachableSince(ctx context.Context) (map[domain.ClusterName]time.Time, error)
	// ObservationsVersions are Heard.ObservationsVersion of many contexts; those of which clusters have said nothing are missing.
	ObservationsVersions(ctx context.Context, contextIDs []string) (map[string]string, error)
}

// NewFleet makes the queries. j tells of operations. Whoever makes it closes it.
func NewFleet(l *Lifecycle, p Pages, j *Journal) *Fleet {
	f := &Fleet{lifecycle: l, pages: p, journal: j}
	f.health = newHealth(l.now, f.signOf, f.look)
	return f
}

// Groups lists a page of the groups below prefix: those of a composite app, of a project, or with "" all. NotFound when
// what it names is not there.
func (f *Fleet) Groups(ctx context.Context, prefix domain.Key, parameters url.Values) (*GroupList, error) {
	if err := f.exists(ctx, prefix); err != nil {
		return nil, err
	}
	objects, next, unreadable, err := f.page(ctx, domain.DeploymentIntentGroups, prefix, parameters)
	if err != nil {
		return nil, err
	}
	list := &GroupList{Continue: next}
	list.Items, err = f.groups(ctx, objects, unreadable)
	return list, err
}

// exists refuses a prefix that is no document's.
func (f *Fleet) exists(ctx context.Context, prefix domain.Key) error {
	for _, noun := range domain.DeploymentIntentGroups.Parent.Lineage() {
		if _, ok := noun.Split(prefix); ok {
			_, err := f.lifecycle.store.Get(ctx, noun, prefix)
			return err
		}
	}
	return nil
}

// page reads one more document than are asked for, to know whether that is all. What the caller may not see it passes over. Of those
// that are unreadable nothing but the key is known. A page ends early when its documents are large; the last one may have none then.
func (f *Fleet) page(ctx context.Context, noun *domain.Noun, prefix domain.Key, parameters url.Values) (
	objects []domain.Object, next string, unreadable map[domain.Key]bool, err error,
) {
	limit, after, err := pageAsked(parameters, func(place string) bool {
		_, is := noun.Split(domain.Key(place))
		return is && (prefix == "" || strings.HasPrefix(place, string(prefix)+"/"))
	})
	if err != nil {
		return nil, "", nil, err
	}
	objects, unreadable, more, err := f.shown(ctx, noun, prefix, domain.Key(after), limit+1)
	if err != nil {
		return nil, "", nil, err
	}
	if len(objects) > limit {
		objects, more = objects[:limit], true
	}
	if more {
		next = goOn(string(domain.KeyOf(objects[len(objects)-1])))
	}
	return objects, next, unreadable, nil
}

// shown reads as many documents as are asked for of those that the caller may see, or all there are; more is true when they are fewer because they are
// large. It reads where his rights reach, and nowhere else: a fleet is large, and who may see little of it may ask often.
func (f *Fleet) shown(ctx context.Context, noun *domain.Noun, prefix, after domain.Key, limit int) (
	shown []domain.Object, unreadable map[domain.Key]bool, more bool, err error,
) {
	granted := rights.Of(ctx)
	if granted.Everything() || granted.Shows(noun, prefix) {
		shown, unreadable, left, err := f.read(ctx, noun, prefix, after, limit, limits.Page)
		return shown, unreadable, left < 0, err
	}
	shown, unreadable = []domain.Object{}, map[domain.Key]bool{}
	if prefix != "" {
		return shown, unreadable, false, nil // a right is to all of a scope
	}
	where := granted.Where(noun)
	if every := domain.Key(noun.Lineage()[0].Collection); slices.Contains(where, every) {
		where = []domain.Key{every}
	}
	left := limits.Page
	for _, scope := range reach(where, after) {
		var objects []domain.Object
		var damaged map[domain.Key]bool
		objects, damaged, left, err = f.read(ctx, noun, scope, after, limit-len(shown), left)
		if err != nil {
			return nil, nil, false, err
		}
		shown = append(shown, objects...)
		maps.Copy(unreadable, damaged)
		if len(shown) >= limit || left < 0 {
			break
		}
	}
	return shown, unreadable, left < 0, nil
}

// reach are the scopes in which there may be documents after a key, in the order of the keys of what lies in them.
func reach(scopes []domain.Key, after domain.Key) []domain.Key {
	inside := func(scope domain.Key) string { return string(scope) + "/" }
	scopes = slices.DeleteFunc(scopes, func(scope domain.Key) bool {
		return string(after) > inside(scope) && !after.Under(scope)
	})
	slices.SortFunc(scopes, func(a, b domain.Key) int { return cmp.Compare(inside(a), inside(b)) })
	return scopes
}

// read reads a page. What is unreadable is in its place, as a document that has nothing but its key.
func (f *Fleet) read(ctx context.Context, noun *domain.Noun, prefix, after domain.Key, limit, room int) (
	objects []domain.Object, unreadable map[domain.Key]bool, left int, err error,
) {
	objects, left, err = f.pages.Page(ctx, noun, prefix, after, limit, room)
	ids, err := domain.UnreadableOf(err)
	if err != nil || len(ids) == 0 {
		return objects, nil, left, err
	}
	unreadable = map[domain.Key]bool{}
	for _, id := range ids {
		unreadable[domain.Key(id)], objects = true, append(objects, domain.Blank(noun, domain.Key(id)))
	}
	slices.SortFunc(objects, func(a, b domain.Object) int { return cmp.Compare(domain.KeyOf(a), domain.KeyOf(b)) })
	return objects, unreadable, left, nil
}

// unreadableText says of a row that it cannot be told what belongs there.
const unreadableText = "it cannot be read: who changed it in the database was not the product, or its key is missing"

// Of operations that go on the workflows are asked how far they are: a few at a time, and not more than that for one list.
const (
	asked   = 64
	askedAt = 8
)

// groups says where groups stand: the records of all their contexts are read at once.
func (f *Fleet) groups(ctx context.Context, objects []domain.Object, unreadable map[domain.Key]bool) ([]Group, error) {
	l := f.lifecycle
	ids := make([]string, 0, len(objects))
	for _, o := range objects {
		if id := o.(*domain.DeploymentIntentGroup).History.ContextID(); id != "" {
			ids = append(ids, id)
		}
	}
	records, err := l.records.InstancesByID(ctx, ids)
	damaged, err := domain.UnreadableOf(err)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*domain.Instance, len(records))
	for _, i := range records {
		byID[i.ContextID] = i
	}
	all := make([]Group, 0, len(objects))
	for _, o := range objects {
		g := o.(*domain.DeploymentIntentGroup)
		if key := domain.KeyOf(g); unreadable[key] {
			all = append(all, Group{DeploymentIntentGroup: g, Resource: key, Status: GroupStatus{Reason: unreadableText}})
			continue
		}
		group := groupOf(g, byID[g.History.ContextID()])
		if slices.Contains(damaged, group.Status.Instance) {
			group.Status.Context, group.Status.Reason = "", "the record of its app context: "+unreadableText
		}
		all = append(all, group)
	}
	asking, cancel := context.WithTimeout(ctx, policy.ListCounts)
	defer cancel()
	going := panics.New(ctx)
	going.SetLimit(askedAt)
	n := 0
	for k := range all {
		i := byID[all[k].Status.Instance]
		if i == nil || !i.Status.InProgress() {
			continue
		}
		if n++; n > asked {
			break
		}
		going.Go(func() error { f.ask(asking, &all[k].Status, i); return nil })
	}
	if err := going.Wait(); err != nil {
		return nil, err
	}
	f.judge(ctx, all, byID)
	return all, nil
}

// groupOf is a group as the records have it.
func groupOf(g *domain.DeploymentIntentGroup, i *domain.Instance) Group {
	last := g.History.Last()
	s := GroupStatus{
		State: g.History.State(), Since: last.Time.UTC(), Instance: g.History.ContextID(), Revision: g.History.Revision(),
	}
	switch {
	case i != nil && last.By != "":
		s.Context = domain.ContextUpdated
	case i != nil:
		s.Context, s.Counts, s.Reason = i.Status, i.Counts, i.Reason
	case s.Instance != "": // nobody has recorded it yet
		s.Context = domain.ContextInstantiating
	}
	return Group{DeploymentIntentGroup: g, Resource: domain.KeyOf(g), Status: s}
}

// ask asks how far an operation is that goes on, or whether somebody has ended it by hand.
func (f *Fleet) ask(ctx context.Context, s *GroupStatus, i *domain.Instance) {
	s.Counts = nil
	counts, err := f.lifecycle.engine.Counts(ctx, working(i))
	if err == nil {
		s.Counts = counts
		return
	}
	if fail.Is(err, fail.NotFound) {
		if stands, err := f.lifecycle.statusOf(ctx, i); err == nil {
			s.Context = stands
		}
	}
}

// Clusters lists a page of the clusters of a provider, or with "" of all. NotFound when there is no such provider.
func (f *Fleet) Clusters(ctx context.Context, provider domain.Key, parameters url.Values) (*ClusterList, error) {
	if provider != "" {
		if _, err := f.lifecycle.store.Get(ctx, domain.ClusterProviders, provider); err != nil {
			return nil, err
		}
	}
	objects, next, unreadable, err := f.page(ctx, domain.ClustersNoun, provider, parameters)
	if err != nil {
		return nil, err
	}
	labels, err := f.labels(ctx, provider)
	if err != nil {
		return nil, err
	}
	list := &ClusterList{Continue: next}
	list.Items, err = f.clusters(ctx, objects, unreadable, labels)
	return list, err
}

// clusters says where clusters stand, with these labels: what is known of all of them is read at once.
func (f *Fleet) clusters(ctx context.Context, objects []domain.Object, unreadable map[domain.Key]bool, labels map[domain.Key][]string) ([]Cluster, error) {
	watches, err := f.lifecycle.heard.Watches(ctx, nil)
	if err != nil {
		return nil, err
	}
	unreachable, err := f.pages.UnreachableSince(ctx)
	if err != nil {
		return nil, err
	}
	groups, err := f.groupsOn(ctx)
	if err != nil {
		return nil, err
	}
	now := f.lifecycle.now()
	all := make([]Cluster, 0, len(objects))
	for _, o := range objects {
		c := o.(*domain.Cluster)
		name := c.ClusterName()
		if key := domain.KeyOf(c); unreadable[key] {
			all = append(all, Cluster{Cluster: c, Resource: key, Status: ClusterStatus{
				Connectivity: domain.ConnectivityUnknown, Report: c.Reporting(), Groups: groups[name].groups, Labels: labels[key], Reason: unreadableText,
			}})
			continue
		}
		contact := view.ContactAt(watches[name], now)
		since, away := unreachable[name]
		s := ClusterStatus{
			Connectivity: connectivityOf(c, contact.Heard, away), UnreachableSince: momentOf(since), Heard: contact.Heard, Report: c.Reporting(),
			Groups: groups[name].groups, Working: groups[name].working, Failed: groups[name].failed,
			Reason: cmp.Or(contact.Reason, c.Tried.Error), Labels: labels[domain.KeyOf(c)], Version: c.Tried.Version,
			LastHeard: momentOf(contact.LastSeen),
		}
		if s.Reason != "" && (contact.Reason == "" || contact.LastSeen.IsZero()) {
			s.TriedAt = momentOf(c.Tried.At)
		}
		if !c.Expires.IsZero() {
			s.CredentialsExpire = &c.Expires
		}
		all = append(all, Cluster{Cluster: c, Resource: domain.KeyOf(c), Status: s})
	}
	return all, nil
}

// labels are those that the caller may see of all clusters of a provider, or with "" of all, by cluster: they are read at once.
func (f *Fleet) labels(ctx context.Context, provider domain.Key) (map[domain.Key][]string, error) {
	found, err := f.lifecycle.store.ListUnder(ctx, domain.ClusterLabels, provider)
	found, err = shownTo(rights.Of(ctx), domain.ClusterLabels, found, err)
	if _, err := domain.UnreadableOf(err); err != nil {
		return nil, err
	}
	of := map[domain.Key][]string{}
	for _, o := range found {
		of[o.Base().Parent] = append(of[o.Base().Parent], o.LocalName())
	}
	for _, labels := range of {
		slices.Sort(labels)
	}
	return of, nil
}

func connectivityOf(c *domain.Cluster, heard, unreachable bool) domain.Connectivity {
	switch {
	case unreachable:
		return domain.ConnectivityRetrying
	case heard, !c.Tried.At.IsZero() && c.Tried.Error == "":
		return domain.ConnectivityAvailable
	default:
		return domain.ConnectivityUnknown
	}
}

// presence counts the groups that may have something on a cluster, and those of them with an operation that goes on or has failed. How
// far each is on this cluster would take its leaf records: 20,000 of one group, each time that one of them is another.
type presence struct{ groups, working, failed int }

// groupsOn counts the groups that may have something on each cluster.
func (f *Fleet) groupsOn(ctx context.Context) (map[domain.ClusterName]presence, error) {
	active, err := f.lifecycle.records.ActiveInstances(ctx)
	if _, err := domain.UnreadableOf(err); err != nil {
		return nil, err
	}
	active = slices.DeleteFunc(active, func(i *domain.Instance) bool {
		return domain.OwnerNoun(i.Owner) != domain.DeploymentIntentGroups || i.Plan == ""
	})
	each := make([][]domain.ClusterName, len(active))
	g, ctx := panics.WithContext(ctx)
	g.SetLimit(gatheredAtOnce)
	for n, i := range active {
		g.Go(func() (err error) {
			each[n], err = f.lifecycle.recall.clusters(ctx, f.lifecycle.records, i.Plan)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	on := map[domain.ClusterName]presence{}
	for n, clusters := range each {
		status := active[n].Status
		for _, c := range clusters {
			p := on[c]
			p.groups++
			if status.InProgress() {
				p.working++
			}
			if status == domain.ContextInstantiateFailed || status == domain.ContextTerminateFailed {
				p.failed++
			}
			on[c] = p
		}
	}
	return on, nil
}

// clusters are those that a plan goes to, sorted.
func (r *recall) clusters(ctx context.Context, records Records, digest domain.Digest) ([]domain.ClusterName, error) {
	if found, ok := r.clustersOf.Get(digest); ok {
		return found, nil
	}
	p, err := r.plan(ctx, records, digest)
	if err != nil {
		return nil, err
	}
	found := reached(p)
	r.clustersOf.Add(digest, found, domain.WeightOfClusters(found))
	return found, nil
}

// reached are the clusters that a plan goes to, sorted.
func reached(p *plan.Plan) (clusters []domain.ClusterName) {
	for _, a := range p.Apps {
		for _, t := range a.Targets {
			clusters = append(clusters, t.ClusterName)
		}
	}
	slices.SortFunc(clusters, domain.ClusterName.Compare)
	return slices.Clone(slices.Compact(clusters)) // without the room of each app's
}

// maxWatched is how many groups, or clusters, one watch may go over.
const maxWatched = 20_000

// FleetSnapshot is where all groups below a prefix, all clusters, or operations stand at a time.
type FleetSnapshot struct{ image *status.Image }

// Image is an object with a member for each, by its path below /v2. The query is that of a status and says nothing
// here.
func (s *FleetSnapshot) Image(status.Query) (*status.Image, error) { return s.image, nil }

// Known is nil: there are no rows.
func (s *FleetSnapshot) Known() *status.Source { return nil }

// FleetClusters stands for all clusters in place of a prefix of groups, and FleetUnlabelled for those without their labels, as who has no right
// to these sees them: a stream is shared.
const (
	FleetClusters   domain.Key = "clusters"
	FleetUnlabelled domain.Key = "clusters-unlabelled"
)

// Snapshot looks at all groups below a prefix, at FleetClusters, at FleetUnlabelled or at FleetOperations. Invalid when they are too many to be watched.
func (f *Fleet) Snapshot(ctx context.Context, prefix domain.Key) (*FleetSnapshot, error) {
	if prefix == FleetOperations {
		return f.operations(ctx)
	}
	if prefix == FleetClusters || prefix == FleetUnlabelled {
		var labels map[domain.Key][]string
		if prefix == FleetClusters {
			var err error
			if labels, err = f.labels(ctx, ""); err != nil {
				return nil, err
			}
		}
		return snapshot(ctx, f, domain.ClustersNoun, "", func(ctx context.Context, objects []domain.Object, unreadable map[domain.Key]bool, stands map[domain.Key]ClusterStatus) error {
			clusters, err := f.clusters(ctx, objects, unreadable, labels)
			for _, c := range clusters {
				if c.Status.Heard {
					c.Status.LastHeard = nil // is now, and would be another time with each pulse
				}
				stands[c.Resource] = c.Status
			}
			return err
		})
	}
	if err := f.exists(ctx, prefix); err != nil {
		return nil, err
	}
	return snapshot(ctx, f, domain.DeploymentIntentGroups, prefix, func(ctx context.Context, objects []domain.Object, unreadable map[domain.Key]bool, stands map[domain.Key]GroupStatus) error {
		groups, err := f.groups(ctx, objects, unreadable)
		for _, g := range groups {
			stands[g.Resource] = g.Status
		}
		return err
	})
}

// snapshot looks at all documents of a noun below a prefix; look says where those of a page stand.
func snapshot[S any](
	ctx context.Context, f *Fleet, noun *domain.Noun, prefix domain.Key,
	look func(ctx context.Context, objects []domain.Object, unreadable map[domain.Key]bool, stands map[domain.Key]S) error,
) (*FleetSnapshot, error) {
	all := map[domain.Key]S{}
	for after := domain.Key(""); ; {
		objects, unreadable, left, err := f.read(ctx, noun, prefix, after, maxLimit, limits.Page)
		if err != nil {
			return nil, err
		}
		if err := look(ctx, objects, unreadable, all); err != nil {
			return nil, err
		}
		if len(objects) < maxLimit && left >= 0 {
			break
		}
		if len(all) >= maxWatched {
			return nil, fail.New(fail.Invalid, "there are more than %d %s, which is as many as one watch goes over; watch those of one project, or ask for the list", maxWatched, noun.Kind)
		}
		after = domain.KeyOf(objects[len(objects)-1])
	}
	image, err := status.ImageOf(all)
	if err != nil {
		return nil, err
	}
	return &FleetSnapshot{image}, nil
}

// Sign is a short text that is another one when Snapshot may have become another.
func (f *Fleet) Sign(ctx context.Context, prefix domain.Key) (string, error) {
	s, err := f.Snapshot(ctx, prefix)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(s.image.Document())
	return hex.EncodeToString(sum[:]), nil
}
