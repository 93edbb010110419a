// Package secret seals what must not be readable in the store, by AES-256-GCM with a random nonce. What is sealed is bound to the
// place that holds it, so that it cannot be opened in another one.
//
// Sealing is in two steps (decision 0058): a data key, which is used for an hour, seals the data, and a Keeper's key seals the data
// key, which lies in front of what it has sealed. So the Keeper, which may be far away, is seldom asked, and what is sealed can be
// opened by whoever can ask it. The Keeper that there is has its keys in a file (Ring). Its keys have names, so that others can come in
// their place.
package secret

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/atomicfile"
	"github.com/drover-io/drover/internal/fail"
)

// keySize is that of AES-256, in bytes.
const keySize = 32

// ErrNoKey is the cause where something is sealed with a key that is not configured: it is whole, and can be opened when the key is back.
var ErrNoKey = errors.New("no such key")

// Keeper seals data keys and opens them. A service of keys (KMS) that is far away bounds its calls itself. Its errors are Unavailable
// and Timeout where it may answer later, and Internal for a key that it does not have.
type Keeper interface {
	// Wrap seals a data key with the key that seals now, and names that.
	Wrap(dataKey []byte) (keyID string, wrapped []byte, err error)
	// Unwrap opens what Wrap has sealed with the key of that name, now or before.
	Unwrap(keyID string, wrapped []byte) (dataKey []byte, err error)
	// Sealing is the name of the key that seals now.
	Sealing() string
}

// Ring is a Keeper with keys of its own: one seals, all of them open.
type Ring struct {
	file string // that the keys are read from again when it has changed; "" for none

	mu      sync.RWMutex
	text    []byte // as read last
	looked  time.Time
	problem error       // why it could not be read again
	tell    func(error) // of a problem; may be nil
	ids     []string    // the one that seals first
	keys    map[string]cipher.AEAD
}

// Parse makes a Sealer with keys of the form "id:base64 of 32 bytes", separated by commas or lines. The first one seals,
// all of them open. An error never shows a key.
func Parse(text string) (*Sealer, error) {
	r := &Ring{}
	if err := r.read(text); err != nil {
		return nil, err
	}
	return New(r), nil
}

// ReadFile is Parse for a file, whose keys are read again when it has changed: within lookEvery before a key seals, and at once when
// one is missing. A file that cannot be read then, or has no keys, changes nothing.
func ReadFile(path string) (*Sealer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read secret keys: %w", err)
	}
	r := &Ring{file: path, text: text, looked: time.Now()}
	if err := r.read(string(text)); err != nil {
		return nil, err
	}
	return New(r), nil
}

// longestID is the longest name of a key.
const longestID = 64

