package activities

import (
	"context"
	"sync"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/match"
)

// Settings keeps what the matches of tenants follow from, but for workloads.
type Settings interface {
	Children(ctx context.Context, n *domain.Noun, parent domain.Key) ([]domain.Object, error)
	// SettingsVersion is another one before something of it is changed, and changing is true until the change is over.
	SettingsVersion(ctx context.Context, tenant string) (version string, changing bool, err error)
}

// settings are the tenant itself, its hosts, and those rules that were asked for.
type settings struct {
	version string // from before the rest was read
	tenant  *domain.Tenant
	hosts   []*domain.Host

	mu    sync.Mutex
	rules map[domain.Key]*match.Rule
	bytes int64 // of the rules
}

// knownSettings are those that this process has read, by tenant. The zero value is ready to use.
type knownSettings struct {
	once  sync.Once
	cache *lru.Weighed[string, *settings]
}

// of is the cache, with room for as many tenants as the API keeps, and for as many bytes of their rules.
func (k *knownSettings) of() *lru.Weighed[string, *settings] {
	k.once.Do(func() { k.cache = lru.NewWeighed[string, *settings](2_000, 4*limits.TenantRuleBytes) })
	return k.cache
}

// settings are those of a tenant, as they are stored by now. There is no tenant in them when it is gone.
func (m *Match) settings(ctx context.Context, tenant string) (*settings, error) {
	version, changing, err := m.Store.SettingsVersion(ctx, tenant)
	if err != nil {
		return nil, err
	}
	if known, ok := m.known.of().Get(tenant); ok && !changing && known.version == version {
		return known, nil
	}
	s := &settings{version: version, rules: map[domain.Key]*match.Rule{}}
	if s.tenant, err = m.tenant(ctx, tenant); err != nil || s.tenant == nil {
		return s, err
	}
	hosts, err := m.Store.Children(ctx, domain.Hosts, domain.TenantKey(tenant))
	if err != nil {
		return nil, err
	}
	for _, h := range hosts {
		s.hosts = append(s.hosts, h.(*domain.Host))
	}
	if !changing {
		m.known.of().Add(tenant, s, 0)
	}
	return s, nil
}

// weigh notes what settings weigh by now that are kept: rules come as they are asked for.
func (m *Match) weigh(tenant string, s *settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := m.known.of().Get(tenant); ok && known == s {
		m.known.of().Add(tenant, s, s.bytes)
	}
}

// rule is one of the tenant's, or of the operator's, nil when it is gone or would not be taken any more.
func (s *settings) rule(ctx context.Context, store MatchStore, key domain.Key) (*match.Rule, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rule, known := s.rules[key]; known {
		return rule, nil
	}
	o, err := store.Get(ctx, domain.RuleNoun(key), key)
	if err != nil && !fail.Is(err, fail.NotFound) {
		return nil, err
	}
	var compiled *match.Rule
	if rule := domain.RuleOf(o); err == nil && rule != nil {
		s.bytes += int64(rule.Bytes())
		if all := match.CompileAll(s.tenant, []*domain.WorkloadRule{rule}); len(all) == 1 {
			compiled = all[0]
		}
	}
	s.rules[key] = compiled
	return compiled, nil
}
