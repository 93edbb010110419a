package kube_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/limits"
)

// source counts how often it is asked.
type source struct {
	asked  atomic.Int64
	digest atomic.Value
	data   []byte
}

func newSource(data []byte) *source {
	s := &source{data: data}
	s.digest.Store(domain.Digest("1"))
	return s
}

func (s *source) get(context.Context, domain.ClusterName) ([]byte, domain.Digest, error) {
	s.asked.Add(1)
	return s.data, s.digest.Load().(domain.Digest), nil
}

func newClusters(t *testing.T, config kube.Config, source kube.Source) *kube.Clusters {
	t.Helper()
	clusters, err := kube.NewClusters(config, source)
	require.NoError(t, err)
	t.Cleanup(clusters.Close)
	return clusters
}

func named(name string) domain.ClusterName { return domain.ClusterName{Provider: "p", Name: name} }

func TestGetKeepsClients(t *testing.T) {
	t.Parallel()
	s := serve(t, http2, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusUnauthorized, status(401, metav1.StatusReasonUnauthorized, "Unauthorized", nil))
	})
	t.Run("asks for credentials once while they are fresh", func(t *testing.T) {
		t.Parallel()
		from := newSource(s.kubeconfig(t))
		clusters := newClusters(t, kube.Config{Fresh: time.Hour}, from.get)
		first, err := clusters.Get(t.Context(), named("a"))
		require.NoError(t, err)
		again, err := clusters.Get(t.Context(), named("a"))
		require.NoError(t, err)
		require.Same(t, first, again)
		require.EqualValues(t, 1, from.asked.Load())
	})
	t.Run("keeps the client when the credentials are the same", func(t *testing.T) {
		t.Parallel()
		from := newSource(s.kubeconfig(t))
		clusters := newClusters(t, kube.Config{Fresh: 1}, from.get)
		first, err := clusters.Get(t.Context(), named("a"))
		require.NoError(t, err)
		again, err := clusters.Get(t.Context(), named("a"))
		require.NoError(t, err)
		require.Same(t, first, again)
		require.EqualValues(t, 2, from.asked.Load())
	})
	t.Run("replaces it when they have changed", func(t *testing.T) {
		t.Parallel()
		from := newSource(s.kubeconfig(t))
		clusters := newClusters(t, kube.Config{Fresh: 1}, from.get)
		first, err := clusters.Get(t.Context(), named("a"))
		require.NoError(t, err)
		from.digest.Store(domain.Digest("2"))
		second, err := clusters.Get(t.Context(), named("a"))
		require.NoError(t, err)
		require.NotSame(t, first, second)
	})
	t.Run("asks at once after the cluster refused them", func(t *testing.T) {
		t.Parallel()
		from := newSource(s.kubeconfig(t))
		clusters := newClusters(t, kube.Config{Fresh: time.Hour}, from.get)
		c, err := clusters.Get(t.Context(), named("a"))
		require.NoError(t, err)
		require.Error(t, c.Ping(t.Context()))
		_, err = clusters.Get(t.Context(), named("a"))
		require.NoError(t, err)
		require.EqualValues(t, 2, from.asked.Load())
	})
	t.Run("forgets the least recently used one", func(t *testing.T) {
		t.Parallel()
		from := newSource(s.kubeconfig(t))
		clusters := newClusters(t, kube.Config{Fresh: time.Hour, Clients: 2}, from.get)
		for _, name := range []string{"a", "b", "a", "c", "a", "b"} {
			_, err := clusters.Get(t.Context(), named(name))
			require.NoError(t, err)
		}
		require.EqualValues(t, 4, from.asked.Load(), "a, b, c, and b again")
	})
}

func TestGetPassesErrorsOn(t *testing.T) {
	t.Parallel()
	clusters := newClusters(t, kube.Config{}, func(_ context.Context, name domain.ClusterName) ([]byte, domain.Digest, error) {
		if name.Name == "absent" {
			return nil, "", fail.New(fail.NotFound, "no such cluster")
		}
		return []byte("kind: Config"), "1", nil
	})
	_, err := clusters.Get(t.Context(), named("absent"))
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)
	_, err = clusters.Get(t.Context(), named("bad"))
	require.True(t, fail.Is(err, fail.Invalid), "%v", err)
}

