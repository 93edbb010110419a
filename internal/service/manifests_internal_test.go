package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/status"
)

// bundleReads has plans of three apps, a, b and c, in any project: the digest of a plan names it. It counts who reads what.
type bundleReads struct {
	Records
	bytes int // that a manifest has

	mu    sync.Mutex
	reads map[domain.Digest]int
}

func (b *bundleReads) Leaves(context.Context, string) ([]domain.Leaf, error) { return nil, nil }

// Blob is a plan, such as project.7, the bundle of one of its apps, such as project.7.a, or the overlays of an app.
func (b *bundleReads) Blob(_ context.Context, digest domain.Digest) ([]byte, error) {
	b.mu.Lock()
	b.reads[digest]++
	b.mu.Unlock()
	parts := strings.Split(string(digest), ".")
	id := plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: "one"}
	resource := plan.Resource{ResourceID: id, Manifest: fmt.Appendf(nil, `{"of":%q,"data":%q}`, digest, strings.Repeat("x", b.bytes))}
	switch len(parts) {
	case 2:
		p := plan.Plan{Owner: domain.Key("projects/" + parts[0] + "/logical-clouds/c")}
		for _, name := range []string{"a", "b", "c"} {
			p.Apps = append(p.Apps, plan.App{
				Name: name, Resources: []plan.ResourceID{id}, Bundle: digest + domain.Digest("."+name),
				Variants: []plan.Variant{{Overlay: domain.PartOf(digest+domain.Digest("."+name+".overlays"), 0)}},
				Targets: []plan.Target{
					{ClusterName: domain.ClusterName{Provider: "p", Name: "one"}}, {ClusterName: domain.ClusterName{Provider: "p", Name: "two"}, Variant: 1},
				},
			})
		}
		return json.Marshal(p)
	case 3:
		return json.Marshal(plan.Bundle{App: parts[2], Resources: []plan.Resource{resource}})
	default:
		resource.Manifest = fmt.Appendf(nil, `{"of":%q}`, digest)
		return json.Marshal([]plan.Overlay{{Resources: []plan.Overlaid{{Resource: resource}}}})
	}
}

// detailOf is the status with output=detail of a plan.
func detailOf(t *testing.T, l *Lifecycle, digest domain.Digest, query string) *StatusDocument {
	t.Helper()
	return detailFor(t.Context(), t, l, digest, query)
}

func detailFor(ctx context.Context, t *testing.T, l *Lifecycle, digest domain.Digest, query string) *StatusDocument {
	t.Helper()
	v, err := url.ParseQuery("output=detail&" + query)
	require.NoError(t, err)
	d := &StatusDocument{}
	d.query, err = status.ParseQuery(v)
	require.NoError(t, err)
	d.source.Subject, d.source.ContextID, d.source.Status = status.SubjectOf("projects/p/logical-clouds/c"), "7", domain.ContextInstantiated
	i := &domain.Instance{ContextID: "7", Plan: digest, Status: domain.ContextInstantiated, Operation: domain.OpInstantiate}
	require.NoError(t, l.gatherApps(ctx, d, i, domain.Scope{Operation: domain.OpInstantiate}, false))
	return d
}

// reader reads a document as it is let to.
type reader struct {
	bytes.Buffer
	began chan struct{} // closed with the first byte
	let   chan struct{}
	once  sync.Once
}

func newReader() *reader { return &reader{began: make(chan struct{}), let: make(chan struct{})} }

func (r *reader) Write(data []byte) (int, error) {
	r.once.Do(func() { close(r.began) })
	<-r.let
	return r.Buffer.Write(data)
}

func detailed(from *bundleReads) *Lifecycle { return NewLifecycle(nil, from, nil, nil, time.Now) }

