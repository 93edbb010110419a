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
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/universe"
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
// the words wherever something is kept, told or seen by others of the machine. Who has the right gets back what was put: the documents that
// hold it, and the chart; and who has sent what is wrong is told what of it is.
func TestSecretsAreNowhereInPlain(t *testing.T) { // alone, as others of the cluster must not have its agent
	ctx, s := within(t), harness.SharedStack(t)
	word := func(of string) string { return "sesame-" + of + "-" + kubetest.Name("x") }
	inChart, later, inValues, inKubeconfig, inToken, refused := word("chart"), word("later"), word("values"), word("kubeconfig"), word("token"), word("refused")
	wrong, spoken := word("wrong"), word("workload")
	secrets := []string{inChart, later, inValues, inKubeconfig, inToken, refused, wrong, spoken}
	told := &traces{}
	collector := httptest.NewServer(told)
	defer collector.Close()
	temporary := t.TempDir()
	debug := []string{"DROVER_LOG_LEVEL=debug", "DROVER_OTLP_ENDPOINT=" + collector.URL, "TMPDIR=" + temporary}
	replica, worker := s.AddAPI(t, debug...), s.AddWorker(debug...)
	api := replica.Client.API()
	machine := spyOn(ctx, temporary, replica.PID(), worker.PID())

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
	streams := map[string]*heard{"notifications": listenToNotifications(ctx, t, replica.RPC, d), "stream of groups": listen(ctx, t, replica.URL+"/v2/deployment-intent-groups?watch=true")}
	for name, path := range map[string]string{
		"status": "/status?output=all&watch=true", "what is reported": "/status?output=all&status=ready&watch=true", "objects": "/objects?watch=true", "tables": "/combined-status?watch=true",
	} {
		for _, of := range []*client.Deployment{d, hung} {
			streams["stream of "+name+" of "+of.Group] = listen(ctx, t, replica.URL+"/v2"+client.At(of.Key())+path)
		}
	}
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

	what := sendsWhatIsWrong(ctx, t, s, replica, registered, wrong)
	secrets = append(secrets, saysAWorkload(ctx, t, s, replica, registered, spoken))

	places := map[string][]byte{}
	for name, path := range map[string]string{
		"status": "/status", "status of what is reported": "/status?output=all&status=ready", "details": "/status?output=detail", "summary": "/status?output=summary",
		"explain": "/explain", "preview": "/preview", "objects": "/objects", "combined": "/combined-status",
	} {
		for _, of := range []*client.Deployment{d, &next, hung} {
			places[name+" of "+of.Group] = get(ctx, t, replica.URL+"/v2"+client.At(of.Key())+path)
		}
	}
	_, err = api.Put(ctx, next.AppOf("vault"), vault(later))
	require.NoError(t, err)
	places["diff"] = get(ctx, t, replica.URL+"/v2"+client.At(next.Key())+"/diff?operation=update")
	require.Contains(t, string(places["diff"]), d.Release+"-vault", "the Secret is another one")
	reports, err := json.Marshal(cluster.Reports(t))
	require.NoError(t, err)
	require.Contains(t, string(reports), d.Release+"-vault", "the agent tells of the Secret")
	places["the agent's reports"], places["log of the agent"] = reports, []byte(agent.Log())
	stopped(ctx, t, hung, "InstantiateFailed")
	places["groups"] = get(ctx, t, replica.URL+"/v2/deployment-intent-groups")
	places["cluster"] = get(ctx, t, replica.URL+"/v2"+client.At(registered.Key())+"/status?view=full")
	places["audit"] = get(ctx, t, replica.URL+"/v2/audit?from=1h")
	places["export of audit records"] = s.Send(ctx, http.MethodGet, replica.URL+"/v2/audit?from=1h", map[string]string{"Accept": "application/x-ndjson"}, "").Body
	places["operations"] = get(ctx, t, replica.URL+"/v2/operations")
	typed := newCommand(ctx, t, s)
	typed.env = append(typed.env, "DROVER_SERVER="+replica.URL, "TMPDIR="+temporary, "DROVER_PROJECT="+d.Project)
	for _, line := range [][]string{
		{"status", d.Group}, {"status", d.Group, "-o", "json"}, {"explain", d.Group}, {"explain", hung.Group, "-A"}, {"describe", "group", d.Group}, {"history", d.Group},
		{"diff", d.Group, "--objects"}, {"combined", d.Group}, {"get", "operations"}, {"get", "apps", "-A"}, {"get", "clusters"}, {"cluster", "list"}, {"audit", "--limit", "200"}, {"events"}, {"top"},
		{"approve", what, "-A"}, {"get", "group", "none-" + d.Group},
	} {
		out, said, _ := typed.run(line...)
		require.NotEmpty(t, out+said, "%v", line)
		places["drover "+strings.Join(line, " ")] = []byte(out + said)
	}
	do(ctx, t, &next, "terminate")
	s.Await(ctx, &next, "Terminated")
	do(ctx, t, broken, "terminate")
	s.Await(ctx, broken, "Terminated")

	places["metrics of the API"] = get(ctx, t, replica.URL+"/metrics")
	places["metrics of the worker"] = get(ctx, t, s.WorkerURL()+"/metrics")
	for name, p := range map[string]*harness.Process{"API": s.API, "worker": s.Worker, "API at debug": replica.Process, "worker at debug": worker} {
		places["log of "+name] = []byte(p.Log())
	}
	var sealed []*commonpb.Payload
	places["histories"], sealed = histories(ctx, t, s, d.Project, broken.Project, hung.Project)
	require.NotEmpty(t, sealed)
	places["histories, opened"] = decoded(ctx, t, replica.URL, sealed)
	require.Contains(t, string(places["histories, opened"]), d.Group, "they were opened")
	for name, h := range streams {
		require.NotEmpty(t, h.all(), name)
		places[name] = h.all()
	}
	started := 0
	for name, data := range machine.places() {
		if places[name] = data; strings.HasPrefix(name, "cmdline ") {
			started++
		}
	}
	require.Greater(t, started, 2, "API, worker, and what they have started to render charts")
	require.NoError(t, filepath.WalkDir(typed.dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			places["folder of the command "+path], err = os.ReadFile(path)
		}
		return err
	}))
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
	// A group's document has its values, for who may see the group; who may see a cluster is told what it says of manifests; and who approves, what is wrong.
	own := map[string]map[string]bool{
		inValues: {"groups": true, "stream of groups": true, "drover describe group " + d.Group: true},
		refused:  {"cluster": true},
		wrong:    {"groups": true, "stream of groups": true, "drover approve " + what + " -A": true},
	}
	for name, data := range places {
		for _, w := range secrets {
			if own[w][name] {
				continue
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

// sendsWhatIsWrong sends bodies that hold a word and are refused, each in another way, and gives the name of a group whose chart fails with it.
func sendsWhatIsWrong(ctx context.Context, t *testing.T, s *harness.Stack, r *harness.Replica, on domain.ClusterName, word string) (group string) {
	t.Helper()
	schema := `{"type": "object", "properties": {"password": {"pattern": "^[0-9]*$"}}}`
	for name, chart := range map[string][]byte{
		"fails":  harness.Chart(t, "fails", map[string]string{"a.yaml": "{{ fail (printf \"not with %s\" .Values.password) }}"}),
		"yaml":   harness.Chart(t, "yaml", map[string]string{"a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: x\nstringData: {{ .Values.password }}: ]\n"}),
		"number": harness.Chart(t, "number", map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {n: {{ .Values.password | atoi | add (index .Values.password 99) }}}\n"}),
		"schema": harness.Tgz(t, map[string]string{
			"schema/Chart.yaml": "apiVersion: v2\nname: schema\nversion: 0.1.0\n", "schema/values.schema.json": schema,
			"schema/templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
		}),
	} {
		d := s.On(ctx, []domain.ClusterName{on}, client.App{Name: name, Chart: chart, Overrides: map[string]string{"password": word}})
		d.API = r.Client.API()
		for _, err := range []error{d.Do(ctx, "approve"), func() error { _, err := d.API.PreviewGroup(ctx, d.Key()); return err }()} {
			require.Error(t, err, name)
			require.Less(t, code(t, err), 500, "%s: %v", name, err)
		}
		group = d.Group
	}
	provider, _ := domain.Cut(domain.ClustersNoun, on.Key())
	for _, kubeconfig := range []string{
		"apiVersion: v1\nkind: Config\nusers: [{name: u, user: {token: " + word, // cut off
		"apiVersion: v1\nkind: Config\ncurrent-context: none\nusers: [{name: u, user: {token: " + word + "}}]\n",
		"apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: \"https://127.0.0.1:1\"}}]\n" +
			"users: [{name: u, user: {exec: {command: sh, args: [" + word + "]}}}]\n",
		"apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: \"https://admin:" + word + "@127.0.0.1:1\"}}]\n" +
			"users: [{name: u, user: {client-key-data: " + word + "}}]\n",
	} {
		_, err := r.Client.API().Create(ctx, &domain.Cluster{Identity: domain.Identity{Parent: provider}, Metadata: domain.Metadata{Name: "wrong"}}, []byte(kubeconfig))
		require.Error(t, err, kubeconfig)
		require.Less(t, code(t, err), 500, "%v", err)
	}
	for _, body := range []string{
		`{"metadata": {"name": "x", "description": "` + word, `{"metadata": {"name": "` + strings.ToUpper(word) + `!"}, "spec": {"password": "` + word + `"}}`, `{"metadata": {"name": ["` + word + `"]}}`,
	} {
		answer := s.Send(ctx, http.MethodPost, r.URL+"/v2/projects", map[string]string{"Authorization": "Bearer " + word, "Cookie": "session=" + word}, body)
		require.GreaterOrEqual(t, answer.Code, 400)
		require.Less(t, answer.Code, 500, "%s", answer.Body)
	}
	return group
}

// saysAWorkload has a tenant's cluster say a workload that holds a word, by a token of the tenant, which it gives.
func saysAWorkload(ctx context.Context, t *testing.T, s *harness.Stack, r *harness.Replica, on domain.ClusterName, word string) (token string) {
	t.Helper()
	api, tenant := r.Client.API(), kubetest.Name("marked")
	_, err := api.Create(ctx, &domain.Tenant{Metadata: domain.Metadata{Name: tenant}, Spec: domain.TenantSpec{Cluster: on.String()}}, nil)
	require.NoError(t, err)
	shown := &domain.TenantToken{Identity: domain.Identity{Parent: domain.TenantKey(tenant)}, Metadata: domain.Metadata{Name: "t"}}
	_, err = api.Create(ctx, shown, nil)
	require.NoError(t, err)
	require.NotEmpty(t, shown.Status.Token)
	as := metadata.AppendToOutgoingContext(harness.ForTenant(ctx, tenant), "authorization", "Bearer "+shown.Status.Token)
	connection := s.TenantConnectionAt(r.Tenants, "")
	stream, err := universe.NewWorkloadServiceClient(connection).WorkloadStream(as)
	require.NoError(t, err)
	update := &universe.WorkloadUpdate{}
	require.NoError(t, protojson.Unmarshal([]byte(`{"workload_metadata": {"id": "marked", "resource_type": "v1/Pod", "resource_name": "marked", "resource_namespace": "default", "orchestrator": "ORCHESTRATOR_TYPE_KUBERNETES"},
		"workload_state": {"extra": {"annotations": {"data": {"note": "`+word+`"}}}}}`), update))
	require.NoError(t, stream.Send(&universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadUpdate{WorkloadUpdate: update}}))
	_, err = stream.CloseAndRecv()
	require.NoError(t, err)
	wrong := metadata.AppendToOutgoingContext(harness.ForTenant(ctx, tenant), "authorization", "Bearer drover."+word)
	_, err = universe.NewWorkloadRuleServiceClient(connection).List(wrong, &universe.ListRequest{})
	require.Error(t, err)
	require.NotContains(t, err.Error(), word)
	return shown.Status.Token
}

// histories are all that Temporal tells of the workflows of projects, as it keeps it, and the payloads in it.
func histories(ctx context.Context, t *testing.T, s *harness.Stack, projects ...string) (all []byte, payloads []*commonpb.Payload) {
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
				all, payloads = append(all, data...), append(payloads, payloadsIn(event.ProtoReflect())...)
			}
		}
		if next = page.GetNextPageToken(); len(next) == 0 {
			return all, payloads
		}
	}
}

// payloadsIn are those of a message and of what is in it.
func payloadsIn(m protoreflect.Message) (found []*commonpb.Payload) {
	if p, ok := m.Interface().(*commonpb.Payload); ok {
		return []*commonpb.Payload{p}
	}
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				if field.MapValue().Message() != nil {
					found = append(found, payloadsIn(v.Message())...)
				}
				return true
			})
		case field.Message() == nil:
		case field.IsList():
			for i := range v.List().Len() {
				found = append(found, payloadsIn(v.List().Get(i).Message())...)
			}
		default:
			found = append(found, payloadsIn(v.Message())...)
		}
		return true
	})
	return found
}
