package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/version"
)

// API speaks the API in the types of the product: every operation, with nouns, keys and documents of package domain. Errors
// are fail errors of the kind, with the message and the fields, that the server has given them (see Error); Unavailable when
// it does not answer.
type API struct{ client *Client }

// API is the client in the types of the product.
func (c *Client) API() *API { return &API{c} }

// At is the path of a key below /v2.
func At(key domain.Key) string { return "/" + string(key) }

// Create stores a new document, in its parent (Identity.Parent); file is what comes with it, nil for nothing. o becomes what
// was stored.
//
// The files are for nouns that have any number of them, whose file is nil.
func (a *API) Create(ctx context.Context, o domain.Object, file []byte, files ...domain.Upload) (warnings []string, err error) {
	return a.write(ctx, http.MethodPost, At(o.Base().Parent.Child(o.Noun().Collection)), o, file, files)
}

// Put replaces a document, or creates it. Without a file the one that is stored stays, where a noun allows that.
// Files are as of Create.
func (a *API) Put(ctx context.Context, o domain.Object, file []byte, files ...domain.Upload) (warnings []string, err error) {
	return a.write(ctx, http.MethodPut, At(domain.KeyOf(o)), o, file, files)
}

// PutSame is Put, and says whether the file that came was the stored one, which nobody can read to compare it: the kubeconfig of a
// cluster.
func (a *API) PutSame(ctx context.Context, o domain.Object, file []byte) (same bool, warnings []string, err error) {
	return a.putSame(ctx, At(domain.KeyOf(o)), o, file)
}

// PutReachable is PutSame of a cluster, which is refused (Precondition) with nothing changed where the API cannot reach the cluster with the
// kubeconfig that comes, nil for the stored one.
func (a *API) PutReachable(ctx context.Context, c *domain.Cluster, kubeconfig []byte) (same bool, warnings []string, err error) {
	return a.putSame(ctx, At(domain.KeyOf(c))+"?reachable=true", c, kubeconfig)
}

func (a *API) putSame(ctx context.Context, path string, o domain.Object, file []byte) (same bool, warnings []string, err error) {
	answer, err := a.send(ctx, http.MethodPut, path, o, file, nil)
	if err != nil {
		return false, nil, err
	}
	return answer.header.Get("Drover-File") == "unchanged", answer.warnings(), nil
}

// Files reads the files that came with a document, in their order. One that came alone has no name where EMCO gives it none.
func (a *API) Files(ctx context.Context, key domain.Key) ([]domain.Upload, error) {
	answer, err := a.call(ctx, request{method: http.MethodGet, path: At(key), accept: "multipart/form-data"})
	if err != nil {
		return nil, err
	}
	_, parameters, err := mime.ParseMediaType(answer.header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("decode answer of GET %s: %w", key, err)
	}
	// Where a form ends between the headers of a part, package multipart takes that for its end.
	if last := "--" + parameters["boundary"] + "--"; !bytes.HasSuffix(bytes.TrimRight(answer.body, "\r\n"), []byte(last)) {
		return nil, fail.New(fail.Malformed, "the answer of GET %s ends before its last boundary, and is not whole", key)
	}
	parts := multipart.NewReader(bytes.NewReader(answer.body), parameters["boundary"])
	var all []domain.Upload
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		var data []byte
		if err == nil {
			data, err = io.ReadAll(part)
		}
		if err != nil {
			return nil, fmt.Errorf("decode answer of GET %s: %w", key, err)
		}
		if name := part.FormName(); name == "file" || name == "files" {
			all = append(all, domain.Upload{Name: part.FileName(), Data: data})
		}
	}
}

// Get reads a document.
func (a *API) Get(ctx context.Context, noun *domain.Noun, key domain.Key) (domain.Object, error) {
	o := noun.New()
	o.Base().Parent, _ = domain.Cut(noun, key)
	return o, a.read(ctx, At(key), nil, o)
}

// File reads the file that came with a document. Forbidden for one that is not given away.
func (a *API) File(ctx context.Context, key domain.Key) ([]byte, error) {
	answer, err := a.call(ctx, request{method: http.MethodGet, path: At(key), accept: "application/octet-stream"})
	if err != nil {
		return nil, err
	}
	return answer.body, nil
}

