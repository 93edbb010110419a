package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sources gives the product's own files below folders, without tests and what is generated.
func sources(t *testing.T, folders []string, see func(name string, set *token.FileSet, f *ast.File)) {
	t.Helper()
	files := 0
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") {
				return err
			}
			files++
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution|parser.ParseComments)
			if err == nil {
				see(filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator))), set, f)
			}
			return err
		})
		require.NoError(t, err)
	}
	require.NotZero(t, files)
}

// product are the folders with all of it.
var product = []string{"activities", "api", "cmd", "internal", "worker", "workflows"}

// found are the nodes of a file that something is wrong with.
func found(f ast.Node, wrong func(ast.Node) bool) (at []token.Pos) {
	ast.Inspect(f, func(n ast.Node) bool {
		if n != nil && wrong(n) {
			at = append(at, n.Pos())
		}
		return true
	})
	return at
}

// TestNoAnswerIsHiddenInAnIfHeader: a workflow reads as a runbook, so what it waits for and takes stands in a line of its own, and not
// in the header of the condition on how that has ended.
func TestNoAnswerIsHiddenInAnIfHeader(t *testing.T) {
	sources(t, []string{"workflows"}, func(_ string, set *token.FileSet, f *ast.File) {
		for _, at := range found(f, hidesAnAnswer) {
			t.Errorf("%s: a variable is filled in the header of an if", set.Position(at))
		}
	})
}

// hidesAnAnswer says whether a node is an if that waits for something, before its condition or in it, and fills a variable with it.
func hidesAnAnswer(n ast.Node) bool {
	s, ok := n.(*ast.IfStmt)
	if !ok {
		return false
	}
	fills := func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return false
		}
		if waits, ok := call.Fun.(*ast.SelectorExpr); !isNamed(call.Fun, "briefly") && (!ok || waits.Sel.Name != "Get") {
			return false
		}
		for _, a := range call.Args {
			if u, ok := a.(*ast.UnaryExpr); ok && u.Op == token.AND {
				if _, ok := u.X.(*ast.CompositeLit); !ok {
					return true
				}
			}
		}
		return false
	}
	return s.Init != nil && len(found(s.Init, fills)) > 0 || len(found(s.Cond, fills)) > 0
}

// TestWaitsAreDoubledInOnePlace: how waits between tries grow is policy.Doubling, which pause.Backoff waits by.
func TestWaitsAreDoubledInOnePlace(t *testing.T) {
	sources(t, product, func(name string, set *token.FileSet, f *ast.File) {
		if name == "internal/policy/doubling.go" {
			return
		}
		for _, at := range found(f, doubles) {
			t.Errorf("%s: use policy.Doubling, or pause.Backoff to wait", set.Position(at))
		}
	})
}

// doubles says whether a node is a doubled value up to a bound: min(2*wait, most), or one of shifts.
func doubles(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok || !isNamed(call.Fun, "min") {
		return false
	}
	return len(found(call, func(n ast.Node) bool {
		b, ok := n.(*ast.BinaryExpr)
		return ok && (b.Op == token.MUL && (isLiteral(b.X, "2") || isLiteral(b.Y, "2")) || b.Op == token.SHL && !isLiteral(b.X, "1"))
	})) > 0
}

// ownTries are the functions with a loop that tries again what was overtaken, with why that is not cas.Do.
var ownTries = map[string]string{
	"activities/match.go": "SettleMatches acts on clusters in each round, and ends after some: settleRounds",
}

// TestWhatIsOvertakenIsTriedInOnePlace: a loop of compare-and-set is cas.Do, which waits before another try and ends with its context.
func TestWhatIsOvertakenIsTriedInOnePlace(t *testing.T) {
	there := map[string]bool{}
	sources(t, product, func(name string, set *token.FileSet, f *ast.File) {
		for _, at := range found(f, triesAgain) {
			if ownTries[name] == "" || there[name] {
				t.Errorf("%s: use cas.Do", set.Position(at))
			}
			there[name] = true
		}
	})
	for name := range ownTries {
		require.True(t, there[name], "%s has none any more", name)
	}
}

