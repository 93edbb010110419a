package domain_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// letters are all marks. They are stored: a letter that changes its meaning breaks what is deployed.
const letters = "psAFdrXDKhoGHLk"

func TestMarksAreTheirLetters(t *testing.T) {
	require.Equal(t, letters, string([]byte{
		byte(domain.MarkPending), byte(domain.MarkSent), byte(domain.MarkApplied), byte(domain.MarkRefused), byte(domain.MarkDoomed),
		byte(domain.MarkDeleting), byte(domain.MarkUndeleted), byte(domain.MarkDeleted), byte(domain.MarkKept),
		byte(domain.MarkIdle), byte(domain.MarkOutdated), byte(domain.MarkGone),
		byte(domain.MarkLeft), byte(domain.MarkEnding), byte(domain.MarkKeeping),
	}))
	require.Len(t, declared(t, "mark.go", "Mark"), len(letters), "a mark is not among them")
}

// fact is what some of the predicates answer of a mark, and why.
type fact struct {
	answer     bool
	predicates string // their names
	why        string
}

// truth is what each mark means: every predicate of domain.Mark has its place, once, in every row.
var truth = map[domain.Mark][]fact{
	domain.MarkPending: {
		{false, "There", "nothing was sent"},
		{true, "ToApply", "it is what the work begins with"},
		{true, "Absent", "nothing was sent"},
		{true, "Missed", "a hook that nobody came to"},
		{false, "MayBeThere Ours ToDelete Answered", "nothing was sent"},
		{false, "Settled Failed Idle Succeeded Completed", "it is still to come"},
		{false, "Stays", "it is not there yet"},
		{true, "Unsent", "nobody came to it yet"},
		{true, "Expected", "it is wanted"},
		{false, "ToLookFor", "it is not one to be kept, of which nobody knows"},
	},
	domain.MarkOutdated: {
		{true, "There", "an earlier context applied it"},
		{true, "ToApply", "it is to become what is wanted now"},
		{true, "MayBeThere Ours", "an earlier context applied it"},
		{false, "Absent ToDelete", "it is there, and is to stay"},
		{false, "Answered Failed", "nothing was sent yet"},
		{false, "Settled", "it is still to come"},
		{false, "Idle Succeeded Missed Completed", "no hook has it: hooks are no difference"},
		{false, "Stays", "it is to become another one"},
		{true, "Unsent", "nobody came to it yet"},
		{true, "Expected", "it is wanted"},
		{false, "ToLookFor", "it is not one to be kept, of which nobody knows"},
	},
	domain.MarkSent: {
		{false, "There", "there is no answer"},
		{true, "ToApply", "without an answer it is sent again"},
		{true, "MayBeThere Ours", "the request may have got through"},
		{true, "Missed", "a hook that is not known to have completed is run again"},
		{false, "Absent", "the request may have got through"},
		{false, "ToDelete Idle", "it is being applied"},
		{false, "Settled Answered Failed Succeeded Completed", "there is no answer"},
		{false, "Stays", "whether it is there is not known"},
		{false, "Unsent", "it says so"},
		{true, "Expected", "it is wanted"},
		{false, "ToLookFor", "it is not one to be kept, of which nobody knows"},
	},
	domain.MarkApplied: {
		{true, "There", "the cluster said so"},
		{true, "MayBeThere Ours Stays Answered", "the cluster said so"},
		{true, "Settled", "all that was to be done is done"},
		{true, "Succeeded Completed", "a hook is not applied before it has completed"},
		{false, "Absent ToApply ToDelete Failed Idle Missed", "it is there, and stays"},
		{false, "Unsent", "it was answered"},
		{true, "Expected", "it is wanted"},
		{false, "ToLookFor", "it is not one to be kept, of which nobody knows"},
	},
	domain.MarkRefused: {
		{false, "There", "it is not there"},
		{true, "Absent", "it was new, and the cluster did not take it; or it was a failed hook, and its object was deleted"},
		{true, "Settled", "the cluster's word is final, until somebody asks for it again"},
		{true, "Failed Answered", "the cluster said so"},
		{true, "Missed", "a hook that failed has not done its work"},
		{false, "MayBeThere Ours ToDelete", "it is not there"},
		{false, "ToApply", "the cluster would say the same again"},
		{false, "Idle Succeeded Completed", "it failed"},
		{false, "Stays", "it is not there"},
		{false, "Unsent", "it was answered"},
		{true, "Expected", "it is wanted, and missing"},
		{false, "ToLookFor", "it is not one to be kept, of which nobody knows"},
	},
	domain.MarkDoomed: {
		{true, "There", "it was not asked for yet"},
		{true, "ToDelete", "it is what a terminate begins with, and what an update prunes"},
		{true, "MayBeThere Ours", "it was not asked for yet"},
		{true, "Completed", "the hooks of a terminate are marked so, to be deleted, when all of them have completed"},
		{false, "Absent ToApply", "it is there, and is to go"},
		{false, "Settled Failed Answered", "nothing was sent yet"},
		{false, "Idle Succeeded Missed", "it is no hook that is to be run"},
		{false, "Stays", "it is to go"},
		{true, "Unsent", "nobody came to it yet"},
		{false, "Expected", "it is to go"},
		{false, "ToLookFor", "it is not one to be kept, of which nobody knows"},
	},
	domain.MarkDeleting: {
		{false, "There", "it may have gone, or never been there"},
		{true, "ToDelete", "without an answer it is sent again"},
		{true, "MayBeThere Ours", "the request may not have got through"},
		{true, "Completed", "as MarkDoomed"},
		{false, "Absent", "the request may not have got through"},
		{false, "ToApply", "it is to go"},
		{false, "Settled Failed Answered", "there is no answer"},
		{false, "Idle Succeeded Missed", "it is no hook that is to be run"},
		{false, "Stays", "it is to go"},
		{false, "Unsent", "it may have gone"},
		{false, "Expected", "it is to go"},
		{false, "ToLookFor", "it is not one to be kept, of which nobody knows"},
	},
	domain.MarkEnding: {
		{true, "There", "it was seen, after its deletion was accepted"},
		{true, "ToDelete", "whether it has gone has to be looked at"},
		{true, "MayBeThere Ours", "it was seen, after its deletion was accepted"},
		{true, "Answered", "the cluster said so"},
		{true, "Completed", "as MarkDoomed"},
		{false, "Absent ToApply", "it is there, and is to go"},
		{false, "Settled", "deleted is gone"},
		{false, "Failed", "its deletion was accepted"},
		{false, "Idle Succeeded Missed", "it is no hook that is to be run"},
		{false, "Stays", "it is to go"},
		{false, "Unsent", "it was answered"},
		{false, "Expected", "it is to go"},
		{false, "ToLookFor", "it is not one to be kept, of which nobody knows"},
	},
	domain.MarkUndeleted: {
		{false, "There", "what was refused may never have been there"},
		{true, "MayBeThere Ours", "a refused delete leaves it; a refused apply leaves what was there; a failed hook has an object"},
		{true, "Settled", "the cluster's word is final, until somebody asks for it again"},
		{true, "Failed Answered", "the cluster said so"},
		{true, "Missed", "a hook that failed has not done its work"},
		{false, "Absent", "it may be there"},
		{false, "ToApply ToDelete", "the cluster would say the same again; a terminate that is asked for again dooms it"},
		{false, "Idle Succeeded Completed", "it failed"},
		{false, "Stays", "it was to become another one, or to go"},
		{false, "Unsent", "it was answered"},
		{true, "Expected", "it is wanted; or it was to go, and is there"},
		{false, "ToLookFor", "it is not one to be kept, of which nobody knows"},
	},
	domain.MarkDeleted: {
		{false, "There", "it is not there"},
		{true, "Absent Answered", "the cluster said so"},
		{true, "Settled", "all that was to be done is done"},
		{true, "Succeeded Completed", "a hook's object is deleted by its policy, or by a terminate, when it has completed"},
		{false, "MayBeThere Ours ToDelete", "it is not there"},
		{false, "ToApply Failed Idle Missed", "it has gone in order"},
		{false, "Stays", "it is not there"},
		{false, "Unsent", "it was answered"},
		{false, "Expected", "it has done its work, or has gone"},
		{false, "ToLookFor", "it is not one to be kept, of which nobody knows"},
	},
	domain.MarkKept: {
		{true, "There", "it is left there on purpose"},
		{true, "MayBeThere Stays", "it is left there on purpose"},
		{true, "Settled", "nothing is done on it"},
		{true, "Completed", "a hook of a terminate that is to be kept is marked so when all of them have completed"},
		{true, "Succeeded", "a hook whose object was there before has nothing to do"},
		{false, "Ours", "it stays when all else goes: nobody deletes it"},
		{false, "Absent", "it stays"},
		{false, "ToApply ToDelete Answered", "nothing is sent"},
		{false, "Failed Idle Missed", "it is as it is to be"},
		{false, "Unsent", "it is to have none"},
		{false, "Expected", "what was there before does not have the label"},
		{false, "ToLookFor", "it was there when it was last heard of"},
	},
	domain.MarkKeeping: {
		{false, "There", "whether it is there is not known"},
		{true, "MayBeThere", "a request that applies it may have got through"},
		{true, "ToLookFor", "it says so"},
		{true, "Completed", "as MarkKept"},
		{false, "Ours", "nobody deletes it, as MarkKept"},
		{false, "Absent Stays", "whether it is there is not known"},
		{false, "ToApply ToDelete", "nothing is sent that changes it"},
		{false, "Settled Failed Answered", "there is no answer"},
		{false, "Idle Succeeded Missed", "it is no hook that is to be run"},
		{false, "Unsent", "the request of which nobody knows was"},
		{false, "Expected", "it is a terminate's: nothing is to be there"},
	},
	domain.MarkIdle: {
		{false, "There", "nothing was sent"},
		{true, "Absent", "nothing was sent"},
		{true, "Idle", "it says so"},
		{true, "Settled", "the operation has nothing to do with it"},
		{false, "MayBeThere Ours ToDelete Answered", "nothing was sent"},
		{false, "ToApply Missed", "the operation does not run it"},
		{false, "Failed Succeeded Completed", "it was not run"},
		{false, "Stays", "it is not there"},
		{false, "Unsent", "it is to have none"},
		{false, "Expected", "the operation does not run it"},
		{false, "ToLookFor", "it is not one to be kept, of which nobody knows"},
	},
	domain.MarkLeft: {
		{false, "There", "a run of it may have left nothing"},
		{true, "MayBeThere Ours", "a run of it may have left an object"},
		{true, "Idle", "it says so"},
		{true, "Settled", "the operation has nothing to do with it"},
		{false, "Absent", "a run of it may have left an object"},
		{false, "ToApply Missed", "the operation does not run it"},
		{false, "ToDelete", "it is for the next run of it, or a terminate"},
		{false, "Failed Answered", "that was of an earlier operation"},
		{false, "Succeeded Completed", "its run did not succeed"},
		{false, "Stays", "what there is of it is the rest of a failure"},
		{false, "Unsent", "it is to have none"},
		{false, "Expected", "what there is of it is the rest of a failure"},
		{false, "ToLookFor", "it is not one to be kept, of which nobody knows"},
	},
	domain.MarkGone: {
		{false, "There", "it is not the context's"},
		{true, "Settled", "there is nothing to do"},
		{false, "MayBeThere Ours", "it was pruned, or this cluster never had it"},
		{false, "Absent", "it is not the context's: nothing is said of it"},
		{false, "ToApply ToDelete Failed Answered Idle Succeeded Missed Completed", "it is not the context's"},
		{false, "Stays", "it is not the context's"},
		{false, "Unsent", "it is to have none"},
		{false, "Expected", "it is not the context's"},
		{false, "ToLookFor", "it is not one to be kept, of which nobody knows"},
	},
}

