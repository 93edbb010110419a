package service

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/stored"
)

// manifests are those that status documents show at the moment. A document has those of one app at a time, as it is written app by app, and shares
// them with others that show the same. How much all have is bounded: who reads slowly has them for long, and there may be many who do.
type manifests struct {
	most int64 // bytes of them, as they are stored
	room *semaphore.Weighted

	mu     sync.Mutex
	of     map[appOf]*appManifests         // that somebody has, or waits for
	scopes map[domain.Key]*manifestsScoped // in which somebody does
}

// appOf names an app of a plan.
type appOf struct {
	plan domain.Digest
	app  string
}

// appManifests are those of an app, which must not be changed.
type appManifests struct {
	bundle   *plan.Bundle
	overlays []*plan.Overlay
	err      error
	done     chan struct{} // closed when the members above are there

	readers int    // those who wait included; guarded by the mutex of manifests
	leave   func() // ends the reading, or gives back the room
}

// manifestsScoped is the room of documents of a project, or of what else is the scope of an owner: half of all.
type manifestsScoped struct {
	room  *semaphore.Weighted
	users int
}

func newManifests(most int64) *manifests {
	return &manifests{most: most, room: semaphore.NewWeighted(most), of: map[appOf]*appManifests{}, scopes: map[domain.Key]*manifestsScoped{}}
}

// manifestsRead reads the manifests of an app of a plan.
type manifestsRead struct {
	from  stored.Blobs
	masks bundle.Masker
	owner domain.Key
	app   *plan.App
}

// take gives the manifests of an app, which are the caller's until leave is called. Exhausted when documents of the same project have all of their room
// for so long, Unavailable when those of others have all that there is.
func (m *manifests) take(ctx context.Context, of appOf, r *manifestsRead, wait time.Duration) (a *appManifests, leave func(), err error) {
	a = m.join(ctx, of, r, wait)
	select {
	case <-a.done:
		err = a.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	leave = func() { m.part(of, a) }
	if err != nil {
		leave()
		return nil, nil, err
	}
	return a, leave, nil
}

// join begins to read the manifests, unless somebody has.
func (m *manifests) join(ctx context.Context, of appOf, r *manifestsRead, wait time.Duration) *appManifests {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.of[of]
	if a == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // others may wait for it
		a = &appManifests{done: make(chan struct{})}
		var give func()
		a.leave = func() {
			cancel()
			<-a.done
			if give != nil {
				give()
			}
		}
		m.of[of] = a
		go func() {
			defer close(a.done)
			a.err = panics.Do(ctx, func() (err error) {
				if give, err = m.makeRoom(ctx, r, wait); err == nil {
					a.bundle, a.overlays, err = r.read(ctx)
				}
				return err
			})
		}()
	}
	a.readers++
	return a
}

// part is the end of one who has the manifests, or does not wait for them any more.
func (m *manifests) part(of appOf, a *appManifests) {
	m.mu.Lock()
	a.readers--
	last := a.readers == 0
	if last {
		delete(m.of, of)
	}
	m.mu.Unlock()
	if last {
		a.leave()
	}
}

// makeRoom waits for the room of what is to be read. What needs more than half of all has half.
func (m *manifests) makeRoom(ctx context.Context, r *manifestsRead, wait time.Duration) (give func(), err error) {
	bytes, err := r.size(ctx)
	if err != nil {
		return nil, err
	}
	bytes = min(bytes, m.most/2)
	scope := domain.ScopeOf(r.owner)
	own := m.enter(scope)
	began := time.Now()
	if acquire(ctx, own.room, bytes, wait) != nil {
		m.exit(scope)
		return nil, errManifests(fail.Exhausted, "other documents of "+string(scope))
	}
	if acquire(ctx, m.room, bytes, wait-time.Since(began)) != nil {
		own.room.Release(bytes)
		m.exit(scope)
		return nil, errManifests(fail.Unavailable, "others")
	}
	return func() {
		m.room.Release(bytes)
		own.room.Release(bytes)
		m.exit(scope)
	}, nil
}

