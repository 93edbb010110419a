package outcome_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/outcome"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// groupWith has actions in its history such as "Approved", "Instantiated 1", "Updated 1 by 2".
func groupWith(actions ...string) *domain.DeploymentIntentGroup {
	g := &domain.DeploymentIntentGroup{Identity: domain.Identity{Parent: "projects/p/composite-apps/vfw/v1"}}
	g.Name, g.History, g.Revision = "web", domain.NewHistory(now), 5
	for _, a := range actions {
		switch words := strings.Fields(a); len(words) {
		case 1:
			g.History.Append(domain.State(words[0]), "", 0, now)
		case 2:
			g.History.Append(domain.State(words[0]), words[1], 1, now)
		default:
			g.History.Leave(words[1], words[3], 1, now)
		}
	}
	return g
}

// actions are those of a history as groupWith has them, without the first.
func actions(h *domain.History) (all []string) {
	for _, a := range h.Actions[1:] {
		text := string(a.State)
		if a.ContextID != "" {
			text += " " + a.ContextID
		}
		if a.By != "" {
			text += " by " + a.By
		}
		all = append(all, text)
	}
	return all
}

// verdict is one as the tables have it: what is written, and which words the refusal has.
type verdict struct {
	appended []string // to the history
	write    bool
	refusal  string
}

func (want verdict) check(t *testing.T, got outcome.Verdict, before []string, h *domain.History) {
	t.Helper()
	require.Equal(t, append(before, want.appended...), actions(h))
	require.Equal(t, want.write, got.Write)
	if want.refusal == "" {
		require.NoError(t, got.Refusal)
		return
	}
	require.ErrorContains(t, got.Refusal, want.refusal)
	require.True(t, fail.Is(got.Refusal, fail.Conflict))
}

