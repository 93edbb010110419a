package mongotest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Proxy stands between a store and its database, and lets happen to writes what happens when a database is slow or a network
// is cut: whoever has sent one is told that it took too long, and it is done all the same.
type Proxy struct {
	target string
	l      net.Listener

	mu     sync.Mutex
	faults []*fault
	held   *held
	turns  map[string]*turn // by collection
	writes []string
	asked  map[Question]Answers
	slow   *slowness // nil for none
	see    func(command string, body bson.Raw)
	refuse func(command string, body bson.Raw) string
	conns  map[net.Conn]bool
	done   sync.WaitGroup
	err    error // of the proxy itself
}

// Fault is what becomes of a write.
type Fault struct {
	// Lost: it is done, and its sender told that it took too long. Twice: it is done twice, and the second answer is the one
	// that counts.
	Lost, Twice bool
	// Unconfirmed: it is done, and its sender told what came of it, and that no majority of a set has it.
	Unconfirmed bool
	// After, when not 0: its sender is told that it took too long, and it is done right before the After'th command that
	// follows, or with Flush when there are less.
	After int
	// Late, when not 0, is how long it takes until the database has it.
	Late time.Duration
	// UntilNext: the database has it when the next write of its collection has come, or with Flush, and has it first. Its sender
	// waits for the answer as long as it likes.
	UntilNext bool
	// Before is called before the database has it, and Done when it is done and its sender has not been told: to kill a process
	// between two of its writes. Nothing of that connection goes on meanwhile.
	Before, Done func()
	// Cut: the database never has it, and the connection ends, behind Before.
	Cut bool
}

type fault struct {
	collection string // "" for any; with a * at the end for those whose names begin so
	nth        int    // write of it that is met next, from 1
	Fault
}

func (f *fault) of(collection string) bool {
	prefix, many := strings.CutSuffix(f.collection, "*")
	return f.collection == "" || f.collection == collection || many && strings.HasPrefix(collection, prefix)
}

// held is a write that is done later.
type held struct {
	message []byte
	after   int
}

// turn is of two writes of a collection: the first one waits until the second has come, and the second until the first is done.
type turn struct {
	come, done chan struct{}
}

// fate is what becomes of a message: the turn in which it is the second one, and that in which it is the first; nil for none.
type fate struct {
	Fault
	before, own *turn
}

// writing are the commands that change something.
var writing = []string{"insert", "update", "delete", "findAndModify"}

// aside are the commands that a driver sends by itself.
var aside = []string{"hello", "isMaster", "ismaster", "ping", "endSessions"}

// NewProxy starts one before the database at a URI of one host.
func NewProxy(t testing.TB, uri string) *Proxy {
	t.Helper()
	_, rest, _ := strings.Cut(uri, "://")
	host, _, _ := strings.Cut(rest[strings.LastIndexByte(rest, '@')+1:], "/")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: host, l: l, conns: map[net.Conn]bool{}, turns: map[string]*turn{}, asked: map[Question]Answers{}}
	p.done.Go(p.accept)
	t.Cleanup(func() {
		p.close()
		if p.err != nil {
			t.Errorf("proxy of the database: %v", p.err)
		}
	})
	return p
}

// URI is how the database is reached through it.
func (p *Proxy) URI() string { return "mongodb://" + p.l.Addr().String() + "/?directConnection=true" }

// Meet has the nth write of a collection from now on suffer a fault, "" for any one, "leaves-*" for those that begin with
// leaves-. A write that suffers one does not count for others.
func (p *Proxy) Meet(collection string, nth int, f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, &fault{collection: collection, nth: nth, Fault: f})
}

// See has look see each command from now on, but for those that a driver sends by itself, before the database has it: its name and its body. It may be
// called concurrently.
func (p *Proxy) See(look func(command string, body bson.Raw)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.see = look
}

// Refuse has commands from now on refused as having what the database does not take, in the words that why has for them; the database never has them. Those for which why has
// none go on, and it is not asked for those that a driver sends by itself. It may be called concurrently.
func (p *Proxy) Refuse(why func(command string, body bson.Raw) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = why
}

// refusal is the answer to a message that Refuse has refused; nil for none.
func (p *Proxy) refusal(message []byte) []byte {
	p.mu.Lock()
	why := p.refuse
	p.mu.Unlock()
	if command, _ := commandOf(message); why != nil && !slices.Contains(aside, command) {
		if text := why(command, bodyOf(message)); text != "" {
			return failure(message, badValue, "BadValue", text)
		}
	}
	return nil
}

