package activities

import (
	"context"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/stored"
)

// decodedBundles and decodedBytes bound Kube.bundles. heldOfResource is what a resource takes beside its manifest.
const (
	decodedBundles, decodedBytes = 64, limits.Bundle
	heldOfResource               = 256
)

// bundle is that of a plan for an owner.
func (k *Kube) bundle(ctx context.Context, owner domain.Key, digest domain.Digest) (*plan.Bundle, error) {
	b, ok := k.decoded(owner, digest)
	measure.Looked(measure.CacheBundles, ok)
	if ok {
		return b, nil
	}
	of := bundleKey{domain.ScopeOf(owner), digest}
	return k.bundleReads.Get(ctx, of.String(), func(ctx context.Context) (*plan.Bundle, error) {
		if b, ok := k.decoded(owner, digest); ok { // by the read before this one
			return b, nil
		}
		return k.decode(ctx, owner, digest)
	})
}

// decode reads a bundle and keeps it.
func (k *Kube) decode(ctx context.Context, owner domain.Key, digest domain.Digest) (*plan.Bundle, error) {
	b, err := stored.JSON[plan.Bundle](ctx, k.leaves, digest)
	if err != nil {
		return nil, err
	}
	key, weight := bundleKey{digest: digest}, int64(0)
	for i := range b.Resources {
		if plan.MayBeSealed(b.Resources[i].Manifest) {
			key.scope = domain.ScopeOf(owner)
		}
		if err := k.open(owner, &b.Resources[i]); err != nil {
			return nil, err
		}
		weight += heldOf(&b.Resources[i])
	}
	k.bundles.Add(key, b, weight)
	return b, nil
}

// decoded is a bundle that is kept, which is used by that.
func (k *Kube) decoded(owner domain.Key, digest domain.Digest) (b *plan.Bundle, ok bool) {
	if b, ok = k.bundles.Get(bundleKey{"", digest}); !ok {
		b, ok = k.bundles.Get(bundleKey{domain.ScopeOf(owner), digest})
	}
	return b, ok
}

// heldOf is what a resource takes in memory, about.
func heldOf(r *plan.Resource) int64 { return heldOfResource + int64(len(r.Manifest)) }

// bundleKey names a decoded bundle. One with sealed values is decoded for each scope.
type bundleKey struct {
	scope  domain.Key    // "" for one without
	digest domain.Digest // or those of a bundle and an overlay
}

// String is the key as a text.
func (k bundleKey) String() string { return string(k.scope) + " " + string(k.digest) }

// open opens what is sealed in a resource for the owner's project. It stays in this process.
func (k *Kube) open(owner domain.Key, r *plan.Resource) (err error) {
	if k.Secrets != nil {
		r.Manifest, err = plan.Open(owner, r.Manifest, k.Secrets.Open)
	}
	return err
}

// varied is a bundle with an overlay, "" for none. Such bundles share what they have in common, which is counted with the bundle alone: one of
// which the bundle is not kept is not kept either, or what it holds would not be counted.
func (k *Kube) varied(ctx context.Context, owner domain.Key, digest domain.Digest, overlay domain.Part) (*plan.Bundle, error) {
	if overlay == "" {
		return k.bundle(ctx, owner, digest)
	}
	both := bundleKey{domain.ScopeOf(owner), digest + "+" + domain.Digest(overlay)}
	kept := func() (*plan.Bundle, bool) {
		b, ok := k.bundles.Get(both)
		if ok {
			k.decoded(owner, digest) // is used after it, so that it is forgotten after it
		}
		return b, ok
	}
	if b, ok := kept(); ok {
		return b, nil
	}
	return k.bundleReads.Get(ctx, both.String(), func(ctx context.Context) (*plan.Bundle, error) {
		if b, ok := kept(); ok { // by the read before this one
			return b, nil
		}
		return k.vary(ctx, owner, both, digest, overlay)
	})
}

// vary makes a bundle with an overlay, and keeps it by a key.
func (k *Kube) vary(ctx context.Context, owner domain.Key, both bundleKey, digest domain.Digest, overlay domain.Part) (*plan.Bundle, error) {
	base, err := k.bundle(ctx, owner, digest)
	if err != nil {
		return nil, err
	}
	o, err := stored.Part[plan.Overlay](ctx, k.leaves, overlay)
	if err != nil {
		return nil, err
	}
	weight := heldOfResource * int64(len(base.Resources))
	for i := range o.Resources {
		if err := k.open(owner, &o.Resources[i].Resource); err != nil {
			return nil, err
		}
		weight += heldOf(&o.Resources[i].Resource)
	}
	b := o.On(base)
	k.bundles.Add(both, b, weight)
	if of, ok := k.decoded(owner, digest); !ok || of != base {
		k.bundles.Remove(both)
	}
	return b, nil
}