// triesAgain says whether a node is a loop that goes on because of cas.ErrOvertaken, and for nothing else.
func triesAgain(n ast.Node) bool {
	var body *ast.BlockStmt
	switch loop := n.(type) {
	case *ast.ForStmt:
		body = loop.Body
	case *ast.RangeStmt:
		body = loop.Body
	default:
		return false
	}
	asks := func(n ast.Node) bool {
		return n != nil && len(found(n, func(n ast.Node) bool { s, ok := n.(*ast.SelectorExpr); return ok && s.Sel.Name == "ErrOvertaken" })) > 0
	}
	goesOn := func(list []ast.Stmt) bool {
		return slices.ContainsFunc(list, func(s ast.Stmt) bool { b, ok := s.(*ast.BranchStmt); return ok && b.Tok == token.CONTINUE })
	}
	return len(found(body, func(n ast.Node) bool {
		switch s := n.(type) {
		case *ast.IfStmt:
			return asks(s.Cond) && goesOn(s.Body.List)
		case *ast.CaseClause:
			return slices.ContainsFunc(s.List, func(e ast.Expr) bool { return asks(e) }) && goesOn(s.Body)
		}
		return false
	})) > 0
}

func isNamed(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

func isLiteral(e ast.Expr, value string) bool {
	l, ok := e.(*ast.BasicLit)
	return ok && l.Value == value
}

// TestTheRulesOfShapeFind what they are there for.
func TestTheRulesOfShapeFind(t *testing.T) {
	for code, want := range map[string]int{
		"if err := f.Get(ctx, &v); err != nil {}":           1,
		"if f.Get(ctx, &v) == nil {}":                       1,
		"if err := f.Get(ctx, nil); err != nil {}":          0,
		"if err := f.Do(ctx, &T{}); err != nil {}":          0,
		"err := f.Get(ctx, &v)\nif err != nil {}":           0,
		"if l := &a[i]; l.open() {}":                        0,
		"if err := briefly(ctx, f, in, &v); err != nil {}":  1,
		"if err := briefly(ctx, f, in, nil); err != nil {}": 0,
		"if errors.As(err, &v) {}":                          0,
	} {
		require.Len(t, found(parsed(t, code), hidesAnAnswer), want, code)
	}
	for code, want := range map[string]int{
		"w = min(2*w, most)":             1,
		"w = min(max(w*2, first), most)": 1,
		"w = min(first<<n, most)":        1,
		"w = min(3*w, most)":             0,
		"w = min(n, 1<<levels)":          0,
		"w = 2 * w":                      0,
	} {
		require.Len(t, found(parsed(t, code), doubles), want, code)
	}
}

// TestTheRuleOfTriesFinds loops of their own.
func TestTheRuleOfTriesFinds(t *testing.T) {
	for code, want := range map[string]int{
		"for { if errors.Is(err, cas.ErrOvertaken) { continue } }":                                    1,
		"for range 3 { switch { case err == nil: case errors.Is(err, cas.ErrOvertaken): continue } }": 1,
		"for { if errors.Is(err, cas.ErrOvertaken) { again = true } }":                                0,
		"for { if err != nil { continue } }":                                                          0,
		"if errors.Is(err, cas.ErrOvertaken) { return nil }":                                          0,
	} {
		require.Len(t, found(parsed(t, code), triesAgain), want, code)
	}
}

func parsed(t *testing.T, code string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n\nfunc f() {\n"+code+"\n}\n", parser.SkipObjectResolution)
	require.NoError(t, err)
	return f
}

// past are the methods of door.Door that ask the service past the steps around a request, with who may call them, and why.
var past = map[string]struct{ caller, why string }{
	"SpeakerBy": {"api/rpc/bounds.go", "who speaks is asked before more of a message is read than its header; its request passes the door after that"},
}

// TestOnlyPassReachesTheService: what asks the service by another way than Door.Pass meets no rights, no audit and no limits. It is
// named in past, and has one caller.
func TestOnlyPassReachesTheService(t *testing.T) {
	reach := map[string]bool{}
	sources(t, []string{"internal/door"}, func(_ string, _ *token.FileSet, f *ast.File) {
		for _, name := range reachesService(f) {
			reach[name] = true
		}
	})
	require.True(t, reach["Pass"], "the rule does not find the way through the door")
	delete(reach, "Pass")
	for name := range reach {
		require.NotEmpty(t, past[name].why, "Door.%s asks the service past the door", name)
	}
	calls := map[string]int{}
	sources(t, []string{"api", "internal/app", "cmd"}, func(name string, set *token.FileSet, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if ok && past[s.Sel.Name].why != "" {
				calls[s.Sel.Name]++
				require.Equal(t, past[s.Sel.Name].caller, name, "%s calls Door.%s", set.Position(n.Pos()), s.Sel.Name)
			}
			return true
		})
	})
	for name := range past {
		require.True(t, reach[name], "%s does not go past the door any more: take it out of past", name)
		require.Equal(t, 1, calls[name], name)
	}
}

