package oidc

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	upstream "github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
)

// FuzzClaims: whatever an issuer has signed names one user of its own until some time, or is refused as the caller's. A token whose signature is good
// says what its issuer wrote, in claims that are called as they are.
func FuzzClaims(f *testing.F) {
	for _, seed := range []string{
		`{"iss":"https://i","aud":"drover","sub":"a","exp":2000000000}`, `{"iss":"https://i","aud":["x","drover"],"sub":"a","groups":["b","c"],"exp":2e9,"nbf":1}`,
		`{"iss":"https://i","aud":"drover","sub":"a","groups":[1],"exp":2000000000}`, `{"iss":"https://i","aud":"drover","sub":"a","groups":{"a":"b"},"exp":2000000000}`,
		`{"iss":"https://i","aud":"x","AUD":"drover","sub":"a","exp":2000000000}`, `{"iss":"https://i","aud":"drover","sub":"a","sub":"b","exp":2000000000}`,
		`{"iss":"https://i","aud":"drover","sub":"a","exp":2000000000,"nbf":1e300}`, `{"iss":"https://i","aud":"drover","sub":"a","exp":1e300}`, `{"iss":"https://i","aud":"drover","sub":"a","exp":253402300800}`, `{"exp":"1"}`, `null`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	now := time.Unix(1_800_000_000, 0)
	p := &provider{Issuer: Issuer{URL: "https://i", Audiences: []string{"drover"}, UserClaim: "sub", GroupsClaim: "groups", Prefix: "i:"}, skew: 30 * time.Second}
	verifier := upstream.NewVerifier(p.URL, nil, &upstream.Config{InsecureSkipSignatureCheck: true, SkipClientIDCheck: true, SkipExpiryCheck: true})
	head := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256"}`))
	f.Fuzz(func(t *testing.T, claims []byte) {
		text := head + "." + base64.RawURLEncoding.EncodeToString(claims) + ".c2ln"
		_, _ = issuerOf(text)
		_ = subjectOf(text)
		_, _ = expiryOf(text)
		token, err := verifier.Verify(t.Context(), text)
		if err != nil {
			return
		}
		who, err := p.identity(token, now)
		if err != nil {
			require.True(t, fail.Is(err, fail.Unauthorized), "%v", err)
			require.NotEmpty(t, fail.TextOf(err))
			return
		}
		require.True(t, strings.HasPrefix(who.Name, "i:") && len(who.Name) > 2)
		for _, g := range who.Groups {
			require.True(t, strings.HasPrefix(g, "i:"))
		}
		require.True(t, who.Expires.After(now))
		_, err = json.Marshal(who.Expires.UTC())
		require.NoError(t, err)
		var said map[string]any
		require.NoError(t, json.Unmarshal(claims, &said))
		require.Equal(t, "https://i", said["iss"])
		require.Equal(t, said["sub"], strings.TrimPrefix(who.Name, "i:"))
		all, _ := said["aud"].([]any)
		require.Contains(t, append(all, said["aud"]), any("drover"))
	})
}

// FuzzKeySet: whatever an issuer says its keys are, those that are taken are public ones, and are read again as they were written.
func FuzzKeySet(f *testing.F) {
	for _, seed := range []string{
		`{"keys":[{"kty":"EC","crv":"P-256","kid":"a","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}`,
		`{"keys":[{"kty":"EC","crv":"P-256","kid":"a","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","d":"870MB6gfuTJ4HtUnUvYMyJpr5eUZNP4Bk43bVdj3eAE"}]}`,
		`{"keys":[{"kty":"oct","k":"AAAA","kid":"s"},{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},{"kty":"RSA","n":"sQ","e":"AQAB","use":"enc"},7]}`,
		`{"keys":[]}`, `{"keys":null} x`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		known, err := readKeys(data)
		if err != nil {
			require.Empty(t, known)
			return
		}
		require.NotEmpty(t, known)
		for _, key := range known {
			require.True(t, key.IsPublic() && key.Valid())
			require.NotEqual(t, "enc", key.Use)
		}
		again, err := json.Marshal(jose.JSONWebKeySet{Keys: known})
		require.NoError(t, err)
		back, err := readKeys(again)
		require.NoError(t, err)
		require.True(t, same(known, back))
	})
}

// box seals as the product does, but with a key of its own.
type box struct{ cipher.AEAD }

func (b box) SealBytes(bound string, plain []byte) ([]byte, error) {
	nonce := make([]byte, b.NonceSize())
	_, _ = rand.Read(nonce)
	return b.Seal(nonce, nonce, plain, []byte(bound)), nil
}

func (b box) OpenBytes(bound string, sealed []byte) ([]byte, error) {
	if len(sealed) < b.NonceSize() {
		return nil, errors.New("too short")
	}
	return b.Open(nil, sealed[:b.NonceSize()], sealed[b.NonceSize():], []byte(bound))
}

// FuzzLoginCookie: what a browser shows of a login that goes on is one that was begun here, with its own state, or is refused; a bit that was
// changed makes it none.
func FuzzLoginCookie(f *testing.F) {
	block, err := aes.NewCipher(make([]byte, 32))
	require.NoError(f, err)
	aead, err := cipher.NewGCM(block)
	require.NoError(f, err)
	s := &Sessions{Sealer: box{aead}, Now: func() time.Time { return time.Unix(1_800_000_000, 0) }}
	f.Add("", "state", "state", "/groups", uint16(0), byte(0))
	f.Add("AAAA", "state", "", "//evil", uint16(40), byte(1))
	f.Add("=", "", "", "", uint16(3), byte(255))
	f.Fuzz(func(t *testing.T, shown, state, said, to string, at uint16, flip byte) {
		_, err := s.pending(shown, url.Values{"state": {said}})
		require.True(t, fail.Is(err, fail.Unauthorized), "nobody else has sealed anything: %v", err)
		plain, err := json.Marshal(pending{State: state, To: to, Until: s.Now().Add(time.Minute)})
		require.NoError(t, err)
		sealed, err := s.Sealer.SealBytes(sealedLogin, plain)
		require.NoError(t, err)
		sealed[int(at)%len(sealed)] ^= flip
		login, err := s.pending(base64.RawURLEncoding.EncodeToString(sealed), url.Values{"state": {said}})
		if err != nil {
			require.True(t, fail.Is(err, fail.Unauthorized), "%v", err)
			require.True(t, flip != 0 || strings.ToValidUTF8(state, "\ufffd") != said, "it is what was begun: %v", err)
			return
		}
		require.Zero(t, flip)
		require.Equal(t, said, login.State)
	})
}
