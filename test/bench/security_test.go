package bench

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// auditVerify measures how many audit records a second can be verified, of an export with a checkpoint for each hundred commands.
func auditVerify(ctx context.Context, t *trial) {
	t.Helper()
	const times = 5
	commands := sizedDown(25_000, 1000)
	key, chain, now := audit.NewKey(bytes.Repeat([]byte{7}, 32)), audit.NewChain("api"), time.Now()
	var export bytes.Buffer
	add := func(r audit.Record) int64 {
		line, stored, err := chain.Add(r, now, key)
		require.NoError(t, err)
		export.Write(append(line.Text, '\n'))
		return stored.Number
	}
	add(audit.Record{Event: audit.Sealed, Checkpoint: &audit.Checkpoint{}})
	records := 1
	for i := range commands {
		r := audit.Record{
			Event: audit.Begun, Who: &audit.Who{Kind: "user", Name: "alice@example.org", By: "oidc https://dex.example.org"}, From: "192.0.2.1:4711",
			Verb: "put", Noun: "apps", Key: fmt.Sprintf("projects/p/composite-apps/ca/v1/apps/app%d", i), Request: "RAHRMBFVJ2IEG4UZLFPKDJ4GQ3",
		}
		begun := add(r)
		r.Event, r.Begun, r.Result, r.Before, r.After = audit.Answered, begun, audit.Done, strings.Repeat("a", 64), strings.Repeat("b", 64)
		add(r)
		if records += 2; i%100 == 99 || i == commands-1 {
			add(audit.Record{Event: audit.Sealed, Checkpoint: &audit.Checkpoint{}})
			records++
		}
	}
	keys, err := audit.ParseKeys([]byte(`{"keys":[` + string(mustJSON(t, key.Stated())) + `]}`))
	require.NoError(t, err)
	var rates, perCPU []float64
	t.finally(func() []figure {
		f := values("audit_verify_per_s", fmt.Sprintf("audit records that are verified in a second, of %d", records), "1/s", rates)
		return []figure{
			goal(f, "≥ 50,000", f.Median >= 50_000),
			values("audit_verify_per_cpu_s", "the same in a second of processor time", "1/s", perCPU),
		}
	})
	for range times {
		require.NoError(t, ctx.Err())
		begun, used := time.Now(), usedCPU(t)
		report, err := audit.Verify(bytes.NewReader(export.Bytes()), audit.Options{Keys: keys})
		took, cost := time.Since(begun), usedCPU(t)-used
		require.NoError(t, err)
		require.True(t, report.Good(), "%v", report.Problems)
		require.Equal(t, records, report.Records)
		rates, perCPU = append(rates, float64(records)/took.Seconds()), append(perCPU, float64(records)/cost.Seconds())
	}
}

// usedCPU is the processor time that this process has used.
func usedCPU(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}

