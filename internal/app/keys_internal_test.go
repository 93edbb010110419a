package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kmstest"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

func keyLines(ids ...string) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(id + ":" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(id[:1]), 32)) + "\n")
	}
	return b.String()
}

// TestKeysSurviveKill: who asks for another key to seal everything, or has one dropped, may be killed at any moment, with a write on its
// way that arrives later. Nothing is unreadable then, and another run goes on.
func TestKeysSurviveKill(t *testing.T) {
	const asked, at, database, file = "DROVER_TEST_KEYS", "DROVER_TEST_KEYS_AT", "DROVER_TEST_KEYS_DATABASE", "DROVER_TEST_KEYS_FILE"
	run := func(uri, database, path, ask string, out io.Writer) error {
		c := &config.Config{MongoURI: uri, Database: database, SecretKeysFile: path}
		return Keys(t.Context(), c, slog.New(slog.DiscardHandler), ask, "old", out)
	}
	if ask := os.Getenv(asked); ask != "" { // as the process that is killed
		require.NoError(t, run(os.Getenv(at), os.Getenv(database), os.Getenv(file), ask, os.Stdout))
		return
	}
	ctx, path, c := t.Context(), filepath.Join(t.TempDir(), "keys"), storetest.Config(t)
	write := func(ids ...string) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, []byte(keyLines(ids...)), 0o600))
	}
	open := func() *store.Store {
		t.Helper()
		var err error
		c.Keys, err = secret.ReadFile(path)
		require.NoError(t, err)
		return storetest.Open(t, c)
	}
	const n = 30
	readable := func() {
		t.Helper()
		s := open()
		all, err := s.List(ctx, domain.Projects, "")
		require.NoError(t, err)
		require.Len(t, all, n)
		data, err := s.Blob(ctx, mustPut(t, s))
		require.NoError(t, err)
		require.Equal(t, "content", string(data))
	}
	// killed runs a process until it says, or has done, something, and kills it then.
	killed := func(uri, ask string, until func(out io.Reader)) {
		t.Helper()
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKeysSurviveKill$")
		cmd.Env = append(os.Environ(), asked+"="+ask, at+"="+uri, database+"="+c.Database, file+"="+path)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		until(out)
		require.NoError(t, cmd.Process.Kill())
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		require.Equal(t, -1, exit.ExitCode(), "it was killed")
	}

	write("old")
	s := open()
	require.NoError(t, s.EnsureLayout(ctx))
	for i := range n {
		require.NoError(t, s.Create(ctx, &domain.Project{Metadata: domain.Metadata{Name: fmt.Sprintf("p%02d", i)}}))
	}
	mustPut(t, s)
	write("new", "old")
	proxy := mongotest.NewProxy(t, c.URI)
	for _, nth := range []int{1, n / 2} { // and the second run of those that are left
		proxy.Meet("projects", nth, mongotest.Fault{UntilNext: true})
		killed(proxy.URI(), "rotate", func(io.Reader) {
			require.Eventually(t, proxy.Met, mongotest.Timeout, time.Millisecond)
		})
		readable()
		_, unmet := proxy.Flush() // what it had sent arrives after its death
		require.False(t, unmet)
		readable()
	}
	used, err := open().SealedBy(ctx, func(store.Resealing) {})
	require.NoError(t, err)
	require.Positive(t, used["old"], "it was killed in its middle")
	require.Positive(t, used["new"])
	require.NoError(t, run(c.URI, c.Database, path, "rotate", io.Discard))
	readable()
	used, err = open().SealedBy(ctx, func(store.Resealing) {})
	require.NoError(t, err)
	require.Zero(t, used["old"])

	looking := func(out io.Reader) {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.Contains(lines.Text(), "looking whether") {
				return
			}
		}
		t.Error("it does not look")
	}
	killed(c.URI, "drop", looking)
	readable()
	ring := func() []string {
		t.Helper()
		keys, err := secret.ReadFile(path)
		require.NoError(t, err)
		return keys.Keeper().(*secret.Ring).IDs()
	}
	require.Equal(t, []string{"new"}, ring())
	again := func(wait func(context.Context) error) error {
		s := open()
		return (&keyring{store: s, keys: c.Keys, file: path, out: io.Discard, wait: wait}).drop(ctx, "old")
	}
	frozen := c
	frozen.Keys, err = secret.Parse(keyLines("old", "new"))
	require.NoError(t, err)
	require.True(t, fail.Is(again(func(ctx context.Context) error { // somebody has sealed with it, and nobody has looked
		p := storetest.Open(t, frozen)
		o, err := p.Get(ctx, domain.Projects, "projects/p00")
		if err != nil {
			return err
		}
		return p.Replace(ctx, o)
	}), fail.Precondition))
	require.Equal(t, []string{"new", "old"}, ring())
	readable()
	require.NoError(t, run(c.URI, c.Database, path, "rotate", io.Discard))
	killed(c.URI, "drop", looking)
	require.NoError(t, again(func(context.Context) error { return nil }))
	require.Equal(t, []string{"new"}, ring())
	readable()
}

