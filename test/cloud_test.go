package test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/workflows"
)

// level1 is a logical cloud of level 1, and the clusters it refers to.
type level1 struct {
	t                                *testing.T
	s                                *harness.Stack
	project, name, path, space, user string
	pipes                            []*harness.Pipe
	clusters                         []client.Cluster
}

var everything = client.M{"apiGroups": []string{"*"}, "resources": []string{"*"}, "verbs": []string{"*"}}

// newLevel1 makes a cloud with a namespace of its own, all rights in it, and a quota.
func newLevel1(ctx context.Context, t *testing.T, s *harness.Stack) *level1 {
	t.Helper()
	id := strings.ToLower(rand.Text()[:8])
	c := &level1{t: t, s: s, project: "project-" + id, name: "lc", space: "space-" + id, user: "user-" + id}
	for _, name := range harness.ClusterNames {
		pipe := harness.NewPipe(t, name)
		c.pipes = append(c.pipes, pipe)
		c.clusters = append(c.clusters, s.Register(ctx, name, pipe.Kubeconfig(t)))
	}
	clouds := "/projects/" + c.project + "/logical-clouds"
	c.path = clouds + "/" + c.name
	permission := client.M{"namespace": c.space}
	for k, v := range everything {
		permission[k] = v
	}
	c.post("/projects", client.Named(c.project))
	c.post(clouds, client.Named(c.name, client.M{
		"level": "1", "namespace": c.space, "labels": client.M{"team": "a"}, "user": client.M{"userName": c.user, "type": "certificate"},
	}))
	c.post(c.path+"/user-permissions", client.Named("primary", permission))
	c.post(c.path+"/cluster-quotas", client.Named("quota", client.M{"count/configmaps": "100"}))
	for i := range c.clusters {
		c.refer(i)
	}
	return c
}

func (c *level1) post(path string, body any) {
	c.t.Helper()
	_, err := c.s.Client.Post(c.t.Context(), path, body)
	require.NoError(c.t, err, path)
}

func (c *level1) reference(i int) string {
	return c.path + "/cluster-references/ref-" + c.clusters[i].Name
}

func (c *level1) refer(i int) {
	c.t.Helper()
	c.post(c.path+"/cluster-references", client.Named("ref-"+c.clusters[i].Name, client.M{
		"clusterProvider": c.clusters[i].Provider, "cluster": c.clusters[i].Name,
	}))
}

// do posts an operation on the cloud and gives the code of the answer.
func (c *level1) do(operation string) (int, error) {
	c.t.Helper()
	answer, err := c.s.Client.Post(c.t.Context(), c.path+"/"+operation, nil)
	if err != nil {
		return code(c.t, err), err
	}
	return answer.Code, nil
}

// cloudStatus is a status document of a cloud.
type cloudStatus struct {
	Project, Name string
	States        struct {
		StatusContextID string `json:"statusctxid"`
		Actions         []struct {
			State, Instance string
			Revision        int
		}
	}
	DeployedStatus, ReadyStatus string
	DeployedCounts, ReadyCounts map[string]int
	Clusters                    []cloudOnCluster
}

type cloudOnCluster struct{ Cluster, Connectivity, LastError string }

// cluster is what the status says of one.
func (s *cloudStatus) cluster(name string) cloudOnCluster {
	for _, c := range s.Clusters {
		if c.Cluster == name {
			return c
		}
	}
	return cloudOnCluster{}
}

// await waits for a status; while the worker is away there may be none.
func (c *level1) await(ctx context.Context, what string, query string, ok func(*cloudStatus) bool) *cloudStatus {
	c.t.Helper()
	for {
		got := &cloudStatus{}
		_, err := c.s.Client.Get(ctx, c.path+"/status?"+query, got)
		if err == nil && ok(got) {
			return got
		}
		select {
		case <-ctx.Done():
			require.FailNow(c.t, "not "+what, "%v\n%+v", err, got)
		case <-time.After(harness.Poll):
		}
	}
}

func (c *level1) awaitStatus(ctx context.Context, status string) *cloudStatus {
	c.t.Helper()
	return c.await(ctx, status, "status=deployed&output=summary", func(s *cloudStatus) bool { return s.DeployedStatus == status })
}

