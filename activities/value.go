package activities

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/vary"
)

// Elsewhere are hosts that the operator lets be asked for values.
type Elsewhere interface {
	// Listed says whether the host of a URL is one of them.
	Listed(u *url.URL) bool
	// Get is what is found at a URL. Its errors are Malformed for what nobody may ask for, and Unavailable or Timeout for who does
	// not answer.
	Get(ctx context.Context, u *url.URL) ([]byte, error)
	// Rest says that nothing more is to be asked for now: connections that were kept for that are closed.
	Rest()
}

// outside says whether another host is asked for the value at a URL.
func (l *Control) outside(at string) bool {
	u, err := url.Parse(at)
	return err == nil && l.Elsewhere != nil && l.Elsewhere.Listed(u)
}

// value is what is found at a URL: the member value of a JSON object, as key-value pairs of clusters and of cluster sync objects are given out.
// Those are looked up, whatever the host, unless the operator has listed it: EMCO's documents name the host of its cluster manager. Of other
// hosts those are asked that are listed.
func (l *Control) value(ctx context.Context, w *wanted, at string) (v vary.Value, err error) {
	v.JSON, v.Err = l.lookUp(ctx, w, at)
	if v.Err != nil && !fail.Is(v.Err, fail.Malformed) {
		return v, fail.Wrap(v.Err, fail.KindOf(v.Err), "the value of %s: %s", vary.Redacted(at), fail.TextOf(v.Err))
	}
	return v, nil
}

func (l *Control) lookUp(ctx context.Context, w *wanted, at string) (json.RawMessage, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, fail.New(fail.Malformed, "it is no URL")
	}
	if l.Elsewhere == nil || !l.Elsewhere.Listed(u) {
		key := domain.Key(strings.TrimPrefix(u.Path, "/v2/"))
		for _, noun := range []*domain.Noun{domain.ClusterKVs, domain.ClusterSyncObjects} {
			if _, own := noun.Split(key); own && strings.HasPrefix(u.Path, "/v2/") {
				return l.ownValue(ctx, w, noun, key, u.Query().Get("key"))
			}
		}
		return nil, fail.New(fail.Malformed, "host %s is not asked: name a key-value pair of a cluster, /v2/cluster-providers/…/clusters/…/kv-pairs/…?key=…, "+
			"or one of a provider, /v2/cluster-providers/…/cluster-sync-objects/…?key=…, or have the operator list the host by --external-hosts (DROVER_EXTERNAL_HOSTS)", u.Host)
	}
	body, err := l.Elsewhere.Get(ctx, u)
	if err != nil {
		return nil, err
	}
	var answer struct{ Value json.RawMessage }
	if json.Unmarshal(body, &answer) != nil || len(answer.Value) == 0 {
		return nil, fail.New(fail.Malformed, "the answer is no JSON object with the member value")
	}
	return answer.Value, nil
}

// ownValue is a value of the key-value pairs of a cluster, or of a sync object of a provider. Only clusters of the group's logical cloud are looked
// at, and providers that have one of them: whoever may write the group need not know what others keep.
func (l *Control) ownValue(ctx context.Context, w *wanted, noun *domain.Noun, key domain.Key, pair string) (json.RawMessage, error) {
	if pair == "" {
		return nil, fail.New(fail.Malformed, "it does not say which key is meant: …/%s?key=k", noun.Collection+"/"+key.Name())
	}
	names, _ := noun.Split(key)
	provider := names["clusterProvider"]
	cluster := domain.ClusterName{Provider: provider, Name: names["cluster"]}
	switch {
	case noun == domain.ClusterKVs && !w.members[cluster]:
		return nil, fail.New(fail.Malformed, "cluster %s is not in logical cloud %q", cluster, w.cloud.Name)
	case noun == domain.ClusterSyncObjects && !w.hasProvider(provider):
		return nil, fail.New(fail.Malformed, "no cluster of provider %s is in logical cloud %q", provider, w.cloud.Name)
	}
	pairs, known := w.pairs[key] // those of targets were all read together
	if !known || !w.keys[pair] {
		o, err := l.Store.Get(ctx, noun, key)
		if fail.Is(err, fail.NotFound) {
			return nil, fail.New(fail.Malformed, "%s", fail.TextOf(err))
		}
		if err != nil {
			return nil, err
		}
		pairs = o.(domain.KeyValues).Pairs()
	}
	value, found := pairs.Value(pair)
	if !found {
		return nil, fail.New(fail.Malformed, "there is no key %q", pair)
	}
	return json.Marshal(value)
}

// hasProvider says whether a cluster of a provider is in the logical cloud.
func (w *wanted) hasProvider(provider string) bool {
	for c := range w.members {
		if c.Provider == provider {
			return true
		}
	}
	return false
}
