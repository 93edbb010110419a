package activities

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/render"
)

// empty is a store in which all blobs are empty.
type empty struct{ Store }

func (empty) Blob(context.Context, domain.Digest) ([]byte, error) { return nil, nil }

// slowCharts take a second each, but for quick ones, which are refused at once, and refused ones.
type slowCharts struct {
	quick, refused []string
	atOnce         int // 0 for many

	mu             sync.Mutex
	underWay, most int
}

func (c *slowCharts) AtOnce() int { return cmp.Or(c.atOnce, 2*rendersAtOnce) }

func (c *slowCharts) Render(ctx context.Context, in render.Input) (*plan.Bundle, error) {
	c.mu.Lock()
	c.underWay++
	c.most = max(c.most, c.underWay)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.underWay--
	}()
	if slices.Contains(c.quick, in.App) {
		return nil, fail.New(fail.Invalid, "app %s is refused", in.App)
	}
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if slices.Contains(c.refused, in.App) {
		return nil, fail.New(fail.Invalid, "app %s is refused", in.App)
	}
	return &plan.Bundle{App: in.App}, nil
}

// eachOf renders eight apps, and tells which were used, and how long that took.
func eachOf(ctx context.Context, c *slowCharts, d *draft) (used []string, took time.Duration, err error) {
	w := &wanted{
		group: &domain.DeploymentIntentGroup{Metadata: domain.Metadata{Name: "g"}},
		cloud: &domain.LogicalCloud{},
	}
	for n := range 8 {
		w.apps = append(w.apps, &domain.App{Metadata: domain.Metadata{Name: fmt.Sprint(n)}})
	}
	l, began := &Control{Store: empty{}, Charts: c}, time.Now()
	err = l.renderEach(ctx, w, d, func(app *domain.App, bundle *plan.Bundle) error {
		if bundle.App != app.Name {
			return fail.New(fail.Internal, "app %s got the bundle of %s", app.Name, bundle.App)
		}
		used = append(used, app.Name)
		return nil
	})
	return used, time.Since(began), err
}

// TestChartsAreRenderedBesideEachOther: all of a group have a minute.
func TestChartsAreRenderedBesideEachOther(t *testing.T) {
	taken, most := 0, 0
	spare := func() (func(), bool) { // one place
		if taken == 1 {
			return nil, false
		}
		taken++
		most = max(most, taken)
		return func() { taken-- }, true
	}
	for name, c := range map[string]struct {
		draft  *draft
		atOnce int
		most   int
	}{
		"an operation":                         {&draft{}, 0, rendersAtOnce},
		"an operation where there are two":     {&draft{}, 1, 1},
		"an operation where there are three":   {&draft{}, 2, 2},
		"a rehearsal for who asks for it all":  {&draft{rehearsal: true, keeps: true}, 0, rendersAtOnce},
		"a rehearsal without a place":          {&draft{rehearsal: true}, 0, 1},
		"a rehearsal with one":                 {&draft{rehearsal: true, spare: spare}, 0, 2},
		"a rehearsal with one, and two of all": {&draft{rehearsal: true, spare: spare}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				charts := &slowCharts{atOnce: c.atOnce}
				used, took, err := eachOf(t.Context(), charts, c.draft)
				require.NoError(t, err)
				require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7"}, used)
				require.Equal(t, c.most, charts.most)
				require.Less(t, took, time.Duration(8/c.most+1)*time.Second)
			})
		})
	}
	require.Equal(t, 1, most)
	require.Zero(t, taken, "all are given back")
}

// TestTheFirstRefusalCounts: that of an earlier app, though that of a later one comes before it.
func TestTheFirstRefusalCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		charts := &slowCharts{refused: []string{"2"}, quick: []string{"3"}}
		used, _, err := eachOf(t.Context(), charts, &draft{})
		require.EqualError(t, err, "app 2 is refused")
		require.Equal(t, []string{"0", "1"}, used)
		require.Zero(t, charts.underWay, "none goes on")
	})
}

// TestChartsThatTakeTooLong: who asked is told how far it came.
func TestChartsThatTakeTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		taken := 0
		d := &draft{rehearsal: true, spare: func() (func(), bool) {
			taken++
			return func() { taken-- }, true
		}}
		_, _, err := eachOf(ctx, &slowCharts{}, &draft{rehearsal: true})
		require.True(t, fail.Is(err, fail.Timeout), "%v", err)
		require.Equal(t, `planning deployment intent group "g" took too long: 2 of its 8 apps were rendered in time, app "2" was not`, fail.TextOf(err))
		_, _, err = eachOf(ctx, &slowCharts{}, d)
		require.True(t, fail.Is(err, fail.Timeout), "%v", err)
		require.Zero(t, taken, "all places are given back")
	})
}
