package ferret

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// FerretDB asks SQLite for a document by its _id when a filter has nothing else. With any other filter it reads the whole collection and
// decodes each document: a compare-and-set, whose filter is an _id and a revision, costs as much as there are documents, and so does
// whoever wants what is below a prefix. The front makes such commands ones by _id:
//
//   - A find of one _id is answered by what is remembered, if it is.
//   - An update or a delete of one _id with more conditions: the document is read by its _id, and the conditions are looked at here. No
//     other command that changes documents is let through meanwhile.
//   - A find of _ids between "prefix/" and "prefix0", or of some _ids: which there are is read from SQLite's index, and the documents one
//     by one, when they are few in comparison to all.
//   - A find by a member that is a text (Config.Texts), of one text, of some, or of others than some: likewise, from the member's index. It may say
//     that _id is to be a text, too.
//   - A find of everything: the _ids from SQLite's index, and the documents that are not remembered one by one.
//   - A find of those that have a text in a list (Config.Lists): SQLite says which documents have the text anywhere, and these are looked at here.
//   - A find of a range of _ids that are plain (Config.Plain): SQLite has these in order, and the documents are read one by one.
//   - A find below a prefix, of everything, or by a text, that wants nothing but ids, and numbers that an index has beside them (Config.Beside): the index has it all,
//     and no document is read.
//
// What it does not understand it passes on as it is.

// readsPerID is how many documents FerretDB reads of a whole collection in the time in which it finds one by its _id, and maxIDs how many are
// found one by one at the most.
const (
	readsPerID = 8
	maxIDs     = 200
)

// narrowed is what becomes of an update or a delete: a request that asks by _id alone, or the answer to it.
type narrowed struct{ request, reply []byte }

// narrowWrite narrows a command that changes documents. The write lock is held.
func (f *front) narrowWrite(backend net.Conn, c command, request []byte) (narrowed, error) {
	list := map[string]string{"update": "updates", "delete": "deletes"}[c.name]
	if list == "" {
		return narrowed{request: request}, nil
	}
	body, statement, ok := statementOf(request, list)
	if !ok {
		return narrowed{request: request}, nil
	}
	q, ok := statement.Lookup("q").DocumentOK()
	if !ok {
		return narrowed{request: request}, nil
	}
	id, conditions := conditionsOf(q)
	upsert, _ := statement.Lookup("upsert").BooleanOK()
	if len(conditions) == 0 || upsert {
		return narrowed{request: request}, nil
	}
	found, err := f.byIDs(backend, c, []bson.RawValue{id}, nil)
	if err != nil {
		return narrowed{}, err
	}
	for _, document := range found {
		switch fits, known := matches(document, conditions); {
		case !known:
			return narrowed{request: request}, nil
		case fits:
			request, err := rebuilt(request, body, list, statement, bson.D{{Key: "_id", Value: id}})
			return narrowed{request: request}, err
		}
	}
	none := bson.D{{Key: "n", Value: int32(0)}}
	if c.name == "update" {
		none = append(none, bson.E{Key: "nModified", Value: int32(0)})
	}
	reply, err := answer(request, append(none, bson.E{Key: "ok", Value: 1.0}))
	return narrowed{reply: reply}, err
}

// statementOf is the body of a command and its only statement; false when it has none or several.
func statementOf(request []byte, list string) (body, statement bson.Raw, ok bool) {
	body, statements, ok := statementsOf(request, list)
	if !ok || len(statements) != 1 {
		return nil, nil, false
	}
	return body, statements[0], true
}

// statementsOf are the body of a command and its statements, or documents; false for what cannot be read.
func statementsOf(request []byte, list string) (body bson.Raw, statements []bson.Raw, ok bool) {
	for rest := request[headerSize+4:]; len(rest) > 4; {
		size := int(binary.LittleEndian.Uint32(rest[1:]))
		section := rest[1 : 1+size]
		if rest[0] == 0 {
			body = bson.Raw(section)
		} else if name, documents, found := bytes.Cut(section[4:], []byte{0}); found && string(name) == list {
			for len(documents) > 4 {
				n := int(binary.LittleEndian.Uint32(documents))
				if n < 5 || n > len(documents) {
					return nil, nil, false
				}
				statements, documents = append(statements, bson.Raw(documents[:n])), documents[n:]
			}
		}
		rest = rest[1+size:]
	}
	if array, ok := body.Lookup(list).ArrayOK(); ok {
		values, err := array.Values()
		if err != nil {
			return nil, nil, false
		}
		for _, v := range values {
			if d, ok := v.DocumentOK(); ok {
				statements = append(statements, d)
			}
		}
	}
	return body, statements, true
}

