package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// kind says what a frame is: parent and child talk in frames of a kind, a length and as many bytes.
type kind byte

const (
	settingsFrame kind = 's' // to the child, once: its limits
	readyFrame    kind = 'y' // from the child, once: it takes requests
	requestFrame  kind = 'r' // to the child
	noteFrame     kind = 'n' // from the child: what it does now, where they share no memory
	answerFrame   kind = 'a' // from the child
)

const (
	headerSize = 5
	maxNote    = 1 << 10
	// atOnce is what fits in a pipe. It is copied behind its header, so that the other side wakes once.
	atOnce = 64<<10 - headerSize
)

// errTooLong is a frame that is longer than its reader takes.
var errTooLong = errors.New("the frame is too long")

// writeFrame writes a frame whose content is the parts one after the other.
func writeFrame(w io.Writer, k kind, parts ...[]byte) error {
	size := sizeOf(parts)
	frame := make([]byte, headerSize, headerSize+min(size, atOnce))
	frame[0] = byte(k)
	binary.BigEndian.PutUint32(frame[1:], uint32(size)) // #nosec G115 -- callers bound it
	if size <= atOnce {
		for _, part := range parts {
			frame = append(frame, part...)
		}
		_, err := w.Write(frame)
		return err
	}
	for _, part := range append([][]byte{frame}, parts...) {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// sizeOf is how many bytes all parts have.
func sizeOf(parts [][]byte) (n int) {
	for _, part := range parts {
		n += len(part)
	}
	return n
}

// readFrame reads a frame of at most limit bytes; errTooLong for a longer one, of which nothing but the header was read.
func readFrame(r io.Reader, limit int) (kind, []byte, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	n := int64(binary.BigEndian.Uint32(header[1:]))
	if n > int64(limit) {
		return 0, nil, fmt.Errorf("%w: %d bytes", errTooLong, n)
	}
	content := make([]byte, n)
	if _, err := io.ReadFull(r, content); err != nil {
		return 0, nil, err
	}
	return kind(header[0]), content, nil
}
