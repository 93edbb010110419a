package app

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/token"
)

// adminToken is the token of the service account that the first start makes.
var adminToken = domain.FirstAdmin.Child(domain.ServiceAccountTokens.Collection, "first")

// EnsureAdmin sees to it that somebody can call the API that asks callers who they are: where there is no service account it makes
// the administrator's, with a token, which it writes to --admin-token-file.
func (p *Parts) EnsureAdmin(ctx context.Context) error {
	if p.config.Auth == "off" {
		return nil
	}
	return ensureAdmin(ctx, p.store, p.audit.trail, p.config.AdminTokenFile, time.Now(), p.log)
}

// ResetAdmin makes another token for the administrator in place of the one there is, or was, and writes it to the file. Done again
// it makes yet another one. What cannot be recorded in the audit log is not done.
func ResetAdmin(ctx context.Context, c *config.Config, log *slog.Logger) (err error) {
	p := &Parts{config: c, log: log}
	defer p.Close()
	if p.sealer, err = sealer(c); err != nil {
		return err
	}
	if p.store, err = store.Open(store.Config{URI: c.MongoURI, Database: c.Database, Keys: p.sealer}); err != nil {
		return err
	}
	if err := p.store.EnsureLayout(ctx); err != nil {
		return err
	}
	if p.audit, err = newAuditing(p); err != nil {
		return err
	}
	if err := p.begin(ctx); err != nil {
		return fmt.Errorf("begin the audit log: %w", err)
	}
	return resetAdmin(ctx, p.store, p.audit.trail, c.AdminTokenFile, time.Now(), log)
}

// By what the administrator is made, in the audit log. Nobody is asked who they are: who may start the process may do it.
const (
	byStart   = "the first start"
	byCommand = "drover admin-token"
)

// recorded does something to a document as the door does what callers ask for: it is recorded before and after, and not done when
// that cannot be.
func recorded(ctx context.Context, t door.Trail, by string, verb door.Verb, noun *domain.Noun, key domain.Key, do func(ctx context.Context) error) error {
	audited, begun := door.Audited(t)
	asked := &door.Request{Verb: verb, Noun: noun}
	asked.Parent, asked.Name = domain.Cut(noun, key)
	ctx = caller.WithRequest(ctx, &caller.Request{ID: rand.Text()})
	ctx = caller.WithIdentity(ctx, caller.Identity{Kind: caller.Open, By: by}, nil)
	return door.New(door.Parts{}, audited, begun).Pass(ctx, asked, func(ctx context.Context, _ door.Service) error { return do(ctx) })
}

// errNotOurs is that another process has stored its token first.
var errNotOurs = fail.New(fail.Conflict, "another process makes the administrator's token at the same time; run this again")

// ensureAdmin goes from the file to the documents, so that a process that dies on the way leaves nothing that the next one cannot
// carry on with: a token without its documents is none yet, and as long as the account is not there nothing is done. Of processes
// that share the file one writes it, and the others go on with what it says. Of those that do not, the one whose token comes to be
// stored first wins, and the others take their files away. A token whose account does not come is that of a process that died, and whose
// file may be lost: another token takes its place.
func ensureAdmin(ctx context.Context, s *store.Store, t door.Trail, file string, now time.Time, log *slog.Logger) error {
	accounts, err := s.List(ctx, domain.ServiceAccounts, "")
	if err != nil || len(accounts) > 0 {
		return err
	}
	if file == "" {
		log.Warn("there is no service account, and nowhere to write the administrator's token to",
			"remedy", "start with --admin-token-file (DROVER_ADMIN_TOKEN_FILE), or run `drover admin-token`")
		return nil
	}
	made := false
	err = recorded(ctx, t, byStart, door.Create, domain.ServiceAccountTokens, adminToken, func(ctx context.Context) (err error) {
		if made, err = writeToken(file); err != nil {
			return err
		}
		return storeToken(ctx, s, file, now)
	})
	if errors.Is(err, errNotOurs) {
		var lost *domain.ServiceAccountToken
		if lost, err = withoutAccount(ctx, s); lost != nil {
			log.Warn("the administrator's token was stored by a process that did not go on to make the administrator; another one takes its place", "file", file)
			err = replaceToken(ctx, s, t, lost, file, now)
		} else if err == nil {
			err = errNotOurs
		}
	}
	if err == nil {
		err = storeAccount(ctx, s, t, byStart)
	}
	if err == nil {
		// One that was slow may have been taken for dead. Whoever has taken the file away has the token.
		if err = isStored(ctx, s, file); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if errors.Is(err, errNotOurs) {
		err = nil
		if made {
			err = os.Remove(file)
		}
		log.Warn("another process has made the administrator's token, and has written it to a file of its own",
			"remedy", "if that file is lost, `drover admin-token` makes another token")
		return err
	}
	if err == nil {
		log.Info("the administrator's token was made", "file", file)
	}
	return err
}

// otherTime is how long a process waits for the account of another one that has stored its token: two writes, and a record. lookEvery is
// how often it looks.
const otherTime, lookEvery = 5 * time.Second, 100 * time.Millisecond

// withoutAccount is the administrator's token when there is no account, and none comes within otherTime; nil when there is one.
func withoutAccount(ctx context.Context, s *store.Store) (*domain.ServiceAccountToken, error) {
	there, err := s.Get(ctx, domain.ServiceAccountTokens, adminToken)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(otherTime); ; {
		accounts, err := s.List(ctx, domain.ServiceAccounts, "")
		if err != nil || len(accounts) > 0 {
			return nil, err
		}
		if time.Now().After(end) {
			return there.(*domain.ServiceAccountToken), nil
		}
		if err := pause.For(ctx, lookEvery); err != nil {
			return nil, err
		}
	}
}

// replaceToken stores the administrator's token that is in a file in place of one. errNotOurs when that is not the one there any more.
func replaceToken(ctx context.Context, s *store.Store, t door.Trail, lost *domain.ServiceAccountToken, file string, now time.Time) error {
	return recorded(ctx, t, byStart, door.Put, domain.ServiceAccountTokens, adminToken, func(ctx context.Context) error {
		hash, err := tokenIn(file)
		if err != nil {
			return err
		}
		mine := newToken(hash, now)
		mine.Revision = lost.Revision
		switch err := s.Replace(ctx, mine); {
		case fail.Is(err, fail.Conflict), fail.Is(err, fail.NotFound):
			return errNotOurs
		case err != nil:
			return err
		}
		return created(ctx, s, mine)
	})
}

// isStored is errNotOurs when another token is stored than that in a file.
func isStored(ctx context.Context, s *store.Store, file string) error {
	hash, err := tokenIn(file)
	if err != nil {
		return err
	}
	there, err := s.Get(ctx, domain.ServiceAccountTokens, adminToken)
	if err == nil && !token.Same(there.(*domain.ServiceAccountToken).Hash, hash) {
		err = errNotOurs
	}
	return err
}

// resetAdmin writes the file before it stores the token: a process that dies between the two leaves the old token as it was.
func resetAdmin(ctx context.Context, s *store.Store, t door.Trail, file string, now time.Time, log *slog.Logger) error {
	err := recorded(ctx, t, byCommand, door.Put, domain.ServiceAccountTokens, adminToken, func(ctx context.Context) error {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("take the old token away: %w", err)
		}
		if _, err := writeToken(file); err != nil {
			return err
		}
		if err := s.Delete(ctx, domain.ServiceAccountTokens, adminToken, 0); err != nil && !fail.Is(err, fail.NotFound) {
			return err
		}
		return storeToken(ctx, s, file, now)
	})
	if err == nil {
		err = storeAccount(ctx, s, t, byCommand)
	}
	if err == nil {
		log.Info("the administrator's token was made", "file", file)
	}
	return err
}

