package kube_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/plan"
)

// hang waits until the client leaves.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// abort cuts the connection, or resets the stream.
func abort(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func TestFaultsAreTriedAgain(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason      string
		handle      http.HandlerFunc
		wantKind    fail.Kind
		wantText    string
		wantAfter   time.Duration
		unreached   bool
		maxRequests int64         // of 100 resources, 8 at a time; 0 for all
		request     time.Duration // 0: one that is not reached
	}{
		"hangs": {
			reason: "each request costs a whole deadline", handle: hang, request: 300 * time.Millisecond, wantKind: fail.Timeout, wantText: "in time",
			unreached: true, maxRequests: 8,
		},
		"cuts the connection after the request": {
			handle: abort, wantKind: fail.Unavailable, wantText: "cannot be reached", unreached: true, maxRequests: 8,
		},
		"cuts the connection in the answer": {
			handle: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "1000")
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = w.Write([]byte(`{"kind":"Sta`))
				abort(nil, nil)
			},
			wantKind: fail.Unavailable, wantText: "cannot be reached", unreached: true, maxRequests: 8,
		},
		"asks to be left alone": {
			handle: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				answer(w, http.StatusTooManyRequests, status(429, metav1.StatusReasonTooManyRequests, "too many requests", nil))
			},
			wantKind: fail.Unavailable, wantText: "too many requests", wantAfter: 7 * time.Second, maxRequests: 8,
		},
		"asks to be left alone for a year": {
			reason: "a cluster cannot park an operation",
			handle: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "31536000")
				http.Error(w, "busy", http.StatusServiceUnavailable)
			},
			wantKind: fail.Unavailable, wantAfter: 5 * time.Minute, maxRequests: 8,
		},
		"is out of order": {
			handle: func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "no backend", http.StatusServiceUnavailable)
			},
			wantKind: fail.Unavailable, wantText: "ConfigMap a0: ", maxRequests: 24,
		},
		"refuses the credentials": {
			reason: "they can be replaced",
			handle: func(w http.ResponseWriter, _ *http.Request) {
				answer(w, http.StatusUnauthorized, status(401, metav1.StatusReasonUnauthorized, "Unauthorized", nil))
			},
			wantKind: fail.Unavailable, wantText: "does not accept the credentials: Unauthorized", maxRequests: 8,
		},
		"is a login page": {
			reason: "its 200 says nothing about the resource",
			handle: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				_, _ = w.Write([]byte("<html>log in</html>"))
			},
			wantKind: fail.Unavailable, wantText: "not an API server", maxRequests: 24,
		},
		"is a proxy that lost its way": {
			reason: "a page of 404 says nothing about the resource",
			// 24 are begun, each with its own request and two that ask what is served. Those at the same time may share these: that is up to the scheduler.
			handle: http.NotFound, wantKind: fail.Unavailable, wantText: "not an API server", maxRequests: 3 * 24,
		},
		"redirects": {
			handle:   http.RedirectHandler("https://example.com/", http.StatusMovedPermanently).ServeHTTP,
			wantKind: fail.Unavailable, wantText: "ConfigMap a0: ", maxRequests: 24,
		},
	}
	for name, tc := range cases {
		for _, p := range []protocol{http1, http2} {
			t.Run(name+map[protocol]string{http1: ", HTTP/1", http2: ", HTTP/2"}[p], func(t *testing.T) {
				t.Parallel()
				for verb, run := range map[domain.Mark]func(*kube.Cluster, context.Context, kube.Job) kube.Outcome{
					domain.MarkPending: (*kube.Cluster).Apply, domain.MarkDoomed: (*kube.Cluster).Delete,
				} {
					s := serve(t, p, tc.handle)
					j, watcher := job(configMaps(100, 0), verb)
					outcome := run(s.open(t, kube.Config{Request: tc.request}), t.Context(), j)
					require.Error(t, outcome.Retry, tc.reason)
					require.Equal(t, tc.wantKind, fail.KindOf(outcome.Retry), "%v", outcome.Retry)
					require.Contains(t, fail.TextOf(outcome.Retry), tc.wantText)
					require.Equal(t, tc.wantAfter, fail.RetryAfterOf(outcome.Retry))
					require.Equal(t, !tc.unreached, outcome.Reached)
					require.LessOrEqual(t, s.requests.Load(), tc.maxRequests, "the job goes on although it is of no use")
					for i, m := range watcher.Marks {
						require.Contains(t, []domain.Mark{verb, domain.MarkSent}, m, "resource %d", i)
					}
				}
			})
		}
	}
}

