package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/secret"
)

// ledgers keep the many small things of each tenant: values by id, which change all the time (decision 0031).
//
// What changes at the same time is one entry. Entries are numbered without gaps and only ever inserted, so the key of the next
// one is the compare-and-set: of two writers who know the same entries, one inserts it, and the other has to look again. So
// an entry is stored as a whole or not at all, costs an insert, and is found by its _id. Now and then one has all values
// (whole), and those before it go. Who knows the entries up to one asks for the next one, and knows that there is none.
type ledgers struct {
	store *Store
	name  string // of the collections
	adds  *gatherer[ledgerAdd]

	mu    sync.Mutex
	bytes int64 // of books, as counted last
	books *simplelru.LRU[string, *book]
}

// The two kinds of ledgers.
const (
	workloadsName = "workloads"
	matchesName   = "matches"
)

// book is what this process knows of a tenant's ledger. It may be behind, never ahead.
type book struct {
	turn    chan struct{} // who has it may use known
	counted int64         // of bytes, in ledgers.bytes, and guarded as they are
	known
}

type known struct {
	loaded bool
	seq    int64 // of the last entry known, 0 for none
	begun  int64 // the entry that began the last stream, 0 for none
	values map[string][]byte
	bytes  int64 // of values and their ids

	whole        int64 // bytes of the last whole entry, as stored
	later, since int64 // entries after it, and their bytes as stored
}

// entry is the document of one.
type entry struct {
	ID     string `bson:"_id"`             // entryID
	By     string `bson:"by"`              // who wrote it; another one for each
	Begun  int64  `bson:"begun,omitempty"` // the entry that began the last stream; who wrote in one before has no say any more
	Whole  bool   `bson:"whole,omitempty"` // it has all values, not changes
	Key    string `bson:"key"`             // the name of the key that opens its data
	Data   []byte `bson:"data"`            // changes, compressed and sealed; or in so many chunks
	Chunks int    `bson:"chunks,omitempty"`
}

// ledgerHead is the last whole entry: those before it may be missing. It is written before they go, and never goes back.
type ledgerHead struct {
	Tenant string `bson:"_id"`
	Whole  int64  `bson:"whole"`
}

type ledgerChunk struct {
	ID   string `bson:"_id"` // below that of the entry
	Data []byte `bson:"data"`
}

type ledgerAdd struct {
	to  *mongo.Collection
	doc entry
}

// put is a new value of an id; nil removes it.
type put struct {
	id    string
	value []byte
}

// When a whole entry is written (known.crowded): when those after the last one have more bytes than that and wholeFrom; when they are wholeAfter
// and have a part of its bytes; or when they are wholeMost, however little they have: they are read one by one by who knows those before. A
// tenant may have 64 MiB, and change a byte at a time.
const (
	wholeAfter = 128
	wholePart  = 16
	wholeMost  = 1024
	wholeFrom  = 64 << 10
)

// bookBytes bounds the values that a process keeps of each kind of ledger; what was used longest ago is read again.
const bookBytes = 256 << 20

// leastBook is what a book is counted as beside its values: those of many tenants that have none, or are not there, take memory, too.
const leastBook = 1 << 10

func newLedgers(s *Store, name string) *ledgers {
	l := &ledgers{store: s, name: name}
	l.adds = newLastingGatherer(s.addEntries)
	// The number is positive, which is all that it can fail for.
	l.books, _ = simplelru.NewLRU(math.MaxInt32, func(_ string, b *book) { l.bytes -= b.counted; b.counted = 0 })
	return l
}

func entryID(tenant string, seq int64) string { return fmt.Sprintf("%s/%016d", tenant, seq) }

// seqOf is the number of an entry's document; false for one of a chunk.
func seqOf(id string) (int64, bool) {
	_, number, _ := strings.Cut(id, "/")
	seq, err := strconv.ParseInt(number, 10, 64)
	return seq, err == nil
}

func (l *ledgers) collection(tenant string) *mongo.Collection {
	return l.store.partition(l.name, tenant)
}

