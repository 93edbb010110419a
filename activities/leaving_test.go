package activities_test

import (
	"context"
	"net/http"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/plan"
)

// held has a0 wait for a finalizer until it is let go.
func (l *leaf) held() (letGo func()) {
	gone := make(chan struct{})
	l.handle = func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-gone:
			refuse(w, http.StatusNotFound, "NotFound", path.Base(r.URL.Path))
			return
		default:
		}
		answer(w, http.StatusOK, map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": map[string]any{
			"name": path.Base(r.URL.Path), "uid": "1", "deletionTimestamp": "2026-11-22T09:30:00Z", "finalizers": []string{"example.com/held"},
			"labels": map[string]string{plan.DeploymentLabel: "1-app"},
		}})
	}
	return func() { close(gone) }
}

// again makes another attempt, which knows what the last one's heartbeat said.
func (l *leaf) again() (*domain.Leaf, error) {
	l.env = l.environment()
	l.env.SetHeartbeatDetails(l.raw)
	return l.run()
}

// TestWhatOutlivesItsDeletion is waited for by one short attempt after the other: the leaf does not end, the workflow is told
// once what for, and the cluster counts as one that answers.
func TestWhatOutlivesItsDeletion(t *testing.T) {
	const note = "being deleted since 2026-11-22T09:30:00Z, waits for finalizer example.com/held"
	for name, prune := range map[string]bool{"terminate": false, "prune": true} {
		t.Run(name, func(t *testing.T) {
			op := domain.OpTerminate
			if prune {
				op = domain.OpUpdate
			}
			l := newLeaf(t, op, 0)
			l.in.Prune = prune
			require.NoError(t, l.store.PutLeaf(t.Context(), domain.Leaf{ID: l.in.LeafID(), Operation: op, Marks: "1L"}))
			letGo := l.held()
			_, err := l.run()
			for range 3 {
				require.Equal(t, fail.Unavailable, fail.KindOf(err), "%v", err)
				require.Equal(t, "waits until ConfigMap a0 is gone: "+note, fail.TextOf(err))
				require.GreaterOrEqual(t, fail.RetryAfterOf(err), time.Second)
				require.Empty(t, l.recorded().Cluster, "it has not ended")
				asked := l.asked()
				_, err = l.again()
				require.LessOrEqual(t, l.asked()-asked, 1)
			}
			require.Len(t, l.contacts, 1, "%v", l.contacts)
			require.Equal(t, domain.ConnectivityAvailable, l.contacts[0].Connectivity)
			require.Equal(t, "1L", l.contacts[0].Marks)
			require.Equal(t, "waits until ConfigMap a0 is gone: "+note, l.contacts[0].Reason)
			require.Equal(t, []domain.Note{{Index: 0, Message: note}}, l.contacts[0].Notes)
			require.Empty(t, l.store.reachable)

			letGo()
			out, err := l.again()
			require.NoError(t, err)
			require.Equal(t, map[bool]string{false: "1D", true: "1G"}[prune], out.Marks)
			require.Empty(t, l.recorded().Notes)
		})
	}
}

// TestAnObjectThatCannotBeDeletedHoldsUpNoOtherForGood: attempts tell each other since when the cluster answers in vain, and what is deleted after the
// object is asked for some time later. That it did not answer meanwhile begins that time anew.
func TestAnObjectThatCannotBeDeletedHoldsUpNoOtherForGood(t *testing.T) {
	l := newLeaf(t, domain.OpTerminate, 0, 1)
	require.NoError(t, l.store.PutLeaf(t.Context(), domain.Leaf{ID: l.in.LeafID(), Operation: domain.OpInstantiate, Marks: "2A"}))
	away := false
	l.handle = func(w http.ResponseWriter, r *http.Request) {
		switch {
		case away:
			panic(http.ErrAbortHandler)
		case path.Base(r.URL.Path) == "a1":
			refuse(w, http.StatusInternalServerError, "InternalError", "a webhook")
		default:
			refuse(w, http.StatusNotFound, "NotFound", path.Base(r.URL.Path))
		}
	}
	_, err := l.run()
	for range 2 {
		require.ErrorContains(t, err, "ConfigMap a1")
		require.NotContains(t, l.seen(), "GET a0")
		require.NotEmpty(t, l.raw["failing"])
		_, err = l.again()
	}
	away = true
	_, err = l.again()
	require.Error(t, err)
	require.NotContains(t, l.raw, "failing")
	away = false
	_, err = l.again()
	require.Error(t, err)
	require.NotContains(t, l.seen(), "GET a0")

	l.raw["failing"] = time.Now().Add(-time.Hour)
	_, err = l.again()
	require.ErrorContains(t, err, "ConfigMap a1")
	require.Contains(t, l.seen(), "GET a0")
	require.Equal(t, "1D1r", l.raw["marks"])
}

