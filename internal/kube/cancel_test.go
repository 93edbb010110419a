package kube_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/plan"
)

// prompt is how long the end of a job may take after its context's, on a busy machine: nothing else ends it.
const prompt = time.Minute

func TestEndOfContextPassesThrough(t *testing.T) {
	t.Parallel()
	stop := &fail.Error{Kind: fail.Unavailable, Message: "worker stops"}
	custom := []plan.Resource{
		{ResourceID: plan.ResourceID{Group: "example.com", Version: "v1", Kind: "Widget", Name: "a"}, Manifest: []byte(`{"kind":"Widget"}`)},
		{
			ResourceID: plan.ResourceID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "widgets.example.com"},
			Stage:      1,
			Manifest:   []byte(`{"spec":{"group":"example.com","names":{"kind":"Widget"},"versions":[{"name":"v1","served":true}]}}`),
		},
	}
	leaving := func(w http.ResponseWriter, r *http.Request, began func()) {
		if r.Method == http.MethodDelete {
			began()
		}
		found(w)
	}
	cases := map[string]struct {
		mark      domain.Mark
		resources []plan.Resource
		handle    func(w http.ResponseWriter, r *http.Request, began func())
		want      domain.Marks
	}{
		"while an apply hangs": {
			mark: domain.MarkPending, resources: configMaps(1, 0), want: domain.Marks{domain.MarkSent},
			handle: func(_ http.ResponseWriter, r *http.Request, began func()) { began(); <-r.Context().Done() },
		},
		"while a look before a deletion hangs": {
			mark: domain.MarkDoomed, resources: configMaps(1, 0), want: domain.Marks{domain.MarkDoomed},
			handle: func(_ http.ResponseWriter, r *http.Request, began func()) { began(); <-r.Context().Done() },
		},
		"while an object leaves": {
			mark: domain.MarkDoomed, resources: configMaps(1, 0), want: domain.Marks{domain.MarkDeleting}, handle: leaving,
		},
		"while discovery hangs": {
			mark: domain.MarkPending, resources: custom[:1], want: domain.Marks{domain.MarkPending},
			handle: func(_ http.ResponseWriter, r *http.Request, began func()) { began(); <-r.Context().Done() },
		},
		"while a CRD is not served yet": {
			mark: domain.MarkPending, resources: custom, want: domain.Marks{domain.MarkPending, domain.MarkPending},
			handle: func(w http.ResponseWriter, r *http.Request, began func()) {
				if strings.HasPrefix(r.URL.Path, "/apis/") {
					began()
				}
				discover(w, r)
			},
		},
		"while others have their turn": {
			mark: domain.MarkPending, resources: configMaps(3, 0),
			want:   domain.Marks{domain.MarkSent, domain.MarkPending, domain.MarkPending},
			handle: func(_ http.ResponseWriter, r *http.Request, began func()) { began(); <-r.Context().Done() },
		},
	}
	for name, tc := range cases {
		for causeName, cause := range map[string]error{"canceled": context.Canceled, "with a cause": stop} {
			t.Run(name+", "+causeName, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				began := make(chan struct{}, 1000)
				s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) { tc.handle(w, r, func() { began <- struct{}{} }) })
				c := s.open(t, kube.Config{Parallel: 1, Request: time.Hour, StageWait: time.Hour})
				j, watcher := job(tc.resources, tc.mark)
				ended := make(chan kube.Outcome, 1)
				go func() {
					if tc.mark == domain.MarkDoomed {
						ended <- c.Delete(ctx, j)
					} else {
						ended <- c.Apply(ctx, j)
					}
				}()
				<-began
				cancel(cause)
				select {
				case outcome := <-ended:
					require.True(t, errors.Is(outcome.Retry, cause) && outcome.Retry.Error() == cause.Error(), "%v", outcome.Retry)
				case <-time.After(prompt):
					require.FailNow(t, "the job goes on")
				}
				require.Equal(t, tc.want, watcher.Marks)
			})
		}
	}
}

func TestEndOfContextAfterTheLastAnswer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, http2, func(w http.ResponseWriter, _ *http.Request) { found(w) })
	j, watcher := job(configMaps(1, 0), domain.MarkPending)
	j.OnMark = func(i int, m domain.Mark, note string) {
		if watcher.OnMark(i, m, note); m == domain.MarkApplied {
			cancel()
		}
	}
	require.Equal(t, kube.Outcome{Reached: true}, s.open(t, kube.Config{}).Apply(ctx, j), "all is settled")
	require.Equal(t, domain.Marks{domain.MarkApplied}, watcher.Marks)
}

// discover answers as an API server without custom resources.
func discover(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/apis" {
		answer(w, http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList"}})
		return
	}
	http.NotFound(w, r)
}
