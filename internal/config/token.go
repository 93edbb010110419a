package config

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/lasting"
)

// Token reads the file with the token that Temporal is shown; nil when none is configured. As certificates, it is read again when it has changed, for every call
// that is made then. What cannot be read is logged, and what was read before stays.
func (t Temporal) Token(log *slog.Logger) (func() string, error) {
	if t.TokenFile == "" {
		return nil, nil
	}
	k := &kept{file: t.TokenFile, log: log}
	if err := k.read(); err != nil {
		return nil, fmt.Errorf("token for Temporal: %w", err)
	}
	return k.present, nil
}

// kept has what was last read of a file with a token.
type kept struct {
	file string
	log  *slog.Logger

	mu    sync.Mutex
	seen  seen
	fresh bool            // as with reloaded
	fails lasting.Trouble // it could not be read, when that was tried last
	token string
}

// present is the token that the file has now, or had when it could last be read.
func (k *kept) present() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now, err := look(k.file); err != nil || k.fresh || !now.same(k.seen) {
		switch err := k.read(); {
		case err == nil:
			k.fails.Ends()
		case k.fails.Begins(err.Error()): // once, and not for every call
			k.log.Error("the token for Temporal stays as it was", slog.String("error", err.Error()))
		}
	}
	return k.token
}

func (k *kept) read() error {
	now, err := look(k.file)
	if err != nil {
		return err
	}
	if !now.file.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file, and so cannot be read again", k.file)
	}
	text, err := os.ReadFile(k.file)
	if err != nil {
		return err
	}
	token, err := tokenIn(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", k.file, err)
	}
	k.seen, k.fresh, k.token = now, time.Since(now.changed) < whole, token
	return nil
}

// look is what tells whether a file has changed.
func look(file string) (seen, error) {
	info, err := os.Stat(file)
	if err != nil {
		return seen{}, err
	}
	return seen{info, info.ModTime(), info.Size()}, nil
}

// tokenIn is the token of a file, which the error does not show.
func tokenIn(text string) (string, error) {
	switch words := strings.Fields(text); {
	case len(words) == 0:
		return "", errors.New("there is no token in it")
	case len(words) > 1:
		return "", errors.New("there is more in it than a token, which stands alone, without the word Bearer")
	case strings.ContainsFunc(words[0], func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("what is in it is no token: it has characters other than those of ASCII")
	default:
		return words[0], nil
	}
}
