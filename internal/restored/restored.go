// Package restored has an agent notice that its cluster was restored from a backup.
package restored

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lasting"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/policy"
)

// Version asks a cluster how far its database is: for the resourceVersion of a list that is no older than the question.
type Version func(context.Context) (string, error)

// Await asks again and again until ctx ends, which is nil. The error is Unavailable, and says that the cluster was restored, or may have been: what was
// heard of it before may not be so, and no watch will say so. Watches go on from the version that they know. An API server that has not come so far tells
// them nothing until it has, and one that has come further by now tells them only what happened since. So whoever watches has to begin anew.
//
// The database is behind what it was, or the cluster has not answered for so long that it may have been restored and have come further since. That it does not
// answer is logged, and no more.
func Await(ctx context.Context, log *slog.Logger, version Version) error {
	var was known
	var unseen lasting.Trouble
	for wait := time.Duration(0); pause.For(ctx, wait) == nil; {
		now, err := ask(ctx, version)
		wait = policy.RestoredLook
		switch {
		case err == nil:
			if unseen.Ends() {
				log.InfoContext(ctx, "the cluster says its version again")
			}
			if err := was.then(now); err != nil {
				return err
			}
		case ctx.Err() == nil:
			wait = policy.RestoredAgain
			if unseen.Begins("") {
				log.WarnContext(ctx, "the cluster does not say its version, by which is seen whether it was restored from a backup: it is asked again and again",
					slog.Any("error", err))
			}
		}
	}
	return nil
}

func ask(ctx context.Context, version Version) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.ClusterRequest)
	defer cancel()
	return version(ctx)
}

// known is what the cluster has said last; the zero value that it has said nothing.
type known struct {
	version string
	at      time.Time
}

// then takes what it says now. The error is that of Await.
func (k *known) then(version string) error {
	order, err := resourceversion.CompareResourceVersion(version, k.version)
	switch silent := time.Since(k.at); {
	case err == nil && order < 0: // versions that are no numbers cannot be compared
		return fail.New(fail.Unavailable, "the cluster is at version %s and was at %s: it was restored from a backup. "+
			"The agent ends, so that it is started anew and lists what there is now", version, k.version)
	case !k.at.IsZero() && silent > policy.Remembers:
		return fail.New(fail.Unavailable, "the cluster answers again after %s and may have been restored from a backup meanwhile. "+
			"The agent ends, so that it is started anew and lists what there is now", silent.Round(time.Second))
	}
	*k = known{version, time.Now()}
	return nil
}