// TestValuesOfSecretsAreNotTold: an API server says what it got in place of a map, a list or a text, line by line.
func TestValuesOfSecretsAreNotTold(t *testing.T) {
	t.Parallel()
	const said = "failed to create typed patch object (default/a; /v1, Kind=Secret): "
	for name, tc := range map[string]struct{ message, want string }{
		"of one line":            {said + ".stringData: expected map, got &{sesame}", said + ".stringData: expected map"},
		"of several lines":       {said + ".stringData: expected map, got &{user: me\npassword: sesame\n}", said + ".stringData: expected map"},
		"of several fields":      {said + "errors:\n  .data.a: expected string, got &{sesame\nsesame}\n  .type: expected string, got &{5}", said + "errors:\n  .data.a: expected string"},
		"which there is none of": {said + ".data: duplicate entries for key [a]", said + ".data: duplicate entries for key [a]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, http2, func(w http.ResponseWriter, _ *http.Request) {
				answer(w, http.StatusInternalServerError, status(500, "", tc.message, nil))
			})
			j, watcher := job([]plan.Resource{{
				ResourceID: plan.ResourceID{Version: "v1", Kind: "Secret", Name: "a"},
				Manifest:   []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"stringData":"sesame"}`),
			}}, domain.MarkPending)
			require.NoError(t, s.open(t, kube.Config{}).Apply(t.Context(), j).Retry)
			require.Equal(t, domain.Marks{domain.MarkRefused}, watcher.Marks)
			require.Equal(t, tc.want, watcher.Notes[0])
		})
	}
}

// TestFieldsThatKubernetes122DoesNotKnow: such a server does not say in its refusal of which object the field is, and takes no notice of
// fieldValidation. So it is with the lifetime of a certificate in 1.21.
func TestFieldsThatKubernetes122DoesNotKnow(t *testing.T) {
	t.Parallel()
	var applied atomic.Value
	s := serveAll(t, http2, func(w http.ResponseWriter, r *http.Request) {
		body := bodyOf(r)
		if r.Method == http.MethodPatch && strings.Contains(body, "expirationSeconds") {
			answer(w, http.StatusInternalServerError, status(500, "", "failed to create typed patch object: .spec.expirationSeconds: field not declared in schema", nil))
			return
		}
		if r.Method == http.MethodPatch {
			applied.Store(body)
		}
		found(w)
	})
	j, watcher := job([]plan.Resource{{
		ResourceID: plan.ResourceID{Group: "certificates.k8s.io", Version: "v1", Kind: "CertificateSigningRequest", Name: "a"},
		Manifest: []byte(`{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"a"},` +
			`"spec":{"expirationSeconds":3600,"signerName":"kubernetes.io/kube-apiserver-client"}}`),
	}}, domain.MarkPending)
	require.NoError(t, s.open(t, kube.Config{}).Apply(t.Context(), j).Retry)
	require.Equal(t, domain.Marks{domain.MarkApplied}, watcher.Marks, "notes: %v", watcher.Notes)
	require.Equal(t, map[int][]string{0: {"spec.expirationSeconds"}}, watcher.Dropped)
	require.Contains(t, applied.Load(), `"signerName":"kubernetes.io/kube-apiserver-client"`)
}

// TestWhatIsNoAPIServersIsNotShown: whoever registers a cluster reads what is said of it. Of what is behind an address that is
// none, a page or a service that gives out credentials, nothing may be in there.
func TestWhatIsNoAPIServersIsNotShown(t *testing.T) {
	t.Parallel()
	const secret = "AKIA-SESAME"
	raw := func(w http.ResponseWriter, answer string) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = conn.Write([]byte(answer))
		_ = conn.Close()
	}
	cases := map[string]struct {
		handle http.HandlerFunc
		http1  bool // alone
	}{
		"JSON with a status of its own": {handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write([]byte(`{"AccessKeyId":"` + secret + `"}`))
		}},
		"another header": {http1: true, handle: func(w http.ResponseWriter, _ *http.Request) {
			raw(w, "HTTP/1.1 200 OK\r\n"+secret+"\r\n\r\n")
		}},
		"no HTTP": {http1: true, handle: func(w http.ResponseWriter, _ *http.Request) {
			raw(w, "+PONG "+secret+"\r\n")
		}},
		"a place that cannot be read": {handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://%zz"+secret)
			w.WriteHeader(http.StatusFound)
		}},
		"no JSON": {handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(secret))
		}},
	}
	for _, code := range []int{200, 302, 400, 401, 403, 404, 405, 409, 415, 422, 429, 500, 502, 503, 504} {
		cases["a page with "+strconv.Itoa(code)] = struct {
			handle http.HandlerFunc
			http1  bool
		}{handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(code)
			_, _ = w.Write([]byte("<html>" + secret + "</html>"))
		}}
	}
	for name, tc := range cases {
		for _, p := range []protocol{http1, http2} {
			if p == http2 && tc.http1 {
				continue
			}
			t.Run(name+map[protocol]string{http1: ", HTTP/1", http2: ", HTTP/2"}[p], func(t *testing.T) {
				t.Parallel()
				c := serve(t, p, tc.handle).open(t, kube.Config{})
				said := map[string]error{}
				for verb, run := range map[domain.Mark]func(*kube.Cluster, context.Context, kube.Job) kube.Outcome{
					domain.MarkPending: (*kube.Cluster).Apply, domain.MarkDoomed: (*kube.Cluster).Delete,
				} {
					j, watcher := job(configMaps(1, 0), verb)
					outcome := run(c, t.Context(), j)
					said[string(verb)] = outcome.Retry
					for _, note := range watcher.Notes {
						require.NotContains(t, note, secret)
					}
				}
				if err := c.Ping(t.Context()); err != nil { // a version may be any JSON
					said["ping"] = err
				}
				_, said["list"] = c.List(t.Context(), kube.Collection{Path: "/api/v1/pods", Page: 1}, func(json.RawMessage) error { return nil })
				said["watch"] = c.Watch(t.Context(), kube.Collection{Path: "/api/v1/pods"}, "1", func(string, *kube.Event) error { return nil })
				_, _, said["served"] = c.Served(t.Context())
				for what, err := range said {
					if err != nil {
						require.NotContains(t, fail.TextOf(err), secret, what)
					}
				}
				require.Error(t, said["served"])
			})
		}
	}
}

// TestARefusalThatPasses: what an API server forbids for a moment is applied when it is tried again.
func TestARefusalThatPasses(t *testing.T) {
	t.Parallel()
	for name, message := range map[string]string{
		"admission is not ready":  `configmaps "a0" is forbidden: not yet ready to handle request`,
		"namespace is new":        `configmaps "a0" is forbidden: error looking up service account n/default: serviceaccount "default" not found`,
		"CRD is being terminated": `widgets.example.com "a0" is forbidden: create not allowed while custom resource definition is terminating`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var patches atomic.Int64
			s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPatch && patches.Add(1) == 1 {
					answer(w, http.StatusForbidden, status(http.StatusForbidden, metav1.StatusReasonForbidden, message, nil))
					return
				}
				found(w)
			})
			j, watcher := job(configMaps(1, 0), domain.MarkPending)
			c := s.open(t, kube.Config{})
			outcome := c.Apply(t.Context(), j)
			require.True(t, fail.Is(outcome.Retry, fail.Unavailable), "%v", outcome.Retry)
			require.False(t, watcher.Marks[0] == domain.MarkRefused, "%v", watcher.Notes)
			j.Marks = watcher.Marks
			require.NoError(t, c.Apply(t.Context(), j).Retry)
			require.Equal(t, domain.MarkApplied, watcher.Marks[0], "%v", watcher.Notes)
			require.EqualValues(t, 2, patches.Load())
		})
	}
}

// TestAnAPIServerThatStarts forbids everything until it knows who may what, and says that it is not ready.
func TestAnAPIServerThatStarts(t *testing.T) {
	t.Parallel()
	var starts, allows atomic.Bool
	var looks atomic.Int64
	starts.Store(true)
	s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/readyz" && starts.Load():
			http.Error(w, "readyz check failed", http.StatusInternalServerError)
		case r.URL.Path == "/readyz":
			looks.Add(1)
			_, _ = w.Write([]byte("ok"))
		case allows.Load():
			found(w)
		default:
			answer(w, http.StatusForbidden, status(http.StatusForbidden, metav1.StatusReasonForbidden, `configmaps "a0" is forbidden: User "drover" cannot patch resource "configmaps"`, nil))
		}
	})
	c := s.open(t, kube.Config{})
	j, watcher := job(configMaps(1, 0), domain.MarkPending)
	require.True(t, fail.Is(c.Apply(t.Context(), j).Retry, fail.Unavailable))
	_, err := c.List(t.Context(), kube.Collection{Path: "/api/v1/pods", Page: 1}, func(json.RawMessage) error { return nil })
	require.False(t, kube.IsAnswer(err), "%v", err)
	starts.Store(false)
	allows.Store(true)
	j.Marks = watcher.Marks
	require.NoError(t, c.Apply(t.Context(), j).Retry)
	require.Equal(t, domain.MarkApplied, watcher.Marks[0], "%v", watcher.Notes)

	allows.Store(false)
	j, watcher = job(configMaps(20, 0), domain.MarkPending)
	require.NoError(t, c.Apply(t.Context(), j).Retry)
	require.Equal(t, domain.NewMarks(20, domain.MarkRefused), watcher.Marks, "who is ready knows what is forbidden")
	require.Less(t, looks.Load(), int64(20))
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	stranger := serve(t, http2, hang)
	cases := map[string]struct {
		kubeconfig []byte
		wantText   string
	}{
		"nobody listens": {
			kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}, clientcmdapi.AuthInfo{Token: "token"}),
			wantText:   "connection refused",
		},
		"somebody else answers": {
			kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: stranger.URL}, clientcmdapi.AuthInfo{Token: "token"}),
			wantText:   "certificate",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := kubetest.Open(t, kube.Config{}, tc.kubeconfig)
			for range 2 { // the message is the same from try to try
				j, _ := job(configMaps(100, 0), domain.MarkPending)
				outcome := c.Apply(t.Context(), j)
				require.True(t, fail.Is(outcome.Retry, fail.Unavailable), "%v", outcome.Retry)
				require.Contains(t, fail.TextOf(outcome.Retry), tc.wantText)
				require.NotContains(t, fail.TextOf(outcome.Retry), "/api/v1", "what the user reads has no URL")
				require.False(t, outcome.Reached)
			}
			require.True(t, fail.Is(c.Ping(t.Context()), fail.Unavailable))
		})
	}
}

func TestOneResourceDoesNotHoldUpItsStage(t *testing.T) {
	t.Parallel()
	webhook := status(500, metav1.StatusReasonInternalError, `Internal error occurred: failed calling webhook "w": no endpoints`, nil)
	s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/a3") || strings.HasSuffix(r.URL.Path, "/a7") {
			answer(w, http.StatusInternalServerError, webhook)
			return
		}
		found(w)
	})
	resources := append(configMaps(50, 0), configMaps(1, 1)...)
	j, watcher := job(resources, domain.MarkPending)
	outcome := s.open(t, kube.Config{}).Apply(t.Context(), j)
	require.True(t, fail.Is(outcome.Retry, fail.Unavailable))
	require.Equal(t, "ConfigMap a3: "+webhook.Message, fail.TextOf(outcome.Retry))
	require.True(t, outcome.Reached)
	want := domain.NewMarks(50, domain.MarkApplied)
	want[3], want[7] = domain.MarkSent, domain.MarkSent
	require.Equal(t, append(want, domain.MarkPending), watcher.Marks, "the next stage is not begun")
}

// TestAWebhookMayTakeItsTime: what an operation writes has longer than what it asks, as the cluster may ask a webhook first.
func TestAWebhookMayTakeItsTime(t *testing.T) {
	t.Parallel()
	const request = time.Second
	for name, c := range map[string]struct {
		write time.Duration
		want  domain.Mark
	}{
		"longer than a request":  {time.Minute, domain.MarkApplied},
		"as long as one, if set": {0, domain.MarkSent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPatch {
					select {
					case <-time.After(request + request/2):
					case <-r.Context().Done():
						return
					}
				}
				found(w)
			})
			j, watcher := job(configMaps(1, 0), domain.MarkPending)
			outcome := s.open(t, kube.Config{Request: request, Write: c.write}).Apply(t.Context(), j)
			require.Equal(t, domain.Marks{c.want}, watcher.Marks, "%v", outcome.Retry)
		})
	}
}

// TestADefinitionIsAppliedOnceItIsServed: what comes next may be of its kind. One that is never served is applied all the same.
func TestADefinitionIsAppliedOnceItIsServed(t *testing.T) {
	t.Parallel()
	const crd = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","names":{"kind":"Widget"},
		"versions":[{"name":"v1","served":true},{"name":"v0","served":false}]}}`
	for _, served := range []bool{true, false} {
		t.Run(strconv.FormatBool(served), func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/apis/example.com/v1" && (asked.Add(1) < 3 || !served):
					answer(w, http.StatusNotFound, status(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource", &metav1.StatusDetails{}))
				case r.URL.Path == "/apis/example.com/v1":
					answer(w, http.StatusOK, map[string]any{
						"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "example.com/v1",
						"resources": []any{map[string]any{"name": "widgets", "kind": "Widget", "namespaced": true}},
					})
				case r.URL.Path == "/apis":
					answer(w, http.StatusOK, map[string]any{"kind": "APIGroupList", "apiVersion": "v1"})
				default:
					found(w)
				}
			})
			j, watcher := job([]plan.Resource{{
				ResourceID: plan.ResourceID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "widgets.example.com"}, Manifest: []byte(crd),
			}}, domain.MarkPending)
			require.NoError(t, s.open(t, kube.Config{StageWait: 3 * time.Second}).Apply(t.Context(), j).Retry)
			require.Equal(t, domain.Marks{domain.MarkApplied}, watcher.Marks)
			require.GreaterOrEqual(t, asked.Load(), int64(3))
			before := asked.Load()
			j.Marks = watcher.Marks
			require.NoError(t, s.open(t, kube.Config{}).Apply(t.Context(), j).Retry)
			require.Equal(t, before, asked.Load(), "what is not applied is not waited for")
		})
	}
}

