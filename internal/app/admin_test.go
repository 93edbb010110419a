package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// start is what the start of a process does about the administrator.
func start(t *testing.T, s *store.Store, file string) error {
	t.Helper()
	return ensureAdmin(t.Context(), s, file, time.Now(), slog.New(slog.DiscardHandler))
}

// requireAdmin: the token in the file is the administrator's.
func requireAdmin(t *testing.T, s *store.Store, file string) (text string) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	who, err := called(t, s, strings.TrimSpace(string(data)))
	require.NoError(t, err)
	require.Equal(t, caller.ServiceAccount, who.Kind)
	require.Equal(t, string(domain.FirstAdmin), who.Name)
	require.Greater(t, time.Until(who.Expires), 300*24*time.Hour)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".admin-token-*"))
	require.NoError(t, err)
	require.Empty(t, left)
	return string(data)
}

func called(t *testing.T, s *store.Store, text string) (caller.Identity, error) {
	t.Helper()
	by := authn.Prover(authn.Tokens{Store: s, Now: time.Now}.Prove)
	return caller.IdentityOf(by.Into(t.Context(), &authn.Shown{Authorization: []string{"Bearer " + text}}))
}

func TestTheFirstStartMakesAnAdministrator(t *testing.T) {
	s, file := storetest.Open(t, store.Config{}), filepath.Join(t.TempDir(), "admin-token")
	require.NoError(t, start(t, s, ""), "without a file")
	require.NoError(t, start(t, s, file))
	text := requireAdmin(t, s, file)
	require.NoError(t, start(t, s, file))
	require.Equal(t, text, requireAdmin(t, s, file), "a second start leaves it as it is")

	require.NoError(t, s.Delete(t.Context(), domain.ServiceAccountTokens, adminToken, 0))
	require.NoError(t, start(t, s, file))
	_, err := called(t, s, strings.TrimSpace(text))
	require.True(t, fail.Is(err, fail.Unauthorized), "what was revoked stays so as long as the account is there: %v", err)

	require.NoError(t, resetAdmin(t.Context(), s, file, time.Now(), slog.New(slog.DiscardHandler)))
	another := requireAdmin(t, s, file)
	require.NotEqual(t, text, another)
	require.NoError(t, resetAdmin(t.Context(), s, file, time.Now(), slog.New(slog.DiscardHandler)))
	require.NotEqual(t, another, requireAdmin(t, s, file))
	_, err = called(t, s, strings.TrimSpace(another))
	require.True(t, fail.Is(err, fail.Unauthorized))
}

// TestAStartThatWasCutOff: whatever a process had done when it died, the next one makes the rest.
func TestAStartThatWasCutOff(t *testing.T) {
	s, file := storetest.Open(t, store.Config{}), filepath.Join(t.TempDir(), "admin-token")
	made, err := writeToken(file)
	require.NoError(t, err)
	require.True(t, made)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, start(t, s, file), "it died after the file")
	require.Equal(t, string(text), requireAdmin(t, s, file))
	require.NoError(t, s.Delete(t.Context(), domain.ServiceAccounts, domain.FirstAdmin, 0))
	require.NoError(t, start(t, s, file), "it died after the token")
	require.Equal(t, string(text), requireAdmin(t, s, file))
	accounts, err := s.List(t.Context(), domain.ServiceAccounts, "")
	require.NoError(t, err)
	require.Len(t, accounts, 1)

	// One whose file is lost cannot go on; it leaves no file that says what is not true.
	require.NoError(t, s.Delete(t.Context(), domain.ServiceAccounts, domain.FirstAdmin, 0))
	other := filepath.Join(t.TempDir(), "admin-token")
	require.NoError(t, start(t, s, other))
	require.NoFileExists(t, other)
	requireAdmin(t, s, file)
}

func TestWhatIsNoFileOfATokenIsRefused(t *testing.T) {
	s, file := storetest.Open(t, store.Config{}), filepath.Join(t.TempDir(), "admin-token")
	require.ErrorContains(t, start(t, s, filepath.Join(file, "in", "no", "folder")), "--admin-token-file")
	require.NoError(t, os.WriteFile(file, []byte("drover."), 0o600))
	require.ErrorContains(t, start(t, s, file), "has no token of the administrator")
	require.NoError(t, os.Remove(file))
	_, err := writeToken(file)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(file, 0o644))
	require.ErrorContains(t, start(t, s, file), "is not for its owner alone")
	accounts, err := s.List(t.Context(), domain.ServiceAccounts, "")
	require.NoError(t, err)
	require.Empty(t, accounts)
}

// TestProcessesThatStartTogether: those that share the file have one token, and of those that do not one has a file that is true
// and the others have none.
func TestProcessesThatStartTogether(t *testing.T) {
	for name, shared := range map[string]bool{"one folder": true, "a folder for each": false} {
		t.Run(name, func(t *testing.T) {
			s, folder := storetest.Open(t, store.Config{}), t.TempDir()
			files := make([]string, 4)
			var starting sync.WaitGroup
			errs := make([]error, len(files))
			for i := range files {
				files[i] = filepath.Join(folder, "admin-token")
				if !shared {
					files[i] = filepath.Join(t.TempDir(), "admin-token")
				}
				starting.Go(func() { errs[i] = start(t, s, files[i]) })
			}
			starting.Wait()
			there := 0
			for i, file := range files {
				require.NoError(t, errs[i])
				if _, err := os.Stat(file); err == nil {
					there++
					requireAdmin(t, s, file)
				}
			}
			require.Equal(t, map[bool]int{true: len(files), false: 1}[shared], there)
		})
	}
}
