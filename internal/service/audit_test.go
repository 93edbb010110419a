package service_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// TestAllIsPutIntoAnotherTime: who can write to the database puts all records of all processes into another time, alike, where who asks for
// those of a time does not see them. An export says of each where it was, and so does a list.
func TestAllIsPutIntoAnotherTime(t *testing.T) {
	db, chain, key := storetest.Open(t, store.Config{}), audit.NewChain("api"), audit.NewKey(bytes.Repeat([]byte{1}, 32))
	made := time.Date(2026, 11, 23, 5, 29, 7, 36e6, time.UTC)
	put := func(back time.Duration) {
		t.Helper()
		for _, r := range []audit.Record{
			{Event: audit.Sealed, Checkpoint: &audit.Checkpoint{}},
			{Event: audit.Begun, Verb: "put", Key: "projects/p", Who: &audit.Who{Kind: "user", Name: "alice"}},
			{Event: audit.Answered, Verb: "put", Key: "projects/p", Result: audit.Done, Begun: 2, Who: &audit.Who{Kind: "user", Name: "alice"}},
			{Event: audit.Sealed, Checkpoint: &audit.Checkpoint{Closes: true}},
		} {
			line, written, err := chain.Add(r, made, key)
			require.NoError(t, err)
			if back != 0 {
				moved := written
				moved.Time = written.Time.Add(-back)
				line.ID = audit.PlaceOf(&moved)
			}
			_, err = db.PutAudit(t.Context(), []audit.Line{line})
			require.NoError(t, err)
		}
	}
	a := service.NewAudit(db, func(context.Context) error { return nil }, audit.Keys{}, func() time.Time { return made })
	ask := func(query string) url.Values {
		v, err := url.ParseQuery(query)
		require.NoError(t, err)
		return v
	}
	export := func(query string) string {
		t.Helper()
		var all strings.Builder
		require.NoError(t, a.AuditExport(t.Context(), "", ask(query), func(line []byte) error {
			_, err := fmt.Fprintf(&all, "%s\n", line)
			return err
		}))
		return all.String()
	}
	problems := func(query string) string {
		t.Helper()
		report, err := audit.Verify(strings.NewReader(export(query)), audit.Options{
			Keys: map[string]ed25519.PublicKey{key.Stated().Key: key.Public()}, Partial: query != "",
		})
		require.NoError(t, err)
		return fmt.Sprintln(report.Problems)
	}
	list := func(query string) (shown []string) {
		t.Helper()
		l, err := a.AuditRecords(t.Context(), "", ask(query))
		require.NoError(t, err)
		for _, r := range l.Items {
			shown = append(shown, fmt.Sprintf("%s %s/%d %s %s", r.Event, r.Writer, r.Number, r.Key, r.Time.Format(time.RFC3339)))
		}
		return shown
	}
	put(0)
	require.Equal(t, "[]\n", problems(""))
	require.Equal(t, 4, strings.Count(export(""), "\n"))
	require.Equal(t, []string{
		"checkpoint api/4  2026-11-23T05:29:07Z", "answered api/3 projects/p 2026-11-23T05:29:07Z",
		"begun api/2 projects/p 2026-11-23T05:29:07Z", "checkpoint api/1  2026-11-23T05:29:07Z",
	}, list(""))

	require.NoError(t, db.DropAuditDay(t.Context(), "20261123"))
	chain = audit.NewChain("api")
	put(21 * 24 * time.Hour)
	const begun, answered = "unreadable api/2 20261102T052907.036/api/000000000002 2026-11-23T05:29:07Z", "unreadable api/3 20261102T052907.036/api/000000000003 2026-11-23T05:29:07Z"
	for _, query := range []string{"", "from=2026-11-02T00:00:00Z&to=2026-11-03T00:00:00Z"} {
		require.Contains(t, problems(query), "api 2: was put into another time: it was stored as 20261102T052907.036/api/000000000002", query)
	}
	require.Contains(t, export(""), `"verb":"put","key":"projects/p"`, "what it says is not lost")
	require.Len(t, list("event=unreadable"), 4)
	require.Equal(t, []string{answered, begun}, list("who=alice"), "it is found by who has asked for it, too")
	require.Equal(t, 4, strings.Count(export("who=alice"), "\n"), "two, each behind its notice")
	require.Empty(t, list("who=bob"))
	require.Empty(t, list("event=unanswered"))
}
