package test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// seedTables are the collectors of the seed's examples that show what is not there, with a Deployment's status as it is.
var seedTables = map[string]string{
	"histogram": `{"groupBy":[{"name":"numAvailable","def":"returned.status.availableReplicas"}],"combinedFields":[{"name":"count","type":"COUNT"}]}`,
	"lacking":   `{"filter":"obj.spec.replicas != returned.status.availableReplicas","select":[{"name":"wec","def":"inventory.name"}]}`,
	"secrets":   `{"select":[{"name":"wec","def":"inventory.name"},{"name":"all","def":"[obj, returned]"}]}`,
}

// combinedApp has a Deployment whose Pods run on nodes with a label, and a Secret.
func combinedApp(t *testing.T, label string) client.App {
	t.Helper()
	web := harness.Web("site")["web.yaml"]
	web = strings.Replace(web, "spec: {containers:", fmt.Sprintf("spec: {nodeSelector: {%q: \"yes\"}, containers:", label), 1)
	return client.App{Name: "site", Chart: harness.Chart(t, "site", map[string]string{
		"web.yaml": web, "secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: \"{{ .Release.Name }}-site\"}\nstringData: {password: open-sesame}\n",
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
	next, stop := iter.Pull2(d.API.WatchCombinedStatus(ctx, d.Key(), url.Values{}, after))
	return &tablesStream{stream: &stream{next, stop}, items: map[string]*combined.CombinedStatus{}}
}

// await reads until the tables of the Deployment are as they should be.
func (s *tablesStream) await(t *testing.T, is func(map[string][]string, *combined.CombinedStatus) bool) {
	t.Helper()
	for {
		for _, d := range s.items {
			if d.Metadata.Labels["status.kubestellar.io/resource"] == "deployments" && is(rowsOf(d), d) {
				return
			}
		}
		e, err := s.Next()
		require.NoError(t, err, "the tables were %s", s.said.String())
		require.Contains(t, []string{"status", "change"}, e.Kind, e.Data)
		s.id = e.ID
		s.said.WriteString(e.Data + "\n")
		var l struct {
			Items   []*combined.CombinedStatus
			Removed []string
		}
		require.NoError(t, json.Unmarshal([]byte(e.Data), &l))
		if e.Kind == "status" {
			clear(s.items)
		}
		for _, d := range l.Items {
			s.items[d.Metadata.Name] = d
		}
		for _, name := range l.Removed {
			delete(s.items, name)
		}
	}
}

// rowsOf are the rows of each table, their cells separated by blanks.
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
		tables[r.Name] = rows
	}
	return tables
}

// TestCombinedStatus streams tables over two clusters, one with an agent and one without, while they change.
func TestCombinedStatus(t *testing.T) {
	ctx, s, clusters := within(t), harness.NewStack(t), twoClusters(t)
	clusters[1].DefineReports(t)
	clusters[1].StartAgent(t)
	const mark = "combined.drover.io/pods"
	label(ctx, t, clusters[0], mark)
	d := s.On(ctx, []domain.ClusterName{register(ctx, t, s, clusters[0], "agentless"), register(ctx, t, s, clusters[1], "agent")}, combinedApp(t, mark))
	project := domain.Join(domain.Projects.Collection, d.Project)
	tables := streamOfTables(ctx, d, "")
	defer tables.Close()
	for name, spec := range seedTables {
		collect(ctx, t, d, project, name, spec)
	}
	intent := domain.StatusIntents.New().(*domain.StatusIntent)
	intent.Parent, intent.Name, intent.Spec.StatusCollectors = d.Key(), "seed", []string{"histogram", "lacking", "secrets"}
	intent.Spec.WantMultiWECReportedState = true
	_, err := d.API.Create(ctx, intent, nil)
	require.NoError(t, err)
	do(ctx, t, d, "approve", "instantiate")
	are := func(histogram []string, lacking ...string) func(map[string][]string, *combined.CombinedStatus) bool {
		return func(rows map[string][]string, of *combined.CombinedStatus) bool {
			return slices.Equal(rows["histogram"], histogram) && slices.Equal(rows["lacking"], lacking) && of.Inputs.Stale == 0
		}
	}
	tables.await(t, are([]string{"1 1", "Null 1"}, clusters[1].Name)) // no Pod is scheduled there: the counter is omitted

	label(ctx, t, clusters[1], mark)
	tables.await(t, are([]string{"1 2"}))
	objects, err := d.API.Objects(ctx, d.Key(), url.Values{"kind": {"Deployment"}})
	require.NoError(t, err)
	require.Len(t, objects.Items, 1)
	require.EqualValues(t, 1, objects.Items[0]["status"].(map[string]any)["availableReplicas"])

	clusters[0].Down()
	tables.await(t, func(rows map[string][]string, of *combined.CombinedStatus) bool {
		return of.Inputs.Stale == 1 && slices.Equal(rows["histogram"], []string{"1 2"}) // values stay
	})
	clusters[0].Up(t)
	tables.await(t, are([]string{"1 2"}))

	s.Worker.Kill()
	scale(ctx, t, clusters[0], d, 2)
	s.StartWorker()
	tables.await(t, are([]string{"1 1", "2 1"}, clusters[0].Name))

	s.API.Kill()
	s.StartAPI()
	scale(ctx, t, clusters[1], d, 3)
	again := streamOfTables(ctx, d, tables.id)
	defer again.Close()
	again.await(t, are([]string{"2 1", "3 1"}, clusters[1].Name, clusters[0].Name)) // in the order of their providers
	collect(ctx, t, d, project, "lacking", `{"filter":"false","select":[{"name":"wec","def":"inventory.name"}]}`)
	again.await(t, are([]string{"2 1", "3 1"}))

	whole, err := d.API.CombinedStatus(ctx, d.Key(), nil)
	require.NoError(t, err)
	objects, err = d.API.Objects(ctx, d.Key(), nil)
	require.NoError(t, err)
	told, err := json.Marshal([]any{whole, objects, tables.said.String(), again.said.String()})
	require.NoError(t, err)
	require.Contains(t, string(told), `\"kind\":\"Secret\"`)
	for _, secret := range []string{"open-sesame", "b3Blbi1zZXNhbWU"} {
		require.NotContains(t, string(told), secret)
		require.NotContains(t, s.API.Log(), secret)
	}
	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")
	whole, err = d.API.CombinedStatus(ctx, d.Key(), nil)
	require.NoError(t, err)
	require.Empty(t, whole.Items)
}

// collect stores a collector of the project.
func collect(ctx context.Context, t *testing.T, d *client.Deployment, project domain.Key, name, spec string) {
	t.Helper()
	c := domain.ProjectCollectors.New().(*domain.StatusCollector)
	c.Parent, c.Metadata.Name = project, name
	require.NoError(t, json.Unmarshal([]byte(spec), &c.Spec))
	_, err := d.API.Put(ctx, c, nil)
	require.NoError(t, err)
}
