package test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/url"
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
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/workflows"
)

// level1 is a logical cloud of level 1, and the clusters it refers to.
type level1 struct {
	t                          *testing.T
	s                          *harness.Stack
	api                        *client.API
	project, name, space, user string
	key                        domain.Key
	pipes                      []*harness.Pipe
	clusters                   []domain.ClusterName
}

// newLevel1 makes a cloud with a namespace of its own, all rights in it, and a quota.
func newLevel1(ctx context.Context, t *testing.T, s *harness.Stack) *level1 {
	t.Helper()
	id := strings.ToLower(rand.Text()[:8])
	c := &level1{t: t, s: s, api: s.Client.API(), project: "project-" + id, name: "lc", space: "space-" + id, user: "user-" + id}
	for _, name := range harness.ClusterNames {
		pipe := harness.NewPipe(t, name)
		c.pipes = append(c.pipes, pipe)
		c.clusters = append(c.clusters, s.Register(ctx, name, pipe.Kubeconfig(t)))
	}
	project := &domain.Project{Metadata: domain.Metadata{Name: c.project}}
	cloud := c.described(c.user, "a")
	c.key = domain.KeyOf(cloud)
	c.create(project, cloud, c.permission("primary", domain.UserPermissionSpec{
		Namespace: c.space, APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"},
	}), &domain.ClusterQuota{
		Identity: domain.Identity{Parent: c.key}, Metadata: domain.Metadata{Name: "quota"}, Spec: map[string]string{"count/configmaps": "100"},
	})
	for i := range c.clusters {
		c.refer(i)
	}
	return c
}

// described is the cloud for a user, with a team in the namespace's labels.
func (c *level1) described(user, team string) *domain.LogicalCloud {
	return &domain.LogicalCloud{
		Identity: domain.Identity{Parent: domain.Join(domain.Projects.Collection, c.project)}, Metadata: domain.Metadata{Name: c.name},
		Spec: domain.LogicalCloudSpec{
			Level: "1", Namespace: c.space, Labels: map[string]string{"team": team}, User: domain.CloudUser{UserName: user, Type: "certificate"},
		},
	}
}

// permission is a right of the cloud's user.
func (c *level1) permission(name string, spec domain.UserPermissionSpec) *domain.UserPermission {
	return &domain.UserPermission{Identity: domain.Identity{Parent: c.key}, Metadata: domain.Metadata{Name: name}, Spec: spec}
}

func (c *level1) create(objects ...domain.Object) {
	c.t.Helper()
	for _, o := range objects {
		_, err := c.api.Create(c.t.Context(), o, nil)
		require.NoError(c.t, err, string(domain.KeyOf(o)))
	}
}

// put replaces what the cloud is.
func (c *level1) put(cloud *domain.LogicalCloud) {
	c.t.Helper()
	_, err := c.api.Put(c.t.Context(), cloud, nil)
	require.NoError(c.t, err)
}

func (c *level1) reference(i int) domain.Key {
	return c.key.Child(domain.ClusterReferences.Collection, "ref-"+c.clusters[i].Name)
}

func (c *level1) refer(i int) {
	c.t.Helper()
	c.create(&domain.ClusterReference{
		Identity: domain.Identity{Parent: c.key}, Metadata: domain.Metadata{Name: c.reference(i).Name()},
		Spec: domain.ClusterReferenceSpec{ClusterProvider: c.clusters[i].Provider, Cluster: c.clusters[i].Name},
	})
}

// do asks an operation on the cloud, and gives the code of a refusal.
func (c *level1) do(operation domain.Operation) (refused int, err error) {
	c.t.Helper()
	if _, err = c.api.Operate(c.t.Context(), c.key, operation); err != nil {
		refused = code(c.t, err)
	}
	return refused, err
}

// of is what a cloud's status says of a cluster.
func of(s *status.Document, cluster string) status.DocumentCluster {
	for _, c := range s.Clusters {
		if c.Name == cluster {
			return c
		}
	}
	return status.DocumentCluster{}
}

// await waits for a status; while the worker is away there may be none.
func (c *level1) await(ctx context.Context, what, output string, ok func(*status.Document) bool) *status.Document {
	c.t.Helper()
	var got *status.Document
	var wrong error
	err := harness.Look(ctx, func() bool {
		got, wrong = c.api.Status(ctx, c.key, url.Values{"output": {output}})
		return wrong == nil && ok(got)
	})
	require.NoError(c.t, err, "not %s: %v\n%+v", what, wrong, got)
	return got
}

func (c *level1) awaitStatus(ctx context.Context, where domain.ContextStatus) *status.Document {
	c.t.Helper()
	return c.await(ctx, string(where), "summary", func(s *status.Document) bool { return s.Status == where })
}

// states are those of the history.
func (c *level1) states(ctx context.Context) []string {
	c.t.Helper()
	return states(c.await(ctx, "anything", "summary", func(*status.Document) bool { return true }))
}

