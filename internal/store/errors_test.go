package store

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/drover-io/drover/internal/fail"
)

func TestKindOf(t *testing.T) {
	duplicate := mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 11000}}}
	for name, c := range map[string]struct {
		err  error
		want fail.Kind
	}{
		"no document":                                 {mongo.ErrNoDocuments, fail.NotFound},
		"a duplicate":                                 {duplicate, fail.Conflict},
		"a duplicate of many":                         {mongo.BulkWriteException{WriteErrors: []mongo.BulkWriteError{{WriteError: mongo.WriteError{Code: 11000}}}}, fail.Conflict},
		"no server to send to":                        {topology.ServerSelectionError{Wrapped: errors.New("server selection timeout")}, fail.Unavailable},
		"no server until the deadline":                {topology.ServerSelectionError{Wrapped: context.DeadlineExceeded}, fail.Unavailable},
		"a broken connection":                         {mongo.CommandError{Labels: []string{"NetworkError"}}, fail.Unavailable},
		"a server that is not primary":                {mongo.CommandError{Code: 10107}, fail.Unavailable},
		"a primary that steps down":                   {mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 11602}}, fail.Unavailable},
		"a full disk":                                 {mongo.CommandError{Code: 14031}, fail.Unavailable},
		"a full disk of FerretDB":                     {mongo.CommandError{Code: 1, Message: "[msg_insert.go:168 handler.(*Handler).MsgInsert] database or disk is full (13)"}, fail.Unavailable},
		"a closed client":                             {mongo.ErrClientDisconnected, fail.Unavailable},
		"wrong credentials":                           {mongo.CommandError{Code: 18}, fail.Unavailable},
		"no right to do it":                           {mongo.CommandError{Code: 13}, fail.Unavailable},
		"a passed deadline":                           {context.DeadlineExceeded, fail.Timeout},
		"a passed deadline of the server":             {mongo.CommandError{Code: 50}, fail.Timeout},
		"a connection that timed out":                 {mongo.CommandError{Labels: []string{"NetworkError", "NetworkTimeoutError"}}, fail.Timeout},
		"a server that recovers":                      {mongo.CommandError{Code: 13436}, fail.Unavailable},
		"a server that another one does not reach":    {mongo.CommandError{Code: 6}, fail.Unavailable},
		"a server that another one waited for":        {mongo.CommandError{Code: 262}, fail.Unavailable},
		"a cursor of a server that was started again": {mongo.CommandError{Code: 43}, fail.Unavailable},
		"a pool that was cleared":                     {clearedPool{errors.New("pool cleared")}, fail.Unavailable},
		"a write to be tried again":                   {mongo.CommandError{Code: 8, Labels: []string{"RetryableWriteError"}}, fail.Unavailable},
		"a write that members do not confirm":         {mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 64}}, fail.Timeout},
		"writes that members do not confirm":          {mongo.BulkWriteException{WriteConcernError: &mongo.WriteConcernError{Code: 64}}, fail.Timeout},
		"writes that too few members confirm":         {mongo.BulkWriteException{WriteConcernError: &mongo.WriteConcernError{Code: 100}}, fail.Timeout},
		"a write as the primary shuts down":           {mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 91}}, fail.Unavailable},
		"writes as the primary shuts down":            {mongo.BulkWriteException{WriteConcernError: &mongo.WriteConcernError{Code: 91}}, fail.Unavailable},
		"a write for which the server had no time":    {mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 262}}, fail.Unavailable},
		"a duplicate that members do not confirm":     {mongo.WriteException{WriteErrors: duplicate.WriteErrors, WriteConcernError: &mongo.WriteConcernError{Code: 64}}, fail.Timeout},
		"a duplicate of many that members do not confirm": {mongo.BulkWriteException{
			WriteErrors: []mongo.BulkWriteError{{WriteError: mongo.WriteError{Code: 11000}}}, WriteConcernError: &mongo.WriteConcernError{Code: 64},
		}, fail.Timeout},
		"a duplicate as the primary steps down":              {mongo.WriteException{WriteErrors: duplicate.WriteErrors, WriteConcernError: &mongo.WriteConcernError{Code: 11602}}, fail.Unavailable},
		"a server without room in memory":                    {mongo.CommandError{Code: 365}, fail.Unavailable},
		"a server that takes no writes now":                  {mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 371}}}, fail.Unavailable},
		"what an operator ended":                             {mongo.CommandError{Code: 11601}, fail.Unavailable},
		"a write that an operator ended as it was confirmed": {mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 11601}}, fail.Timeout},
		"a cursor that was ended":                            {mongo.CommandError{Code: 237}, fail.Unavailable},
		"a collection that was dropped":                      {mongo.CommandError{Code: 175}, fail.Unavailable},
		"a lock that was waited for":                         {mongo.CommandError{Code: 24}, fail.Unavailable},
		"a write that met another one":                       {mongo.CommandError{Code: 112}, fail.Unavailable},
		"a member that knows of no majority":                 {mongo.CommandError{Code: 134}, fail.Unavailable},
		"what Atlas refuses":                                 {mongo.CommandError{Code: 8000}, fail.Unavailable},
		"a server that has too much to do":                   {mongo.CommandError{Code: 462, Labels: []string{"SystemOverloadedError"}}, fail.Unavailable},
		"a failure of the server":                            {mongo.CommandError{Code: 8}, fail.Internal},
		"anything else":                                      {errors.New("?"), fail.Internal},
		"what is classified already":                         {fail.New(fail.Precondition, "x"), fail.Precondition},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, fail.KindOf(kindOf(c.err)))
			cause := errors.New("cause")
			got := kindOf(fmt.Errorf("%w: %w", cause, c.err))
			require.Equal(t, c.want, fail.KindOf(got))
			require.ErrorIs(t, got, cause, "it is kept for the log")
		})
	}
	t.Run("credentials that Atlas does not accept", func(t *testing.T) {
		denied := kindOf(mongo.CommandError{Code: 8000, Name: "AtlasError", Message: "bad auth : Authentication failed."})
		require.Equal(t, "the database refuses the credentials", fail.TextOf(denied))
		require.Equal(t, "the database refuses to do it at the moment", fail.TextOf(kindOf(mongo.CommandError{Code: 8000, Name: "AtlasError", Message: "over the quota"})))
	})
	t.Run("nothing", func(t *testing.T) { require.NoError(t, kindOf(nil)) })
	t.Run("cancellation passes through", func(t *testing.T) {
		err := fmt.Errorf("wrapped: %w", context.Canceled)
		require.Equal(t, err, kindOf(err))
	})
}

// clearedPool is what the driver says of connections that it gave up since their server failed.
type clearedPool struct{ error }

func (clearedPool) Retryable() bool { return true }
