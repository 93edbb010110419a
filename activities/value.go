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

// Fetch gets the JSON object that is found at a URL. Its errors are Malformed for what nobody may ask for, or what is no such
// object, and Unavailable or Timeout for who does not answer.
type Fetch func(ctx context.Context, url string) ([]byte, error)

// value is what is found at a URL: the member value of a JSON object, as key-value pairs of clusters are given out. Those are
// looked up, whatever the host; others are asked for where the operator allows it.
func (l *Control) value(ctx context.Context, w *wanted, at string) (v vary.Value, err error) {
	v.JSON, v.Err = l.lookUp(ctx, w, at)
	if v.Err != nil && !fail.Is(v.Err, fail.Malformed) {
		return v, fail.Wrap(v.Err, fail.KindOf(v.Err), "the value of %s: %s", at, fail.TextOf(v.Err))
	}
	return v, nil
}

func (l *Control) lookUp(ctx context.Context, w *wanted, at string) (json.RawMessage, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, fail.New(fail.Malformed, "it is no URL")
	}
	if path, own := strings.CutPrefix(u.Path, "/v2/"); own {
		return l.ownValue(ctx, w, domain.Key(path), u.Query().Get("key"))
	}
	if l.Fetch == nil {
		return nil, fail.New(fail.Malformed, "no host is asked: name a key-value pair of a cluster, /v2/cluster-providers/…/kv-pairs/…?key=…")
	}
	body, err := l.Fetch(ctx, at)
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
	names, ok := domain.ClusterKVs.Split(key)
	if !ok || pair == "" {
		return nil, fail.New(fail.Malformed, "it is not that of a cluster's key-value pair: …/cluster-providers/p/clusters/c/kv-pairs/kv?key=k")
	}
	cluster := domain.ClusterName{Provider: names["clusterProvider"], Name: names["cluster"]}
	if !w.members[cluster] {
		return nil, fail.New(fail.Malformed, "cluster %s is not in logical cloud %q", cluster, w.cloud.Name)
	}
	o, err := l.Store.Get(ctx, domain.ClusterKVs, key)
	if fail.Is(err, fail.NotFound) {
		return nil, fail.New(fail.Malformed, "%s", fail.TextOf(err))
	}
	if err != nil {
		return nil, err
	}
	value, found := o.(*domain.ClusterKV).Spec.Value(pair)
	if !found {
		return nil, fail.New(fail.Malformed, "there is no key %q", pair)
	}
	return json.Marshal(value)
}
