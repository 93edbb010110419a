package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
			if err = checkKeys(&node); err == nil {
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

// checkKeys refuses what takes parsers long: they compare each member of an object with each other one, and have an error for each two that
// are alike.
func checkKeys(n *yaml.Node) error {
	if n.Kind == yaml.MappingNode {
		if len(n.Content)/2 > limits.YAMLKeys {
			return fmt.Errorf("line %d: an object has more than %d members; send it as JSON", n.Line, limits.YAMLKeys)
		}
		lines := make(map[string]int, len(n.Content)/2)
		for i := 0; i < len(n.Content); i += 2 {
			k := n.Content[i]
			if k.Kind != yaml.ScalarNode {
				continue // it is no member in JSON
			}
			if line, there := lines[k.Value]; there {
				return fmt.Errorf("line %d: mapping key %#v already defined at line %d", k.Line, k.Value, line)
			}
			lines[k.Value] = k.Line
		}
	}
	for _, part := range n.Content {
		if err := checkKeys(part); err != nil {
			return err
		}
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