// writeToken makes a token and writes it to a file, for its owner alone, unless the file is there.
func writeToken(file string) (made bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the administrator's token (--admin-token-file): %w", err)
		}
	}()
	if _, err := os.Lstat(file); err == nil {
		return false, nil
	}
	text, _ := token.New(string(adminToken))
	err = secret.WriteNew(file, []byte(text+"\n"))
	if errors.Is(err, fs.ErrExist) {
		return false, nil // another process was faster
	}
	return err == nil, err
}

// tokenIn is the hash of the administrator's token in a file.
func tokenIn(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("read the administrator's token (--admin-token-file): %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the file of the administrator's token %s (--admin-token-file) is not for its owner alone: chmod 600 it, or remove it", file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the administrator's token (--admin-token-file): %w", err)
	}
	of, hash, ok := token.Parse(strings.TrimSpace(string(data)))
	if !ok || of != string(adminToken) {
		return nil, fmt.Errorf("%s (--admin-token-file) is there and has no token of the administrator: remove it, or name another file", file)
	}
	return hash, nil
}

// storeToken stores the administrator's token that is in a file. errNotOurs when there is another one.
func storeToken(ctx context.Context, s *store.Store, file string, now time.Time) error {
	hash, err := tokenIn(file)
	if err != nil {
		return err
	}
	t := newToken(hash, now)
	switch err := s.Create(ctx, t); {
	case err == nil:
		return created(ctx, s, t)
	case !fail.Is(err, fail.Conflict):
		return err
	}
	return isStored(ctx, s, file)
}

// newToken is the administrator's token as it is stored.
func newToken(hash []byte, now time.Time) *domain.ServiceAccountToken {
	return &domain.ServiceAccountToken{
		Identity:   domain.Identity{Parent: domain.FirstAdmin},
		Metadata:   domain.Metadata{Name: adminToken.Name(), Description: "made by the first start, or by drover admin-token"},
		Spec:       domain.TokenSpec{ExpiresAfter: fmt.Sprintf("%.0fh", domain.MaxTokenLife.Hours())},
		Credential: domain.Credential{Hash: hash, Expires: now.UTC().Add(domain.MaxTokenLife).Truncate(time.Millisecond)},
	}
}

// storeAccount stores the administrator's account, unless it is there.
func storeAccount(ctx context.Context, s *store.Store, t door.Trail, by string) error {
	if _, err := s.Get(ctx, domain.ServiceAccounts, domain.FirstAdmin); !fail.Is(err, fail.NotFound) {
		return err
	}
	a := &domain.ServiceAccount{Metadata: domain.Metadata{Name: domain.FirstAdmin.Name(), Description: "the administrator"}}
	err := recorded(ctx, t, by, door.Create, domain.ServiceAccounts, domain.FirstAdmin, func(ctx context.Context) error {
		if err := s.Create(ctx, a); err != nil {
			return err
		}
		return created(ctx, s, a)
	})
	if fail.Is(err, fail.Conflict) { // another process was faster
		return nil
	}
	return err
}

// created notes for the audit log which document was made, as the service does.
func created(ctx context.Context, s *store.Store, o domain.Object) error {
	form, err := s.Form(o)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(form)
	caller.RequestOf(ctx).Changed(nil, sum[:])
	return nil
}
