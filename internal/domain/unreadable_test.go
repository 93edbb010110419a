package domain_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestWhatIsWholeIsSaidOfAllReads, whichever of them met it: the cause is only that of the first that cannot be read.
func TestWhatIsWholeIsSaidOfAllReads(t *testing.T) {
	damaged, keyless := errors.New("damaged"), domain.ErrNoKey
	of := func(cause, whole error) error {
		return &domain.Unreadable{IDs: []string{"a"}, Cause: cause, Whole: whole}
	}
	require.NotErrorIs(t, domain.And(of(damaged, nil), of(damaged, nil)), keyless)
	for _, err := range []error{
		of(damaged, keyless), domain.And(of(damaged, nil), of(keyless, keyless)), domain.And(of(damaged, keyless), of(damaged, nil)), domain.And(nil, of(damaged, keyless)),
	} {
		require.ErrorIs(t, err, keyless)
		require.ErrorIs(t, err, damaged)
	}
}