// TestAnAppMayMendItsOwnWebhook: what its webhook refuses to hear of stands before that webhook's configuration, and nothing else would mend it.
func TestAnAppMayMendItsOwnWebhook(t *testing.T) {
	t.Parallel()
	webhook := status(500, metav1.StatusReasonInternalError, `Internal error occurred: failed calling webhook "w": x509: certificate has expired`, nil)
	var label atomic.Value
	s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/a0"):
			answer(w, http.StatusInternalServerError, webhook)
		case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/w"):
			answer(w, http.StatusOK, &metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
				ObjectMeta: metav1.ObjectMeta{Name: "w", UID: "u", Labels: map[string]string{plan.DeploymentLabel: label.Load().(string)}},
			})
		default:
			found(w)
		}
	})
	c := s.open(t, kube.Config{StageWait: time.Minute})
	guard := plan.ResourceID{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration", Name: "w"}
	resources := append(configMaps(2, 6), configMaps(1, 7)[0], plan.Resource{ResourceID: guard, Stage: 8, Manifest: []byte(
		`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"w"}}`)})
	for name, tc := range map[string]struct {
		failing     time.Duration
		label, want string
	}{
		"at first its stage is the last one": {0, "", "1s1A2p"}, "so it is for some time": {time.Second, "", "1s1A2p"}, "but not for ever": {time.Hour, "", "1s1A1p1A"},
		"another's is left to wait": {time.Hour, "7-other", "1s1A2p"},
	} {
		j, watcher := job(resources, domain.MarkPending)
		label.Store(cmp.Or(tc.label, j.DeploymentID))
		if tc.failing > 0 {
			j.Failing = time.Now().Add(-tc.failing)
		}
		outcome := c.Apply(t.Context(), j)
		require.Equal(t, "ConfigMap a0: "+webhook.Message, fail.TextOf(outcome.Retry), name)
		require.Equal(t, tc.want, watcher.Marks.Encode(), name)
	}
}

