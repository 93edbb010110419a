package audit

import (
	"crypto/ed25519"
	"time"
)

// Presence is what a writer says of itself, apart from its records, so that others find it. Nobody believes it but for what is
// signed in it.
type Presence struct {
	Writer string `bson:"_id"`
	// Checkpoint is the line of its last one.
	Checkpoint string `bson:"checkpoint"`
	// Told is the number of the last record before it that is no checkpoint.
	Told int64 `bson:"told"`
	// Seen is when it was alive.
	Seen time.Time `bson:"seen"`
	// Closed says that it has ended, or that another one has taken it for dead.
	Closed bool `bson:"closed"`
}

// Stated is the checkpoint of a presence; false when it is none that one of the keys has signed.
func (p *Presence) Stated(keys map[string]ed25519.PublicKey) (*Record, bool) {
	r, hashed, err := Parse([]byte(p.Checkpoint))
	if err != nil || r.Writer != p.Writer || r.Checkpoint == nil || !whole(r, hashed) {
		return nil, false
	}
	public, known := keys[r.Checkpoint.Key]
	if !known {
		return nil, false
	}
	signature, err := encoding.DecodeString(r.Signature)
	return r, err == nil && ed25519.Verify(public, signed(r.Hash), signature)
}

// HeadOf is the head that a record is.
func HeadOf(r *Record) Head { return Head{Writer: r.Writer, Number: r.Number, Hash: r.Hash} }

// Follows says whether a line is the record that comes after a head, and is as it was written.
func Follows(h Head, text []byte) (*Record, bool) {
	r, hashed, err := Parse(text)
	ok := err == nil && r.Writer == h.Writer && r.Number == h.Number+1 && r.Prev == h.Hash && whole(r, hashed)
	return r, ok
}
