package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/codec"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/token"
)

// byName knows those who say "Bearer <name>".
func byName(_ context.Context, s *authn.Shown) (*authn.Proof, error) {
	switch {
	case len(s.Authorization) == 0:
		return nil, nil
	case s.Authorization[0] == "Bearer revoked":
		return nil, fail.New(fail.Unauthorized, "revoked")
	case s.Authorization[0] == "Bearer later":
		return nil, fail.New(fail.Timeout, "the store does not answer")
	}
	return &authn.Proof{Identity: caller.Identity{Kind: caller.User, Name: strings.TrimPrefix(s.Authorization[0], "Bearer ")}}, nil
}

// TestCallersAreKnownBeforeTheirBodies: who proves nothing is told so whatever is asked for, and nothing of the body is read; probes
// and the documentation are for all. An operation is asked for by who has proven it, whatever else is said.
func TestCallersAreKnownBeforeTheirBodies(t *testing.T) {
	var remotes []string
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) {
		d.Prove = func(ctx context.Context, s *authn.Shown) (*authn.Proof, error) {
			remotes = append(remotes, caller.RemoteOf(ctx))
			return byName(ctx, s)
		}
	})
	as := func(name string) map[string]string { return map[string]string{"Authorization": "Bearer " + name} }
	bearer := map[string]string{"Www-Authenticate": "Bearer"}
	project := `{"metadata":{"name":"p"}}`
	check(t, w.router, []call{
		{name: "nothing", method: "GET", url: "/v2/projects", status: 401, contains: []string{"credentials are required"}, answers: bearer},
		{name: "a name that is only said", method: "GET", url: "/v2/projects", header: map[string]string{"X-Forwarded-User": "alice"}, status: 401},
		{name: "revoked", method: "GET", url: "/v2/projects", header: as("revoked"), status: 401, contains: []string{"revoked"}, answers: bearer},
		{name: "not known now", method: "GET", url: "/v2/projects", header: as("later"), status: 503, contains: []string{"cannot be told at the moment"}},
		{name: "metrics", method: "GET", url: "/metrics", status: 401, answers: bearer},
		{name: "metrics for alice", method: "GET", url: "/metrics", header: as("alice"), status: 200},
		{name: "health", method: "GET", url: "/healthz", status: 200},
		{name: "documentation", method: "GET", url: "/openapi.json", status: 200},
		{name: "alice", method: "POST", url: "/v2/projects", header: as("alice"), body: project, status: 201},
	})
	require.Contains(t, w.log.String(), `requestedBy="user alice"`)
	unread := &noReader{}
	for _, media := range []string{"application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", ""} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/v2/projects", unread)
		require.NoError(t, err)
		r.Header.Set("Content-Type", media)
		r.Header.Set("X-Forwarded-For", "192.0.2.2")
		r.Header.Set("X-Real-Ip", "192.0.2.2")
		r.RemoteAddr = "192.0.2.1:1"
		answer := httptest.NewRecorder()
		w.router.ServeHTTP(answer, r)
		require.Equal(t, 401, answer.Code, media)
		require.False(t, unread.read, media)
		require.Equal(t, "192.0.2.1:1", remotes[len(remotes)-1], "where it comes from is known, and is not what it says")
	}
	for _, path := range []string{"/codec/decode", "/metrics", "/logout", "/healthz", "/readyz", "/nothing", "/"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1"+path, unread)
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w.router.ServeHTTP(httptest.NewRecorder(), r)
		require.False(t, unread.read, path)
	}
	require.Contains(t, w.log.String(), "remote=192.0.2.1:1")
	require.NotContains(t, w.log.String(), "192.0.2.2", "nor does the log believe it")
}

// TestBodiesAreReadBehindTheDoor: of who is known, and may not or has asked for too much, nothing of the body is read, whatever it is said to be.
func TestBodiesAreReadBehindTheDoor(t *testing.T) {
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) {
		d.first = append(d.first, func(context.Context, *door.Request, door.Next) error { return fail.New(fail.Exhausted, "too much") })
	})
	for _, media := range []string{"application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""} {
		for _, path := range []string{"/v2/projects", theGroup + "/stop", theComposite + "/apps"} {
			unread := &noReader{}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1"+path, unread)
			require.NoError(t, err)
			r.Header.Set("Content-Type", media)
			answer := httptest.NewRecorder()
			w.router.ServeHTTP(answer, r)
			require.Equal(t, 429, answer.Code, "%s %s: %s", path, media, answer.Body)
			require.False(t, unread.read, "%s %s", path, media)
		}
	}
}

