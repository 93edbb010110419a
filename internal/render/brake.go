package render

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// Limits that were exceeded.
var (
	errTooLong = errors.New("the chart takes longer to render")
	errTooBig  = errors.New("the templates write more text")
	errTooDeep = errors.New("templates include each other without end")
)

func isLimit(err error) bool {
	return errors.Is(err, errTooLong) || errors.Is(err, errTooBig) || errors.Is(err, errTooDeep)
}

// maxFrames bounds how deep templates may use each other, in frames of the Go stack. It allows about a
// thousand levels of include; at a gigabyte of stack the runtime would end the process. Frames are counted,
// which takes some microseconds, at every checkEvery-th write.
const (
	maxFrames  = 20_000
	checkEvery = 64
)

// writer takes what a template writes, as long as rendering may go on.
type writer struct {
	engine *engine
	text   strings.Builder
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	e := w.engine
	if e.ctx.Err() != nil {
		return 0, context.Cause(e.ctx)
	}
	if w.text.Len()+len(p) > e.limits.Output {
		return 0, errTooBig
	}
	if e.writes++; e.writes%checkEvery == 0 {
		var one [1]uintptr
		if runtime.Callers(maxFrames, one[:]) > 0 {
			return 0, errTooDeep
		}
	}
	return w.text.Write(p)
}

// brake makes every template and every turn of a loop of t's set write at least nothing, so that it cannot
// go on for ever without passing the writer.
func (e *engine) brake(t *template.Template) {
	for _, d := range t.Templates() {
		if d.Tree == nil || e.braked[d.Tree] {
			continue
		}
		e.braked[d.Tree] = true
		overhear(d.Root)
		brakeLoops(d.Root)
		brakeList(d.Root)
	}
}

func brakeLoops(node parse.Node) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			brakeLoops(child)
		}
	case *parse.RangeNode:
		brakeLoops(n.List)
		brakeLoops(n.ElseList)
		brakeList(n.List)
	case *parse.IfNode:
		brakeLoops(n.List)
		brakeLoops(n.ElseList)
	case *parse.WithNode:
		brakeLoops(n.List)
		brakeLoops(n.ElseList)
	}
}

// brakeList puts an empty text first.
func brakeList(list *parse.ListNode) {
	list.Nodes = slices.Insert(list.Nodes, 0, parse.Node(&parse.TextNode{NodeType: parse.NodeText, Pos: list.Pos}))
}
