package ferret

import (
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// changesNothing are the commands that change no document. What is neither here nor known to effectOf may change anything.
var changesNothing = map[string]bool{
	"": true, "hello": true, "isMaster": true, "ismaster": true, "ping": true, "buildInfo": true, "endSessions": true,
	"find": true, "getMore": true, "killCursors": true, "aggregate": true, "count": true, "distinct": true, "explain": true,
	"create": true, "createIndexes": true, "listCollections": true, "listDatabases": true, "listIndexes": true,
	"collStats": true, "dbStats": true, "serverStatus": true, "connectionStatus": true, "getParameter": true, "hostInfo": true, "whatsmyuri": true,
}

// effect is what a command does to documents, as far as the front knows.
type effect struct {
	everything bool            // it may change whatever there is
	ids        []bson.RawValue // the documents that it may change; none for any of the collection
	among      []bson.Raw      // without ids: it changes only what one of these filters selects; empty when it may be anything
	now        []bson.Raw      // what these are after it, nil for one that is gone; empty when that is not known
	when       int32           // how many documents its answer has to count for that, or any for -1
}

// effectOf says what a command may change.
func effectOf(c command, request []byte) effect {
	switch c.name {
	case "insert":
		return inserted(request)
	case "update":
		return updated(request)
	case "delete":
		return deleted(request)
	case "findAndModify", "findandmodify":
		return effect{}
	default:
		return effect{everything: true}
	}
}

func inserted(request []byte) effect {
	_, documents, ok := statementsOf(request, "documents")
	if !ok {
		return effect{}
	}
	e := effect{now: documents, when: int32(len(documents))}
	for _, d := range documents {
		id := d.Lookup("_id")
		if !isKeptBy(id) {
			return effect{}
		}
		if !beginsWithID(d) {
			e.now = nil
		}
		e.ids = append(e.ids, id)
	}
	return e
}

func updated(request []byte) effect {
	_, statements, ok := statementsOf(request, "updates")
	if !ok {
		return effect{}
	}
	e := effect{when: int32(len(statements))}
	known := true
	for _, s := range statements {
		q, _ := s.Lookup("q").DocumentOK()
		id := q.Lookup("_id")
		if !isKeptBy(id) {
			return amongThose(statements)
		}
		e.ids = append(e.ids, id)
		now, ok := replacement(s, id)
		e.now = append(e.now, now)
		known = known && ok
	}
	if !known {
		e.now = nil
	}
	return e
}

// replacement is what a statement makes of the document that has an id; false when it is no replacement of the whole.
func replacement(statement bson.Raw, id bson.RawValue) (bson.Raw, bool) {
	u, ok := statement.Lookup("u").DocumentOK()
	if !ok {
		return nil, false
	}
	elements, err := u.Elements()
	switch {
	case err != nil:
		return nil, false
	case len(elements) > 0 && elements[0].Key() == "_id":
		return u, elements[0].Value().Equal(id)
	}
	for _, e := range elements {
		if e.Key() == "_id" || e.Key() == "" || e.Key()[0] == '$' {
			return nil, false
		}
	}
	whole, err := bson.Marshal(append(bson.D{{Key: "_id", Value: id}}, asD(elements)...))
	return whole, err == nil
}

func asD(elements []bson.RawElement) bson.D {
	var d bson.D
	for _, e := range elements {
		d = append(d, bson.E{Key: e.Key(), Value: e.Value()})
	}
	return d
}

func deleted(request []byte) effect {
	_, statements, ok := statementsOf(request, "deletes")
	if !ok {
		return effect{}
	}
	e := effect{when: -1}
	for _, s := range statements {
		q, _ := s.Lookup("q").DocumentOK()
		id, conditions := conditionsOf(q)
		_, some, _ := wanted(q)
		limit, _ := kindOf(s.Lookup("limit"))
		switch {
		case id.Value != nil:
			e.ids = append(e.ids, id)
		case len(some) > 0 && limit == 0:
			for _, text := range some {
				e.ids = append(e.ids, bson.RawValue{Type: bson.TypeString, Value: bsoncore.AppendString(nil, text)})
			}
		default:
			return amongThose(statements)
		}
		if len(conditions) > 0 {
			e.when = int32(len(statements))
		}
	}
	e.now = make([]bson.Raw, len(e.ids))
	return e
}

// amongThose is the effect of statements that change what their filters select. What is inserted is not known by that.
func amongThose(statements []bson.Raw) (e effect) {
	for _, s := range statements {
		q, ok := s.Lookup("q").DocumentOK()
		if upsert, _ := s.Lookup("upsert").BooleanOK(); !ok || upsert {
			return effect{}
		}
		e.among = append(e.among, q)
	}
	return e
}

// concerns says whether it may change a document, which is nil where there is none.
func (e *effect) concerns(document bson.Raw) bool {
	if len(e.among) == 0 {
		return true
	}
	for _, filter := range e.among {
		elements, err := filter.Elements()
		if err != nil {
			return true
		}
		if document == nil {
			continue
		}
		if fits, known := matches(document, elements); fits || !known {
			return true
		}
	}
	return false
}

// isKeptBy says whether a document is kept by this id: there are others that are equal and look different.
func isKeptBy(id bson.RawValue) bool {
	return id.Type == bson.TypeString || id.Type == bson.TypeObjectID
}

func beginsWithID(document bson.Raw) bool {
	first, err := document.IndexErr(0)
	return err == nil && first.Key() == "_id"
}

// became are the documents that a command has left, by its answer; nothing when that is not known.
func (e *effect) became(reply []byte) []bson.Raw {
	if len(e.now) == 0 || len(reply) < headerSize+5+4 || binary.LittleEndian.Uint32(reply[12:]) != opMsg {
		return nil
	}
	body := bson.Raw(reply[headerSize+5:])
	if body.Validate() != nil {
		return nil
	}
	ok, _ := body.Lookup("ok").DoubleOK()
	n, _ := kindOf(body.Lookup("n"))
	if ok != 1 || body.Lookup("writeErrors").Value != nil || e.when >= 0 && n != int64(e.when) {
		return nil
	}
	return e.now
}
