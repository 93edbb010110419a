package store

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
)

// Codes of MongoDB's for credentials that it does not accept, for a server that is not the primary, or not any more, and for one that
// another one cannot reach, as while a set elects a primary.
var (
	refusals   = []int{13, 18}                                     // Unauthorized, AuthenticationFailed
	fullDisk   = []int{14031}                                      // OutOfDiskSpace
	notPrimary = []int{91, 189, 10107, 11600, 11602, 13435, 13436} // shutting down, stepping down, not primary, recovering
	unreached  = []int{6, 7, 89, 262, 9001}                        // HostUnreachable, HostNotFound, NetworkTimeout, ExceededTimeLimit, SocketException
	cursorGone = []int{43}                                         // CursorNotFound: the server that had it was started again
)

// badValue is MongoDB's code for what it does not take in a command.
const badValue = 2

// atlasError is Atlas' code for all that it refuses of itself, be it for a time or for good.
const atlasError = 8000

// Codes for what a server that works does not do at the moment. Of writes of many documents it may have done a part.
var busy = []int{
	24, 112, // LockTimeout, WriteConflict
	133, 134, // FailedToSatisfyReadPreference, ReadConcernMajorityNotAvailableYet
	175, 237, 11601, // QueryPlanKilled, CursorKilled, Interrupted: by an operator, or by who drops a collection that is read
	365, // TemporarilyUnavailable: more has changed than it has room for in memory
	371, // UserWritesBlocked, as while a set is copied to another one
	atlasError,
}

// sqliteFull is how FerretDB passes SQLite's SQLITE_FULL on, as an internal error.
const sqliteFull = "database or disk is full"

// kindOf turns the driver's errors into the product's. context.Canceled and errors of package fail pass
// through. A duplicate key and an absent document are named by the callers, who know the thing.
func kindOf(err error) error {
	var (
		known     *fail.Error
		selection topology.ServerSelectionError
		pool      driver.RetryablePoolError
	)
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.As(err, &known):
		return err
	case errors.Is(err, mongo.ErrNoDocuments):
		return fail.Wrap(err, fail.NotFound, "not found")
	case duplicate(err):
		return fail.Wrap(err, fail.Conflict, "already exists")
	case hasCode(err, refusals), hasWord(err, atlasError, "auth"): // ours, not the caller's: an operator can put it right meanwhile
		return fail.Wrap(err, fail.Unavailable, "the database refuses the credentials")
	case hasCode(err, fullDisk), strings.Contains(err.Error(), sqliteFull):
		full := fail.Wrap(err, fail.Unavailable, "the database's disk is full: nothing can be stored until there is room")
		full.RetryAfter = policy.RoomAfter
		return full
	case errors.As(err, &selection), errors.As(err, &pool), hasCode(err, notPrimary), hasCode(err, unreached),
		hasCode(err, cursorGone), errors.Is(err, mongo.ErrClientDisconnected):
		return fail.Wrap(err, fail.Unavailable, "the database cannot be reached")
	case mongo.IsTimeout(err), ofWriteConcern(err): // it may have been written
		return fail.Wrap(err, fail.Timeout, "the database does not answer in time")
	case hasCode(err, busy), hasLabel(err, driver.ErrSystemOverloadedError):
		return fail.Wrap(err, fail.Unavailable, "the database refuses to do it at the moment")
	case mongo.IsNetworkError(err), hasLabel(err, driver.RetryableWriteError):
		return fail.Wrap(err, fail.Unavailable, "the database cannot be reached")
	default:
		return fail.Wrap(err, fail.Internal, "the database failed")
	}
}

// ofWriteConcern says whether members of the set did not confirm a write.
func ofWriteConcern(err error) bool {
	var (
		one  mongo.WriteException
		bulk mongo.BulkWriteException
	)
	return errors.As(err, &one) && one.WriteConcernError != nil || errors.As(err, &bulk) && bulk.WriteConcernError != nil
}

// duplicate says whether a document is there already for sure. Where members of the set did not confirm that, what is there may be taken back: it may be
// what an earlier attempt has written that nobody confirmed either.
func duplicate(err error) bool { return mongo.IsDuplicateKeyError(err) && !ofWriteConcern(err) }

func hasLabel(err error, label string) bool {
	var labeled mongo.LabeledError
	return errors.As(err, &labeled) && labeled.HasErrorLabel(label)
}

func hasCode(err error, codes []int) bool {
	return slices.ContainsFunc(mongo.ErrorCodes(err), func(c int) bool { return slices.Contains(codes, c) })
}

// hasWord says whether the server refused with a code, and with a text that has word in it.
func hasWord(err error, code int, word string) bool {
	var refused mongo.ServerError
	return errors.As(err, &refused) && refused.HasErrorCodeWithMessage(code, word)
}