// conditionsOf are the _id that a filter wants and what else it does; neither when it does not want one text or object id as _id.
func conditionsOf(filter bson.Raw) (id bson.RawValue, conditions []bson.RawElement) {
	elements, err := filter.Elements()
	if err != nil {
		return id, nil
	}
	for _, e := range elements {
		if e.Key() != "_id" {
			conditions = append(conditions, e)
			continue
		}
		if id = e.Value(); !isKeptBy(id) {
			return bson.RawValue{}, nil
		}
	}
	if id.Value == nil {
		return id, nil
	}
	return id, conditions
}

// matches says whether a document fits all conditions, as far as those are known here: equal, not there, less, and one of several. Of
// binary data only whether they are equal is known.
func matches(document bson.Raw, conditions []bson.RawElement) (fits, known bool) {
	fits = true
	for _, c := range conditions {
		var one bool
		if c.Key() == "$or" {
			one, known = matchesAny(document, c.Value())
		} else if is, plain := memberOf(document, c.Key()); plain {
			one, known = matchesOne(is, c)
		} else {
			known = false
		}
		if !known {
			return false, false
		}
		fits = fits && one
	}
	return fits, true
}

func matchesAny(document bson.Raw, alternatives bson.RawValue) (fits, known bool) {
	array, ok := alternatives.ArrayOK()
	if !ok {
		return false, false
	}
	values, err := array.Values()
	if err != nil {
		return false, false
	}
	for _, v := range values {
		alternative, ok := v.DocumentOK()
		if !ok {
			return false, false
		}
		elements, err := alternative.Elements()
		if err != nil {
			return false, false
		}
		one, known := matches(document, elements)
		if !known {
			return false, false
		}
		fits = fits || one
	}
	return fits, true
}

// memberOf is a member of a document, the zero value for one that is not there; false when it is in an array, or is one.
func memberOf(document bson.Raw, path string) (is bson.RawValue, plain bool) {
	if strings.HasPrefix(path, "$") {
		return is, false
	}
	steps := strings.Split(path, ".")
	for i, step := range steps {
		var err error
		if is, err = document.LookupErr(step); err != nil {
			return bson.RawValue{}, errors.Is(err, bsoncore.ErrElementNotFound)
		}
		if is.Type == bson.TypeArray {
			return is, false
		}
		if i == len(steps)-1 {
			break
		}
		if document, plain = is.DocumentOK(); !plain {
			return bson.RawValue{}, true
		}
	}
	return is, true
}

// matchesOne looks at one member, with the zero value for one that is not there.
func matchesOne(is bson.RawValue, c bson.RawElement) (fits, known bool) {
	if c.Value().Type == bson.TypeNull {
		return is.Type == 0 || is.Type == bson.TypeNull, true
	}
	if c.Value().Type == bson.TypeBinary {
		return is.Type == bson.TypeBinary && bytes.Equal(is.Value, c.Value().Value), true
	}
	operators, ok := c.Value().DocumentOK()
	if !ok {
		order, same, known := compare(is, c.Value())
		return same && order == 0, known
	}
	elements, err := operators.Elements()
	if err != nil || len(elements) == 0 {
		return false, false
	}
	fits = true
	for _, o := range elements {
		order, same, known := compare(is, o.Value())
		if !known {
			return false, false
		}
		switch o.Key() {
		case "$lt":
			fits = fits && same && order < 0
		case "$lte":
			fits = fits && same && order <= 0
		case "$gt":
			fits = fits && same && order > 0
		case "$gte":
			fits = fits && same && order >= 0
		default:
			return false, false
		}
	}
	return fits, true
}

// compare compares values of the same kind: whole numbers, texts, times, truths and ids. Those of different kinds are neither equal, nor
// is one less; known is false for kinds of which that is not known here.
func compare(is, want bson.RawValue) (order int, same, known bool) {
	x, kind := kindOf(is)
	y, wanted := kindOf(want)
	switch {
	case wanted == unknownKind || wanted == missing || kind == unknownKind:
		return 0, false, false
	case kind != wanted:
		return 0, false, true
	case kind == number || kind == moment:
		return cmp.Compare(x, y), true, true
	case kind == text:
		return strings.Compare(is.StringValue(), want.StringValue()), true, true
	default:
		return bytes.Compare(is.Value, want.Value), true, true
	}
}

type kind int

const (
	unknownKind kind = iota
	missing
	number
	moment
	text
	other // truths and ids
)

