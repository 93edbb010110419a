package authn_test

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/token"
)

// kept is what a test stores of tokens.
type kept struct {
	tokens map[domain.Key]*domain.ServiceAccountToken
	down   bool
	used   int
}

func (k *kept) Get(_ context.Context, noun *domain.Noun, key domain.Key) (domain.Object, error) {
	if k.down {
		return nil, fail.New(fail.Timeout, "the store does not answer")
	}
	t := k.tokens[key]
	if t == nil || noun != domain.ServiceAccountTokens {
		return nil, fail.New(fail.NotFound, "%s is not there", key)
	}
	return t, nil
}

func (k *kept) NoteUse(_ context.Context, _ *domain.Noun, key domain.Key, _ []byte, at time.Time) error {
	k.tokens[key].LastUsed = at
	k.used++
	return nil
}

// issue stores a token and gives its text.
func (k *kept) issue(account, name string, expires time.Time) string {
	t := &domain.ServiceAccountToken{Identity: domain.Identity{Parent: domain.Join("service-accounts", account)}, Metadata: domain.Metadata{Name: name}}
	text, hash := token.New(string(domain.KeyOf(t)))
	t.Credential = domain.Credential{Hash: hash, Expires: expires}
	k.tokens[domain.KeyOf(t)] = t
	return text
}

// proved asks a prover as an edge does.
func proved(t *testing.T, p authn.Prover, s *authn.Shown) (caller.Identity, caller.Look, error) {
	t.Helper()
	ctx := p.Into(t.Context(), s)
	who, err := caller.IdentityOf(ctx)
	return who, caller.LookOf(ctx), err
}

func bearer(text string) *authn.Shown { return &authn.Shown{Authorization: []string{"Bearer " + text}} }

// TestTokensOfServiceAccounts: a token that is known says which account calls, as long as it is there and not expired; everything
// else that is sent as one is refused, and no refusal says why but that of a token whose time is over.
func TestTokensOfServiceAccounts(t *testing.T) {
	now := time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)
	store := &kept{tokens: map[domain.Key]*domain.ServiceAccountToken{}}
	p := authn.Chain(authn.Tokens{Store: store, Now: func() time.Time { return now }}.Prove, authn.Unread)
	until := now.Add(time.Hour)
	good, old := store.issue("ci", "first", until), store.issue("ci", "old", now)
	who, look, err := proved(t, p, bearer(good))
	require.NoError(t, err)
	require.Equal(t, caller.Identity{
		Kind: caller.ServiceAccount, Name: "service-accounts/ci", By: "token service-accounts/ci/tokens/first", Expires: until,
	}, who)
	require.Equal(t, 1, store.used)
	require.NoError(t, look(t.Context()))
	require.Equal(t, 1, store.used, "a use is noted every five minutes")

	tenants, _ := token.New("tenants/t/tokens/agent")
	account, _ := token.New("service-accounts/ci")
	forged, _ := token.New("service-accounts/ci/tokens/first")
	for name, c := range map[string]struct {
		shown *authn.Shown
		says  string
	}{
		"another secret":         {bearer(forged), "not known"},
		"no such token":          {bearer(forged[:len(forged)-2]), "not known"},
		"a tenant's":             {bearer(tenants), "not known"},
		"of no token's document": {bearer(account), "not known"},
		"of somebody else":       {bearer("eyJhbGciOiJub25lIn0.e30."), "not known"},
		"expired":                {bearer(old), "has expired"},
		"no scheme":              {&authn.Shown{Authorization: []string{good}}, "must be Bearer"},
		"another scheme":         {&authn.Shown{Authorization: []string{"Basic " + good}}, "must be Bearer"},
		"nothing after it":       {&authn.Shown{Authorization: []string{"Bearer "}}, "must be Bearer"},
		"empty":                  {&authn.Shown{Authorization: []string{""}}, "must be Bearer"},
		"twice":                  {&authn.Shown{Authorization: []string{"Bearer " + good, "Bearer " + good}}, "may be there once"},
	} {
		who, _, err := proved(t, p, c.shown)
		require.True(t, fail.Is(err, fail.Unauthorized), "%s: %v", name, err)
		require.ErrorContains(t, err, c.says, name)
		require.Equal(t, caller.Identity{}, who, name)
		require.NotContains(t, err.Error(), good[len(good)-20:], name)
	}
	store.down = true
	_, _, err = proved(t, p, bearer(good))
	require.True(t, fail.Is(err, fail.Unavailable), "nobody is told that a token is bad because the store does not answer: %v", err)
	require.False(t, fail.Is(look(t.Context()), fail.Unauthorized))
	store.down = false

	again := store.issue("ci", "first", until)
	require.True(t, fail.Is(look(t.Context()), fail.Unauthorized), "another one has its name")
	_, look, err = proved(t, p, bearer(again))
	require.NoError(t, err)
	delete(store.tokens, "service-accounts/ci/tokens/first")
	require.True(t, fail.Is(look(t.Context()), fail.Unauthorized))
	_, _, err = proved(t, p, bearer(again))
	require.True(t, fail.Is(err, fail.Unauthorized))

	who, _, err = proved(t, p, &authn.Shown{User: []string{"admin"}})
	require.NoError(t, err)
	require.Equal(t, caller.Anonymous, who.Kind, "a header proves nothing")
}

