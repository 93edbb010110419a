package status

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"reflect"

	"github.com/drover-io/drover/internal/fail"
)

// flushSize is the most that a document keeps in memory of what is written of it, in bytes.
const flushSize = 32 << 10

// stream writes a document piece by piece. After the first error it writes no more and keeps that error.
type stream struct {
	w   *bufio.Writer
	err error

	written int    // bytes
	parts   *parts // where in what is written its parts are, nil where nobody asks
}

func newStream(w io.Writer) *stream { return &stream{w: bufio.NewWriterSize(w, flushSize)} }

// text writes JSON that is already encoded.
func (s *stream) text(encoded string) {
	if s.err == nil {
		n, err := s.w.WriteString(encoded)
		s.written += n
		s.wrote(err)
	}
}

// bytes writes JSON that is already encoded.
func (s *stream) bytes(encoded []byte) {
	if s.err == nil {
		n, err := s.w.Write(encoded)
		s.written += n
		s.wrote(err)
	}
}

// comma separates the nth element of an array from the one before it.
func (s *stream) comma(n int) {
	if n > 0 {
		s.text(",")
	}
}

// value encodes and writes a whole value.
func (s *stream) value(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		s.fail(err)
		return
	}
	s.bytes(b)
}

// head opens the document itself with its first members.
func (s *stream) head(v any) {
	if s.parts == nil {
		s.open(v)
		return
	}
	s.text("{")
	n := 0
	err := eachMember(reflect.ValueOf(v), func(name string, value []byte) {
		s.comma(n)
		n++
		s.text(`"` + name + `":`)
		s.parts.begin(name, s.written)
		s.bytes(value)
		s.parts.end(s.written)
	})
	if err != nil {
		s.fail(err)
	}
}

// member begins a member of the document after the first ones, to which what is written belongs until finish.
func (s *stream) member(name string) {
	s.text(`,"` + name + `":`)
	if s.parts != nil {
		s.parts.begin(name, s.written)
	}
}

// finish ends what member has begun.
func (s *stream) finish() {
	if s.parts != nil {
		s.parts.end(s.written)
	}
}

// open writes an object that has members, without its closing brace: the caller adds members and the brace.
func (s *stream) open(v any) {
	b, err := opened(v)
	if err != nil {
		s.fail(err)
		return
	}
	s.bytes(b)
}

// close writes what is still held back and returns the first error.
func (s *stream) close() error {
	if s.err == nil {
		s.wrote(s.w.Flush())
	}
	return s.err
}

func (s *stream) wrote(err error) {
	if err != nil {
		s.err = fmt.Errorf("write status document: %w", err)
	}
}

func (s *stream) fail(cause error) {
	s.end(fail.Wrap(cause, fail.Internal, "status document cannot be encoded"))
}

// end keeps an error of what the document is made from.
func (s *stream) end(err error) {
	if s.err == nil {
		s.err = err
	}
}

// opened encodes an object that has members, without its closing brace.
func opened(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return b[:len(b)-1], nil
}
