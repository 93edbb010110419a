package oidc_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/idle"
	"github.com/drover-io/drover/internal/oidc"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// TestALogoutGivesBack: who logs out has the provider take back what it has given, and is told when it does not. The session has ended in
// each process, whatever the provider does.
func TestALogoutGivesBack(t *testing.T) {
	for name, c := range map[string]struct {
		does    func(r *replicas) // when somebody logs out
		left    string
		revoked bool
		kept    bool // the session is still to be given back
	}{
		"it takes it back": {does: func(*replicas) {}, revoked: true},
		"it is away":       {does: func(r *replicas) { r.down.Store(true) }, left: "does not answer; try again later; it is told again for 24h0m0s", kept: true},
		"it hangs":         {does: func(r *replicas) { r.hangs.Store(true) }, left: "it is told again for 24h0m0s", kept: true},
		"it has trouble": {
			does: func(r *replicas) {
				r.givenBack = func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusServiceUnavailable); return true }
			},
			left: "answers 503", kept: true,
		},
		"it refuses": {
			does: func(r *replicas) {
				r.givenBack = func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusBadRequest); return true }
			},
			left: "does not take it back: 400",
		},
		"it takes nothing back": {does: func(r *replicas) { r.metadata = map[string]any{"revocation_endpoint": nil} }, left: "names no revocation_endpoint"},
		"it says a place in plain": {
			does: func(r *replicas) { r.metadata = map[string]any{"revocation_endpoint": "http://evil.example/revoke"} }, left: "it is told again", kept: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r *replicas
			var l *authn.Login
			var at *oidc.Sessions
			var left string
			var err error
			for try := 1; ; try++ {
				r = newReplicas(t)
				l = r.login(t)
				c.does(r)
				at = r.start(t) // one that has not asked the provider yet what it is
				from := idle.Start(t)
				left, err = at.End(t.Context(), l.Secret)
				took, _ := from.Read()
				from.Stop()
				require.NoError(t, err)
				require.Less(t, took, 3*policy.GiveBack)
				late := strings.Contains(left, "it is told again") && (c.left == "" || !strings.Contains(left, c.left))
				if !late || try == 5 {
					break
				}
				t.Logf("the provider had no turn on a busy machine: %s", left)
			}
			if c.left == "" {
				require.Empty(t, left)
			}
			require.Contains(t, left, c.left)
			require.NotContains(t, left, "refresh-0")
			for _, s := range []*oidc.Sessions{r.one, r.two, at} {
				_, err := who(t.Context(), s, l.Secret)
				require.True(t, fail.Is(err, fail.Unauthorized), "%v", err)
			}
			_, revoked := r.good()
			require.Equal(t, c.revoked, len(revoked) == 1)
			_, err = r.store.Session(t.Context(), l.ID)
			require.Equal(t, c.kept, err == nil, "%v", err)
			left, err = at.End(t.Context(), l.Secret)
			require.NoError(t, err)
			require.Empty(t, left, "it has ended before")
		})
	}
}