// TestAClusterThatAnswersInPart has the workflow told once, and not with each attempt: histories have an end.
func TestAClusterThatAnswersInPart(t *testing.T) {
	for name, fails := range map[string]func(attempt int, object string) bool{
		"an object can never be deleted": func(_ int, object string) bool { return object == "a1" },
		"now and then":                   func(attempt int, _ string) bool { return attempt%2 == 1 },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeaf(t, domain.OpTerminate, 0, 0)
			require.NoError(t, l.store.PutLeaf(t.Context(), domain.Leaf{ID: l.in.LeafID(), Operation: domain.OpTerminate, Marks: "2L"}))
			letGo, attempt := l.held(), 0
			holds := l.handle
			l.handle = func(w http.ResponseWriter, r *http.Request) {
				if fails(attempt, path.Base(r.URL.Path)) {
					refuse(w, http.StatusInternalServerError, "InternalError", "a webhook")
					return
				}
				holds(w, r)
			}
			_, err := l.run()
			for attempt = 1; attempt < 12; attempt++ {
				require.Error(t, err)
				_, err = l.again()
			}
			require.LessOrEqual(t, len(l.contacts), 3, "%v", l.contacts)

			l.handle = holds
			letGo()
			out, err := l.again()
			require.NoError(t, err)
			require.Equal(t, "2D", out.Marks)
		})
	}
}

// TestWaitingForTheEndOfAnObjectGrowsRarer with the time that has passed, up to half a minute.
func TestWaitingForTheEndOfAnObjectGrowsRarer(t *testing.T) {
	l := newLeaf(t, domain.OpTerminate, 0)
	l.held()
	for passed, want := range map[time.Duration]time.Duration{0: time.Second, 40 * time.Second: 10 * time.Second, time.Hour: 30 * time.Second} {
		l.raw = map[string]any{"marks": "1L", "announced": "1L", "connectivity": "Available", "leaving": time.Now().Add(-passed)}
		_, err := l.again()
		require.InDelta(t, want.Seconds(), fail.RetryAfterOf(err).Seconds(), 5)
	}
}

// TestWhatGoesOneByOneIsToldNowAndThen, the less often the longer it takes, and not with each object.
func TestWhatGoesOneByOneIsToldNowAndThen(t *testing.T) {
	for name, c := range map[string]struct {
		ending, toldAt time.Duration // ago
		told           bool
	}{
		"a while later":         {ending: 20 * time.Second, toldAt: 10 * time.Second, told: true},
		"a moment later":        {ending: 20 * time.Second, toldAt: time.Second},
		"after days":            {ending: 48 * time.Hour, toldAt: 7 * time.Hour, told: true},
		"after days, soon":      {ending: 48 * time.Hour, toldAt: 5 * time.Hour},
		"after an hour":         {ending: time.Hour, toldAt: 20 * time.Minute, told: true},
		"soon, after an hour":   {ending: time.Hour, toldAt: 5 * time.Minute},
		"for the first time":    {told: true},
		"by a former release's": {ending: time.Hour, told: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeaf(t, domain.OpTerminate, 0, 0, 1)
			l.held()
			holds := l.handle
			l.handle = func(w http.ResponseWriter, r *http.Request) {
				if path.Base(r.URL.Path) == "a0" {
					refuse(w, http.StatusNotFound, "NotFound", "a0")
					return
				}
				holds(w, r)
			}
			l.raw = map[string]any{
				"marks": "3L", "announced": "3L", "connectivity": domain.ConnectivityAvailable, "said": domain.ConnectivityAvailable, "saidReason": "waits until ConfigMap a0 is gone",
			}
			if c.ending > 0 {
				l.raw["leaving"] = time.Now().Add(-c.ending)
			}
			if c.toldAt > 0 {
				l.raw["toldAt"] = time.Now().Add(-c.toldAt)
			}
			for range 2 { // the next attempt announces nothing but what it sends
				_, err := l.again()
				require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
				require.Equal(t, "1D2L", l.raw["marks"])
			}
			if !c.told {
				require.Empty(t, l.contacts)
				return
			}
			require.Len(t, l.contacts, 1)
			require.Equal(t, "1D2L", l.contacts[0].Marks)
		})
	}
}

