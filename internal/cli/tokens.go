package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/drover-io/drover/internal/fail"
)

// tokens gives requests the token of a context whose user has logged in at a provider, and has it replaced before it expires: a command
// may run for longer than a token is good.
type tokens struct {
	session *session

	mu      sync.Mutex
	context Context
}

// get is the token as it is to be shown now.
func (t *tokens) get(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if fresh(t.context.Token) {
		return t.context.Token, nil
	}
	if err := t.renew(ctx, ""); err != nil {
		until, ok := expiryOf(t.context.Token)
		if ok && time.Now().Before(until) && fail.Is(err, fail.Unavailable) {
			return t.context.Token, nil // it is good for some seconds
		}
		var used errUsage
		if errors.As(err, &used) { // of this machine, which the client would take for an API that is away
			return "", fail.Wrap(err, fail.Internal, "the login cannot be renewed")
		}
		return "", err
	}
	return t.context.Token, nil
}

// another is a token in the place of one that the API has refused, whatever this machine's clock says: it may be behind.
func (t *tokens) another(ctx context.Context, refused string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.context.Token == refused { // else another request has had it replaced
		if err := t.renew(ctx, refused); err != nil {
			return "", err
		}
	}
	return t.context.Token, nil
}

// fresh says whether a token is good for a while. One that says no time is taken as it is.
func fresh(token string) bool {
	until, ok := expiryOf(token)
	return !ok || time.Until(until) > tokenLeast
}

// renew has the provider give another token, and keeps it for commands that follow. Of commands that run at the same time one asks: a
// provider may take a second question for a thief's. One that the API has refused is replaced also where it is fresh.
func (t *tokens) renew(ctx context.Context, refused string) error {
	s := t.session
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	found, err := s.load()
	if err != nil {
		return err
	}
	if kept := found.find(t.context.Name); kept != nil && kept.Issuer == t.context.Issuer && kept.RefreshToken != "" {
		t.context.Token, t.context.RefreshToken = kept.Token, kept.RefreshToken
		if fresh(kept.Token) && kept.Token != refused {
			return nil
		}
	}
	p, err := s.provider(ctx, t.context.Issuer, t.context.ClientID, t.context.IssuerCA)
	if err != nil {
		return err
	}
	// From here on it goes on though the command is broken off: the provider may take no refresh token but the one that it gives now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), providerTime)
	defer cancel()
	given, err := p.refresh(ctx, t.context.RefreshToken)
	if fail.Is(err, fail.Unauthorized) {
		return fail.New(fail.Unauthorized, "the login at %s has ended", t.context.Issuer)
	}
	if err != nil {
		return err
	}
	t.context.RefreshToken = or(given.RefreshToken, t.context.RefreshToken)
	if err := t.keep(found); err != nil { // before anything else can fail
		return err
	}
	text, err := p.idToken(ctx, given, "")
	if err != nil {
		return err
	}
	t.context.Token = text
	return t.keep(found)
}

// keep writes the tokens for commands that follow, unless the context has become another provider's.
func (t *tokens) keep(found *settings) error {
	kept := found.find(t.context.Name)
	if kept == nil || kept.Issuer != t.context.Issuer || kept.Token == t.context.Token && kept.RefreshToken == t.context.RefreshToken {
		return nil
	}
	kept.Token, kept.RefreshToken = t.context.Token, t.context.RefreshToken
	return t.session.save(found)
}

// lockLook is how often it is looked whether another command is done with the file of contexts.
const lockLook = 50 * time.Millisecond

// lock has no other command renew a token, or write the file of contexts, meanwhile.
func (s *session) lock(ctx context.Context) (unlock func(), err error) {
	path, err := s.settingsPath()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, errUsage{err}
	}
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), ".login.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errUsage{err}
	}
	user := ctx
	ctx, cancel := context.WithTimeout(ctx, 3*providerTime)
	defer cancel()
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil { // #nosec G115 -- a descriptor
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) { // a file system without locks, such as some networks' have
			return nil, errUsage{fmt.Errorf("lock %s: %w", f.Name(), errors.Join(err, f.Close()))}
		}
		next := time.NewTimer(lockLook)
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			if errors.Is(user.Err(), context.Canceled) { // by who has had enough, which is not the other command's fault
				return nil, errors.Join(context.Canceled, f.Close())
			}
			return nil, fail.Wrap(fmt.Errorf("%w: %w", err, f.Close()), fail.Unavailable, "another command writes the file of contexts, and does not come to an end")
		}
	}
}
