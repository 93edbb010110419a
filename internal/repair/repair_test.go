package repair_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/repair"
)

// history has actions such as "Instantiated 1", "Updated 1 by 2".
func history(actions ...string) *domain.History {
	h := domain.NewHistory(time.Unix(0, 0))
	for _, a := range actions {
		switch words := strings.Fields(a); len(words) {
		case 1:
			h.Append(domain.State(words[0]), "", 0, time.Unix(1, 0))
		case 2:
			h.Append(domain.State(words[0]), words[1], 1, time.Unix(1, 0))
		default:
			h.Leave(words[1], words[3], 1, time.Unix(1, 0))
		}
	}
	return &h
}

func TestHalfway(t *testing.T) {
	given := history("Approved", "Instantiated 1", "Updated 1 by 2")
	taker := &domain.Instance{ContextID: "2"}
	for name, c := range map[string]struct {
		source *domain.History
		taker  *domain.Instance
		group  *domain.History
		want   bool
	}{
		"given and not got":             {given, taker, history("Approved"), true},
		"given to a group that is gone": {given, taker, nil, true},
		"given and got":                 {given, taker, history("Approved", "Instantiated 2"), false},
		"given, and the record is gone": {given, nil, nil, false},
		"not given":                     {history("Instantiated 1"), taker, history("Approved"), false},
		"updated, by its own":           {history("Instantiated 1", "Updated 1 by 2", "Instantiated 2"), taker, history("Approved"), false},
		"nothing asked":                 {history(), nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, repair.Halfway(c.source, c.taker, c.group)) })
	}
}

func TestUnbegun(t *testing.T) {
	for name, c := range map[string]struct {
		history *domain.History
		record  *domain.Instance
		want    bool
	}{
		"the state is written, the record not": {history("Instantiated 1", "Terminated 1"), &domain.Instance{Status: domain.ContextInstantiated}, true},
		"and the context was being made":       {history("Instantiated 1", "Terminated 1"), &domain.Instance{Status: domain.ContextInstantiating}, true},
		"both are":                             {history("Instantiated 1", "Terminated 1"), &domain.Instance{Status: domain.ContextTerminating}, false},
		"both are, and it has failed":          {history("Instantiated 1", "Terminated 1"), &domain.Instance{Status: domain.ContextTerminateFailed}, false},
		"there is no record":                   {history("Instantiated 1", "Terminated 1"), nil, false},
		"something else was asked since":       {history("Instantiated 1", "Terminated 1", "Approved"), &domain.Instance{Status: domain.ContextInstantiated}, false},
		"nothing was terminated":               {history("Instantiated 1"), &domain.Instance{Status: domain.ContextInstantiated}, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, repair.Unbegun(c.history, c.record)) })
	}
}

func TestUnknown(t *testing.T) {
	record := func(from string, status domain.ContextStatus) *domain.Instance {
		return &domain.Instance{ContextID: "2", From: from, Status: status}
	}
	known := history("Instantiated 1", "Updated 1 by 2", "Instantiated 2")
	require.True(t, repair.Unknown(history("Instantiated 1"), record("1", domain.ContextInstantiating)))
	require.False(t, repair.Unknown(known, record("1", domain.ContextInstantiating)), "the owner knows it")
	require.False(t, repair.Unknown(history("Instantiated 1"), record("", domain.ContextInstantiating)), "it takes over from none")
	require.False(t, repair.Unknown(history("Instantiated 1"), record("1", domain.ContextUpdated)), "it is over")
}

func TestPassedOn(t *testing.T) {
	for name, c := range map[string]struct {
		history   *domain.History
		successor domain.Instance
		of        string // the successor
		want      []string
		given     []*domain.Instance
	}{
		"an update":            {history("Instantiated 1", "Updated 1 by 2", "Instantiated 2"), domain.Instance{Owner: "o", From: "1", Label: "1"}, "2", []string{"1"}, nil},
		"a second update":      {history("Instantiated 1", "Updated 1 by 2", "Instantiated 2", "Updated 2 by 3", "Instantiated 3"), domain.Instance{Owner: "o", From: "2", Label: "1"}, "3", []string{"1", "2"}, nil},
		"a migrate to another": {history("Instantiated 1", "Updated 1 by 2"), domain.Instance{Owner: "other", From: "1", Label: "1"}, "2", []string{"1"}, nil},
		"a migrate of many contexts": {
			history("Instantiated 1", "Updated 1 by 2", "Instantiated 2", "Updated 2 by 3", "Instantiated 3", "Updated 3 by 4"),
			domain.Instance{Owner: "other", From: "3", Label: "1"}, "4", []string{"1", "2", "3"},
			[]*domain.Instance{{ContextID: "0"}, {ContextID: "1"}, {ContextID: "2", Label: "1"}, {ContextID: "3", Label: "1"}},
		},
		"an instantiate anew":   {history("Instantiated 1", "Terminated 1", "Instantiated 2"), domain.Instance{Owner: "o", From: "1"}, "2", []string{"1"}, nil},
		"one that took nothing": {history("Instantiated 1"), domain.Instance{Owner: "o"}, "1", nil, nil},
		"one that is another's": {history("Instantiated 1"), domain.Instance{Owner: "other", From: "0"}, "1", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.of, repair.Successor(c.history))
			require.Equal(t, c.want, repair.PassedOn("o", c.history, &c.successor, c.given))
		})
	}
	next := &domain.Instance{ContextID: "2", Owner: "o", From: "1", Label: "1"}
	require.False(t, repair.Told(domain.Instance{ContextID: "1", Owner: "o", Status: domain.ContextInstantiated}, next))
	require.False(t, repair.Told(domain.Instance{ContextID: "1", Owner: "other", Status: domain.ContextUpdated}, next))
	require.True(t, repair.Told(domain.Instance{ContextID: "1", Owner: "o", Status: domain.ContextUpdated}, next))
}