// states are those of the history.
func (c *level1) states(ctx context.Context) []string {
	c.t.Helper()
	var states []string
	for _, a := range c.await(ctx, "anything", "output=summary", func(*cloudStatus) bool { return true }).States.Actions {
		states = append(states, a.State)
	}
	return states
}

// keeper is the id of the workflow that keeps its certificates.
func (c *level1) keeper() string {
	return workflows.CertificatesID(domain.Key(strings.TrimPrefix(c.path, "/")))
}

// signal signals the keeper, which is started when the cloud is instantiated already.
func (c *level1) signal(ctx context.Context, name string) {
	c.t.Helper()
	temporal := c.s.TemporalClient()
	harness.Until(ctx, c.t, "signalled: "+c.keeper(), func() bool {
		return temporal.SignalWorkflow(ctx, c.keeper(), "", name, nil) == nil
	})
}

// kubeconfig is the one that the API gives out, and a client with it.
func (c *level1) kubeconfig(i int) (*kubernetes.Clientset, []byte) {
	c.t.Helper()
	answer, err := c.s.Client.Get(c.t.Context(), c.reference(i)+"/kubeconfig", nil)
	require.NoError(c.t, err)
	require.Equal(c.t, "application/yaml", answer.Header.Get("Content-Type"))
	config, err := clientcmd.RESTConfigFromKubeConfig(answer.Body)
	require.NoError(c.t, err)
	user, err := kubernetes.NewForConfig(config)
	require.NoError(c.t, err)
	return user, answer.Body
}

// certificate is that of a reference.
func (c *level1) certificate(i int) *x509.Certificate {
	c.t.Helper()
	var reference struct{ Spec struct{ Certificate string } }
	_, err := c.s.Client.Get(c.t.Context(), c.reference(i), &reference)
	require.NoError(c.t, err)
	data, err := base64.StdEncoding.DecodeString(reference.Spec.Certificate)
	require.NoError(c.t, err)
	block, _ := pem.Decode(data)
	require.NotNil(c.t, block)
	certificate, err := x509.ParseCertificate(block.Bytes)
	require.NoError(c.t, err)
	return certificate
}

// group describes apps on all clusters of the cloud.
func (c *level1) group(ctx context.Context, apps ...client.App) *client.Deployment {
	c.t.Helper()
	id := strings.ToLower(rand.Text()[:8])
	all := []client.M{}
	for _, k := range c.clusters {
		all = append(all, client.M{"clusterProvider": k.Provider, "cluster": k.Name})
	}
	d := &client.Deployment{
		Project: c.project, CompositeApp: "composite-" + id, Version: "v1", Profile: "profile", LogicalCloud: c.name,
		Group: "group-" + id, Release: "r" + id, Clusters: c.clusters,
	}
	for _, a := range apps {
		a.Profile, a.Intent = harness.Profile(c.t), client.M{"allOf": all}
		d.Apps = append(d.Apps, a)
	}
	require.NoError(c.t, client.Run(ctx, c.s.Client, d.GroupSteps(), nil))
	return d
}

