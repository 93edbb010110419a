package service

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/status"
)

// tablesExtent is what a stream of tables, or of objects with their status, has to know of a group.
type tablesExtent struct {
	objects                          bool
	apps, kinds, resources, selected string // the members of a combined.Filter, joined, so that extents can be compared
}

// between are names that are joined; no name has it.
const between = "\x00"

// filter is that of the extent.
func (e tablesExtent) filter() combined.Filter {
	names := func(joined string) []string {
		if joined == "" {
			return nil
		}
		return strings.Split(joined, between)
	}
	return combined.Filter{Apps: names(e.apps), Kinds: names(e.kinds), Resources: names(e.resources), Collectors: names(e.selected)}
}

// tablesQuestion is what a subscriber to such a stream asks. It is the whole of its extent: tables are kept only of what
// somebody asks for.
type tablesQuestion struct{ tablesExtent }

// CombinedStatusQuestion is the query of CombinedStatus as a stream. Invalid for a parameter.
func CombinedStatusQuestion(parameters url.Values) (notify.Question, error) {
	return questionOf(false, parameters)
}

// ObjectsQuestion is the query of Objects as a stream. Invalid for a parameter.
func ObjectsQuestion(parameters url.Values) (notify.Question, error) {
	return questionOf(true, parameters)
}

func questionOf(objects bool, parameters url.Values) (notify.Question, error) {
	f, err := ParseFilter(parameters)
	if err != nil {
		return nil, err
	}
	return tablesQuestion{extentOf(objects, f)}, nil
}

func extentOf(objects bool, f combined.Filter) tablesExtent {
	joined := func(names []string) string {
		return strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), between)
	}
	return tablesExtent{objects, joined(f.Apps), joined(f.Kinds), joined(f.Resources), joined(f.Collectors)}
}

// ID implements notify.Question: an extent has one question.
func (tablesQuestion) ID() string { return "tables" }

// Extent implements notify.Question.
func (q tablesQuestion) Extent() notify.Extent { return q.tablesExtent }

// Answer implements notify.Question.
func (q tablesQuestion) Answer(_ context.Context, s notify.Snapshot, before notify.Answer) (notify.Answer, error) {
	was, _ := before.(*tablesAnswer)
	now := s.(*tablesAnswer)
	if now == was {
		return nil, nil
	}
	return now, nil
}

// tablesAnswer is a list of items, encoded.
type tablesAnswer struct {
	head  string // of the document, up to its items
	items []tablesItem
	old   bool // it is not what the tables say any more
	// unread are the keys of intents and labels that cannot be read, and that the tables go without.
	unread []string
	bytes  int64 // of its items

	mu      sync.Mutex
	senders map[string]int // the documents that are to be written, by caller; guarded by the mutex
	room    *part          // of them all, nil for none; guarded by the mutex
}

// mostTables and mostJSON are limits.Tables and limits.TablesJSON but in tests.
var mostTables, mostJSON int64 = limits.Tables, limits.TablesJSON

// add adds an item, where room has room for what the answer takes then: Invalid where that is too much for one answer, and the errors of room.
func (a *tablesAnswer) add(group domain.Key, i tablesItem, room func(bytes int64) error) error {
	a.items = append(a.items, i)
	a.bytes += int64(len(i.data))
	if a.bytes > mostJSON {
		return fail.New(fail.Invalid, "the answer about %s would have more than %d MiB; ask for fewer objects, by app, kind or resource, or by the tests of a query, or for fewer collectors",
			domain.NameOwner(group), limits.TablesJSON>>20)
	}
	return room(a.size())
}

// stale is an answer of which something has changed; those who have the one that it was keep it.
func (a *tablesAnswer) stale() *tablesAnswer {
	if a == nil {
		return nil
	}
	return &tablesAnswer{head: a.head, items: a.items, old: true, unread: a.unread, bytes: a.bytes}
}

type tablesItem struct {
	name string
	of   *combined.CombinedStatus // what it was encoded from, nil for an object
	data []byte
}

// Document implements notify.Answer: the list, as the plain query has it.
func (a *tablesAnswer) Document() []byte {
	return slices.Concat(a.document().parts...)
}