func TestAccept(t *testing.T) {
	instantiate := domain.Scope{ContextID: "1", Operation: domain.OpInstantiate, Began: 7}
	terminate := domain.Scope{ContextID: "1", Operation: domain.OpTerminate, Began: 7}
	made := &outcome.Made{OwnerRevision: 5}
	record := func(op domain.Operation, status domain.ContextStatus, began int64) *domain.Instance {
		return &domain.Instance{ContextID: "1", Operation: op, Status: status, Began: began}
	}
	running := []string{"Approved", "Instantiated 1"}
	for name, c := range map[string]struct {
		history []string
		last    *domain.Instance
		asked   outcome.Asked
		want    verdict
		detail  string
		label   string // StatusContextID then
	}{
		"an instantiate": {
			history: []string{"Approved"}, asked: outcome.Asked{Scope: instantiate, Made: made},
			want: verdict{appended: []string{"Instantiated 1"}, write: true}, label: "1",
		},
		"of what is not approved any more: the refusal is the last word": {
			asked: outcome.Asked{Scope: instantiate, Made: made}, want: verdict{write: true, refusal: "must be approved"},
		},
		"by a plan of an earlier revision: no earlier attempt gets through either": {
			history: []string{"Approved"}, asked: outcome.Asked{Scope: instantiate, Made: &outcome.Made{OwnerRevision: 4}},
			want: verdict{refusal: "was changed meanwhile"},
		},
		"by such a plan, and refused by the state, which says more": {
			asked: outcome.Asked{Scope: instantiate, Made: &outcome.Made{OwnerRevision: 4}}, want: verdict{refusal: "must be approved"},
		},
		"by what was seen before something else was asked": {
			history: []string{"Approved"}, asked: outcome.Asked{Scope: instantiate, Seen: domain.Seen{History: "1 Created "}, Made: made},
			want: verdict{refusal: "was changed meanwhile"},
		},
		"a terminate": {
			history: running, last: record(domain.OpInstantiate, domain.ContextInstantiated, 6), asked: outcome.Asked{Scope: terminate},
			want: verdict{appended: []string{"Terminated 1"}, write: true}, label: "1",
		},
		"a terminate of another instance than there is": {
			history: []string{"Approved", "Instantiated 2"}, asked: outcome.Asked{Scope: terminate}, want: verdict{write: true, refusal: "was changed meanwhile"}, label: "2",
		},
		"a terminate that has been recorded, and stopped since": {
			history: []string{"Instantiated 1", "Terminated 1", "TerminateStopped 1"}, last: record(domain.OpTerminate, domain.ContextTerminating, 7),
			asked: outcome.Asked{Scope: terminate}, label: "1",
		},
		"one for which nobody waits": {
			history: []string{"Approved"}, asked: outcome.Asked{Scope: instantiate, Made: made, Late: true}, want: verdict{write: true, refusal: "nobody waits for it any more"},
		},
		"one for which nobody waits, and that has been recorded, and stopped since": {
			history: []string{"Instantiated 1", "Terminated 1", "TerminateStopped 1"}, last: record(domain.OpTerminate, domain.ContextTerminating, 7),
			asked: outcome.Asked{Scope: terminate, Late: true}, label: "1",
		},
		"a terminate after which another one has begun": {
			history: []string{"Instantiated 1", "Terminated 1", "TerminateStopped 1"}, last: record(domain.OpTerminate, domain.ContextTerminating, 8),
			asked: outcome.Asked{Scope: terminate}, want: verdict{refusal: "another operation on app context 1"}, label: "1",
		},
		"an update": {
			history: running, last: record(domain.OpInstantiate, domain.ContextInstantiated, 6),
			asked: outcome.Asked{Scope: domain.Scope{ContextID: "2", Operation: domain.OpUpdate, Began: 7}, Made: &outcome.Made{OwnerRevision: 5, Label: "1"}},
			want:  verdict{appended: []string{"Updated 1 by 2", "Instantiated 2"}, write: true}, detail: "update", label: "1",
		},
		"an update while the instantiate goes on, as the record knows": {
			history: running, last: record(domain.OpInstantiate, domain.ContextInstantiating, 6),
			asked: outcome.Asked{Scope: domain.Scope{ContextID: "2", Operation: domain.OpUpdate, Began: 7}, Made: made},
			want:  verdict{write: true, refusal: "cannot update"}, label: "1",
		},
		"an update when the instantiate was ended by hand, as its user has seen": {
			history: running, last: record(domain.OpInstantiate, domain.ContextInstantiating, 6),
			asked: outcome.Asked{
				Scope: domain.Scope{ContextID: "2", Operation: domain.OpUpdate, Began: 7}, Seen: domain.Seen{Status: domain.ContextInstantiateFailed}, Made: made,
			},
			want: verdict{appended: []string{"Updated 1 by 2", "Instantiated 2"}, write: true}, detail: "update", label: "2",
		},
		"a migrate, of the group that gets the instance": {
			history: []string{"Approved"},
			asked: outcome.Asked{
				Scope: domain.Scope{ContextID: "2", Operation: domain.OpMigrate}, Goal: domain.Goal{Source: "projects/p/composite-apps/vfw/v0/deployment-intent-groups/old"},
				Made: &outcome.Made{OwnerRevision: 5, Label: "1"},
			},
			want: verdict{appended: []string{"Instantiated 2"}, write: true}, detail: "migrate from v0/old", label: "1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := groupWith(c.history...)
			c.asked.By = "alice"
			c.want.check(t, outcome.Accept(g, c.last, c.asked, now), c.history, &g.History)
			require.Equal(t, c.label, g.History.StatusContextID)
			if len(c.want.appended) > 0 {
				require.Equal(t, "alice", g.History.Last().RequestedBy)
				require.Equal(t, c.detail, g.History.Last().Operation)
				require.True(t, outcome.Recorded(&g.History, c.asked.Scope))
			}
		})
	}
}

