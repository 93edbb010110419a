package oidc

import (
	"bytes"
	"context"
	"crypto"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	upstream "github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
)

// keys are those of a provider as they were last fetched. They stay while the provider does not answer.
type keys struct {
	issuer string
	client *http.Client
	clock  lease.Clock // a time that the machine was suspended counts, too
	flight singleflight.Group

	mu      sync.Mutex
	url     string // where they are, as the provider says; "" until it has
	known   []jose.JSONWebKey
	changed int           // how often they were others
	fetched lease.Instant // when that was
	tried   lease.Instant // when it was tried last
}

// answerBytes bounds what a provider answers.
const answerBytes = 1 << 20

func newKeys(issuer, ca string) (*keys, error) {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: policy.Keys, IdleConnTimeout: policy.KeysAge, MaxIdleConnsPerHost: 1, ForceAttemptHTTP2: true,
		// A provider that is elsewhere since, without a word over the connection that there is, would else be asked over that one until TCP gives it up.
		HTTP2: &http.HTTP2Config{SendPingTimeout: policy.Silence, PingTimeout: policy.Mute},
	}
	if ca != "" {
		pool, err := poolOf(ca)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	return &keys{issuer: issuer, clock: lease.Now, client: &http.Client{
		Transport: bounded{transport}, Timeout: policy.Keys,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// bounded reads no more of an answer than answerBytes.
type bounded struct{ of http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.of.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, answerBytes), answer.Body}
	}
	return answer, err
}

// of are the keys with an id; all when it is "".
func (k *keys) of(id string) (found []jose.JSONWebKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range k.known {
		if id == "" || key.KeyID == id {
			found = append(found, key)
		}
	}
	return found
}

// have says whether a key is still one of them.
func (k *keys) have(key jose.JSONWebKey) bool {
	return slices.ContainsFunc(k.of(key.KeyID), func(one jose.JSONWebKey) bool { return same([]jose.JSONWebKey{one}, []jose.JSONWebKey{key}) })
}

// turn is another one when the keys are others.
func (k *keys) turn() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

// find is of for an id that may be new: then the keys are fetched. Unavailable when the provider does not answer.
func (k *keys) find(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	k.age()
	asked := k.clock()
	for {
		if found := k.of(id); len(found) > 0 {
			return found, nil
		}
		if k.since(asked) { // those that are known are of a fetch that began after the token came
			return nil, nil
		}
		if err := k.fetch(ctx); err != nil {
			return nil, err
		}
	}
}

// since says whether the keys are of a fetch that began after a time.
func (k *keys) since(t lease.Instant) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.fetched.After(t)
}

// age has keys that are old fetched, behind whoever asks.
func (k *keys) age() {
	k.mu.Lock()
	now := k.clock()
	due := len(k.known) > 0 && now.Since(k.fetched) >= policy.KeysAge && now.Since(k.tried) >= policy.KeysRetry
	if due {
		k.tried = now
	}
	k.mu.Unlock()
	if due {
		k.flight.DoChan("", k.fly(context.Background()))
	}
}

// fetch waits for the keys to be fetched. Many who wait are one fetch, and of fetches there is one every policy.KeysLeast.
func (k *keys) fetch(ctx context.Context) error {
	select {
	case r := <-k.flight.DoChan("", k.fly(context.WithoutCancel(ctx))):
		return r.Err
	case <-ctx.Done():
		return fail.Wrap(ctx.Err(), fail.Unavailable, "the issuer %s does not answer; try again later", k.issuer)
	}
}