func (a *tablesAnswer) document() *TablesDocument {
	d := &TablesDocument{parts: make([][]byte, 0, 2*len(a.items)+2)}
	for i := range a.items {
		if i > 0 {
			d.parts = append(d.parts, []byte(","))
		}
		d.parts = append(d.parts, a.items[i].data)
	}
	d.parts = append(slices.Insert(d.parts, 0, []byte(a.head)), []byte("]}"))
	return d
}

// Size implements notify.Answer: the look counts it.
func (a *tablesAnswer) Size() int64 { return 0 }

// encodedTwice is how many times its JSON an answer takes in memory: what it was encoded from is kept with it.
const encodedTwice = 2

// size is what the answer takes in memory, about; nil for none.
func (a *tablesAnswer) size() int64 {
	if a == nil {
		return 0
	}
	return encodedTwice * a.bytes
}

// send is the document for who asks once. All such documents of an answer have room for it together, until the last of them is written. Who is first takes
// it as theirs, and the errors are those of answers.begin and part.hold.
func (a *tablesAnswer) send(ctx context.Context, of *answers) (*TablesDocument, error) {
	by, err := caller.IdentityOf(ctx)
	if err != nil {
		return nil, err
	}
	who := by.String()
	d, err := orInTurn(of, func(begin beginPart) (*TablesDocument, error) {
		if d := a.documentWith(who, nil); d != nil {
			return d, nil
		}
		p, err := begin.room(ctx, a.size()) // without the mutex: it may wait for others of this caller, which others do not wait for
		if err != nil {
			return nil, err
		}
		return a.documentWith(who, p), nil
	})
	if fail.Is(err, fail.Exhausted) {
		if d := a.documentWith(who, nil); d != nil { // somebody had room while this one waited
			return d, nil
		}
	}
	return d, err
}

// documentWith is a document for a caller, with the room that others have for theirs, or else with a part that has it: nil where there is neither. The part is
// the answer's from then on.
func (a *tablesAnswer) documentWith(who string, p *part) *TablesDocument {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case len(a.senders) > 0 && p != nil: // somebody had room a moment before
		p.end()
	case len(a.senders) > 0:
	case p == nil:
		return nil
	default:
		a.room, a.senders = p, map[string]int{}
	}
	a.senders[who]++
	d := a.document()
	d.sent = sync.OnceFunc(func() { a.sent(who) })
	runtime.AddCleanup(d, func(sent func()) { sent() }, d.sent) // of one that nobody writes
	return d
}

// sent is when a document of a caller is written. The room for those of others is one of theirs then, where one of them has so much.
func (a *tablesAnswer) sent(who string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.senders[who]--; a.senders[who] == 0 {
		delete(a.senders, who)
	}
	switch {
	case len(a.senders) == 0:
		a.room.end()
		a.room = nil
	case a.senders[a.room.mine.who] == 0:
		for other := range a.senders {
			if a.room.move(other) {
				return
			}
		}
	}
}

// TablesDocument is an answer in JSON, which may be kept for others: a combined.List or a combined.ObjectList.
type TablesDocument struct {
	parts [][]byte
	sent  func() // gives its room back; nil where it has none
}

// Size is how many bytes it has.
func (d *TablesDocument) Size() (n int) {
	for _, p := range d.parts {
		n += len(p)
	}
	return n
}

// WriteTo implements io.WriterTo. It is called once: the document has no room any more when it is written.
func (d *TablesDocument) WriteTo(w io.Writer) (n int64, err error) {
	if d.sent != nil {
		defer d.sent()
	}
	for _, p := range d.parts {
		written, err := w.Write(p)
		if n += int64(written); err != nil {
			return n, err
		}
	}
	return n, nil
}

// tablesChange is what has changed of a list.
type tablesChange struct {
	Items   []json.RawMessage `json:"items,omitempty"`   // those that are new or say something else, whole
	Removed []string          `json:"removed,omitempty"` // the names of those that are gone
}