// TestOneResourceDoesNotHoldUpWhatIsDeletedAfterIt for good: a webhook that fails may never come back.
func TestOneResourceDoesNotHoldUpWhatIsDeletedAfterIt(t *testing.T) {
	t.Parallel()
	webhook := status(500, metav1.StatusReasonInternalError, `conversion webhook for example.com/v1, Kind=Widget failed: no endpoints`, nil)
	var away atomic.Bool
	s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/a3"):
			answer(w, http.StatusInternalServerError, webhook)
		case away.Load():
			abort(w, r)
		case r.Method == http.MethodDelete:
			answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}})
		default:
			found(w)
		}
	})
	c := s.open(t, kube.Config{StageWait: time.Minute})
	resources := configMaps(6, 0)
	for i := range resources {
		resources[i].Stage = i / 2
	}
	for name, tc := range map[string]struct {
		failing time.Duration
		want    string
	}{
		"at first its stage is the last one": {0, "2d1D1d2D"}, "so it is for some time": {time.Second, "2d1D1d2D"}, "but not for ever": {time.Hour, "3D1d2D"},
	} {
		j, watcher := job(resources, domain.MarkDoomed)
		if tc.failing > 0 {
			j.Failing = time.Now().Add(-tc.failing)
		}
		outcome := c.Delete(t.Context(), j)
		require.True(t, fail.Is(outcome.Retry, fail.Unavailable), name)
		require.Equal(t, "ConfigMap a3: "+webhook.Message, fail.TextOf(outcome.Retry), name)
		require.Empty(t, outcome.Waits, name)
		require.Equal(t, tc.want, watcher.Marks.Encode(), name)
	}
	away.Store(true)
	j, _ := job(resources, domain.MarkDoomed)
	j.Failing = time.Now().Add(-time.Hour)
	require.Contains(t, fail.TextOf(c.Delete(t.Context(), j).Retry), "cannot be reached", "what is about the cluster ends the work, and is what is told")
}

