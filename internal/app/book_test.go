package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// TestBindingsThatCannotBeReadAreLogged once, and rights go by the others; when nothing can be read nobody goes by anything.
func TestBindingsThatCannotBeReadAreLogged(t *testing.T) {
	var out bytes.Buffer
	book, wrong := &struct{ pages int }{7}, error(&domain.Unreadable{IDs: []string{"role-bindings/b"}, Cause: errors.New("damaged")})
	read := whoMay(func(context.Context) (*struct{ pages int }, error) { return book, wrong }, slog.New(slog.NewTextHandler(&out, nil)))
	for range 3 {
		got, err := read(t.Context())
		require.NoError(t, err)
		require.Same(t, book, got)
	}
	require.Equal(t, 1, strings.Count(out.String(), "role-bindings/b: damaged"), out.String())
	wrong = fail.New(fail.Unavailable, "no database")
	_, err := read(t.Context())
	require.ErrorIs(t, err, wrong)
}
