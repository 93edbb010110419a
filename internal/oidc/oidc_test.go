package oidc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/oidc"
	"github.com/drover-io/drover/internal/policy"
)

// issuer is an OpenID provider as far as those see it who check its tokens.
type issuer struct {
	*httptest.Server
	down, hangs atomic.Bool
	page        atomic.Int64 // what a proxy answers in the place of its token endpoint, 0 for nothing
	noKeys      atomic.Bool
	requests    atomic.Int64
	asked       atomic.Int64 // for keys

	mu   sync.Mutex
	keys []jose.JSONWebKey // with their private parts; the last one signs
	logins
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	stop := make(chan struct{})
	mux := http.NewServeMux()
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.requests.Add(1)
		switch {
		case i.hangs.Load():
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		case i.down.Load():
			w.WriteHeader(http.StatusBadGateway)
		default:
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(i.Close)
	t.Cleanup(func() { close(stop) })
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(i.says())
	})
	mux.HandleFunc("/token", i.token)
	mux.HandleFunc("/revoke", i.revoke)
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.asked.Add(1)
		if i.noKeys.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		set := jose.JSONWebKeySet{}
		for _, k := range i.keys {
			set.Keys = append(set.Keys, k.Public())
		}
		_ = json.NewEncoder(w).Encode(set)
	})
	i.rotate(t, "first", false)
	return i
}

// rotate makes another key, which signs from now on.
func (i *issuer) rotate(t *testing.T, id string, alone bool) {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	i.mu.Lock()
	defer i.mu.Unlock()
	if alone {
		i.keys = nil
	}
	i.keys = append(i.keys, jose.JSONWebKey{Key: private, KeyID: id, Algorithm: "RS256", Use: "sig"})
}

func (i *issuer) key() *jose.JSONWebKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	last := i.keys[len(i.keys)-1]
	return &last
}

// sign makes a token; changes are of the claims of a good one, nil takes one away.
func (i *issuer) sign(t *testing.T, changes map[string]any) string {
	t.Helper()
	key := i.key()
	return sign(t, jose.RS256, key.Key, key.KeyID, i.claims(changes))
}

func (i *issuer) claims(changes map[string]any) map[string]any {
	claims := map[string]any{
		"iss": i.URL, "aud": "drover", "sub": "4711", "name": "alice", "groups": []string{"ops", "dev"}, "exp": now.Add(time.Hour).Unix(),
	}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

func sign(t *testing.T, by jose.SignatureAlgorithm, key any, id string, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: by, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", id))
	require.NoError(t, err)
	data, err := json.Marshal(claims)
	require.NoError(t, err)
	return signed(t, signer, data)
}

func signed(t *testing.T, by jose.Signer, claims []byte) string {
	t.Helper()
	made, err := by.Sign(claims)
	require.NoError(t, err)
	text, err := made.CompactSerialize()
	require.NoError(t, err)
	return text
}

var now = time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)

// providers are those of a file that names some issuers.
func providers(t *testing.T, yaml string) *oidc.Providers {
	t.Helper()
	file := filepath.Join(t.TempDir(), "auth.yaml")
	require.NoError(t, os.WriteFile(file, []byte(yaml), 0o600))
	c, err := oidc.Read(file, false)
	require.NoError(t, err)
	p, err := oidc.New(c, func() time.Time { return now })
	require.NoError(t, err)
	return p
}

// proved asks as an edge does.
func proved(ctx context.Context, p *oidc.Providers, text string) (caller.Identity, caller.Look, error) {
	ctx = authn.Prover(p.Prove).Into(ctx, &authn.Shown{Authorization: []string{"Bearer " + text}})
	who, err := caller.IdentityOf(ctx)
	return who, caller.LookOf(ctx), err
}

