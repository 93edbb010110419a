package readiness_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/readiness"
)

func TestABookReadsOnceInAWhile(t *testing.T) {
	now, reads := time.Unix(0, 0), 0
	var stored []readiness.Rule
	var fault error
	b := readiness.NewBook(func(context.Context) ([]readiness.Rule, error) {
		reads++
		return stored, fault
	}, func() time.Time { return now })
	rules := func() *readiness.Rules {
		r, err := b.Rules(t.Context())
		require.NoError(t, err)
		return r
	}
	fault = errors.New("no store")
	_, err := b.Rules(t.Context())
	require.ErrorIs(t, err, fault)
	fault = nil
	first := rules()
	require.False(t, first.Has(database))
	require.Same(t, first, rules())
	require.Equal(t, 2, reads, "what could not be read is read again")

	stored = []readiness.Rule{rule("true")}
	now = now.Add(readiness.Freshness - 1)
	require.Same(t, first, rules(), "what has changed is not seen yet")
	now = now.Add(1)
	second := rules()
	require.True(t, second.Has(database))

	now = now.Add(readiness.Freshness)
	require.Same(t, second, rules(), "what has not changed is not compiled again")
	require.Equal(t, 4, reads)
}
