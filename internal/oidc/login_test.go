package oidc_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/oidc"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// logins is what an issuer has of people who log in.
type logins struct {
	clock      func() time.Time
	codes      map[string]url.Values // what was asked for, by code
	refresh    map[string]bool       // tokens that are good: each once
	lasts      time.Duration         // a token; an hour when 0
	changes    map[string]any        // of claims
	forged     string                // what is given in place of an ID token
	withdrawn  bool                  // no refresh is good
	noRefresh  bool                  // none is given
	metadata   map[string]any        // of what the issuer says of itself
	refreshed  atomic.Int64
	exchanged  atomic.Int64
	codesTwice bool                             // codes are good more than once
	revoked    []string                         // what was given back
	onRefresh  func()                           // called when a token was replaced, before anybody has the other one
	givenBack  func(w http.ResponseWriter) bool // answers in place of the revocation endpoint, nil for nobody
}

const clientSecret = "the-page's-own-secret"

func (i *issuer) says() map[string]any {
	m := map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
		"revocation_endpoint": i.URL + "/revoke", "scopes_supported": []string{"openid", "email", "offline_access"}, "id_token_signing_alg_values_supported": []string{"RS256"},
	}
	maps.Copy(m, i.metadata)
	return m
}

// grant is what the provider does when somebody has logged in there: it sends the browser back with an answer.
func (i *issuer) grant(t *testing.T, address string) url.Values {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	asked := u.Query()
	require.Equal(t, i.URL+"/authorize", i.URL+u.Path)
	require.Equal(t, "code", asked.Get("response_type"))
	require.Equal(t, "S256", asked.Get("code_challenge_method"))
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.codes == nil {
		i.codes, i.refresh = map[string]url.Values{}, map[string]bool{}
	}
	code := fmt.Sprintf("code-%d", len(i.codes))
	i.codes[code] = asked
	return url.Values{"code": {code}, "state": asked["state"]}
}

