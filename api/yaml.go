package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

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
			err = node.Decode(&next)
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

// isManifest says whether a body without a type of its own is a document in YAML: an object, and no form of a page.
func isManifest(body []byte) bool {
	data, err := fromYAML(body)
	return err == nil && bytes.HasPrefix(data, []byte("{"))
}
