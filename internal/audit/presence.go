package audit

import (
	"crypto/ed25519"
	"errors"
	"slices"
	"time"
)

// Presence is what a writer says of itself, apart from its records, so that others find it. Nobody believes it but for what is
// signed in it.
type Presence struct {
	Writer string `bson:"_id"`
	// Checkpoint is the line of its last one.
	Checkpoint string `bson:"checkpoint"`
	// Seen is when it was alive; of one that another one has taken for dead, when that was.
	Seen time.Time `bson:"seen"`
	// Closed says that it has ended, or that another one has taken it for dead.
	Closed bool `bson:"closed"`
	// Keep is for how long it keeps records; 0 when it says nothing, as v0.1.0.
	Keep time.Duration `bson:"keep,omitempty"`
}

// Stated is the checkpoint of a presence; false when it is none that one of the keys has signed.
func (p *Presence) Stated(keys map[string]ed25519.PublicKey) (*Record, bool) {
	r, err := Whole([]byte(p.Checkpoint))
	return r, err == nil && r.Writer == p.Writer && r.Signed(keys)
}

// Whole reads a line that is as it was written; that does not say by whom.
func Whole(text []byte) (*Record, error) {
	r, hashed, err := Parse(text)
	if err == nil && !whole(r, hashed) {
		return nil, errors.New("was changed: its hash is not that of its members")
	}
	return r, err
}

// Signed says whether a record that is whole is a checkpoint that one of the keys has signed.
func (r *Record) Signed(keys map[string]ed25519.PublicKey) bool {
	if r.Checkpoint == nil {
		return false
	}
	public, known := keys[r.Checkpoint.Key]
	if !known {
		return false
	}
	signature, err := encoding.DecodeString(r.Signature)
	return err == nil && ed25519.Verify(public, signed(r.Hash), signature)
}

// HeadOf is the head that a record is.
func HeadOf(r *Record) Head { return Head{Writer: r.Writer, Number: r.Number, Hash: r.Hash} }

// Follows says whether a line is the record that comes after a head, is as it was written, and was written by one who has one of the
// keys: who can write to the store alone must not have others sign what they put behind the records of a writer that has died.
func Follows(h Head, text []byte, keys []*Key) (*Record, bool) {
	r, err := Whole(text)
	ok := err == nil && r.Writer == h.Writer && r.Number == h.Number+1 && r.Prev == h.Hash &&
		slices.ContainsFunc(keys, func(k *Key) bool { return k.wrote(r) })
	return r, ok
}