// read takes keys in place of those that there are.
func (r *Ring) read(text string) error {
	var ids []string
	keys := map[string]cipher.AEAD{}
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, encoded, ok := strings.Cut(line, ":")
		if !ok || id == "" {
			return errors.New("a secret key has the form id:base64")
		}
		if len(id) > longestID {
			return fmt.Errorf("the name of a secret key has more than %d characters", longestID)
		}
		key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
		if err != nil || len(key) != keySize {
			return fmt.Errorf("secret key %q is not %d bytes in base64", id, keySize)
		}
		if _, twice := keys[id]; twice {
			return fmt.Errorf("secret key %q is there twice", id)
		}
		if keys[id], err = newAEAD(key); err != nil {
			return fmt.Errorf("secret key %q: %w", id, err)
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return errors.New("there is no secret key")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids, r.keys = ids, keys
	return nil
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// lookEvery is how often it is looked whether the file has changed.
const lookEvery = 2 * time.Second

// look reads the file again, unless that was done a moment ago and it need not be.
func (r *Ring) look(need bool) {
	if r.file == "" {
		return
	}
	r.mu.Lock()
	due := need || time.Since(r.looked) >= lookEvery
	if due {
		r.looked = time.Now()
	}
	before := r.text
	r.mu.Unlock()
	if !due {
		return
	}
	text, err := os.ReadFile(r.file)
	if err == nil && !bytes.Equal(text, before) {
		if err = r.read(string(text)); err == nil {
			before = text
		}
	}
	r.mu.Lock()
	r.text = before
	same := fmt.Sprint(r.problem) == fmt.Sprint(err)
	r.problem = err
	tell := r.tell
	r.mu.Unlock()
	if !same && tell != nil {
		tell(err)
	}
}

// Tell has what keeps the file from being read again told, once, and nil when that is over.
func (r *Ring) Tell(tell func(error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell = tell
}

// Problem is why the file cannot be read again, nil when it can. The keys of before are used as long.
func (r *Ring) Problem() error {
	r.look(false)
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.problem
}

// IDs are the names of the keys, the one that seals first.
func (r *Ring) IDs() []string {
	r.look(false)
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.ids
}

// Sealing implements Keeper.
func (r *Ring) Sealing() string { return r.IDs()[0] }

// wrapping is what a wrapped data key is bound to.
var wrapping = []byte("drover data key")

// Wrap implements Keeper.
func (r *Ring) Wrap(dataKey []byte) (keyID string, wrapped []byte, err error) {
	r.look(false)
	r.mu.RLock()
	keyID = r.ids[0]
	aead := r.keys[keyID]
	r.mu.RUnlock()
	wrapped, err = sealInto(nil, aead, wrapping, dataKey)
	return keyID, wrapped, err
}

// Unwrap implements Keeper.
func (r *Ring) Unwrap(keyID string, wrapped []byte) ([]byte, error) {
	aead, ok := r.key(keyID)
	if !ok {
		r.look(true)
		aead, ok = r.key(keyID)
	}
	if !ok {
		return nil, fail.Wrap(ErrNoKey, fail.Internal, "the secret key %q is not configured", keyID)
	}
	dataKey, err := openWith(aead, wrapping, wrapped)
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the sealed data cannot be opened with the secret key %q", keyID)
	}
	return dataKey, nil
}

func (r *Ring) key(id string) (cipher.AEAD, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	aead, ok := r.keys[id]
	return aead, ok
}

// LoadOrCreate reads keys from a file, and makes the file, readable by its owner alone, with a new key when
// there is none. Processes that do so at the same time get the same key.
func LoadOrCreate(path string) (*Sealer, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = create(path); errors.Is(err, fs.ErrExist) { // another process was faster
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read secret keys: %w", err)
	}
	return ReadFile(path)
}

func create(path string) error {
	key := make([]byte, keySize)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	return WriteNew(path, []byte("local:"+base64.StdEncoding.EncodeToString(key)+"\n"))
}

// WriteNew writes a secret to a file that its owner alone can read, and that is there whole, or not at all, and stays when the machine
// loses its power. The error is fs.ErrExist when there is such a file; then nothing is written.
func WriteNew(path string, text []byte) error {
	return atomicfile.Write(path, text, atomicfile.How{New: true})
}

// Drop takes a key out of a file of keys, one a line, which stays as it was when that fails. The others read it again. The key is kept in
// the file that it names: what somebody has sealed with it all the same can be opened when its line is put back.
func Drop(path, id string) (kept string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read secret keys: %w", err)
	}
	var left, gone []string
	for _, line := range strings.Split(string(text), "\n") {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), ":"); name != id {
			left = append(left, line)
		} else {
			gone = append(gone, line)
		}
	}
	rest := &Ring{}
	switch err := rest.read(strings.Join(left, "\n")); {
	case err != nil:
		return "", fmt.Errorf("what would be left of %s: %w", path, err)
	case len(gone) == 0, rest.has(id):
		return "", fmt.Errorf("key %q is not on a line of its own in %s", id, path)
	}
	kept = droppedFile(path, id)
	if err := WriteNew(kept, []byte(strings.Join(gone, "\n")+"\n")); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("keep key %q: %w", id, err)
	}
	if there, err := os.ReadFile(kept); err != nil || strings.TrimSpace(string(there)) != strings.TrimSpace(strings.Join(gone, "\n")) {
		return "", fmt.Errorf("%s has another key already: move it away", kept)
	}
	return kept, replaceFile(path, text, []byte(strings.Join(left, "\n")))
}

// Dropped is where Drop has kept a key of a file; false when it has not.
func Dropped(path, id string) (kept string, ok bool) {
	kept = droppedFile(path, id)
	_, err := os.Stat(kept)
	return kept, err == nil
}

// PutBack puts a key that was dropped back as the last one of its file.
func PutBack(path, id string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	line, err := os.ReadFile(droppedFile(path, id))
	if err != nil {
		return err
	}
	now := slices.Clone(text)
	if len(now) > 0 && now[len(now)-1] != '\n' {
		now = append(now, '\n')
	}
	return replaceFile(path, text, append(now, line...))
}

// droppedFile is where a key is kept that was dropped; names of keys may have characters that no file has.
func droppedFile(path, id string) string { return path + ".dropped-" + url.PathEscape(id) }

// replaceFile puts another text in place of the one that a file has, which keeps its mode and its owner.
func replaceFile(path string, before, text []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, text, atomicfile.How{Like: info, Before: func() error {
		switch now, err := os.ReadFile(path); {
		case err != nil:
			return err
		case !bytes.Equal(now, before):
			return fmt.Errorf("%s was changed meanwhile, and is left as it is; try again", path)
		}
		return nil
	}})
}

func (r *Ring) has(id string) bool {
	_, ok := r.key(id)
	return ok
}