// reachesService are the methods of Door in a file that use its service.
func reachesService(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		m, ok := d.(*ast.FuncDecl)
		if !ok || m.Recv == nil || m.Body == nil {
			continue
		}
		star, ok := m.Recv.List[0].Type.(*ast.StarExpr)
		if !ok || !isNamed(star.X, "Door") || len(m.Recv.List[0].Names) == 0 {
			continue
		}
		self := m.Recv.List[0].Names[0].Name
		uses := func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			return ok && s.Sel.Name == "service" && isNamed(s.X, self)
		}
		if len(found(m.Body, uses)) > 0 {
			names = append(names, m.Name.Name)
		}
	}
	return names
}

// TestNoFlagChoosesBetweenJobs: a function whose boolean parameter alone says which of two jobs it does is two functions. A boolean that
// is a fact, which the work goes by among others, may be a parameter, and the value that is set.
func TestNoFlagChoosesBetweenJobs(t *testing.T) {
	sources(t, []string{"workflows", "activities", "internal/store", "internal/trail", "internal/tenantagent"}, func(_ string, set *token.FileSet, f *ast.File) {
		for _, at := range found(f, choosesByFlag) {
			t.Errorf("%s: a boolean parameter chooses between two jobs: make them two functions", set.Position(at))
		}
	})
}

// choosesByFlag says whether a node is a function that does one thing and returns if a parameter is set, and else another thing.
func choosesByFlag(n ast.Node) bool {
	d, ok := n.(*ast.FuncDecl)
	if !ok || d.Body == nil || strings.HasPrefix(strings.ToLower(d.Name.Name), "set") { // a setter is given the value
		return false
	}
	flags := map[string]bool{}
	for _, p := range d.Type.Params.List {
		for _, name := range p.Names {
			flags[name.Name] = isNamed(p.Type, "bool")
		}
	}
	for i, s := range d.Body.List {
		s, ok := s.(*ast.IfStmt)
		if !ok {
			continue
		}
		cond := s.Cond
		if not, ok := cond.(*ast.UnaryExpr); ok && not.Op == token.NOT {
			cond = not.X
		}
		id, ok := cond.(*ast.Ident)
		if !ok || !flags[id.Name] {
			continue
		}
		last := s.Body.List[len(s.Body.List)-1]
		_, returns := last.(*ast.ReturnStmt)
		if returns && len(s.Body.List) > 1 && i+1 < len(d.Body.List) || s.Else != nil {
			return true
		}
	}
	return false
}

