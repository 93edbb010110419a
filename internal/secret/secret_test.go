package secret_test

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
		"a KMS":                       {"v:unix:///run/kms.sock," + keyLine("a", 1), ""},
		"a KMS without a path":        {"v:unix://", "not absolute"},
		"a KMS on another machine":    {"v:tcp://kms:1234", `nor the address of a KMS (unix:///path)`},
		"a path that is relative":     {"v:unix://run/kms.sock", "not absolute"},
		"a KMS with an @":             {"v@1:unix:///run/kms.sock", "may have no @"},
		"a KMS's key that is a line":  {"v:unix:///run/kms.sock," + keyLine("v@1", 1), `"v@1" would be one of the KMS "v"`},
		"a KMS twice":                 {"v:unix:///a,v:unix:///b", `"v" is there twice`},
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
	for range 2 {
		root, err := secret.NewRoot()
		require.NoError(t, err)
		same, ok := secret.RootOf(root.Bytes())
		require.True(t, ok)
		for _, purpose := range []string{"one", "another"} {
			key := root.Derive(purpose)
			require.Len(t, key, 32)
			require.Equal(t, key, same.Derive(purpose))
			require.NotContains(t, string(root.Bytes()), string(key))
			derived[string(key)] = true
		}
	}
	require.Len(t, derived, 4, "of each purpose of each installation")
	_, ok := secret.RootOf([]byte("short"))
	require.False(t, ok)
}

// TestAFileOfKeysThatChanges is read again: by who opens what it cannot, and by who seals.
func TestAFileOfKeysThatChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	write := func(lines ...string) {
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	}
	write(keyLine("old", 1))
	running, err := secret.ReadFile(path)
	require.NoError(t, err)
	before, err := running.SealBytes("x", []byte("before"))
	require.NoError(t, err)

	write(keyLine("new", 2), keyLine("old", 1))
	other, err := secret.ReadFile(path)
	require.NoError(t, err)
	sealed, err := other.SealBytes("x", []byte("plain"))
	require.NoError(t, err)
	plain, err := running.OpenBytes("x", sealed)
	require.NoError(t, err, "at once")
	require.Equal(t, "plain", string(plain))
	require.Equal(t, "new", running.Keeper().Sealing())
	_, err = other.OpenBytes("x", before)
	require.NoError(t, err)

	var told []error
	running.Keeper().(*secret.Ring).Tell(func(err error) { told = append(told, err) })
	write("what is no key")
	_, err = running.SealBytes("x", nil)
	require.NoError(t, err, "a file that says nothing changes nothing")
	_, err = running.Keeper().Unwrap("unknown", nil) // it looks at once
	require.Error(t, err)
	_, err = running.Keeper().Unwrap("unknown", nil)
	require.Error(t, err)
	require.Len(t, told, 1, "it is told once")
	require.Equal(t, told[0], running.Keeper().(*secret.Ring).Problem())
	write(keyLine("new", 2), keyLine("old", 1))
	_, err = running.Keeper().Unwrap("unknown", nil)
	require.Error(t, err)
	require.NoError(t, told[len(told)-1])
	require.NoError(t, running.Keeper().(*secret.Ring).Problem())

	write(keyLine("new", 2), keyLine("old", 1))
	require.NoError(t, os.Chmod(path, 0o640))
	_, err = secret.Drop(path, "none")
	require.Error(t, err)
	kept, err := secret.Drop(path, "old")
	require.NoError(t, err)
	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.Equal(t, keyLine("old", 1)+"\n", string(text))
	info, err := os.Stat(kept)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	left, err := secret.ReadFile(path)
	require.NoError(t, err)
	_, err = left.OpenBytes("x", before)
	require.ErrorContains(t, err, `"old" is not configured`)
	_, err = secret.Drop(path, "new")
	require.Error(t, err, "nothing would be left")
	info, err = os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm(), "whoever could read it can")
	require.NoError(t, secret.PutBack(path, "old"))
	again, err := secret.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, []string{"new", "old"}, again.Keeper().(*secret.Ring).IDs())
	_, err = again.OpenBytes("x", before)
	require.NoError(t, err)
}

// keeper is a service of keys that may be away.
type keeper struct {
	secret.Keeper
	asked int
	err   error
}

func (k *keeper) Wrap(dataKey []byte) (string, []byte, error) {
	if k.asked++; k.err != nil {
		return "", nil, k.err
	}
	return k.Keeper.Wrap(dataKey)
}

func (k *keeper) Unwrap(id string, wrapped []byte) ([]byte, error) {
	if k.asked++; k.err != nil {
		return nil, k.err
	}
	return k.Keeper.Unwrap(id, wrapped)
}

// TestAKeeperIsSeldomAsked: it may be far away, or not there.
func TestAKeeperIsSeldomAsked(t *testing.T) {
	k := &keeper{Keeper: parse(t, keyLine("a", 1)).Keeper()}
	s := secret.New(k)
	var all [][]byte
	for range 100 {
		data, err := s.SealBytes("x", []byte("plain"))
		require.NoError(t, err)
		all = append(all, data)
	}
	reader := secret.New(k)
	for _, data := range all {
		_, err := reader.OpenBytes("x", data)
		require.NoError(t, err)
	}
	require.Equal(t, 2, k.asked, "once to seal, once to open")
	k.err = fail.New(fail.Unavailable, "the keeper is away")
	_, err := reader.OpenBytes("x", all[0])
	require.NoError(t, err, "what is known stays so")
	_, err = secret.New(k).OpenBytes("x", all[0])
	require.True(t, fail.Is(err, fail.Unavailable))
	_, err = secret.New(k).SealBytes("x", nil)
	require.True(t, fail.Is(err, fail.Unavailable))
}

func TestParts(t *testing.T) {
	s := parse(t, keyLine("a", 1))
	parts, head, err := s.Parts()
	require.NoError(t, err)
	sealed, err := parts.Seal("one", []byte("plain"))
	require.NoError(t, err)
	same, rest, err := parse(t, keyLine("a", 1)).PartsOf(append(bytes.Clone(head), sealed...))
	require.NoError(t, err)
	require.Equal(t, sealed, rest)
	plain, err := same.Open("one", rest)
	require.NoError(t, err)
	require.Equal(t, "plain", string(plain))
	_, err = same.Open("another", rest)
	require.True(t, fail.Is(err, fail.Internal))
	_, _, err = s.PartsOf([]byte("never sealed"))
	require.True(t, fail.Is(err, fail.Internal))
	require.Equal(t, head, secret.HeadOf(append(bytes.Clone(head), sealed...)))
}

func BenchmarkSealer(b *testing.B) {
	s, err := secret.Parse(keyLine("a", 1))
	require.NoError(b, err)
	for name, size := range map[string]int{"a document": 1 << 10, "a chart": 1 << 20} {
		plain := make([]byte, size)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				data, err := s.SealBytes("x", plain)
				require.NoError(b, err)
				_, err = s.OpenBytes("x", data)
				require.NoError(b, err)
			}
		})
	}
}