// kindOf is what a value is, and which whole number, or time in ms.
func kindOf(v bson.RawValue) (int64, kind) {
	switch v.Type {
	case 0:
		return 0, missing
	case bson.TypeInt32:
		return int64(v.Int32()), number
	case bson.TypeInt64:
		return v.Int64(), number
	case bson.TypeDateTime:
		return v.DateTime(), moment
	case bson.TypeString:
		return 0, text
	case bson.TypeObjectID, bson.TypeBoolean:
		return 0, other + kind(v.Type)
	default:
		return 0, unknownKind
	}
}

// rebuilt is a request with one statement that has another filter.
func rebuilt(request []byte, body bson.Raw, list string, statement bson.Raw, q bson.D) ([]byte, error) {
	with := func(document bson.Raw, key string, value any) (bson.D, error) {
		elements, err := document.Elements()
		if err != nil {
			return nil, err
		}
		var d bson.D
		for _, e := range elements {
			if e.Key() != key {
				d = append(d, bson.E{Key: e.Key(), Value: e.Value()})
			}
		}
		return append(d, bson.E{Key: key, Value: value}), nil
	}
	one, err := with(statement, "q", q)
	if err != nil {
		return nil, err
	}
	command, err := with(body, list, bson.A{one})
	if err != nil {
		return nil, err
	}
	return message(request, command)
}

// message is a request with the ids of another one.
func message(like []byte, command bson.D) ([]byte, error) {
	m, err := answer(like, command)
	if err != nil {
		return nil, err
	}
	copy(m[4:8], like[4:8])
	clear(m[8:12])
	return m, nil
}

// byIDs finds documents by their _id, in that order; those that are not there are left out.
func (f *front) byIDs(backend net.Conn, c command, ids []bson.RawValue, projection bson.Raw) (found []bson.Raw, err error) {
	var like [headerSize]byte
	var reply []byte
	for _, id := range ids {
		if document, known := f.remembered(c, id, projection); known {
			if document != nil {
				found = append(found, document)
			}
			continue
		}
		find := bson.D{{Key: "find", Value: c.collection}, {Key: "filter", Value: bson.D{{Key: "_id", Value: id}}}, {Key: "limit", Value: int64(1)}, {Key: "singleBatch", Value: true}}
		if projection != nil {
			find = append(find, bson.E{Key: "projection", Value: projection})
		}
		request, err := message(like[:], append(find, bson.E{Key: "$db", Value: c.database}))
		if err != nil {
			return nil, err
		}
		reading := f.documents.read(c.key(), id)
		if _, err := backend.Write(request); err != nil {
			return nil, err
		}
		if reply, err = readMessage(backend, nil); err != nil {
			return nil, err
		}
		batch, _, ok := batchOf(reply)
		if !ok {
			return nil, fmt.Errorf("find %s by _id: %v", c.collection, bson.Raw(reply[headerSize+5:]))
		}
		if projection == nil {
			reading.isOne(id, batch)
		}
		found = append(found, batch...)
	}
	return found, nil
}

// batchOf are the documents of the answer to a find, and whether there are more; false for another answer.
func batchOf(reply []byte) (batch []bson.Raw, more, ok bool) {
	if len(reply) < headerSize+5 {
		return nil, false, false
	}
	cursor, _ := bson.Raw(reply[headerSize+5:]).Lookup("cursor").DocumentOK()
	array, ok := cursor.Lookup("firstBatch").ArrayOK()
	if !ok {
		return nil, false, false
	}
	values, err := array.Values()
	if err != nil {
		return nil, false, false
	}
	for _, v := range values {
		document, ok := v.DocumentOK()
		if !ok {
			return nil, false, false
		}
		batch = append(batch, document)
	}
	next, _ := kindOf(cursor.Lookup("id"))
	return batch, next != 0, true
}

// remembered is a document that need not be read, or the members of it that a projection wants; nil and known when there is none.
func (f *front) remembered(c command, id bson.RawValue, projection bson.Raw) (document bson.Raw, known bool) {
	if !isKeptBy(id) {
		return nil, false
	}
	document, known = f.documents.find(c.key(), id)
	if document == nil || projection == nil {
		return document, known
	}
	return projected(document, projection)
}

// projected are _id and the members that a projection wants; false when it wants something else than whole members.
func projected(document, projection bson.Raw) (bson.Raw, bool) {
	wanted, err := projection.Elements()
	if err != nil {
		return nil, false
	}
	members := map[string]bool{"_id": true}
	for _, w := range wanted {
		n, kind := kindOf(w.Value())
		yes, _ := w.Value().BooleanOK()
		if included := yes || kind == number && n == 1; !included || strings.ContainsAny(w.Key(), ".$") {
			return nil, false
		}
		members[w.Key()] = true
	}
	elements, err := document.Elements()
	if err != nil || len(wanted) == 0 {
		return nil, false
	}
	start, only := bsoncore.AppendDocumentStart(nil)
	for _, e := range elements {
		if members[e.Key()] {
			only = append(only, e...)
		}
	}
	only, err = bsoncore.AppendDocumentEnd(only, start)
	return bson.Raw(only), err == nil
}

