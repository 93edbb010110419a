package door_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/span/spantest"
)

// TestWhatIsNoFaultIsNoErrorSpan: who looks for what is broken finds neither refusals nor clients that left.
func TestWhatIsNoFaultIsNoErrorSpan(t *testing.T) {
	for outcome, c := range map[string]struct {
		err  error
		want codes.Code
	}{
		"done":        {nil, codes.Unset},
		"Canceled":    {fmt.Errorf("store: %w", context.Canceled), codes.Unset},
		"Forbidden":   {fail.New(fail.Forbidden, "no"), codes.Unset},
		"Invalid":     {fail.New(fail.Invalid, "no"), codes.Unset},
		"Unavailable": {fail.New(fail.Unavailable, "away"), codes.Error},
		"Timeout":     {fail.New(fail.Timeout, "late"), codes.Error},
		"Internal":    {errors.New("defect"), codes.Error},
	} {
		t.Run(outcome, func(t *testing.T) {
			r, said := spantest.Record(t), &bytes.Buffer{}
			d := door.New(door.Parts{}, door.Traced(slog.New(slog.NewTextHandler(said, nil))))
			err := d.Pass(t.Context(), &door.Request{Verb: door.Create, Noun: domain.Projects}, func(context.Context, door.Service) error { return c.err })
			require.Equal(t, c.err, err)
			require.Len(t, r.Ended(), 1)
			require.Equal(t, c.want, r.Ended()[0].Status().Code)
			require.Contains(t, said.String(), "outcome="+outcome+" ")
		})
	}
}