// token is the token endpoint.
func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	no := func(code int, why string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": why})
	}
	if code := int(i.page.Load()); code != 0 {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "<p>not here</p>")
		return
	}
	if id, secret, _ := r.BasicAuth(); id != "page" || secret != url.QueryEscape(clientSecret) {
		no(http.StatusUnauthorized, "invalid_client")
		return
	}
	if i.onRefresh != nil && r.FormValue("grant_type") == "refresh_token" {
		defer i.onRefresh() // what is given is on its way then
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	nonce := ""
	switch r.FormValue("grant_type") {
	case "authorization_code":
		i.exchanged.Add(1)
		asked, ok := i.codes[r.FormValue("code")]
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if !ok || asked.Get("redirect_uri") != r.FormValue("redirect_uri") || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
			no(http.StatusBadRequest, "invalid_grant")
			return
		}
		if !i.codesTwice {
			i.codes[r.FormValue("code")] = nil
		}
		nonce = asked.Get("nonce")
	case "refresh_token":
		i.refreshed.Add(1)
		if i.withdrawn || !i.refresh[r.FormValue("refresh_token")] {
			no(http.StatusBadRequest, "invalid_grant")
			return
		}
		delete(i.refresh, r.FormValue("refresh_token"))
	}
	lasts := i.lasts
	if lasts == 0 {
		lasts = time.Hour
	}
	at := i.clock()
	claims := map[string]any{"aud": "page", "iat": at.Unix(), "exp": at.Add(lasts).Unix(), "jti": fmt.Sprint(i.refreshed.Load())}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	maps.Copy(claims, i.changes)
	last := i.keys[len(i.keys)-1]
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: last.Key}, (&jose.SignerOptions{}).WithHeader("kid", last.KeyID))
	if err != nil {
		no(http.StatusInternalServerError, err.Error())
		return
	}
	data, _ := json.Marshal(i.claims(claims))
	signed, _ := signer.Sign(data)
	text, _ := signed.CompactSerialize()
	if i.forged != "" {
		text = i.forged
	}
	answer := map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": text}
	if !i.noRefresh {
		next := fmt.Sprintf("refresh-%d", i.refreshed.Load())
		i.refresh[next] = true
		answer["refresh_token"] = next
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// revoke is the revocation endpoint.
func (i *issuer) revoke(w http.ResponseWriter, r *http.Request) {
	if id, secret, _ := r.BasicAuth(); id != "page" || secret != url.QueryEscape(clientSecret) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.givenBack != nil && i.givenBack(w) {
		return
	}
	token := r.FormValue("token")
	i.revoked = append(i.revoked, token)
	delete(i.refresh, token)
}

// good are the refresh tokens that are good, and those that were given back, in their order.
func (i *issuer) good() (good, revoked []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Sorted(maps.Keys(i.refresh)), slices.Clone(i.revoked)
}

// change changes an issuer while nobody asks it.
func (i *issuer) change(how func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	how()
}

// replicas are processes with one store.
type replicas struct {
	*issuer
	config string
	opened store.Config
	store  *store.Store
	ahead  atomic.Int64 // how far the clock was set
	one    *oidc.Sessions
	two    *oidc.Sessions
}

func (r *replicas) now() time.Time        { return now.Add(time.Duration(r.ahead.Load())) }
func (r *replicas) later(d time.Duration) { r.ahead.Add(int64(d)) }

func newReplicas(t *testing.T) *replicas {
	t.Helper()
	r := &replicas{issuer: newIssuer(t), opened: storetest.Config(t)}
	r.store = storetest.Open(t, r.opened)
	r.clock = r.now
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte(clientSecret+"\n"), 0o600))
	r.config = fmt.Sprintf(`issuers: [{url: %q, audiences: [page, drover-cli], prefix: "idp:", browser: {clientID: page, clientSecretFile: %q, redirectURL: "https://drover.example.org/login/callback"}, command: {clientID: drover-cli}}]`, r.URL, secret)
	r.one, r.two = r.start(t), r.start(t)
	return r
}

// start is another process.
func (r *replicas) start(t *testing.T) *oidc.Sessions {
	t.Helper()
	file := filepath.Join(t.TempDir(), "auth.yaml")
	require.NoError(t, os.WriteFile(file, []byte(r.config), 0o600))
	c, err := oidc.Read(file, false)
	require.NoError(t, err)
	p, err := oidc.New(c, r.now)
	require.NoError(t, err)
	root, err := r.store.Root(t.Context())
	require.NoError(t, err)
	sealer, err := root.Sealer("logins")
	require.NoError(t, err)
	return oidc.NewSessions(p, r.store, sealer, r.now)
}

// login logs somebody in, begun at one process and completed at the other.
func (r *replicas) login(t *testing.T) *authn.Login {
	t.Helper()
	address, sealed, err := r.one.Begin(t.Context(), r.URL, "/groups")
	require.NoError(t, err)
	l, err := r.two.Answer(t.Context(), sealed, r.grant(t, address))
	require.NoError(t, err)
	require.NoError(t, r.two.Keep(t.Context(), l))
	return l
}

func who(ctx context.Context, s *oidc.Sessions, secret string) (caller.Identity, error) {
	ctx = authn.Prover(s.Prove).Into(ctx, &authn.Shown{Session: secret})
	return caller.IdentityOf(ctx)
}