// wantedOf is what a find wants; false when it wants something that the front does not know.
func wantedOf(request []byte) (w findWanted, ok bool) {
	body := bson.Raw(request[headerSize+5:])
	elements, err := body.Elements()
	if err != nil {
		return w, false // FerretDB says what is wrong with it
	}
	for _, e := range elements {
		switch e.Key() {
		case "filter":
			w.filter, _ = e.Value().DocumentOK()
		case "projection":
			w.projection, _ = e.Value().DocumentOK()
		case "limit":
			n, kind := kindOf(e.Value())
			if kind != number || n < 0 {
				return w, false
			}
			w.limit = int(n)
		case "sort":
			sort, _ := e.Value().DocumentOK()
			order, kind := kindOf(sort.Lookup("_id"))
			if all, err := sort.Elements(); err != nil || len(all) != 1 || kind != number || order != 1 {
				return w, false
			}
		// One server alone has what it says confirmed at once, and the order of _id comes of itself: so any readConcern and any hint are met.
		case "find", "batchSize", "singleBatch", "$db", "lsid", "maxTimeMS", "$readPreference", "$clusterTime", "readConcern", "hint":
		default:
			return w, false
		}
	}
	return w, binary.LittleEndian.Uint32(body) == uint32(len(body)) // nothing follows
}

// findWanted is what a find wants, in the order of _id or in any.
type findWanted struct {
	filter, projection bson.Raw
	limit              int // 0 for all
}

// narrowFind answers a find of one _id that is remembered, of _ids below a prefix, of some _ids, or by a text; nil when it is to be passed on.
func (f *front) narrowFind(backend net.Conn, c command, w findWanted, request []byte) ([]byte, error) {
	if id, conditions := conditionsOf(w.filter); id.Value != nil && len(conditions) == 0 {
		document, known := f.remembered(c, id, w.projection)
		switch {
		case !known:
			return nil, nil
		case document == nil:
			return answer(request, cursorOf(c, nil))
		default:
			return answer(request, cursorOf(c, []bson.Raw{document}))
		}
	}
	if members, ok := f.besideIDs(w.projection); ok {
		if batch := f.lookups.beside(f.ctx, c.database, c.collection, w.filter, members, w.limit); batch != nil {
			return answer(request, cursorOf(c, batch))
		}
	}
	some, ok := f.lookups.selected(f.ctx, c.database, c.collection, w.filter)
	if !ok {
		return nil, nil
	}
	if w.limit > 0 && !some.check {
		some.ids = some.ids[:min(w.limit, len(some.ids))]
	}
	projection := w.projection
	if some.check {
		projection = nil
	}
	unknown := 0
	values := make([]bson.RawValue, len(some.ids))
	for i, id := range some.ids {
		kind, data, err := bson.MarshalValue(id)
		if err != nil {
			return nil, err
		}
		values[i] = bson.RawValue{Type: kind, Value: data}
		if _, known := f.remembered(c, values[i], projection); !known {
			unknown++
		}
	}
	if unknown > 0 && unknown*readsPerID > f.lookups.rows(f.ctx, c.database, c.collection) {
		return nil, nil
	}
	found, err := f.byIDs(backend, c, values, projection)
	if err != nil {
		return nil, err
	}
	if some.check {
		if found, ok = w.listed(found); !ok {
			return nil, nil
		}
	}
	return answer(request, cursorOf(c, found))
}

// listed are those documents that have a list with the text that the filter wants, as the find wants them; false when that is not known here.
func (w *findWanted) listed(documents []bson.Raw) (found []bson.Raw, ok bool) {
	want, err := w.filter.IndexErr(0)
	if err != nil {
		return nil, false
	}
	for _, document := range documents {
		values, ok := listOf(document, want.Key())
		if !ok {
			return nil, false
		}
		if !slices.ContainsFunc(values, want.Value().Equal) {
			continue
		}
		if len(w.projection) > 0 {
			if document, ok = projected(document, w.projection); !ok {
				return nil, false
			}
		}
		if found = append(found, document); len(found) == w.limit {
			break
		}
	}
	return found, true
}

// listOf is a member that is a list, or nothing for one that is not there or null; false for another one.
func listOf(document bson.Raw, member string) ([]bson.RawValue, bool) {
	is := document.Lookup(member)
	if is.Value == nil || is.Type == bson.TypeNull {
		return nil, true
	}
	list, ok := is.ArrayOK()
	if !ok {
		return nil, false
	}
	values, err := list.Values()
	return values, err == nil
}

