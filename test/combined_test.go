package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/test/harness"
)

// seedTables are the collectors of the seed's five examples, and others. The specs of examples 1 and 2, which the seed has lost, are
// those of the conformance table.
var seedTables = map[string]string{
	"one":     `{"combinedFields":[{"name":"count","type":"COUNT"}]}`,
	"two":     `{"groupBy":[{"name":"phase","def":"returned.status.phase"}],"combinedFields":[{"name":"count","type":"COUNT"}]}`,
	"three":   `{"groupBy":[{"name":"numAvailable","def":"returned.status.availableReplicas"}],"combinedFields":[{"name":"count","type":"COUNT"}]}`,
	"four":    `{"filter":"obj.spec.replicas != returned.status.availableReplicas","select":[{"name":"wec","def":"inventory.name"}]}`,
	"five":    `{"select":[{"name":"wec","def":"inventory.name"},{"name":"status","def":"returned.status"},{"name":"retrievalTime","def":"propagation.lastReturnedUpdateTimestamp"}]}`,
	"lacking": `{"filter":"obj.spec.replicas != returned.status.availableReplicas","select":[{"name":"wec","def":"inventory.id"},{"name":"wanted","def":"obj.spec.replicas"}]}`,
	"failing": `{"select":[{"name":"wec","def":"inventory.id"},{"name":"fails","def":"returned.status['first']"}]}`,
	"bomb":    `{"select":[{"name":"bomb","def":"[LIST].all(x, [LIST].all(y, [LIST].all(z, x + y + z >= 0)))"}]}`,
	"secrets": `{"select":[{"name":"wec","def":"inventory.name"},{"name":"all","def":"[obj, returned]"}]}`,
}

// longName is that of an object beside the release's: together they are no value of a label.
var longName = strings.Repeat("n", 70)

// combinedApp has a Deployment and a Pod that run on nodes with a label, a Secret, and a ConfigMap with a long name.
func combinedApp(t *testing.T, label string, replicas int) client.App {
	t.Helper()
	web := harness.Web("site")["web.yaml"]
	web = strings.Replace(web, "spec: {containers:", fmt.Sprintf("spec: {nodeSelector: {%q: \"yes\"}, containers:", label), 1)
	web = strings.Replace(web, "replicas: 1", fmt.Sprintf("replicas: %d", replicas), 1)
	const named = "metadata: {name: \"{{ .Release.Name }}-%s\"}\n"
	return client.App{Name: "site", Chart: harness.Chart(t, "site", map[string]string{
		"web.yaml":    web,
		"pod.yaml":    "apiVersion: v1\nkind: Pod\n" + fmt.Sprintf(named, "pod") + fmt.Sprintf("spec: {nodeSelector: {%q: \"yes\"}, containers: [{name: web, image: nginx}]}\n", label),
		"secret.yaml": "apiVersion: v1\nkind: Secret\n" + fmt.Sprintf(named, "site") + "stringData: {password: open-sesame}\n",
		"long.yaml":   "apiVersion: v1\nkind: ConfigMap\n" + fmt.Sprintf(named, longName) + "data: {}\n",
	})}
}