func TestGetDoesNotWaitForOthers(t *testing.T) {
	t.Parallel()
	s := serve(t, http2, hang)
	data := s.kubeconfig(t)
	asked, release := make(chan struct{}), make(chan struct{})
	clusters := newClusters(t, kube.Config{}, func(_ context.Context, name domain.ClusterName) ([]byte, domain.Digest, error) {
		if name.Name == "slow" {
			asked <- struct{}{}
			<-release
		}
		return data, "1", nil
	})
	leaving, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := clusters.Get(leaving, named("slow"))
		left <- err
	}()
	<-asked
	stayed := make(chan error, 1)
	go func() {
		_, err := clusters.Get(t.Context(), named("slow"))
		stayed <- err
	}()
	_, err := clusters.Get(t.Context(), named("fast"))
	require.NoError(t, err, "another cluster is not held up")
	leave()
	require.Equal(t, context.Canceled, <-left, "who waits may leave")
	close(release)
	select {
	case err := <-stayed:
		require.NoError(t, err, "who stays gets the client")
	case <-asked: // it came after the first one had left, and asks for itself
		require.NoError(t, <-stayed)
	}
}

func TestCloseClosesConnections(t *testing.T) {
	t.Parallel()
	s := serve(t, http2, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, struct{}{}) })
	from := newSource(s.kubeconfig(t))
	clusters := newClusters(t, kube.Config{}, from.get)
	c, err := clusters.Get(t.Context(), named("a"))
	require.NoError(t, err)
	require.NoError(t, c.Ping(t.Context()))
	require.EqualValues(t, 1, s.connected.Load())
	clusters.Close()
	require.Eventually(t, func() bool { return s.connected.Load() == 0 }, time.Minute, time.Millisecond)
}

// TestGetAfterClose: nobody would close a client that is made after Close, be it asked for before or after.
func TestGetAfterClose(t *testing.T) {
	t.Parallel()
	s := serve(t, http2, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, struct{}{}) })
	from, asked, release := newSource(s.kubeconfig(t)), make(chan struct{}), make(chan struct{})
	clusters := newClusters(t, kube.Config{Fresh: time.Hour}, func(ctx context.Context, name domain.ClusterName) ([]byte, domain.Digest, error) {
		if name.Name == "slow" {
			close(asked)
			<-release
		}
		return from.get(ctx, name)
	})
	used, err := clusters.Get(t.Context(), named("used"))
	require.NoError(t, err)
	_, leave := used.While(t.Context())
	require.NoError(t, used.Ping(t.Context()))
	slow := make(chan error, 1)
	go func() {
		_, err := clusters.Get(t.Context(), named("slow"))
		slow <- err
	}()
	<-asked
	clusters.Close()
	close(release)
	require.ErrorIs(t, <-slow, kube.ErrClosed, "it was asked for before")
	_, err = clusters.Get(t.Context(), named("new"))
	require.ErrorIs(t, err, kube.ErrClosed)
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	require.EqualValues(t, 2, from.asked.Load(), "for the one that is in use, and the slow one")

	again, err := clusters.Get(t.Context(), named("used"))
	require.NoError(t, err)
	require.Same(t, used, again, "work that goes on is not cut off")
	require.NoError(t, used.Ping(t.Context()))
	require.EqualValues(t, 1, s.connected.Load())
	leave()
	require.Eventually(t, func() bool { return s.connected.Load() == 0 }, time.Minute, time.Millisecond)
}

