// Package restored has an agent notice that its cluster was restored from a backup.
package restored

import (
	"context"
	"errors"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lasting"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/policy"
)

// Version asks a cluster how far its database is: for the resourceVersion of a list that is no older than the question.
type Version func(context.Context) (string, error)

// Await asks again and again until ctx ends, which is nil. The error is Unavailable, and says that the cluster was restored, or may have been: what was
// heard of it before may not be so, and no watch will say so. Watches go on from the version that they know. An API server that has not come so far tells
// them nothing until it has, and one that has come further by now tells them only what happened since. So whoever watches has to begin anew.
//
// The database is behind what it was, or nothing came from the cluster for so long that it may have been restored and have come further since. That it does not
// say its version is logged, and no more.
func Await(ctx context.Context, log *slog.Logger, version Version) error {
	return await(ctx, log, version, lease.Now)
}

func await(ctx context.Context, log *slog.Logger, version Version, clock lease.Clock) error {
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
			if err := was.then(now, clock()); err != nil {
				return err
			}
		case ctx.Err() == nil:
			wait = policy.RestoredAgain
			if isAnswer(err) {
				was.heard(clock())
			}
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

// isAnswer says whether the API server itself has answered, though without a version: it is there. The word of a proxy before it is no such answer, but for
// 429, which API servers say in plain text, too.
func isAnswer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && (!apierrors.IsUnexpectedServerError(err) || apierrors.IsTooManyRequests(err))
}

// known is what the cluster has said last; the zero value that it has said nothing.
type known struct {
	version string        // "" if it has told none
	at      lease.Instant // when something came from it, by clocks that go on while the machine is suspended
}

// silent is for how long nothing came, and whether that was too long.
func (k *known) silent(now lease.Instant) (time.Duration, bool) {
	if k.at == (lease.Instant{}) {
		return 0, false
	}
	silent := now.Since(k.at)
	return silent, silent > policy.Remembers
}

// heard takes an answer without a version. A silence that was too long goes on until a version is told: an API server that starts may refuse at first.
func (k *known) heard(now lease.Instant) {
	if _, long := k.silent(now); !long {
		k.at = now
	}
}

// then takes the version that it tells now. The error is that of Await.
func (k *known) then(version string, now lease.Instant) error {
	order, err := resourceversion.CompareResourceVersion(version, k.version)
	switch silent, long := k.silent(now); {
	case err == nil && order < 0: // versions that are no numbers cannot be compared
		return fail.New(fail.Unavailable, "the cluster is at version %s and was at %s: it was restored from a backup. "+
			"The agent ends, so that it is started anew and lists what there is now", version, k.version)
	case long:
		return fail.New(fail.Unavailable, "the cluster answers again after %s and may have been restored from a backup meanwhile. "+
			"The agent ends, so that it is started anew and lists what there is now", silent.Round(time.Second))
	}
	*k = known{version, now}
	return nil
}
