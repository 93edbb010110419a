package cas_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/fail"
)

func TestDoIsDoneAgainAsLongAsItIsOvertaken(t *testing.T) {
	refusal := fail.New(fail.Conflict, "the group is instantiated")
	for name, end := range map[string]error{"done": nil, "refused": refusal} {
		tries := 0
		err := cas.Do(t.Context(), func() error {
			tries++
			if tries < 5 {
				return fmt.Errorf("replace: %w", cas.ErrOvertaken)
			}
			return end
		})
		require.Equal(t, end, err, name)
		require.Equal(t, 5, tries, name)
	}
}

func TestDoEndsWithTheContext(t *testing.T) {
	stopped := errors.New("stopped")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		tries := 0
		err := cas.Do(ctx, func() error {
			tries++
			if tries == 3 {
				cancel(stopped)
			}
			return cas.ErrOvertaken
		})
		require.ErrorIs(t, err, stopped)
		require.Equal(t, 3, tries)
	})
}

func TestOvertaken(t *testing.T) {
	other := fail.New(fail.NotFound, "no")
	require.Equal(t, cas.ErrOvertaken, cas.Overtaken(fail.New(fail.Conflict, "revision 3 is not there")))
	require.Equal(t, error(other), cas.Overtaken(other))
	require.NoError(t, cas.Overtaken(nil))
}