// List reads the documents of a noun directly below parent, sorted by key. Those of domain.DeploymentIntents have no names
// there: see Bindings. Where some cannot be read, the list of the others comes with a LeftOut that names them.
func (a *API) List(ctx context.Context, noun *domain.Noun, parent domain.Key) ([]domain.Object, error) {
	path := At(parent.Child(noun.Collection))
	answer, err := a.call(ctx, request{method: http.MethodGet, path: path})
	if err != nil {
		return nil, err
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(answer.body, &raw); err != nil {
		return nil, fmt.Errorf("decode answer of GET %s: %w", path, err)
	}
	list := make([]domain.Object, 0, len(raw))
	for _, data := range raw {
		o := noun.New()
		o.Base().Parent = parent
		if err := json.Unmarshal(data, o); err != nil {
			return nil, fmt.Errorf("decode %s: %w", noun.Title, err)
		}
		if err := checkKey(noun, domain.KeyOf(o)); err != nil && noun != domain.DeploymentIntents {
			return nil, err
		}
		list = append(list, o)
	}
	if left := answer.header.Get("Drover-Left-Out"); left != "" {
		return list, &LeftOut{fail.New(fail.Internal, "%s of %s are left out: %s", left, noun.Title, strings.Join(answer.warnings(), "; "))}
	}
	return list, nil
}

// checkKey refuses what an API calls a document and is no key of one: it may become a part of a path, here or on this machine.
func checkKey(noun *domain.Noun, key domain.Key) error {
	if _, ok := noun.Split(key); !ok {
		return fail.New(fail.Malformed, "the API lists %q, which is the path of no %s", key, noun.Title)
	}
	return nil
}

// Delete removes a document.
func (a *API) Delete(ctx context.Context, key domain.Key) error {
	_, err := a.Remove(ctx, key)
	return err
}

// Remove is Delete, and gives the warnings that say what stays in clusters of what was removed.
func (a *API) Remove(ctx context.Context, key domain.Key) (left []string, err error) {
	return a.remove(ctx, key, nil)
}

// Abandon removes a tenant, or the registration of a cluster, whose cluster may have something of it and does not come back. It gives
// the warnings that say what is left.
func (a *API) Abandon(ctx context.Context, key domain.Key) (left []string, err error) {
	return a.remove(ctx, key, url.Values{"abandon": {"true"}})
}

// Discard removes a document that the API cannot read; with abandon although it may have something in clusters, or nobody can judge what depends on
// it. It gives the warnings that say what is lost and what is left.
func (a *API) Discard(ctx context.Context, key domain.Key, abandon bool) (left []string, err error) {
	query := url.Values{"unreadable": {"true"}}
	if abandon {
		query.Set("abandon", "true")
	}
	return a.remove(ctx, key, query)
}

// RemoveCluster removes the registration of a cluster with its labels, as Abandon does where that is said.
func (a *API) RemoveCluster(ctx context.Context, key domain.Key, abandon bool) (left []string, err error) {
	query := url.Values{"labels": {"true"}}
	if abandon {
		query.Set("abandon", "true")
	}
	return a.remove(ctx, key, query)
}

// remove deletes a document as the query says, and gives the warnings that come with the answer.
func (a *API) remove(ctx context.Context, key domain.Key, query url.Values) ([]string, error) {
	answer, err := a.call(ctx, request{method: http.MethodDelete, path: At(key), query: query})
	if err != nil {
		return nil, err
	}
	return answer.warnings(), nil
}

// DeleteAll removes the documents of a noun directly below parent, where the noun lets all be removed at once. Those before the one
// that cannot be removed are gone.
func (a *API) DeleteAll(ctx context.Context, noun *domain.Noun, parent domain.Key) error {
	return a.Delete(ctx, parent.Child(noun.Collection))
}

// Accepted is what is answered to an operation that was accepted.
type Accepted struct {
	Operation string   // the id of its run, "" where none has begun
	Revision  int      // of a group's instance after an update; else 0
	Counted   bool     // Revision was answered, and is 0 of an instance that a migrate has made
	Warnings  []string // about the plan
}

// Operate asks an operation of an owner that needs nothing to be said with it: approve, instantiate, terminate, stop, update.
// It returns when the operation is accepted.
func (a *API) Operate(ctx context.Context, owner domain.Key, op domain.Operation) (*Accepted, error) {
	word := string(op)
	if n := domain.OwnerNoun(owner); n != nil {
		word = n.Owner.Word(op)
	}
	return a.operate(ctx, At(owner)+"/"+word, nil, nil)
}

// Reapply is an update that applies all that is wanted, also what is in clusters by the records; otherwise as Operate.
func (a *API) Reapply(ctx context.Context, owner domain.Key) (*Accepted, error) {
	return a.operate(ctx, At(owner)+"/"+string(domain.OpUpdate), url.Values{"reapply": {"true"}}, nil)
}

// Rollback brings the instance of a group back to a revision; otherwise as Operate.
func (a *API) Rollback(ctx context.Context, group domain.Key, revision int) (*Accepted, error) {
	return a.operate(ctx, At(group)+"/rollback", nil, service.RollbackRequest{Spec: service.RollbackSpec{Revision: strconv.Itoa(revision)}})
}

// Migrate hands the instance of a group over to a group of another version of the composite app; otherwise as Operate.
func (a *API) Migrate(ctx context.Context, group domain.Key, version, target string) (*Accepted, error) {
	return a.operate(ctx, At(group)+"/migrate", nil, service.MigrateRequest{Spec: service.MigrateSpec{
		TargetCompositeAppVersion: version, TargetDeploymentIntentGroup: target,
	}})
}

// Status says where an owner stands. The query is that of the API without output of lists; with status=deployed where
// it says nothing, as a Document has the form of EMCO 22.
func (a *API) Status(ctx context.Context, owner domain.Key, query url.Values) (*status.Document, error) {
	q := url.Values{"status": {string(status.TypeDeployed)}}
	for name, values := range query {
		q[name] = values
	}
	d := &status.Document{}
	return d, a.read(ctx, At(owner)+"/status", q, d)
}

// ExplainRule is Explain for a workload rule and what it says of one workload, "" for those that come nearest.
func (a *API) ExplainRule(ctx context.Context, rule domain.Key, workload string) (*explain.Explanation, error) {
	x, q := &explain.Explanation{}, url.Values{}
	if workload != "" {
		q.Set("workload", workload)
	}
	return x, a.read(ctx, At(rule)+"/explain", q, x)
}

// ExplainWorkload is Explain for a workload of a tenant, and what one rule says of it, "" for all.
func (a *API) ExplainWorkload(ctx context.Context, tenant domain.Key, id, rule string) (*explain.Explanation, error) {
	x, q := &explain.Explanation{}, url.Values{}
	if rule != "" {
		q.Set("rule", rule)
	}
	return x, a.read(ctx, At(tenant.Child(domain.Workloads.Collection))+"/"+url.PathEscape(id)+"/explain", q, x)
}

// Explain says why an owner is not as it was wished, or why what is wanted for a tenant, or by a workload rule, is not made.
func (a *API) Explain(ctx context.Context, owner domain.Key) (*explain.Explanation, error) {
	x := &explain.Explanation{}
	return x, a.read(ctx, At(owner)+"/explain", nil, x)
}

// ExplainText is Explain in words.
func (a *API) ExplainText(ctx context.Context, owner domain.Key) (string, error) {
	answer, err := a.call(ctx, request{method: http.MethodGet, path: At(owner) + "/explain", query: url.Values{"output": {"text"}}, accept: "text/plain, application/problem+json"})
	if err != nil {
		return "", err
	}
	return string(answer.body), nil
}

// CombinedStatus has the tables that the status intents of a group ask for. The query is that of the API: app, kind, resource
// and collector.
func (a *API) CombinedStatus(ctx context.Context, group domain.Key, query url.Values) (*combined.List, error) {
	l := &combined.List{}
	return l, a.read(ctx, At(group)+"/combined-status", query, l)
}

// Objects are the objects that a group wants, each with the status that its intents ask for. The query is as CombinedStatus has
// it.
func (a *API) Objects(ctx context.Context, group domain.Key, query url.Values) (*combined.ObjectList, error) {
	l := &combined.ObjectList{}
	return l, a.read(ctx, At(group)+"/objects", query, l)
}

// QueryTables evaluates a status collector once. Nothing is stored.
func (a *API) QueryTables(ctx context.Context, group domain.Key, q *service.TableQuery) (*combined.List, error) {
	data, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("encode query: %w", err)
	}
	answer, err := a.call(ctx, request{method: http.MethodPost, path: At(group) + "/combined-status/query", contentType: jsonType, body: data})
	if err != nil {
		return nil, err
	}
	l := &combined.List{}
	if err := json.Unmarshal(answer.body, l); err != nil {
		return nil, fmt.Errorf("decode answer of a query: %w", err)
	}
	return l, nil
}

