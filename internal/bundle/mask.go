package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// Mask is the manifest with digests in place of what Secrets in it hold, wherever they are: the names stay, and who knows
// a value can tell whether it is the one (sha256 of what it decodes to). A copy of the object in an annotation is masked
// with it. A manifest without a Secret stays as it is.
func Mask(manifest json.RawMessage) json.RawMessage {
	if !bytes.Contains(manifest, []byte("Secret")) {
		return manifest
	}
	decoder := json.NewDecoder(bytes.NewReader(manifest))
	decoder.UseNumber()
	var content any
	if decoder.Decode(&content) != nil || !holdsSecret(content) {
		return manifest
	}
	mask(content, false)
	data, err := json.Marshal(content)
	if err != nil { // what was decoded from JSON can be encoded
		return nil
	}
	return data
}

// isSecret says whether the object is a Secret, or by the list that it is in.
func isSecret(object map[string]any, listed bool) bool {
	return object["kind"] == "Secret" && object["apiVersion"] == "v1" || listed && object["kind"] == nil
}

func listsSecrets(object map[string]any) bool {
	return object["kind"] == "SecretList" && object["apiVersion"] == "v1"
}

func holdsSecret(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		if isSecret(v, false) || listsSecrets(v) {
			return true
		}
		for _, member := range v {
			if holdsSecret(member) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, holdsSecret)
	}
	return false
}

// mask masks what is in v; listed says that v is an item of a list of Secrets, or the list of items.
func mask(v any, listed bool) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			mask(item, listed)
		}
	case map[string]any:
		if metadata, ok := v["metadata"].(map[string]any); ok {
			if annotations, ok := metadata["annotations"].(map[string]any); ok {
				for _, name := range lastApplied {
					if annotations[name] != nil {
						annotations[name] = digest(annotations[name], false)
					}
				}
			}
		}
		if isSecret(v, listed) {
			maskMember(v, "data", true)
			maskMember(v, "stringData", false)
			return
		}
		for name, member := range v {
			mask(member, name == "items" && listsSecrets(v))
		}
	}
}

// maskMember masks the values of a Secret's member, which as a wrong one may be anything.
func maskMember(secret map[string]any, member string, encoded bool) {
	values, ok := secret[member].(map[string]any)
	switch {
	case ok:
		for name, value := range values {
			values[name] = digest(value, encoded)
		}
	case secret[member] != nil:
		secret[member] = digest(secret[member], false)
	}
}

// digest stands for a value, of which encoded says that it is in base64.
func digest(value any, encoded bool) string {
	text, ok := value.(string)
	if !ok {
		data, _ := json.Marshal(value) // what was decoded from JSON can be encoded
		text = string(data)
	}
	plain := []byte(text)
	if encoded {
		if decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), "")); err == nil {
			plain = decoded
		}
	}
	sum := sha256.Sum256(plain)
	return "sha256:" + hex.EncodeToString(sum[:])
}
