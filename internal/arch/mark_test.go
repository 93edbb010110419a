package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMarksAreAskedWhatTheyMean: outside internal/domain nobody decides by a list of marks what they have in common. That is
// a predicate of domain.Mark, with a cell for every mark in the table of its test. To compare with one mark is allowed.
func TestMarksAreAskedWhatTheyMean(t *testing.T) {
	sources(t, product, func(name string, set *token.FileSet, f *ast.File) {
		if strings.HasPrefix(name, "internal/domain/") {
			return
		}
		for _, at := range listsOfMarks(f) {
			t.Errorf("%s: several marks are compared with: make it a predicate of domain.Mark", set.Position(at))
		}
	})
}

// listsOfMarks are the places that decide by more than one mark: cases of a switch, and conditions.
func listsOfMarks(f *ast.File) (places []token.Pos) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SwitchStmt:
			found, of := 0, marksIn
			if n.Tag == nil {
				of = func(e ast.Expr) int { return min(comparisons(e), 1) } // a case with more is found by itself
			}
			for _, c := range n.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					found += of(e)
				}
			}
			if found > 1 {
				places = append(places, n.Pos())
			}
		case *ast.CaseClause:
			for _, e := range n.List {
				places = append(places, condition(e)...)
			}
		case *ast.IfStmt:
			places = append(places, condition(n.Cond)...)
		case *ast.ReturnStmt:
			for _, e := range n.Results {
				places = append(places, condition(e)...)
			}
		case *ast.AssignStmt:
			for _, e := range n.Rhs {
				places = append(places, condition(e)...)
			}
		}
		return true
	})
	return places
}

// condition is the place of an expression that compares with more than one mark.
func condition(e ast.Expr) []token.Pos {
	if comparisons(e) > 1 {
		return []token.Pos{e.Pos()}
	}
	return nil
}

// comparisons is how often an expression compares with a mark.
func comparisons(e ast.Expr) (found int) {
	ast.Inspect(e, func(n ast.Node) bool {
		if b, ok := n.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
			found += marksIn(b.X) + marksIn(b.Y)
		}
		_, isFunc := n.(*ast.FuncLit) // has conditions of its own
		return !isFunc
	})
	return found
}

// marksIn is 1 for one of the marks.
func marksIn(e ast.Expr) int {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return 0
	}
	if p, ok := s.X.(*ast.Ident); ok && p.Name == "domain" && strings.HasPrefix(s.Sel.Name, "Mark") && s.Sel.Name != "Mark" && s.Sel.Name != "Marks" {
		return 1
	}
	return 0
}

func TestListsOfMarksAreFound(t *testing.T) {
	for code, want := range map[string]int{
		"if m == domain.MarkSent {}":                                       0,
		"if m == domain.MarkSent && c {}":                                  0,
		"if m == domain.MarkSent || c && m == domain.MarkKept {}":          1,
		"switch m { case domain.MarkSent: }":                               0,
		"switch m { case domain.MarkSent, domain.MarkKept: }":              1,
		"switch m { case domain.MarkSent: case domain.MarkKept: }":         1,
		"switch { case m == domain.MarkSent, c: case x: }":                 0,
		"switch { case m == domain.MarkSent: case m == domain.MarkKept: }": 1,
		"switch { case m != domain.MarkSent && m != domain.MarkKept: }":    1,
		"return m == domain.MarkSent || m == domain.MarkKept":              1,
		"x := m == domain.MarkSent || m == domain.MarkKept":                1,
		"m = domain.MarkSent":                                              0,
		"f(domain.MarkSent, domain.MarkKept)":                              0,
		"if a == domain.MarkSent { if b == domain.MarkKept { return } }":   0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a\nfunc f() {\n"+code+"\n}", parser.SkipObjectResolution)
		require.NoError(t, err)
		require.Len(t, listsOfMarks(f), want, code)
	}
}