// TestReplacedCredentials: what goes on with credentials ends when others have come in their place, and the next client has
// those.
func TestReplacedCredentials(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(context.Context, *kube.Cluster) error{
		"a request": func(ctx context.Context, c *kube.Cluster) error { return c.Ping(ctx) },
		"a job": func(ctx context.Context, c *kube.Cluster) error {
			j, _ := job(configMaps(20, 0), domain.MarkPending)
			return c.Apply(ctx, j).Retry
		},
		"a list": func(ctx context.Context, c *kube.Cluster) error {
			_, err := c.List(ctx, kube.Collection{Path: "/api/v1/pods", Page: 1}, func(json.RawMessage) error { return nil })
			return err
		},
		"a watch that begins": func(ctx context.Context, c *kube.Cluster) error {
			return c.Watch(ctx, kube.Collection{Path: "/api/v1/pods"}, "1", func(string, *kube.Event) error { return nil })
		},
		"a watch": func(ctx context.Context, c *kube.Cluster) error {
			return c.Watch(ctx, kube.Collection{Path: "/api/v1/nodes"}, "1", func(string, *kube.Event) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{}, 1)
			s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/api/v1/nodes" {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusOK)
					_ = http.NewResponseController(w).Flush()
				}
				select {
				case asked <- struct{}{}:
				default:
				}
				hang(w, r)
			})
			from := newSource(s.kubeconfig(t))
			clusters := newClusters(t, kube.Config{Fresh: time.Hour, Request: time.Hour}, from.get)
			first, err := clusters.Get(t.Context(), named("a"))
			require.NoError(t, err)
			ended := make(chan error, 1)
			go func() { ended <- begin(t.Context(), first) }()
			<-asked
			while, leave := first.While(t.Context())
			defer leave()

			only := func(n domain.ClusterName) bool { return n == named("a") }
			require.NoError(t, clusters.Renew(t.Context(), only), "nothing has come in their place")
			require.NoError(t, while.Err())
			from.digest.Store(domain.Digest("2"))
			require.NoError(t, clusters.Renew(t.Context(), func(n domain.ClusterName) bool { return !only(n) }))
			require.NoError(t, while.Err(), "another cluster was asked for")
			require.NoError(t, clusters.Renew(t.Context(), only))
			require.ErrorIs(t, <-ended, kube.ErrReplaced)
			<-while.Done()
			require.Equal(t, kube.ErrReplaced, context.Cause(while))
			require.ErrorIs(t, first.Ping(t.Context()), kube.ErrReplaced, "nothing is begun with them any more")
			second, err := clusters.Get(t.Context(), named("a"))
			require.NoError(t, err)
			require.NotSame(t, first, second)
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, second.Ping(gone), context.Canceled, "the end of a context passes through")
		})
	}
}

// TestSince: what was registered before somebody asks is what he gets, also where others have begun to ask before that.
func TestSince(t *testing.T) {
	t.Parallel()
	s := serve(t, http2, hang)
	from := newSource(s.kubeconfig(t))
	hold := make(chan chan struct{}, 1)
	clusters := newClusters(t, kube.Config{Fresh: time.Hour}, func(ctx context.Context, name domain.ClusterName) ([]byte, domain.Digest, error) {
		data, digest, err := from.get(ctx, name)
		select {
		case held := <-hold:
			<-held
		default:
		}
		return data, digest, err
	})
	held, first := make(chan struct{}), make(chan *kube.Cluster, 1)
	hold <- held
	go func() {
		c, _ := clusters.Get(context.WithoutCancel(t.Context()), named("a"))
		first <- c
	}()
	require.Eventually(t, func() bool { return from.asked.Load() == 1 }, time.Minute, time.Millisecond)
	from.digest.Store(domain.Digest("2"))
	second := make(chan *kube.Cluster, 1)
	at := time.Now()
	go func() {
		c, _ := clusters.Since(context.WithoutCancel(t.Context()), named("a"), at)
		second <- c
	}()
	close(held)
	old, now := <-first, <-second
	require.NotNil(t, old)
	require.NotNil(t, now)
	require.NotSame(t, old, now)
	require.EqualValues(t, 2, from.asked.Load())

	again, err := clusters.Since(t.Context(), named("a"), at)
	require.NoError(t, err)
	require.Same(t, now, again, "it was asked for since")
	require.EqualValues(t, 2, from.asked.Load())
	again, err = clusters.Since(t.Context(), named("a"), time.Now())
	require.NoError(t, err)
	require.Same(t, now, again, "nothing has come in their place")
	require.EqualValues(t, 3, from.asked.Load())
	_, err = clusters.Since(t.Context(), named("a"), time.Now().Add(time.Hour))
	require.NoError(t, err, "a clock that was set back holds up nobody")
}