func TestLeft(t *testing.T) {
	updated := history("Instantiated 1", "Updated 1 by 2", "Instantiated 2")
	given := history("Instantiated 1", "Updated 1 by 2")
	for name, c := range map[string]struct {
		history *domain.History
		id      string
		halfway bool
		want    bool
	}{
		"the last one":           {updated, "2", false, false},
		"an earlier one":         {updated, "1", false, true},
		"one that was given":     {given, "1", false, true},
		"one that is taken back": {given, "1", true, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, repair.Left(c.history, c.id, c.halfway)) })
	}
}

// TestShown: what is shown of one that was left is what its record will say.
func TestShown(t *testing.T) {
	failed := domain.Instance{ContextID: "1", Status: domain.ContextTerminateFailed}
	for name, c := range map[string]struct {
		left      domain.Instance
		successor *domain.Instance
		want      domain.ContextStatus
	}{
		"updated": {
			domain.Instance{ContextID: "1", Status: domain.ContextInstantiated}, &domain.Instance{ContextID: "2", From: "1", Label: "1"}, domain.ContextUpdated,
		},
		"what a terminate left is taken over": {failed, &domain.Instance{ContextID: "2", From: "1", Label: "1"}, domain.ContextUpdated},
		"its label is given up":               {failed, &domain.Instance{ContextID: "2", From: "1"}, domain.ContextTerminated},
		"an earlier one":                      {failed, &domain.Instance{ContextID: "3", From: "2", Label: "1"}, domain.ContextUpdated},
		"the successor's record is gone":      {failed, nil, domain.ContextUpdated},
		"terminated":                          {domain.Instance{ContextID: "1", Status: domain.ContextTerminated}, &domain.Instance{ContextID: "2"}, domain.ContextTerminated},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, repair.Shown(c.left, c.successor))
			if c.successor != nil && c.successor.From == "1" {
				c.left.PassOn(c.successor)
				require.Equal(t, c.want, c.left.Status)
			}
		})
	}
}

// TestWrites are in an order in which whoever dies between two of them leaves what is found, and repaired, again.
func TestWrites(t *testing.T) {
	require.Equal(t, []repair.Write{{Do: repair.Touch, Owner: "to"}, {Do: repair.TakeBack, Owner: "from"}, {Do: repair.Drop, ContextID: "2"}},
		repair.OfHalfway("from", "to", "2"))
	require.Equal(t, []repair.Write{{Do: repair.TakeBack, Owner: "from"}, {Do: repair.Drop, ContextID: "2"}}, repair.OfHalfway("from", "", "2"))
	require.Equal(t, []repair.Write{{Do: repair.TakeBack, Owner: "o"}}, repair.OfUnbegun("o"))
	require.Equal(t, []repair.Write{{Do: repair.Touch, Owner: "o"}, {Do: repair.Drop, ContextID: "2"}}, repair.OfUnknown("o", "2"))
}

func TestHolds(t *testing.T) {
	record := &domain.Instance{ContextID: "1"}
	for name, c := range map[string]struct {
		history *domain.History
		running bool
		taker   *domain.Instance
		takerOf string
		want    bool
	}{
		"the owner's context":                             {history: history("Instantiated 1"), want: true},
		"one that the owner is about to get":              {history: history("Approved"), running: true, want: true},
		"one that the owner was to get, ended by hand":    {history: history("Approved")},
		"another one has taken over":                      {history: history("Instantiated 1", "Updated 1 by 2", "Instantiated 2"), taker: &domain.Instance{ContextID: "2"}, takerOf: "2"},
		"another one was to take over and has no record":  {history: history("Instantiated 1", "Updated 1 by 2"), takerOf: "2", want: true},
		"another one has taken over from one before that": {history: history("Instantiated 0", "Updated 0 by 1", "Instantiated 1"), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.takerOf, repair.TakerOf(c.history, "1"))
			require.Equal(t, c.want, repair.Holds(c.history, record, c.running, c.taker))
		})
	}
}

func TestUnfinished(t *testing.T) {
	for status, want := range map[domain.ContextStatus]bool{
		domain.ContextInstantiating: false, domain.ContextInstantiated: false, domain.ContextInstantiateFailed: false, domain.ContextUpdated: false,
		domain.ContextTerminating: true, domain.ContextTerminateFailed: true, domain.ContextTerminated: false,
	} {
		require.Equal(t, want, repair.Unfinished(&domain.Instance{Status: status}), status)
	}
}