// Cluster says what runs in a cluster.
func (a *API) Cluster(ctx context.Context, cluster domain.Key) (*explain.Cluster, error) {
	c := &explain.Cluster{}
	return c, a.read(ctx, At(cluster)+"/status", url.Values{"view": {"full"}}, c)
}

// StreamStatus is Status as a stream: the first document, then what changes of it, until the loop or ctx ends. An error is
// the last pair; without one the server has ended the stream in order. after is the id of the last event that is known,
// "" for none.
func (a *API) StreamStatus(ctx context.Context, owner domain.Key, query url.Values, after string) iter.Seq2[Event, error] {
	q := url.Values{"status": {string(status.TypeDeployed)}}
	for name, values := range query {
		q[name] = values
	}
	return a.watch(ctx, At(owner)+"/status", q, after)
}

// StreamCombinedStatus is CombinedStatus as a stream: the list, then the items that have changed; otherwise as StreamStatus.
func (a *API) StreamCombinedStatus(ctx context.Context, group domain.Key, query url.Values, after string) iter.Seq2[Event, error] {
	return a.watch(ctx, At(group)+"/combined-status", query, after)
}

// StreamObjects is Objects as a stream; otherwise as StreamCombinedStatus.
func (a *API) StreamObjects(ctx context.Context, group domain.Key, query url.Values, after string) iter.Seq2[Event, error] {
	return a.watch(ctx, At(group)+"/objects", query, after)
}