// TestThoseThatFailAreNotAlwaysFirst: a pass is given up after some failures, and the next one comes to others.
func TestThoseThatFailAreNotAlwaysFirst(t *testing.T) {
	t.Parallel()
	s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
		if i, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/default/configmaps/a")); i < 30 {
			answer(w, http.StatusInternalServerError, status(500, metav1.StatusReasonInternalError, "no endpoints", nil))
			return
		}
		if r.Method == http.MethodDelete {
			answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}})
			return
		}
		found(w)
	})
	c := s.open(t, kube.Config{})
	for verb, tc := range map[domain.Mark]struct {
		run func(*kube.Cluster, context.Context, kube.Job) kube.Outcome
		end domain.Mark
	}{
		domain.MarkPending: {(*kube.Cluster).Apply, domain.MarkApplied}, domain.MarkDoomed: {(*kube.Cluster).Delete, domain.MarkDeleted},
	} {
		j, watcher := job(configMaps(40, 0), verb)
		for range 200 {
			outcome := tc.run(c, t.Context(), j)
			require.Equal(t, "ConfigMap a0: no endpoints", fail.TextOf(outcome.Retry), "the message is the same from try to try")
			j.Marks, j.Failing = watcher.Marks, time.Now()
		}
		for i := 30; i < 40; i++ {
			require.Equal(t, tc.end, watcher.Marks[i], "resource %d", i)
		}
	}
}