// TestScrapesGoOnWithoutTheStore: who has asked for metrics with a good token is known for an hour in which the store does not answer; it is
// for nothing else, and not once the store has said that the token is gone.
func TestScrapesGoOnWithoutTheStore(t *testing.T) {
	now, clock := time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC), lease.Instant{Boot: time.Hour}
	passes := func(d time.Duration) { now, clock.Boot = now.Add(d), clock.Boot+d }
	store := &kept{tokens: map[domain.Key]*domain.ServiceAccountToken{}}
	p := authn.Prover(authn.Tokens{
		Store: store, Now: func() time.Time { return now }, Turns: authn.NewTurns(), Scrapes: authn.NewScrapes(func() lease.Instant { return clock }),
	}.Prove)
	scrape := func(text string) (caller.Identity, error) {
		shown := bearer(text)
		shown.Metrics = true
		who, _, err := proved(t, p, shown)
		return who, err
	}
	good, short := store.issue("prometheus", "good", now.Add(24*time.Hour)), store.issue("prometheus", "short", now.Add(policy.ScrapeGood/2))
	forged, _ := token.New("service-accounts/prometheus/tokens/good")
	for _, text := range []string{good, short} {
		_, err := scrape(text)
		require.NoError(t, err)
	}
	store.down = true
	passes(policy.ScrapeGood / 2)
	who, err := scrape(good)
	require.NoError(t, err)
	require.Equal(t, "service-accounts/prometheus", who.Name)
	_, err = scrape(short)
	require.True(t, fail.Is(err, fail.Unavailable), "its time is over: %v", err)
	_, err = scrape(forged)
	require.True(t, fail.Is(err, fail.Unavailable), "another secret of the same name: %v", err)
	_, _, err = proved(t, p, bearer(good))
	require.True(t, fail.Is(err, fail.Unavailable), "something else is asked for: %v", err)
	passes(policy.ScrapeGood / 2)
	_, err = scrape(good)
	require.True(t, fail.Is(err, fail.Unavailable), "that the store knew it is long ago: %v", err)

	store.down = false
	_, err = scrape(good)
	require.NoError(t, err)
	delete(store.tokens, "service-accounts/prometheus/tokens/good")
	_, err = scrape(good)
	require.True(t, fail.Is(err, fail.Unauthorized), "%v", err)
	store.down = true
	_, err = scrape(good)
	require.True(t, fail.Is(err, fail.Unavailable), "it was revoked: %v", err)
}