func TestTokens(t *testing.T) {
	i, other := newIssuer(t), newIssuer(t)
	p := providers(t, `issuers: [{url: "`+i.URL+`", audiences: [cli, drover], userClaim: name, prefix: "dex:", algorithms: [RS256, ES256]}]`)
	who, look, err := proved(t.Context(), p, i.sign(t, nil))
	require.NoError(t, err)
	require.Equal(t, caller.Identity{
		Kind: caller.User, Name: "dex:alice", Groups: []string{"dex:ops", "dex:dev"}, By: "oidc " + i.URL, Expires: time.Unix(now.Unix(), 0).Add(time.Hour + 30*time.Second),
	}, who)
	require.NoError(t, look(t.Context()))

	public, err := json.Marshal(i.key().Public())
	require.NoError(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	claims, err := json.Marshal(i.claims(nil))
	require.NoError(t, err)
	good := i.sign(t, nil)
	// with is a token that says more behind what a good one for others does.
	with := func(more string) string {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: i.key().Key}, nil)
		require.NoError(t, err)
		claims, err := json.Marshal(i.claims(map[string]any{"aud": "web"}))
		require.NoError(t, err)
		return signed(t, signer, append(claims[:len(claims)-1], []byte(","+more+"}")...))
	}
	for name, c := range map[string]struct{ text, says string }{
		"two audiences":            {with(`"aud":"drover"`), `its claim "aud" is there twice`},
		"two, in another case":     {with(`"AUD":"drover"`), `its claim "AUD" is called as "aud" is`},
		"not yet, ever":            {i.sign(t, map[string]any{"nbf": 1e300}), `its claim "nbf" is no time`},
		"for ever":                 {i.sign(t, map[string]any{"exp": 1e18}), `its claim "exp" is no time`},
		"another audience":         {i.sign(t, map[string]any{"aud": []string{"web"}}), "its audience is none"},
		"no audience":              {i.sign(t, map[string]any{"aud": nil}), "its audience is none"},
		"expired":                  {i.sign(t, map[string]any{"exp": now.Add(-30 * time.Second).Unix()}), "has expired"},
		"without an end":           {i.sign(t, map[string]any{"exp": nil}), "no time at which it expires"},
		"not yet":                  {i.sign(t, map[string]any{"nbf": now.Add(31 * time.Second).Unix()}), "has not begun"},
		"nobody":                   {i.sign(t, map[string]any{"name": nil}), `its claim "name" names no user`},
		"no name":                  {i.sign(t, map[string]any{"name": 7}), `its claim "name" names no user`},
		"groups that are none":     {i.sign(t, map[string]any{"groups": []any{"ops", 7}}), `its claim "groups" lists what is no name`},
		"a group that is no text":  {i.sign(t, map[string]any{"groups": map[string]any{}}), `its claim "groups" is no list`},
		"of a stranger":            {other.sign(t, nil), fmt.Sprintf("is of the issuer %q, which is not known here (--auth-config)", other.URL)},
		"by a stranger's key":      {sign(t, jose.RS256, other.key().Key, "first", i.claims(nil)), "none of its issuer's keys"},
		"by a key of another sort": {sign(t, jose.ES256, curve, "first", i.claims(nil)), "none of its issuer's keys"},
		"by a key nobody has":      {sign(t, jose.RS256, other.key().Key, "another", i.claims(nil)), "none of its issuer's keys"},
		"HS256 by the public key":  {sign(t, jose.HS256, public, "first", i.claims(nil)), "no JSON web token"},
		"none":                     {part(`{"alg":"none"}`) + "." + part(string(claims)) + ".", "no JSON web token"},
		"cut":                      {good[:len(good)-2], "none of its issuer's keys"},
		"no token":                 {"abc", "not known"},
		"dots":                     {"..", "not known"},
	} {
		_, _, err := proved(t.Context(), p, c.text)
		require.True(t, fail.Is(err, fail.Unauthorized), "%s: %v", name, err)
		require.ErrorContains(t, err, c.says, name)
	}
	for name, changes := range map[string]map[string]any{
		"within the skew": {"exp": now.Add(-29 * time.Second).Unix(), "nbf": now.Add(30 * time.Second).Unix()},
		"many audiences":  {"aud": []string{"web", "cli"}},
		"one group":       {"groups": "ops"},
		"a fraction":      {"exp": float64(now.Unix()) + 10.5},
	} {
		_, _, err := proved(t.Context(), p, i.sign(t, changes))
		require.NoError(t, err, name)
	}
	proof, err := p.Prove(t.Context(), &authn.Shown{Authorization: []string{"Bearer drover.x.y"}})
	require.NoError(t, err)
	require.Nil(t, proof, "those are ours")
}