// StreamGroups streams where the groups below a project stand, or with "" those of the fleet; otherwise as StreamStatus.
func (a *API) StreamGroups(ctx context.Context, project domain.Key, after string) iter.Seq2[Event, error] {
	return a.watch(ctx, At(project.Child(domain.DeploymentIntentGroups.Collection)), url.Values{}, after)
}

// Groups are the deployment intent groups of the fleet (""), of a project or of a composite app, with where each of them
// stands, page by page. An error is the last pair.
func (a *API) Groups(ctx context.Context, below domain.Key) iter.Seq2[service.Group, error] {
	all := paged(ctx, a, At(below.Child(domain.DeploymentIntentGroups.Collection)), view(below), func(l *service.GroupList) ([]service.Group, string) {
		return l.Items, l.Continue
	})
	return keyed(all, domain.DeploymentIntentGroups, func(g *service.Group) domain.Key { return g.Resource })
}

// keyed ends a list with an error at what checkKey refuses.
func keyed[T any](list iter.Seq2[T, error], noun *domain.Noun, key func(*T) domain.Key) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for one, err := range list {
			if err == nil {
				err = checkKey(noun, key(&one))
			}
			if !yield(one, err) || err != nil {
				return
			}
		}
	}
}

// view asks for the list with where groups stand where there is another one without.
func view(below domain.Key) url.Values {
	if _, ok := domain.CompositeApps.Split(below); ok {
		return url.Values{"view": {"full"}}
	}
	return nil
}

// Clusters are the clusters of a provider, or with "" of all, with where each of them stands, as Groups.
func (a *API) Clusters(ctx context.Context, provider domain.Key) iter.Seq2[service.Cluster, error] {
	query := url.Values{"view": {"full"}}
	if provider == "" { // of which there is no other list
		query = nil
	}
	all := paged(ctx, a, At(provider.Child(domain.ClustersNoun.Collection)), query, func(l *service.ClusterList) ([]service.Cluster, string) {
		return l.Items, l.Continue
	})
	return keyed(all, domain.ClustersNoun, func(c *service.Cluster) domain.Key { return c.Resource })
}

// Operations are the operations that go on, then those that have ended, the last one first. The filter is the API's query.
func (a *API) Operations(ctx context.Context, filter url.Values) iter.Seq2[operations.Operation, error] {
	return paged(ctx, a, At(domain.Key(domain.Operations.Collection)), filter, func(l *operations.List) ([]operations.Operation, string) {
		return l.Items, l.Continue
	})
}

// Operation is the last run of an operation.
func (a *API) Operation(ctx context.Context, id string) (*operations.Operation, error) {
	o := &operations.Operation{}
	return o, a.read(ctx, "/operations/"+url.PathEscape(id), nil, o)
}

