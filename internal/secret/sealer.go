package secret

import (
	"bytes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
)

// Sealer seals and opens. It may be used by any number of goroutines.
type Sealer struct {
	keeper  Keeper
	making  sync.Mutex
	current atomic.Pointer[dataKey]
	next    atomic.Int64 // when another data key is asked for again that could not be had, in ns
	opened  sync.Map     // heads of what was opened lately, as strings, to *dataKey
	known   atomic.Int64 // how many these are, about
	flight  singleflight.Group
}

// dataKey is one with what lies in front of what it has sealed.
type dataKey struct {
	aead  cipher.AEAD
	keyID string // of the Keeper's key
	head  []byte
	made  time.Time
	seals atomic.Int64
}

// How long a data key seals, and how often: random nonces are good for 2^32 times. From half of either on another one is asked for, so that
// who makes them may be away for as long. What opens is kept for fewer.
const (
	dataKeyLife  = 24 * time.Hour
	dataKeySeals = 1 << 30
	keptKeys     = 1 << 14
)

// New makes a Sealer whose data keys the keeper seals.
func New(k Keeper) *Sealer { return &Sealer{keeper: k} }

// Keeper is who seals its data keys.
func (s *Sealer) Keeper() Keeper { return s.keeper }

// Close ends what the Keeper holds, which is asked no more.
func (s *Sealer) Close() {
	if r, ok := s.keeper.(*Ring); ok {
		r.Close()
	}
}

// What is sealed begins with a byte that says so, the length and the name of the Keeper's key, the length of the wrapped data key and
// that itself. Nonce, ciphertext and tag follow.
const format = 1

// headOf is what lies in front of what is sealed, and what follows it; ok is false for what was never sealed.
func headOf(sealed []byte) (head []byte, keyID string, wrapped, rest []byte, ok bool) {
	if len(sealed) < 2 || sealed[0] != format {
		return nil, "", nil, nil, false
	}
	at := 2 + int(sealed[1])
	if len(sealed) < at+2 {
		return nil, "", nil, nil, false
	}
	end := at + 2 + int(binary.BigEndian.Uint16(sealed[at:]))
	if len(sealed) < end {
		return nil, "", nil, nil, false
	}
	return sealed[:end:end], string(sealed[2:at]), sealed[at+2 : end], sealed[end:], true
}

// KeyOf is the name of the Keeper's key that is needed to open what is sealed, or begins like that; false for what was never sealed.
func KeyOf(sealed []byte) (keyID string, ok bool) {
	_, keyID, _, _, ok = headOf(sealed)
	return keyID, ok
}

// HeadOf is a copy of what lies in front of what is sealed, nil for what was never sealed.
func HeadOf(sealed []byte) []byte {
	head, _, _, _, _ := headOf(sealed)
	return bytes.Clone(head)
}

// sealing is the data key that seals now. While the Keeper gives no other that is the one of before, for as long as that may seal.
func (s *Sealer) sealing() (*dataKey, error) {
	k, due := s.usable()
	if k != nil && (!due || !s.making.TryLock()) { // another one makes it
		return k, nil
	}
	if k == nil {
		s.making.Lock()
	}
	defer s.making.Unlock()
	if k, due = s.usable(); k != nil && !due { // another one has made it meanwhile
		return k, nil
	}
	made, err := s.makeKey()
	if k != nil && err != nil {
		s.next.Store(time.Now().Add(policy.KMSLookAgain).UnixNano())
		return k, nil
	}
	return made, err
}

// makeKey makes the data key that seals from now on.
func (s *Sealer) makeKey() (*dataKey, error) {
	key := make([]byte, keySize)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make a data key: %w", err)
	}
	keyID, wrapped, err := s.keeper.Wrap(key)
	if err != nil {
		return nil, err
	}
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	head := append([]byte{format, byte(len(keyID))}, keyID...)
	head = append(binary.BigEndian.AppendUint16(head, uint16(len(wrapped))), wrapped...) //nolint:gosec // mostWrapped at most
	k := &dataKey{aead: aead, keyID: keyID, head: head, made: time.Now()}
	s.keep(string(head), k)
	s.current.Store(k)
	return k, nil
}

// usable is the data key that there is, nil when it must not seal any more, and whether another one is due.
func (s *Sealer) usable() (k *dataKey, due bool) {
	k = s.current.Load()
	if k == nil {
		return nil, true
	}
	old, seals, now := time.Since(k.made), k.seals.Load(), s.keeper.Sealing()
	if old > dataKeyLife || seals >= dataKeySeals || k.keyID != now && !s.keeper.Has(k.keyID) {
		return nil, true
	}
	return k, (old > dataKeyLife/2 || seals > dataKeySeals/2 || k.keyID != now) && time.Now().UnixNano() >= s.next.Load()
}

// keep remembers a data key for what is opened next.
func (s *Sealer) keep(head string, k *dataKey) {
	if s.known.Add(1) > keptKeys {
		s.opened.Clear()
		s.known.Store(1)
	}
	s.opened.Store(head, k)
}