// remember keeps what FerretDB answers to a find that was passed on.
func (f *front) remember(w findWanted, reading reading, reply []byte) {
	batch, more, ok := batchOf(reply)
	switch id, conditions := conditionsOf(w.filter); {
	case !ok || more || len(w.projection) > 0:
	case id.Value == nil:
		for _, document := range batch {
			if id := document.Lookup("_id"); isKeptBy(id) {
				reading.is(id, document)
			}
		}
	case len(conditions) == 0:
		reading.isOne(id, batch)
	}
}

// cursorOf is the answer to a find that has all that there is.
func cursorOf(c command, found []bson.Raw) bson.D {
	batch := make(bson.A, len(found))
	for i := range found {
		batch[i] = found[i]
	}
	cursor := bson.D{{Key: "firstBatch", Value: batch}, {Key: "id", Value: int64(0)}, {Key: "ns", Value: c.database + "." + c.collection}}
	return bson.D{{Key: "cursor", Value: cursor}, {Key: "ok", Value: 1.0}}
}

// besideIDs are the members that a projection wants beside _id; false when it wants others than those that indexes have.
func (f *front) besideIDs(projection bson.Raw) (members []string, ok bool) {
	elements, err := projection.Elements()
	if err != nil || len(elements) == 0 {
		return nil, false
	}
	for _, e := range elements {
		if n, kind := kindOf(e.Value()); kind != number || n != 1 {
			return nil, false
		}
		switch {
		case e.Key() == "_id":
		case slices.Contains(f.beside, e.Key()):
			members = append(members, e.Key())
		default:
			return nil, false
		}
	}
	return members, true
}

// lookups says which _ids there are, from SQLite's index.
type lookups struct {
	dir string

	mu         sync.Mutex
	files      map[string]*sql.DB // by database
	tables     map[string]string  // by database.collection
	statements map[statementKey]*sql.Stmt
	texts      []string // members that are texts, see Config
	lists      []string // members that are lists of texts, see Config
	plain      []string // what names of collections begin with, see Config
}

type statementKey struct {
	file *sql.DB
	text string
}

// mostStatements is how many statements are kept; each is compiled on each of the connections, and takes some KiB there.
const mostStatements = 512

func newLookups(dir string, texts, lists, plain []string) *lookups {
	return &lookups{dir: dir, files: map[string]*sql.DB{}, tables: map[string]string{}, statements: map[statementKey]*sql.Stmt{}, texts: texts, lists: lists, plain: plain}
}

// forget is for when a collection may have been dropped, and for the end.
func (l *lookups) forget() (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err = l.closeStatements()
	for _, file := range l.files {
		err = errors.Join(err, file.Close())
	}
	clear(l.files)
	clear(l.tables)
	return err
}

// selection is what a filter selects.
type selection struct {
	ids   []string // sorted
	check bool     // the documents have to be looked at: not all of them may be selected
}

// selected is what a filter selects; false when it is of another kind, selects many, or SQLite does not know.
func (l *lookups) selected(ctx context.Context, database, collection string, filter bson.Raw) (s selection, ok bool) {
	prefix, among, isID := wanted(filter)
	by, isText := l.wantedBy(filter)
	text, isListed := l.wantedIn(filter)
	from, to, isRange := l.wantedRange(collection, filter)
	if !isID && !isText && !isListed && !isRange && !isAll(filter) {
		return s, false
	}
	file, table, err := l.table(ctx, database, collection)
	if err != nil {
		return s, false
	}
	switch {
	case among != nil:
		s.ids = among
		return s, len(among) <= maxIDs
	case isText:
		s.ids, ok = l.textsOf(ctx, file, byTextQuery(table, by), append(by.texts, maxIDs+1), maxIDs)
	case isListed:
		// What has the text in a list has it somewhere. SQLite looks through a document in a hundredth of the time in which FerretDB decodes it.
		s.check = true
		s.ids, ok = l.textsOf(ctx, file, fmt.Sprintf(`SELECT %s FROM %q WHERE instr(_ferretdb_sjson, ?) > 0 LIMIT ?`, idColumn, table), []any{text, maxIDs + 1}, maxIDs)
	case isRange:
		s.ids, ok = l.textsOf(ctx, file, fmt.Sprintf(`SELECT %[1]s FROM %[2]q WHERE %[1]s >= ? AND %[1]s < ? LIMIT ?`, idColumn, table), []any{from, to, mostInRange + 1}, mostInRange)
	case isID:
		// With what is left out below, one more than may be.
		s.ids, ok = l.textsOf(ctx, file, besideQuery(table, nil, false)+` LIMIT ?`, []any{`"` + prefix + `/`, `"` + prefix + `0`, maxIDs + 2}, maxIDs+1)
		s.ids = slices.DeleteFunc(s.ids, func(id string) bool { return id == prefix+"/" })
		ok = ok && len(s.ids) <= maxIDs
	default:
		s.ids, ok = l.textsOf(ctx, file, besideQuery(table, nil, true)+` LIMIT ?`, []any{maxIDs + 1}, maxIDs)
	}
	return s, ok
}