// TestARegistrationThatIsGoneEndsItsClient: another one that comes in its name is another cluster.
func TestARegistrationThatIsGoneEndsItsClient(t *testing.T) {
	t.Parallel()
	s := serve(t, http2, hang)
	from := newSource(s.kubeconfig(t))
	var gone atomic.Bool
	clusters := newClusters(t, kube.Config{Fresh: time.Hour}, func(ctx context.Context, name domain.ClusterName) ([]byte, domain.Digest, error) {
		if gone.Load() {
			return nil, "", fail.New(fail.NotFound, "no")
		}
		return from.get(ctx, name)
	})
	first, err := clusters.Get(t.Context(), named("a"))
	require.NoError(t, err)
	gone.Store(true)
	all := func(domain.ClusterName) bool { return true }
	require.True(t, fail.Is(clusters.Renew(t.Context(), all), fail.NotFound))
	require.ErrorIs(t, first.Ping(t.Context()), kube.ErrReplaced)
	gone.Store(false)
	second, err := clusters.Get(t.Context(), named("a"))
	require.NoError(t, err)
	require.NotSame(t, first, second, "also with the same credentials")
}

// TestWhatIsForbiddenToAnEarlierUserIsNoRefusal: others have come in place of his credentials, and the work goes on with those.
func TestWhatIsForbiddenToAnEarlierUserIsNoRefusal(t *testing.T) {
	t.Parallel()
	s := serve(t, http2, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusForbidden, status(403, metav1.StatusReasonForbidden, "no", nil))
	})
	from := newSource(s.kubeconfig(t))
	clusters := newClusters(t, kube.Config{Fresh: time.Hour}, from.get)
	c, err := clusters.Get(t.Context(), named("a"))
	require.NoError(t, err)
	apply := func(c *kube.Cluster) (kube.Outcome, domain.Marks) {
		j, seen := job(configMaps(3, 0), domain.MarkPending)
		return c.Apply(t.Context(), j), seen.Marks
	}
	out, marks := apply(c)
	require.NoError(t, out.Retry)
	require.Equal(t, "3F", marks.Encode())
	require.EqualValues(t, 1, from.asked.Load(), "the credentials are as of a moment ago")

	c.Age(time.Hour)
	out, marks = apply(c)
	require.NoError(t, out.Retry)
	require.Equal(t, "3F", marks.Encode())
	require.EqualValues(t, 2, from.asked.Load(), "once for all that is forbidden in a moment")

	c.Age(time.Hour)
	from.digest.Store(domain.Digest("2"))
	out, marks = apply(c)
	require.ErrorIs(t, out.Retry, kube.ErrReplaced)
	require.False(t, marks.Failed(), marks.Encode())
}

func TestReach(t *testing.T) {
	t.Parallel()
	said := "v1.34.1"
	groups := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			answer(w, http.StatusOK, map[string]string{"gitVersion": said})
			return
		}
		answer(w, http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}})
	}
	good := serve(t, http2, groups)
	version, err := kube.Config{}.Reach(t.Context(), good.kubeconfig(t))
	require.NoError(t, err)
	require.Equal(t, "v1.34.1", version)
	require.Eventually(t, func() bool { return good.connected.Load() == 0 }, time.Minute, time.Millisecond, "nothing is left open")

	said = "<b>none</b>"
	version, err = kube.Config{}.Reach(t.Context(), good.kubeconfig(t))
	require.NoError(t, err, "that is no reason not to use it")
	require.Empty(t, version)

	reach := func(c *server) error {
		_, err := kube.Config{}.Reach(t.Context(), c.kubeconfig(t))
		return err
	}
	refuses := serve(t, http2, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusUnauthorized, status(401, metav1.StatusReasonUnauthorized, "Unauthorized", nil))
	})
	require.ErrorContains(t, reach(refuses), "does not accept the credentials")

	other := serve(t, http2, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"AccessKeyId": "sesame"})
	})
	err = reach(other)
	require.ErrorContains(t, err, "not an API server")
	require.NotContains(t, fail.TextOf(err), "sesame")

	elsewhere := serve(t, http2, http.RedirectHandler(good.URL+"/apis", http.StatusFound).ServeHTTP)
	require.ErrorContains(t, reach(elsewhere), "302")
	require.EqualValues(t, 4, good.requests.Load(), "nobody is sent on")

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = kube.Config{}.Reach(ctx, serve(t, http2, hang).kubeconfig(t))
	require.True(t, fail.Is(err, fail.Timeout))
}

