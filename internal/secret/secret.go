// Package secret seals what must not be readable in the store, by AES-256-GCM with a random nonce. What is sealed is bound to the
// place that holds it, so that it cannot be opened in another one.
//
// Sealing is in two steps (decision 0058): a data key, which is used for a day at most, seals the data, and a Keeper's key seals the data
// key, which lies in front of what it has sealed. So the Keeper, which may be far away, is seldom asked, and what is sealed can be
// opened by whoever can ask it. Keys are lines of a file (Ring): some are there themselves, of others a service (KMS) is there that has
// them. They have names, so that others can come in their place.
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
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/atomicfile"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// keySize is that of AES-256, in bytes.
const keySize = 32

// ErrNoKey is the cause where something is sealed with a key that is not configured: it is whole, and can be opened when the key is back.
var ErrNoKey = domain.ErrNoKey

// Keeper seals data keys and opens them. One that is far away bounds its calls itself. Its errors are Unavailable
// and Timeout where it may answer later, and Internal for a key that it does not have.
type Keeper interface {
	// Wrap seals a data key with the key that seals now, and names that.
	Wrap(dataKey []byte) (keyID string, wrapped []byte, err error)
	// Unwrap opens what Wrap has sealed with the key of that name, now or before.
	Unwrap(keyID string, wrapped []byte) (dataKey []byte, err error)
	// Sealing is the name of the key that seals now.
	Sealing() string
	// Has says whether it can be asked for what the key of that name has sealed.
	Has(keyID string) bool
}

// Ring is a Keeper with keys of its own and services that have some (KMS): one seals, all of them open.
type Ring struct {
	file string // that the keys are read from again when it has changed; "" for none

	looking sync.Mutex // held to read the file

	mu      sync.RWMutex
	text    []byte // as read last
	looked  time.Time
	problem error       // why it could not be read again
	tell    func(error) // of a problem; may be nil
	ids     []string    // the one that seals first
	keys    map[string]ringKey
}

// ringKey is one of a Ring: a key, or who has some.
type ringKey struct {
	aead cipher.AEAD
	kms  *kms
}

// Parse makes a Sealer with keys of the form "id:base64 of 32 bytes", or "id:unix:///path of a socket" for those that a KMS has, separated
// by commas or lines. The first one seals, all of them open. An error never shows a key.
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
	text, err := atomicfile.Read(path)
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

// line is one that names a key.
type line struct {
	id      string
	aead    cipher.AEAD
	address string // of a KMS, "" for a key that is there itself
}

// lines reads what a file of keys says.
func lines(text string) ([]line, error) {
	var all []line
	at := map[string]line{}
	for _, said := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
		said = strings.TrimSpace(said)
		if said == "" || strings.HasPrefix(said, "#") {
			continue
		}
		id, key, ok := strings.Cut(said, ":")
		if !ok || id == "" {
			return nil, errors.New("a secret key has the form id:base64, or id:unix:///path of a KMS plugin's socket")
		}
		if len(id) > longestID {
			return nil, fmt.Errorf("the name of a secret key has more than %d characters", longestID)
		}
		l, err := lineOf(id, strings.TrimSpace(key))
		if err != nil {
			return nil, err
		}
		if _, twice := at[id]; twice {
			return nil, fmt.Errorf("secret key %q is there twice", id)
		}
		at[id], all = l, append(all, l)
	}
	if len(all) == 0 {
		return nil, errors.New("there is no secret key")
	}
	for _, l := range all {
		if kms, _, of := strings.Cut(l.id, "@"); of && at[kms].address != "" {
			return nil, fmt.Errorf("secret key %q would be one of the KMS %q: give it another name", l.id, kms)
		}
	}
	return all, nil
}

func lineOf(id, key string) (line, error) {
	if strings.HasPrefix(key, kmsScheme) {
		if strings.Contains(id, "@") {
			return line{}, fmt.Errorf("the name of the KMS %q may have no @: it stands between its name and those of its keys", id)
		}
		if _, err := socketOf(key); err != nil {
			return line{}, fmt.Errorf("the KMS %q: %w", id, err)
		}
		return line{id: id, address: key}, nil
	}
	plain, err := base64.StdEncoding.DecodeString(key)
	if err != nil || len(plain) != keySize {
		return line{}, fmt.Errorf("secret key %q is not %d bytes in base64, nor the address of a KMS (unix:///path)", id, keySize)
	}
	aead, err := newAEAD(plain)
	if err != nil {
		return line{}, fmt.Errorf("secret key %q: %w", id, err)
	}
	return line{id: id, aead: aead}, nil
}

// read takes keys in place of those that there are. A KMS that stays is not connected to anew.
func (r *Ring) read(text string) error {
	all, err := lines(text)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	keys, left := map[string]ringKey{}, maps.Clone(r.keys)
	for _, l := range all {
		key := ringKey{aead: l.aead}
		if had := r.keys[l.id].kms; l.address != "" && had != nil && had.address == l.address {
			key.kms = had
			delete(left, l.id)
		} else if l.address != "" {
			if key.kms, err = newKMS(l.id, l.address, r.told); err != nil {
				closeAll(keys, r.keys)
				return fmt.Errorf("the KMS %q: %w", l.id, err)
			}
		}
		ids, keys[l.id] = append(ids, l.id), key
	}
	r.ids, r.keys = ids, keys
	closeAll(left, nil)
	return nil
}