// errManifests tells that there is no room for manifests.
func errManifests(kind fail.Kind, by string) error {
	return &fail.Error{
		Kind: kind, RetryAfter: policy.ReadLater,
		Message: "all the memory that there is for manifests is taken by " + by + ", which are read slowly: try again later, or ask without output=detail",
	}
}

func (m *manifests) enter(scope domain.Key) *manifestsScoped {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.scopes[scope]
	if s == nil {
		s = &manifestsScoped{room: semaphore.NewWeighted(m.most / 2)}
		m.scopes[scope] = s
	}
	s.users++
	return s
}

func (m *manifests) exit(scope domain.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.scopes[scope]
	if s.users--; s.users == 0 {
		delete(m.scopes, scope)
	}
}

// size is what the manifests take, about: as much as they have as they are stored.
func (r *manifestsRead) size(ctx context.Context) (bytes int64, err error) {
	digests := map[domain.Digest]bool{r.app.Bundle: true}
	for _, overlay := range r.app.Overlays() {
		digest, _, err := overlay.Cut()
		if err != nil {
			return 0, err
		}
		digests[digest] = true
	}
	for digest := range digests {
		data, err := r.from.Blob(ctx, digest)
		if err != nil {
			return 0, err
		}
		bytes += int64(len(data))
	}
	return bytes, nil
}

// read reads them. What Secrets hold is masked, with digests that are the same in all of a project.
func (r *manifestsRead) read(ctx context.Context) (*plan.Bundle, []*plan.Overlay, error) {
	b, err := stored.JSON[plan.Bundle](ctx, r.from, r.app.Bundle)
	if err != nil {
		return nil, nil, err
	}
	overlays, err := stored.Parts[plan.Overlay](ctx, r.from, r.app.Overlays())
	if err != nil {
		return nil, nil, err
	}
	within := strings.Join(r.owner.Segments()[:2], "/")
	mask := func(of *plan.Resource) { of.Manifest = r.masks.Mask(within, of.Manifest) }
	for i := range b.Resources {
		mask(&b.Resources[i])
	}
	for _, o := range overlays {
		for i := range o.Resources {
			mask(&o.Resources[i].Resource)
		}
	}
	return b, overlays, nil
}

// at is the manifest of a resource on the clusters of a variant, 0 for what the bundle has; nil for none.
func (a *appManifests) at(variant, index int) json.RawMessage {
	if variant > 0 && variant <= len(a.overlays) {
		if r := a.overlays[variant-1].At(index); r != nil {
			return r.Manifest
		}
	}
	if index < len(a.bundle.Resources) {
		return a.bundle.Resources[index].Manifest
	}
	return nil
}

// manifests gives those of a plan's resources, as view.Source.Manifest. It has those of one app at a time, of the one that it was asked for
// last, until leave is called. For the first it waits as long as who reads may wait, and for others, when the caller has a part of the answer, longer.
func (l *Lifecycle) manifests(ctx context.Context, digest domain.Digest, p *plan.Plan) (
	manifest func(app string, variant, index int) (json.RawMessage, error), leave func(),
) {
	var (
		at    string
		has   *appManifests
		part  = func() {}
		begun bool
	)
	leave = func() {
		part()
		has, part = nil, func() {}
	}
	manifest = func(name string, variant, index int) (json.RawMessage, error) {
		if has != nil && at == name {
			return has.at(variant, index), nil
		}
		leave()
		app := p.App(name)
		if app == nil {
			return nil, nil
		}
		in, wait := ctx, policy.ReadWait
		if begun { // the request's time may be over: who reads may take longer
			var cancel context.CancelFunc
			in, cancel = context.WithTimeout(context.WithoutCancel(ctx), policy.Plain)
			defer cancel()
			wait = policy.Plain
		}
		a, end, err := l.onShow.take(in, appOf{digest, name}, &manifestsRead{l.records, l.Masks, p.Owner, app}, wait)
		if err != nil {
			return nil, err
		}
		at, has, part, begun = name, a, end, true
		return a.at(variant, index), nil
	}
	return manifest, leave
}