// TestCertificates: the common name is the user, the organizations are the groups; a proxy that is named speaks for others, and for
// nobody when it names nobody.
func TestCertificates(t *testing.T) {
	now := time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)
	until := now.Add(time.Hour)
	of := func(name string, until time.Time, groups ...string) []*x509.Certificate {
		return []*x509.Certificate{
			{Subject: pkix.Name{CommonName: name, Organization: groups}, NotAfter: now.Add(24 * time.Hour)}, {NotAfter: until},
		}
	}
	p := authn.Chain(authn.Certificates(authn.Subjects{}, []string{"proxy"}, func() time.Time { return now }, nil))
	for name, c := range map[string]struct {
		shown authn.Shown
		want  caller.Identity
		says  string
	}{
		"none": {authn.Shown{}, caller.Identity{}, ""},
		"a user": {
			authn.Shown{Chain: of("alice", until, "ops", "dev")},
			caller.Identity{Kind: caller.User, Name: "alice", Groups: []string{"ops", "dev"}, By: "certificate of alice", Expires: until}, "",
		},
		"a user who names another one": {
			authn.Shown{Chain: of("alice", until), User: []string{"bob"}, Groups: []string{"admins"}},
			caller.Identity{Kind: caller.User, Name: "alice", By: "certificate of alice", Expires: until}, "",
		},
		"a proxy": {
			authn.Shown{Chain: of("proxy", until, "proxies"), User: []string{"bob"}, Groups: []string{"ops, dev,"}},
			caller.Identity{Kind: caller.User, Name: "bob", Groups: []string{"ops", "dev"}, By: "proxy proxy", Expires: until}, "",
		},
		"a proxy for nobody":     {authn.Shown{Chain: of("proxy", until), Groups: []string{"ops"}}, caller.Identity{}, ""},
		"a proxy, and two users": {authn.Shown{Chain: of("proxy", until), User: []string{"bob", "eve"}}, caller.Identity{}, "may be there once"},
		"expired, or its CA":     {authn.Shown{Chain: of("alice", now)}, caller.Identity{}, `of "alice" has expired`},
		"without a name":         {authn.Shown{Chain: of("", until, "ops")}, caller.Identity{}, "no common name"},
		"a name that is too long": {
			authn.Shown{Chain: of("proxy", until), User: []string{strings.Repeat("x", authn.MaxName+1)}}, caller.Identity{}, "1 to 256 bytes",
		},
		"a name of two lines":    {authn.Shown{Chain: of("proxy", until), User: []string{"a\nb"}}, caller.Identity{}, "printable"},
		"a group of half a rune": {authn.Shown{Chain: of("alice", until, "\xff")}, caller.Identity{}, "printable"},
	} {
		who, _, err := proved(t, p, &c.shown)
		if c.says != "" {
			require.True(t, fail.Is(err, fail.Unauthorized), "%s: %v", name, err)
			require.ErrorContains(t, err, c.says, name)
		} else {
			require.NoError(t, err, name)
		}
		require.Equal(t, c.want, who, name)
	}
}

// TestACAThatWasTakenAway: who has come by it asks for nothing more, and what he has begun ends.
func TestACAThatWasTakenAway(t *testing.T) {
	gone := false
	p := authn.Certificates(authn.Subjects{}, []string{"proxy"}, time.Now, func([]*x509.Certificate) bool { return !gone })
	for _, name := range []string{"alice", "proxy"} {
		gone = false
		shown := &authn.Shown{Chain: []*x509.Certificate{{Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}}, User: []string{"bob"}}
		proof, err := p(t.Context(), shown)
		require.NoError(t, err)
		require.NoError(t, proof.Still(t.Context()))
		gone = true
		require.True(t, fail.Is(proof.Still(t.Context()), fail.Unauthorized))
		_, err = p(t.Context(), shown)
		require.True(t, fail.Is(err, fail.Unauthorized), "%v", err)
		require.ErrorContains(t, err, "is not of a CA that is trusted any more")
	}
}