// AuditRecords are the audit records of a project, "" for all, the newest first, page by page. The filter is the API's query. An
// error is the last pair.
func (a *API) AuditRecords(ctx context.Context, project domain.Key, filter url.Values) iter.Seq2[audit.Record, error] {
	return paged(ctx, a, At(project.Child(domain.AuditRecords.Collection)), filter, func(l *service.AuditList) ([]audit.Record, string) {
		return l.Items, l.Continue
	})
}

// CheckCluster asks a cluster, by way of the API, what it is like.
func (a *API) CheckCluster(ctx context.Context, cluster domain.Key, n service.Needs) (*service.ClusterCheck, error) {
	query := url.Values{"group": n.Groups}
	if n.Users {
		query.Set("logicalCloudUsers", "true")
	}
	c := &service.ClusterCheck{}
	return c, a.read(ctx, At(cluster)+"/check", query, c)
}

// AuditKeys are the keys that sign audit records.
func (a *API) AuditKeys(ctx context.Context) (*audit.Keys, error) {
	keys := &audit.Keys{}
	return keys, a.read(ctx, "/audit/keys", nil, keys)
}

// Whoami is who asks. A query of the API says of which nouns, verbs and scope to tell what may be done.
func (a *API) Whoami(ctx context.Context, query url.Values) (*service.Whoami, error) {
	w := &service.Whoami{}
	return w, a.read(ctx, At(domain.Key(domain.Whoami.Collection)), query, w)
}

// TenantStatus is where a tenant stands.
func (a *API) TenantStatus(ctx context.Context, tenant domain.Key) (*service.TenantStatus, error) {
	s := &service.TenantStatus{}
	return s, a.read(ctx, At(tenant)+"/status", nil, s)
}

// Release removes the workloads of a tenant whose deletion is held.
func (a *API) Release(ctx context.Context, tenant domain.Key) error {
	_, err := a.call(ctx, request{method: http.MethodPost, path: At(tenant) + "/release"})
	return err
}

// Workloads are those of a tenant, sorted by id, page by page. The filter is the API's query. An error is the last pair.
func (a *API) Workloads(ctx context.Context, tenant domain.Key, filter url.Values) iter.Seq2[*domain.Workload, error] {
	return paged(ctx, a, At(tenant.Child(domain.Workloads.Collection)), filter, func(l *service.WorkloadList) ([]*domain.Workload, string) {
		return l.Items, l.Continue
	})
}

// Workload is one of a tenant's.
func (a *API) Workload(ctx context.Context, tenant domain.Key, id string) (*domain.Workload, error) {
	w := &domain.Workload{}
	return w, a.read(ctx, At(tenant.Child(domain.Workloads.Collection))+"/"+url.PathEscape(id), nil, w)
}

// PreviewGroup says what an instantiate of a deployment intent group would put where.
func (a *API) PreviewGroup(ctx context.Context, group domain.Key) (*service.GroupPreview, error) {
	p := &service.GroupPreview{}
	return p, a.read(ctx, At(group)+"/preview", nil, p)
}

// Diff says what an operation on a deployment intent group would change in clusters, as the query of the API asks for it, of all pages.
func (a *API) Diff(ctx context.Context, group domain.Key, query url.Values) (*service.GroupDiff, error) {
	query = maps.Clone(query)
	var all *service.GroupDiff
	for {
		page := &service.GroupDiff{}
		if err := a.read(ctx, At(group)+"/diff", query, page); err != nil {
			return nil, err
		}
		if all == nil {
			all = page
		} else {
			all.Items, all.Continue = append(all.Items, page.Items...), page.Continue
		}
		if all.Continue == "" {
			return all, nil
		}
		if query == nil {
			query = url.Values{}
		}
		query.Set("continue", all.Continue)
	}
}

// Preview says what a workload rule would bring about, of a tenant (Identity.Parent) or the operator's: a page, as the query
// of the API asks for it. Nothing is stored.
func (a *API) Preview(ctx context.Context, rule domain.Object, query url.Values) (*service.RulePreview, error) {
	data, err := json.Marshal(rule)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", rule.Noun().Title, err)
	}
	path := At(rule.Base().Parent.Child(rule.Noun().Collection)) + "/preview"
	answer, err := a.call(ctx, request{method: http.MethodPost, path: path, query: query, contentType: jsonType, body: data})
	if err != nil {
		return nil, err
	}
	p := &service.RulePreview{}
	if err := json.Unmarshal(answer.body, p); err != nil {
		return nil, fmt.Errorf("decode answer of a preview: %w", err)
	}
	return p, nil
}

