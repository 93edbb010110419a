package bundle

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Masker makes digests of what Secrets hold. Without a key it makes none.
type Masker struct{ key []byte }

// NewMasker makes one with a key of the installation's own, without which nobody can try out which value a digest is of.
func NewMasker(key []byte) Masker { return Masker{key} }

// Mask is the manifest with digests in place of what Secrets in it hold, wherever they are: the names stay, and so does
// whether a value has changed (HMAC-SHA256 of what it decodes to). Within is what the digests are comparable in, a project
// say: whoever may deploy elsewhere cannot have others' values tried out there. The annotations of a Secret
// are masked with it, and so is a copy of any object in an annotation. A manifest without a Secret stays as it is.
func (m Masker) Mask(within string, manifest json.RawMessage) json.RawMessage {
	if !bytes.Contains(manifest, []byte("Secret")) {
		return manifest
	}
	decoder := json.NewDecoder(bytes.NewReader(manifest))
	decoder.UseNumber()
	var content any
	if decoder.Decode(&content) != nil || !holdsSecret(content) {
		return manifest
	}
	masking{m.key, within}.mask(content, false)
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

// masking is one call of Mask.
type masking struct {
	key    []byte
	within string
}

// mask masks what is in v; listed says that v is an item of a list of Secrets, or the list of items.
func (m masking) mask(v any, listed bool) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			m.mask(item, listed)
		}
	case map[string]any:
		secret := isSecret(v, listed)
		m.annotations(v, secret)
		if secret {
			m.member(v, "data", true)
			m.member(v, "stringData", false)
			return
		}
		for name, member := range v {
			m.mask(member, name == "items" && listsSecrets(v))
		}
	}
}

// annotations masks all annotations of a Secret, and of any other object those that have a copy of it as it was applied.
func (m masking) annotations(object map[string]any, secret bool) {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for name, value := range annotations {
		if secret || slices.Contains(LastApplied, name) {
			annotations[name] = m.digest(value, false)
		}
	}
}

// member masks the values of a Secret's member, which as a wrong one may be anything.
func (m masking) member(secret map[string]any, member string, encoded bool) {
	values, ok := secret[member].(map[string]any)
	switch {
	case ok:
		for name, value := range values {
			values[name] = m.digest(value, encoded)
		}
	case secret[member] != nil:
		secret[member] = m.digest(secret[member], false)
	}
}

// digest stands for a value, of which encoded says that it is in base64.
func (m masking) digest(value any, encoded bool) string {
	if len(m.key) == 0 {
		return "masked"
	}
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
	sum := hmac.New(sha256.New, m.key)
	_, _ = fmt.Fprintf(sum, "%d:%s", len(m.within), m.within)
	_, _ = sum.Write(plain)
	return "hmac-sha256:" + hex.EncodeToString(sum.Sum(nil))
}