// TestSubjectsOfCertificates: a rule says which part of a certificate is the user, and which the groups. What the part does not have is nobody, whatever
// else is in the certificate.
func TestSubjectsOfCertificates(t *testing.T) {
	now := time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)
	id, err := url.Parse("spiffe://example.org/ns/ops/sa/ci")
	require.NoError(t, err)
	full := &x509.Certificate{
		Subject:  pkix.Name{CommonName: "alice", Organization: []string{"ops"}, OrganizationalUnit: []string{"edge", "core"}},
		NotAfter: now.Add(time.Hour), URIs: []*url.URL{id, {Scheme: "spiffe", Host: "other"}}, EmailAddresses: []string{"alice@example.org", "b@example.org"}, DNSNames: []string{"alice.example.org"},
	}
	bare := &x509.Certificate{Subject: pkix.Name{CommonName: "alice"}, NotAfter: now.Add(time.Hour)}
	nameless := &x509.Certificate{NotAfter: now.Add(time.Hour), URIs: full.URIs}
	proxy := &x509.Certificate{Subject: pkix.Name{CommonName: "proxy"}, NotAfter: now.Add(time.Hour)}
	for name, c := range map[string]struct {
		rule   authn.Subjects
		shown  *x509.Certificate
		user   string
		groups []string
		says   string
	}{
		"default":                {authn.Subjects{}, full, "alice", []string{"ops"}, ""},
		"by name":                {authn.Subjects{User: authn.CommonName, Groups: authn.Organizations}, full, "alice", []string{"ops"}, ""},
		"SPIFFE":                 {authn.Subjects{User: authn.FirstURI, Groups: authn.NoGroups}, full, "spiffe://example.org/ns/ops/sa/ci", nil, ""},
		"SPIFFE and no name":     {authn.Subjects{User: authn.FirstURI}, nameless, "spiffe://example.org/ns/ops/sa/ci", nil, ""},
		"email, and units":       {authn.Subjects{User: authn.FirstEmail, Groups: authn.OrganizationalUnits}, full, "alice@example.org", []string{"edge", "core"}, ""},
		"DNS, with a prefix":     {authn.Subjects{User: authn.FirstDNS, Prefix: "cert:"}, full, "cert:alice.example.org", []string{"cert:ops"}, ""},
		"no URI":                 {authn.Subjects{User: authn.FirstURI}, bare, "", nil, "no URI among"},
		"no email, and a prefix": {authn.Subjects{User: authn.FirstEmail, Prefix: "cert:"}, bare, "", nil, "no email address among"},
		"no DNS name":            {authn.Subjects{User: authn.FirstDNS}, bare, "", nil, "no DNS name among"},
		"no common name":         {authn.Subjects{}, nameless, "", nil, "no common name"},
		"a proxy is one by its common name, and names others as they are": {authn.Subjects{User: authn.FirstURI, Prefix: "cert:"}, proxy, "bob", nil, ""},
	} {
		p := authn.Chain(authn.Certificates(c.rule, []string{"proxy"}, func() time.Time { return now }, nil))
		who, _, err := proved(t, p, &authn.Shown{Chain: []*x509.Certificate{c.shown}, User: []string{"bob"}})
		if c.says != "" {
			require.True(t, fail.Is(err, fail.Unauthorized), "%s: %v", name, err)
			require.ErrorContains(t, err, c.says, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.user, who.Name, name)
		require.Equal(t, c.groups, who.Groups, name)
	}
}

// TestChain: the first who can tell decides, an error too; without a prover everybody is anonymous, and with Off nobody is asked.
func TestChain(t *testing.T) {
	is := func(name string) authn.Prover {
		return func(context.Context, *authn.Shown) (*authn.Proof, error) {
			return &authn.Proof{Identity: caller.Identity{Kind: caller.User, Name: name}}, nil
		}
	}
	silent := func(context.Context, *authn.Shown) (*authn.Proof, error) { return nil, nil }
	refuses := func(context.Context, *authn.Shown) (*authn.Proof, error) {
		return nil, fail.New(fail.Unauthorized, "no")
	}
	who, _, err := proved(t, authn.Chain(silent, is("a"), is("b"), refuses), &authn.Shown{})
	require.NoError(t, err)
	require.Equal(t, "a", who.Name)
	_, _, err = proved(t, authn.Chain(silent, refuses, is("b")), &authn.Shown{})
	require.Error(t, err)
	who, _, err = proved(t, nil, bearer("x"))
	require.NoError(t, err)
	require.Equal(t, caller.Anonymous, who.Kind)
	who, _, err = proved(t, authn.Off, bearer("x"))
	require.NoError(t, err)
	require.Equal(t, caller.Open, who.Kind)
}

// TestLasting: a client goes on by the CA that was issued anew, wherever its chain stands among those that were found.
func TestLasting(t *testing.T) {
	t.Parallel()
	now := time.Now()
	until := func(in time.Duration) *x509.Certificate { return &x509.Certificate{NotAfter: now.Add(in)} }
	leaf, old, anew := until(3*time.Hour), until(time.Hour), until(48*time.Hour)
	byOld, byAnew := []*x509.Certificate{leaf, old}, []*x509.Certificate{leaf, anew}
	for name, c := range map[string]struct {
		chains [][]*x509.Certificate
		want   []*x509.Certificate
	}{
		"none":            {nil, nil},
		"one":             {[][]*x509.Certificate{byOld}, byOld},
		"the older first": {[][]*x509.Certificate{byOld, byAnew}, byAnew},
		"the newer first": {[][]*x509.Certificate{byAnew, byOld}, byAnew},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, authn.Lasting(c.chains))
		})
	}
}