// TestALookReadsLittle: what is in a cluster's place may say as much as it likes; what is beyond the bound is not read.
func TestALookReadsLittle(t *testing.T) {
	t.Parallel()
	padded := map[string]int{}
	c := serve(t, http1, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(bytes.Repeat([]byte(" "), padded[r.URL.Path]))
		switch r.URL.Path {
		case "/version":
			_, _ = w.Write([]byte(`{"gitVersion":"v1.34.1"}`))
		case "/apis":
			_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`))
		default:
			_, _ = w.Write([]byte(`{"status":{"resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}}`))
		}
	})
	role := []byte(`{"rules":[{"apiGroups":["apps"],"resources":["*"],"verbs":["get"]}]}`)
	const rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
	padded["/version"], padded[rules], padded["/apis"] = 200<<10, 200<<10, 900<<10
	seen, err := kube.See(t.Context(), c.kubeconfig(t), role)
	require.NoError(t, err)
	require.Equal(t, "v1.34.1", seen.Version)
	require.Empty(t, seen.Unknown)
	require.Empty(t, seen.Lacks)

	padded["/version"], padded[rules] = limits.ClusterWord, limits.ClusterWord
	seen, err = kube.See(t.Context(), c.kubeconfig(t), role)
	require.NoError(t, err)
	require.Empty(t, seen.Version)
	require.Contains(t, seen.Unknown, "not an API server")
	padded["/apis"] = limits.ClusterGroups
	_, err = kube.See(t.Context(), c.kubeconfig(t), role)
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	_, err = kube.Config{}.Reach(t.Context(), c.kubeconfig(t))
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	require.Eventually(t, func() bool { return c.connected.Load() == 0 }, time.Minute, time.Millisecond, "nothing is left open")
}

// TestClientsInUseAreKept: a client that something goes on with is found though there is no room for it, until that is over.
func TestClientsInUseAreKept(t *testing.T) {
	t.Parallel()
	s := serve(t, http2, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusUnauthorized, status(401, metav1.StatusReasonUnauthorized, "Unauthorized", nil))
	})
	from := newSource(s.kubeconfig(t))
	clusters := newClusters(t, kube.Config{Clients: 1, Fresh: time.Hour}, from.get)
	get := func(name string) *kube.Cluster {
		c, err := clusters.Get(t.Context(), named(name))
		require.NoError(t, err)
		return c
	}
	watched := get("a")
	_, leave := watched.While(t.Context())
	_, another := watched.While(t.Context())
	get("b")
	get("c")
	require.Same(t, watched, get("a"))
	require.EqualValues(t, 3, from.asked.Load(), "its credentials are not asked for again")

	leave()
	require.Same(t, watched, get("a"), "somebody else uses it")
	another()
	another()
	require.NotSame(t, watched, get("a"), "there is no room for it")

	watched = get("a")
	during, leave := watched.While(t.Context())
	defer leave()
	get("b")
	from.digest.Store(domain.Digest("2"))
	require.NoError(t, clusters.Renew(t.Context(), func(domain.ClusterName) bool { return true }))
	<-during.Done()
	require.ErrorIs(t, context.Cause(during), kube.ErrReplaced, "what goes on with credentials that were replaced ends")
	require.NotSame(t, watched, get("a"))
}