// TestSessions: who has logged in is known in each process by the secret alone, and in none when the session has ended; so do requests that
// go on.
func TestSessions(t *testing.T) {
	r := newReplicas(t)
	l := r.login(t)
	require.Equal(t, "/groups", l.To)
	for _, s := range []*oidc.Sessions{r.one, r.two, r.start(t)} {
		is, err := who(t.Context(), s, l.Secret)
		require.NoError(t, err)
		require.Equal(t, "idp:4711", is.Name)
		require.Equal(t, []string{"idp:ops", "idp:dev"}, is.Groups)
		require.Regexp(t, `^oidc http://127.0.0.1:\d+ sessions/[0-9a-f]{16}$`, is.By)
		require.NotContains(t, is.By, l.Secret)
		_, err = who(t.Context(), s, l.Secret+"x")
		require.True(t, fail.Is(err, fail.Unauthorized))
		_, err = who(t.Context(), s, l.ID)
		require.True(t, fail.Is(err, fail.Unauthorized), "what is stored is no secret")
	}
	proof, err := r.one.Prove(t.Context(), &authn.Shown{Session: l.Secret})
	require.NoError(t, err)
	require.NoError(t, proof.Still(t.Context()))
	other := r.login(t)
	require.NotEqual(t, l.Secret, other.Secret)
	left, err := r.two.End(t.Context(), l.Secret)
	require.NoError(t, err)
	require.Empty(t, left)
	require.True(t, fail.Is(proof.Still(t.Context()), fail.Unauthorized), "requests that go on learn it")
	_, err = who(t.Context(), r.one, l.Secret)
	require.True(t, fail.Is(err, fail.Unauthorized))
	_, err = who(t.Context(), r.one, other.Secret)
	require.NoError(t, err, "the other one goes on")
	nobody, err := r.one.Prove(t.Context(), &authn.Shown{})
	require.NoError(t, err)
	require.Nil(t, nobody)
}

