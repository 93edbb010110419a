package test

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/test/harness"
)

// isAudited checks that a group was instantiated by what the audit log says, and that the log, of processes that were killed too, can
// be verified; and cannot be when one of their records is gone.
func isAudited(ctx context.Context, t *testing.T, s *harness.Stack, d *client.Deployment, writers int) {
	t.Helper()
	require.NotEmpty(t, instantiates(ctx, t, d, audit.Begun), "what was begun is recorded, also by a process that was killed before it had an answer")
	ended := instantiates(ctx, t, d, audit.Ended)
	require.NotEmpty(t, ended, "the worker has recorded the end")
	require.Equal(t, audit.Done, ended[0].Result)
	require.NotEmpty(t, ended[0].Workflow)

	read := func(path string) []byte {
		answer := s.Send(ctx, http.MethodGet, s.URL()+path, map[string]string{"Accept": "application/x-ndjson, application/json;q=0.5"}, "")
		require.Equal(t, http.StatusOK, answer.Code, "%s", answer.Body)
		return answer.Body
	}
	keys, err := audit.ParseKeys(read("/v2/audit/keys"))
	require.NoError(t, err)
	export := read("/v2/audit")
	report, err := audit.Verify(bytes.NewReader(export), audit.Options{Keys: keys})
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	require.Equal(t, writers, report.Writers)
	lines := bytes.SplitAfter(export, []byte("\n"))
	first := slices.IndexFunc(lines, func(l []byte) bool { return bytes.Contains(l, []byte(`"event":"answered"`)) })
	report, err = audit.Verify(bytes.NewReader(bytes.Join(slices.Delete(lines, first, first+1), nil)), audit.Options{Keys: keys})
	require.NoError(t, err)
	require.False(t, report.Good(), "one of the records of the first process is gone")
}

// instantiates are the records of an event of the group's starts.
func instantiates(ctx context.Context, t *testing.T, d *client.Deployment, event audit.Event) (records []audit.Record) {
	t.Helper()
	filter := url.Values{"resource": {string(d.Key())}, "event": {string(event)}, "verb": {"instantiate"}}
	for r, err := range d.API.AuditRecords(ctx, "", filter) {
		require.NoError(t, err)
		records = append(records, r)
	}
	return records
}