// label marks the nodes of a cluster for Pods that ask for it, and takes that back when the test ends.
func label(ctx context.Context, t *testing.T, c *harness.Cluster, name string) {
	t.Helper()
	nodes := c.Client(t).CoreV1().Nodes()
	list, err := nodes.List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, list.Items)
	for _, n := range list.Items {
		_, err := nodes.Patch(ctx, n.Name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"yes"}}}`, name), metav1.PatchOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			_, _ = nodes.Patch(context.WithoutCancel(ctx), n.Name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, name), metav1.PatchOptions{})
		})
	}
}

// tablesStream keeps the items of a group's tables as a stream tells of them.
type tablesStream struct {
	*stream
	items map[string]*combined.CombinedStatus
	id    string
	said  strings.Builder // all that was told
}

func streamOfTables(ctx context.Context, d *client.Deployment, after string) *tablesStream {
	next, stop := iter.Pull2(d.API.StreamCombinedStatus(ctx, d.Key(), url.Values{}, after))
	return &tablesStream{stream: &stream{next, stop}, items: map[string]*combined.CombinedStatus{}}
}

// await reads until the tables of the one object of a resource are as they should be.
func (s *tablesStream) await(t *testing.T, resource string, is func(map[string][]string, *combined.CombinedStatus) bool) *combined.CombinedStatus {
	t.Helper()
	for {
		for _, d := range s.items {
			if d.Metadata.Labels["status.kubestellar.io/resource"] == resource && is(rowsOf(d), d) {
				return d
			}
		}
		e, err := s.Next()
		require.NoError(t, err, "the tables were %s", s.said.String())
		require.Contains(t, []string{"status", "change"}, e.Kind, e.Data)
		s.id = e.ID
		s.said.WriteString(e.Data + "\n")
		items, removed, err := e.Tables()
		require.NoError(t, err)
		if e.Kind == "status" {
			clear(s.items)
		}
		for _, d := range items {
			s.items[d.Metadata.Name] = d
		}
		for _, name := range removed {
			delete(s.items, name)
		}
	}
}

// rowsOf are the rows of each table, their cells separated by blanks, then the errors of rows.
func rowsOf(d *combined.CombinedStatus) map[string][]string {
	tables := map[string][]string{}
	for _, r := range d.Results {
		rows := []string{}
		for _, row := range r.Rows {
			var cells []string
			for _, c := range row.Columns {
				switch {
				case c.String != nil:
					cells = append(cells, *c.String)
				case c.Float != nil:
					cells = append(cells, *c.Float)
				default:
					cells = append(cells, string(c.Type))
				}
			}
			rows = append(rows, strings.Join(cells, " "))
		}
		for _, e := range r.RowErrors {
			rows = append(rows, e.WEC.ClusterID+": "+e.Error)
		}
		tables[r.Name] = rows
	}
	return tables
}

// combinedStatus streams tables over two clusters of one name, one with an agent and one without, while all changes that they
// depend on.
func combinedStatus(t *testing.T) {
	ctx, s, clusters := within(t), harness.NewStack(t), clustersOfAgents(t)
	clusters[1].DefineReports(t)
	clusters[1].StartAgent(t)
	const mark = "combined.drover.io/pods"
	label(ctx, t, clusters[0], mark)
	silent, agent := s.RegisterAs(ctx, "same", clusters[0].Kubeconfig(t), "agentless"), s.RegisterAs(ctx, "same", clusters[1].Kubeconfig(t), "agent")
	d := s.On(ctx, []domain.ClusterName{silent, agent}, combinedApp(t, mark, 1))
	tables := streamOfTables(ctx, d, "")
	defer tables.Close()
	var collectors []string
	for name, spec := range seedTables {
		collect(ctx, t, d, name, spec)
		if name != "bomb" {
			collectors = append(collectors, name)
		}
	}
	intend(ctx, t, d, "seed", collectors...)
	do(ctx, t, d, "approve", "instantiate")

	are := func(three []string, four ...string) func(map[string][]string, *combined.CombinedStatus) bool {
		return func(rows map[string][]string, of *combined.CombinedStatus) bool {
			return slices.Equal(rows["one"], []string{"2"}) && slices.Equal(rows["three"], three) &&
				len(rows["four"]) == len(four) && slices.Equal(rows["lacking"], four) && of.Inputs.Stale == 0
		}
	}
	phases := func(two ...string) func(map[string][]string, *combined.CombinedStatus) bool {
		return func(rows map[string][]string, of *combined.CombinedStatus) bool {
			return slices.Equal(rows["two"], two) && of.Inputs.Stale == 0 && of.Inputs.Reported == 2
		}
	}
	id := func(c domain.ClusterName, wanted int) string { return fmt.Sprint(c, " ", wanted) }
	// No Pod is scheduled on the second cluster: the counter is omitted. Both have one name, as examples 4 and 5 show.
	got := tables.await(t, "deployments", are([]string{"1 1", "Null 1"}, id(agent, 1)))
	require.Equal(t, []string{"same"}, rowsOf(got)["four"])
	tables.await(t, "pods", phases("Pending 1", "Running 1"))
	label(ctx, t, clusters[1], mark)
	tables.await(t, "deployments", are([]string{"1 2"}))
	tables.await(t, "pods", phases("Running 2"))
	reportsStatuses(ctx, t, d, clusters)
	longNames(ctx, t, d)

	pods := clusters[0].Client(t).CoreV1().Pods("default")
	require.NoError(t, pods.Delete(ctx, d.Release+"-pod", metav1.DeleteOptions{}))
	tables.await(t, "pods", phases("Running 1", "Null 1")) // the cluster is heard, and says that it is gone

	bomb := intend(ctx, t, d, "more", "bomb")
	tables.await(t, "deployments", func(rows map[string][]string, _ *combined.CombinedStatus) bool {
		_, err := d.Summary(ctx)
		require.NoError(t, err)
		return len(rows["bomb"]) == 4 && strings.Contains(rows["bomb"][3], "cost limit")
	})
	require.NoError(t, d.API.Delete(ctx, bomb))

	replaceChart(ctx, t, d, "site", combinedApp(t, mark, 2).Chart)
	do(ctx, t, d, "update")
	tables.await(t, "deployments", are([]string{"2 2"}))

	clusters[0].Down()
	tables.await(t, "deployments", func(rows map[string][]string, of *combined.CombinedStatus) bool {
		return of.Inputs.Stale == 1 && slices.Equal(rows["three"], []string{"2 2"}) // values stay
	})
	clusters[0].Up(t)
	tables.await(t, "deployments", are([]string{"2 2"}))

	s.Await(ctx, d, "Instantiated")
	s.Worker.Kill()
	scale(ctx, t, clusters[0], d, 3)
	s.StartWorker()
	tables.await(t, "deployments", are([]string{"2 1", "3 1"}, id(silent, 2)))

	s.API.Kill()
	s.StartAPI()
	scale(ctx, t, clusters[1], d, 4)
	again := streamOfTables(ctx, d, tables.id) // resumed
	defer again.Close()
	again.await(t, "deployments", are([]string{"3 1", "4 1"}, id(agent, 2), id(silent, 2))) // in the order of their providers
	sameEverywhere(ctx, t, s, d)

	collect(ctx, t, d, "lacking", `{"filter":"false","select":[{"name":"wec","def":"inventory.name"}]}`)
	again.await(t, "deployments", func(rows map[string][]string, _ *combined.CombinedStatus) bool { return len(rows["lacking"]) == 0 })
	collect(ctx, t, d, "failing", strings.Replace(seedTables["failing"], "first", "second", 1))
	again.await(t, "deployments", func(rows map[string][]string, _ *combined.CombinedStatus) bool { // errors alone have changed
		return len(rows["failing"]) == 4 && slices.Equal(rows["failing"][:2], []string{agent.String() + " Null", silent.String() + " Null"}) &&
			strings.Contains(rows["failing"][2], "no such key: second")
	})

	for _, on := range [][]domain.ClusterName{{silent}, {silent, agent}} { // the second one leaves, and comes back
		_, err := d.API.Put(ctx, d.PlacementOf("site", harness.All(on...)), nil)
		require.NoError(t, err)
		do(ctx, t, d, "update")
		again.await(t, "deployments", func(rows map[string][]string, of *combined.CombinedStatus) bool {
			return slices.Equal(rows["one"], []string{fmt.Sprint(len(on))}) && of.Inputs.Clusters == len(on) && of.Inputs.Stale == 0
		})
		s.Await(ctx, d, "Instantiated")
	}

	whole, err := d.API.CombinedStatus(ctx, d.Key(), nil)
	require.NoError(t, err)
	objects, err := d.API.Objects(ctx, d.Key(), nil)
	require.NoError(t, err)
	told, err := json.Marshal([]any{whole, objects, tables.said.String(), again.said.String()})
	require.NoError(t, err)
	require.Contains(t, string(told), `\"kind\":\"Secret\"`)
	everywhere := []string{string(told), s.API.Log(), s.Worker.Log()}
	for _, path := range []string{"status?type=rsync&output=detail", "status?type=cluster&output=detail", "status?status=ready&output=detail", "explain"} {
		answer, err := s.Read(ctx, client.At(d.Key())+"/"+path, nil)
		require.NoError(t, err)
		everywhere = append(everywhere, string(answer.Body))
	}
	for _, place := range everywhere {
		for _, secret := range []string{"open-sesame", "b3Blbi1zZXNhbWU"} {
			require.NotContains(t, place, secret)
		}
	}
	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")
	whole, err = d.API.CombinedStatus(ctx, d.Key(), nil)
	require.NoError(t, err)
	require.Empty(t, whole.Items)
}