// closeAll closes connections of those that are not kept.
func closeAll(keys, kept map[string]ringKey) {
	for id, key := range keys {
		if key.kms != nil && key.kms != kept[id].kms {
			_ = key.kms.close()
		}
	}
}

// Close ends the connections to services of keys.
func (r *Ring) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	closeAll(r.keys, nil)
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
	r.mu.Unlock()
	if !due {
		return
	}
	r.looking.Lock() // of two looks the later one has the last word
	defer r.looking.Unlock()
	r.mu.RLock()
	before := r.text
	r.mu.RUnlock()
	text, err := atomicfile.Read(r.file)
	if err == nil && !bytes.Equal(text, before) {
		if err = r.read(string(text)); err == nil {
			before = text
		}
	}
	r.mu.Lock()
	r.text = before
	same := fmt.Sprint(r.problem) == fmt.Sprint(err)
	r.problem = err
	r.mu.Unlock()
	if !same {
		r.told(err)
	}
}

// Tell has what keeps the file from being read again told, or a KMS from answering, once, and nil when that is over.
func (r *Ring) Tell(tell func(error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell = tell
}

func (r *Ring) told(problem error) {
	r.mu.RLock()
	tell := r.tell
	r.mu.RUnlock()
	if tell != nil {
		tell(problem)
	}
}

// Problem is why the file cannot be read again, or why a KMS does not answer, nil when all is well. The keys of before are used as long, and
// the data keys that are known.
func (r *Ring) Problem() error { return r.problemOf(r.IDs()) }

// Ready is why what seals cannot be had, nil when it can.
func (r *Ring) Ready() error { return r.problemOf(r.IDs()[:1]) }

func (r *Ring) problemOf(ids []string) error {
	r.mu.RLock()
	problem, keys := r.problem, r.keys
	r.mu.RUnlock()
	for _, id := range ids {
		if key := keys[id]; problem == nil && key.kms != nil {
			problem = key.kms.unanswered()
		}
	}
	return problem
}

// IDs are the names of the keys, and of services that have keys, the one that seals first.
func (r *Ring) IDs() []string {
	r.look(false)
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.ids
}

// IDOf is which of IDs opens what the key of a name has sealed: the same one, or the KMS that has that key. False for none.
func (r *Ring) IDOf(keyID string) (id string, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if _, ok := r.keys[keyID]; ok {
		return keyID, true
	}
	if id, _, _ := strings.Cut(keyID, "@"); r.keys[id].kms != nil {
		return id, true
	}
	return "", false
}

// IsOf says whether a key, which may be in no Ring any more, has a name of IDs, or was of a KMS of that name.
func IsOf(keyID, id string) bool { return keyID == id || strings.HasPrefix(keyID, id+"@") }

// Has implements Keeper.
func (r *Ring) Has(keyID string) bool {
	_, ok := r.IDOf(keyID)
	return ok
}

// first is the key that seals, or who has it.
func (r *Ring) first() (id string, key ringKey) {
	r.look(false)
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.ids[0], r.keys[r.ids[0]]
}

// Sealing implements Keeper. Of a KMS that has not said yet which key seals it is the name of the KMS.
func (r *Ring) Sealing() string {
	id, key := r.first()
	if key.kms != nil {
		return key.kms.now()
	}
	return id
}

// wrapping is what a wrapped data key is bound to.
var wrapping = []byte("drover data key")

// Wrap implements Keeper.
func (r *Ring) Wrap(dataKey []byte) (keyID string, wrapped []byte, err error) {
	keyID, key := r.first()
	if key.kms != nil {
		return key.kms.wrap(dataKey)
	}
	wrapped, err = sealInto(nil, key.aead, wrapping, dataKey)
	return keyID, wrapped, err
}

// Unwrap implements Keeper.
func (r *Ring) Unwrap(keyID string, wrapped []byte) ([]byte, error) {
	id, ok := r.IDOf(keyID)
	if !ok {
		r.look(true)
		id, ok = r.IDOf(keyID)
	}
	r.mu.RLock()
	key := r.keys[id]
	r.mu.RUnlock()
	switch {
	case ok && key.kms != nil:
		return key.kms.unwrap(keyID, wrapped)
	case !ok || key.aead == nil:
		return nil, fail.Wrap(ErrNoKey, fail.Internal, "the secret key %q is not configured", keyID)
	}
	dataKey, err := openWith(key.aead, wrapping, wrapped)
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the sealed data cannot be opened with the secret key %q", keyID)
	}
	return dataKey, nil
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
	rest, err := lines(strings.Join(left, "\n"))
	switch {
	case err != nil:
		return "", fmt.Errorf("what would be left of %s: %w", path, err)
	case len(gone) == 0, slices.ContainsFunc(rest, func(l line) bool { return l.id == id }):
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