// TestMetricsTellOfAStoreThatIsAway: who scrapes goes on with the token that was good, also when rights that were read are too old for all else.
func TestMetricsTellOfAStoreThatIsAway(t *testing.T) {
	var (
		away  error
		clock = lease.Instant{Boot: time.Hour}
		store tokensOf
	)
	text, hash := token.New("service-accounts/prometheus/tokens/t")
	store.token = &domain.ServiceAccountToken{
		Identity: domain.Identity{Parent: "service-accounts/prometheus"}, Metadata: domain.Metadata{Name: "t"},
		Credential: domain.Credential{Hash: hash, Expires: time.Now().Add(24 * time.Hour)},
	}
	book := rights.NewBook(nil, []*domain.RoleBinding{{
		Spec: domain.RoleBindingSpec{Role: "viewer", Subjects: []domain.RightSubject{{Kind: domain.SubjectServiceAccount, Name: "service-accounts/prometheus"}}},
	}})
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) {
		now := func() lease.Instant { return clock }
		d.Prove = authn.Tokens{Store: &store, Now: time.Now, Turns: authn.NewTurns(), Scrapes: authn.NewScrapes(now)}.Prove
		d.steps = append(d.steps, door.NewRights(func(context.Context) (*rights.Book, error) { return book, away }, now).Authorised)
	})
	scrape := func(name, url string, status int) {
		t.Helper()
		check(t, w.router, []call{{name: name, method: "GET", url: url, header: map[string]string{"Authorization": "Bearer " + text}, status: status}})
	}
	scrape("all is well", "/metrics", 200)
	away = fail.New(fail.Unavailable, "the database does not answer")
	store.err = away
	clock.Boot += 2 * policy.BookGood
	scrape("the store is away", "/metrics", 200)
	scrape("something else", "/v2/projects", 503)
	away, store.err, store.token = nil, nil, nil
	scrape("revoked", "/metrics", 401)
}

// tokensOf is a store that has a token.
type tokensOf struct {
	token *domain.ServiceAccountToken
	err   error
}

func (s *tokensOf) Get(context.Context, *domain.Noun, domain.Key) (domain.Object, error) {
	if s.err == nil && s.token == nil {
		return nil, fail.New(fail.NotFound, "it is gone")
	}
	return s.token, s.err
}

func (s *tokensOf) NoteUse(context.Context, *domain.Noun, domain.Key, []byte, time.Time) error {
	return s.err
}

// noReader notes that it was read.
type noReader struct{ read bool }

func (n *noReader) Read([]byte) (int, error) {
	n.read = true
	return 0, context.Canceled
}

// TestNobodyKeepsAnswers: what one is answered is kept by no browser and no proxy, whatever it is, and taken for nothing else than it says.
func TestNobodyKeepsAnswers(t *testing.T) {
	root, err := secret.NewRoot()
	require.NoError(t, err)
	histories := codec.New(func() (secret.Root, error) { return root, nil })
	sealed, err := histories.Data().ToPayloads("xyzzy")
	require.NoError(t, err)
	payloads, err := protojson.Marshal(sealed)
	require.NoError(t, err)
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) { d.Histories = histories.Handler() })
	furnish(t, w)
	requireUnkept := func(url string, h http.Header) {
		t.Helper()
		require.Equal(t, "no-store", h.Get("Cache-Control"), url)
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), url)
	}
	for _, c := range []call{
		{method: "GET", url: "/v2/projects", status: 200},
		{method: "GET", url: theCluster, status: 200, header: map[string]string{"Accept": "application/octet-stream"}},
		{method: "GET", url: theComposite + "/apps/sink", status: 200, header: map[string]string{"Accept": "application/octet-stream"}},
		{method: "POST", url: theAccount + "/tokens", body: `{"metadata":{"name":"second"}}`, status: 201},
		{method: "GET", url: theGroup + "/status", status: 200}, {method: "GET", url: "/v2/audit", status: 200}, {method: "GET", url: "/v2/projects/none", status: 404},
		{method: "GET", url: "/v2/audit", status: 200, header: map[string]string{"Accept": "application/x-ndjson"}},
		{method: "POST", url: "/codec/decode", body: string(payloads), status: 200},
		{method: "GET", url: "/metrics", status: 200},
	} {
		answer := do(t, w.router, c)
		require.Equal(t, c.status, answer.Code, "%s: %s", c.url, answer.Body)
		requireUnkept(c.url, answer.Header())
	}
	url, _ := served(t, w)
	stream := watch(t, url, "watch=true", "")
	defer stream.Body.Close()
	require.Equal(t, "text/event-stream", stream.Header.Get("Content-Type"))
	requireUnkept("a stream of events", stream.Header)
}
