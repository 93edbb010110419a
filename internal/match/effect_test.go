package match_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/match"
)

// TestEffects: of every record that Diff or Change may leave it is known what becomes of it.
func TestEffects(t *testing.T) {
	made := &domain.Made{Spec: "s", Annotations: "a", Name: "x"}
	want := func(spec, annotations string) *domain.Wanted {
		return &domain.Wanted{Spec: spec, Annotations: annotations}
	}
	for name, c := range map[string]struct {
		record domain.Match
		wanted *domain.Wanted
		is     match.Effect
	}{
		"new":                             {domain.Match{Mark: domain.MarkPending}, want("s", "a"), match.EffectCreate},
		"new, for which there is no node": {domain.Match{Mark: domain.MarkPending}, &domain.Wanted{Without: "no node"}, match.EffectNothing},
		"as it is wanted":                 {domain.Match{Made: made, Mark: domain.MarkApplied, Wanted: want("s", "a")}, want("s", "a"), match.EffectKeep},
		"other annotations":               {domain.Match{Made: made, Mark: domain.MarkApplied, Wanted: want("s", "a")}, want("s", "b"), match.EffectChange},
		"another object":                  {domain.Match{Made: made, Mark: domain.MarkApplied, Wanted: want("s", "a")}, want("t", "a"), match.EffectReplace},
		"not wanted any more":             {domain.Match{Made: made, Mark: domain.MarkApplied, Wanted: want("s", "a")}, nil, match.EffectDelete},
		"its host has gone":               {domain.Match{Made: made, Mark: domain.MarkApplied, Wanted: want("s", "a")}, &domain.Wanted{Without: "no host"}, match.EffectDelete},
		"being deleted, wanted again":     {domain.Match{Made: made, Mark: domain.MarkDeleting}, want("s", "a"), match.EffectReplace},
		"refused by the cluster":          {domain.Match{Mark: domain.MarkRefused, Wanted: want("s", "a")}, want("s", "a"), match.EffectNothing},
		"refused, and another by now":     {domain.Match{Mark: domain.MarkRefused, Wanted: want("s", "a")}, want("t", "a"), match.EffectCreate},
		"could not be annotated":          {domain.Match{Made: made, Mark: domain.MarkUndeleted, Wanted: want("s", "a")}, want("s", "a"), match.EffectNothing},
		"never made, not wanted":          {domain.Match{Mark: domain.MarkPending, Wanted: want("s", "a")}, nil, match.EffectDelete},
	} {
		next, _ := match.Change(c.record, c.wanted, time.Unix(1, 0))
		require.Equal(t, c.is, match.EffectOf(&next), name)
		require.Contains(t, match.Effects, c.is)
	}
}