// become is what a mark becomes, and why.
type become struct {
	to  domain.Mark
	why string
}

// becomes has, for each mark, what every function from marks to marks makes of it.
var becomes = map[domain.Mark]map[string]become{
	domain.MarkPending: {
		"Renew":  {domain.MarkSent, "nobody says that it is there"},
		"Send":   {domain.MarkSent, "the request may get through without an answer"},
		"Refuse": {domain.MarkRefused, "it was never sent before"},
		"Unsure": {domain.MarkSent, "nobody knows what was sent"},
		"Doom":   {domain.MarkDeleted, "nothing was sent"},
		"Await":  {domain.MarkPending, "only what was taken is waited for"},
		"Prune":  {domain.MarkPending, "it has not gone"},
		"Tidied": {domain.MarkPending, "no run has ended so"},
		"Keep":   {domain.MarkPending, "a terminate would not delete it"},
	},
	domain.MarkOutdated: {
		"Renew":  {domain.MarkOutdated, "what an earlier context applied is there"},
		"Send":   {domain.MarkSent, "as MarkPending"},
		"Refuse": {domain.MarkUndeleted, "what an earlier context applied is there"},
		"Unsure": {domain.MarkSent, "nobody knows what was sent"},
		"Doom":   {domain.MarkDoomed, "what an earlier context applied is there"},
		"Await":  {domain.MarkOutdated, "only what was taken is waited for"},
		"Prune":  {domain.MarkOutdated, "it has not gone"},
		"Tidied": {domain.MarkOutdated, "no run has ended so"},
		"Keep":   {domain.MarkOutdated, "a terminate would not delete it"},
	},
	domain.MarkSent: {
		"Renew":  {domain.MarkSent, "nobody says that it is there"},
		"Send":   {domain.MarkSent, "it was"},
		"Refuse": {domain.MarkUndeleted, "the request before may have got through"},
		"Unsure": {domain.MarkSent, "nobody knows what was sent"},
		"Doom":   {domain.MarkDeleting, "it may be there, and nobody says that it is"},
		"Await":  {domain.MarkSent, "only what was taken is waited for"},
		"Prune":  {domain.MarkSent, "it has not gone"},
		"Tidied": {domain.MarkSent, "no run has ended so"},
		"Keep":   {domain.MarkSent, "a terminate would not delete it"},
	},
	domain.MarkApplied: {
		"Renew":  {domain.MarkOutdated, "it is there"},
		"Send":   {domain.MarkApplied, "nothing is sent for it"},
		"Refuse": {domain.MarkUndeleted, "it is there: the certificate that was asked for is refused, say"},
		"Unsure": {domain.MarkSent, "nobody knows what was sent"},
		"Doom":   {domain.MarkDoomed, "it is there"},
		"Await":  {domain.MarkSent, "taken is not completed"},
		"Prune":  {domain.MarkApplied, "it has not gone"},
		"Tidied": {domain.MarkDeleted, "it has done its work"},
		"Keep":   {domain.MarkApplied, "a terminate would not delete it"},
	},
	domain.MarkRefused: {
		"Renew":  {domain.MarkSent, "nobody says that it is there"},
		"Send":   {domain.MarkRefused, "nothing is sent for it"},
		"Refuse": {domain.MarkRefused, "it was"},
		"Unsure": {domain.MarkSent, "nobody knows what was sent"},
		"Doom":   {domain.MarkDeleted, "it is not there"},
		"Await":  {domain.MarkRefused, "only what was taken is waited for"},
		"Prune":  {domain.MarkRefused, "it has not gone"},
		"Tidied": {domain.MarkRefused, "no run has ended so"},
		"Keep":   {domain.MarkRefused, "a terminate would not delete it"},
	},
	domain.MarkDoomed: {
		"Renew":  {domain.MarkOutdated, "it is there"},
		"Send":   {domain.MarkDeleting, "nobody can say from now on that it is still there"},
		"Refuse": {domain.MarkUndeleted, "it is there"},
		"Unsure": {domain.MarkSent, "nobody knows what was sent"},
		"Doom":   {domain.MarkDoomed, "it is"},
		"Await":  {domain.MarkDoomed, "only what was taken is waited for"},
		"Prune":  {domain.MarkDoomed, "it has not gone"},
		"Tidied": {domain.MarkDoomed, "no run has ended so"},
		"Keep":   {domain.MarkKept, "it is there"},
	},
	domain.MarkDeleting: {
		"Renew":  {domain.MarkSent, "nobody says that it is there"},
		"Send":   {domain.MarkDeleting, "it was"},
		"Refuse": {domain.MarkUndeleted, "it may be there"},
		"Unsure": {domain.MarkSent, "nobody knows what was sent"},
		"Doom":   {domain.MarkDeleting, "it has been sent already"},
		"Await":  {domain.MarkDeleting, "only what was taken is waited for"},
		"Prune":  {domain.MarkDeleting, "it has not gone"},
		"Tidied": {domain.MarkDeleting, "no run has ended so"},
		"Keep":   {domain.MarkKeeping, "it may be there, and nobody says that it is"},
	},
	domain.MarkEnding: {
		"Renew":  {domain.MarkOutdated, "it is there still"},
		"Send":   {domain.MarkEnding, "its deletion was accepted"},
		"Refuse": {domain.MarkUndeleted, "it is there"},
		"Unsure": {domain.MarkSent, "nobody knows what was sent"},
		"Doom":   {domain.MarkEnding, "its deletion was accepted: it is looked at"},
		"Await":  {domain.MarkEnding, "only what was taken is waited for"},
		"Prune":  {domain.MarkEnding, "it has not gone"},
		"Tidied": {domain.MarkEnding, "no run has ended so"},
		"Keep":   {domain.MarkKept, "it was there"},
	},
	domain.MarkUndeleted: {
		"Renew":  {domain.MarkSent, "nobody says that it is there"},
		"Send":   {domain.MarkUndeleted, "nothing is sent for it"},
		"Refuse": {domain.MarkUndeleted, "it was"},
		"Unsure": {domain.MarkSent, "nobody knows what was sent"},
		"Doom":   {domain.MarkDeleting, "it may be there: it is tried again"},
		"Await":  {domain.MarkUndeleted, "only what was taken is waited for"},
		"Prune":  {domain.MarkUndeleted, "it has not gone"},
		"Tidied": {domain.MarkRefused, "it has failed, and what it left is gone"},
		"Keep":   {domain.MarkUndeleted, "a terminate would not delete it"},
	},
	domain.MarkDeleted: {
		"Renew":  {domain.MarkSent, "nobody says that it is there"},
		"Send":   {domain.MarkDeleted, "nothing is sent for it"},
		"Refuse": {domain.MarkRefused, "it is not there"},
		"Unsure": {domain.MarkSent, "nobody knows what was sent"},
		"Doom":   {domain.MarkDeleted, "it is not there"},
		"Await":  {domain.MarkDeleted, "only what was taken is waited for"},
		"Prune":  {domain.MarkGone, "the context does not have it any more"},
		"Tidied": {domain.MarkDeleted, "no run has ended so"},
		"Keep":   {domain.MarkDeleted, "a terminate would not delete it"},
	},
	domain.MarkKept: {
		"Renew":  {domain.MarkOutdated, "it is there"},
		"Send":   {domain.MarkKept, "nothing is sent for it"},
		"Refuse": {domain.MarkUndeleted, "it is there"},
		"Unsure": {domain.MarkSent, "nobody knows what was sent"},
		"Doom":   {domain.MarkKept, "it stays"},
		"Await":  {domain.MarkKept, "only what was taken is waited for"},
		"Prune":  {domain.MarkKept, "it has not gone"},
		"Tidied": {domain.MarkKept, "no run has ended so"},
		"Keep":   {domain.MarkKept, "a terminate would not delete it"},
	},
	domain.MarkKeeping: {
		"Renew":  {domain.MarkSent, "nobody says that it is there"},
		"Send":   {domain.MarkKeeping, "nothing is sent for it"},
		"Refuse": {domain.MarkUndeleted, "it may be there"},
		"Unsure": {domain.MarkSent, "nobody knows what was sent"},
		"Doom":   {domain.MarkKeeping, "it is looked for again"},
		"Await":  {domain.MarkKeeping, "only what was taken is waited for"},
		"Prune":  {domain.MarkKeeping, "it has not gone"},
		"Tidied": {domain.MarkKeeping, "no run has ended so"},
		"Keep":   {domain.MarkKeeping, "it is"},
	},
	domain.MarkIdle: {
		"Renew":  {domain.MarkSent, "nobody says that it is there"},
		"Send":   {domain.MarkIdle, "nothing is sent for it"},
		"Refuse": {domain.MarkRefused, "it was never sent"},
		"Unsure": {domain.MarkSent, "nobody knows what was sent"},
		"Doom":   {domain.MarkDeleted, "nothing was sent"},
		"Await":  {domain.MarkIdle, "only what was taken is waited for"},
		"Prune":  {domain.MarkIdle, "it has not gone"},
		"Tidied": {domain.MarkIdle, "no run has ended so"},
		"Keep":   {domain.MarkIdle, "a terminate would not delete it"},
	},
	domain.MarkLeft: {
		"Renew":  {domain.MarkSent, "nobody says that it is there"},
		"Send":   {domain.MarkLeft, "nothing is sent for it"},
		"Refuse": {domain.MarkUndeleted, "a run of it may have left an object"},
		"Unsure": {domain.MarkSent, "nobody knows what was sent"},
		"Doom":   {domain.MarkDeleting, "a run of it may have left an object"},
		"Await":  {domain.MarkLeft, "only what was taken is waited for"},
		"Prune":  {domain.MarkLeft, "it has not gone"},
		"Tidied": {domain.MarkLeft, "no run has ended so"},
		"Keep":   {domain.MarkLeft, "a terminate would not delete it"},
	},
	domain.MarkGone: {
		"Renew":  {domain.MarkSent, "nobody says that it is there"},
		"Send":   {domain.MarkGone, "it is not the context's"},
		"Refuse": {domain.MarkRefused, "it was never here"},
		"Unsure": {domain.MarkGone, "it is not the context's, whatever was sent"},
		"Doom":   {domain.MarkGone, "it is not the context's"},
		"Await":  {domain.MarkGone, "only what was taken is waited for"},
		"Prune":  {domain.MarkGone, "it has not gone"},
		"Tidied": {domain.MarkGone, "no run has ended so"},
		"Keep":   {domain.MarkGone, "a terminate would not delete it"},
	},
}