// keeper is the id of the workflow that keeps its certificates.
func (c *level1) keeper() string {
	return workflows.CertificatesID(c.key)
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
	kubeconfig, err := c.api.UserKubeconfig(c.t.Context(), c.reference(i))
	require.NoError(c.t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	require.NoError(c.t, err)
	user, err := kubernetes.NewForConfig(config)
	require.NoError(c.t, err)
	return user, kubeconfig
}

// certificate is that of a reference.
func (c *level1) certificate(i int) *x509.Certificate {
	c.t.Helper()
	reference, err := c.api.Get(c.t.Context(), domain.ClusterReferences, c.reference(i))
	require.NoError(c.t, err)
	data, err := base64.StdEncoding.DecodeString(reference.(*domain.ClusterReference).Spec.Certificate)
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
	d := &client.Deployment{
		API: c.api, Project: c.project, CompositeApp: "composite-" + id, Version: "v1", Profile: "profile", LogicalCloud: c.name,
		Group: "group-" + id, Release: "r" + id, Clusters: c.clusters,
	}
	for _, a := range apps {
		a.Profile, a.Intent = harness.Profile(c.t), harness.All(c.clusters...)
		d.Apps = append(d.Apps, a)
	}
	require.NoError(c.t, c.api.Run(ctx, d.GroupSteps(), nil))
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
	_, err = c.api.UserKubeconfig(ctx, c.reference(0))
	require.Equal(t, 409, code(t, err))
	require.ErrorContains(t, err, "Logical Cloud hasn't been instantiated")

	_, err = c.do("instantiate")
	require.NoError(t, err)
	got := c.awaitStatus(ctx, "Instantiated")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 10}, got.Deployed)
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
	require.Equal(t, 409, code(t, c.api.Delete(ctx, c.key)))

	t.Run("groups go into its namespace with its user's rights", func(t *testing.T) {
		ctx := within(t)
		d := c.group(ctx, twoApps(t)...)
		do(ctx, t, d, "approve", "instantiate")
		all := s.Await(ctx, d, "Instantiated")
		require.Equal(t, map[domain.ResourceState]int{"Applied": 10}, all.Deployed)
		for _, pipe := range c.pipes {
			_, err := pipe.Client(t).CoreV1().ConfigMaps(c.space).Get(ctx, d.Release+"-settings-000", metav1.GetOptions{})
			require.NoError(t, err)
		}
		refused, err := c.do("terminate")
		require.Equal(t, 400, refused)
		require.ErrorContains(t, err, "Found at least one DIG associated")
		require.Equal(t, 409, code(t, c.api.Delete(ctx, c.reference(0))), "the group is there")
		do(ctx, t, d, "terminate")
		all = s.Await(ctx, d, "Terminated")
		require.Equal(t, map[domain.ResourceState]int{"Deleted": 10}, all.Deployed)
		forget(ctx, t, d)
	})
	t.Run("what the user may not is refused by the cluster", func(t *testing.T) {
		ctx := within(t)
		elsewhere := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-elsewhere\n  namespace: default\n"
		d := c.group(ctx, client.App{Name: "app", Chart: harness.Chart(t, "app", map[string]string{
			"elsewhere.yaml": elsewhere, "here.yaml": strings.NewReplacer("  namespace: default\n", "", "elsewhere", "here").Replace(elsewhere),
		})})
		do(ctx, t, d, "approve", "instantiate")
		all := s.Await(ctx, d, "InstantiateFailed")
		require.Equal(t, map[domain.ResourceState]int{"Applied": 2, "Failed": 2}, all.Deployed)
		detail, err := d.Status(ctx, url.Values{"output": {"detail"}, "resource": {d.Release + "-elsewhere"}})
		require.NoError(t, err)
		for _, k := range detail.Apps[0].Clusters {
			require.Contains(t, k.Resources[0].Message, "forbidden")
			require.Contains(t, k.Resources[0].Message, `cannot patch resource "configmaps" in API group "" in the namespace "default"`)
		}
		do(ctx, t, d, "terminate")
		s.Await(ctx, d, "Terminated")
		forget(ctx, t, d)
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
		do(ctx, t, d, "approve", "instantiate")
		s.Await(ctx, d, "Instantiated")
		do(ctx, t, d, "terminate")
		s.Await(ctx, d, "Terminated")
		forget(ctx, t, d)
	})

	_, err = c.do("terminate")
	require.NoError(t, err)
	got = c.awaitStatus(ctx, "Terminated")
	require.Equal(t, map[domain.ResourceState]int{"Deleted": 10}, got.Deployed)
	require.Equal(t, 2, got.States.Actions[2].Revision)
	for i := range c.pipes {
		c.gone(ctx, i)
	}
	keeper, err := s.TemporalClient().DescribeWorkflowExecution(ctx, c.keeper(), "")
	require.NoError(t, err)
	require.Equal(t, "Canceled", keeper.GetWorkflowExecutionInfo().GetStatus().String())
	_, err = c.api.UserKubeconfig(ctx, c.reference(0))
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