func TestAnAnswerThatIsCutOffIsAskedForAgain(t *testing.T) {
	t.Parallel()
	var cut atomic.Bool
	s := serve(t, http2, func(w http.ResponseWriter, _ *http.Request) {
		if cut.CompareAndSwap(false, true) { // it may have said that the object is being deleted
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			abort(nil, nil)
		}
		found(w)
	})
	c := s.open(t, kube.Config{})
	j, watcher := job(configMaps(1, 0), domain.MarkPending)
	require.True(t, fail.Is(c.Apply(t.Context(), j).Retry, fail.Unavailable))
	require.Equal(t, domain.Marks{domain.MarkSent}, watcher.Marks)
	j.Marks = watcher.Marks
	require.NoError(t, c.Apply(t.Context(), j).Retry)
	require.Equal(t, domain.Marks{domain.MarkApplied}, watcher.Marks)
}

func TestDeleteOfWhatIsReplaced(t *testing.T) {
	t.Parallel()
	conflict := status(409, metav1.StatusReasonConflict, "the UID in the precondition does not match", nil)
	t.Run("looks again", func(t *testing.T) {
		t.Parallel()
		deleted := make(chan string, 2)
		s := serveAll(t, http2, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodGet:
				found(w)
			case len(deleted) == 0:
				deleted <- bodyOf(r)
				answer(w, http.StatusConflict, conflict)
			default:
				deleted <- bodyOf(r)
				answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}})
			}
		})
		j, watcher := job(configMaps(1, 0), domain.MarkDoomed)
		require.NoError(t, s.open(t, kube.Config{}).Delete(t.Context(), j).Retry)
		require.Equal(t, domain.Marks{domain.MarkDeleted}, watcher.Marks)
		for range 2 { // the object that was found, and not one of its name
			require.JSONEq(t, `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"1"},"propagationPolicy":"Background"}`, <-deleted)
		}
	})
	t.Run("but not for ever", func(t *testing.T) {
		t.Parallel()
		s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				found(w)
				return
			}
			answer(w, http.StatusConflict, conflict)
		})
		j, watcher := job(configMaps(1, 0), domain.MarkDoomed)
		outcome := s.open(t, kube.Config{}).Delete(t.Context(), j)
		require.True(t, fail.Is(outcome.Retry, fail.Unavailable))
		require.Equal(t, domain.Marks{domain.MarkDeleting}, watcher.Marks)
	})
}