// reportsStatuses compares example 5, and the status in the object, with what the API servers have.
func reportsStatuses(ctx context.Context, t *testing.T, d *client.Deployment, clusters []*harness.Cluster) {
	t.Helper()
	harness.Until(ctx, t, "example 5 with the API servers' statuses", func() bool {
		var want []any
		for _, c := range []*harness.Cluster{clusters[1], clusters[0]} { // in the order of their providers
			o, err := c.Client(t).AppsV1().Deployments("default").Get(ctx, d.Release+"-site", metav1.GetOptions{})
			require.NoError(t, err)
			want = append(want, o.Status)
		}
		list, err := d.API.CombinedStatus(ctx, d.Key(), url.Values{"kind": {"Deployment"}, "collector": {"five"}})
		require.NoError(t, err)
		require.Len(t, list.Items, 1)
		r := list.Items[0].Results[0]
		require.Equal(t, []string{"wec", "status", "retrievalTime"}, r.ColumnNames)
		require.Len(t, r.Rows, 2)
		same := true
		for i, row := range r.Rows {
			require.Equal(t, "same", *row.Columns[0].String)
			at, err := time.Parse(time.RFC3339, *row.Columns[2].String)
			require.NoError(t, err)
			require.False(t, at.IsZero())
			status, err := json.Marshal(want[i])
			require.NoError(t, err)
			same = same && sameJSON(t, status, row.Columns[1].Object)
		}
		return same
	})
	objects, err := d.API.Objects(ctx, d.Key(), url.Values{"kind": {"Deployment"}})
	require.NoError(t, err)
	require.Len(t, objects.Items, 1)
	require.EqualValues(t, 1, objects.Items[0]["status"].(map[string]any)["availableReplicas"])
	for e, err := range d.API.StreamObjects(ctx, d.Key(), url.Values{"kind": {"Deployment"}}, "") {
		require.NoError(t, err)
		streamed, removed, err := e.Objects()
		require.NoError(t, err)
		require.Len(t, streamed, 1)
		require.Equal(t, objects.Items[0]["metadata"].(map[string]any)["name"], streamed[0]["metadata"].(map[string]any)["name"])
		require.Empty(t, removed)
		break
	}
}