func TestUpdateALogicalCloud(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	c := newLevel1(ctx, t, s)
	update := func() {
		t.Helper()
		_, err := c.do("update")
		require.NoError(t, err)
	}
	update() // before it is instantiated there is nothing to do
	remove := func(i int) {
		t.Helper()
		require.NoError(t, c.api.Delete(ctx, c.reference(i)))
	}
	remove(1)
	_, err := c.do("instantiate")
	require.NoError(t, err)
	first := c.awaitStatus(ctx, "Instantiated")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 5}, first.Deployed)
	update()
	require.Equal(t, []string{"Created", "Instantiated"}, c.states(ctx), "without a difference nothing is recorded")
	before := c.certificate(0)

	c.refer(1)
	update()
	got := c.awaitStatus(ctx, "Instantiated")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 10}, got.Deployed)
	require.Equal(t, []string{"Created", "Instantiated", "Updated"}, c.states(ctx))
	last := got.States.Actions[2]
	require.NotEqual(t, first.States.StatusContextID, last.ContextID)
	require.Equal(t, first.States.StatusContextID, got.States.StatusContextID)
	require.Equal(t, 2, last.Revision)
	other, _ := c.kubeconfig(0)
	c.admitted(ctx, other)
	user, _ := c.kubeconfig(1)
	c.admitted(ctx, user)
	require.Equal(t, before.SerialNumber, c.certificate(0).SerialNumber, "the other cluster was left alone")
	d := c.group(ctx, many(t, 2))
	do(ctx, t, d, "approve", "instantiate")
	s.Await(ctx, d, "Instantiated")
	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")
	forget(ctx, t, d)

	t.Run("a permission more", func(t *testing.T) {
		ctx := within(t)
		_, err := user.CoreV1().Secrets("kube-public").List(ctx, metav1.ListOptions{})
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		public := c.permission("public", domain.UserPermissionSpec{
			Namespace: "kube-public", APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"},
		})
		c.create(public)
		update()
		require.Equal(t, map[domain.ResourceState]int{"Applied": 14}, c.awaitStatus(ctx, "Instantiated").Deployed)
		harness.Until(ctx, t, "allowed", func() bool {
			_, err := user.CoreV1().Secrets("kube-public").List(ctx, metav1.ListOptions{})
			return err == nil
		})
		require.NoError(t, c.api.Delete(ctx, domain.KeyOf(public)))
		update()
		require.Equal(t, map[domain.ResourceState]int{"Applied": 10}, c.awaitStatus(ctx, "Instantiated").Deployed)
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
			_, err := c.api.UserKubeconfig(ctx, c.reference(0))
			return err == nil
		})
	})
	t.Run("a cluster that leaves while it is down", func(t *testing.T) {
		ctx := within(t)
		c.pipes[1].Down()
		remove(1)
		update()
		got := c.await(ctx, "half done", "all", func(s *status.Document) bool {
			return of(s, c.pipes[1].Name).Connectivity == "Retrying"
		})
		require.Equal(t, domain.ContextInstantiating, got.Status)
		c.pipes[1].Up(t)
		got = c.awaitStatus(ctx, "Instantiated")
		require.Equal(t, map[domain.ResourceState]int{"Applied": 5}, got.Deployed)
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
		got := c.await(ctx, "half done", "detail", func(s *status.Document) bool {
			return s.Deployed["Applied"] == 5 && of(s, c.pipes[1].Name).Connectivity == "Retrying"
		})
		require.Equal(t, domain.ContextInstantiating, got.Status)
		require.Contains(t, of(got, c.pipes[1].Name).LastError, "refused")
		refused, err := c.do("instantiate")
		require.Equal(t, 409, refused)
		require.ErrorContains(t, err, "The Logical Cloud is already instantiating")
		require.Equal(t, 409, code(t, c.api.Delete(ctx, c.reference(1))))
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
		c.put(c.described("next-"+c.user[5:], "a"))
		begin(t)
		_, err := c.api.UserKubeconfig(ctx, c.reference(1))
		require.Equal(t, 409, code(t, err), "the certificate that there is, is the earlier user's")
		var got *status.Document
		stopsSoon(ctx, t, func() error {
			_, err := c.do("stop")
			return err
		}, func() bool {
			var err error
			got, err = c.api.Status(ctx, c.key, url.Values{"output": {"summary"}})
			return err == nil && got.Status == domain.ContextInstantiateFailed
		})
		require.Equal(t, domain.InstantiateStopped, got.States.State())
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
	require.Equal(t, map[domain.ResourceState]int{"Applied": 10}, got.Deployed)
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
	c.put(c.described(c.user, "b"))
	_, err = c.do("update")
	require.NoError(t, err)
	require.Equal(t, map[domain.ResourceState]int{"Applied": 10}, c.awaitStatus(ctx, "Instantiated").Deployed)
	require.Equal(t, []string{"Created", "Instantiated", "Updated"}, c.states(ctx))
	for i := range c.pipes { // what was applied is terminated, whatever the cloud refers to by then
		require.NoError(t, c.api.Delete(ctx, c.reference(i)))
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