// place is what the data of an entry are bound to.
func (l *ledgers) place(e *entry) string {
	return fmt.Sprintf("%s/%s/%s/%d/%t", l.name, e.ID, e.By, e.Begun, e.Whole)
}

// enter takes the tenant's book, which leave gives back.
func (l *ledgers) enter(ctx context.Context, tenant string) (b *book, leave func(), err error) {
	l.mu.Lock()
	b, ok := l.books.Get(tenant)
	if !ok {
		b = &book{turn: make(chan struct{}, 1), known: known{values: map[string][]byte{}}}
		l.books.Add(tenant, b)
	}
	l.mu.Unlock()
	select {
	case b.turn <- struct{}{}:
		return b, func() { l.count(tenant, b); <-b.turn }, nil
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

// count keeps within bookBytes.
func (l *ledgers) count(tenant string, b *book) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kept, ok := l.books.Peek(tenant); !ok || kept != b {
		return
	}
	bytes := leastBook + b.bytes
	l.bytes += bytes - b.counted
	b.counted = bytes
	for l.bytes > bookBytes && l.books.Len() > 1 {
		l.books.RemoveOldest()
	}
}

// read calls see with what is stored.
func (l *ledgers) read(ctx context.Context, tenant string, see func(*book)) error {
	b, leave, err := l.enter(ctx, tenant)
	if err != nil {
		return err
	}
	defer leave()
	if _, err := l.advance(ctx, tenant, b); err != nil {
		return err
	}
	see(b)
	return nil
}

// known is read of what this process knows, which may be less than what is stored.
func (l *ledgers) known(ctx context.Context, tenant string, see func(*book)) error {
	b, leave, err := l.enter(ctx, tenant)
	if err != nil {
		return err
	}
	defer leave()
	if !b.loaded {
		if err := l.load(ctx, tenant, b); err != nil {
			return err
		}
	}
	see(b)
	return nil
}

// edit is what an entry is to say.
type edit struct {
	puts   []put
	begins bool // a stream begins with the entry
	whole  bool // puts are all values
}

func (e edit) empty() bool { return len(e.puts) == 0 && !e.begins && !e.whole }

// change writes what decide says, as one entry. Decide is called again when others have written meanwhile. What it finds
// wrong, and that there is nothing to write, counts only by what is stored.
func (l *ledgers) change(ctx context.Context, tenant string, decide func(*book) (edit, error)) error {
	b, leave, err := l.enter(ctx, tenant)
	if err != nil {
		return err
	}
	defer leave()
	fresh := !b.loaded
	if fresh {
		if _, err := l.advance(ctx, tenant, b); err != nil {
			return err
		}
	}
	behind := false
	return cas.Do(ctx, func() error {
		// Read after the wait: what was read before it is old by now, where others write as fast as they can.
		if behind {
			if _, err := l.advance(ctx, tenant, b); err != nil {
				return err
			}
			fresh = true
		}
		change, err := decide(b)
		if !fresh && (err != nil || change.empty()) {
			fresh = true
			moved, lookErr := l.advance(ctx, tenant, b)
			if lookErr != nil {
				return lookErr
			}
			if moved {
				change, err = decide(b)
			}
		}
		if err != nil || change.empty() {
			return err
		}
		err = l.add(ctx, tenant, b, change)
		behind = errors.Is(err, cas.ErrOvertaken)
		return err
	})
}

// add inserts the next entry; cas.ErrOvertaken when there is one. What the caller does not wait for any more is written all the
// same: nobody would know.
func (l *ledgers) add(ctx context.Context, tenant string, b *book, change edit) error {
	ctx = context.WithoutCancel(ctx)
	e := entry{ID: entryID(tenant, b.seq+1), By: bson.NewObjectID().Hex(), Begun: b.begun, Whole: change.whole}
	if change.begins {
		e.Begun = b.seq + 1
	}
	data, err := l.store.keys.SealBytes(l.place(&e), encoder.EncodeAll(encodePuts(change.puts), nil))
	if err != nil {
		return err
	}
	e.Key, _ = secret.KeyOf(data)
	size := int64(len(data))
	if len(data) > limits.Chunk {
		for part := range slices.Chunk(data, limits.Chunk) {
			c := ledgerChunk{ID: fmt.Sprintf("%s/%s/%03d", e.ID, e.By, e.Chunks), Data: part}
			if _, err := l.store.insertOnce(ctx, l.collection(tenant), c); err != nil {
				return err
			}
			e.Chunks++
		}
		data = nil
	}
	e.Data = data
	err = l.adds.do(ctx, ledgerAdd{l.collection(tenant), e})
	if errors.Is(err, errTaken) {
		return cas.ErrOvertaken
	}
	if err != nil {
		return err
	}
	b.apply(&e, change.puts, size)
	if !change.whole && b.crowded() {
		_ = l.rewrite(ctx, tenant, b) // what fails is done with a later one
	}
	return nil
}

// rewrite writes an entry with all values and removes those before it. Errors are those of add; that those before it stay for a time is none.
func (l *ledgers) rewrite(ctx context.Context, tenant string, b *book) error {
	puts := make([]put, 0, len(b.values))
	for _, id := range slices.Sorted(maps.Keys(b.values)) {
		puts = append(puts, put{id, b.values[id]})
	}
	if err := l.add(ctx, tenant, b, edit{puts: puts, whole: true}); err != nil {
		return err
	}
	l.trim(ctx, tenant, b.seq)
	return nil
}

// trim removes what was before a whole entry.
func (l *ledgers) trim(ctx context.Context, tenant string, whole int64) {
	if err := l.moveHead(ctx, ledgerHead{tenant, whole}); err != nil {
		return
	}
	before := byID(bson.D{{Key: "$gt", Value: tenant + "/"}, {Key: "$lt", Value: entryID(tenant, whole)}})
	_ = l.store.deleteRange(ctx, l.collection(tenant), before) // the next one does it
}

// moveHead stores a head, unless there is a later one: a process may have slept since it wrote the whole entry, or its write may be carried out
// late, when others have removed what came after that. A head that went back would say that those numbers are free.
func (l *ledgers) moveHead(ctx context.Context, to ledgerHead) error {
	moved, err := l.replaceHead(ctx, to)
	if err != nil || moved {
		return err
	}
	inserted, err := l.store.insertOnce(ctx, l.collection(to.Tenant), to)
	if err != nil || inserted {
		return err
	}
	_, err = l.replaceHead(ctx, to) // the one that is there may be an earlier one that was the first in this moment
	return err
}

// replaceHead puts a head in place of an earlier one; false when there is none.
func (l *ledgers) replaceHead(ctx context.Context, to ledgerHead) (bool, error) {
	earlier := append(byID(to.Tenant), bson.E{Key: "whole", Value: bson.D{{Key: "$lt", Value: to.Whole}}})
	return l.store.replaceIf(ctx, l.collection(to.Tenant), earlier, to)
}

// clear removes all values, and ends the stream there is, when may says so of what is there at the moment of the write. It says whether there is
// nothing now. The numbers go on: who knows earlier entries finds this one.
func (l *ledgers) clear(ctx context.Context, tenant string, may func(*book) (bool, error)) (cleared bool, err error) {
	b, leave, err := l.enter(ctx, tenant)
	if err != nil {
		return false, err
	}
	defer leave()
	err = cas.Do(ctx, func() error {
		if _, err := l.advance(ctx, tenant, b); err != nil {
			return err
		}
		if cleared, err = may(b); err != nil || !cleared || b.seq == 0 {
			return err
		}
		err := l.add(ctx, tenant, b, edit{begins: true, whole: true})
		if err == nil {
			l.trim(ctx, tenant, b.seq)
		}
		return err
	})
	return cleared && err == nil, err
}

// advance brings a book up to what is stored, and says whether that was more.
func (l *ledgers) advance(ctx context.Context, tenant string, b *book) (moved bool, err error) {
	if !b.loaded {
		return true, l.load(ctx, tenant, b)
	}
	for {
		var e entry
		err := l.store.findOne(ctx, l.collection(tenant), entryID(tenant, b.seq+1), &e)
		if fail.Is(err, fail.NotFound) {
			break
		}
		if err == nil {
			err = l.take(ctx, tenant, b, &e)
		}
		if fail.Is(err, fail.NotFound) { // its chunks: it went meanwhile
			return true, l.load(ctx, tenant, b)
		}
		if err != nil {
			return moved, err
		}
		moved = true
	}
	head, err := l.head(ctx, tenant)
	if err != nil {
		return moved, err
	}
	if head > b.seq { // the next one is gone
		return true, l.load(ctx, tenant, b)
	}
	return moved, nil
}

func (l *ledgers) head(ctx context.Context, tenant string) (int64, error) {
	var h ledgerHead
	err := l.store.findOne(ctx, l.collection(tenant), tenant, &h)
	if fail.Is(err, fail.NotFound) {
		return 0, nil
	}
	return h.Whole, err
}

// ledgerReads is how often a ledger is read again of which entries go while it is read.
const ledgerReads = 10

// load reads a ledger.
func (l *ledgers) load(ctx context.Context, tenant string, b *book) error {
	for range ledgerReads {
		head, err := l.head(ctx, tenant)
		if err != nil {
			return err
		}
		var entries []*entry
		err = each(ctx, l.store, l.collection(tenant), below(tenant), func() *entry { return &entry{} }, func(e *entry) {
			if _, ok := seqOf(e.ID); !ok {
				return
			}
			if e.Whole {
				entries = entries[:0]
			}
			entries = append(entries, e)
		})
		if err != nil {
			return err
		}
		if !unbroken(entries, head) {
			continue
		}
		b.reset()
		for _, e := range entries {
			if err = l.take(ctx, tenant, b, e); err != nil {
				break
			}
		}
		if fail.Is(err, fail.NotFound) {
			continue
		}
		b.loaded = err == nil
		return err
	}
	return fail.New(fail.Unavailable, "%s of tenant %q change too fast to be read; try again", l.name, tenant)
}

// unbroken says whether entries are all that there is: they begin with a whole one or the first, and have no gaps.
func unbroken(entries []*entry, head int64) bool {
	if len(entries) == 0 {
		return head == 0
	}
	first, _ := seqOf(entries[0].ID)
	if !entries[0].Whole && first != 1 || first < head {
		return false
	}
	for i, e := range entries {
		if seq, _ := seqOf(e.ID); seq != first+int64(i) {
			return false
		}
	}
	return true
}

// take reads an entry into a book.
func (l *ledgers) take(ctx context.Context, tenant string, b *book, e *entry) error {
	data := e.Data
	for i := range e.Chunks {
		var c ledgerChunk
		if err := l.store.findOne(ctx, l.collection(tenant), fmt.Sprintf("%s/%s/%03d", e.ID, e.By, i), &c); err != nil {
			return err
		}
		data = append(data, c.Data...)
	}
	packed, err := l.store.keys.OpenBytes(l.place(e), data)
	if err != nil {
		return unopened(fmt.Errorf("read entry %s of %s: %w", e.ID, l.name, err))
	}
	plain, err := decoder.DecodeAll(packed, nil)
	if err == nil {
		var puts []put
		if puts, err = decodePuts(plain); err == nil {
			b.apply(e, puts, int64(len(data)))
			return nil
		}
	}
	return unopened(fail.Wrap(err, fail.Internal, "entry %s of %s is damaged", e.ID, l.name))
}

// crowded says whether so much came after the last whole entry that another one is worth its bytes.
func (k *known) crowded() bool {
	return k.since > max(k.whole, wholeFrom) || k.later >= wholeMost || k.later >= wholeAfter && k.since >= k.whole/wholePart
}

func (b *book) reset() { b.known = known{values: map[string][]byte{}} }

// apply makes an entry part of the book.
func (b *book) apply(e *entry, puts []put, size int64) {
	b.seq, _ = seqOf(e.ID)
	b.begun = e.Begun
	b.later++
	b.since += size
	if e.Whole {
		b.values, b.bytes = make(map[string][]byte, len(puts)), 0
		b.whole, b.later, b.since = size, 0, 0
	}
	for _, p := range puts {
		if old, ok := b.values[p.id]; ok {
			b.bytes -= int64(len(p.id) + len(old))
			delete(b.values, p.id)
		}
		if p.value != nil {
			b.bytes += int64(len(p.id) + len(p.value))
			b.values[p.id] = p.value
		}
	}
}

// encodePuts writes each id and value with its length before it; that of a value is one more, 0 for none.
func encodePuts(puts []put) []byte {
	var data []byte
	for _, p := range puts {
		data = binary.AppendUvarint(data, uint64(len(p.id)))
		data = append(data, p.id...)
		if p.value == nil {
			data = append(data, 0)
			continue
		}
		data = binary.AppendUvarint(data, uint64(len(p.value))+1)
		data = append(data, p.value...)
	}
	return data
}

var errCutShort = errors.New("it ends too early")

// decodePuts is the opposite of encodePuts.
func decodePuts(data []byte) (puts []put, err error) {
	next := func(more uint64) (part []byte, none bool) {
		n, width := binary.Uvarint(data)
		if width <= 0 || n > uint64(len(data)-width)+more {
			err = errCutShort
			return nil, true
		}
		data = data[width:]
		if n < more {
			return nil, true
		}
		part, data = data[:n-more:n-more], data[n-more:]
		return part, false
	}
	for len(data) > 0 && err == nil {
		id, _ := next(0)
		value, none := next(1)
		if none {
			value = nil
		} else {
			value = slices.Clone(value) // what it lies in may be much larger
		}
		puts = append(puts, put{string(id), value})
	}
	return puts, err
}

// addEntries belongs to many callers, so that no caller's context bounds it.
func (s *Store) addEntries(adds []ledgerAdd) []error {
	outcomes := make([]error, len(adds))
	places := map[string][]int{}
	for i, a := range adds {
		places[a.to.Name()] = append(places[a.to.Name()], i)
	}
	for _, at := range places {
		docs := make([]entry, len(at))
		for i, place := range at {
			docs[i] = adds[place].doc
		}
		ctx, to := context.Background(), adds[at[0]].to // as leaves
		said := insertMany(ctx, s, to, docs)
		s.voided(ctx, to, docs, said)
		for i, err := range said {
			outcomes[at[i]] = err
		}
	}
	return outcomes
}

// voided makes errTaken of what was inserted where others had been and have gone: the number was free, and is no compare-and-set any more.
// An example is a process that slept while another one wrote so much that it began with a whole entry. Heads are written before entries go,
// so one that is read after the insert tells. Who reads the ledger finds the whole entry after such a one.
func (s *Store) voided(ctx context.Context, to *mongo.Collection, docs []entry, said []error) {
	var tenants []string
	for i := range docs {
		if said[i] == nil {
			tenant, _, _ := strings.Cut(docs[i].ID, "/")
			tenants = append(tenants, tenant)
		}
	}
	if len(tenants) == 0 {
		return
	}
	heads := map[string]int64{}
	err := each(ctx, s, to, byID(bson.D{{Key: "$in", Value: tenants}}), func() *ledgerHead { return &ledgerHead{} }, func(h *ledgerHead) { heads[h.Tenant] = h.Whole })
	for i := range docs {
		if said[i] != nil {
			continue
		}
		tenant, _, _ := strings.Cut(docs[i].ID, "/")
		switch seq, _ := seqOf(docs[i].ID); {
		case err != nil:
			said[i] = err
		case seq < heads[tenant]:
			said[i] = errTaken
		}
	}
}