func sameJSON(t *testing.T, one, other []byte) bool {
	t.Helper()
	var a, b any
	require.NoError(t, json.Unmarshal(one, &a))
	require.NoError(t, json.Unmarshal(other, &b))
	return reflect.DeepEqual(a, b)
}

// longNames: what is no value of a label is cut there, and whole in an annotation.
func longNames(ctx context.Context, t *testing.T, d *client.Deployment) {
	t.Helper()
	list, err := d.API.CombinedStatus(ctx, d.Key(), url.Values{"resource": {d.Release + "-" + longName}})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	const name = "status.kubestellar.io/name"
	require.Len(t, list.Items[0].Metadata.Labels[name], 63)
	require.Equal(t, d.Release+"-"+longName, list.Items[0].Metadata.Annotations[name])
}

// sameEverywhere compares the bytes of two API processes.
func sameEverywhere(ctx context.Context, t *testing.T, s *harness.Stack, d *client.Deployment) {
	t.Helper()
	other := s.AddAPI(t).Client.API()
	query := &service.TableQuery{Together: true}
	require.NoError(t, json.Unmarshal([]byte(seedTables["five"]), &query.Spec))
	harness.Until(ctx, t, "two API processes that answer alike", func() bool {
		var said [2][]byte
		for i, api := range []*client.API{d.API, other} {
			whole, err := api.CombinedStatus(ctx, d.Key(), nil)
			require.NoError(t, err)
			objects, err := api.Objects(ctx, d.Key(), nil)
			require.NoError(t, err)
			once, err := api.QueryTables(ctx, d.Key(), query)
			require.NoError(t, err)
			said[i], err = json.Marshal([]any{whole, objects, once})
			require.NoError(t, err)
		}
		return bytes.Equal(said[0], said[1])
	})
}

// intend stores a status intent for all objects of the group.
func intend(ctx context.Context, t *testing.T, d *client.Deployment, name string, collectors ...string) domain.Key {
	t.Helper()
	intent := domain.StatusIntents.New().(*domain.StatusIntent)
	intent.Parent, intent.Name, intent.Spec.StatusCollectors = d.Key(), name, collectors
	intent.Spec.WantMultiWECReportedState = true
	_, err := d.API.Create(ctx, intent, nil)
	require.NoError(t, err)
	return domain.KeyOf(intent)
}

// collect stores a collector of the project.
func collect(ctx context.Context, t *testing.T, d *client.Deployment, name, spec string) {
	t.Helper()
	numbers := make([]string, 100)
	for i := range numbers {
		numbers[i] = strconv.Itoa(i)
	}
	spec = strings.ReplaceAll(spec, "LIST", strings.Join(numbers, ","))
	c := domain.ProjectCollectors.New().(*domain.StatusCollector)
	c.Parent, c.Metadata.Name = d.ProjectKey(), name
	require.NoError(t, json.Unmarshal([]byte(spec), &c.Spec))
	_, err := d.API.Put(ctx, c, nil)
	require.NoError(t, err)
}