// TestAnswersThatAreNone: nobody gets in by an answer to another login, of another browser, a second time, or with a token that is not for
// this one.
func TestAnswersThatAreNone(t *testing.T) {
	r := newReplicas(t)
	ctx := t.Context()
	begin := func() (address, sealed string) {
		address, sealed, err := r.one.Begin(ctx, r.URL, "")
		require.NoError(t, err)
		return address, sealed
	}
	refused := func(why, sealed string, said url.Values, says string) {
		t.Helper()
		_, err := r.one.Answer(ctx, sealed, said)
		require.True(t, fail.Is(err, fail.Unauthorized), "%s: %v", why, err)
		require.ErrorContains(t, err, says, why)
		require.NotContains(t, err.Error(), clientSecret)
	}
	address, sealed := begin()
	_, others := begin()
	good := r.grant(t, address)
	refused("nothing was begun", "", good, "not begun in this browser")
	refused("what is no cookie of ours", "AAAA", good, "not begun here")
	refused("a cookie that was changed", sealed[:len(sealed)-4]+"AAAA", good, "not begun here")
	refused("a state that was stolen, in another browser", others, good, "another one was begun")
	refused("no state", sealed, url.Values{"code": good["code"]}, "another one was begun")
	_, err := r.one.Answer(ctx, others, good)
	require.ErrorIs(t, err, authn.ErrOther, "the login that was begun last goes on")
	refused("another issuer", sealed, url.Values{"code": good["code"], "state": good["state"], "iss": {"https://evil.example"}}, "another issuer")
	refused("no code", sealed, url.Values{"state": good["state"]}, "has no code")
	refused("a code of nobody", sealed, url.Values{"state": good["state"], "code": {"guess"}}, "does not know the code")
	refused("the provider refuses", sealed, url.Values{"state": good["state"], "error": {"access_denied"}, "error_description": {"no\n<b>"}}, "access_denied no <b>")
	thirds, third := begin()
	refused("a code of another login: its challenge is another one", third, url.Values{"state": r.grant(t, thirds)["state"], "code": good["code"]}, "does not know the code")
	r.change(func() { r.metadata = map[string]any{"authorization_response_iss_parameter_supported": true} })
	r.one = r.start(t)
	address, sealed = begin()
	refused("an answer of nobody, of an issuer that always says who it is", sealed, r.grant(t, address), "did not in this one")
	named := r.grant(t, address)
	named.Set("iss", r.URL)
	_, err = r.one.Answer(ctx, sealed, named)
	require.NoError(t, err)
	r.change(func() { r.metadata, r.refresh = nil, map[string]bool{} })
	r.one = r.start(t)
	address, sealed = begin()
	good = r.grant(t, address)
	r.later(11 * time.Minute)
	refused("too late", sealed, good, "too long ago")
	r.ahead.Store(0)
	require.Zero(t, len(r.refresh), "nobody got in so far")

	address, sealed = begin()
	good = r.grant(t, address)
	l, err := r.one.Answer(ctx, sealed, good)
	require.NoError(t, err)
	require.NoError(t, r.one.Keep(ctx, l))
	refused("the same answer again", sealed, good, "used before")
	r.change(func() { r.codesTwice = true })
	address, sealed = begin()
	good = r.grant(t, address)
	var in atomic.Int64
	var answering sync.WaitGroup
	for _, s := range []*oidc.Sessions{r.one, r.two, r.one, r.two} { // of a provider that lets codes be used again
		answering.Go(func() {
			if l, err := s.Answer(ctx, sealed, good); err == nil && s.Keep(ctx, l) == nil {
				in.Add(1)
			}
		})
	}
	answering.Wait()
	require.EqualValues(t, 1, in.Load(), "one answer is one session")

	for why, c := range map[string]struct {
		changes map[string]any
		forged  func(nonce any) string
		says    string
	}{
		"the token of another login": {map[string]any{"nonce": "other"}, nil, "of another login"},
		"a token without a nonce":    {map[string]any{"nonce": nil}, nil, "of another login"},
		"for others":                 {map[string]any{"aud": "others"}, nil, "it is for others"},
		"for another client":         {map[string]any{"aud": "drover-cli"}, nil, "for another client"},
		"of another issuer":          {map[string]any{"iss": "https://evil.example"}, nil, "not accepted"},
		"expired":                    {map[string]any{"exp": now.Add(-time.Hour).Unix()}, nil, "it has expired"},
		"no token":                   {nil, func(any) string { return "x" }, "not accepted"},
		"a token that nobody has signed": {nil, func(nonce any) string {
			return unsigned(t, r.claims(map[string]any{"aud": "page", "nonce": nonce}))
		}, "not accepted"},
		"signed by the client's secret": {nil, func(nonce any) string {
			return sign(t, jose.HS256, []byte(clientSecret+strings.Repeat(" ", 32)), r.key().KeyID, r.claims(map[string]any{"aud": "page", "nonce": nonce}))
		}, "not accepted"},
	} {
		address, sealed := begin()
		u, err := url.Parse(address)
		require.NoError(t, err)
		r.change(func() {
			r.changes, r.forged = c.changes, ""
			if c.forged != nil {
				r.mu.Unlock()
				r.forged = c.forged(u.Query().Get("nonce"))
				r.mu.Lock()
			}
		})
		refused(why, sealed, r.grant(t, address), c.says)
	}
	_, _, err = r.one.Begin(ctx, "https://evil.example", "")
	require.True(t, fail.Is(err, fail.NotFound))
}

func unsigned(t *testing.T, claims map[string]any) string {
	t.Helper()
	data, err := json.Marshal(claims)
	require.NoError(t, err)
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(data) + "."
}