// methods are those of T that have the type F.
func methods[T, F any]() map[string]F {
	found := map[string]F{}
	for m := range reflect.TypeFor[T]().Methods() {
		if f, ok := m.Func.Interface().(F); ok {
			found[m.Name] = f
		}
	}
	return found
}

// declared are the names of the constants of a file that begin so.
func declared(t *testing.T, file, prefix string) (names []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			for _, n := range spec.(*ast.ValueSpec).Names {
				if strings.HasPrefix(n.Name, prefix) {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// TestTheTruthOfMarks has a row for every mark and a cell for every predicate: who adds one says of all what it means.
func TestTheTruthOfMarks(t *testing.T) {
	predicates := methods[domain.Mark, func(domain.Mark) bool]()
	require.NotEmpty(t, predicates)
	require.Len(t, truth, len(letters))
	for _, letter := range []byte(letters) {
		cells := map[string]fact{}
		for _, f := range truth[domain.Mark(letter)] {
			require.NotEmpty(t, f.why)
			for _, name := range strings.Fields(f.predicates) {
				require.Contains(t, predicates, name, "%c", letter)
				require.NotContains(t, cells, name, "%c has it twice", letter)
				cells[name] = f
			}
		}
		for name, holds := range predicates {
			f, ok := cells[name]
			require.True(t, ok, "%c says nothing of %s", letter, name)
			require.Equal(t, f.answer, holds(domain.Mark(letter)), "%c %s: %s", letter, name, f.why)
		}
	}
}

// TestWhatBecomesOfMarks is the same for what is made of them.
func TestWhatBecomesOfMarks(t *testing.T) {
	functions := methods[domain.Mark, func(domain.Mark) domain.Mark]()
	require.NotEmpty(t, functions)
	require.Len(t, becomes, len(letters))
	for _, letter := range []byte(letters) {
		require.Len(t, becomes[domain.Mark(letter)], len(functions), "%c", letter)
		for name, f := range functions {
			want, ok := becomes[domain.Mark(letter)][name]
			require.True(t, ok && want.why != "", "%c says nothing of %s", letter, name)
			require.Equal(t, string(want.to), string(f(domain.Mark(letter))), "%c %s: %s", letter, name, want.why)
		}
	}
}

func TestMarksEncode(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"A":                             "1A",
		"AAF":                           "2A1F",
		"ApA":                           "1A1p1A",
		strings.Repeat("A", 500) + "FF": "500A2F",
		strings.Repeat("p", 10_000):     "10000p",
		letters:                         "1p1s1A1F1d1r1X1D1K1h1o1G1H1L1k",
	} {
		marks := domain.Marks(text)
		require.Equal(t, want, marks.Encode())
		require.Equal(t, text, letter(domain.DecodeMarks(want)))
	}
	require.Equal(t, "3D", domain.NewMarks(3, domain.MarkDeleted).Encode())
	require.Empty(t, domain.NewMarks(0, domain.MarkDeleted).Encode())
}

func letter(m domain.Marks) string {
	var b strings.Builder
	for _, x := range m {
		b.WriteByte(byte(x))
	}
	return b.String()
}

// TestMarkState is how each mark is shown.
func TestMarkState(t *testing.T) {
	states := map[domain.Mark]struct {
		going, unanswered, ended domain.ResourceState
		why                      string
	}{
		domain.MarkPending:   {"Pending", "Retrying", "Pending", "nobody came to it"},
		domain.MarkSent:      {"Pending", "Retrying", "Failed", "nobody knows what came of it"},
		domain.MarkApplied:   {"Applied", "Applied", "Applied", "it is there as it is to be"},
		domain.MarkRefused:   {"Failed", "Failed", "Failed", "the cluster has refused it"},
		domain.MarkDoomed:    {"Pending", "Retrying", "Applied", "it is there until somebody comes to it"},
		domain.MarkDeleting:  {"Pending", "Retrying", "Failed", "nobody knows what came of it"},
		domain.MarkUndeleted: {"Failed", "Failed", "Failed", "it may be there, and is not as it is to be"},
		domain.MarkEnding:    {"Retrying", "Retrying", "Failed", "it is tried again until it is gone"},
		domain.MarkDeleted:   {"Deleted", "Deleted", "Deleted", "it is not there"},
		domain.MarkKept:      {"Applied", "Applied", "Applied", "it is there on purpose"},
		domain.MarkKeeping:   {"Pending", "Retrying", "Failed", "nobody knows whether it is there"},
		domain.MarkIdle:      {"Pending", "Pending", "Pending", "this operation does not run it"},
		domain.MarkLeft:      {"Pending", "Pending", "Pending", "this operation does not run it"},
		domain.MarkOutdated:  {"Pending", "Retrying", "Pending", "it is not what it is to be"},
		domain.MarkGone:      {"", "", "", "it is not the context's, and not shown"},
	}
	require.Len(t, states, len(letters))
	for m, want := range states {
		for _, c := range []domain.Connectivity{domain.ConnectivityUnknown, domain.ConnectivityAvailable, domain.ConnectivityRetrying} {
			going := want.going
			if c == domain.ConnectivityRetrying {
				going = want.unanswered
			}
			require.Equal(t, going, m.State(true, c), "%c %s: %s", m, c, want.why)
			require.Equal(t, want.ended, m.State(false, c), "%c %s: %s", m, c, want.why)
		}
	}
}

func TestMarksCount(t *testing.T) {
	marks := domain.DecodeMarks("2A1F3p")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 2, "Failed": 1, "Pending": 3}, marks.Count(false, domain.ConnectivityRetrying))
	require.Equal(t, map[domain.ResourceState]int{"Applied": 2, "Failed": 1, "Retrying": 3}, marks.Count(true, domain.ConnectivityRetrying))
}