// Since implements notify.Answer.
func (a *tablesAnswer) Since(before notify.Answer) ([]byte, error) {
	was := map[string][]byte{}
	for _, i := range before.(*tablesAnswer).items {
		was[i.name] = i.data
	}
	var c tablesChange
	for _, i := range a.items {
		if old, known := was[i.name]; !known || !bytes.Equal(old, i.data) {
			c.Items = append(c.Items, i.data)
		}
		delete(was, i.name)
	}
	c.Removed = slices.Sorted(maps.Keys(was))
	if len(c.Items)+len(c.Removed) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "a change of tables cannot be encoded")
	}
	return data, nil
}

// Look looks at the tables of a group, as CombinedStatusQuestion and ObjectsQuestion ask for them; false for an extent of
// others.
func (t *Tables) Look(group domain.Key, e notify.Extent) (notify.Look, bool) {
	extent, ok := e.(tablesExtent)
	if !ok {
		return nil, false
	}
	k := t.kept(keptKey{group, extent})
	k.streams.Add(1)
	return &tablesLook{kept: k}, true
}

// tablesLook has the tables of a group kept as long as somebody reads them in a stream.
type tablesLook struct {
	*kept
	now signed // what Sign has seen last
}

// signed is what tables depend on, as cheap as it can be had.
type signed struct {
	label    string // under which clusters report
	observed string // the version of what they say
	rest     string // a digest of all else
}

// Sign implements notify.Look.
func (k *tablesLook) Sign(ctx context.Context) (string, error) {
	l := k.tables.lifecycle
	s, err := l.signOf(ctx, k.key.group, status.Extent{Reported: true, Output: status.OutputAll})
	if err != nil {
		return "", err
	}
	k.now = signed{observed: s.Observed}
	if s.Instance != nil {
		k.now.label = s.Instance.LabelID()
	}
	s.Observed = ""
	asked, err := k.asked(ctx)
	if err != nil {
		return "", err
	}
	labels, err := k.tables.labelsVersions(ctx, s.Instance)
	if err != nil {
		return "", err
	}
	if k.now.rest, err = digestOf([]any{s, asked, labels}); err != nil {
		return "", err
	}
	return k.now.rest + k.now.observed + strconv.FormatInt(k.caught.Load(), 10), nil
}

// revision is that of a document that tables depend on.
type revision struct {
	Key      domain.Key
	Made     time.Time
	Revision int64
}

// asked is which intents there are, and which collectors they name. Those that cannot be read are what they are until they can.
func (k *kept) asked(ctx context.Context) (documents []revision, err error) {
	store := k.tables.lifecycle.store
	intents, err := store.List(ctx, domain.StatusIntents, k.key.group)
	unread, err := domain.UnreadableOf(err)
	if err != nil {
		return nil, err
	}
	for _, key := range unread {
		documents = append(documents, revision{Key: domain.Key(key)})
	}
	collectors := map[string]bool{}
	for _, o := range intents {
		documents = append(documents, revision{domain.KeyOf(o), o.Base().Made, o.Base().Revision})
		for _, name := range o.(*domain.StatusIntent).Spec.StatusCollectors {
			collectors[name] = true
		}
	}
	if k.key.extent.objects {
		return documents, nil
	}
	for _, name := range slices.Sorted(maps.Keys(collectors)) {
		noun, key := domain.CollectorNamed(k.key.group, name)
		o, err := store.Get(ctx, noun, key)
		switch {
		case fail.Is(err, fail.NotFound):
		case cannotBeRead(err):
			documents = append(documents, revision{Key: key})
		case err != nil:
			return nil, err
		default:
			documents = append(documents, revision{key, o.Base().Made, o.Base().Revision})
		}
	}
	return documents, nil
}

// Snapshot implements notify.Look.
func (k *tablesLook) Snapshot(ctx context.Context) (notify.Snapshot, error) {
	return k.follow(ctx, k.now)
}

// Reported implements notify.Look.
func (k *tablesLook) Reported() bool { return true }

// Size implements notify.Look.
func (k *tablesLook) Size() int64 { return k.tables.keeper.sizeOf(k.kept) }

// Close implements notify.Look.
func (k *tablesLook) Close() {
	k.streams.Add(-1)
	k.tables.keeper.release(k.kept)
}