// opening is the data key of a head.
func (s *Sealer) opening(head []byte, keyID string, wrapped []byte) (*dataKey, error) {
	if k, ok := s.opened.Load(string(head)); ok {
		return k.(*dataKey), nil
	}
	k, err, _ := s.flight.Do(string(head), func() (any, error) {
		key, err := s.keeper.Unwrap(keyID, wrapped)
		if err != nil {
			return nil, err
		}
		if len(key) != keySize {
			return nil, fail.New(fail.Internal, "the secret key %q opens no data key", keyID)
		}
		aead, err := newAEAD(key)
		if err != nil {
			return nil, err
		}
		k := &dataKey{aead: aead, keyID: keyID}
		s.keep(string(head), k)
		return k, nil
	})
	if err != nil {
		return nil, err
	}
	return k.(*dataKey), nil
}

// SealBytes encrypts plain for the place aad.
func (s *Sealer) SealBytes(aad string, plain []byte) ([]byte, error) {
	k, err := s.sealing()
	if err != nil {
		return nil, err
	}
	return k.seal(k.head, aad, plain)
}

func (k *dataKey) seal(head []byte, aad string, plain []byte) ([]byte, error) {
	k.seals.Add(1)
	return sealInto(head, k.aead, []byte(aad), plain)
}

// sealInto appends a nonce and what is sealed to a copy of head.
func sealInto(head []byte, aead cipher.AEAD, aad, plain []byte) ([]byte, error) {
	at := len(head) + aead.NonceSize()
	sealed := make([]byte, at, at+len(plain)+aead.Overhead())
	copy(sealed, head)
	nonce := sealed[len(head):at]
	if _, err := rand.Read(nonce); err != nil {
		return nil, fmt.Errorf("make a nonce: %w", err)
	}
	return aead.Seal(sealed, nonce, plain, aad), nil
}

// openWith opens a nonce and what follows it.
func openWith(aead cipher.AEAD, aad, sealed []byte) ([]byte, error) {
	if len(sealed) < aead.NonceSize() {
		return nil, fail.New(fail.Internal, "the sealed data is cut off")
	}
	return aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], aad)
}

// OpenBytes decrypts what was sealed for the place aad. Internal when the key is not configured any more, or the data was changed,
// belongs to another place or was never sealed; and the Keeper's errors.
func (s *Sealer) OpenBytes(aad string, sealed []byte) ([]byte, error) {
	head, keyID, wrapped, rest, ok := headOf(sealed)
	if !ok {
		return nil, fail.New(fail.Internal, "the data is not sealed, or it is cut off")
	}
	k, err := s.opening(head, keyID, wrapped)
	if err != nil {
		return nil, err
	}
	plain, err := openWith(k.aead, []byte(aad), rest)
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the sealed data cannot be opened with the secret key %q", keyID)
	}
	return plain, nil
}

// Seal encrypts plain for the document with the key aad.
func (s *Sealer) Seal(aad string, plain []byte) (domain.Sealed, error) {
	data, err := s.SealBytes(aad, plain)
	if err != nil {
		return domain.Sealed{}, err
	}
	keyID, _ := KeyOf(data)
	return domain.Sealed{KeyID: keyID, Data: data}, nil
}

// Open decrypts what was sealed for the document with the key aad. Errors are those of OpenBytes.
func (s *Sealer) Open(aad string, sealed domain.Sealed) ([]byte, error) {
	if keyID, ok := KeyOf(sealed.Data); ok && keyID != sealed.KeyID {
		return nil, fail.New(fail.Internal, "the sealed data is not of the secret key %q", sealed.KeyID)
	}
	return s.OpenBytes(aad, sealed.Data)
}

// Parts seals and opens the parts of one thing, which have one head.
type Parts struct{ key *dataKey }

// Parts are for a new thing. Head lies in front of one of them, or wherever its owner keeps it.
func (s *Sealer) Parts() (p Parts, head []byte, err error) {
	k, err := s.sealing()
	if err != nil {
		return Parts{}, nil, err
	}
	return Parts{k}, k.head, nil
}

// PartsOf are for one that was sealed, by its head; rest is what follows the head. Errors are those of OpenBytes.
func (s *Sealer) PartsOf(sealed []byte) (p Parts, rest []byte, err error) {
	head, keyID, wrapped, rest, ok := headOf(sealed)
	if !ok {
		return Parts{}, nil, fail.New(fail.Internal, "the data is not sealed, or it is cut off")
	}
	k, err := s.opening(head, keyID, wrapped)
	return Parts{k}, rest, err
}

// Seal encrypts a part for the place aad.
func (p Parts) Seal(aad string, plain []byte) ([]byte, error) { return p.key.seal(nil, aad, plain) }

// Open decrypts a part of the place aad.
func (p Parts) Open(aad string, sealed []byte) ([]byte, error) {
	plain, err := openWith(p.key.aead, []byte(aad), sealed)
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the sealed data cannot be opened with the secret key %q", p.key.keyID)
	}
	return plain, nil
}