// show lets See's look see a message.
func (p *Proxy) show(message []byte) {
	p.mu.Lock()
	see := p.see
	p.mu.Unlock()
	if see == nil {
		return
	}
	if body := bodyOf(message); body != nil {
		if first, err := body.IndexErr(0); err == nil && !slices.Contains(aside, first.Key()) {
			see(first.Key(), body)
		}
	}
}

// Met says whether all faults have met their writes.
func (p *Proxy) Met() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.faults) == 0
}

// Flush does what is held, and says which collections were written since the last Flush, and whether a fault has not met
// its write. It begins anew.
func (p *Proxy) Flush() (writes []string, unmet bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
	p.come()
	writes, unmet = p.writes, len(p.faults) > 0
	p.faults, p.writes = nil, nil
	return writes, unmet
}

func (p *Proxy) close() {
	_ = p.l.Close()
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.faults = nil // so that no more waits begin
	p.come()
	p.mu.Unlock()
	p.done.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.done.Go(func() { p.serve(c) })
	}
}

func (p *Proxy) track(c net.Conn, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns[c] = open; !open {
		delete(p.conns, c)
	}
}

// serve forwards one connection's messages, each with its answer.
func (p *Proxy) serve(from net.Conn) {
	p.track(from, true)
	defer p.track(from, false)
	defer from.Close()
	to, err := p.dial()
	if err != nil {
		return
	}
	defer p.track(to, false)
	defer to.Close()
	for {
		message, err := read(from)
		if err != nil {
			return
		}
		p.show(message)
		if answer := p.refusal(message); answer != nil {
			if _, err := from.Write(answer); err != nil {
				return
			}
			continue
		}
		counted := p.count(message)
		p.crawl(message)
		f := p.meet(message)
		if f.before != nil {
			<-f.before.done
		}
		switch {
		case f.After > 0:
			p.hold(&held{message: message, after: f.After})
			_, err = from.Write(tooLong(message))
		case f.Lost:
			if err = ask(to, io.Discard, message); err == nil {
				_, err = from.Write(tooLong(message))
			}
		default:
			err = p.pass(to, from, message, f)
		}
		counted()
		if err != nil {
			return
		}
	}
}

var errCut = errors.New("the connection was cut")

// pass forwards a message, twice or late when it is to be, and its answer.
func (p *Proxy) pass(to io.ReadWriter, from io.Writer, message []byte, f fate) error {
	if f.own != nil {
		<-f.own.come
		defer close(f.own.done)
	}
	if f.Late > 0 {
		<-time.After(f.Late)
	}
	if f.Before != nil {
		f.Before()
	}
	if f.Cut {
		return errCut
	}
	if f.Twice {
		if err := ask(to, io.Discard, message); err != nil {
			return err
		}
	}
	if f.Done == nil && !f.Unconfirmed {
		return ask(to, from, message)
	}
	var buffer bytes.Buffer
	if err := ask(to, &buffer, message); err != nil {
		return err
	}
	answer := buffer.Bytes()
	if f.Done != nil {
		f.Done()
	}
	if f.Unconfirmed {
		var err error
		if answer, err = unconfirmed(message, answer); err != nil {
			return err
		}
	}
	_, err := from.Write(answer)
	return err
}

func (p *Proxy) dial() (net.Conn, error) {
	c, err := net.Dial("tcp", p.target)
	if err == nil {
		p.track(c, true)
	}
	return c, err
}

// meet says what becomes of a message; what is held and due is done first.
func (p *Proxy) meet(message []byte) (is fate) {
	command, collection := commandOf(message)
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(aside, command) {
		return is
	}
	if p.held != nil {
		if p.held.after--; p.held.after == 0 {
			p.release()
		}
	}
	if !slices.Contains(writing, command) {
		return is
	}
	p.writes = append(p.writes, collection)
	if is.before = p.turns[collection]; is.before != nil {
		close(is.before.come)
		delete(p.turns, collection)
	}
	for i, f := range p.faults {
		if !f.of(collection) {
			continue
		}
		if f.nth--; f.nth == 0 {
			p.faults = slices.Delete(p.faults, i, i+1)
			if is.Fault = f.Fault; is.UntilNext {
				is.own = &turn{come: make(chan struct{}), done: make(chan struct{})}
				p.turns[collection] = is.own
			}
			return is
		}
	}
	return is
}

// come lets writes that wait for a next one wait no longer.
func (p *Proxy) come() {
	for _, t := range p.turns {
		close(t.come)
	}
	clear(p.turns)
}

func (p *Proxy) hold(h *held) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = h
}