func (k *keys) fly(ctx context.Context) func() (any, error) {
	return func() (any, error) {
		k.mu.Lock()
		wait := policy.KeysLeast - k.clock().Since(k.tried)
		k.mu.Unlock()
		if wait > 0 {
			<-time.After(wait)
		}
		ctx, cancel := context.WithTimeout(ctx, policy.Keys)
		defer cancel()
		begun := k.clock()
		k.mu.Lock()
		k.tried = begun
		url := k.url
		k.mu.Unlock()
		var known []jose.JSONWebKey
		err := panics.Do(ctx, func() (err error) {
			known, url, err = k.download(ctx, url)
			return err
		})
		k.mu.Lock()
		defer k.mu.Unlock()
		if err != nil {
			k.url = "" // it may have moved
			return nil, &fail.Error{
				Kind: fail.Unavailable, RetryAfter: policy.KeysLeast, Cause: err,
				Message: fmt.Sprintf("the issuer %s does not say its keys; try again later", k.issuer),
			}
		}
		if !same(k.known, known) {
			k.changed++
		}
		k.url, k.known, k.fetched = url, known, begun
		return nil, nil
	}
}

// download reads the keys, and where they are unless that is known.
func (k *keys) download(ctx context.Context, at string) (known []jose.JSONWebKey, url string, err error) {
	if at == "" {
		p, err := upstream.NewProvider(upstream.ClientContext(ctx, k.client), k.issuer)
		if err != nil {
			return nil, "", err
		}
		var says struct {
			URL string `json:"jwks_uri"`
		}
		if err := p.Claims(&says); err != nil {
			return nil, "", err
		}
		if why := badURL(says.URL); why != "" {
			return nil, "", wrong{fmt.Errorf("its jwks_uri %q %s", says.URL, why)}
		}
		at = says.URL
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, "", err
	}
	answer, err := k.client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		err := fmt.Errorf("GET %s: %s", at, answer.Status)
		if final(answer.StatusCode) {
			err = wrong{err}
		}
		return nil, "", err
	}
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, "", fmt.Errorf("GET %s: %w", at, err)
	}
	if known, err = readKeys(data); err != nil {
		return nil, "", wrong{fmt.Errorf("GET %s: %w", at, err)}
	}
	return known, at, nil
}

// wrong is why there are no keys where asking again would not help.
type wrong struct{ error }

// check fetches the keys. Unavailable when the provider does not answer, Internal when what it answers are none.
func (k *keys) check(ctx context.Context) error {
	err := k.fetch(ctx)
	var why wrong
	if errors.As(err, &why) {
		return fail.Wrap(err, fail.Internal, "the issuer %s has no keys: %s", k.issuer, why.error)
	}
	return err
}

// readKeys are the keys that sign of a set (RFC 7517), one at the least.
func readKeys(data []byte) (known []jose.JSONWebKey, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, err
	}
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		// A key of a sort that is not known is another one's business.
		if err := json.Unmarshal(raw, &key); err == nil && key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig") {
			known = append(known, key)
		}
	}
	if len(known) == 0 {
		return nil, errors.New("no key that signs")
	}
	return known, nil
}

// same says whether keys are the same ones, in the same order.
func same(a, b []jose.JSONWebKey) bool {
	return slices.EqualFunc(a, b, func(a, b jose.JSONWebKey) bool {
		one, err := a.Thumbprint(crypto.SHA256)
		other, otherErr := b.Thumbprint(crypto.SHA256)
		return a.KeyID == b.KeyID && err == nil && otherErr == nil && bytes.Equal(one, other)
	})
}

// signer is the key that has made a token, among some, for go-oidc.
type signer struct {
	among []jose.JSONWebKey
	found jose.JSONWebKey
}

// VerifySignature implements oidc.KeySet. Which algorithms may be is checked by the verifier before.
func (s *signer) VerifySignature(_ context.Context, text string) ([]byte, error) {
	var all []jose.SignatureAlgorithm
	for _, a := range algorithms {
		all = append(all, jose.SignatureAlgorithm(a))
	}
	signed, err := jose.ParseSigned(text, all)
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Backward(s.among) {
		if payload, err := signed.Verify(key); err == nil {
			s.found = key
			return payload, nil
		}
	}
	return nil, fmt.Errorf("none of %d keys has made it", len(s.among))
}