// TestWhatIsAskedOfOneGroupIsNotItsNamesakes: a group that was deleted and made anew with its name while an instantiate waits is another one. What APIs
// of v0.1.0 have seen says not which one it was.
func TestWhatIsAskedOfOneGroupIsNotItsNamesakes(t *testing.T) {
	accept := func(history string, created time.Time) error {
		g := groupWith("Approved")
		asked := outcome.Asked{
			Scope: domain.Scope{ContextID: "2", Operation: domain.OpInstantiate, Began: 7}, Seen: domain.Seen{History: history, Created: created}, Made: &outcome.Made{OwnerRevision: 5},
		}
		return outcome.Accept(g, nil, asked, now).Refusal
	}
	made := groupWith("Approved").History.Made()
	require.False(t, made.IsZero())
	require.NoError(t, accept("2 Approved ", made))
	require.ErrorContains(t, accept("2 Approved ", made.Add(-time.Minute)), "was changed meanwhile")
	require.NoError(t, accept("2 Approved ", time.Time{}))
	require.ErrorContains(t, accept("3 Created ", made), "was changed meanwhile")
}

func TestRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		history []string
		scope   domain.Scope
		want    bool
	}{
		"an instantiate":                     {[]string{"Instantiated 1"}, domain.Scope{ContextID: "1", Operation: domain.OpInstantiate}, true},
		"an instantiate that was terminated": {[]string{"Instantiated 1", "Terminated 1"}, domain.Scope{ContextID: "1", Operation: domain.OpInstantiate}, true},
		"an instantiate of another context":  {[]string{"Instantiated 1"}, domain.Scope{ContextID: "2", Operation: domain.OpInstantiate}, false},
		"a terminate":                        {[]string{"Instantiated 1", "Terminated 1"}, domain.Scope{ContextID: "1", Operation: domain.OpTerminate}, true},
		"a terminate, another one before":    {[]string{"Terminated 1", "TerminateStopped 1"}, domain.Scope{ContextID: "1", Operation: domain.OpTerminate}, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, outcome.Recorded(&groupWith(c.history...).History, c.scope))
		})
	}
}

func TestStop(t *testing.T) {
	instantiate := domain.Scope{ContextID: "1", Operation: domain.OpInstantiate, Began: 7}
	terminate := domain.Scope{ContextID: "1", Operation: domain.OpTerminate, Began: 7}
	for name, c := range map[string]struct {
		history []string
		record  *domain.Instance
		scope   domain.Scope
		want    verdict
	}{
		"an instantiate": {
			history: []string{"Instantiated 1"}, record: &domain.Instance{Operation: domain.OpInstantiate, Began: 7}, scope: instantiate,
			want: verdict{appended: []string{"InstantiateStopped 1"}, write: true},
		},
		"before it has a record":           {history: []string{"Instantiated 1"}, scope: instantiate, want: verdict{appended: []string{"InstantiateStopped 1"}, write: true}},
		"a terminate":                      {history: []string{"Instantiated 1", "Terminated 1"}, scope: terminate, want: verdict{appended: []string{"TerminateStopped 1"}, write: true}},
		"a terminate that is not recorded": {history: []string{"Instantiated 1"}, record: &domain.Instance{Operation: domain.OpInstantiate, Began: 6}, scope: terminate},
		"an update that is not recorded": {
			history: []string{"Instantiated 1"}, scope: domain.Scope{ContextID: "2", Operation: domain.OpUpdate, Began: 7},
		},
		"what has been stopped":                                {history: []string{"Instantiated 1", "InstantiateStopped 1"}, scope: instantiate},
		"what a terminate cancels, which has recorded its own": {history: []string{"Instantiated 1", "Terminated 1"}, scope: instantiate},
		"when another context has begun":                       {history: []string{"Instantiated 1", "Terminated 1", "Instantiated 2"}, scope: instantiate},
		"what has ended": {
			history: []string{"Instantiated 1"}, record: &domain.Instance{Operation: domain.OpInstantiate, Began: 7, Ended: now}, scope: instantiate,
		},
		"a terminate after which another one has begun": {
			history: []string{"Instantiated 1", "Terminated 1"}, record: &domain.Instance{Operation: domain.OpTerminate, Began: 8}, scope: terminate,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := groupWith(c.history...)
			c.want.check(t, outcome.Stop(g, c.record, c.scope, "alice", now), c.history, &g.History)
			if c.want.write {
				require.Equal(t, "alice", g.History.Last().RequestedBy)
			}
		})
	}
}

