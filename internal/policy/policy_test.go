package policy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/policy"
)

// named is a time with the words for it in a failure.
type named struct {
	name string
	d    time.Duration
}

// TestTimesAreInOrder: of two that wait for the same thing the one who knows more about it gives up first.
func TestTimesAreInOrder(t *testing.T) {
	for reason, chain := range map[string][]named{
		"who knows what takes long says so, and prepares longer than anybody waits": {
			{"Render", policy.Render}, {"its process", policy.Render + policy.RenderOvertime}, {"Accept", policy.Accept},
			{"Answer", policy.Answer}, {"PacedWait and Answer", policy.PacedWait + policy.Answer}, {"Client", policy.Client}, {"Prepare", policy.Prepare}, {"PrepareAll", policy.PrepareAll},
		},
		"clusters are heard while there is time to render": {
			{"NodesAgain", policy.NodesAgain}, {"Nodes", policy.Nodes}, {"NodesAgainAll", policy.NodesAgainAll}, {"NodesAll", policy.NodesAll},
			{"Accept without Render", policy.Accept - policy.Render - policy.RenderOvertime},
		},
		"a workflow that ends is waited for while there is time to start anew":    {{"Poll", policy.Poll}, {"Leave", policy.Leave}, {"half of Accept", policy.Accept / 2}},
		"what was not accepted in time is looked for before the API gives up":     {{"Accept and Look", policy.Accept + policy.Look}, {"Answer", policy.Answer}},
		"a stop is answered by the engine, and asks for nothing that is rendered": {{"Call", policy.Call}, {"Stop", policy.Stop}, {"Plain", policy.Plain}},
		"a question about runs is a part of the answer to another one":            {{"Describe", policy.Describe}, {"Call", policy.Call}},
		"a connection lasts as long as an upload and its answer":                  {{"Answer", policy.Answer}, {"Upload", policy.Upload}},
		"a body that stands still is refused before an upload is cut":             {{"Body", policy.Body}, {"Upload", policy.Upload}},
		"a reader of a stream is gone when it takes nothing between two beats":    {{"StreamBeat", policy.StreamBeat}, {"StreamWrite", policy.StreamWrite}, {"a proxy", time.Minute}},

		"a balancer ends a connection that nobody uses, and not the API": {{"a balancer", 10 * time.Minute}, {"Idle", policy.Idle}},

		"an audit record is written or refused before a request is cut": {{"AuditWrite", policy.AuditWrite}, {"Plain", policy.Plain}},
		"a writer of audit records says several times that it lives, and seals before": {
			{"AuditSeal", policy.AuditSeal}, {"AuditLook", policy.AuditLook}, {"half of AuditDead", policy.AuditDead / 2},
		},
		"tables are answered for before a request is cut, and retried meanwhile": {{"TablesRetry", policy.TablesRetry}, {"TablesLook", policy.TablesLook}, {"Tables", policy.Tables}, {"Plain", policy.Plain}},

		"heartbeats come several times before an attempt is given to another worker": {
			{"Beat", policy.Beat}, {"twice Throttle", 2 * policy.Throttle}, {"Heartbeat without LeaseMargin", policy.Heartbeat - policy.LeaseMargin},
		},
		"a worker notices that it was frozen before its lease could hide it": {{"Alive", policy.Alive}, {"Frozen", policy.Frozen}, {"LeaseMargin, or as long", policy.LeaseMargin + 1}},
		"a task goes elsewhere before it is given up":                        {{"Sticky", policy.Sticky}, {"Task", policy.Task}},
		"what was on its way has arrived":                                    {{"Beat and Throttle", policy.Beat + policy.Throttle}, {"InFlight", policy.InFlight}},
		"a workflow that is cancelled is waited for in several polls":        {{"PollLeast", policy.PollLeast}, {"Poll", policy.Poll}, {"Close", policy.Close}, {"Below", policy.Below}},
		"another token for a session is there, or is not to be had, before who asks is told to come again": {
			{"RenewLook", policy.RenewLook}, {"Keys", policy.Keys}, {"Renew", policy.Renew}, {"Prove", policy.Prove},
		},
		"who asks the engine for a list or an explanation answers without it in time": {
			{"SignCounts", policy.SignCounts}, {"ListCounts", policy.ListCounts}, {"Describe", policy.Describe}, {"Explain", policy.Explain}, {"Plain", policy.Plain},
		},
		"metrics come within a scrape of ten seconds though neither the store nor Temporal answers": {
			{"ScrapeLook, BookTime and Measure", policy.ScrapeLook + policy.BookTime + policy.Measure}, {"ten seconds", 10 * time.Second},
		},
		"who has lost a right ends within ten seconds": {{"BookFresh, Standing and BookTime", policy.BookFresh + policy.Standing + policy.BookTime}, {"ten seconds, or as long", 10*time.Second + 1}},
		"rights are known as long as they may be read": {{"BookFresh", policy.BookFresh}, {"BookTime", policy.BookTime}, {"BookGood", policy.BookGood}},
		"a request has a slot, or is refused, before it is cut": {
			{"YoungFor", policy.YoungFor}, {"AdmitWait", policy.AdmitWait}, {"PacedWait", policy.PacedWait}, {"Plain", policy.Plain},
		},
		"who found no slot comes again": {{"AdmitLater", policy.AdmitLater}, {"AdmitLatest", policy.AdmitLatest}, {"Patience", policy.Patience}},
		"the operations of a project are counted before the number is too old": {
			{"RunningFresh", policy.RunningFresh}, {"CountTime", policy.CountTime}, {"RunningStale", policy.RunningStale},
		},
		"the documents of a project are counted before the number is too old": {
			{"UsageFresh", policy.UsageFresh}, {"UsageTime", policy.UsageTime}, {"UsageRare", policy.UsageRare}, {"UsageStale", policy.UsageStale},
		},
		"looks of a stream": {
			{"StreamLook", policy.StreamLook}, {"LongestStreamLook", policy.LongestStreamLook}, {"StreamAnew", policy.StreamAnew},
			{"StreamLookTime", policy.StreamLookTime}, {"StreamPatience", policy.StreamPatience},
		},
		"an attempt that goes on has come further than a request of the one before": {{"StoreCall", policy.StoreCall}, {"ClusterRequest", policy.ClusterRequest}, {"ClusterWebhook", policy.ClusterWebhook}, {"ClusterWrite", policy.ClusterWrite}, {"Outlasts", policy.Outlasts}},
		"a call of the store ends before a request that makes it":                   {{"StoreCall", policy.StoreCall}, {"Plain", policy.Plain}},
		"nobody follows a chain to an entry that was removed, or puts one there":    {{"TailAge", policy.TailAge}, {"FollowAge", policy.FollowAge}, {"ChangesKept", policy.ChangesKept}},
		"a blob that is wanted is noted before it is taken for unwanted":            {{"twice Touch", 2 * policy.Touch}, {"Unwanted", policy.Unwanted}},
		"a cluster that was switched off is noticed before a request is over": {
			{"Dial", policy.Dial}, {"Handshake", policy.Handshake}, {"Silence and Mute", policy.Silence + policy.Mute}, {"ClusterRequest", policy.ClusterRequest},
		},
		"a cluster says whether it answers before a try of it is over":       {{"Probe", policy.Probe}, {"Ping", policy.Ping}, {"ClusterCheck", policy.ClusterCheck}},
		"looks at what was removed":                                          {{"FirstGone", policy.FirstGone}, {"RemoveLooks", policy.RemoveLooks}, {"LongestGone", policy.LongestGone}, {"StageWait", policy.StageWait}},
		"looks for remnants":                                                 {{"FirstSweep", policy.FirstSweep}, {"LongestSweep", policy.LongestSweep}, {"ClusterWrite", policy.ClusterWrite}, {"Remnants", policy.Remnants}},
		"sessions with a cluster":                                            {{"FirstSession", policy.FirstSession}, {"LeastWatch", policy.LeastWatch}, {"GoodSession", policy.GoodSession}, {"LongestSession", policy.LongestSession}},
		"kinds that a cluster refuses":                                       {{"FirstRefused", policy.FirstRefused}, {"LongestRefused", policy.LongestRefused}, {"ThinLine", policy.ThinLine}},
		"a cluster is behind what it was when it is looked at":               {{"RestoredAgain", policy.RestoredAgain}, {"RestoredLook", policy.RestoredLook}, {"ClusterRequest", policy.ClusterRequest}, {"Remembers", policy.Remembers}},
		"looks at kinds":                                                     {{"KindsLook", policy.KindsLook}, {"KindsLookAgain", policy.KindsLookAgain}, {"KindsLookLast", policy.KindsLookLast}},
		"who is refused a write is told so, too, before a request is cut":    {{"Undo", policy.Undo}, {"Plain", policy.Plain}, {"UndoLong", policy.UndoLong}},
		"looks for what is put back":                                         {{"LongestWritten", policy.LongestWritten}, {"UndoneBack", policy.UndoneBack}, {"Undo", policy.Undo}},
		"looks at what has become of a write":                                {{"FirstWritten", policy.FirstWritten}, {"LongestWritten", policy.LongestWritten}, {"Undo", policy.Undo}},
		"a cluster is tried while it is registered":                          {{"ClusterTry", policy.ClusterTry}, {"ClusterCheck", policy.ClusterCheck}, {"Plain", policy.Plain}},
		"watches are waited for a part of the time for which they stand":     {{"SignWatchesWait", policy.SignWatchesWait}, {"SignWatches", policy.SignWatches}},
		"tables are looked at as long as they are kept":                      {{"TablesAnew", policy.TablesAnew}, {"TablesKept", policy.TablesKept}},
		"tables that were given up":                                          {{"FirstTables", policy.FirstTables}, {"LongestTables", policy.LongestTables}},
		"a stream that was displaced ends before others look":                {{"StreamLeast", policy.StreamLeast}, {"StreamHandOver", policy.StreamHandOver}, {"StreamStands", policy.StreamStands}, {"Lost", policy.Lost}, {"Unfinished", policy.Unfinished}},
		"a sweep has less time for a tenant than its stream":                 {{"StoreCall", policy.StoreCall}, {"Plain", policy.Plain}, {"SweepTenant", policy.SweepTenant}, {"Answer", policy.Answer}},
		"who waits for a turn has time for tables before the request is cut": {{"ReadWait", policy.ReadWait}, {"Tables", policy.Tables}, {"Plain", policy.Plain}},
		"who waits for readers is told so before the request is cut":         {{"ReadLater", policy.ReadLater}, {"ReadWait", policy.ReadWait}, {"Plain", policy.Plain}},
		"matches are tried again":                                            {{"FirstAgain", policy.FirstAgain}, {"LongestAgain", policy.LongestAgain}, {"Lives", policy.Lives}},
		"matches that are being deleted are looked at":                       {{"FirstAgain", policy.FirstAgain}, {"LongestWait", policy.LongestWait}, {"LongestAgain", policy.LongestAgain}},
		"looks at a report":                                                  {{"FirstLook", policy.FirstLook}, {"LongestLook", policy.LongestLook}, {"Confirm", policy.Confirm}},
		"looks at a certificate":                                             {{"LongestLook", policy.LongestLook}, {"Sign", policy.Sign}},
		"looks at a hook":                                                    {{"FirstLook", policy.FirstLook}, {"LongestHookLook", policy.LongestHookLook}},
		"a look at a hook that fails is no silence":                          {{"LongestHookLook, ClusterRequest and LongestWork", policy.LongestHookLook + policy.ClusterRequest + policy.LongestWork}, {"HookSilence", policy.HookSilence}},
		"looks at an app":                                                    {{"FirstReadyLook", policy.FirstReadyLook}, {"LongestReadyLook", policy.LongestReadyLook}},
		"words about an app":                                                 {{"FirstLacking", policy.FirstLacking}, {"LongestLacking", policy.LongestLacking}},
		"attempts at work":                                                   {{"FirstWork", policy.FirstWork}, {"LongestWork", policy.LongestWork}},
		"looks at what outlives its deletion":                                {{"FirstEnding", policy.FirstEnding}, {"LongestEnding", policy.LongestEnding}},
		"looks at a cluster that is away":                                    {{"FirstAway", policy.FirstAway}, {"LongestAway", policy.LongestAway}},
		"tries of a watch":                                                   {{"FirstWatch", policy.FirstWatch}, {"LongestWatch", policy.LongestWatch}},
	} {
		for i := range chain[1:] {
			less, more := chain[i], chain[i+1]
			require.Less(t, less.d, more.d, "%s: %s must be less than %s", reason, less.name, more.name)
		}
	}
}