// mostInRange is how many are read one by one of a range: some of them, or most, are remembered.
const mostInRange = 5000

// plainText is what orders as JSON spells it.
var plainText = regexp.MustCompile(`^[0-9A-Za-z./_-]*$`)

// wantedRange is from where on, and up to where, a filter wants _ids, as JSON spells them; false when it wants something else, or that is not how they are ordered.
func (l *lookups) wantedRange(collection string, filter bson.Raw) (from, to string, ok bool) {
	if !slices.ContainsFunc(l.plain, func(begin string) bool { return strings.HasPrefix(collection, begin) }) {
		return "", "", false
	}
	elements, err := filter.Elements()
	if err != nil || len(elements) != 1 || elements[0].Key() != "_id" {
		return "", "", false
	}
	condition, ok := elements[0].Value().DocumentOK()
	if !ok {
		return "", "", false
	}
	operators, err := condition.Elements()
	if err != nil || len(operators) == 0 {
		return "", "", false
	}
	from, to = `"`, `#` // all texts begin with the one, and none with what comes behind it
	for _, operator := range operators {
		text, isText := operator.Value().StringValueOK()
		switch {
		case !isText || !plainText.MatchString(text):
			return "", "", false
		case operator.Key() == "$gte":
			from = `"` + text
		case operator.Key() == "$lt":
			to = `"` + text
		default:
			return "", "", false
		}
	}
	return from, to, true
}

// isAll says whether a filter selects everything.
func isAll(filter bson.Raw) bool {
	elements, err := filter.Elements()
	return filter == nil || err == nil && len(elements) == 0
}

// wantedIn is the text that a filter wants in a list, as JSON spells it; false when it wants something else.
func (l *lookups) wantedIn(filter bson.Raw) (spelled string, ok bool) {
	elements, err := filter.Elements()
	if err != nil || len(elements) != 1 || !slices.Contains(l.lists, elements[0].Key()) {
		return "", false
	}
	text, ok := elements[0].Value().StringValueOK()
	if !ok {
		return "", false
	}
	return plainly(text)
}

// plainly spells a text as JSON does; false for one that can be spelled in other ways, too.
func plainly(text string) (spelled string, ok bool) {
	is, err := json.Marshal(text)
	return string(is), err == nil && string(is) == `"`+text+`"`
}

// rows is how many documents a collection has, or more; 0 when SQLite does not know.
func (l *lookups) rows(ctx context.Context, database, collection string) (n int) {
	file, table, err := l.table(ctx, database, collection)
	if err != nil {
		return 0
	}
	found, err := l.query(ctx, file, fmt.Sprintf(`SELECT coalesce(max(rowid), 0) FROM %q`, table))
	if err != nil {
		return 0
	}
	defer found.Close()
	if !found.Next() || found.Scan(&n) != nil {
		return 0
	}
	return n
}

// query asks SQLite, which compiles a statement once: that takes as long as to run it.
func (l *lookups) query(ctx context.Context, file *sql.DB, text string, arguments ...any) (*sql.Rows, error) {
	statement, err := l.statement(ctx, file, text)
	if err != nil {
		return nil, err
	}
	return statement.QueryContext(ctx, arguments...)
}

func (l *lookups) statement(ctx context.Context, file *sql.DB, text string) (*sql.Stmt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := statementKey{file, text}
	if s := l.statements[key]; s != nil {
		return s, nil
	}
	if len(l.statements) == mostStatements {
		if err := l.closeStatements(); err != nil {
			return nil, err
		}
	}
	s, err := file.PrepareContext(ctx, text)
	if err == nil {
		l.statements[key] = s
	}
	return s, err
}

// closeStatements forgets the statements. mu is held.
func (l *lookups) closeStatements() (err error) {
	for _, s := range l.statements {
		err = errors.Join(err, s.Close())
	}
	clear(l.statements)
	return err
}