// Matches are those of a tenant, or of a workload rule, of a tenant or the operator's, page by page, as Workloads.
func (a *API) Matches(ctx context.Context, of domain.Key, filter url.Values) iter.Seq2[service.Match, error] {
	return paged(ctx, a, At(of.Child(domain.Matches.Collection)), filter, func(l *service.MatchList) ([]service.Match, string) {
		return l.Items, l.Continue
	})
}

// ClustersByLabel are the names of the clusters of a provider that carry a label.
func (a *API) ClustersByLabel(ctx context.Context, provider domain.Key, label string) (names []string, err error) {
	return names, a.read(ctx, At(provider)+"/clusters", url.Values{"label": {label}}, &names)
}

// ClustersWithLabels are the clusters of a provider with their labels.
func (a *API) ClustersWithLabels(ctx context.Context, provider domain.Key) (list []service.LabelledCluster, err error) {
	return list, a.read(ctx, At(provider)+"/clusters", url.Values{"withLabels": {"true"}}, &list)
}

// Value is the value of one key of a set of key-value pairs.
func (a *API) Value(ctx context.Context, pairs domain.Key, key string) (string, error) {
	var v struct {
		Value string `json:"value"`
	}
	return v.Value, a.read(ctx, At(pairs), url.Values{"key": {key}}, &v)
}

// ProfileOf is the profile of an app in a composite profile.
func (a *API) ProfileOf(ctx context.Context, compositeProfile domain.Key, app string) (*domain.Profile, error) {
	p := &domain.Profile{Identity: domain.Identity{Parent: compositeProfile}}
	return p, a.read(ctx, At(compositeProfile.Child(domain.Profiles.Collection)), url.Values{"app": {app}}, p)
}

// Bindings are what the intents of a deployment intent group bind to it.
func (a *API) Bindings(ctx context.Context, group domain.Key) ([]map[string]string, error) {
	var list struct {
		Intent []map[string]string `json:"intent"`
	}
	err := a.read(ctx, At(group.Child(domain.DeploymentIntents.Collection)), nil, &list)
	return list.Intent, err
}

// Binding is what one intent of a deployment intent group binds to it.
func (a *API) Binding(ctx context.Context, group domain.Key, intent string) (map[string]string, error) {
	var one struct {
		Intent map[string]string `json:"intent"`
	}
	err := a.read(ctx, At(group.Child(domain.DeploymentIntents.Collection))+"/", url.Values{"intent": {intent}}, &one)
	return one.Intent, err
}

// PlacementOf is where one app of a generic placement intent goes.
func (a *API) PlacementOf(ctx context.Context, placementIntent domain.Key, app string) (*domain.AppIntentSpec, error) {
	s := &domain.AppIntentSpec{}
	return s, a.read(ctx, At(placementIntent.Child(domain.AppIntents.Collection))+"/", url.Values{"app": {app}, "app-name": {app}}, s)
}

// UserKubeconfig is the kubeconfig of a logical cloud's user for the cluster of a reference.
func (a *API) UserKubeconfig(ctx context.Context, reference domain.Key) ([]byte, error) {
	answer, err := a.call(ctx, request{method: http.MethodGet, path: At(reference) + "/kubeconfig", accept: "application/yaml, " + jsonType + ";q=0.5"})
	if err != nil {
		return nil, err
	}
	return answer.body, nil
}

// Version is what the process that answers was built from.
func (a *API) Version(ctx context.Context) (*version.Info, error) {
	beside := *a.client // it is not below /v2
	beside.base = strings.TrimSuffix(beside.base, "/v2")
	v := &version.Info{}
	return v, beside.API().read(ctx, "/version", nil, v)
}

// Intents are the deployment intents of a group, with their names, which List does not have.
func (a *API) Intents(ctx context.Context, group domain.Key) ([]domain.Object, error) {
	var list []*domain.DeploymentIntent
	err := a.read(ctx, At(group.Child(domain.DeploymentIntents.Collection)), url.Values{"view": {"full"}}, &list)
	all := make([]domain.Object, 0, len(list))
	for _, o := range list {
		o.Parent = group
		if bad := checkKey(domain.DeploymentIntents, domain.KeyOf(o)); bad != nil {
			return nil, bad
		}
		all = append(all, o)
	}
	return all, err
}