// homes are the packages whose times live here, with their file that may have some.
var homes = map[string]string{
	"api": "", "worker": "", "activities": "", "internal/engine": "", "internal/service": "", "internal/match": "",
	"internal/door": "", "internal/notify": "", "internal/observe": "", "internal/store": "",
	"workflows":        "policies.go", // what only workflows wait for
	"internal/explain": "text.go",     // which words a time is told by
	"internal/kube":    "account.go",  // what a command waits for that somebody looks at
}

// TestNoTimesElsewhere: a time that is written where it is used is one that no other time can be compared with.
func TestNoTimesElsewhere(t *testing.T) {
	for home, but := range homes {
		files := 0
		err := filepath.WalkDir(filepath.Join("..", "..", filepath.FromSlash(home)), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || d.Name() == but {
				return err
			}
			files++
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, at := range literals(f) {
				t.Errorf("%s has a time of its own: give it a name in internal/policy (or, what only workflows wait for, in workflows/policies.go)", set.Position(at))
			}
			return nil
		})
		require.NoError(t, err)
		require.NotZero(t, files, home)
	}
}

// literals finds durations that are written as such: 3*time.Second, or time.Second alone. A unit that converts a number, or
// to which a time is rounded, is none.
func literals(f *ast.File) (found []token.Pos) {
	units := map[ast.Expr]bool{} // that convert or round
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			for _, side := range [][2]ast.Expr{{n.X, n.Y}, {n.Y, n.X}} {
				if _, literal := side[0].(*ast.BasicLit); !literal && (n.Op == token.MUL || n.Op == token.QUO) {
					units[side[1]] = true
				}
			}
		case *ast.CallExpr:
			if called, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Round", "Truncate"}, called.Sel.Name) {
				for _, arg := range n.Args {
					units[arg] = true
				}
			}
		case *ast.SelectorExpr:
			in, ok := n.X.(*ast.Ident)
			if ok && in.Name == "time" && !units[n] && slices.Contains([]string{"Millisecond", "Second", "Minute", "Hour"}, n.Sel.Name) {
				found = append(found, n.Pos())
			}
		}
		return true
	})
	return found
}

func TestLiterals(t *testing.T) {
	for text, want := range map[string]int{
		"3 * time.Second": 1, "time.Minute": 1, "time.Hour * 2": 1, "f(2*time.Second + 1)": 1,
		"time.Duration(n) * time.Second": 0, "d.Round(time.Second)": 0, "t.Truncate(time.Millisecond)": 0, "d / time.Second": 0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nvar x = "+text, parser.SkipObjectResolution)
		require.NoError(t, err)
		require.Len(t, literals(f), want, text)
	}
}
