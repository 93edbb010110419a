package ferret

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/pause"
)

// front stands between the clients and FerretDB, passes messages on as they are
// and makes up for three things:
//
//   - FerretDB reads what an update's filter selects and then writes by _id, so
//     that of two compare-and-set updates at a time both succeed. The front lets
//     through one update, delete or findAndModify at a time.
//   - Looking up an _id reads the whole collection: see indexes. So does looking
//     for an _id and something else, or for several: see narrowWrite.
//   - An update with many statements holds a database connection for each until
//     it is done; from about a hundred on it waits for ever, and everybody with
//     it. The front refuses such a command.
//
// What it reads and writes on the way it remembers, so that FerretDB is asked less: see documents.
//
// (It also answers endSessions, which FerretDB does not know and would log at
// every client that leaves.)
//
// A connection of a client has a connection to FerretDB of its own, and a
// message is answered before the next is read.
type front struct {
	listener  net.Listener
	backend   string // FerretDB's address
	indexes   *indexes
	lookups   *lookups
	documents *documents
	beside    []string // members that are numbers, see Config
	log       *slog.Logger

	write sync.Mutex // held by the one command that changes documents

	ctx     context.Context // ends when the front stops
	cancel  context.CancelFunc
	clients sync.WaitGroup
}

// keepBuffer is how large a buffer a connection keeps between messages.
const keepBuffer = 1 << 20

// slow is from when on a command is told of that took so long: what holds up everybody is found by it.
const slow = time.Second

// maxUpdates is how many statements an update may have. FerretDB has a hundred
// connections for all clients.
const maxUpdates = 50

func newFront(l net.Listener, backend string, x *indexes, ids *lookups, beside []string, log *slog.Logger) *front {
	f := &front{listener: l, backend: backend, indexes: x, lookups: ids, documents: newDocuments(), beside: beside, log: log}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.clients.Go(f.accept)
	return f
}

func (f *front) accept() {
	for {
		client, err := f.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			f.log.Warn("accept MongoDB client", "error", err)
			_ = pause.For(f.ctx, 100*time.Millisecond) // out of file descriptors, say
			continue
		}
		f.clients.Go(func() {
			if err := f.serve(client); err != nil {
				f.log.Warn("serve MongoDB client", "client", client.RemoteAddr(), "error", err)
			}
		})
	}
}

// serve passes on messages until the client leaves or the front stops.
func (f *front) serve(client net.Conn) error {
	defer client.Close()
	backend, err := (&net.Dialer{}).DialContext(f.ctx, "tcp", f.backend)
	if err != nil {
		return err
	}
	defer backend.Close()
	// On stop the wait for a next message ends; an answer still goes out.
	stop := context.AfterFunc(f.ctx, func() { _ = client.SetReadDeadline(time.Now()) })
	defer stop()

	var request, reply []byte
	for {
		if cap(request) > keepBuffer || cap(reply) > keepBuffer {
			request, reply = nil, nil
		}
		if request, err = readMessage(client, request); err != nil {
			return nil // gone, or we are stopping
		}
		c, err := parseCommand(request)
		if err != nil {
			return err
		}
		if reply, err = f.do(backend, c, request, reply); err != nil {
			return err
		}
		if c.unanswered {
			continue
		}
		if _, err := client.Write(reply); err != nil {
			return nil // gone
		}
	}
}

// do gets the answer to one message, into buf when it fits.
func (f *front) do(backend net.Conn, c command, request, buf []byte) ([]byte, error) {
	began := time.Now()
	turn := began // when nobody was before it any more
	defer func() {
		if took := time.Since(began); took >= slow {
			f.log.Info("slow MongoDB command", "command", c.name, "collection", c.collection, "took", took, "waited", turn.Sub(began))
		}
	}()
	var find findWanted
	var known bool
	switch c.name {
	case "endSessions":
		return answer(request, bson.D{{Key: "ok", Value: 1.0}})
	case "update", "delete", "findAndModify", "findandmodify":
		if c.updates > maxUpdates {
			return answer(request, tooManyUpdates(c.updates))
		}
		f.write.Lock()
		defer f.write.Unlock()
		turn = time.Now()
		narrowed, err := f.narrowWrite(backend, c, request)
		if err != nil || narrowed.reply != nil {
			return narrowed.reply, err
		}
		request = narrowed.request
	case "find":
		if find, known = wantedOf(request); known {
			if reply, err := f.narrowFind(backend, c, find, request); err != nil || reply != nil {
				return reply, err
			}
		}
	}
	if !changesNothing[c.name] {
		return f.change(backend, c, request, buf)
	}
	id, _ := conditionsOf(find.filter)
	reading := f.documents.read(c.key(), id)
	reply, err := f.pass(backend, c, request, buf)
	if known && err == nil {
		f.remember(find, reading, reply)
	}
	return reply, err
}

// pass has FerretDB answer.
func (f *front) pass(backend net.Conn, c command, request, buf []byte) ([]byte, error) {
	if _, err := backend.Write(request); err != nil {
		return nil, err
	}
	reply, err := readMessage(backend, buf)
	if err != nil {
		return nil, err
	}
	f.index(c)
	return reply, nil
}

// change passes on what may change documents, and sees to it that what is remembered is what is stored. A change without an answer
// may still come: what it is about is never remembered again.
func (f *front) change(backend net.Conn, c command, request, buf []byte) ([]byte, error) {
	e := effectOf(c, request)
	writing := f.documents.write(c.key(), e)
	reply, err := f.pass(backend, c, request, buf)
	if err != nil {
		return nil, err
	}
	writing.end(e.became(reply))
	return reply, nil
}

func tooManyUpdates(n int) bson.D {
	return bson.D{
		{Key: "ok", Value: 0.0},
		{Key: "errmsg", Value: fmt.Sprintf("%d updates in one command are too many for the local database: the limit is %d", n, maxUpdates)},
		{Key: "code", Value: int32(2)},
		{Key: "codeName", Value: "BadValue"},
	}
}

// index sees to the indexes of what a command may have made or dropped. Without
// one everything works, slowly.
func (f *front) index(c command) {
	switch c.name {
	case "insert", "update", "findAndModify", "findandmodify", "create", "createIndexes":
		if err := f.indexes.ensure(context.WithoutCancel(f.ctx), c.database, c.collection); err != nil {
			f.log.Warn("index MongoDB collection", "error", err)
		}
	case "drop", "dropDatabase", "renameCollection":
		f.indexes.forget()
		if err := f.lookups.forget(); err != nil {
			f.log.Warn("close MongoDB files", "error", err)
		}
	}
}

// stop lets nobody in, answers what has been asked and ends all connections, or
// gives up after d.
func (f *front) stop(d time.Duration) error {
	err := f.listener.Close()
	f.cancel()
	done := make(chan struct{})
	go func() {
		f.clients.Wait()
		close(done)
	}()
	select {
	case <-done:
		return errors.Join(err, f.lookups.forget())
	case <-time.After(d):
		return errors.Join(err, fmt.Errorf("requests were still running after %v", d))
	}
}