const jsonType = "application/json"

// request is what is asked of the API.
type request struct {
	method      string
	path        string // below /v2
	query       url.Values
	accept      string // "" for JSON
	contentType string // of the body, "" for none
	body        []byte
}

// call makes a request.
func (a *API) call(ctx context.Context, r request) (*answer, error) {
	if len(r.query) > 0 {
		r.path += "?" + r.query.Encode()
	}
	answer, err := a.client.do(ctx, r.method, r.path, cmp.Or(r.accept, jsonType), r.contentType, r.body)
	return answer, unanswered(ctx, err)
}

func (a *API) read(ctx context.Context, path string, query url.Values, v any) error {
	answer, err := a.call(ctx, request{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer.body, v); err != nil {
		return fmt.Errorf("decode answer of GET %s: %w", path, err)
	}
	return nil
}

// write is send, and gives the warnings.
func (a *API) write(ctx context.Context, method, path string, o domain.Object, file []byte, files []domain.Upload) (warnings []string, err error) {
	answer, err := a.send(ctx, method, path, o, file, files)
	if err != nil {
		return nil, err
	}
	return answer.warnings(), nil
}

// send sends a document, as a form where a file comes with it. The document becomes what is answered.
func (a *API) send(ctx context.Context, method, path string, o domain.Object, file []byte, files []domain.Upload) (*answer, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", o.Noun().Title, err)
	}
	contentType, body := jsonType, data
	if file != nil || len(files) > 0 || o.Noun().File && method == http.MethodPost {
		if contentType, body, err = form(data, file, files); err != nil {
			return nil, err
		}
	}
	answer, err := a.call(ctx, request{method: method, path: path, contentType: contentType, body: body})
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(answer.body, o); err != nil {
		return nil, fmt.Errorf("decode answer of %s %s: %w", method, path, err)
	}
	return answer, nil
}

// form has a document, and its file or files.
func form(metadata, file []byte, files []domain.Upload) (contentType string, body []byte, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.WriteField("metadata", string(metadata)); err != nil {
		return "", nil, fmt.Errorf("write form: %w", err)
	}
	if file != nil {
		part, err := w.CreateFormFile("file", "file")
		if err == nil {
			_, err = part.Write(file)
		}
		if err != nil {
			return "", nil, fmt.Errorf("write form: %w", err)
		}
	}
	for _, f := range files {
		part, err := w.CreateFormFile("files", f.Name)
		if err == nil {
			_, err = part.Write(f.Data)
		}
		if err != nil {
			return "", nil, fmt.Errorf("write form: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return "", nil, fmt.Errorf("write form: %w", err)
	}
	return w.FormDataContentType(), b.Bytes(), nil
}

func (a *API) operate(ctx context.Context, path string, query url.Values, body any) (*Accepted, error) {
	var contentType string
	var sent []byte
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode body: %w", err)
		}
		contentType, sent = jsonType, data
	}
	answer, err := a.call(ctx, request{method: http.MethodPost, path: path, query: query, contentType: contentType, body: sent})
	if err != nil {
		return nil, err
	}
	accepted := &Accepted{Operation: answer.header.Get("Drover-Operation"), Warnings: answer.warnings()}
	if revision, err := strconv.Atoi(string(bytes.TrimSpace(answer.body))); err == nil { // other operations say nothing, or something else
		accepted.Revision, accepted.Counted = revision, true
	}
	return accepted, nil
}

// paged reads page after page of a list.
func paged[L, T any](ctx context.Context, a *API, path string, query url.Values, items func(*L) (page []T, next string)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		q := url.Values{}
		for name, values := range query {
			q[name] = values
		}
		for {
			list := new(L)
			if err := a.read(ctx, path, q, list); err != nil {
				var none T
				yield(none, err)
				return
			}
			page, next := items(list)
			for _, one := range page {
				if !yield(one, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			q.Set("continue", next)
		}
	}
}

func (a *API) watch(ctx context.Context, path string, query url.Values, after string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		q := url.Values{"watch": {"true"}}
		maps.Copy(q, query)
		w, err := a.client.watch(ctx, path+"?"+q.Encode(), after)
		if err != nil {
			yield(Event{}, unanswered(ctx, err))
			return
		}
		defer w.close()
		for {
			event, err := w.next()
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(Event{}, unanswered(ctx, err))
				return
			case !yield(event, nil):
				return
			}
		}
	}
}
