package service

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// mute is a store with a document that cannot be read, which does what it is asked and then does not answer the first time.
type mute struct {
	Store
	raw    []byte // nil for none
	silent bool
}

func (m *mute) Unread(context.Context, *domain.Noun, domain.Key) ([]byte, error) {
	if m.raw == nil {
		return nil, fail.New(fail.NotFound, "not found")
	}
	return m.raw, nil
}

func (m *mute) Exists(context.Context, *domain.Noun, domain.Key) (bool, error) {
	return m.raw != nil, nil
}

func (m *mute) Discard(_ context.Context, _ *domain.Noun, _ domain.Key, raw []byte) error {
	if !bytes.Equal(m.raw, raw) {
		return fail.New(fail.Conflict, "another one")
	}
	m.raw = nil
	return m.answer()
}

func (m *mute) PutBack(_ context.Context, _ *domain.Noun, _ domain.Key, raw []byte) error {
	if m.raw != nil {
		return fail.New(fail.Conflict, "already exists")
	}
	m.raw = raw
	return m.answer()
}

func (m *mute) answer() error {
	if m.silent {
		return fail.New(fail.Unavailable, "no primary")
	}
	return nil
}

// TestADiscardWithoutAnAnswer: who discards what cannot be read, or puts it back, knows his own write again (decision 18).
func TestADiscardWithoutAnAnswer(t *testing.T) {
	raw := []byte("unread")
	m := &mute{raw: raw, silent: true}
	w, err := New(Deps{Store: m}).discards(t.Context(), domain.Projects, "projects/p")
	require.NoError(t, err)
	require.NoError(t, w.remove(t.Context()))
	require.Nil(t, m.raw)
	require.NoError(t, w.put(t.Context()))
	require.Equal(t, raw, m.raw)

	m.silent = false
	require.NoError(t, w.put(t.Context()), "it is there as it was")
	m.raw = []byte("another one's")
	require.True(t, fail.Is(w.put(t.Context()), fail.Conflict))
	require.True(t, fail.Is(w.remove(t.Context()), fail.Conflict))
}
