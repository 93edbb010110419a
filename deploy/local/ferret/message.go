package ferret

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A message of the wire protocol is a header of four little-endian int32
// (length, request, the request it answers, kind) and a body.
const (
	headerSize = 16
	maxMessage = 48_000_000 // what MongoDB accepts

	opMsg      = 2013
	moreToCome = 1 << 1 // flag: no answer is wanted
)

// readMessage reads one whole message into buf, which grows as needed.
func readMessage(r io.Reader, buf []byte) ([]byte, error) {
	buf = grow(buf, headerSize)
	if _, err := io.ReadFull(r, buf); err != nil {
		return nil, err
	}
	n := int(int32(binary.LittleEndian.Uint32(buf)))
	if n < headerSize || n > maxMessage {
		return nil, fmt.Errorf("message of %d bytes", n)
	}
	buf = grow(buf, n)
	_, err := io.ReadFull(r, buf[headerSize:])
	return buf, err
}

// grow returns b with n bytes, the old ones first.
func grow(b []byte, n int) []byte {
	if cap(b) < n {
		b = append(make([]byte, 0, n), b...)
	}
	return b[:n]
}

// command is what a client asks for.
type command struct {
	name       string // update, find …
	collection string // of most commands; empty when it has none
	database   string
	updates    int  // statements in an update
	unanswered bool // the client does not wait for the answer
}

// key is the whole name of the command's collection.
func (c command) key() string { return c.database + "." + c.collection }

var errMalformed = errors.New("malformed message")

// parseCommand reads what the front has to know from a message. A message of
// the old kinds, which is how a client says hello, is a command without name.
func parseCommand(msg []byte) (command, error) {
	var c command
	if binary.LittleEndian.Uint32(msg[12:]) != opMsg {
		return c, nil
	}
	if len(msg) < headerSize+4 {
		return c, errMalformed
	}
	c.unanswered = binary.LittleEndian.Uint32(msg[headerSize:])&moreToCome != 0
	for rest := msg[headerSize+4:]; len(rest) > 4; { // a checksum may follow
		section, kind := rest[1:], rest[0]
		size := int64(binary.LittleEndian.Uint32(section))
		if size < 5 || size > int64(len(section)) {
			return c, errMalformed
		}
		section, rest = section[:size], section[size:]
		if err := c.add(kind, section); err != nil {
			return c, err
		}
	}
	return c, nil
}

// add reads one section: the command itself, or a sequence of documents that
// belong to it.
func (c *command) add(kind byte, section []byte) error {
	switch kind {
	case 0:
		doc := bson.Raw(section)
		first, err := doc.IndexErr(0)
		if err != nil {
			return errMalformed
		}
		c.name = first.Key()
		c.collection, _ = first.Value().StringValueOK()
		c.database, _ = doc.Lookup("$db").StringValueOK()
		if list, ok := doc.Lookup("updates").ArrayOK(); ok {
			values, err := list.Values()
			if err != nil {
				return errMalformed
			}
			c.updates += len(values)
		}
		return nil
	case 1:
		return c.addSequence(section[4:])
	default:
		return errMalformed
	}
}

func (c *command) addSequence(section []byte) error {
	const name = "updates\x00"
	if len(section) < len(name) || string(section[:len(name)]) != name {
		return nil
	}
	for docs := section[len(name):]; len(docs) > 0; c.updates++ {
		if len(docs) < 4 {
			return errMalformed
		}
		size := int64(binary.LittleEndian.Uint32(docs))
		if size < 5 || size > int64(len(docs)) {
			return errMalformed
		}
		docs = docs[size:]
	}
	return nil
}

// answer makes the answer to a message.
func answer(msg []byte, document bson.D) ([]byte, error) {
	doc, err := bson.Marshal(document)
	if err != nil {
		return nil, err
	}
	b := make([]byte, headerSize+4+1, headerSize+4+1+len(doc)) // no flags, a section of kind 0
	le := binary.LittleEndian
	le.PutUint32(b, uint32(cap(b)))
	copy(b[8:], msg[4:8])
	le.PutUint32(b[12:], opMsg)
	return append(b, doc...), nil
}