func mustPut(t *testing.T, s *store.Store) domain.Digest {
	t.Helper()
	digest, err := s.PutBlob(t.Context(), []byte("content"))
	require.NoError(t, err)
	return digest
}

// TestKeysAreDropped that nobody seals with, and those that somebody seals with meanwhile are put back.
func TestKeysAreDropped(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte(keyLines("old")), 0o640)) //nolint:gosec // its mode stays
	c := storetest.Config(t)
	open := func() (*store.Store, *secret.Sealer) {
		t.Helper()
		var err error
		c.Keys, err = secret.ReadFile(path)
		require.NoError(t, err)
		return storetest.Open(t, c), c.Keys
	}
	var err error
	c.Keys, err = secret.Parse(keyLines("old", "new"))
	require.NoError(t, err)
	other := storetest.Open(t, c)
	asked := &config.Config{MongoURI: c.URI, Database: c.Database, SecretKeysFile: path}
	ask := func(what, id string) error {
		return Keys(ctx, asked, slog.New(slog.DiscardHandler), what, id, io.Discard)
	}
	require.True(t, fail.Is(ask("list", ""), fail.Precondition), "a database without a layout is not the product's, or an old one")
	require.NoError(t, other.EnsureLayout(ctx))
	project := func(name string) *domain.Project { return &domain.Project{Metadata: domain.Metadata{Name: name}} }
	require.NoError(t, other.Create(ctx, project("first")))

	require.NoError(t, os.WriteFile(path, []byte(keyLines("new", "old")), 0o640)) //nolint:gosec // its mode stays
	require.True(t, fail.Is(ask("drop", "old"), fail.Precondition), "it is in use")
	require.True(t, fail.Is(ask("drop", "new"), fail.Precondition), "it seals")
	require.True(t, fail.Is(ask("drop", "none"), fail.NotFound))
	require.NoError(t, ask("rotate", ""))

	s, keys := open()
	var out bytes.Buffer
	k := &keyring{store: s, keys: keys, file: path, out: &out, wait: func(ctx context.Context) error {
		return other.Create(ctx, project("second")) // by a process that knows nothing of it
	}}
	require.True(t, fail.Is(k.drop(ctx, "old"), fail.Precondition))
	require.Contains(t, out.String(), "again")
	s, keys = open()
	require.Equal(t, []string{"new", "old"}, keys.Keeper().(*secret.Ring).IDs())
	all, err := s.List(ctx, domain.Projects, "")
	require.NoError(t, err)
	require.Len(t, all, 2)

	require.NoError(t, ask("rotate", ""))
	k = &keyring{store: s, keys: keys, file: path, out: &out, wait: func(context.Context) error { return nil }}
	require.NoError(t, k.drop(ctx, "old"))
	s, keys = open()
	require.Equal(t, []string{"new"}, keys.Keeper().(*secret.Ring).IDs())
	_, err = s.List(ctx, domain.Projects, "")
	require.NoError(t, err)
}