// TestAWorkflowThatTakesNoMoreSignals holds up no work: what is left of it comes to its end.
func TestAWorkflowThatTakesNoMoreSignals(t *testing.T) {
	l := newLeaf(t, domain.OpTerminate, 0)
	l.refusal = fail.New(fail.Exhausted, "takes no more signals")
	require.NoError(t, l.store.PutLeaf(t.Context(), domain.Leaf{ID: l.in.LeafID(), Operation: domain.OpTerminate, Marks: "1L"}))
	letGo := l.held()
	for range 2 {
		_, err := l.run()
		require.Equal(t, "waits until ConfigMap a0 is gone: being deleted since 2026-11-22T09:30:00Z, waits for finalizer example.com/held", fail.TextOf(err))
		l.env = l.environment()
		l.env.SetHeartbeatDetails(l.raw)
	}
	require.Len(t, l.contacts, 1, "it is not told again and again")
	letGo()
	out, err := l.again()
	require.NoError(t, err)
	require.Equal(t, "1D", out.Marks)

	l = newLeaf(t, domain.OpInstantiate, 0, 1)
	l.refusal = fail.New(fail.Exhausted, "takes no more signals")
	l.env.SetHeartbeatDetails(progress{Marks: "2p", Announced: "2p", Connectivity: domain.ConnectivityRetrying})
	out, err = l.run()
	require.NoError(t, err)
	require.Equal(t, "2A", out.Marks)
}

// TestStopOfWhatOutlivesItsDeletion says what is left, wherever the stop meets the attempt.
func TestStopOfWhatOutlivesItsDeletion(t *testing.T) {
	for requests := 2; requests <= 4; requests++ {
		l := newLeaf(t, domain.OpTerminate, 0)
		l.held()
		require.NoError(t, l.store.PutLeaf(t.Context(), domain.Leaf{ID: l.in.LeafID(), Marks: "1A"}))
		ctx, cancel := context.WithCancelCause(t.Context())
		l.options.BackgroundActivityContext = ctx
		seen, leaving := l.handle, false
		l.handle = func(w http.ResponseWriter, r *http.Request) {
			if l.asked() > requests {
				cancel(temporal.NewCanceledError())
			}
			if leaving = leaving || r.Method == http.MethodDelete; !leaving {
				found(w, "a0")
				return
			}
			seen(w, r)
		}
		_, err := l.run()
		require.NoError(t, err)
		require.Equal(t, "1L", l.recorded().Marks)
		require.Len(t, l.recorded().Notes, 1)
		require.Equal(t, "being deleted since 2026-11-22T09:30:00Z, waits for finalizer example.com/held", l.recorded().Notes[0].Message)
	}
}

// found is an object of the leaf's.
func found(w http.ResponseWriter, name string) {
	answer(w, http.StatusOK, map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": map[string]any{
		"name": name, "uid": "1", "labels": map[string]string{plan.DeploymentLabel: "1-app"},
	}})
}

// TestTidyingUpDoesNotWait for the end of a hook's object: nothing depends on it but a terminate.
func TestTidyingUpDoesNotWait(t *testing.T) {
	hook := on("pre-install")
	hook.DeletePolicies = []string{string(plan.WhenSucceeded)}
	l, o := hooked(t, domain.OpInstantiate, settingsHook("hook", hook))
	l.connect(kube.Config{StageWait: time.Nanosecond})
	l.body = func(w http.ResponseWriter, r *http.Request, body []byte) {
		if r.Method == http.MethodDelete {
			o.mu.Lock()
			o.kept["hook"]["metadata"].(map[string]any)["finalizers"] = []string{"example.com/held"}
			o.mu.Unlock()
			r.Method = http.MethodGet
		}
		o.ServeHTTP(w, r, body)
	}
	require.Equal(t, []string{"1p1A", "1p1A", "2A"}, l.through())
}