// gone says that nothing of the cloud is in a cluster.
func (c *level1) gone(ctx context.Context, i int) {
	c.t.Helper()
	admin := c.pipes[i].Client(c.t)
	harness.Until(ctx, c.t, "gone: namespace "+c.space, func() bool {
		_, err := admin.CoreV1().Namespaces().Get(ctx, c.space, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	_, err := admin.CertificatesV1().CertificateSigningRequests().Get(ctx, c.name+"-"+c.space+"-user-csr", metav1.GetOptions{})
	require.True(c.t, apierrors.IsNotFound(err), "%v", err)
}

// admitted waits until the cloud's user may read in its namespace: the API server's authorizer learns of a role binding a
// moment after it was written.
func (c *level1) admitted(ctx context.Context, user kubernetes.Interface) {
	c.t.Helper()
	harness.Until(ctx, c.t, "admitted: "+c.user, func() bool {
		_, err := user.CoreV1().ConfigMaps(c.space).List(ctx, metav1.ListOptions{})
		if !apierrors.IsForbidden(err) {
			require.NoError(c.t, err)
		}
		return err == nil
	})
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestLogicalCloudOfLevel1(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	c := newLevel1(ctx, t, s)
	refused, err := c.do("terminate")
	require.Equal(t, 409, refused)
	require.ErrorContains(t, err, "The Logical Cloud is not instantiated")
	_, err = s.Client.Get(ctx, c.reference(0)+"/kubeconfig", nil)
	require.Equal(t, 409, code(t, err))
	require.ErrorContains(t, err, "Logical Cloud hasn't been instantiated")

	accepted, err := c.do("instantiate")
	require.NoError(t, err)
	require.Equal(t, 202, accepted)
	got := c.awaitStatus(ctx, "Instantiated")
	require.Equal(t, map[string]int{"Applied": 10}, got.DeployedCounts)
	require.Equal(t, 1, got.States.Actions[1].Revision)
	for i, pipe := range c.pipes {
		admin := pipe.Client(t)
		namespace, err := admin.CoreV1().Namespaces().Get(ctx, c.space, metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, "a", namespace.Labels["team"])
		_, err = admin.RbacV1().RoleBindings(c.space).Get(ctx, "lc-roleBinding0", metav1.GetOptions{})
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(c.certificate(i).Subject.CommonName, "user-"))

		user, kubeconfig := c.kubeconfig(i)
		require.Contains(t, string(kubeconfig), "name: ref-"+pipe.Name)
		c.admitted(ctx, user)
		_, err = user.CoreV1().ConfigMaps(c.space).Create(ctx, configMap("mine"), metav1.CreateOptions{})
		require.NoError(t, err, "the user's own namespace")
		_, err = user.CoreV1().ConfigMaps("default").Create(ctx, configMap("mine"), metav1.CreateOptions{})
		require.True(t, apierrors.IsForbidden(err), "another one: %v", err)
		_, err = user.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
		require.True(t, apierrors.IsForbidden(err), "the whole cluster: %v", err)
	}
	refused, err = c.do("instantiate")
	require.Equal(t, 409, refused)
	require.ErrorContains(t, err, "The Logical Cloud is already instantiated")
	refused, _ = c.do("stop")
	require.Equal(t, 400, refused, "nothing is going on")
	_, err = s.Client.Delete(ctx, c.path)
	require.Equal(t, 409, code(t, err))

	t.Run("groups go into its namespace with its user's rights", func(t *testing.T) {
		ctx := within(t)
		d := c.group(ctx, twoApps(t)...)
		do(ctx, t, s, d, "approve", "instantiate")
		all := s.Await(ctx, d, "Instantiated")
		require.Equal(t, map[string]int{"Applied": 10}, all.Rsync)
		for _, pipe := range c.pipes {
			_, err := pipe.Client(t).CoreV1().ConfigMaps(c.space).Get(ctx, d.Release+"-settings-000", metav1.GetOptions{})
			require.NoError(t, err)
		}
		refused, err := c.do("terminate")
		require.Equal(t, 400, refused)
		require.ErrorContains(t, err, "Found at least one DIG associated")
		_, err = s.Client.Delete(ctx, c.reference(0))
		require.Equal(t, 409, code(t, err), "the group is there")
		do(ctx, t, s, d, "terminate")
		all = s.Await(ctx, d, "Terminated")
		require.Equal(t, map[string]int{"Deleted": 10}, all.Rsync)
		c.forget(ctx, d)
	})
	t.Run("what the user may not is refused by the cluster", func(t *testing.T) {
		ctx := within(t)
		elsewhere := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-elsewhere\n  namespace: default\n"
		d := c.group(ctx, client.App{Name: "app", Chart: harness.Chart(t, "app", map[string]string{
			"elsewhere.yaml": elsewhere, "here.yaml": strings.NewReplacer("  namespace: default\n", "", "elsewhere", "here").Replace(elsewhere),
		})})
		do(ctx, t, s, d, "approve", "instantiate")
		all := s.Await(ctx, d, "InstantiateFailed")
		require.Equal(t, map[string]int{"Applied": 2, "Failed": 2}, all.Rsync)
		detail, err := d.Status(ctx, s.Client, "output=detail&resource="+d.Release+"-elsewhere")
		require.NoError(t, err)
		for _, k := range detail.Apps[0].Clusters {
			require.Contains(t, k.Resources[0].Message, "forbidden")
			require.Contains(t, k.Resources[0].Message, `cannot patch resource "configmaps" in API group "" in the namespace "default"`)
		}
		do(ctx, t, s, d, "terminate")
		s.Await(ctx, d, "Terminated")
		c.forget(ctx, d)
	})
	t.Run("a certificate is renewed without a break", func(t *testing.T) {
		ctx := within(t)
		before := c.certificate(0)
		_, old := c.kubeconfig(0)
		c.signal(ctx, workflows.RenewSignal)
		harness.Until(ctx, t, "renewed", func() bool { return c.certificate(0).SerialNumber.Cmp(before.SerialNumber) != 0 })
		user, renewed := c.kubeconfig(0)
		require.NotEqual(t, string(old), string(renewed))
		c.admitted(ctx, user)
		d := c.group(ctx, many(t, 3))
		do(ctx, t, s, d, "approve", "instantiate")
		s.Await(ctx, d, "Instantiated")
		do(ctx, t, s, d, "terminate")
		s.Await(ctx, d, "Terminated")
		c.forget(ctx, d)
	})

	accepted, err = c.do("terminate")
	require.NoError(t, err)
	require.Equal(t, 202, accepted)
	got = c.awaitStatus(ctx, "Terminated")
	require.Equal(t, map[string]int{"Deleted": 10}, got.DeployedCounts)
	require.Equal(t, 2, got.States.Actions[2].Revision)
	for i := range c.pipes {
		c.gone(ctx, i)
	}
	keeper, err := s.TemporalClient().DescribeWorkflowExecution(ctx, c.keeper(), "")
	require.NoError(t, err)
	require.Equal(t, "Canceled", keeper.GetWorkflowExecutionInfo().GetStatus().String())
	_, err = s.Client.Get(ctx, c.reference(0)+"/kubeconfig", nil)
	require.Equal(t, 409, code(t, err))

	_, err = c.do("instantiate")
	require.NoError(t, err, "again")
	c.awaitStatus(ctx, "Instantiated")
	user, _ := c.kubeconfig(1)
	c.admitted(ctx, user)
	_, err = c.do("terminate")
	require.NoError(t, err)
	c.awaitStatus(ctx, "Terminated")
	for i := range c.pipes {
		c.gone(ctx, i)
	}
}

// forget deletes a terminated group, so that the cloud can be terminated.
func (c *level1) forget(ctx context.Context, d *client.Deployment) {
	c.t.Helper()
	placement := d.Path() + "/generic-placement-intents/placement"
	paths := []string{placement, d.Path() + "/intents/intent", d.Path()}
	for _, a := range d.Apps {
		paths = append([]string{fmt.Sprintf("%s/app-intents/%s-placement", placement, a.Name)}, paths...)
	}
	for _, path := range paths {
		_, err := c.s.Client.Delete(ctx, path)
		require.NoError(c.t, err)
	}
}

func TestUpdateALogicalCloud(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	c := newLevel1(ctx, t, s)
	update := func() {
		t.Helper()
		updated, err := c.do("update")
		require.NoError(t, err)
		require.Equal(t, 202, updated)
	}
	update() // before it is instantiated there is nothing to do
	remove := func(i int) {
		t.Helper()
		_, err := s.Client.Delete(ctx, c.reference(i))
		require.NoError(t, err)
	}
	remove(1)
	_, err := c.do("instantiate")
	require.NoError(t, err)
	first := c.awaitStatus(ctx, "Instantiated")
	require.Equal(t, map[string]int{"Applied": 5}, first.DeployedCounts)
	update()
	require.Equal(t, []string{"Created", "Instantiated"}, c.states(ctx), "without a difference nothing is recorded")
	before := c.certificate(0)

	c.refer(1)
	update()
	got := c.awaitStatus(ctx, "Instantiated")
	require.Equal(t, map[string]int{"Applied": 10}, got.DeployedCounts)
	require.Equal(t, []string{"Created", "Instantiated", "Updated"}, c.states(ctx))
	last := got.States.Actions[2]
	require.NotEqual(t, first.States.StatusContextID, last.Instance)
	require.Equal(t, first.States.StatusContextID, got.States.StatusContextID)
	require.Equal(t, 2, last.Revision)
	other, _ := c.kubeconfig(0)
	c.admitted(ctx, other)
	user, _ := c.kubeconfig(1)
	c.admitted(ctx, user)
	require.Equal(t, before.SerialNumber, c.certificate(0).SerialNumber, "the other cluster was left alone")
	d := c.group(ctx, many(t, 2))
	do(ctx, t, s, d, "approve", "instantiate")
	s.Await(ctx, d, "Instantiated")
	do(ctx, t, s, d, "terminate")
	s.Await(ctx, d, "Terminated")
	c.forget(ctx, d)

	t.Run("a permission more", func(t *testing.T) {
		ctx := within(t)
		_, err := user.CoreV1().Secrets("kube-public").List(ctx, metav1.ListOptions{})
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		c.post(c.path+"/user-permissions", client.Named("public", client.M{
			"namespace": "kube-public", "apiGroups": []string{""}, "resources": []string{"secrets"}, "verbs": []string{"list"},
		}))
		update()
		require.Equal(t, map[string]int{"Applied": 14}, c.awaitStatus(ctx, "Instantiated").DeployedCounts)
		harness.Until(ctx, t, "allowed", func() bool {
			_, err := user.CoreV1().Secrets("kube-public").List(ctx, metav1.ListOptions{})
			return err == nil
		})
		_, err = s.Client.Delete(ctx, c.path+"/user-permissions/public")
		require.NoError(t, err)
		update()
		require.Equal(t, map[string]int{"Applied": 10}, c.awaitStatus(ctx, "Instantiated").DeployedCounts)
		harness.Until(ctx, t, "forbidden", func() bool {
			_, err := user.CoreV1().Secrets("kube-public").List(ctx, metav1.ListOptions{})
			return apierrors.IsForbidden(err)
		})
	})
	t.Run("a reference that came again gets a certificate", func(t *testing.T) {
		ctx := within(t)
		remove(0)
		c.refer(0)
		update()
		harness.Until(ctx, t, "a kubeconfig", func() bool {
			_, err := s.Client.Get(ctx, c.reference(0)+"/kubeconfig", nil)
			return err == nil
		})
	})
	t.Run("a cluster that leaves while it is down", func(t *testing.T) {
		ctx := within(t)
		c.pipes[1].Down()
		remove(1)
		update()
		got := c.await(ctx, "half done", "status=deployed", func(s *cloudStatus) bool {
			return s.cluster(c.pipes[1].Name).Connectivity == "Retrying"
		})
		require.Equal(t, "Instantiating", got.DeployedStatus)
		c.pipes[1].Up(t)
		got = c.awaitStatus(ctx, "Instantiated")
		require.Equal(t, map[string]int{"Applied": 5}, got.DeployedCounts)
		c.gone(ctx, 1)
	})
	_, err = c.do("terminate")
	require.NoError(t, err)
	c.awaitStatus(ctx, "Terminated")
	c.gone(ctx, 0)
}

func TestLogicalCloudWithAClusterDown(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	c := newLevel1(ctx, t, s)
	// begin instantiates with the second cluster down, and waits until that is seen.
	begin := func(t *testing.T) {
		c.pipes[1].Down()
		_, err := c.do("instantiate")
		require.NoError(t, err)
		got := c.await(ctx, "half done", "status=deployed&output=detail", func(s *cloudStatus) bool {
			return s.DeployedCounts["Applied"] == 5 && s.cluster(c.pipes[1].Name).Connectivity == "Retrying"
		})
		require.Equal(t, "Instantiating", got.DeployedStatus)
		require.Contains(t, got.cluster(c.pipes[1].Name).LastError, "refused")
		refused, err := c.do("instantiate")
		require.Equal(t, 409, refused)
		require.ErrorContains(t, err, "The Logical Cloud is already instantiating")
		_, err = s.Client.Delete(ctx, c.reference(1))
		require.Equal(t, 409, code(t, err))
	}
	end := func() {
		c.awaitStatus(ctx, "Terminated")
		for i := range c.pipes {
			c.gone(ctx, i)
		}
	}
	t.Run("which comes back", func(t *testing.T) {
		ctx := within(t)
		begin(t)
		c.pipes[1].Up(t)
		c.awaitStatus(ctx, "Instantiated")
		user, _ := c.kubeconfig(1)
		c.admitted(ctx, user)
		_, err := c.do("terminate")
		require.NoError(t, err)
		end()
	})
	t.Run("and a stop", func(t *testing.T) {
		ctx := within(t)
		_, err := s.Client.Put(ctx, c.path, client.Named(c.name, client.M{
			"level": "1", "namespace": c.space, "user": client.M{"userName": "next-" + c.user[5:], "type": "certificate"},
		}))
		require.NoError(t, err)
		begin(t)
		_, err = s.Client.Get(ctx, c.reference(1)+"/kubeconfig", nil)
		require.Equal(t, 409, code(t, err), "the certificate that there is, is the earlier user's")
		got := &cloudStatus{}
		stopsSoon(ctx, t, func() error {
			answer, err := s.Client.Post(ctx, c.path+"/stop", nil)
			if err == nil && answer.Code != 200 {
				err = fmt.Errorf("answered with %d", answer.Code)
			}
			return err
		}, func() bool {
			*got = cloudStatus{}
			_, err := s.Client.Get(ctx, c.path+"/status?status=deployed&output=summary", got)
			return err == nil && got.DeployedStatus == "InstantiateFailed"
		})
		require.Equal(t, "InstantiateStopped", got.States.Actions[len(got.States.Actions)-1].State)
		refused, err := c.do("stop")
		require.Equal(t, 409, refused)
		require.ErrorContains(t, err, "LogicalCloud instantiation already stopped")
		refused, err = c.do("instantiate")
		require.Equal(t, 409, refused)
		require.ErrorContains(t, err, "has failed instantiating before")
		_, err = c.do("terminate")
		require.NoError(t, err)
		c.pipes[1].Up(t)
		end()
	})
	t.Run("and a terminate in the middle", func(t *testing.T) {
		begin(t)
		_, err := c.do("terminate")
		require.NoError(t, err)
		refused, err := c.do("terminate")
		require.Equal(t, 409, refused)
		require.ErrorContains(t, err, "already being terminated")
		c.pipes[1].Up(t)
		end()
	})
}

func TestLogicalCloudSurvivesItsWorker(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.NewStack(t)
	c := newLevel1(ctx, t, s)
	for _, pipe := range c.pipes {
		pipe.Slow(100 * time.Millisecond)
	}
	_, err := c.do("instantiate")
	require.NoError(t, err)
	admin := c.pipes[0].Client(t)
	harness.Until(ctx, t, "begun", func() bool {
		_, err := admin.CoreV1().Namespaces().Get(ctx, c.space, metav1.GetOptions{})
		return err == nil
	})
	s.Worker.Kill()
	s.StartWorker()
	got := c.awaitStatus(ctx, "Instantiated")
	require.Equal(t, map[string]int{"Applied": 10}, got.DeployedCounts)
	for i := range c.pipes {
		user, _ := c.kubeconfig(i)
		c.admitted(ctx, user)
	}
	_, err = c.do("terminate")
	require.NoError(t, err)
	s.Worker.Kill()
	s.StartWorker()
	c.awaitStatus(ctx, "Terminated")
	for i := range c.pipes {
		c.gone(ctx, i)
	}
}

// What was in a cluster before the cloud stays as it is, whatever the cloud goes through.
func TestLogicalCloudInANamespaceThatWasThere(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	c := newLevel1(ctx, t, s)
	admin := c.pipes[0].Client(t)
	before, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.space}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.do("instantiate")
	require.NoError(t, err)
	c.awaitStatus(ctx, "Instantiated")
	_, err = s.Client.Put(ctx, c.path, client.Named(c.name, client.M{
		"level": "1", "namespace": c.space, "labels": client.M{"team": "b"}, "user": client.M{"userName": c.user, "type": "certificate"},
	}))
	require.NoError(t, err)
	_, err = c.do("update")
	require.NoError(t, err)
	require.Equal(t, map[string]int{"Applied": 10}, c.awaitStatus(ctx, "Instantiated").DeployedCounts)
	require.Equal(t, []string{"Created", "Instantiated", "Updated"}, c.states(ctx))
	for i := range c.pipes { // what was applied is terminated, whatever the cloud refers to by then
		_, err := s.Client.Delete(ctx, c.reference(i))
		require.NoError(t, err)
	}
	_, err = c.do("terminate")
	require.NoError(t, err)
	c.awaitStatus(ctx, "Terminated")
	c.gone(ctx, 1)
	after, err := admin.CoreV1().Namespaces().Get(ctx, c.space, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, before.Labels, after.Labels)
	require.Nil(t, after.DeletionTimestamp)
}