// TestRotateWithoutAKey: what is sealed with a key that the file does not have is not called damaged, and is one line for all of it.
func TestRotateWithoutAKey(t *testing.T) {
	ctx, path, c := t.Context(), filepath.Join(t.TempDir(), "keys"), storetest.Config(t)
	require.NoError(t, os.WriteFile(path, []byte(keyLines("old")), 0o600))
	var err error
	c.Keys, err = secret.ReadFile(path)
	require.NoError(t, err)
	s := storetest.Open(t, c)
	require.NoError(t, s.EnsureLayout(ctx))
	for _, name := range []string{"a", "b"} {
		require.NoError(t, s.Create(ctx, &domain.Project{Metadata: domain.Metadata{Name: name}}))
	}
	rotate := func(ids ...string) (string, error) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, []byte(keyLines(ids...)), 0o600))
		var out bytes.Buffer
		err := Keys(ctx, &config.Config{MongoURI: c.URI, Database: c.Database, SecretKeysFile: path}, slog.New(slog.DiscardHandler), "rotate", "", &out)
		return out.String(), err
	}
	said, err := rotate("new")
	require.True(t, fail.Is(err, fail.Precondition), "%v", err)
	require.ErrorContains(t, err, `what is sealed with "old" cannot be opened without it, and nothing of it is damaged`)
	require.Regexp(t, `(?m)^key old: missing; [2-9] sealed with it cannot be opened$`, said)
	require.NotContains(t, said, "damaged")
	said, err = rotate("new", "old")
	require.NoError(t, err, said)
	require.Contains(t, said, "key new seals everything")
}

// TestKeysOfAKMS take the place of those of a file, and of each other, and the other way, by the same commands.
func TestKeysOfAKMS(t *testing.T) {
	ctx, kms, path, c := t.Context(), kmstest.Start(t), filepath.Join(t.TempDir(), "keys"), storetest.Config(t)
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	ask := func(what, id string) (string, error) {
		var out bytes.Buffer
		err := Keys(ctx, &config.Config{MongoURI: c.URI, Database: c.Database, SecretKeysFile: path}, slog.New(slog.DiscardHandler), what, id, &out)
		return out.String(), err
	}
	done := func(what, want string) {
		t.Helper()
		said, err := ask(what, "")
		require.NoError(t, err, said)
		require.Regexp(t, want, said)
	}
	// drop is what drop does, but that it does not wait for others.
	drop := func(id string) error {
		keys, err := secret.ReadFile(path)
		require.NoError(t, err)
		defer keys.Close()
		c := c
		c.Keys = keys
		return (&keyring{store: storetest.Open(t, c), keys: keys, file: path, out: io.Discard, wait: func(context.Context) error { return nil }}).drop(ctx, id)
	}
	write(keyLines("old"))
	var err error
	c.Keys, err = secret.ReadFile(path)
	require.NoError(t, err)
	t.Cleanup(c.Keys.Close)
	s := storetest.Open(t, c)
	require.NoError(t, s.EnsureLayout(ctx))
	require.NoError(t, s.Create(ctx, &domain.Project{Metadata: domain.Metadata{Name: "p"}}))

	write(kms.Line("vault") + "\n" + keyLines("old"))
	done("list", `(?m)\Avault@1: seals; 0 sealed with it\nold: opens; [1-9] sealed with it\n\z`)
	done("rotate", `key vault@1 seals everything: [1-9]`)
	require.NoError(t, drop("old"))
	kms.Rotate("2")
	done("list", `\Avault@1: opens; [1-9] sealed with it\nvault@2: seals; 0 sealed with it\n\z`)
	done("rotate", `key vault@2 seals everything: [1-9]`)
	_, err = ask("drop", "vault@1")
	require.True(t, fail.Is(err, fail.Precondition), "%v", err)
	require.ErrorContains(t, err, `"vault@1" is one of the KMS "vault"`)
	_, err = ask("drop", "vault")
	require.True(t, fail.Is(err, fail.Precondition), "it seals: %v", err)

	kms.Stop()
	_, err = ask("rotate", "")
	require.ErrorContains(t, err, `the KMS "vault"`)
	said, err := ask("list", "")
	require.ErrorContains(t, err, `the KMS "vault"`)
	require.Contains(t, said, "vault@2: opens;", "what is counted is shown")
	kms.Listen()

	write(keyLines("new") + kms.Line("vault") + "\n")
	require.True(t, fail.Is(drop("vault"), fail.Precondition), "its keys are in use")
	done("rotate", `key new seals everything: [1-9]`)
	require.NoError(t, drop("vault"))
	done("list", `\Anew: seals; [1-9] sealed with it\n\z`)
	_, err = s.Get(ctx, domain.Projects, "projects/p")
	require.NoError(t, err, "a process that runs has the new key")
}