// TestSessionsAreRenewed: before a token expires there is another one, for which one process asks, however many requests there are; when
// it has expired, they wait for it. What the provider withdraws ends the session.
func TestSessionsAreRenewed(t *testing.T) {
	r := newReplicas(t)
	ctx := t.Context()
	l := r.login(t)
	all := func() {
		t.Helper()
		var asking sync.WaitGroup
		errs := make([]error, 20)
		for n := range errs {
			asking.Go(func() { _, errs[n] = who(ctx, []*oidc.Sessions{r.one, r.two}[n%2], l.Secret) })
		}
		asking.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
	}
	all()
	require.Zero(t, r.refreshed.Load())
	r.later(50 * time.Minute)
	all()
	require.Eventually(t, func() bool {
		is, err := who(ctx, r.one, l.Secret)
		return err == nil && is.Expires.After(r.now().Add(55*time.Minute))
	}, time.Minute, 10*time.Millisecond, "it is renewed behind those who ask")
	require.EqualValues(t, 1, r.refreshed.Load())

	r.later(61 * time.Minute) // over
	all()
	require.EqualValues(t, 2, r.refreshed.Load(), "a token is good for one renewal: two would end the session")

	r.change(func() { r.withdrawn = true })
	r.later(61 * time.Minute)
	_, err := who(ctx, r.one, l.Secret)
	require.True(t, fail.Is(err, fail.Unauthorized), "%v", err)
	r.change(func() { r.withdrawn = false })
	_, err = who(ctx, r.two, l.Secret)
	require.True(t, fail.Is(err, fail.Unauthorized), "it stays so")

	r.change(func() { r.noRefresh = true })
	l = r.login(t)
	_, err = who(ctx, r.one, l.Secret)
	require.NoError(t, err)
	r.later(61 * time.Minute)
	_, err = who(ctx, r.one, l.Secret)
	require.True(t, fail.Is(err, fail.Unauthorized), "there is no other token")

	r.change(func() { r.noRefresh = false })
	l = r.login(t)
	r.later(2*time.Hour + time.Minute)
	before := r.refreshed.Load()
	_, err = who(ctx, r.one, l.Secret)
	require.True(t, fail.Is(err, fail.Unauthorized), "nobody was there for long")
	require.Equal(t, before, r.refreshed.Load())

	l = r.login(t)
	r.change(func() { r.changes = map[string]any{"sub": "somebody else"} })
	r.later(61 * time.Minute)
	_, err = who(ctx, r.one, l.Secret)
	require.True(t, fail.Is(err, fail.Unauthorized), "a session does not become another one's")
}

// held is a store in which somebody is held up when it has noted that a session is being renewed.
type held struct {
	*store.Store
	meanwhile func()
}

func (h *held) ReplaceSession(ctx context.Context, x *domain.Session) (bool, error) {
	done, err := h.Store.ReplaceSession(ctx, x)
	if do := h.meanwhile; do != nil {
		h.meanwhile = nil
		do()
	}
	return done, err
}

// TestARefusalEndsNoSessionThatWasRenewed: who asks was held up, another process has renewed the session, and the token that is asked with was used by that.
func TestARefusalEndsNoSessionThatWasRenewed(t *testing.T) {
	r := newReplicas(t)
	ctx := t.Context()
	l := r.login(t)
	slow := &held{Store: r.store}
	r.one.Store = slow
	r.later(61 * time.Minute)
	slow.meanwhile = func() {
		r.later(policy.Renew + policy.ClocksApart)
		_, err := who(ctx, r.two, l.Secret)
		require.NoError(t, err)
		r.change(func() { r.withdrawn = true }) // what was used is good no more
	}
	_, err := who(ctx, r.one, l.Secret)
	require.NoError(t, err)
	require.Nil(t, slow.meanwhile)
	_, err = who(ctx, r.two, l.Secret)
	require.NoError(t, err)
}

// TestARenewalIsLeftToWhoHasBegunIt by a process whose clock is as far ahead as is expected: what the provider gives is good once.
func TestARenewalIsLeftToWhoHasBegunIt(t *testing.T) {
	r := newReplicas(t)
	ctx := t.Context()
	l := r.login(t)
	slow := &held{Store: r.store}
	r.one.Store = slow
	r.two.Now = func() time.Time { return r.now().Add(policy.ClocksApart) }
	r.later(61 * time.Minute)
	slow.meanwhile = func() {
		r.later(3 * time.Second)
		hurried, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := who(hurried, r.two, l.Secret)
		require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
		require.Zero(t, r.refreshed.Load())
	}
	for _, s := range []*oidc.Sessions{r.one, r.two} {
		_, err := who(ctx, s, l.Secret)
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, r.refreshed.Load())
}