func TestGive(t *testing.T) {
	to := domain.Scope{Owner: "projects/p/composite-apps/vfw/v2/deployment-intent-groups/new", ContextID: "2", Operation: domain.OpMigrate}
	running := []string{"Approved", "Instantiated 1"}
	for name, c := range map[string]struct {
		history []string
		given   outcome.Given
		want    verdict
	}{
		"an instance": {
			running, outcome.Given{ContextID: "1", OwnerRevision: 5, Status: domain.ContextInstantiated}, verdict{appended: []string{"Updated 1 by 2"}, write: true},
		},
		"what has been given":               {append(running, "Updated 1 by 2"), outcome.Given{ContextID: "1", OwnerRevision: 4}, verdict{}},
		"by a plan of an earlier revision":  {running, outcome.Given{ContextID: "1", OwnerRevision: 4, Status: domain.ContextInstantiated}, verdict{refusal: "was changed meanwhile"}},
		"an instance that is at work":       {running, outcome.Given{ContextID: "1", OwnerRevision: 5, Status: domain.ContextInstantiating}, verdict{write: true, refusal: "cannot migrate"}},
		"what is another group's instance ": {append(running, "Updated 1 by 3"), outcome.Given{ContextID: "1", OwnerRevision: 5, Status: domain.ContextUpdated}, verdict{write: true, refusal: "cannot migrate"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := groupWith(c.history...)
			c.given.To, c.given.By = to, "alice"
			c.want.check(t, outcome.Give(g, c.given, now), c.history, &g.History)
			if len(c.want.appended) > 0 {
				require.Equal(t, "migrate to v2/new", g.History.Last().Operation)
				require.Equal(t, "alice", g.History.Last().RequestedBy)
			}
		})
	}
}

func TestTerminating(t *testing.T) {
	scope := domain.Scope{ContextID: "1", Operation: domain.OpTerminate, Began: 7}
	for name, c := range map[string]struct {
		record domain.Instance
		want   outcome.Word
	}{
		"of what is instantiated":        {domain.Instance{Operation: domain.OpInstantiate, Status: domain.ContextInstantiated, Began: 8, Ended: now}, outcome.Written},
		"again":                          {domain.Instance{Operation: domain.OpTerminate, Status: domain.ContextTerminateFailed, Began: 6, Reason: "no", Ended: now}, outcome.Written},
		"which has been noted":           {domain.Instance{Operation: domain.OpTerminate, Status: domain.ContextTerminated, Began: 7, Ended: now}, outcome.Said},
		"after which another has begun":  {domain.Instance{Operation: domain.OpTerminate, Status: domain.ContextTerminating, Began: 8}, outcome.Overtaken},
		"of what an attempt makes again": {domain.Instance{Operation: domain.OpInstantiate, Status: domain.ContextInstantiating, Began: 7}, outcome.Written},
	} {
		t.Run(name, func(t *testing.T) {
			i := c.record
			require.Equal(t, c.want, outcome.Terminating(&i, scope, domain.Ran{RunID: "run", Operation: domain.OpTerminate}))
			if c.want != outcome.Written {
				require.Equal(t, c.record, i, "nothing is written")
				return
			}
			require.Equal(t, domain.ContextTerminating, i.Status)
			require.Empty(t, i.Reason)
			require.Zero(t, i.Ended)
			require.True(t, i.Has(scope))
			require.Equal(t, "run", i.Runs[0].RunID)
		})
	}
}

func TestDetail(t *testing.T) {
	h := &groupWith("Instantiated 1").History
	require.Equal(t, "rollback to 1", outcome.Detail(domain.OpRollback, domain.Goal{Revert: "1"}, h))
	require.Empty(t, outcome.Detail(domain.OpInstantiate, domain.Goal{}, h))
	require.Equal(t, "update", outcome.Detail(domain.OpUpdate, domain.Goal{}, h))
	require.Equal(t, "update, all applied again", outcome.Detail(domain.OpUpdate, domain.Goal{Reapply: true}, h))
}
