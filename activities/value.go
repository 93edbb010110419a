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

// value is what is found at a URL: the member value of a JSON object, as key-value pairs of clusters are given out. Those are
// looked up, whatever the host, unless the operator has listed it: EMCO's documents name the host of its cluster manager. Of other
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
		if _, own := domain.ClusterKVs.Split(key); own && strings.HasPrefix(u.Path, "/v2/") {
			return l.ownValue(ctx, w, key, u.Query().Get("key"))
		}
		return nil, fail.New(fail.Malformed, "host %s is not asked: name a key-value pair of a cluster, /v2/cluster-providers/…/clusters/…/kv-pairs/…?key=…, "+
			"or have the operator list the host by --external-hosts (DROVER_EXTERNAL_HOSTS)", u.Host)
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

// ownValue is a value of a cluster's key-value pairs. Only clusters of the group's logical cloud are looked at: whoever may write
// the group need not know what others keep.
func (l *Control) ownValue(ctx context.Context, w *wanted, key domain.Key, pair string) (json.RawMessage, error) {
	names, _ := domain.ClusterKVs.Split(key)
	if pair == "" {
		return nil, fail.New(fail.Malformed, "it does not say which key is meant: …/cluster-providers/p/clusters/c/kv-pairs/kv?key=k")
	}
	cluster := domain.ClusterName{Provider: names["clusterProvider"], Name: names["cluster"]}
	if !w.members[cluster] {
		return nil, fail.New(fail.Malformed, "cluster %s is not in logical cloud %q", cluster, w.cloud.Name)
	}
	kv := w.pairs[key] // those of targets were all read together
	if kv == nil {
		o, err := l.Store.Get(ctx, domain.ClusterKVs, key)
		if fail.Is(err, fail.NotFound) {
			return nil, fail.New(fail.Malformed, "%s", fail.TextOf(err))
		}
		if err != nil {
			return nil, err
		}
		kv = o.(*domain.ClusterKV)
	}
	value, found := kv.Spec.Value(pair)
	if !found {
		return nil, fail.New(fail.Malformed, "there is no key %q", pair)
	}
	return json.Marshal(value)
}
