package render

import (
	"context"
	"fmt"
	"log" //nolint:depguard // it is where Helm says what it leaves out
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
)

// ear collects what Helm's libraries log of a chart, as Helm shows it to whoever installs it: a condition that is no truth, a value that
// cannot go over another one. They log to the process as a whole, so it can be heard only where nothing else is rendered beside it.
type ear struct {
	mu    sync.Mutex
	known map[string]bool
	more  bool // than are known
}

// Bounds of what is heard.
const (
	maxHeard     = 20 // sentences
	maxHeardText = 300
)

// listen collects what is logged until it is told to stop, which gives it.
func listen() (stop func() []string) {
	e := &ear{known: map[string]bool{}}
	logger, out, flags := slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(slog.New(e)) // log, too, with its flags
	log.SetOutput(e)
	return func() []string {
		slog.SetDefault(logger)
		log.SetOutput(out)
		log.SetFlags(flags)
		e.mu.Lock()
		defer e.mu.Unlock()
		all := slices.Sorted(maps.Keys(e.known)) // what Helm finds in maps it finds in any order
		if e.more {
			all = append(all, "Helm warns of more")
		}
		return all
	}
}

// hear takes a sentence, once. Helm puts values in brackets at its end, which may be secret.
func (e *ear) hear(text string) {
	text, _, _ = strings.Cut(text, "\n")
	text, _, _ = strings.Cut(text, "(")
	text = strings.TrimSpace(strings.TrimPrefix(text, "warning: "))
	text = "Helm: " + strings.ToValidUTF8(text[:min(len(text), maxHeardText)], "")
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known[text] {
		return
	}
	if len(e.known) == maxHeard {
		e.more = true
		return
	}
	e.known[text] = true
}

// Write implements io.Writer, for package log.
func (e *ear) Write(b []byte) (int, error) {
	e.hear(string(b))
	return len(b), nil
}

// Enabled implements slog.Handler.
func (e *ear) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements slog.Handler.
func (e *ear) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(", %s %s", a.Key, a.Value)
		return true
	})
	e.hear(text)
	return nil
}

// WithAttrs implements slog.Handler.
func (e *ear) WithAttrs([]slog.Attr) slog.Handler { return e }

// WithGroup implements slog.Handler.
func (e *ear) WithGroup(string) slog.Handler { return e }