func TestFlagsAreFound(t *testing.T) {
	for code, want := range map[string]int{
		"func f(first bool) error { if first { a(); return nil }; b(); return nil }":               1,
		"func f(first bool) error { if !first { a() } else { b() }; return nil }":                  1,
		"func f(first bool) error { if first { return nil }; b(); return nil }":                    0, // a guard
		"func f(first bool) error { if first && c { a(); return nil }; b(); return nil }":          0,
		"func f(first int) error { first := true; if first { a(); return nil }; b(); return nil }": 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n\n"+code+"\n", parser.SkipObjectResolution)
		require.NoError(t, err)
		require.Len(t, found(file, choosesByFlag), want, code)
	}
}

// TestCommentsNameWhatTheyAreAbout: a doc comment that begins with a name begins with the one that it stands above, also after that was changed.
func TestCommentsNameWhatTheyAreAbout(t *testing.T) {
	sources(t, product, func(_ string, set *token.FileSet, f *ast.File) {
		for at, word := range misnamed(f) {
			t.Errorf("%s: the comment begins with %s, which is not declared there", set.Position(at), word)
		}
	})
}

// misnamed are the first words of doc comments of a file that are names of something else. A sentence that begins with no name has a capital.
func misnamed(f *ast.File) map[token.Pos]string {
	wrong := map[token.Pos]string{}
	check := func(doc *ast.CommentGroup, names ...*ast.Ident) {
		if doc == nil {
			return
		}
		word := aName.FindString(doc.Text())
		if word != "" && !slices.ContainsFunc(names, func(n *ast.Ident) bool { return n.Name == word }) {
			wrong[doc.Pos()] = word
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			check(d.Doc, d.Name)
		case *ast.GenDecl:
			var all []*ast.Ident
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					all = append(all, s.Name)
					check(s.Doc, s.Name)
				case *ast.ValueSpec:
					all = append(all, s.Names...)
					check(s.Doc, s.Names...)
				}
			}
			check(d.Doc, all...)
		}
	}
	return wrong
}

// aName is a word at the beginning that can only be a name: one without a capital, or with one inside.
var aName = regexp.MustCompile(`^([a-z]\w*|[A-Z]\w*[a-z]\w*[A-Z]\w*)\b`)

// TestTheRuleOfCommentsFinds says what the rule is about.
func TestTheRuleOfCommentsFinds(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
// one is right.
func one() {}
// two was called so once.
func too() {}
// What begins with a word is a sentence.
var three = 3
const (
	// fourOnce is another one's.
	four = 4
)
`, parser.ParseComments)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"two", "fourOnce"}, slices.Collect(maps.Values(misnamed(f))))
}

// TestConnectionsThatDieAreGivenUp: HTTP/2 ends a request that takes too long and keeps the connection, so that all others would wait for one that is
// dead until TCP gives it up after a quarter of an hour. Who has HTTP/2 asks for signs of life, or takes a connection for each request.
func TestConnectionsThatDieAreGivenUp(t *testing.T) {
	transports := 0
	sources(t, product, func(_ string, set *token.FileSet, f *ast.File) {
		for _, at := range found(f, func(n ast.Node) bool {
			has := members(n)
			if has["ForceAttemptHTTP2"] == nil {
				return false
			}
			transports++
			config, _ := has["HTTP2"].(*ast.UnaryExpr)
			return has["DisableKeepAlives"] == nil && (config == nil || members(config.X)["SendPingTimeout"] == nil)
		}) {
			t.Errorf("%s: a transport with ForceAttemptHTTP2 has no HTTP2 with SendPingTimeout", set.Position(at))
		}
	})
	require.Greater(t, transports, 2)
}

// members are what a composite literal sets, by name.
func members(n ast.Node) map[string]ast.Expr {
	literal, ok := n.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	set := map[string]ast.Expr{}
	for _, e := range literal.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok {
				set[key.Name] = pair.Value
			}
		}
	}
	return set
}
