package plan

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// sealedPrefix begins a value of a Secret that is sealed as long as it is planned. Nothing of it is base64.
const sealedPrefix = "drover.sealed:"

// sealedValue is what follows it, as JSON in base64.
type sealedValue struct {
	For    string        `json:"for"` // the key of the document for which it is sealed
	Sealed domain.Sealed `json:"sealed"`
}

// SealedValue stands in a Secret's data for what is sealed for a document, and is opened before it is applied: plans are stored.
// As long as the document is not sealed anew, it is the same text.
func SealedValue(document domain.Key, s domain.Sealed) string {
	if len(s.Data) == 0 {
		return ""
	}
	data, err := json.Marshal(sealedValue{string(document), s})
	if err != nil { // it has neither channels nor functions
		panic(err)
	}
	return sealedPrefix + base64.RawURLEncoding.EncodeToString(data)
}

// MayBeSealed says whether Open has to look at a manifest.
func MayBeSealed(manifest json.RawMessage) bool {
	return bytes.Contains(manifest, []byte(`"`+sealedPrefix))
}

// Open is a manifest of a plan for an owner, in which the values of a Secret's data are open that were sealed for inbound intents of
// the owner's project. What anybody else has written there stays as it is: who has seen the sealed value of another project must
// not have it opened into a cluster of his own. The error is that of open.
func Open(owner domain.Key, manifest json.RawMessage, open func(document string, s domain.Sealed) ([]byte, error)) (json.RawMessage, error) {
	if !MayBeSealed(manifest) {
		return manifest, nil
	}
	var o secretObject
	var all map[string]json.RawMessage
	if !decodes(manifest, &o) || !decodes(manifest, &all) || o.Kind != "Secret" || o.APIVersion != "v1" {
		return manifest, nil
	}
	for name, value := range o.Data {
		text, _ := value.(string)
		encoded, sealed := strings.CutPrefix(text, sealedPrefix)
		if !sealed {
			continue
		}
		var v sealedValue
		data, err := base64.RawURLEncoding.DecodeString(encoded)
		if err != nil || !decodes(data, &v) {
			continue
		}
		if _, is := domain.InboundServerIntents.Split(domain.Key(v.For)); !is || domain.ScopeOf(domain.Key(v.For)) != domain.ScopeOf(owner) {
			continue
		}
		plain, err := open(v.For, v.Sealed)
		if err != nil {
			return nil, fail.Wrap(err, fail.KindOf(err), "the private key of %s cannot be opened: %s", v.For, fail.TextOf(err))
		}
		o.Data[name] = string(plain)
	}
	data, err := json.Marshal(o.Data)
	if err != nil {
		return nil, err
	}
	all["data"] = data
	return json.Marshal(all)
}

// secretObject is what is read of a Secret.
type secretObject struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Data       map[string]any `json:"data"`
}

func decodes(data []byte, into any) bool { return json.Unmarshal(data, into) == nil }