// textsOf are the texts, sorted, that a query finds as JSON; false when there are more, or others than texts.
func (l *lookups) textsOf(ctx context.Context, file *sql.DB, query string, arguments []any, most int) ([]string, bool) {
	found, err := l.query(ctx, file, query, arguments...)
	if err != nil {
		return nil, false
	}
	defer found.Close()
	texts := []string{}
	for found.Next() {
		var spelled, text string
		if found.Scan(&spelled) != nil || json.Unmarshal([]byte(spelled), &text) != nil {
			return nil, false
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts, found.Err() == nil && len(texts) <= most
}

// byText is a filter that wants a member to be one of some texts, or none of them, or not there.
type byText struct {
	member string
	none   bool
	texts  []any // as JSON spells them
}

// wantedBy is what a filter wants of one member that is a text; false when it wants something else.
func (l *lookups) wantedBy(filter bson.Raw) (by byText, ok bool) {
	elements, err := filter.Elements()
	elements = slices.DeleteFunc(elements, isAnyText)
	if err != nil || len(elements) != 1 || !slices.Contains(l.texts, elements[0].Key()) {
		return by, false
	}
	by.member = elements[0].Key()
	values := []bson.RawValue{elements[0].Value()}
	if condition, ok := values[0].DocumentOK(); ok {
		operators, err := condition.Elements()
		if err != nil || len(operators) != 1 || operators[0].Key() != "$in" && operators[0].Key() != "$nin" {
			return by, false
		}
		by.none = operators[0].Key() == "$nin"
		array, ok := operators[0].Value().ArrayOK()
		if !ok {
			return by, false
		}
		if values, err = array.Values(); err != nil || len(values) > maxIDs {
			return by, false
		}
	}
	for _, v := range values {
		text, ok := v.StringValueOK()
		if !ok {
			return by, false
		}
		spelled, ok := plainly(text)
		if !ok {
			return by, false
		}
		by.texts = append(by.texts, spelled)
	}
	return by, true
}

// isAnyText says whether a condition is that _id is a text, whichever: by it MongoDB goes through an index that begins with _id. What other _ids
// there are SQLite's answers show, and FerretDB is asked then.
func isAnyText(condition bson.RawElement) bool {
	operators, _ := condition.Value().DocumentOK()
	all, err := operators.Elements()
	if condition.Key() != "_id" || err != nil || len(all) != 1 || all[0].Key() != "$gte" {
		return false
	}
	from, ok := all[0].Value().StringValueOK()
	return ok && from == ""
}

// byTextQuery asks for _ids by a member. Its expression is spelled as that of the index: else SQLite reads documents.
func byTextQuery(table string, by byText) string {
	column := indexColumns([]string{by.member})[0]
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(by.texts)), ", ")
	condition := fmt.Sprintf(`%s IN (%s)`, column, marks)
	if by.none {
		condition = fmt.Sprintf(`(%s NOT IN (%s) OR %[1]s IS NULL)`, column, marks)
	}
	return fmt.Sprintf(`SELECT %s FROM %q WHERE %s LIMIT ?`, idColumn, table, condition)
}

// mostBeside bounds what is answered from an index in one message, and elementHead what stands before each document in it.
const (
	mostBeside  = maxMessage / 2
	elementHead = 10
)

// beside are the ids below a prefix, by a text, or all, with numbers that an index has beside them, as documents, sorted by id; nil when the filter is of
// another kind, the answer would be too long, or SQLite does not know. Where there is no such index they are right all the same, and take long.
func (l *lookups) beside(ctx context.Context, database, collection string, filter bson.Raw, members []string, limit int) []bson.Raw {
	prefix, among, below := wanted(filter)
	by, isText := l.wantedBy(filter)
	if among != nil || !below && !isText && !isAll(filter) {
		return nil
	}
	file, table, err := l.table(ctx, database, collection)
	if err != nil {
		return nil
	}
	var query string
	var arguments []any
	switch {
	case isText:
		query, arguments = besideTextQuery(table, members, by), by.texts
	case below:
		query, arguments = besideQuery(table, members, false), []any{`"` + prefix + `/`, `"` + prefix + `0`}
	default:
		query = besideQuery(table, members, true)
	}
	rows, err := l.query(ctx, file, query, arguments...)
	if err != nil {
		return nil
	}
	defer rows.Close()
	type document struct {
		id  string
		raw bson.Raw
	}
	var found []document
	size, text, values := 0, "", make([]*string, len(members))
	into := []any{&text}
	for i := range values {
		into = append(into, &values[i])
	}
	for rows.Next() {
		var d document
		if rows.Scan(into...) != nil || json.Unmarshal([]byte(text), &d.id) != nil {
			return nil
		}
		if below && d.id == prefix+"/" {
			continue
		}
		if d.raw, err = besideID(d.id, members, values); err != nil {
			return nil
		}
		if size += len(d.raw) + elementHead; size > mostBeside {
			return nil
		}
		found = append(found, d)
	}
	if rows.Err() != nil {
		return nil
	}
	slices.SortFunc(found, func(a, b document) int { return strings.Compare(a.id, b.id) })
	if limit > 0 {
		found = found[:min(limit, len(found))]
	}
	documents := make([]bson.Raw, len(found))
	for i := range found {
		documents[i] = found[i].raw
	}
	return documents
}

