package activities

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/vary"
)

// wordy is a store in which each cluster of a provider has a document of a thousand key-value pairs, besides those that somebody names.
type wordy struct {
	Store
	clusters, reads int
}

func (s *wordy) document(cluster string) *domain.ClusterKV {
	o := &domain.ClusterKV{Metadata: domain.Metadata{Name: "kv"}}
	o.Parent = domain.ClusterName{Provider: "p", Name: cluster}.Key()
	many := map[string]string{"site": "of " + cluster}
	for n := range 1000 {
		many[fmt.Sprint("other-", n)] = fmt.Sprint(n)
	}
	o.Spec.KV = []map[string]string{many, {"CNI-Networking-Multi-CNI-Wrapper": "none", "site": "another"}, {"more": "x"}}
	return o
}

func (s *wordy) Each(_ context.Context, noun *domain.Noun, _ domain.Key, take func(domain.Object) error) error {
	if noun != domain.ClusterKVs {
		return nil
	}
	for n := range s.clusters {
		if err := take(s.document(fmt.Sprint("c", n))); err != nil {
			return err
		}
	}
	return nil
}

func (s *wordy) Get(_ context.Context, _ *domain.Noun, key domain.Key) (domain.Object, error) {
	s.reads++
	names, _ := domain.ClusterKVs.Split(key)
	return s.document(names["cluster"]), nil
}

// TestPairsAreKeptWhereTheyAreNamed, of targets: a provider may have thousands of clusters with a hundred thousand pairs each.
func TestPairsAreKeptWhereTheyAreNamed(t *testing.T) {
	const at = "http://clm/v2/cluster-providers/{clusterProvider}/clusters/{cluster}/kv-pairs/kv?key="
	store := &wordy{clusters: 20}
	l := &Control{Store: store}
	placed := func(pairBytes int) *wanted {
		generic := &vary.Generic{Customizations: []vary.Customized{{Spec: domain.CustomizationSpec{PatchType: domain.PatchJSON, PatchJSON: []domain.PatchStep{
			{Op: "add", Path: "/a", Value: []byte(`"$(` + at + `site)$"`)}, {Op: "add", Path: "/b", Value: []byte(`"$(` + at + `no-such)$"`)},
			{Op: "add", Path: "/c", Value: []byte(`"$(` + at + `{cluster})$"`)},
		}}}}}
		w := &wanted{
			cloud: &domain.LogicalCloud{}, members: map[domain.ClusterName]bool{}, targets: map[string][]plan.Target{},
			varying: []vary.Intent{generic}, generic: []*vary.Generic{generic}, pairBytes: pairBytes,
		}
		for n := range 17 {
			name := domain.ClusterName{Provider: "p", Name: fmt.Sprint("c", n)}
			w.members[name], w.targets["web"] = true, append(w.targets["web"], plan.Target{ClusterName: name})
		}
		require.NoError(t, l.loadPlaced(t.Context(), w))
		return w
	}
	asked := func(w *wanted, cluster, key string) string {
		t.Helper()
		u := strings.NewReplacer("{clusterProvider}", "p", "{cluster}", cluster).Replace(at)
		v, err := l.value(t.Context(), w, u+key)
		require.NoError(t, err)
		if v.Err != nil {
			return v.Err.Error()
		}
		return string(v.JSON)
	}

	w := placed(0)
	require.Len(t, w.pairs, 17)
	for key, pairs := range w.pairs {
		site := "of " + key.Segments()[3]
		require.Equal(t, domain.KVSpec{KV: []map[string]string{{"site": site}, {"site": "another"}}}, pairs)
	}
	for _, c := range w.placed["web"] {
		require.Equal(t, []domain.KVSpec{{KV: []map[string]string{{"CNI-Networking-Multi-CNI-Wrapper": "none"}}}}, c.Pairs)
	}
	require.Equal(t, `"of c3"`, asked(w, "c3", "site"))
	require.Equal(t, `there is no key "no-such"`, asked(w, "c3", "no-such"))
	require.Zero(t, store.reads)
	require.Equal(t, `"7"`, asked(w, "c3", "other-7"), "what no URL names as it stands is read again")
	require.Equal(t, 1, store.reads)

	w = placed(limits.Varied)
	require.Empty(t, w.pairs, "there is no room")
	require.Equal(t, `"of c3"`, asked(w, "c3", "site"))
	require.Equal(t, 2, store.reads)
}

// placing is a store of a group with so many app intents, each of which names as many clusters as a document may.
type placing struct {
	Store
	intents, handed int
}

func (p *placing) List(_ context.Context, noun *domain.Noun, _ domain.Key) ([]domain.Object, error) {
	if noun != domain.DeploymentIntents {
		return nil, nil
	}
	binding := &domain.DeploymentIntent{}
	binding.Spec.Intent = map[string]string{domain.PlacementIntentKey: "gpi"}
	return []domain.Object{binding}, nil
}

func (p *placing) Get(context.Context, *domain.Noun, domain.Key) (domain.Object, error) {
	return &domain.PlacementIntent{}, nil
}

func (p *placing) Each(_ context.Context, _ *domain.Noun, _ domain.Key, take func(domain.Object) error) error {
	clusters := make([]domain.Clusters, limits.JSON/100)
	for i := range clusters {
		clusters[i] = domain.Clusters{ClusterProvider: "provider", Cluster: "a-cluster-with-a-longer-name"}
	}
	for n := range p.intents {
		i := &domain.AppIntent{}
		i.Metadata.Name, i.Spec.App, i.Spec.Intent.AnyOf = fmt.Sprint("i", n), "web", clusters
		p.handed++
		if err := take(i); err != nil {
			return err
		}
	}
	return nil
}

// TestAppIntentsAreBounded together: of a hundred that are as large as may be not all are read.
func TestAppIntentsAreBounded(t *testing.T) {
	load := func(p *placing) (*wanted, error) {
		w := &wanted{group: &domain.DeploymentIntentGroup{}}
		return w, (&Control{Store: p}).loadIntents(t.Context(), w)
	}
	w, err := load(&placing{intents: 8})
	require.NoError(t, err)
	require.Len(t, w.intents["web"], 8)
	p := &placing{intents: 100}
	_, err = load(p)
	require.True(t, fail.Is(err, fail.Malformed), "%v", err)
	require.ErrorContains(t, err, fmt.Sprintf(`app intent "i%d" of generic placement intent gpi: the clusters that its app intents name take more than 67108864 bytes together`, p.handed-1))
	require.Less(t, p.handed, 12)
}