// TestATokenForEver expires when nobody can say a later time.
func TestATokenForEver(t *testing.T) {
	i := newIssuer(t)
	p := providers(t, `issuers: [{url: "`+i.URL+`", audiences: [cli, drover], userClaim: name, prefix: "dex:", algorithms: [RS256, ES256]}]`)
	for name, exp := range map[string]int64{"the last second of 9999": 253402300799, "the one after it": 253402300800, "the last that a claim may name": 1 << 38} {
		is, _, err := proved(t.Context(), p, i.sign(t, map[string]any{"exp": exp}))
		require.NoError(t, err, name)
		said, err := json.Marshal(is.Expires.UTC())
		require.NoError(t, err, name)
		require.Equal(t, `"9999-12-31T23:59:59Z"`, string(said), name)
	}
}

// TestTokensThatAreKnown: one that was let in is let in again without a look at its signature, as long as its time, and as its issuer has
// the key; then it is refused in the same words as any other.
func TestTokensThatAreKnown(t *testing.T) {
	i := newIssuer(t)
	var ahead atomic.Int64
	file := filepath.Join(t.TempDir(), "auth.yaml")
	require.NoError(t, os.WriteFile(file, []byte(fmt.Sprintf("issuers: [{url: %q, audiences: [drover], clockSkew: 30s}]", i.URL)), 0o600))
	c, err := oidc.Read(file, false)
	require.NoError(t, err)
	p, err := oidc.New(c, func() time.Time { return now.Add(time.Duration(ahead.Load())) })
	require.NoError(t, err)
	ctx := t.Context()
	good, soon := i.sign(t, nil), i.sign(t, map[string]any{"nbf": now.Add(time.Minute).Unix()})
	for range 3 {
		is, look, err := proved(ctx, p, good)
		require.NoError(t, err)
		require.Equal(t, "4711", is.Name)
		require.Equal(t, []string{"ops", "dev"}, is.Groups)
		require.NoError(t, look(ctx))
		is.Groups[0] = "admins" // nobody has a part of what is kept
		_, _, err = proved(ctx, p, good[:len(good)-2]+"AA")
		require.True(t, fail.Is(err, fail.Unauthorized), "the same with another signature: %v", err)
		_, _, err = proved(ctx, p, soon)
		require.ErrorContains(t, err, "its time has not begun")
	}
	require.Equal(t, 1, p.Proven())
	ahead.Store(int64(time.Minute))
	_, _, err = proved(ctx, p, soon)
	require.NoError(t, err)
	ahead.Store(0) // a clock that was wrong
	_, _, err = proved(ctx, p, soon)
	require.ErrorContains(t, err, "its time has not begun")
	ahead.Store(int64(time.Hour + 31*time.Second))
	_, look, err := proved(ctx, p, good)
	require.ErrorContains(t, err, "it has expired")
	require.Nil(t, look)
	ahead.Store(0)
	_, look, err = proved(ctx, p, good)
	require.NoError(t, err)

	require.NoError(t, p.Fetch(ctx, i.URL))
	_, _, err = proved(ctx, p, good)
	require.NoError(t, err)
	require.Equal(t, 1, p.Proven(), "the same keys again are no others")
	i.rotate(t, "first", true) // another key by the name of the one before
	require.NoError(t, p.Fetch(ctx, i.URL))
	_, _, err = proved(ctx, p, good)
	require.True(t, fail.Is(err, fail.Unauthorized), "%v", err)
	require.ErrorContains(t, err, "none of its issuer's keys")
	require.Zero(t, p.Proven())
	i.rotate(t, "second", true)
	require.NoError(t, p.Fetch(ctx, i.URL))
	require.True(t, fail.Is(look(ctx), fail.Unauthorized))
}

// TestMailIsAName: of an address that was not verified anybody may say that it is theirs.
func TestMailIsAName(t *testing.T) {
	i := newIssuer(t)
	p := providers(t, `issuers: [{url: "`+i.URL+`", audiences: [drover], userClaim: email}]`)
	for verified, ok := range map[any]bool{true: true, nil: true, false: false, "true": false} {
		who, _, err := proved(t.Context(), p, i.sign(t, map[string]any{"email": "alice@example.org", "email_verified": verified}))
		if !ok {
			require.ErrorContains(t, err, "was not verified")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "alice@example.org", who.Name)
	}
}