// besideID is a document with its _id and numbers, as SQLite spells them; what is missing is missing.
func besideID(id string, members []string, values []*string) (bson.Raw, error) {
	start, document := bsoncore.AppendDocumentStart(nil)
	document = bsoncore.AppendStringElement(document, "_id", id)
	for i, v := range values {
		if v == nil {
			continue
		}
		n, err := strconv.ParseInt(*v, 10, 64)
		if err != nil {
			return nil, err
		}
		document = bsoncore.AppendInt64Element(document, members[i], n)
	}
	document, err := bsoncore.AppendDocumentEnd(document, start)
	return bson.Raw(document), err
}

// besideQuery asks for _id and members in a range of _id, or of all. Its expressions are spelled as those of the index: else SQLite reads documents.
func besideQuery(table string, members []string, all bool) string {
	columns := []string{idColumn}
	if len(members) > 0 {
		columns = indexColumns(append([]string{"_id"}, members...))
	}
	bounds := `%[3]s > ? AND %[3]s < ?`
	if all {
		bounds = `%[3]s > ''` // that all are; without it SQLite takes no index
	}
	return fmt.Sprintf(`SELECT %s FROM %q WHERE `+bounds, strings.Join(columns, ", "), table, columns[0])
}

// besideTextQuery is besideQuery of those that a text is wanted of.
func besideTextQuery(table string, members []string, by byText) string {
	columns := indexColumns(append([]string{"_id"}, members...))
	column := indexColumns([]string{by.member})[0]
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(by.texts)), ", ")
	condition := fmt.Sprintf(`%s IN (%s)`, column, marks)
	if by.none {
		condition = fmt.Sprintf(`(%s NOT IN (%s) OR %[1]s IS NULL)`, column, marks)
	}
	return fmt.Sprintf(`SELECT %s FROM %q WHERE %s > '' AND %s`, strings.Join(columns, ", "), table, columns[0], condition)
}

// table is where SQLite has a collection.
func (l *lookups) table(ctx context.Context, database, collection string) (*sql.DB, string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	file := l.files[database]
	if file == nil {
		var err error
		if file, err = sql.Open("sqlite", sqliteURL(filepath.Join(l.dir, database+".sqlite"))+"&mode=ro"); err != nil {
			return nil, "", err
		}
		file.SetMaxOpenConns(lookupsAtOnce)
		file.SetMaxIdleConns(lookupsAtOnce) // a connection reads the whole schema as it is opened
		l.files[database] = file
	}
	key := database + "." + collection
	if table, ok := l.tables[key]; ok {
		return file, table, nil
	}
	var table string
	if err := file.QueryRowContext(ctx, `SELECT table_name FROM _ferretdb_collections WHERE name = ?`, collection).Scan(&table); err != nil {
		return nil, "", err
	}
	l.tables[key] = table
	return file, table, nil
}

// lookupsAtOnce is how many connections look up _ids.
const lookupsAtOnce = 4

// wanted is the prefix below which a filter wants all _ids, or those that it names, sorted and each once.
func wanted(filter bson.Raw) (prefix string, among []string, ok bool) {
	elements, err := filter.Elements()
	if err != nil || len(elements) != 1 || elements[0].Key() != "_id" {
		return "", nil, false
	}
	condition, ok := elements[0].Value().DocumentOK()
	if !ok {
		return "", nil, false
	}
	operators, err := condition.Elements()
	if err != nil {
		return "", nil, false
	}
	if len(operators) == 1 && operators[0].Key() == "$in" {
		return wantedAmong(operators[0].Value())
	}
	from, isText := condition.Lookup("$gt").StringValueOK()
	to, alsoText := condition.Lookup("$lt").StringValueOK()
	prefix, below := strings.CutSuffix(from, "/")
	if len(operators) != 2 || !isText || !alsoText || !below || to != prefix+"0" {
		return "", nil, false
	}
	// What JSON spells otherwise has another place in the index.
	_, ok = plainly(prefix)
	return prefix, nil, ok
}

func wantedAmong(list bson.RawValue) (prefix string, among []string, ok bool) {
	array, ok := list.ArrayOK()
	if !ok {
		return "", nil, false
	}
	values, err := array.Values()
	if err != nil {
		return "", nil, false
	}
	among = []string{}
	for _, v := range values {
		id, ok := v.StringValueOK()
		if !ok {
			return "", nil, false
		}
		among = append(among, id)
	}
	slices.Sort(among)
	return "", slices.Compact(among), true
}