// auth measures what it costs that the API asks who calls and what they may, and records it, over one that asks nobody: both on the same
// store, in turns. And how long a stream goes on that has lost its token, or its right.
func auth(ctx context.Context, t *trial) {
	t.Helper()
	const times = 20
	blocks, rounds, revoked := sizedDown(8, 1), sizedDown(50, 5), sizedDown(5, 1)
	s, fleet := harness.NewStack(t), harness.StartFleet(t, 4)
	var clusters []domain.ClusterName
	for _, name := range fleet.Names {
		clusters = append(clusters, s.Register(ctx, name, fleet.Kubeconfig(t, name)))
	}
	d := s.On(ctx, clusters, client.App{Name: "web", Chart: harness.Chart(t, "web", harness.ConfigMaps("web", 20)), Intent: harness.All(clusters...)})
	require.NoError(t, d.Do(ctx, "approve"))
	require.NoError(t, d.Do(ctx, "instantiate"))
	s.Await(ctx, d, "Instantiated")

	issuer := newIssuer(t)
	folder := t.TempDir()
	config, admin := filepath.Join(folder, "auth.yaml"), filepath.Join(folder, "admin-token")
	require.NoError(t, os.WriteFile(config, []byte(`issuers: [{url: "`+issuer.URL+`", audiences: [drover], prefix: "o:", algorithms: [RS256]}]`), 0o600))
	closed := s.AddAPI(t, "DROVER_AUTH=on", "DROVER_AUTH_CONFIG="+config, "DROVER_ADMIN_TOKEN_FILE="+admin, "DROVER_CALLER_RATE=0")
	token, err := os.ReadFile(admin)
	require.NoError(t, err)
	as := func(token string) *client.API {
		c := client.New(closed.URL+"/v2", client.WithToken(strings.TrimSpace(token)))
		t.Cleanup(c.Close)
		return c.API()
	}
	root := as(string(token))
	bind := func(name string, subject domain.RightSubject) *domain.RoleBinding {
		b := domain.RoleBindings.New().(*domain.RoleBinding)
		b.Name, b.Spec.Role, b.Spec.Subjects = name, domain.RoleViewer, []domain.RightSubject{subject}
		_, err := root.Create(ctx, b, nil)
		require.NoError(t, err)
		return b
	}
	bind("alice", domain.RightSubject{Kind: domain.SubjectUser, Name: "o:alice"})
	asked, open := as(issuer.token(t, "alice")), s.AddAPI(t).Client.API()
	ask := func(api *client.API, n int) (took []time.Duration) {
		for range n {
			begun := time.Now()
			_, err := api.Status(ctx, d.Key(), url.Values{"output": {"summary"}})
			require.NoError(t, err)
			took = append(took, time.Since(begun))
		}
		return took
	}
	ask(asked, 100)
	ask(open, 100)
	var with, without []time.Duration
	var over, overMedian, ends []float64
	t.finally(func() []figure {
		p99 := values("auth_over_open", fmt.Sprintf("p99 of the former over that of the latter, in blocks of %d each", rounds*times), "ratio", over)
		f := values("revoke_s", "until a stream ends whose token, or whose right, is withdrawn", "s", ends)
		return []figure{
			measured("auth_status_ms", "GET status, summary, with an OIDC token, rights and audit", with),
			measured("open_status_ms", "the same with --auth=off", without),
			goal(p99, "≤ 1.15", p99.Median <= 1.15),
			values("auth_over_open_median", "the same of medians", "ratio", overMedian),
			goal(f, "≤ 10", f.Max <= 10),
		}
	})
	for range blocks { // each has a figure of its own, so that what else the machine does is seen
		var one, other []time.Duration
		for round := range rounds { // in short turns, so that it is in both
			if round%2 == 0 {
				one, other = append(one, ask(asked, times)...), append(other, ask(open, times)...)
				continue
			}
			other, one = append(other, ask(open, times)...), append(one, ask(asked, times)...)
		}
		over = append(over, percentile(one, 99).Seconds()/percentile(other, 99).Seconds())
		overMedian = append(overMedian, percentile(one, 50).Seconds()/percentile(other, 50).Seconds())
		with, without = append(with, one...), append(without, other...)
	}
	t.add(values("auth_over_open_all", "the same of all blocks together", "ratio", []float64{percentile(with, 99).Seconds() / percentile(without, 99).Seconds()}))

	for i := range 2 * revoked {
		account := &domain.ServiceAccount{Metadata: domain.Metadata{Name: fmt.Sprint("revoked-", i)}}
		_, err := root.Create(ctx, account, nil)
		require.NoError(t, err)
		binding := bind(account.Name, domain.RightSubject{Kind: domain.SubjectServiceAccount, Name: string(domain.KeyOf(account))})
		token := &domain.ServiceAccountToken{Identity: domain.Identity{Parent: domain.KeyOf(account)}, Metadata: domain.Metadata{Name: "t"}}
		_, err = root.Create(ctx, token, nil)
		require.NoError(t, err)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, closed.URL+"/v2"+client.At(d.Key())+"/status?watch=true", nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+token.Status.Token)
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answer.StatusCode)
		withdrawn := domain.KeyOf(token)
		if i%2 == 1 {
			withdrawn = domain.KeyOf(binding)
		}
		require.NoError(t, root.Delete(ctx, withdrawn))
		begun := time.Now()
		_, _ = io.Copy(io.Discard, answer.Body)
		ends = append(ends, time.Since(begun).Seconds())
		require.NoError(t, answer.Body.Close())
		require.NoError(t, ctx.Err())
	}
}

// issuer is an OpenID provider that has one key, and tokens for whom it is asked.
type issuer struct {
	*httptest.Server
	key *rsa.PrivateKey
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	i := &issuer{key: key}
	mux := http.NewServeMux()
	answer := func(path string, of func() any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(of())
		})
	}
	answer("/.well-known/openid-configuration", func() any {
		return map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/auth", "token_endpoint": i.URL + "/token"}
	})
	answer("/keys", func() any {
		encode := base64.RawURLEncoding.EncodeToString
		return map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "kid": "1", "alg": "RS256", "use": "sig", "n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes()),
		}}}
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

// token is one of a subject that is good for an hour.
func (i *issuer) token(t testing.TB, subject string) string {
	t.Helper()
	part := func(v any) string { return base64.RawURLEncoding.EncodeToString(mustJSON(t, v)) }
	now := time.Now().Unix()
	text := part(map[string]any{"alg": "RS256", "kid": "1", "typ": "JWT"}) + "." +
		part(map[string]any{"iss": i.URL, "aud": "drover", "sub": subject, "iat": now, "exp": now + 3600})
	sum := sha256.Sum256([]byte(text))
	signed, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	require.NoError(t, err)
	return text + "." + base64.RawURLEncoding.EncodeToString(signed)
}