// TestDetailReadsWhatItShows: the bundles of the apps that it is asked for, and of those that many ask for at a time, one.
func TestDetailReadsWhatItShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &bundleReads{bytes: 100_000, reads: map[domain.Digest]int{}}
		l := detailed(from)
		const readers = 8
		var all []*reader
		ended := make(chan error, readers)
		for range readers {
			r := newReader()
			all = append(all, r)
			go func() { ended <- detailOf(t, l, "p.1", "app=b").Write(r) }()
		}
		synctest.Wait()
		require.LessOrEqual(t, from.reads["p.1.b"], 2, "its size, and it")
		for _, r := range all {
			close(r.let)
			require.NoError(t, <-ended)
		}
		for _, r := range all {
			require.True(t, json.Valid(r.Bytes()))
			require.Equal(t, 1, strings.Count(r.String(), `"of":"p.1.b"`))
			require.Equal(t, 1, strings.Count(r.String(), `"of":"p.1.b.overlays"`), "on the cluster of the variant")
		}
		for _, other := range []domain.Digest{"p.1.a", "p.1.a.overlays", "p.1.c"} {
			require.NotContains(t, from.reads, other)
		}
		var list bytes.Buffer
		require.NoError(t, detailOf(t, l, "p.2", "apps").Write(&list))
		require.NotContains(t, from.reads, domain.Digest("p.2.a"), "a list shows none")
	})
}

// TestManifestsOfSlowReadersAreBounded: those who read from one project have half of the room, and all have all of it, with one app each at a time.
func TestManifestsOfSlowReadersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := detailed(&bundleReads{bytes: 100_000, reads: map[domain.Digest]int{}})
		l.onShow = newManifests(250_000)
		ended := make(chan error, 10)
		read := func(digest domain.Digest) *reader {
			r := newReader()
			d := detailOf(t, l, digest, "app=a")
			go func() { ended <- d.Write(r) }()
			return r
		}
		p, again, q := read("p.1"), read("p.1"), read("q.1")
		for _, r := range []*reader{p, again, q} {
			<-r.began
		}
		began := time.Now()
		refused := func(digest domain.Digest, kind fail.Kind, text string) {
			t.Helper()
			err := detailOf(t, l, digest, "").Write(io.Discard)
			require.True(t, fail.Is(err, kind), "%v", err)
			require.ErrorContains(t, err, text)
			require.Equal(t, policy.ReadLater, fail.RetryAfterOf(err))
		}
		refused("p.2", fail.Exhausted, "projects/p")
		require.Equal(t, policy.ReadWait, time.Since(began))
		refused("r.1", fail.Unavailable, "others")
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := fail.New(fail.Aborted, "the caller has gone")
		d := detailFor(ctx, t, l, "p.3", "")
		cancel(gone)
		require.ErrorIs(t, d.Write(io.Discard), gone)

		late := read("p.2")
		synctest.Wait()
		close(p.let)
		require.NoError(t, <-ended)
		synctest.Wait()
		select {
		case <-late.began:
			t.Fatal("another reader of p.1 has its app still")
		default:
		}
		close(again.let)
		close(late.let)
		close(q.let)
		for range 3 {
			require.NoError(t, <-ended)
		}
		synctest.Wait()
		require.Equal(t, 2, strings.Count(late.String(), `"of":`))
		require.Empty(t, l.onShow.of)
		require.Empty(t, l.onShow.scopes)
		require.True(t, l.onShow.room.TryAcquire(250_000))
	})
}

// TestDetailOutlastsItsRequest: who reads slowly gets the apps, too, that are read after the time of the request.
func TestDetailOutlastsItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := detailed(&bundleReads{bytes: 100_000, reads: map[domain.Digest]int{}})
		ctx, cancel := context.WithCancel(t.Context())
		d, r, ended := detailFor(ctx, t, l, "p.1", ""), newReader(), make(chan error)
		go func() { ended <- d.Write(r) }()
		<-r.began
		cancel()
		close(r.let)
		require.NoError(t, <-ended)
		require.Equal(t, 6, strings.Count(r.String(), `"of":`))
	})
}