// TestAClaimOfAClockThatWasAhead keeps nobody from renewing, nor from giving back.
func TestAClaimOfAClockThatWasAhead(t *testing.T) {
	r := newReplicas(t)
	ctx := t.Context()
	l := r.login(t)
	claim := func() {
		t.Helper()
		x, err := r.store.Session(ctx, l.ID)
		require.NoError(t, err)
		x.Renewing = r.now().Add(time.Hour)
		mine, err := r.store.ReplaceSession(ctx, x)
		require.NoError(t, err)
		require.True(t, mine)
	}
	r.later(61 * time.Minute)
	claim()
	_, err := who(ctx, r.one, l.Secret)
	require.NoError(t, err)
	r.later(policy.SessionLife)
	claim()
	require.NoError(t, r.two.Sweep(ctx))
	_, revoked := r.good()
	require.Len(t, revoked, 1)
}

// TestARefreshTokenIsKeptAtOnce: a provider gives another one with a token by a new key, and then does not say its keys. The other
// refresh token is not good any more, so the next try, of whichever process, is with the new one.
func TestARefreshTokenIsKeptAtOnce(t *testing.T) {
	r := newReplicas(t)
	ctx := t.Context()
	l := r.login(t)
	_, err := who(ctx, r.one, l.Secret)
	require.NoError(t, err)
	r.rotate(t, "second", false)
	r.noKeys.Store(true)
	r.later(61 * time.Minute)
	_, err = who(ctx, r.one, l.Secret)
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	require.EqualValues(t, 1, r.refreshed.Load())
	kept, err := r.store.Session(ctx, l.ID)
	require.NoError(t, err)
	require.Equal(t, "refresh-1", kept.Refresh)
	require.Zero(t, kept.Renewing, "nobody has to wait for another try")
	r.noKeys.Store(false)
	_, err = who(ctx, r.two, l.Secret)
	require.NoError(t, err)
	require.EqualValues(t, 2, r.refreshed.Load())
}

// TestSessionsEndAtLast: whatever the provider says.
func TestSessionsEndAtLast(t *testing.T) {
	r := newReplicas(t)
	l := r.login(t)
	for range 14 {
		r.later(50 * time.Minute)
		_, _ = who(t.Context(), r.one, l.Secret)
	}
	is, err := who(t.Context(), r.one, l.Secret)
	require.NoError(t, err)
	require.False(t, is.Expires.After(l.Expires))
	r.later(50 * time.Minute)
	_, err = who(t.Context(), r.one, l.Secret)
	require.True(t, fail.Is(err, fail.Unauthorized))
}

// TestAnIssuerOfSessionsThatIsDown: who is known goes on until the token expires, and is then told to come again; nobody is sent away, and
// new logins are told the same.
func TestAnIssuerOfSessionsThatIsDown(t *testing.T) {
	r := newReplicas(t)
	ctx := t.Context()
	l := r.login(t)
	_, err := who(ctx, r.one, l.Secret)
	require.NoError(t, err)
	r.down.Store(true)
	r.later(50 * time.Minute)
	_, err = who(ctx, r.one, l.Secret)
	require.NoError(t, err)
	r.later(11 * time.Minute)
	_, err = who(ctx, r.one, l.Secret)
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	fresh := r.start(t)
	_, _, err = fresh.Begin(ctx, r.URL, "")
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	r.down.Store(false)
	r.hangs.Store(true)
	soon, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	_, err = who(soon, r.one, l.Secret)
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	r.hangs.Store(false)
	require.Eventually(t, func() bool {
		_, err = who(ctx, r.one, l.Secret)
		require.False(t, fail.Is(err, fail.Unauthorized), "%v", err)
		return err == nil
	}, time.Minute, 50*time.Millisecond)
}

