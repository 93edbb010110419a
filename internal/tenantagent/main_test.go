package tenantagent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/monitor"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/tenantagent"
	"github.com/drover-io/drover/internal/universe"
)

func TestMain(m *testing.M) {
	monitor.SetLog(slog.New(slog.DiscardHandler))
	os.Exit(kubetest.Main(m))
}

const (
	deadline = kubetest.Deadline
	tick     = kubetest.Tick
)

// server records what streams say, and ends them as it is told.
type server struct {
	universe.UnimplementedWorkloadServiceServer
	*testing.T
	address string
	refuse  func() error // asked when a stream begins; nil for no error

	mu      sync.Mutex
	streams []*heard
}

// heard is what one stream has said.
type heard struct {
	tenant   []string
	messages []*universe.WorkloadStreamRequest
	over     bool
	err      error // nil for an end in order
	end      chan error
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{T: t}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.address = l.Addr().String()
	g := grpc.NewServer(grpc.MaxRecvMsgSize(limits.Tenants), grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: policy.PingLeast}))
	universe.RegisterWorkloadServiceServer(g, s)
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		require.NoError(t, <-ended)
	})
	return s
}

// WorkloadStream implements universe.WorkloadServiceServer.
func (s *server) WorkloadStream(stream grpc.ClientStreamingServer[universe.WorkloadStreamRequest, universe.WorkloadStreamResponse]) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	one := &heard{tenant: md.Get("tenant-id"), end: make(chan error, 1)}
	s.mu.Lock()
	s.streams = append(s.streams, one)
	refuse := s.refuse
	s.mu.Unlock()
	if refuse != nil {
		if err := refuse(); err != nil {
			return s.ended(one, err)
		}
	}
	received := make(chan error, 1)
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				received <- err
				return
			}
			s.mu.Lock()
			one.messages = append(one.messages, m)
			s.mu.Unlock()
		}
	}()
	select {
	case err := <-one.end:
		return s.ended(one, err)
	case err := <-received:
		if errors.Is(err, io.EOF) {
			return s.ended(one, stream.SendAndClose(&universe.WorkloadStreamResponse{}))
		}
		return s.ended(one, err)
	}
}

func (s *server) ended(one *heard, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.over, one.err = true, err
	return err
}

// begun is how many streams have begun.
func (s *server) begun() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// endFirst ends the first stream with err.
func (s *server) endFirst(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[0].end <- err
}

// last is what the last stream has said; nothing when there is none.
func (s *server) last() heard {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.streams) == 0 {
		return heard{}
	}
	one := *s.streams[len(s.streams)-1]
	one.messages = slices.Clone(one.messages)
	return one
}

// says is the message in words: "sync ns/a ns/b", "update ns/a", "delete ns/a". Names are sorted.
func says(m *universe.WorkloadStreamRequest) string {
	name := func(x *universe.WorkloadMetadata) string { return x.GetResourceName() }
	switch m := m.GetMessage().(type) {
	case *universe.WorkloadStreamRequest_WorkloadSync:
		var names []string
		for _, u := range m.WorkloadSync.GetWorkloadUpdates() {
			names = append(names, name(u.GetWorkloadMetadata()))
		}
		slices.Sort(names)
		return fmt.Sprint("sync ", names)
	case *universe.WorkloadStreamRequest_WorkloadUpdate:
		return "update " + name(m.WorkloadUpdate.GetWorkloadMetadata())
	case *universe.WorkloadStreamRequest_WorkloadDelete:
		return "delete " + name(m.WorkloadDelete.GetWorkloadMetadata())
	default:
		return "nothing"
	}
}

func (h heard) words() []string {
	words := []string{}
	for _, m := range h.messages {
		words = append(words, says(m))
	}
	return words
}

// world is a namespace of a cluster, with the agents' ConfigMap, and a server.
type world struct {
	*testing.T
	config    *rest.Config
	kube      kubernetes.Interface
	namespace string
	server    *server
	log       *testLog // of all agents
}

func newWorld(t *testing.T) *world {
	t.Helper()
	kubeconfig := kubetest.Kubeconfig(t)
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	w := &world{T: t, config: config, kube: client, namespace: kubetest.Name("tenant"), server: newServer(t), log: &testLog{tb: t}}
	w.makeNamespace(w.namespace)
	return w
}

// makeNamespace makes one in which Pods can be made.
func (w *world) makeNamespace(name string) {
	w.Helper()
	kubetest.MakeNamespace(w, kubetest.Dynamic(w, kubetest.Kubeconfig(w)), name)
	require.Eventually(w, func() bool {
		_, err := w.kube.CoreV1().ServiceAccounts(name).Get(w.Context(), "default", metav1.GetOptions{})
		return err == nil
	}, deadline, tick)
}

// configure has the ConfigMap say a text.
func (w *world) configure(text string) {
	w.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: w.namespace}, Data: map[string]string{"config": text}}
	_, err := w.kube.CoreV1().ConfigMaps(w.namespace).Update(w.Context(), m, metav1.UpdateOptions{})
	if err != nil {
		_, err = w.kube.CoreV1().ConfigMaps(w.namespace).Create(w.Context(), m, metav1.CreateOptions{})
	}
	require.NoError(w, err)
}

// pod makes a Pod that nobody runs.
func (w *world) pod(namespace, name string) *corev1.Pod {
	w.Helper()
	p, err := w.kube.CoreV1().Pods(namespace).Create(w.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "x"}},
		Spec:       corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}},
	}, metav1.CreateOptions{})
	require.NoError(w, err)
	return p
}

func (w *world) deletePod(namespace, name string) {
	w.Helper()
	require.NoError(w, w.kube.CoreV1().Pods(namespace).Delete(w.Context(), name, *metav1.NewDeleteOptions(0)))
}

// patch changes a Pod, or its status.
func (w *world) patch(name, change string, subresources ...string) {
	w.Helper()
	_, err := w.kube.CoreV1().Pods(w.namespace).Patch(w.Context(), name, types.StrategicMergePatchType, []byte(change), metav1.PatchOptions{}, subresources...)
	require.NoError(w, err)
}

// agent starts one, which ends with the test or when stop is called.
func (w *world) agent(change func(*tenantagent.Config)) (stop func()) {
	w.Helper()
	c := w.agentConfig(change)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	ended := make(chan error, 1)
	go func() { ended <- tenantagent.Run(ctx, c) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(w, <-ended)
	})
	w.Cleanup(stop)
	return stop
}

// agentConfig is that of an agent, with a change; nil for none.
func (w *world) agentConfig(change func(*tenantagent.Config)) tenantagent.Config {
	c := tenantagent.Config{
		Cluster: w.config, Server: tenantagent.Server{Address: w.server.address, Plaintext: true}, Tenant: "tenant1",
		Namespace: w.namespace, ConfigMap: "agent", Identity: kubetest.Name("agent"),
		Log: slog.New(slog.NewTextHandler(w.log, nil)),
	}
	if change != nil {
		change(&c)
	}
	return c
}

// awaitWords waits until the last stream has said just that.
func (w *world) awaitWords(want ...string) {
	w.Helper()
	require.Eventually(w, func() bool { return slices.Equal(w.server.last().words(), want) }, deadline, tick, "want %v", want)
}

// testLog shows the log of a test that failed, and keeps it.
type testLog struct {
	tb testing.TB

	mu   sync.Mutex
	kept bytes.Buffer
}

func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tb.Log(string(bytes.TrimSpace(p)))
	return l.kept.Write(p)
}

func (l *testLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept.String()
}
