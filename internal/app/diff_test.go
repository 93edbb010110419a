package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
)

// unwritable is a store in which nothing may be written.
type unwritable struct{ *store.Store }

var errWritten = errors.New("who only looks has written something")

func (unwritable) PutBlob(context.Context, []byte) (domain.Digest, error) { return "", errWritten }
func (unwritable) PutBlobs(context.Context, [][]byte) ([]domain.Digest, error) {
	return nil, errWritten
}
func (unwritable) Create(context.Context, domain.Object) error         { return errWritten }
func (unwritable) Replace(context.Context, domain.Object) error        { return errWritten }
func (unwritable) PutInstance(context.Context, *domain.Instance) error { return errWritten }
func (unwritable) DeleteInstance(context.Context, string) error        { return errWritten }
func (unwritable) RetractInstance(context.Context, string, func(*domain.Instance) bool) (bool, error) {
	return false, errWritten
}
func (unwritable) PutLeaf(context.Context, domain.Leaf) error { return errWritten }

// carriedOut records that an operation has done all that it was to do.
func carriedOut(t *testing.T, p *Parts, group *domain.DeploymentIntentGroup, prepared *activities.Prepared, id string, revision int) {
	t.Helper()
	key := domain.KeyOf(group)
	require.NoError(t, p.store.PutInstance(t.Context(), &domain.Instance{
		ContextID: id, Owner: key, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated,
		Plan: prepared.Plan, Namespace: prepared.Namespace, LogicalCloud: prepared.LogicalCloud,
	}))
	for _, app := range planned(t, p, prepared).Apps {
		for _, target := range app.Targets {
			require.NoError(t, p.store.PutLeaf(t.Context(), domain.Leaf{
				ID: domain.LeafID(id, app.Name, target.ClusterName), ContextID: id, App: app.Name, Cluster: target.ClusterName,
				Operation: domain.OpInstantiate, Marks: domain.NewMarks(len(app.Resources), domain.MarkApplied).Encode(),
			}))
		}
	}
	if revision > 1 {
		group.History.Leave(group.History.ContextID(), "", revision-1, time.Now())
	}
	group.History.Append(domain.Instantiated, id, revision, time.Now())
	require.NoError(t, p.store.Replace(t.Context(), group))
}