// TestWhatMarksLack: what is settled lacks nothing, and what is not lacks something.
func TestWhatMarksLack(t *testing.T) {
	lacks := map[domain.Mark]struct {
		domain.Lack
		why string
	}{
		domain.MarkPending:  {domain.LacksRequest, "nobody came to it yet"},
		domain.MarkOutdated: {domain.LacksRequest, "it is there as it was, and is to become another one"},
		domain.MarkDoomed:   {domain.LacksDelete, "it is there, and nobody came to it yet"},
		domain.MarkSent:     {domain.LacksAnswer, "it was sent, and may be there or not"},
		domain.MarkDeleting: {domain.LacksAnswer, "its deletion was sent, or nobody knew whether it is there"},
		domain.MarkEnding:   {domain.LacksEnd, "a finalizer holds it"},
		domain.MarkKeeping:  {domain.LacksAnswer, "nobody knows whether it is there to be kept"},
	}
	for _, letter := range []byte(letters) {
		m := domain.Mark(letter)
		require.Equal(t, lacks[m].Lack, m.Lacks(), "%c: %s", letter, lacks[m].why)
		require.Equal(t, m.Settled(), m.Lacks() == domain.LacksNothing, "%c", letter)
	}
}

// TestWhatMarksHide is what states do not say.
func TestWhatMarksHide(t *testing.T) {
	residues := map[domain.Mark]struct {
		domain.Residue
		why string
	}{
		domain.MarkKept:   {domain.ResidueKept, "a terminate has left it on purpose, and has not failed by it"},
		domain.MarkIdle:   {domain.ResidueIdle, "the operation does not run it, and misses nothing"},
		domain.MarkLeft:   {domain.ResidueIdle, "the operation does not run it, whatever an earlier run has left"},
		domain.MarkDoomed: {domain.ResidueUndealt, "it was to go, and is still shown as it was"},
	}
	for _, letter := range []byte(letters) {
		m := domain.Mark(letter)
		require.Equal(t, residues[m].Residue, m.Residue(), "%c: %s", letter, residues[m].why)
	}
}

// TestMarksStay is that what is made of marks leaves them as they are.
func TestMarksStay(t *testing.T) {
	marks := domain.DecodeMarks("2A1p")
	require.Equal(t, "2d1D", marks.Doom().Encode())
	require.Equal(t, "3s", marks.Unsure().Encode())
	require.Equal(t, "2A1p", marks.Encode())
}

func FuzzDecodeMarks(f *testing.F) {
	for _, s := range []string{"", "1A", "500A2F", "0A", "A", "12", "1A2", "007p", letters, "1é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if tooMany(s) {
			t.Skip("more marks than memory")
		}
		marks := domain.DecodeMarks(s)
		require.Equal(t, marks, domain.DecodeMarks(marks.Encode()), "%q", s)
	})
}

// tooMany says whether a number in s has more than 5 digits.
func tooMany(s string) bool {
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			n = 0
		} else if n++; n > 5 {
			return true
		}
	}
	return false
}
