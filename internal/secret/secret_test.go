package secret_test

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/secret"
)

// keyLine is a key of equal bytes.
func keyLine(id string, b byte) string {
	return id + ":" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32))
}

func parse(t *testing.T, text string) *secret.Sealer {
	t.Helper()
	s, err := secret.Parse(text)
	require.NoError(t, err)
	return s
}

func TestWhatIsSealedCanBeOpened(t *testing.T) {
	s := parse(t, keyLine("a", 1))
	for name, plain := range map[string][]byte{"text": []byte("kubeconfig"), "nothing": {}, "much": make([]byte, 1<<20)} {
		t.Run(name, func(t *testing.T) {
			sealed, err := s.Seal("cluster-providers/p/clusters/c", plain)
			require.NoError(t, err)
			require.Equal(t, "a", sealed.KeyID)
			got, err := s.Open("cluster-providers/p/clusters/c", sealed)
			require.NoError(t, err)
			require.True(t, bytes.Equal(plain, got))
			again, err := s.Seal("cluster-providers/p/clusters/c", plain)
			require.NoError(t, err)
			require.NotEqual(t, sealed.Data, again.Data, "the nonce is random")
		})
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	s := parse(t, keyLine("a", 1))
	sealed, err := s.Seal("here", []byte("kubeconfig"))
	require.NoError(t, err)
	changed := func(at int) domain.Sealed {
		data := slices.Clone(sealed.Data)
		data[at] ^= 1
		return domain.Sealed{KeyID: "a", Data: data}
	}
	for name, c := range map[string]struct {
		sealer *secret.Sealer
		aad    string
		sealed domain.Sealed
	}{
		"another document's":       {s, "there", sealed},
		"with another key":         {parse(t, keyLine("a", 2)), "here", sealed},
		"with a key that is gone":  {parse(t, keyLine("b", 1)), "here", sealed},
		"with the nonce changed":   {s, "here", changed(0)},
		"with the text changed":    {s, "here", changed(12)},
		"with the tag changed":     {s, "here", changed(len(sealed.Data) - 1)},
		"cut off":                  {s, "here", domain.Sealed{KeyID: "a", Data: sealed.Data[:20]}},
		"cut off within the nonce": {s, "here", domain.Sealed{KeyID: "a", Data: sealed.Data[:5]}},
		"what was never sealed":    {s, "here", domain.Sealed{}},
		"of another key's name":    {parse(t, keyLine("a", 1)+","+keyLine("b", 2)), "here", domain.Sealed{KeyID: "b", Data: sealed.Data}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.sealer.Open(c.aad, c.sealed)
			require.True(t, fail.Is(err, fail.Internal), "%v", err)
		})
	}
}

func TestKeysRotate(t *testing.T) {
	old, next := keyLine("2025", 1), keyLine("2026", 2)
	sealed, err := parse(t, old).Seal("x", []byte("plain"))
	require.NoError(t, err)
	both := parse(t, next+"\n"+old)
	plain, err := both.Open("x", sealed)
	require.NoError(t, err)
	require.Equal(t, "plain", string(plain))
	resealed, err := both.Seal("x", plain)
	require.NoError(t, err)
	require.Equal(t, "2026", resealed.KeyID, "the first one seals")
	_, err = parse(t, next).Open("x", resealed)
	require.NoError(t, err)
}

func TestParse(t *testing.T) {
	short := base64.StdEncoding.EncodeToString([]byte("too-short"))
	for name, c := range map[string]struct {
		text string
		want string // in the error; "" for none
	}{
		"one":                         {keyLine("a", 1), ""},
		"lines":                       {keyLine("a", 1) + "\n" + keyLine("b", 2) + "\n", ""},
		"commas and blanks":           {" " + keyLine("a", 1) + " , " + keyLine("b", 2) + ",\r\n", ""},
		"comments":                    {"# of 2026\n\n" + keyLine("a", 1), ""},
		"nothing":                     {"\n# nothing\n", "no secret key"},
		"no id":                       {":" + short, "id:base64"},
		"no colon":                    {"QUJDREVGR0g", "id:base64"},
		"too short":                   {"a:" + short, `"a" is not 32 bytes`},
		"no base64":                   {"a:***", `"a" is not 32 bytes`},
		"one id twice":                {keyLine("a", 1) + "," + keyLine("a", 2), `"a" is there twice`},
		"a bad one behind a good one": {keyLine("a", 1) + ",b:" + short, `"b" is not 32 bytes`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := secret.Parse(c.text)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), short, "an error shows no key")
			require.NotContains(t, err.Error(), "QUJDREVGR0g")
		})
	}
}

func TestLoadOrCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	const processes = 8
	sealers, errs := make([]*secret.Sealer, processes), make([]error, processes)
	var wg sync.WaitGroup
	for i := range processes {
		wg.Go(func() { sealers[i], errs[i] = secret.LoadOrCreate(path) })
	}
	wg.Wait()
	for i := range processes {
		require.NoError(t, errs[i])
		sealed, err := sealers[i].Seal("x", []byte("plain"))
		require.NoError(t, err)
		_, err = sealers[0].Open("x", sealed)
		require.NoError(t, err, "all have the same key")
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing else is left")
}

func TestLoadOrCreateKeepsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		path, content, want string
	}{
		"keys":               {filepath.Join(dir, "good"), keyLine("mine", 1), ""},
		"what are no keys":   {filepath.Join(dir, "bad"), "x", "id:base64"},
		"a folder not there": {filepath.Join(dir, "none", "keys"), "", "read secret keys"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.content != "" {
				require.NoError(t, os.WriteFile(c.path, []byte(c.content), 0o600))
			}
			s, err := secret.LoadOrCreate(c.path)
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			sealed, err := s.Seal("x", nil)
			require.NoError(t, err)
			require.Equal(t, "mine", sealed.KeyID)
		})
	}
}

func TestDerive(t *testing.T) {
	t.Parallel()
	derived := map[string]bool{}
	for _, keys := range []string{keyLine("a", 1), keyLine("a", 1) + "\n" + keyLine("b", 2), keyLine("b", 2)} {
		s, err := secret.Parse(keys)
		require.NoError(t, err)
		for _, purpose := range []string{"one", "another"} {
			key := s.Derive(purpose)
			require.Len(t, key, 32)
			require.NotContains(t, keys, base64.StdEncoding.EncodeToString(key))
			derived[string(key)] = true
		}
	}
	require.Len(t, derived, 4, "of each purpose with each key that seals")
}
