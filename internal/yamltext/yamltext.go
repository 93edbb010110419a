// Package yamltext has scalars of YAML be the text that somebody has written, where YAML takes it for a date or a number.
package yamltext

import "go.yaml.in/yaml/v3"

// KeepDates has what looks like a date be its text: 2024-01-15 would become 2024-01-15T00:00:00Z on its way to JSON, which has no dates.
func KeepDates(n *yaml.Node) {
	if n.Tag == "!!timestamp" {
		keep(n)
	}
	for _, part := range n.Content {
		KeepDates(part)
	}
}

// Keep has a scalar be its text, and so has those that are members of an object: 123 is then "123". What is there as null stays so.
func Keep(n *yaml.Node) {
	switch n.Kind {
	case yaml.AliasNode:
		Keep(n.Alias)
	case yaml.ScalarNode:
		keep(n)
	case yaml.MappingNode:
		for i := 1; i < len(n.Content); i += 2 {
			keep(n.Content[i])
		}
	default:
	}
}

// keep has a scalar that is written plainly be its text: a tag or quotes say what is meant.
func keep(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Style == 0 && n.Tag != "!!null" && n.Tag != "!!merge" {
		n.Tag = "!!str"
	}
}