// TestAPageOfAProxyEndsNoSession: what stands before an issuer answers in its place while that is started anew, or since too many have asked. A refusal
// says why (RFC 6749, 5.2).
func TestAPageOfAProxyEndsNoSession(t *testing.T) {
	r := newReplicas(t)
	ctx := t.Context()
	for _, code := range []int{http.StatusFound, http.StatusForbidden, http.StatusNotFound, http.StatusRequestTimeout} {
		l := r.login(t)
		r.page.Store(int64(code))
		r.later(61 * time.Minute)
		_, err := who(ctx, r.one, l.Secret)
		require.True(t, fail.Is(err, fail.Unavailable), "%d: %v", code, err)
		address, sealed, err := r.one.Begin(ctx, r.URL, "")
		require.NoError(t, err)
		_, err = r.one.Answer(ctx, sealed, r.grant(t, address))
		require.True(t, fail.Is(err, fail.Unavailable), "%d: %v", code, err)
		r.page.Store(0)
		_, err = who(ctx, r.two, l.Secret)
		require.NoError(t, err, "%d", code)
	}
}

// TestAnIssuerThatSaysAnythingLater: an issuer that was away at the start, or has changed what it says since, is asked nothing where
// others could read the secret, a code or a refresh token.
func TestAnIssuerThatSaysAnythingLater(t *testing.T) {
	r := newReplicas(t)
	ctx := t.Context()
	l := r.login(t)
	r.later(61 * time.Minute)
	address, sealed, err := r.one.Begin(ctx, r.URL, "")
	require.NoError(t, err)
	said := r.grant(t, address)
	for says, m := range map[string]map[string]any{
		`says the token_endpoint "http://evil.example/token", which has to be https`:         {"token_endpoint": "http://evil.example/token"},
		`says the authorization_endpoint "http://evil.example/authorize", which has to be h`: {"authorization_endpoint": "http://evil.example/authorize"},
		"signs by [ES256], none of which":                                                    {"id_token_signing_alg_values_supported": []string{"ES256"}},
	} {
		r.metadata = m
		fresh := r.start(t)
		_, _, err := fresh.Begin(ctx, r.URL, "")
		require.True(t, fail.Is(err, fail.Internal), "%v", err)
		require.ErrorContains(t, err, says)
		_, err = fresh.Answer(ctx, sealed, said)
		require.True(t, fail.Is(err, fail.Internal), "%v", err)
		_, err = who(ctx, fresh, l.Secret)
		require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	}
	require.EqualValues(t, 1, r.exchanged.Load())
	require.Zero(t, r.refreshed.Load())
	r.metadata = nil
	_, err = who(ctx, r.start(t), l.Secret)
	require.NoError(t, err, "the session goes on when the issuer says what it should")
}

// TestLoginsOfStrangersAreBounded: however many begin while an issuer is away, it is asked once a second, and of those that wait for one
// that hangs there are so many of an address.
func TestLoginsOfStrangersAreBounded(t *testing.T) {
	r := newReplicas(t)
	r.down.Store(true)
	const many = 600
	for range many {
		_, _, err := r.one.Begin(t.Context(), r.URL, "")
		require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
		require.Positive(t, fail.RetryAfterOf(err))
	}
	require.Less(t, r.requests.Load(), int64(many/10))
	r.down.Store(false)
	r.hangs.Store(true)
	ctx, cancel := context.WithCancel(caller.WithRequest(t.Context(), &caller.Request{Remote: "192.0.2.1:4711"}))
	var beginning sync.WaitGroup
	defer beginning.Wait()
	defer cancel()
	fresh, sent := r.start(t), make(chan error, many)
	for range many {
		beginning.Go(func() {
			_, _, err := fresh.Begin(ctx, r.URL, "")
			sent <- err
		})
	}
	err := <-sent
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	require.ErrorContains(t, err, "too many calls")
}

