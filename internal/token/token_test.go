package token_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/token"
)

func TestTokens(t *testing.T) {
	const of = "tenants/t/tokens/agent_1"
	text, hash := token.New(of)
	other, otherHash := token.New(of)
	require.NotEqual(t, text, other)
	key, given, ok := token.Parse(text)
	require.True(t, ok)
	require.Equal(t, of, key)
	require.True(t, token.Same(hash, given))
	require.False(t, token.Same(otherHash, given))
	require.False(t, token.Same(nil, nil), "no hash is no hash's")
	require.Len(t, hash, 32)
	require.NotContains(t, text, string(hash))

	_, secret, _ := strings.Cut(strings.TrimPrefix(text, token.Prefix), ".")
	require.Len(t, secret, 43, "256 bits")
	for name, bad := range map[string]string{
		"empty": "", "no prefix": strings.TrimPrefix(text, token.Prefix), "another prefix": "Drover." + strings.TrimPrefix(text, token.Prefix),
		"no secret": strings.TrimSuffix(text, "."+secret), "an empty secret": strings.TrimSuffix(text, secret), "a short secret": text[:len(text)-4],
		"a long secret": text + "AAAA", "a bad secret": text[:len(text)-1] + "!", "no key": token.Prefix + "." + secret, "a bad key": token.Prefix + "!." + secret,
		"too long": token.Prefix + strings.Repeat("AAAA", 300) + "." + secret, "a space behind": text + " ", "a line": text + "\n",
	} {
		_, _, ok := token.Parse(bad)
		require.False(t, ok, name)
	}
}

func FuzzParse(f *testing.F) {
	text, _ := token.New("tenants/t/tokens/x")
	for _, seed := range []string{text, "", token.Prefix, token.Prefix + ".", "drover.YQ." + strings.Repeat("A", 43)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		of, hash, ok := token.Parse(text)
		if ok && (of == "" || len(hash) != 32 || !strings.HasPrefix(text, token.Prefix)) {
			t.Fatalf("%q is taken as a token of %q", text, of)
		}
	})
}
