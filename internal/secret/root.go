package secret

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Root is the secret of an installation that stays as it is when sealing keys change: what digests are made with, for example, which
// name things. It lies sealed in the store.
type Root struct{ secret []byte }

// NewRoot makes one.
func NewRoot() (Root, error) {
	r := Root{make([]byte, keySize)}
	if _, err := rand.Read(r.secret); err != nil {
		return Root{}, fmt.Errorf("make a secret: %w", err)
	}
	return r, nil
}

// RootOf is the one with these bytes; false when they are none.
func RootOf(secret []byte) (Root, bool) { return Root{secret}, len(secret) == keySize }

// Bytes are what is to be sealed of it.
func (r Root) Bytes() []byte { return r.secret }

// Derive makes a key for a purpose, of which each has another one.
func (r Root) Derive(purpose string) []byte {
	key, err := hkdf.Key(sha256.New, r.secret, nil, purpose, keySize)
	if err != nil { // it can make thousands of bytes
		panic(err)
	}
	return key
}

// ID names the installation: the same one for as long as it has this secret, of which it tells nothing.
func (r Root) ID() string { return hex.EncodeToString(r.Derive("id of the installation")[:idSize]) }

// idSize is how many bytes an id has: enough that no two installations have the same, and few enough to be read out.
const idSize = 8

// Sealer seals for a purpose by a key that comes from the root secret.
func (r Root) Sealer(purpose string) (*Sealer, error) {
	aead, err := newAEAD(r.Derive(purpose))
	if err != nil {
		return nil, err
	}
	return New(&Ring{ids: []string{rootKey}, keys: map[string]ringKey{rootKey: {aead: aead}}}), nil
}

// rootKey is the name of a key that comes from a root secret.
const rootKey = "root"

// Digest names data in lower-case hex (HMAC-SHA256), for who has the key: nobody else can try whether a guess of the data is right.
func Digest(key, data []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(data)
	return hex.EncodeToString(mac.Sum(nil))
}
