package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/labstack/echo/v4"
	"go.yaml.in/yaml/v3"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/yamlsize"
	"github.com/drover-io/drover/internal/yamltext"
)

// Documents may be sent as YAML, as the manifests that they may come from are kept.

// fromYAML is the one document of a YAML file as JSON; Malformed for what is no YAML, for several documents, and for a member
// that is there twice. No bytes stand for an empty one.
func fromYAML(body []byte) ([]byte, error) {
	malformed := func(err error) error {
		return fail.Wrap(err, fail.Malformed, "Invalid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if yamlsize.Marks(body) > limits.YAMLMarks {
		return nil, fail.New(fail.Malformed, "Invalid YAML: it has too many parts, of which \"-\", \":\" and \",\" separate %d at the most; send it as JSON", limits.YAMLMarks)
	}
	if err := yamlsize.Check(body, limits.JSON); err != nil {
		return nil, fail.Wrap(err, fail.Malformed, "Invalid YAML: %s", fail.TextOf(err))
	}
	decoder := yaml.NewDecoder(bytes.NewReader(body))
	var document any
	for {
		var node yaml.Node
		var next any
		err := decoder.Decode(&node)
		if err == nil {
			yamltext.KeepDates(&node)
			if err = checkNode(&node); err == nil {
				err = node.Decode(&next)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			if document == nil {
				return nil, nil
			}
			data, err := json.Marshal(document)
			if err != nil {
				return nil, malformed(err)
			}
			return data, nil
		case err != nil:
			return nil, malformed(err)
		case next != nil && document != nil:
			return nil, fail.New(fail.Malformed, "Invalid YAML: there are several documents; send one at a time")
		case next != nil:
			document = next
		}
	}
}

// checkNode refuses what takes parsers long, since they compare each member of an object with each other one, and have an error for each two that
// are alike; and what cannot be said in JSON: members that are not called by a text, and numbers that are none.
func checkNode(n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode:
		if err := checkKeys(n); err != nil {
			return err
		}
	case yaml.ScalarNode:
		var number float64
		if n.ShortTag() == "!!float" && n.Decode(&number) == nil && (math.IsNaN(number) || math.IsInf(number, 0)) {
			return fmt.Errorf("line %d: %s is no number that JSON has; put it in quotes where it is a text", n.Line, n.Value)
		}
	default: // a list or a document, which has its parts, or an alias of what is looked at where it is
	}
	for _, part := range n.Content {
		if err := checkNode(part); err != nil {
			return err
		}
	}
	return nil
}

// checkKeys is checkNode for the names of an object's members.
func checkKeys(n *yaml.Node) error {
	if len(n.Content)/2 > limits.YAMLKeys {
		return fmt.Errorf("line %d: an object has more than %d members; send it as JSON", n.Line, limits.YAMLKeys)
	}
	lines := make(map[string]int, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		k, at := n.Content[i], n.Content[i].Line
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: a member is called by a list or an object, and not by a text", at)
		}
		switch tag := k.ShortTag(); tag {
		case "!!int", "!!float", "!!bool", "!!null":
			return fmt.Errorf("line %d: a member is called %s, which is no text (%s); put it in quotes", at, cmp.Or(k.Value, `""`), tag)
		default:
		}
		if line, there := lines[k.Value]; there {
			return fmt.Errorf("line %d: mapping key %#v already defined at line %d", at, k.Value, line)
		}
		lines[k.Value] = at
	}
	return nil
}

// isManifest says whether what has come without a type of its own is a document in YAML, read as it is: an object, and no form of a page.
func isManifest(data []byte, err error) bool { return err == nil && bytes.HasPrefix(data, []byte("{")) }

// contextYAML has what a body in YAML is as JSON: it is asked for several times, and parsing takes many times its size.
const contextYAML = "yamlBody"

type readYAML struct {
	data []byte
	err  error
}

// fromYAMLOnce is fromYAML of the body of a request.
func fromYAMLOnce(c echo.Context, body []byte) ([]byte, error) {
	is, ok := c.Get(contextYAML).(readYAML)
	if !ok {
		is.data, is.err = fromYAML(body)
		c.Set(contextYAML, is)
	}
	return is.data, is.err
}