// TestDeleteThatIsRefusedAsAConflict: 409 is no sign of another object where there is none. What a webhook says is the last word, whatever its code is.
func TestDeleteThatIsRefusedAsAConflict(t *testing.T) {
	t.Parallel()
	const denied = `admission webhook "w" denied the request: the volume is attached`
	for message, tc := range map[string]struct {
		code   int32
		reason metav1.StatusReason
		want   domain.Mark
		left   string
		going  bool
	}{
		denied:            {409, "", domain.MarkUndeleted, "its deletion is refused: " + denied, false},
		denied + " still": {409, metav1.StatusReasonConflict, domain.MarkUndeleted, "its deletion is refused: " + denied + " still", false},
		denied + " to":    {404, metav1.StatusReasonNotFound, domain.MarkUndeleted, "its deletion is refused: " + denied + " to", false}, // what is not there is another one
		"it is in use":    {409, metav1.StatusReasonConflict, domain.MarkDeleting, "the cluster does not delete it as it was found: it is in use", true},
	} {
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			metadata := map[string]any{
				"name": "a0", "namespace": "default", "uid": "1", "resourceVersion": "7", "labels": map[string]string{plan.DeploymentLabel: kubetest.DeploymentID},
				"managedFields": []any{map[string]any{"manager": kube.FieldManager}},
			}
			var asked atomic.Int64
			c := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodDelete:
					asked.Add(1)
					answer(w, int(tc.code), status(tc.code, tc.reason, message, &metav1.StatusDetails{Name: "it"}))
				case strings.HasSuffix(r.URL.Path, "/configmaps"):
					answer(w, http.StatusOK, map[string]any{
						"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "items": []any{map[string]any{"metadata": metadata}},
					})
				case strings.HasPrefix(r.URL.Path, "/apis"):
					answer(w, http.StatusOK, map[string]any{"kind": "APIGroupList", "apiVersion": "v1"})
				default:
					answer(w, http.StatusOK, map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata})
				}
			}).open(t, kube.Config{})
			j, watcher := job(configMaps(1, 0), domain.MarkDoomed)
			retry := c.Delete(t.Context(), j).Retry
			require.Equal(t, domain.Marks{tc.want}, watcher.Marks)
			require.EqualValues(t, 1, asked.Load())
			if tc.going {
				require.True(t, fail.Is(retry, fail.Unavailable), "%v", retry)
				require.Contains(t, fail.TextOf(retry), message)
			} else {
				require.NoError(t, retry)
				require.Equal(t, message, watcher.Notes[0])
			}

			_, left, err := c.Sweep(t.Context(), kube.Remnants{
				Deployments: []string{kubetest.DeploymentID}, Places: []plan.ResourceID{{Version: "v1", Kind: "ConfigMap", Namespace: "default"}},
			})
			require.NoError(t, err)
			require.Len(t, left, 1)
			require.Equal(t, tc.left, left[0].Why)
			require.Equal(t, tc.going, left[0].Going)
		})
	}
}

