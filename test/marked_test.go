package test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/test/harness"
)

// traces takes what is sent by OTLP.
type traces struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (tr *traces) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	_, _ = io.Copy(&tr.data, r.Body)
	w.WriteHeader(http.StatusOK)
}

func (tr *traces) seen() []byte {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return bytes.Clone(tr.data.Bytes())
}

// forms are a word as it may be found: as it is, and in base64 wherever it begins in a group.
func forms(word string) [][]byte {
	found := [][]byte{[]byte(word)}
	for shift := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("?", shift) + word + "???"))
		found = append(found, []byte(text[4:len(text)-8])) // what no neighbour changes
	}
	return found
}

// TestSecretsAreNowhereInPlain deploys what holds marked words, runs all operations, one that fails and one that is stopped, and looks for
// the words wherever something is kept or told. What a user has put is given back to him: the documents that hold it, and the chart.
func TestSecretsAreNowhereInPlain(t *testing.T) { // alone, as others of the cluster must not have its agent
	ctx, s := within(t), harness.SharedStack(t)
	word := func(of string) string { return "sesame-" + of + "-" + kubetest.Name("x") }
	inChart, later, inValues, inKubeconfig, inToken, refused := word("chart"), word("later"), word("values"), word("kubeconfig"), word("token"), word("refused")
	secrets := []string{inChart, later, inValues, inKubeconfig, inToken, refused}
	told := &traces{}
	collector := httptest.NewServer(told)
	defer collector.Close()
	debug := []string{"DROVER_LOG_LEVEL=debug", "DROVER_OTLP_ENDPOINT=" + collector.URL}
	replica, worker := s.AddAPI(t, debug...), s.AddWorker(debug...)
	api := replica.Client.API()

	cluster := harness.NewCluster(t, harness.ClusterNames[0])
	cluster.DefineReports(t)
	agent := cluster.StartAgent(t, "--otlp-endpoint", collector.URL)
	registered := s.RegisterAs(ctx, cluster.Name, append([]byte("made-by: "+inKubeconfig+"\n"), cluster.Kubeconfig(t)...), domain.ReportAgent)
	away := s.Register(ctx, "away", []byte("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"+
		"clusters: [{name: c, cluster: {server: \"https://127.0.0.1:1\"}}]\nusers: [{name: u, user: {token: "+inToken+"}}]\n"))
	vault := func(fixed string) []byte {
		return harness.Chart(t, "vault", map[string]string{"secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ .Release.Name }}-vault\nstringData:\n" +
			"  fixed: " + fixed + "\n  given: {{ .Values.password | default \"none\" | quote }}\n"})
	}
	d := s.On(ctx, []domain.ClusterName{registered}, client.App{Name: "vault", Chart: vault(inChart), Overrides: map[string]string{"password": inValues}})
	d.API = api
	hung := s.On(ctx, []domain.ClusterName{away}, client.App{Name: "vault", Chart: vault(inChart), Overrides: map[string]string{"password": inValues}})
	hung.API = api
	do(ctx, t, hung, "approve", "instantiate") // and tries again until it is stopped
	do(ctx, t, d, "approve", "instantiate")
	s.Await(ctx, d, "Instantiated")
	_, err := api.Put(ctx, d.AppOf("vault"), vault(later))
	require.NoError(t, err)
	do(ctx, t, d, "update")
	s.Await(ctx, d, "Instantiated")
	_, err = api.Rollback(ctx, d.Key(), 1)
	require.NoError(t, err)
	s.Await(ctx, d, "Instantiated")
	next := *d
	next.Version, next.Group = "v2", "next-"+d.Group
	require.NoError(t, api.Run(ctx, next.GroupSteps(), nil))
	do(ctx, t, &next, "approve")
	require.NoError(t, migrate(ctx, d, next.Version, next.Group))
	s.Await(ctx, &next, "Instantiated")
	account := &domain.ServiceAccount{Metadata: domain.Metadata{Name: "marked-" + d.Release}}
	_, err = api.Create(ctx, account, nil)
	require.NoError(t, err)
	shown := &domain.ServiceAccountToken{Identity: domain.Identity{Parent: domain.KeyOf(account)}, Metadata: domain.Metadata{Name: "t"}}
	_, err = api.Create(ctx, shown, nil)
	require.NoError(t, err)
	require.NotEmpty(t, shown.Status.Token)
	secrets = append(secrets, shown.Status.Token)
	broken := s.On(ctx, []domain.ClusterName{registered}, client.App{Name: "broken", Chart: harness.Chart(t, "broken", map[string]string{
		"service.yaml": "apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ .Release.Name }}-broken\nspec:\n  type: " + refused + "\n  ports: [{port: 80}]\n",
	})})
	broken.API = api
	do(ctx, t, broken, "approve", "instantiate")
	failed := s.Await(ctx, broken, "InstantiateFailed")
	require.NotNil(t, failed)
	x, err := api.Explain(ctx, broken.Key())
	require.NoError(t, err)
	require.Contains(t, x.Summary+x.Reasons[0].Error+x.Reasons[0].Text, refused, "whose manifest it is is told what the cluster says of it")

	places := map[string][]byte{}
	for name, path := range map[string]string{
		"status": "/status", "status of what is reported": "/status?output=all&status=ready", "details": "/status?output=detail", "summary": "/status?output=summary",
		"explain": "/explain", "preview": "/preview", "objects": "/objects", "combined": "/combined-status",
	} {
		for _, of := range []*client.Deployment{d, &next, hung} {
			places[name+" of "+of.Group] = get(ctx, t, replica.URL+"/v2"+client.At(of.Key())+path)
		}
	}
	reports, err := json.Marshal(cluster.Reports(t))
	require.NoError(t, err)
	require.Contains(t, string(reports), d.Release+"-vault", "the agent tells of the Secret")
	places["the agent's reports"], places["log of the agent"] = reports, []byte(agent.Log())
	stopped(ctx, t, hung, "InstantiateFailed")
	places["groups"] = get(ctx, t, replica.URL+"/v2/deployment-intent-groups")
	places["cluster"] = get(ctx, t, replica.URL+"/v2"+client.At(registered.Key())+"/status?view=full")
	places["audit"] = get(ctx, t, replica.URL+"/v2/audit?from=1h")
	places["operations"] = get(ctx, t, replica.URL+"/v2/operations")
	do(ctx, t, &next, "terminate")
	s.Await(ctx, &next, "Terminated")
	do(ctx, t, broken, "terminate")
	s.Await(ctx, broken, "Terminated")

	places["metrics of the API"] = get(ctx, t, replica.URL+"/metrics")
	places["metrics of the worker"] = get(ctx, t, s.WorkerURL()+"/metrics")
	for name, p := range map[string]*harness.Process{"API": s.API, "worker": s.Worker, "API at debug": replica.Process, "worker at debug": worker} {
		places["log of "+name] = []byte(p.Log())
	}
	places["histories"] = histories(ctx, t, s, d.Project, broken.Project, hung.Project)
	harness.Until(ctx, t, "traces", func() bool { return len(told.seen()) > 0 })
	places["traces"] = told.seen()
	require.NoError(t, filepath.WalkDir(s.Dir(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, ".lock") || !strings.Contains(path, ".sqlite") && !strings.Contains(path, "temporal.db") {
			return nil //nolint:nilerr // SQLite comes and goes
		}
		data, err := os.ReadFile(path)
		places[filepath.Base(path)] = data
		if os.IsNotExist(err) {
			return nil
		}
		return err
	}))
	files := 0
	for name := range places {
		if strings.Contains(name, "sqlite") || strings.Contains(name, "temporal.db") {
			files++
		}
	}
	require.GreaterOrEqual(t, files, 2, "the files of both databases")
	for name, data := range places {
		for _, w := range secrets {
			if w == refused && name == "cluster" || w == inValues && name == "groups" {
				continue // who may see a cluster is told what it says of manifests, and who may see a group gets its document
			}
			for _, form := range forms(w) {
				if bytes.Contains(data, form) {
					t.Errorf("%s is in plain in %s", w, name)
				}
			}
		}
	}
}

// get is the body of an answer.
func get(ctx context.Context, t *testing.T, at string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s: %s", at, data)
	return data
}

// histories are all that Temporal tells of the workflows of projects, as it keeps it.
func histories(ctx context.Context, t *testing.T, s *harness.Stack, projects ...string) (all []byte) {
	t.Helper()
	temporal := s.DialTemporal(temporalclient.ConnectionOptions{})
	query := "DroverProject IN ('" + strings.Join(projects, "', '") + "')"
	var next []byte
	for {
		page, err := temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, NextPageToken: next})
		require.NoError(t, err)
		for _, x := range page.GetExecutions() {
			data, err := proto.Marshal(x)
			require.NoError(t, err)
			all = append(all, data...)
			events := temporal.GetWorkflowHistory(ctx, x.GetExecution().GetWorkflowId(), x.GetExecution().GetRunId(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
			for events.HasNext() {
				event, err := events.Next()
				if err != nil {
					break // it is gone meanwhile
				}
				data, err := proto.Marshal(event)
				require.NoError(t, err)
				all = append(all, data...)
			}
		}
		if next = page.GetNextPageToken(); len(next) == 0 {
			return all
		}
	}
}