// TestKeysRotateWhileRequestsRun: who comes with a token by a new key is let in at once, and those with tokens by an older one go on
// until the issuer takes that back.
func TestKeysRotateWhileRequestsRun(t *testing.T) {
	i := newIssuer(t)
	p := providers(t, `issuers: [{url: "`+i.URL+`", audiences: [drover]}]`)
	var current atomic.Pointer[string]
	first := i.sign(t, nil)
	current.Store(&first)
	stop, asking := make(chan struct{}), sync.WaitGroup{}
	var errs sync.Map
	for n := range 2 {
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, _, err := proved(t.Context(), p, *current.Load()); err != nil {
					errs.Store(n, err)
					return
				}
			}
		})
	}
	for _, id := range []string{"second", "third"} {
		i.rotate(t, id, false)
		text := i.sign(t, nil)
		current.Store(&text)
		_, _, err := proved(t.Context(), p, text)
		require.NoError(t, err)
	}
	close(stop)
	asking.Wait()
	errs.Range(func(_, err any) bool {
		require.NoError(t, err.(error))
		return true
	})
	_, look, err := proved(t.Context(), p, first)
	require.NoError(t, err)
	i.rotate(t, "fourth", true)
	require.NoError(t, p.Fetch(t.Context(), i.URL))
	require.True(t, fail.Is(look(t.Context()), fail.Unauthorized), "the issuer has taken the key back")
	_, _, err = proved(t.Context(), p, first)
	require.True(t, fail.Is(err, fail.Unauthorized))

	key := i.key()
	for why, text := range map[string]string{
		"another key has its id": i.sign(t, nil), "it says no id, and there are other keys": sign(t, jose.RS256, key.Key, "", i.claims(nil)),
	} {
		_, look, err := proved(t.Context(), p, text)
		require.NoError(t, err, why)
		i.rotate(t, "fourth", true)
		require.NoError(t, p.Fetch(t.Context(), i.URL))
		require.True(t, fail.Is(look(t.Context()), fail.Unauthorized), why)
		i.mu.Lock()
		i.keys = []jose.JSONWebKey{*key}
		i.mu.Unlock()
		require.NoError(t, p.Fetch(t.Context(), i.URL))
		require.NoError(t, look(t.Context()), why)
	}
}

// TestKeysOfBeforeASuspension are fetched anew, though the process's own clock has stood still meanwhile.
func TestKeysOfBeforeASuspension(t *testing.T) {
	i := newIssuer(t)
	p := providers(t, `issuers: [{url: "`+i.URL+`", audiences: [drover]}]`)
	var suspended atomic.Int64
	p.SetClock(i.URL, func() lease.Instant {
		now := lease.Now()
		now.Wall += time.Duration(suspended.Load())
		return now
	})
	_, look, err := proved(t.Context(), p, i.sign(t, nil))
	require.NoError(t, err)
	i.rotate(t, "second", true)
	require.NoError(t, look(t.Context()))
	suspended.Store(int64(policy.KeysAge))
	require.Eventually(t, func() bool { return fail.Is(look(t.Context()), fail.Unauthorized) }, 30*time.Second, 10*time.Millisecond, "the issuer has taken the key back")
}

// TestAnIssuerThatIsDown: a start needs none. Without keys all are told to come again, soon, even when the issuer takes the
// connection and says nothing; those whose key is known go on, and nobody asks for that. When it is back everybody is let in.
func TestAnIssuerThatIsDown(t *testing.T) {
	i := newIssuer(t)
	p := providers(t, `issuers: [{url: "`+i.URL+`", audiences: [drover]}]`)
	known := i.sign(t, nil)
	soon := func(text string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, _, err := proved(ctx, p, text)
		return err
	}
	i.hangs.Store(true)
	require.True(t, fail.Is(soon(known), fail.Unavailable))
	i.hangs.Store(false)
	i.down.Store(true)
	_, _, err := proved(t.Context(), p, known)
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	require.ErrorContains(t, err, i.URL)
	i.down.Store(false)
	_, _, err = proved(t.Context(), p, known)
	require.NoError(t, err)

	i.down.Store(true)
	before := i.asked.Load()
	_, look, err := proved(t.Context(), p, known)
	require.NoError(t, err)
	require.NoError(t, look(t.Context()))
	require.Equal(t, before, i.asked.Load())
	i.rotate(t, "second", false)
	unknown := i.sign(t, nil)
	_, _, err = proved(t.Context(), p, unknown)
	require.True(t, fail.Is(err, fail.Unavailable), "it may be good: %v", err)
	i.hangs.Store(true)
	require.True(t, fail.Is(soon(unknown), fail.Unavailable))
	require.NoError(t, soon(known))
	i.hangs.Store(false)
	i.down.Store(false)
	require.Eventually(t, func() bool { return soon(unknown) == nil }, time.Minute, 50*time.Millisecond)
}

