package activities

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/vary"
)

// readGAC reads a generic k8s intent: its resources and their customizations, in the order of their creation, with files.
func (l *Control) readGAC(ctx context.Context, w *wanted, intent string) ([]vary.Intent, error) {
	key := domain.KeyOf(w.group).Child(domain.GenericK8sIntents.Collection, intent)
	if _, err := l.Store.Get(ctx, domain.GenericK8sIntents, key); err != nil {
		return nil, err
	}
	resources, err := made[*domain.GenericResource](l.Store.List(ctx, domain.GenericResources, key))
	if err != nil {
		return nil, err
	}
	customizations, err := made[*domain.Customization](l.customizations(ctx, w, intent, key))
	if err != nil {
		return nil, err
	}
	below := map[domain.Key][]vary.Customized{}
	for _, c := range customizations {
		if err := l.knownProvider(ctx, c); err != nil {
			return nil, err
		}
		one := vary.Customized{Name: c.Name, Spec: c.Spec}
		for _, f := range c.Files {
			data, err := l.Store.Blob(ctx, f.Content)
			if err != nil {
				return nil, err
			}
			if err := w.customized(intent, len(data)); err != nil {
				return nil, err
			}
			one.Files = append(one.Files, domain.Upload{Name: f.Name, Data: data})
		}
		below[c.Parent] = append(below[c.Parent], one)
	}
	apps := make([]string, 0, len(w.apps))
	for _, a := range w.apps {
		apps = append(apps, a.Name)
	}
	var intents []vary.Intent
	for _, r := range resources {
		g := &vary.Generic{Of: intent, Name: r.Name, Spec: r.Spec, Customizations: below[domain.KeyOf(r)]}
		if r.Template != "" && r.Spec.Adds() {
			if g.Template, err = l.Store.Blob(ctx, r.Template); err != nil {
				return nil, err
			}
			if err := w.customized(intent, len(g.Template)); err != nil {
				return nil, err
			}
		}
		if len(apps) > 0 { // in a rehearsal they may still come
			if err := g.Apps(apps); err != nil {
				return nil, err
			}
		}
		w.generic = append(w.generic, g)
		intents = append(intents, g)
	}
	return intents, nil
}

// customizations reads those of a generic k8s intent. It ends as soon as their patches are too large: each may have 8 MiB, and there may be any number.
func (l *Control) customizations(ctx context.Context, w *wanted, intent string, key domain.Key) (all []domain.Object, err error) {
	err = l.Store.Each(ctx, domain.Customizations, key, func(o domain.Object) error {
		all = append(all, o)
		bytes := 0
		for _, s := range o.(*domain.Customization).Spec.PatchJSON {
			bytes += len(s.Path) + len(s.From) + len(s.Value)
		}
		return w.customized(intent, bytes)
	})
	return all, err
}

// customized counts what generic k8s intents have, which is in memory until all apps are varied.
func (w *wanted) customized(intent string, bytes int) error {
	if w.customBytes += bytes; w.customBytes > limits.Varied {
		return fail.New(fail.Malformed, "%s intent %q: the templates, patches and files of the group's intents have more than %d bytes together",
			domain.ActorGAC, intent, limits.Varied)
	}
	return nil
}

// knownProvider refuses a customization for clusters of a provider that is not there: it would be for none, or all.
func (l *Control) knownProvider(ctx context.Context, c *domain.Customization) error {
	if c.Spec.ClusterSpecific != domain.True {
		return nil
	}
	provider := c.Spec.ClusterInfo.ClusterProvider
	_, err := l.Store.Get(ctx, domain.ClusterProviders, domain.Join(domain.ClusterProviders.Collection, provider))
	if fail.Is(err, fail.NotFound) {
		return fail.New(fail.Malformed, "%s intent %s, resource %q, customization %q: there is no cluster provider %q", domain.ActorGAC,
			c.Parent.Segments()[slices.Index(c.Parent.Segments(), domain.GenericK8sIntents.Collection)+1], c.Parent.Name(), c.Name, provider)
	}
	return err
}

// loadValues reads the values that patches have from elsewhere, on the clusters of an app.
func (l *Control) loadValues(ctx context.Context, w *wanted, app string) error {
	needs, missing := map[*vary.Generic][]string{}, map[string]string{} // the latter by URL, with an intent that needs it
	for _, g := range w.generic {
		if !g.Concerns(app) {
			continue
		}
		needs[g] = g.Needs(w.placed[app])
		for _, url := range needs[g] {
			if _, known := w.values[url]; !known {
				missing[url] = g.Of
			}
		}
	}
	if err := l.readValues(ctx, w, missing); err != nil {
		return err
	}
	for g, urls := range needs {
		if g.Values == nil {
			g.Values = map[string]vary.Value{}
		}
		for _, url := range urls {
			g.Values[url] = w.values[url]
		}
	}
	return nil
}

// valuesAtOnce is how many values are asked for at a time.
const valuesAtOnce = 16

// readValues reads values at URLs, some at a time. They are bounded: any user may say how many there are.
func (l *Control) readValues(ctx context.Context, w *wanted, missing map[string]string) error {
	if len(missing) == 0 {
		return nil
	}
	for at, intent := range missing {
		if !l.outside(at) {
			continue
		}
		if w.outside++; w.outside > limits.ExternalValues {
			return fail.New(fail.Malformed, "%s intent %q: the patches of the group have more than %d values from other hosts", domain.ActorGAC, intent, limits.ExternalValues)
		}
	}
	if w.outside > 0 {
		defer l.Elsewhere.Rest()
	}
	if w.values == nil {
		w.values = map[string]vary.Value{}
	}
	var mu sync.Mutex
	g, ctx := panics.WithContext(ctx)
	g.SetLimit(valuesAtOnce)
	for _, at := range slices.Sorted(maps.Keys(missing)) {
		g.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			v, err := l.value(ctx, w, at)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if w.valueBytes += len(v.JSON); w.valueBytes > limits.Varied {
				return fail.New(fail.Malformed, "%s intent %q: the values that patches of the group have from elsewhere have more than %d bytes together",
					domain.ActorGAC, missing[at], limits.Varied)
			}
			w.values[at] = v
			return nil
		})
	}
	return g.Wait()
}
