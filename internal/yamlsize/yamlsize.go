// Package yamlsize bounds what a small text becomes.
package yamlsize

import (
	"bytes"
	"errors"

	"go.yaml.in/yaml/v3"

	"github.com/drover-io/drover/internal/fail"
)

// perNode is what a node has at the least, beside its text.
const perNode = 2

// Check refuses text whose documents would have more than most bytes together when each alias stands for what it names: 100 KB can
// say 200 MB. It expands nothing. Text that is no YAML passes, as whoever reads it says so better. The error is Invalid.
func Check(text []byte, most int) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	s := sizes{most: most, of: map[*yaml.Node]int{}}
	total, document := 0, new(yaml.Node)
	for ; decoder.Decode(document) == nil; document = new(yaml.Node) {
		n, err := s.size(document)
		if total += n; err != nil || total > most {
			return fail.New(fail.Invalid, "it has more than %d bytes when its aliases are what they stand for, or one stands for itself", most)
		}
	}
	return nil
}

// sizes are those of nodes that have been looked at: -1 of one that is being looked at.
type sizes struct {
	most int
	of   map[*yaml.Node]int
}

var errTooLarge = errors.New("too large")

func (s *sizes) size(n *yaml.Node) (total int, err error) {
	if n == nil {
		return 0, nil
	}
	if known, ok := s.of[n]; ok {
		if known < 0 {
			return 0, errTooLarge
		}
		return known, nil
	}
	s.of[n] = -1
	total = perNode + len(n.Value)
	if n.Kind == yaml.AliasNode {
		total = 0
	}
	for _, part := range append([]*yaml.Node{n.Alias}, n.Content...) {
		of, err := s.size(part)
		if total += of; err != nil || total > s.most {
			return 0, errTooLarge
		}
	}
	s.of[n] = total
	return total, nil
}

// Marks is about how many parts the documents of a text have, found without reading it as YAML: a parser makes some hundred bytes of
// each, and a part may have two. There are hardly more parts than marks, and fewer where a text has what would be a mark elsewhere.
func Marks(text []byte) (marks int) {
	blank := func(i int) bool {
		return i < 0 || i >= len(text) || text[i] == ' ' || text[i] == '\n' || text[i] == '\r' || text[i] == '\t'
	}
	for i, c := range text {
		switch c {
		case ',', '[', '{', ':':
			marks++
		case '-', '?':
			if blank(i + 1) {
				marks++
			}
		case '#': // parsers keep comments, too
			if blank(i - 1) {
				marks++
			}
		}
	}
	return marks
}