// TestStrangersCostLittle: tokens by keys that nobody has ask the issuer once a second at the most.
func TestStrangersCostLittle(t *testing.T) {
	i := newIssuer(t)
	p := providers(t, `issuers: [{url: "`+i.URL+`", audiences: [drover]}]`)
	_, _, err := proved(t.Context(), p, i.sign(t, nil))
	require.NoError(t, err)
	before, begun := i.asked.Load(), time.Now()
	var asking sync.WaitGroup
	text := sign(t, jose.RS256, i.key().Key, "nobody's", i.claims(nil))
	for range 50 {
		asking.Go(func() { _, _, _ = proved(t.Context(), p, text) })
	}
	asking.Wait()
	require.LessOrEqual(t, i.asked.Load()-before, int64(time.Since(begun)/time.Second)+1)
}

func TestAllThatIsWrongWithAConfigIsSaid(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "auth.yaml")
	read := func(text string) error {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := oidc.Read(file, false)
		return err
	}
	err := read(`issuers:
- {url: "http://dex.example.org", clockSkew: 1h, algorithms: [none, HS256, RS256], ca: /nowhere}
- {url: "https://dex.example.org", audiences: [a, ""], clockSkew: soon}
- {url: "https://dex.example.org", audiences: [a], prefix: b}
- {url: "dex", audiences: [a], prefix: c}
`)
	for _, says := range []string{
		"--auth-config", file, `issuers[0].url: "http://dex.example.org" has to be https`, "issuers[0].audiences: one or more are required", `issuers[0].clockSkew: "1h" is not`,
		`issuers[0].algorithms[0]: "none" is none of`, `issuers[0].algorithms[1]: "HS256" is none of`, "issuers[0].ca: ", `issuers[1].prefix: "" of https://dex.example.org and "" of issuers[0] (http://dex.example.org)`,
		"issuers[1].audiences", "issuers[1].clockSkew", "issuers[2].url: is that of issuers[1]", `issuers[3].url: "dex" is not a URL`,
	} {
		require.ErrorContains(t, err, says)
	}
	require.NotContains(t, err.Error(), "algorithms[2]")
	require.ErrorContains(t, read("issuers: []"), "issuers: one or more are required")
	require.ErrorContains(t, read("issuer: x"), "cannot be read")
	require.ErrorContains(t, read(strings.Repeat("[", 10)), "cannot be read")
	_, err = oidc.Read(filepath.Join(folder, "none"), false)
	require.ErrorContains(t, err, "--auth-config")
}

// TestNoIssuerNamesThoseOfAnother: by a prefix that begins another one's, or by none, a user of one issuer could be called as one of
// the other, and without any as one of a certificate is.
func TestNoIssuerNamesThoseOfAnother(t *testing.T) {
	file := filepath.Join(t.TempDir(), "auth.yaml")
	read := func(certificates bool, prefixes ...string) error {
		text := "issuers:\n"
		for i, p := range prefixes {
			text += fmt.Sprintf("- {url: \"https://%c.example.org\", audiences: [drover], prefix: %q}\n", 'a'+i, p)
		}
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := oidc.Read(file, certificates)
		return err
	}
	for _, p := range [][]string{{""}, {"dex:"}, {"dex:", "okta:"}, {"dex:", "dex2:", "dey:"}} {
		require.NoError(t, read(false, p...), "%q", p)
	}
	require.NoError(t, read(true, "dex:", "okta:"))
	for _, p := range [][]string{{"", "dex:"}, {"dex:", ""}, {"", ""}, {"dex:", "dex:"}, {"dex", "dex:"}, {"dex:", "dex"}} {
		err := read(false, p...)
		require.ErrorContains(t, err, "issuers[1].prefix: ", "%q", p)
		require.ErrorContains(t, err, "https://a.example.org", "%q", p)
		require.ErrorContains(t, err, "https://b.example.org", "%q", p)
	}
	require.ErrorContains(t, read(false, "a:", "b:", "b:c"), "issuers[2].prefix")
	err := read(true, "", "dex:")
	require.ErrorContains(t, err, "issuers[0].prefix: is required of https://a.example.org with --client-ca")
	require.NotContains(t, err.Error(), "issuers[1].prefix: is required")
}