// TestWhatWasNotGivenBackIsLater: by any process, once, when the provider answers again, and for a day.
func TestWhatWasNotGivenBackIsLater(t *testing.T) {
	r := newReplicas(t)
	ctx := t.Context()
	sessions := func() int {
		t.Helper()
		all, err := r.store.EndedSessions(ctx, r.now(), "", 1_000)
		require.NoError(t, err)
		return len(all)
	}
	l, other := r.login(t), r.login(t)
	r.down.Store(true)
	for _, x := range []*authn.Login{l, other} {
		left, err := r.one.End(ctx, x.Secret)
		require.NoError(t, err)
		require.NotEmpty(t, left)
	}
	asked := r.requests.Load()
	r.later(time.Minute)
	require.NoError(t, r.two.Sweep(ctx), "it is not the time yet")
	require.Equal(t, asked, r.requests.Load())
	require.Equal(t, 2, sessions())
	r.later(policy.SessionRetry)
	require.True(t, fail.Is(r.start(t).Sweep(ctx), fail.Unavailable))
	require.Equal(t, asked+1, r.requests.Load(), "a provider that is away is asked for one of them")
	require.Equal(t, 2, sessions())
	r.down.Store(false)
	r.later(policy.SessionRetry + time.Second)
	sweep := func() {
		var sweeping sync.WaitGroup
		for _, s := range []*oidc.Sessions{r.start(t), r.start(t), r.start(t)} {
			sweeping.Go(func() {
				if err := s.Sweep(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		sweeping.Wait()
	}
	sweep()
	_, revoked := r.good()
	require.Equal(t, []string{"refresh-0", "refresh-0"}, revoked, "each once, however many sweep")
	require.Zero(t, sessions())

	r.login(t)
	r.later(policy.SessionLife - time.Minute)
	sweep()
	_, revoked = r.good()
	require.Len(t, revoked, 2, "it goes on")
	r.later(2 * time.Minute)
	sweep()
	_, revoked = r.good()
	require.Len(t, revoked, 3, "its time is over, and nobody has logged in since")
	require.Zero(t, sessions())

	l = r.login(t)
	r.later(2*time.Hour + time.Minute)
	_, err := who(ctx, r.one, l.Secret)
	require.True(t, fail.Is(err, fail.Unauthorized), "nobody was there for long")
	r.later(time.Second)
	sweep()
	_, revoked = r.good()
	require.Len(t, revoked, 4)
	require.Zero(t, sessions())

	l = r.login(t)
	r.change(func() { r.noRefresh = true })
	bare := r.login(t)
	for _, x := range []*authn.Login{l, bare} {
		r.down.Store(true)
		_, err := r.start(t).End(ctx, x.Secret)
		require.NoError(t, err)
	}
	r.later(time.Second)
	require.Equal(t, 1, sessions(), "where there is nothing to give back nobody is asked")
	r.later(policy.SessionKept + time.Minute)
	require.True(t, fail.Is(r.start(t).Sweep(ctx), fail.Unavailable))
	require.Zero(t, sessions(), "nobody is told for ever")
}

// TestRun: sessions whose time is over are given back though nobody asks for it, and what goes wrong with that is said.
func TestRun(t *testing.T) {
	r := newReplicas(t)
	r.login(t)
	run := func(until func(wrong <-chan error)) {
		ctx, cancel := context.WithCancel(t.Context())
		wrong := make(chan error, 1)
		at := r.start(t)
		var running sync.WaitGroup
		running.Go(func() { at.Run(ctx, func(err error) { wrong <- err }) })
		defer running.Wait()
		defer cancel()
		until(wrong)
	}
	r.later(policy.SessionLife + time.Minute)
	r.down.Store(true)
	run(func(wrong <-chan error) {
		err := <-wrong
		require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	})
	r.down.Store(false)
	r.later(policy.SessionRetry + time.Second)
	run(func(<-chan error) {
		require.Eventually(t, func() bool { _, revoked := r.good(); return len(revoked) == 1 }, policy.Keys, time.Millisecond)
	})
}

// TestALogoutWhileATokenIsReplaced: what the provider gives just then has no use, and is given back, too.
func TestALogoutWhileATokenIsReplaced(t *testing.T) {
	r := newReplicas(t)
	l := r.login(t)
	var ended error
	var once sync.Once
	r.onRefresh = func() {
		once.Do(func() {
			left, err := r.two.End(t.Context(), l.Secret)
			if ended = err; left != "" {
				ended = errors.New(left)
			}
		})
	}
	r.later(61 * time.Minute)
	_, err := who(t.Context(), r.one, l.Secret)
	require.True(t, fail.Is(err, fail.Unauthorized), "%v", err)
	require.NoError(t, ended)
	good, revoked := r.good()
	require.Empty(t, good)
	require.Equal(t, []string{"refresh-0", "refresh-1"}, revoked)
}

// TestASlowProviderDelaysNoOther: while one takes its time, the sessions of another are given back; and each of its own is claimed from when its turn comes.
func TestASlowProviderDelaysNoOther(t *testing.T) {
	r := newReplicas(t)
	slow := r.another(t)
	r.over(t, slow, "!1", "!2") // before the other's, by their ids
	r.login(t)
	given := make(chan struct{})
	inside := 0
	beside := false
	r.givenBack = func(http.ResponseWriter) bool {
		close(given)
		return false
	}
	slow.givenBack = func(http.ResponseWriter) bool {
		if inside++; inside == 1 {
			select {
			case <-given:
				beside = true
			case <-time.After(policy.Keys):
			}
			r.later(time.Hour)
			return false
		}
		x, err := r.store.Session(t.Context(), "!2")
		if err != nil || !x.Renewing.Equal(r.now().Add(policy.Renew).UTC().Truncate(time.Millisecond)) {
			t.Error("another process may ask at the same time: ", err, x)
		}
		return false
	}
	r.later(policy.SessionLife + time.Minute)
	require.NoError(t, r.start(t).Sweep(t.Context()))
	require.Equal(t, 2, inside)
	require.True(t, beside)
	ended, err := r.store.EndedSessions(t.Context(), r.now(), "", 10)
	require.NoError(t, err)
	require.Empty(t, ended)
}

// TestASlowProviderTakesNoOthersTime: each has a time of its own in a sweep, though a page of sessions is done when those of all providers are.
func TestASlowProviderTakesNoOthersTime(t *testing.T) {
	const page = 100
	sweep := func(most time.Duration) (revoked []string) {
		t.Helper()
		r := newReplicas(t)
		slow := r.another(t)
		r.over(t, slow, "!1", "!2", "!3", "!4")
		r.over(t, r.issuer, "!5", "~9") // the first one on the first page, the other one on the next
		for i := range page {
			require.NoError(t, r.store.PutSession(t.Context(), &domain.Session{ID: fmt.Sprintf("!6%03d", i), Expires: r.now().Add(time.Minute).UTC()})) // nobody is asked
		}
		inside := 0
		slow.givenBack = func(http.ResponseWriter) bool {
			inside++
			<-time.After(most * 3 / 5)
			return false
		}
		r.later(2 * time.Minute)
		require.NoError(t, r.start(t).SweepFor(t.Context(), most))
		require.Positive(t, inside)
		require.Less(t, inside, 3, "no more of a slow one than there is time for")
		_, revoked = r.good()
		return revoked
	}
	var revoked []string
	for _, most := range []time.Duration{2 * time.Second, 4 * time.Second, 4 * time.Second} { // what is given back has a time, too, which a busy machine takes
		if revoked = sweep(most); len(revoked) > 1 {
			break
		}
	}
	require.ElementsMatch(t, []string{"of !5", "of ~9"}, revoked)
}

// TestWhatCannotBeReadHidesNoOther: a page of sessions that were sealed with a key that is gone comes before one that can be ended.
func TestWhatCannotBeReadHidesNoOther(t *testing.T) {
	const page = 100
	r := newReplicas(t)
	keys, err := secret.Parse("test:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 32))))
	require.NoError(t, err)
	others := r.opened
	others.Keys = keys
	damaged := storetest.Open(t, others)
	for i := range page {
		require.NoError(t, damaged.PutSession(t.Context(), &domain.Session{ID: fmt.Sprintf("!%03d", i), Expires: r.now().Add(time.Minute).UTC()}))
	}
	r.over(t, r.issuer, "~")
	r.later(2 * time.Minute)
	require.NoError(t, r.start(t).Sweep(t.Context()))
	_, revoked := r.good()
	require.Equal(t, []string{"of ~"}, revoked)
	r.later(policy.SessionKept)
	require.NoError(t, r.start(t).Sweep(t.Context()))
	_, err = r.store.EndedSessions(t.Context(), r.now(), "", page)
	require.NoError(t, err, "they are dropped when they are old")
}

// broken is a store whose database fails.
type broken struct{ *store.Store }

func (broken) Session(context.Context, string) (*domain.Session, error) {
	return nil, fail.New(fail.Internal, "the database failed")
}

// TestADatabaseThatFailsForgetsNoSession: one that could not be read this time can still be given back.
func TestADatabaseThatFailsForgetsNoSession(t *testing.T) {
	r := newReplicas(t)
	l := r.login(t)
	r.one.Store = broken{r.store}
	_, err := r.one.End(t.Context(), l.Secret)
	require.True(t, fail.Is(err, fail.Internal), "%v", err)
	left, err := r.two.End(t.Context(), l.Secret)
	require.NoError(t, err)
	require.Empty(t, left)
	_, revoked := r.good()
	require.Len(t, revoked, 1)
}

// another adds another provider to the configuration.
func (r *replicas) another(t *testing.T) *issuer {
	t.Helper()
	other := newIssuer(t)
	other.clock = r.now
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte(clientSecret), 0o600))
	r.config = strings.Replace(r.config, "issuers: [", fmt.Sprintf(
		`issuers: [{url: %q, audiences: [page], prefix: "slow:", browser: {clientID: page, clientSecretFile: %q, redirectURL: "https://drover.example.org/login/callback"}}, `, other.URL, secret), 1)
	return other
}

// over stores sessions of a provider that are over in a minute.
func (r *replicas) over(t *testing.T, at *issuer, ids ...string) {
	t.Helper()
	of := base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf(`{"iss": %q}`, at.URL)))
	for _, id := range ids {
		require.NoError(t, r.store.PutSession(t.Context(), &domain.Session{ID: id, Token: "e30." + of + ".e30", Refresh: "of " + id, Expires: r.now().Add(time.Minute).UTC()}))
	}
}