// TestLoginsAreChecked: what cannot be is said at the start, by name, and what providers say of themselves is looked at.
func TestLoginsAreChecked(t *testing.T) {
	i := newIssuer(t)
	file := filepath.Join(t.TempDir(), "auth.yaml")
	read := func(text string) (*oidc.Config, error) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return oidc.Read(file, false)
	}
	_, err := read(`issuers:
- {url: "https://a.example", prefix: "a:", audiences: [a], browser: {clientID: b, redirectURL: "http://drover.example/login/callback", clientSecretFile: /nowhere, scopes: [email]}, command: {redirectURL: "http://drover.example/callback"}}
- {url: "https://b.example", prefix: "b:", audiences: [a], browser: {clientID: a, redirectURL: "https://drover.example/elsewhere"}}
- {url: "https://c.example", prefix: "c:", audiences: [a], browser: {clientID: a, redirectURL: "https://c.example/login/callback"}}
`)
	for _, says := range []string{
		`issuers[0].browser.clientID: "b" is not in audiences`, `issuers[0].browser.redirectURL: "http://drover.example/login/callback" has to be https`,
		"issuers[0].browser.clientSecretFile: ", "issuers[0].browser.scopes: openid is missing", "issuers[0].command.clientID: is required",
		`issuers[0].command.redirectURL: "http://drover.example/callback" is not on the user's own machine`,
		`issuers[1].browser.redirectURL: "https://drover.example/elsewhere" does not end with /login/callback`, "issuers[2].browser.redirectURL: ",
	} {
		require.ErrorContains(t, err, says)
	}
	check := func(url string) (away []string, err error) {
		c, err := read(fmt.Sprintf(`issuers: [{url: %q, audiences: [page], browser: {clientID: page, redirectURL: "https://drover.example/login/callback"}}]`, url))
		require.NoError(t, err)
		p, err := oidc.New(c, time.Now)
		require.NoError(t, err)
		err = p.Check(t.Context(), func(issuer string, _ error) { away = append(away, issuer) })
		return away, err
	}
	away, err := check(i.URL)
	require.NoError(t, err)
	require.Empty(t, away)
	_, err = check(i.URL + "/other")
	require.ErrorContains(t, err, "is none")
	for says, m := range map[string]map[string]any{
		"--auth-config: issuers[0]: the issuer http": {"issuer": "https://other.example"},
		"signs by [ES256]":                           {"id_token_signing_alg_values_supported": []string{"ES256"}},
		"authorization_endpoint":                     {"authorization_endpoint": "http://evil.example/authorize"},
		"token_endpoint":                             {"token_endpoint": ""},
	} {
		i.metadata = m
		_, err = check(i.URL)
		require.ErrorContains(t, err, says)
	}
	i.metadata = nil
	// Its keys are what each token needs.
	none := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"keys":[]}`)) }))
	defer none.Close()
	for uri, says := range map[string]string{
		"http://keys.example/keys": `has no keys: its jwks_uri "http://keys.example/keys" has to be https`,
		i.URL + "/nowhere":         "has no keys: GET " + i.URL + "/nowhere: 404",
		none.URL:                   "has no keys: GET " + none.URL + ": no key that signs",
		i.URL + "/authorize":       "has no keys: ",
	} {
		i.metadata = map[string]any{"jwks_uri": uri}
		away, err = check(i.URL)
		require.ErrorContains(t, err, "--auth-config: issuers[0]: the issuer "+i.URL+" "+says)
		require.Empty(t, away)
	}
	i.metadata = nil
	i.noKeys.Store(true)
	away, err = check(i.URL)
	require.NoError(t, err, "one whose keys do not come now may say them later")
	require.Equal(t, []string{i.URL}, away)
	i.noKeys.Store(false)
	i.down.Store(true)
	away, err = check(i.URL)
	require.NoError(t, err, "one that does not answer may do so later")
	require.Equal(t, []string{i.URL}, away)
}
