package arch

import (
	"go/ast"
	"go/token"
	"testing"

	"github.com/stretchr/testify/require"
)

// serving are the folders of what works for many at a time, for whom a panic that nobody catches would end it all.
var serving = []string{
	"api", "activities", "internal/door", "internal/service", "internal/notify", "internal/share", "internal/trail", "internal/engine", "internal/store", "internal/stored",
	"internal/oidc", "internal/authn", "internal/kube", "internal/observe", "internal/app",
}

// uncaught are the places of a file that begin something apart and do not go by package panics, with why nothing can panic there, or who catches it.
var uncaught = map[string]struct {
	places int
	why    string
}{
	"activities/halt.go":          {2, "waits for one of two channels"},
	"activities/lifecycle.go":     {1, "heartbeats with what a function of the activity counts"},
	"activities/ready.go":         {1, "says now and then what is lacking"},
	"activities/watch.go":         {1, "each session is caught by watch"},
	"api/body.go":                 {1, "sets a deadline of the connection"},
	"api/rpc/bounds.go":           {3, "waits for one of two channels; what run is given is caught"},
	"api/rpc/rpc.go":              {3, "the server itself, and its end: each call is caught by streams"},
	"api/serve.go":                {1, "the server itself: net/http catches what handlers do"},
	"internal/app/api.go":         {1, "ends the hub with the process"},
	"internal/app/app.go":         {1, "logs, at the start"},
	"internal/app/audit.go":       {1, "each task is caught by try"},
	"internal/app/worker.go":      {1, "follows registrations, each change of which is caught"},
	"internal/door/fair.go":       {2, "count is caught"},
	"internal/door/identified.go": {2, "each look is caught by keepLooking"},
	"internal/door/slots.go":      {2, "counts slots"},
	"internal/kube/cluster.go":    {1, "ends a context"},
	"internal/kube/watch.go":      {2, "ends a context"},
	"internal/oidc/keys.go":       {2, "the download is caught by fly"},
	"internal/oidc/says.go":       {2, "the question is caught by ask"},
	"internal/service/intake.go":  {2, "each look is caught by stand and listen"},
	"internal/service/keeper.go":  {1, "forgets what is old"},
	"internal/service/watch.go":   {1, "the reading is caught by read"},
	"internal/share/share.go":     {2, "each read is guarded, and the end of who wants it ends a context"},
	"internal/store/gather.go":    {2, "each call is caught by run; close only waits"},
	"internal/trail/trail.go":     {1, "what the store and sinks do is caught by flush and have"},
	"internal/notify/hub.go":      {1, "each look is caught by run"},
	"internal/service/matcher.go": {1, "ends a context"},
}

// TestNoPanicEndsOthers: what is begun beside a request has its panics caught. A goroutine, a timer or a flight that does not say so is in uncaught.
func TestNoPanicEndsOthers(t *testing.T) {
	places := map[string][]token.Position{}
	sources(t, serving, func(name string, set *token.FileSet, f *ast.File) {
		for _, i := range f.Imports {
			require.NotEqual(t, `"golang.org/x/sync/errgroup"`, i.Path.Value, "%s: use panics.Group", name)
		}
		for _, at := range found(f, beginsUncaught) {
			places[name] = append(places[name], set.Position(at))
		}
	})
	for name, at := range places {
		if len(at) != uncaught[name].places {
			t.Errorf("%s begins %d things apart whose panics would end the process (uncaught has %d): use package panics\n%v", name, len(at), uncaught[name].places, at)
		}
	}
	for name, of := range uncaught {
		require.NotEmpty(t, of.why, name)
		require.NotEmpty(t, places[name], "%s is in uncaught for nothing", name)
	}
}

// beginsUncaught says whether a node begins something that nobody waits for at the place, and in which nothing is said of panics.
func beginsUncaught(n ast.Node) bool {
	if s, ok := n.(*ast.GoStmt); ok {
		return !catches(s)
	}
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	do := call.Args[len(call.Args)-1]
	switch s.Sel.Name {
	case "AfterFunc", "DoChan":
		return !catches(do)
	case "Go": // of a group is what gives an error, and it catches panics
		literal, ok := do.(*ast.FuncLit)
		return (!ok || literal.Type.Results == nil) && !catches(do)
	default:
		return false
	}
}

// catches says whether package panics is used below a node.
func catches(n ast.Node) bool {
	return len(found(n, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		return ok && isNamed(s.X, "panics")
	})) > 0
}

// TestTheRuleOfPanicsFinds what it is there for.
func TestTheRuleOfPanicsFinds(t *testing.T) {
	for code, want := range map[string]int{
		"go f()":                                            1,
		"go func() { c <- panics.Do(ctx, f) }()":            0,
		"wg.Go(func() { f() })":                             1,
		"wg.Go(f)":                                          1,
		"wg.Go(func() { c <- panics.Do(x, f) })":            0,
		"g.Go(func() error { return f() })":                 0,
		"time.AfterFunc(wait, f)":                           1,
		"g.DoChan(key, func() (any, error) { return f() })": 1,
		"g.DoChan(key, func() (any, error) { return panics.Value(ctx, f) })": 0,
		"context.AfterFunc(ctx, func() { _ = panics.Do(ctx, f) })":           0,
		"go func() { go func() { _ = panics.Do(x, f) }() }()":                0,
	} {
		require.Len(t, found(parsed(t, code), beginsUncaught), want, code)
	}
}
