package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template/parse"

	"helm.sh/helm/v4/pkg/chart/common"
)

// hasVersion is the function that templates call in place of .Capabilities.APIVersions.Has.
const hasVersion = "hasAPIVersion"

// hasVersion answers as VersionSet.Has, and notes what it denies that a cluster may have all the same: an API of somebody's CRD.
func (e *engine) hasVersion(set common.VersionSet, version string) bool {
	if set.Has(version) {
		return true
	}
	group, _, _ := strings.Cut(version, "/")
	switch {
	case !strings.Contains(group, "."): // Kubernetes' own, as are "policy" and "extensions"
	case strings.HasSuffix(group, ".openshift.io"): // by which the charts of half the world look whether a cluster is one of OpenShift
	case slices.ContainsFunc(set, func(known string) bool { return strings.HasPrefix(known, group+"/") }): // a beta, or a kind that is gone
	default:
		if e.missed == nil {
			e.missed = map[string]bool{}
		}
		e.missed[version] = true
	}
	return false
}

// unserved warns of the API versions for which templates have something that they have left out, as they are told of no cluster's.
func (e *engine) unserved() []string {
	if len(e.missed) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the chart asks whether clusters have %s, and is told no, whatever they have: what it makes only with that is left out, "+
		"unless it has a value for it", firstOf(slices.Sorted(maps.Keys(e.missed))))}
}

// overhear has what is below node call hasVersion where it asks for an API version, and ofRelease. A VersionSet is a list, which could not note what it
// is asked, and .Release a map.
func overhear(node parse.Node) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			overhear(child)
		}
	case *parse.RangeNode:
		overhearBranch(&n.BranchNode)
	case *parse.IfNode:
		overhearBranch(&n.BranchNode)
	case *parse.WithNode:
		overhearBranch(&n.BranchNode)
	case *parse.ActionNode:
		overhear(n.Pipe)
	case *parse.TemplateNode:
		overhear(n.Pipe)
	case *parse.PipeNode:
		if n == nil {
			return
		}
		for _, command := range n.Cmds {
			overhear(command)
		}
	case *parse.CommandNode:
		for i, arg := range n.Args {
			overhear(arg)
			n.Args[i] = released(arg)
		}
		if len(n.Args) != 2 {
			return
		}
		if set := asked(n.Args[0]); set != nil {
			n.Args = []parse.Node{parse.NewIdentifier(hasVersion).SetPos(n.Pos), set, n.Args[1]}
		}
	}
}

func overhearBranch(n *parse.BranchNode) {
	overhear(n.Pipe)
	overhear(n.List)
	overhear(n.ElseList)
}

// asked is the list of API versions of which a node is the method Has; nil for any other node.
func asked(node parse.Node) parse.Node {
	of := func(words []string) []string {
		if n := len(words); n > 2 && slices.Equal(words[n-3:], []string{"Capabilities", "APIVersions", "Has"}) {
			return words[:n-1]
		}
		return nil
	}
	switch n := node.(type) {
	case *parse.FieldNode:
		if words := of(n.Ident); words != nil {
			set := *n
			set.Ident = words
			return &set
		}
	case *parse.VariableNode:
		if words := of(n.Ident); words != nil {
			set := *n
			set.Ident = words
			return &set
		}
	}
	return nil
}
