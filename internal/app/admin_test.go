package app

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
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
	return ensureAdmin(t.Context(), s, &trailed{}, file, time.Now(), slog.New(slog.DiscardHandler))
}

// reset is what drover admin-token does.
func reset(t *testing.T, s *store.Store, file string) error {
	t.Helper()
	return resetAdmin(t.Context(), s, &trailed{}, file, time.Now(), slog.New(slog.DiscardHandler))
}

// trailed are audit records, which are taken until one of them is to fail.
type trailed struct {
	records []audit.Record
	fails   int // the number of the record, 0 for none
	written func(audit.Record)
}

func (r *trailed) Write(_ context.Context, record audit.Record) (int64, error) {
	r.records = append(r.records, record)
	if r.written != nil {
		r.written(record)
	}
	if len(r.records) == r.fails {
		return 0, fail.New(fail.Unavailable, "the audit log cannot be written")
	}
	return int64(len(r.records)), nil
}

func (*trailed) Later(audit.Record) {}

func (*trailed) Admits(audit.Record) bool { return true }

func (*trailed) Digest(sum []byte) string { return hex.EncodeToString(sum) }

// TestWhoMakesTheAdministratorIsRecorded, before it is done and with what came of it; what cannot be recorded is not done.
func TestWhoMakesTheAdministratorIsRecorded(t *testing.T) {
	s, file := storetest.Open(t, store.Config{}), filepath.Join(t.TempDir(), "admin-token")
	log := slog.New(slog.DiscardHandler)
	closed := &trailed{fails: 1}
	err := ensureAdmin(t.Context(), s, closed, file, time.Now(), log)
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	require.NoFileExists(t, file)
	_, err = s.Get(t.Context(), domain.ServiceAccountTokens, adminToken)
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)

	said := func(r *trailed) (lines []string) {
		for _, r := range r.records {
			lines = append(lines, strings.Join([]string{string(r.Event), r.Who.Text(), r.Who.By, r.Verb, r.Key, r.Result}, "|"))
			require.Equal(t, r.Result == audit.Done, r.After != "", "%+v", r)
		}
		return lines
	}
	of := func(by, verb, what string) []string {
		begins := "|open|" + by + "|" + verb + "|" + what + "|"
		return []string{"begun" + begins, "answered" + begins + "done"}
	}
	const account, first = "service-accounts/admin", "service-accounts/admin/tokens/first"
	good := &trailed{}
	require.NoError(t, ensureAdmin(t.Context(), s, good, file, time.Now(), log))
	require.Equal(t, append(of("the first start", "create", first), of("the first start", "create", account)...), said(good))
	require.EqualValues(t, 1, good.records[1].Begun)
	good = &trailed{}
	require.NoError(t, ensureAdmin(t.Context(), s, good, file, time.Now(), log))
	require.Empty(t, good.records, "nothing was to be done")

	text := requireAdmin(t, s, file)
	err = resetAdmin(t.Context(), s, &trailed{fails: 1}, file, time.Now(), log)
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	require.Equal(t, text, requireAdmin(t, s, file), "all is as it was")
	require.NoError(t, resetAdmin(t.Context(), s, good, file, time.Now(), log))
	require.Equal(t, of("drover admin-token", "put", first), said(good))

	late := &trailed{fails: 2}
	err = resetAdmin(t.Context(), s, late, file, time.Now(), log)
	require.ErrorContains(t, err, "it was done, but")
	requireAdmin(t, s, file)
}

// TestAdminTokenIsInTheLog: what the command does is in the log that others write, signed.
func TestAdminTokenIsInTheLog(t *testing.T) {
	p := partial(t)
	c := *p.config
	c.Auth, c.AdminTokenFile = "", filepath.Join(t.TempDir(), "admin-token")
	require.NoError(t, ResetAdmin(t.Context(), &c, p.log))
	requireAdmin(t, p.store, c.AdminTokenFile)
	require.NoError(t, p.audit.trail.Seal(t.Context()))
	var lines bytes.Buffer
	require.NoError(t, p.store.AuditLines(t.Context(), "", "", false, func(l audit.Line) (bool, error) {
		lines.Write(append(l.Text, '\n'))
		return true, nil
	}))
	require.Contains(t, lines.String(), `"who":{"kind":"open","by":"drover admin-token"},"verb":"put","noun":"service-account-tokens","key":"service-accounts/admin/tokens/first"`)
	stated, err := json.Marshal(p.audit.keys)
	require.NoError(t, err)
	keys, err := audit.ParseKeys(stated)
	require.NoError(t, err)
	report, err := audit.Verify(&lines, audit.Options{Keys: keys})
	require.NoError(t, err)
	require.Empty(t, report.Problems)
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

	require.NoError(t, reset(t, s, file))
	another := requireAdmin(t, s, file)
	require.NotEqual(t, text, another)
	require.NoError(t, reset(t, s, file))
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

	// One whose file is lost had a token that nobody has: another one takes its place, and nothing is left of it.
	require.NoError(t, s.Delete(t.Context(), domain.ServiceAccounts, domain.FirstAdmin, 0))
	other := filepath.Join(t.TempDir(), "admin-token")
	require.NoError(t, start(t, s, other))
	another := requireAdmin(t, s, other)
	require.NotEqual(t, string(text), another)
	_, err = called(t, s, strings.TrimSpace(string(text)))
	require.True(t, fail.Is(err, fail.Unauthorized), "%v", err)
	require.NoError(t, start(t, s, other))
	require.Equal(t, another, requireAdmin(t, s, other))
}

// TestASlowStart: one that was taken for dead, since its account did not come, finds that its token is none any more, and leaves no file
// that says what is not true.
func TestASlowStart(t *testing.T) {
	s, slow, quick := storetest.Open(t, store.Config{}), filepath.Join(t.TempDir(), "admin-token"), filepath.Join(t.TempDir(), "admin-token")
	standing := &trailed{}
	standing.written = func(r audit.Record) {
		if r.Verb == "create" && r.Key == string(domain.FirstAdmin) && r.Event == audit.Begun { // its token is stored
			standing.written = nil
			require.NoError(t, start(t, s, quick))
		}
	}
	require.NoError(t, ensureAdmin(t.Context(), s, standing, slow, time.Now(), slog.New(slog.DiscardHandler)))
	require.Nil(t, standing.written, "it stood still between its token and its account")
	require.NoFileExists(t, slow)
	requireAdmin(t, s, quick)
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