// release does what is held, by a connection of its own.
func (p *Proxy) release() {
	if p.held == nil {
		return
	}
	c, err := net.Dial("tcp", p.target)
	if err == nil {
		err = errors.Join(ask(c, io.Discard, p.held.message), c.Close())
	}
	p.held, p.err = nil, errors.Join(p.err, err)
}

// Bounds of messages (MongoDB's are 48 MB), and what of them the proxy knows.
const (
	headerSize = 16
	maxMessage = 64 << 20
	opMessage  = 2013
	moreToCome = 2
)

// read takes one message, its header with it.
func read(from io.Reader) ([]byte, error) {
	header := make([]byte, headerSize)
	if _, err := io.ReadFull(from, header); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(header)
	if n < headerSize || n > maxMessage {
		return nil, fmt.Errorf("a message of %d bytes", n)
	}
	message := append(header, make([]byte, n-headerSize)...)
	_, err := io.ReadFull(from, message[headerSize:])
	return message, err
}

// ask sends a message and copies the answer, or as many as the database announces.
func ask(to io.ReadWriter, from io.Writer, message []byte) error {
	if _, err := to.Write(message); err != nil {
		return err
	}
	for {
		answer, err := read(to)
		if err != nil {
			return err
		}
		if _, err := from.Write(answer); err != nil {
			return err
		}
		if opcode(answer) != opMessage || flags(answer)&moreToCome == 0 {
			return nil
		}
	}
}

func opcode(message []byte) uint32 { return binary.LittleEndian.Uint32(message[12:]) }

func flags(message []byte) uint32 { return binary.LittleEndian.Uint32(message[headerSize:]) }

// commandOf is the name of a message's command and its collection; "" of what is none.
func commandOf(message []byte) (command, collection string) {
	if opcode(message) != opMessage {
		return aside[0], ""
	}
	element, err := bodyOf(message).IndexErr(0)
	if err != nil {
		return "", ""
	}
	collection, _ = element.Value().StringValueOK()
	return element.Key(), collection
}

// bodyOf is the document of a message that says what to do; nil for none.
func bodyOf(message []byte) bson.Raw {
	if opcode(message) != opMessage {
		return nil
	}
	for sections := message[headerSize+4:]; len(sections) > 4; {
		kind, rest := sections[0], sections[1:]
		n := int(binary.LittleEndian.Uint32(rest))
		if n > len(rest) {
			return nil
		}
		if kind != 0 {
			sections = rest[n:]
			continue
		}
		body, err := bson.ReadDocument(bytes.NewReader(rest[:n]))
		if err != nil {
			return nil
		}
		return body
	}
	return nil
}

// Codes of MongoDB's for what has taken too long, and for what it does not take in a command.
const (
	maxTimeExpired = 50
	badValue       = 2
)

// tooLong is the answer to a message whose command has taken too long.
func tooLong(message []byte) []byte {
	return failure(message, maxTimeExpired, "MaxTimeMSExpired", "operation exceeded time limit")
}

// failure is the answer to a message whose command failed.
func failure(message []byte, code int32, name, text string) []byte {
	answer, err := answerTo(message, bson.D{
		{Key: "ok", Value: 0.0}, {Key: "code", Value: code}, {Key: "codeName", Value: name}, {Key: "errmsg", Value: text},
	})
	if err != nil {
		panic(err) // of texts and numbers
	}
	return answer
}

// writeConcernFailed is MongoDB's code for a write that has no majority in time.
const writeConcernFailed = 64

// unconfirmed is an answer to a message that says that no majority has the write, too.
func unconfirmed(message, answer []byte) ([]byte, error) {
	var body bson.D
	if err := bson.Unmarshal(bodyOf(answer), &body); err != nil {
		return nil, err
	}
	return answerTo(message, append(body, bson.E{Key: "writeConcernError", Value: bson.D{
		{Key: "code", Value: int32(writeConcernFailed)}, {Key: "codeName", Value: "WriteConcernFailed"}, {Key: "errmsg", Value: "waiting for replication timed out"},
	}}))
}

func answerTo(message []byte, document bson.D) ([]byte, error) {
	body, err := bson.Marshal(document)
	if err != nil {
		return nil, err
	}
	answer := make([]byte, headerSize+5, headerSize+5+len(body))
	binary.LittleEndian.PutUint32(answer, uint32(cap(answer)))                         //nolint:gosec // some hundred bytes
	binary.LittleEndian.PutUint32(answer[8:], binary.LittleEndian.Uint32(message[4:])) // the request that it answers
	binary.LittleEndian.PutUint32(answer[12:], opMessage)
	return append(answer, body...), nil
}
