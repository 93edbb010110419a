// Package secret seals what must not be readable in the store, by AES-256-GCM with a random nonce. What is sealed is bound to the
// key of the document that holds it, so that it cannot be opened in another one. Sealing keys have names, so that they can be
// rotated.
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// keySize is that of AES-256, in bytes.
const keySize = 32

// Sealer seals with one key and opens with any that it has.
type Sealer struct {
	active string
	keys   map[string]cipher.AEAD
	secret [][]byte // the keys, the active one first
}

// Parse reads keys of the form "id:base64 of 32 bytes", separated by commas or lines. The first one seals,
// all of them open. An error never shows a key.
func Parse(text string) (*Sealer, error) {
	s := &Sealer{keys: map[string]cipher.AEAD{}}
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, encoded, ok := strings.Cut(line, ":")
		if !ok || id == "" {
			return nil, errors.New("a secret key has the form id:base64")
		}
		key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
		if err != nil || len(key) != keySize {
			return nil, fmt.Errorf("secret key %q is not %d bytes in base64", id, keySize)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("secret key %q: %w", id, err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("secret key %q: %w", id, err)
		}
		if _, twice := s.keys[id]; twice {
			return nil, fmt.Errorf("secret key %q is there twice", id)
		}
		if s.active == "" {
			s.active = id
		}
		s.secret = append(s.secret, key)
		s.keys[id] = aead
	}
	if s.active == "" {
		return nil, errors.New("there is no secret key")
	}
	return s, nil
}

// Derive makes a key for a purpose, of which each has another one. It is another one when another key seals.
func (s *Sealer) Derive(purpose string) []byte { return s.DeriveAll(purpose)[0] }

// DeriveAll makes the keys that Derive makes, or has made, of each sealing key that there is; that of the one that seals comes first.
func (s *Sealer) DeriveAll(purpose string) [][]byte {
	keys := make([][]byte, len(s.secret))
	for i, secret := range s.secret {
		var err error
		if keys[i], err = hkdf.Key(sha256.New, secret, nil, purpose, keySize); err != nil { // it can make thousands of bytes
			panic(err)
		}
	}
	return keys
}

// LoadOrCreate reads keys from a file, and makes the file, readable by its owner alone, with a new key when
// there is none. Processes that do so at the same time get the same key.
func LoadOrCreate(path string) (*Sealer, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = create(path); errors.Is(err, fs.ErrExist) { // another process was faster
			text, err = os.ReadFile(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read secret keys: %w", err)
	}
	return Parse(string(text))
}

func create(path string) ([]byte, error) {
	key := make([]byte, keySize)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	text := []byte("local:" + base64.StdEncoding.EncodeToString(key) + "\n")
	return text, WriteNew(path, text)
}

// WriteNew writes a secret to a file that its owner alone can read, and that is there whole, or not at all, and stays when the machine
// loses its power. The error is fs.ErrExist when there is such a file; then nothing is written.
func WriteNew(path string, text []byte) (err error) {
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // it stays under its other name
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil { // unlike a renaming, it fails when the file has come to be
		return err
	}
	in, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer in.Close()
	return in.Sync()
}

// Seal encrypts plain for the document with the key aad.
func (s *Sealer) Seal(aad string, plain []byte) (domain.Sealed, error) {
	aead := s.keys[s.active]
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	if _, err := rand.Read(nonce); err != nil {
		return domain.Sealed{}, fmt.Errorf("make a nonce: %w", err)
	}
	return domain.Sealed{KeyID: s.active, Data: aead.Seal(nonce, nonce, plain, []byte(aad))}, nil
}

// Open decrypts what was sealed for the document with the key aad. Internal when the key is not configured
// any more, or the data was changed or belongs to another document.
func (s *Sealer) Open(aad string, sealed domain.Sealed) ([]byte, error) {
	aead, ok := s.keys[sealed.KeyID]
	if !ok {
		return nil, fail.New(fail.Internal, "the secret key %q is not configured", sealed.KeyID)
	}
	if len(sealed.Data) < aead.NonceSize() {
		return nil, fail.New(fail.Internal, "the sealed data is cut off")
	}
	nonce, data := sealed.Data[:aead.NonceSize()], sealed.Data[aead.NonceSize():]
	plain, err := aead.Open(nil, nonce, data, []byte(aad))
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the sealed data cannot be opened with the secret key %q", sealed.KeyID)
	}
	return plain, nil
}