// A difference is what the operation itself would do, by clusters on which it is the same and by field; nothing is written for it.
func TestDiffOfAGroup(t *testing.T) {
	p, ctx := with(t, partial(t)), t.Context()
	d := varied(40)
	d.chart["web/templates/deployment.yaml"] = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: "{{ .Release.Name }}-web", annotations: {drover.io/replace: "true"}}, spec: {replicas: {{ .Values.replicas }}, template: {spec: {}}}}`
	d.chart["web/templates/secret.yaml"] = `{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {password: "{{ .Values.password }}"}}`
	d.archive["v.yaml"] = "{replicas: 1, password: hidden-one}"
	d.store(t, p.store)
	key := domain.KeyOf(d.group)
	lifecycle := service.NewLifecycle(p.store, p.store, heard{p.store, p.rules}, p.engine, time.Now)
	lifecycle.Foresee = activities.NewRehearsal(unwritable{p.store}, p.engine, p.charts).Foresee
	lifecycle.Masks = bundle.NewMasker([]byte("key"))
	worker := &activities.Control{Store: p.store, Runs: p.engine, Now: time.Now, Charts: p.charts}
	diff := func(query string) *service.GroupDiff {
		t.Helper()
		q, err := url.ParseQuery(query)
		require.NoError(t, err)
		out, err := lifecycle.Diff(ctx, key, q)
		require.NoError(t, err)
		return out
	}

	first := diff("")
	require.Equal(t, domain.OpInstantiate, first.Operation, "it need not be approved")
	require.Equal(t, service.DiffCounts{Create: 120}, first.Changes)
	require.Equal(t, 40, first.Clusters)
	require.Len(t, first.Items, 2, "two sorts of clusters")
	require.True(t, first.Items[0].Arrives)
	require.Equal(t, plan.ActionCreate, first.Items[0].Resources[0].Action)
	for _, r := range first.Items[0].Resources {
		require.False(t, r.Replace, "what is new replaces nothing")
	}
	require.Contains(t, jsonOf(t, first.Items[0].Resources[0].Object), `"kind":`)

	d.group.History.Append(domain.Approved, "", 0, time.Now())
	require.NoError(t, p.store.Replace(ctx, d.group))
	prepared, err := worker.Prepare(ctx, domain.Scope{Owner: key, ContextID: "2", Operation: domain.OpInstantiate})
	require.NoError(t, err)
	carriedOut(t, p, d.group, prepared, "2", 1)
	same := diff("")
	require.Equal(t, domain.OpUpdate, same.Operation)
	require.Empty(t, same.Items)
	require.Equal(t, 120, same.Unchanged)
	require.Zero(t, same.Changes)

	d.profile.Archive, err = p.store.PutBlob(ctx, packed(t, map[string]string{"manifest.yaml": d.archive["manifest.yaml"], "v.yaml": "{replicas: 3, password: hidden-two}"}))
	require.NoError(t, err)
	require.NoError(t, p.store.Replace(ctx, d.profile))
	second := diff("operation=update")
	require.Equal(t, service.DiffCounts{Change: 80}, second.Changes)
	require.Equal(t, []service.DiffApp{{App: "web", Clusters: 40, Changes: service.DiffCounts{Change: 80}}}, second.Apps)
	require.Equal(t, 1, second.From)
	fields := map[string]service.DiffField{}
	for _, r := range second.Items[0].Resources {
		require.Len(t, r.Fields, 1, r.Resource)
		require.Equal(t, r.Resource == "Deployment/r1-web", r.Replace, r.Resource)
		fields[r.Resource+" "+r.Fields[0].Path] = r.Fields[0]
	}
	require.Equal(t, "3", jsonOf(t, fields["Deployment/r1-web spec.replicas"].After))
	require.Equal(t, "1", jsonOf(t, fields["Deployment/r1-web spec.replicas"].Before))
	password := fields["Secret/s stringData.password"]
	require.Contains(t, password.After, "hmac-sha256:")
	require.NotEqual(t, password.Before, password.After)
	require.NotContains(t, jsonOf(t, second), "hidden")

	all := len(second.Items)
	var paged []service.DiffItem
	query := "limit=1"
	for range all {
		page := diff(query)
		require.Len(t, page.Items, 1)
		require.Equal(t, second.Changes, page.Changes, "the counts are of all")
		paged = append(paged, page.Items...)
		query = "limit=1&continue=" + url.QueryEscape(page.Continue)
		require.Equal(t, len(paged) == all, page.Continue == "")
	}
	require.Equal(t, second.Items, paged)
	one := diff("cluster=cp%2Bc3&app=web")
	require.Len(t, one.Items, 1)
	require.Equal(t, []string{"cp+c3"}, one.Items[0].Clusters)
	require.Equal(t, one, diff("cluster=cp+c3&app=web"), "a plus that was not escaped")
	far := &domain.Cluster{Identity: domain.Identity{Parent: "cluster-providers/cp"}, Metadata: domain.Metadata{Name: "far"}, History: domain.NewHistory(time.Now())}
	require.NoError(t, p.store.Create(ctx, far))
	require.Empty(t, diff("cluster=cp%2Bfar").Items, "the group does not go there")

	viewer := rights.With(ctx, rights.NewBook(nil, []*domain.RoleBinding{{
		Identity: domain.Identity{Parent: domain.ScopeOf(key)},
		Spec:     domain.RoleBindingSpec{Role: domain.RoleViewer, Subjects: []domain.RightSubject{{Kind: domain.SubjectUser, Name: "v"}}},
	}}).Of(caller.Identity{Kind: caller.User, Name: "v"}))
	for _, cluster := range []string{"cp+far", "cp+none"} {
		out, err := lifecycle.Diff(viewer, key, url.Values{"cluster": {cluster}})
		require.NoError(t, err, "who does not see clusters is not told which there are")
		require.Empty(t, out.Items)
	}

	prepared, err = worker.PrepareChange(ctx, activities.ChangeInput{Scope: domain.Scope{Owner: key, ContextID: "3", Operation: domain.OpUpdate}})
	require.NoError(t, err)
	require.Equal(t, second.Clusters, prepared.Apps[0].Work.Apply, "the operation does what was foreseen")
	carriedOut(t, p, d.group, prepared, "3", 2)
	require.Empty(t, diff("").Items)
	back := diff("operation=rollback&revision=1")
	require.Equal(t, service.DiffCounts{Change: 80}, back.Changes)
	require.Equal(t, 2, back.From)
	require.Equal(t, 1, *back.To)

	after := diff("operation=update&revision=1")
	require.Equal(t, second.Items, after.Items, "after the rollback an update would do what the last one did")
	require.Equal(t, 1, after.From)

	for query, says := range map[string]string{
		"operation=rollback&revision=7":    "has no revision 7; there are 2, 1",
		"operation=rollback":               "Invalid query revision",
		"operation=rollback&revision=x":    "Invalid query revision",
		"operation=update&revision=9":      "has no revision 9; there are 2, 1",
		"revision=1":                       "only a rollback and an update have one",
		"operation=upgrade":                "use instantiate, update, rollback or migrate",
		"operation=instantiate":            "it has already been instantiated",
		"operation=migrate":                "\nversion: ",
		"app=other":                        "Filter app other not in list of apps for deployment intent group dig (it has: web)",
		"app=web&app=other":                "Filter app other not in list of apps for deployment intent group",
		"app=":                             "Invalid app query: \"\"",
		"cluster=cp%2Bnone":                "Filter cluster cp+none: there is no such cluster",
		"cluster=c3":                       "Invalid cluster query: \"c3\"; use provider+cluster",
		"operation=migrate&version=v1":     "use update",
		"operation=migrate&version=v9":     "not found",
		"group=other":                      "Invalid query group: only a migrate has it",
		"limit=0":                          "Invalid query limit",
		"operation=update&continue=bm9uZQ": `Invalid query continue: "bm9uZQ" is of another list`,
		"continue=d2ViAGNwK25vbmU":         "ask for the first one again",
	} {
		q, err := url.ParseQuery(query)
		require.NoError(t, err)
		_, err = lifecycle.Diff(ctx, key, q)
		require.Error(t, err, query)
		require.Contains(t, fail.TextOf(err), says, query)
		require.NotEqual(t, fail.Internal, fail.KindOf(err), query)
	}
}

// TestDiffOfMuchIsCut: of an item with many large resources so much is shown as an answer may have, and of the others it is said that they
// are too large. Nobody goes on comparing for who does not wait any more.
func TestDiffOfMuchIsCut(t *testing.T) {
	p, ctx := with(t, partial(t)), t.Context()
	const most = 5 << 20 // bytes of an item, with the names of its resources
	d := described()
	d.chart["web/templates/many.yaml"] = `{{ range until 200 }}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: "m{{ . }}"}, data: {text: "{{ repeat 30000 $.Values.text }}"}}
{{ end }}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: huge}, data: {text: "{{ repeat 2200000 $.Values.text }}"}}`
	d.archive["v.yaml"] = "{text: a}"
	d.store(t, p.store)
	key := domain.KeyOf(d.group)
	lifecycle := service.NewLifecycle(p.store, p.store, heard{p.store, p.rules}, p.engine, time.Now)
	lifecycle.Foresee = activities.NewRehearsal(unwritable{p.store}, p.engine, p.charts).Foresee
	shown := func(action plan.Action) (whole, cut []string) {
		t.Helper()
		out, err := lifecycle.Diff(ctx, key, nil)
		require.NoError(t, err)
		require.Len(t, out.Items, 1)
		data, err := json.Marshal(out.Items[0])
		require.NoError(t, err)
		require.Less(t, len(data), most)
		require.Greater(t, len(data), most/2)
		for _, r := range out.Items[0].Resources {
			switch {
			case r.Action != action:
			case r.Cut:
				require.Nil(t, r.Object)
				require.Empty(t, r.Fields)
				cut = append(cut, r.Resource)
			default:
				require.True(t, r.Object != nil || len(r.Fields) > 0, r.Resource)
				whole = append(whole, r.Resource)
			}
		}
		return whole, cut
	}
	whole, cut := shown(plan.ActionCreate)
	require.Contains(t, cut, "ConfigMap/huge")
	require.Greater(t, len(cut), 20)
	require.Greater(t, len(whole), 100)

	d.group.History.Append(domain.Approved, "", 0, time.Now())
	require.NoError(t, p.store.Replace(ctx, d.group))
	worker := &activities.Control{Store: p.store, Runs: p.engine, Now: time.Now, Charts: p.charts}
	prepared, err := worker.Prepare(ctx, domain.Scope{Owner: key, ContextID: "2", Operation: domain.OpInstantiate})
	require.NoError(t, err)
	carriedOut(t, p, d.group, prepared, "2", 1)
	d.profile.Archive, err = p.store.PutBlob(ctx, packed(t, map[string]string{"manifest.yaml": d.archive["manifest.yaml"], "v.yaml": "{text: b}"}))
	require.NoError(t, err)
	require.NoError(t, p.store.Replace(ctx, d.profile))
	whole, cut = shown(plan.ActionChange)
	require.Contains(t, cut, "ConfigMap/huge")
	require.Greater(t, len(cut), 100)
	require.Greater(t, len(whole), 50)
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}
