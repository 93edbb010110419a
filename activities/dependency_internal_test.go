package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
)

// dependencies is a store that has nothing else.
type dependencies struct {
	Store
	all []domain.Object
}

func (d *dependencies) ListUnder(context.Context, *domain.Noun, domain.Key) ([]domain.Object, error) {
	return d.all, nil
}

// wanting is a group of apps with names as long as may be, in which apps need all before them: perhaps more than there may be.
func wanting(needs int) (*Control, *wanted) {
	const composite = domain.Key("projects/p/composite-apps/ca/v1")
	w := &wanted{group: &domain.DeploymentIntentGroup{Identity: domain.Identity{Parent: composite}}}
	store := &dependencies{}
	for i := range limits.Apps {
		a := &domain.App{Identity: domain.Identity{Parent: composite}, Metadata: domain.Metadata{Name: fmt.Sprintf("%03d%s", i, strings.Repeat("a", 125))}}
		for n := 0; n < i && len(store.all) < needs; n++ {
			store.all = append(store.all, needing(a, w.apps[n], domain.UntilReady, domain.MaxDependencyWait))
		}
		w.apps = append(w.apps, a)
	}
	return &Control{Store: store}, w
}

func needing(a, other *domain.App, until string, wait int) *domain.AppDependency {
	return &domain.AppDependency{
		Identity: domain.Identity{Parent: domain.KeyOf(a)}, Metadata: domain.Metadata{Name: fmt.Sprint(other.Name[:3], until)},
		Spec: domain.AppDependencySpec{App: other.Name, OpStatus: until, Wait: wait},
	}
}

// TestTooManyDependencies: who approves is told of them, too.
func TestTooManyDependencies(t *testing.T) {
	t.Parallel()
	for _, rehearsal := range []bool{true, false} {
		l, w := wanting(limits.Dependencies + 1)
		w.rehearsal = rehearsal
		err := l.loadNeeds(t.Context(), w)
		require.True(t, fail.Is(err, fail.Malformed), "%v", err)
		require.ErrorContains(t, err, `composite app "ca/v1" has 2501 app dependencies, and may have 2500`)
	}
}

// TestDependenciesFit what Temporal takes, beside all else that is prepared.
func TestDependenciesFit(t *testing.T) {
	t.Parallel()
	l, w := wanting(limits.Dependencies)
	store := l.Store.(*dependencies)
	store.all = append(store.all, needing(w.apps[1], w.apps[0], domain.UntilDeployed, 1)) // which says nothing that another one does not
	require.NoError(t, l.loadNeeds(t.Context(), w))
	p := &plan.Plan{}
	for _, a := range w.apps {
		app := plan.App{Name: a.Name, Needs: w.needs[a.Name], Resources: make([]plan.ResourceID, 4)}
		for j := range fewTargets {
			app.Targets = append(app.Targets, plan.Target{ClusterName: domain.ClusterName{
				Provider: strings.Repeat("p", 128), Name: fmt.Sprint(j, strings.Repeat("c", 120)),
			}})
		}
		p.Apps = append(p.Apps, app)
	}
	data, err := json.Marshal(sizes(p, "sha256:0", nil))
	require.NoError(t, err)
	require.Greater(t, len(data), limits.Dependencies*128)
	require.Less(t, len(data), 3<<19)
}

func TestTheLongestDependencyCounts(t *testing.T) {
	t.Parallel()
	of := func(app string, ready bool, wait time.Duration) plan.Dependency {
		return plan.Dependency{App: app, Ready: ready, Wait: wait}
	}
	require.Equal(t, []plan.Dependency{
		of("a", true, 2), of("b", true, 1), of("b", false, 2), of("c", true, 2), of("d", false, 5), of("e", false, 0),
	}, longest([]plan.Dependency{
		of("c", false, 2), of("c", true, 2), of("c", true, 1),
		of("a", false, 1), of("a", true, 2), of("a", true, 1),
		of("b", false, 1), of("b", true, 0), of("b", false, 2), of("b", true, 1),
		of("d", false, 5), of("d", false, 4), of("e", false, 0),
	}))
}