// TestANamespaceThatAnotherStepMakesAnew: no try of a hook finds the namespace that somebody has deleted, as the release brings it.
func TestANamespaceThatAnotherStepMakesAnew(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		there bool
		mark  domain.Mark
	}{"it has gone": {mark: domain.MarkRefused}, "it is there by now": {there: true, mark: domain.MarkSent}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveAll(t, http2, func(w http.ResponseWriter, r *http.Request) {
				if c.there && r.Method == http.MethodGet {
					found(w)
					return
				}
				answer(w, http.StatusNotFound, status(404, metav1.StatusReasonNotFound, `namespaces "other" not found`, &metav1.StatusDetails{Kind: "namespaces", Name: "other"}))
			})
			resources := append(configMaps(2, 1), plan.Resource{
				ResourceID: plan.ResourceID{Version: "v1", Kind: "Namespace", Name: "other"}, Manifest: []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"other"}}`),
			})
			for i := range 2 {
				resources[i].Namespace = "other"
			}
			resources[0].Hook = &plan.Hook{Events: []string{"pre-upgrade"}}
			j, watcher := job(resources, domain.MarkApplied)
			j.Marks[0], j.Selects = domain.MarkPending, func(i int) bool { return i == 0 }
			outcome := s.open(t, kube.Config{}).Apply(t.Context(), j)
			require.Equal(t, c.there, fail.Is(outcome.Retry, fail.Unavailable), "%v", outcome.Retry)
			require.Equal(t, domain.Marks{c.mark, domain.MarkApplied, domain.MarkApplied}, watcher.Marks, "what another step applies is left to that")
			if !c.there {
				require.NoError(t, outcome.Retry)
				require.Equal(t, "the app's Namespace other, which it needs, was deleted by hand, and is not applied in this step: make it by hand, and then update with reapply", watcher.Notes[0])
			}
		})
	}
}

func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, http2, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusUnprocessableEntity, status(422, metav1.StatusReasonInvalid, "spec.template: "+strings.Repeat("ä", 1<<20)+": field is immutable", nil))
	})
	j, watcher := job(configMaps(1, 0), domain.MarkPending)
	require.NoError(t, s.open(t, kube.Config{}).Apply(t.Context(), j).Retry)
	require.LessOrEqual(t, len(watcher.Notes[0]), 1024)
	require.Regexp(t, "^spec.template: ä+…ä+: field is immutable$", watcher.Notes[0], "what the cluster has against it is said at the end")
}

func TestConnections(t *testing.T) {
	t.Parallel()
	t.Run("one is enough for HTTP/2, from the first request on", func(t *testing.T) {
		t.Parallel()
		s := serve(t, http2, func(w http.ResponseWriter, _ *http.Request) { found(w) })
		j, _ := job(configMaps(100, 0), domain.MarkPending)
		require.NoError(t, s.open(t, kube.Config{}).Apply(t.Context(), j).Retry)
		require.EqualValues(t, 1, s.conns.Load())
	})
	t.Run("HTTP/1 gets one for each request at a time, and all are used again", func(t *testing.T) {
		t.Parallel()
		s := serve(t, http1, func(w http.ResponseWriter, r *http.Request) {
			i, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/default/configmaps/a"))
			switch i % 3 {
			case 0:
				found(w)
			case 1:
				answer(w, http.StatusForbidden, status(403, metav1.StatusReasonForbidden, strings.Repeat("no ", 1000), nil))
			default:
				http.Error(w, strings.Repeat("no ", 10_000), http.StatusBadRequest)
			}
		})
		c := s.open(t, kube.Config{})
		for range 3 {
			j, _ := job(configMaps(100, 0), domain.MarkPending)
			require.NoError(t, c.Apply(t.Context(), j).Retry)
		}
		require.LessOrEqual(t, s.conns.Load(), int64(1+8), "an answer that is not read to its end costs a connection")
	})
	t.Run("a server that comes back is found", func(t *testing.T) {
		t.Parallel()
		s := serve(t, http2, func(w http.ResponseWriter, _ *http.Request) { found(w) })
		c := s.open(t, kube.Config{})
		for range 5 {
			j, _ := job(configMaps(20, 0), domain.MarkPending)
			require.NoError(t, c.Apply(t.Context(), j).Retry)
			s.CloseClientConnections()
			require.Eventually(t, func() bool { return c.Ping(t.Context()) == nil }, time.Minute, time.Millisecond)
		}
	})
}

func TestParallelIsBoundedPerCluster(t *testing.T) {
	t.Parallel()
	const parallel = 3
	gate := newGate(parallel)
	s := serve(t, http2, func(w http.ResponseWriter, _ *http.Request) {
		gate.pass()
		found(w)
	})
	c := s.open(t, kube.Config{Parallel: parallel})
	done := make(chan kube.Outcome)
	for range 2 { // two apps on one cluster
		go func() {
			j, _ := job(configMaps(30, 0), domain.MarkPending)
			done <- c.Apply(t.Context(), j)
		}()
	}
	for range 2 {
		require.NoError(t, (<-done).Retry)
	}
	require.Equal(t, parallel, gate.most())
}

// gate lets a number of requests in before it lets the first one out, as long as so many come.
type gate struct {
	mu        sync.Mutex
	in, peak  int
	wanted    int
	wasFull   chan struct{}
	closeOnce sync.Once
}

func newGate(wanted int) *gate { return &gate{wanted: wanted, wasFull: make(chan struct{})} }

func (g *gate) pass() {
	g.mu.Lock()
	g.in++
	g.peak = max(g.peak, g.in)
	if g.in == g.wanted {
		g.closeOnce.Do(func() { close(g.wasFull) })
	}
	g.mu.Unlock()
	<-g.wasFull
	g.mu.Lock()
	g.in--
	g.mu.Unlock()
}

func (g *gate) most() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.peak
}

// TestAPageIsNoWordOnAnObject: what a proxy in between says of a path is not the API server's word that the object is gone.
func TestAPageIsNoWordOnAnObject(t *testing.T) {
	t.Parallel()
	id := configMaps(1, 0)[0].ResourceID
	for _, code := range []int{http.StatusNotFound, http.StatusGone} {
		var deleted atomic.Bool
		s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/api":
				answer(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
			case r.URL.Path == "/api/v1":
				answer(w, http.StatusOK, metav1.APIResourceList{
					TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: "v1",
					APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}},
				})
			case r.Method == http.MethodGet && !deleted.Load():
				found(w)
			case r.Method == http.MethodDelete:
				deleted.Store(true)
				found(w)
			default:
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(code)
			}
		})
		c := s.open(t, kube.Config{})
		j, watcher := job(configMaps(1, 0), domain.MarkDoomed)
		retry := c.Delete(t.Context(), j).Retry
		require.True(t, fail.Is(retry, fail.Unavailable), "%v", retry)
		require.Equal(t, domain.Marks{domain.MarkEnding}, watcher.Marks)

		_, err := c.Object(t.Context(), id)
		require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
		deleted.Store(false)
		_, err = c.Remove(t.Context(), id, kubetest.DeploymentID)
		require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
		_, _, err = c.Sweep(t.Context(), kube.Remnants{
			Deployments: []string{kubetest.DeploymentID}, Places: []plan.ResourceID{{Version: "v1", Kind: "ConfigMap", Namespace: "ns"}},
		})
		require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	}
}
