package observe

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/policy"
)

// follower takes what a feed reads. Its calls come one after another.
type follower interface {
	// put takes an object that is there, or was changed.
	put(object json.RawMessage) error
	// remove takes an object that is gone.
	remove(object json.RawMessage) error
	// begin and end enclose the puts of a list: of what was there before and was not put, nothing is left.
	begin()
	end()
}

// feed reads one collection into its follower. Its version is kept between sessions, so that the next one begins where
// the last one ended.
type feed struct {
	kube.Collection
	follower
	version  string
	mostPage int       // what Page was at first
	thin     time.Time // when a page did not come in time the last time
}

// reached is how far the cluster's database was when the feed was heard the last time; 0 where that is not known: the versions of an aggregated API
// are its own, and whether a group is one nobody says, but for the core's and those of CRDs that are known here.
func (f *feed) reached() uint64 {
	if strings.HasPrefix(f.Path, "/api/") || f.Path == definitionsPath || f.Path == bundlesPath || f.Path == leasesPath {
		return number(f.version)
	}
	return 0
}

// number is a version as API servers have them; 0 for another one.
func number(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// leastPage is how many objects are asked for at the least, however long a page takes.
const leastPage = 10

// sync lists, unless the version is known.
func (f *feed) sync(ctx context.Context, c *kube.Cluster) error {
	if f.version != "" {
		return nil
	}
	f.begin()
	f.mostPage = max(f.mostPage, f.Page)
	version, err := c.List(ctx, f.Collection, f.put)
	switch {
	case fail.Is(err, fail.Timeout) && ctx.Err() == nil && f.Page > leastPage: // the line may be thin: the same page would never come
		f.Page, f.thin = max(f.Page/2, leastPage), time.Now()
	// Many small pages take longer than a cluster remembers where they began. Else a page that comes says nothing of one that is twice as large.
	case errors.Is(err, kube.ErrExpired), err == nil && time.Since(f.thin) > policy.ThinLine:
		f.Page += min(f.Page, f.mostPage-f.Page)
	}
	if err != nil {
		return err
	}
	f.end()
	f.version = version
	return nil
}

// follow watches until ctx ends or the cluster cannot be asked; the error is never nil.
func (f *feed) follow(ctx context.Context, c *kube.Cluster) error {
	again, expired := pause.Backoff{First: policy.FirstSession, Most: policy.LongestSession}, 0
	for {
		if err := f.sync(ctx, c); err != nil {
			return err
		}
		began := time.Now()
		err := c.Watch(ctx, f.Collection, f.version, f.event)
		lasted := time.Since(began)
		if err := f.ended(ctx, lasted, err); err != nil {
			return err
		}
		if err == nil || lasted >= policy.LeastWatch {
			again.Reset()
			expired = 0
			continue
		}
		// It has forgotten the version of a list that it has just made. Once may be chance, and the list is made anew.
		if expired++; expired > 1 {
			if err := again.Wait(ctx); err != nil {
				return err
			}
		}
	}
}

// insist is follow, and tries again, now and then, where the cluster refuses: that may be a moment's, as while it changes its leader.
func (f *feed) insist(ctx context.Context, c *kube.Cluster) error {
	again := pause.Backoff{First: policy.FirstRefused, Most: policy.LongestRefused}
	for {
		began := time.Now()
		if err := f.follow(ctx, c); !kube.IsAnswer(err) {
			return err
		}
		if time.Since(began) > policy.LongestRefused {
			again.Reset()
		}
		if err := again.Wait(ctx); err != nil {
			return err
		}
	}
}

// ended says why nothing follows a watch that lasted so long; nil when another one does.
func (f *feed) ended(ctx context.Context, lasted time.Duration, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, kube.ErrExpired):
		f.version = ""
	case kube.IsAnswer(err): // what comes after that cannot be known from the version
		f.version = ""
		return err
	case err != nil:
		return err
	case lasted < policy.LeastWatch:
		return fail.New(fail.Unavailable, "the cluster ends watches at once")
	}
	return nil
}

func (f *feed) event(version string, e *kube.Event) error {
	if e != nil {
		take := f.put
		if e.Deleted {
			take = f.remove
		}
		if err := take(e.Object); err != nil {
			return err
		}
	}
	f.version = version
	return nil
}
