package audit

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// Key signs checkpoints, and marks the other records.
type Key struct {
	private ed25519.PrivateKey
	marks   []byte
	id      string
}

// NewKey makes a key of a secret of 32 bytes.
func NewKey(secret []byte) *Key {
	k := &Key{private: ed25519.NewKeyFromSeed(secret), marks: mac(secret, "marks of audit records")}
	k.id = Fingerprint(k.Public())
	return k
}

// Public is the key that signatures are checked with.
func (k *Key) Public() ed25519.PublicKey {
	return k.private.Public().(ed25519.PublicKey) // by its documentation
}

// Stated is the key as it is published.
func (k *Key) Stated() PublicKey { return PublicKey{Key: k.id, Public: encode(k.Public())} }

// Fingerprint names a public key.
func Fingerprint(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return "ed25519:" + hex.EncodeToString(sum[:16])
}

// mark shows who has the key that a record was written by one who has it.
func (k *Key) mark(hash string) string { return encode(mac(k.marks, hash)) }

// wrote says whether a record that is whole was written by one who has the key.
func (k *Key) wrote(r *Record) bool {
	if r.Checkpoint != nil {
		return r.Signed(map[string]ed25519.PublicKey{k.id: k.Public()})
	}
	return hmac.Equal([]byte(r.Mark), []byte(k.mark(r.Hash)))
}

func mac(secret []byte, text string) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// signed is what is signed of a checkpoint.
func signed(hash string) []byte { return []byte("drover audit checkpoint\n" + hash) }

// PublicKey is a key to check signatures with.
type PublicKey struct {
	Key    string `json:"key"`    // its fingerprint, as checkpoints have it
	Public string `json:"public"` // the key, Ed25519, in base64
}

// Keys are those of an installation.
type Keys struct {
	Keys []PublicKey `json:"keys"` // the one that signs now comes first
}

// ParseKeys reads the answer of /v2/audit/keys.
func ParseKeys(data []byte) (map[string]ed25519.PublicKey, error) {
	var stated Keys
	if err := json.Unmarshal(data, &stated); err != nil {
		return nil, fmt.Errorf("the file of keys is not what /v2/audit/keys answers: %w", err)
	}
	keys := map[string]ed25519.PublicKey{}
	for _, k := range stated.Keys {
		public, err := publicKey(k.Public)
		if err != nil {
			return nil, err
		}
		keys[Fingerprint(public)] = public
	}
	if len(keys) == 0 {
		return nil, errors.New("the file of keys has no key")
	}
	return keys, nil
}

func publicKey(text string) (ed25519.PublicKey, error) {
	public, err := encoding.DecodeString(text)
	if err != nil || len(public) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%q is no public key of Ed25519 in base64", text)
	}
	return public, nil
}

// Digest is a digest of a document by its SHA-256. Who does not have the secret cannot try whether a guess of the document is
// right: a document may hold a secret that few guesses find.
func Digest(secret, sum []byte) string {
	if len(sum) == 0 {
		return ""
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write(sum)
	return "hmac-sha256:" + hex.EncodeToString(mac.Sum(nil))
}
