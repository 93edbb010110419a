package render

import (
	"fmt"
	"slices"
	"text/template/parse"
)

// ofRelease is the function that templates call around a member of .Release of which they are told the same with each rendering.
const ofRelease = "ofRelease"

// sameReleases are these members, and what comes of it.
var sameReleases = []struct{ name, comes string }{
	{"Revision", "is 1 with each update: name no Job by it, which an update cannot change, but by a checksum, or make it a hook"},
	{"IsUpgrade", "is false with each update: what the chart has for upgrades alone is left out"},
}

// release gives value back, and notes which member it is of. What notes for people say counts for nothing.
func (e *engine) release(name string, value any) any {
	if !e.inNotes && !slices.Contains(e.released, name) {
		e.released = append(e.released, name)
	}
	return value
}

// sameReleased warns of the members of .Release by which templates go.
func (e *engine) sameReleased() (warnings []string) {
	for _, member := range sameReleases {
		if slices.Contains(e.released, member.name) {
			warnings = append(warnings, fmt.Sprintf("the chart asks for .Release.%s, which %s", member.name, member.comes))
		}
	}
	return warnings
}

// released is a node that is noted where it is one of these members; any other is itself.
func released(node parse.Node) parse.Node {
	var words []string
	switch n := node.(type) {
	case *parse.FieldNode:
		words = n.Ident
	case *parse.VariableNode:
		words = n.Ident
	}
	n := len(words)
	if n < 2 || words[n-2] != "Release" {
		return node
	}
	name, pos := words[n-1], node.Position()
	for _, member := range sameReleases {
		if member.name == name {
			text := &parse.StringNode{NodeType: parse.NodeString, Pos: pos, Quoted: fmt.Sprintf("%q", name), Text: name}
			call := &parse.CommandNode{NodeType: parse.NodeCommand, Pos: pos, Args: []parse.Node{parse.NewIdentifier(ofRelease).SetPos(pos), text, node}}
			return &parse.PipeNode{NodeType: parse.NodePipe, Pos: pos, Cmds: []*parse.CommandNode{call}}
		}
	}
	return node
}
