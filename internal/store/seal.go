package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/secret"
)

// What documents say is sealed (decision 0058): a noun's document, and the record of an app context, whole; blobs, observations and
// the entries of ledgers as they are; of a leaf its texts. Members that queries and updates name are there openly, too, and must then be
// what is sealed. What is sealed is bound to its collection, its _id and its revision, so that nobody who can write to the database
// can change a part of it, put it elsewhere, or bring an older one back under a newer number.

// sealedMember holds the members that are sealed, as a document of BSON.
const sealedMember = "sealed"

// Members of documents that are there openly: queries and updates name them.
var (
	// A token's hash is that of 256 random bits; the bytes that were uploaded are counted (Usage).
	openOfNouns     = []string{"_id", "refs", "parent", "revision", "hash", lastUsed, uploadedMember, sizeMember}
	openOfInstances = []string{"_id", "revision", "owner", "status"}
	openOfSessions  = []string{"_id", "revision", "expires"}
)

// lastUsed is the one member that is not sealed: it is written beside the revision, and nothing depends on it.
const lastUsed = "lastUsed"

// sizeMember is how many bytes a noun's document says, so that they can be counted and not read (Usage).
const sizeMember = "size"

// uploadedMember is how many bytes of files came with a noun's document (domain.Identity).
const uploadedMember = "uploaded"

// place is what the sealed members of a document are bound to.
func place(collection, id string, revision int64) string {
	return collection + "/" + id + "#" + strconv.FormatInt(revision, 10)
}

// sealDocument seals the members of a document and its version, with copies of some that are open.
func (s *Store) sealDocument(collection, id string, revision int64, members bson.D, openly []string) (bson.D, error) {
	open, sealed := bson.D{}, bson.D{}
	for _, e := range members {
		if slices.Contains(openly, e.Key) {
			open = append(open, e)
		}
		if e.Key != lastUsed {
			sealed = append(sealed, e)
		}
	}
	has, err := versionFor(collection, func() (bson.D, error) { return sealed, nil })
	if err != nil {
		return nil, err
	}
	open, sealed = append(open, bson.E{Key: versionMember, Value: has}), append(sealed, bson.E{Key: versionMember, Value: has})
	plain, err := bson.Marshal(sealed)
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the document cannot be stored")
	}
	data, err := s.keys.SealBytes(place(collection, id, revision), plain)
	return append(open, bson.E{Key: sealedMember, Value: data}), err
}

// unopened is the error of opening or decoding what is stored: domain.ErrUnreadable, unless whoever keeps the keys does not answer, or a newer
// build has written it.
func unopened(err error) error {
	if !fail.Is(err, fail.Internal) || errors.Is(err, domain.ErrUnreadable) {
		return err
	}
	return fmt.Errorf("%w: %w", domain.ErrUnreadable, err)
}

// decode decodes a document of a collection, and what is sealed of it.
func (s *Store) decode(collection string, document bson.Raw, into any) error {
	return unopened(s.decodeAs(collection, document, into))
}

func (s *Store) decodeAs(collection string, document bson.Raw, into any) error {
	if raw, ok := into.(*bson.Raw); ok {
		*raw = slices.Clone(document)
		return nil
	}
	if err := refuseNewer(collection, document); err != nil {
		return err
	}
	switch r := into.(type) {
	case domain.Object, *instance, *domain.Instance, *domain.Session:
		err := unopened(s.decodeSealed(collection, document, into))
		s.unread.note(collection, document, err) // what else is read of it says nothing of what is sealed
		return err
	case *leafRecord:
		if err := decode(document, into); err != nil {
			return err
		}
		return s.openLeaf(r)
	case *head:
		return r.read(document)
	case **observation:
		*r = &observation{}
		return s.decode(collection, document, *r)
	case *observation:
		if err := decode(document, into); err != nil {
			return err
		}
		r.broken = s.openSaid(r)
		return nil
	case *watchDoc:
		if err := decode(document, into); err != nil {
			return err
		}
		s.openWatch(r)
		return nil
	default:
		return decode(document, into)
	}
}

// decodeSealed decodes a document from what is sealed of it. What it has openly besides must be the same.
func (s *Store) decodeSealed(collection string, document bson.Raw, into any) error {
	opened, err := s.openDocument(collection, document)
	if err != nil {
		return err
	}
	if err := decode(opened.plain, into); err != nil || opened.beside == nil {
		return err
	}
	return decode(opened.beside, into)
}

// openedDocument is what is sealed of a document, as it is stored and plain, the place that it is bound to, and what stands beside it, if
// anything.
type openedDocument struct {
	place         string
	sealed        []byte
	plain, beside bson.Raw
}

func (s *Store) openDocument(collection string, document bson.Raw) (o openedDocument, err error) {
	id, _ := document.Lookup("_id").StringValueOK()
	value, err := document.LookupErr(sealedMember)
	if err != nil {
		return o, fail.New(fail.Internal, "%s %q is not sealed: who wrote it was not the product, or a version of it that sealed nothing", collection, id)
	}
	_, data, ok := value.BinaryOK()
	revision, _ := document.Lookup("revision").AsInt64OK()
	if !ok {
		return o, fail.New(fail.Internal, "%s %q is damaged", collection, id)
	}
	o.place, o.sealed = place(collection, id, revision), data
	if o.plain, err = s.keys.OpenBytes(o.place, data); err != nil {
		return o, fmt.Errorf("open %s %q: %w", collection, id, err)
	}
	if o.beside, err = openly(document, o.plain); err != nil {
		return o, fail.Wrap(err, fail.Internal, "%s %q is damaged", collection, id)
	}
	return o, nil
}

// openly compares what a document has openly with what is sealed, and is what stands beside that, if anything.
func openly(document, sealed bson.Raw) (beside bson.Raw, err error) {
	elements, err := document.Elements()
	if err != nil {
		return nil, err
	}
	for _, e := range elements {
		switch key := e.Key(); key {
		case sealedMember:
		case lastUsed:
			if beside, err = bson.Marshal(bson.D{{Key: key, Value: e.Value()}}); err != nil {
				return nil, err
			}
		default:
			if has, err := sealed.LookupErr(key); err != nil || !has.Equal(e.Value()) {
				return nil, fmt.Errorf("who changed its %q was not the product", key)
			}
		}
	}
	return beside, nil
}

// root is the secret by which blobs are named, which is made by the first process that needs it.
type root struct {
	secret.Root
	blobs, observations []byte // keys
}

// sealsName is the collection with the root secret, which has the one _id rootID.
const (
	sealsName = "seals"
	rootID    = "root"
)

type rootDoc struct {
	ID   string `bson:"_id"`
	Data []byte `bson:"data"` // sealed
}

// rooted is the root secret. It is read, or made, once.
func (s *Store) rooted(ctx context.Context) (*root, error) {
	if r := s.root.Load(); r != nil {
		return r, nil
	}
	found, err := s.readRoot(ctx)
	if fail.Is(err, fail.NotFound) {
		if err = s.makeRoot(ctx); err == nil {
			found, err = s.readRoot(ctx)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the secret that names things: %w", err)
	}
	r := &root{Root: found, blobs: found.Derive("names of blobs"), observations: found.Derive("digests of observations")}
	s.root.Store(r)
	return r, nil
}

func (s *Store) readRoot(ctx context.Context) (secret.Root, error) {
	var d rootDoc
	if err := s.findOne(ctx, s.db.Collection(sealsName), rootID, &d); err != nil {
		return secret.Root{}, err
	}
	plain, err := s.keys.OpenBytes(place(sealsName, rootID, 0), d.Data)
	if fail.Is(err, fail.Internal) { // nothing else can be read either, and no time puts that right
		return secret.Root{}, fail.Wrap(err, fail.Precondition, "the database is sealed with other keys than those of --secret-keys (DROVER_SECRET_KEYS) or --secret-keys-file (DROVER_SECRET_KEYS_FILE): %s", fail.TextOf(err))
	}
	if err != nil {
		return secret.Root{}, err
	}
	found, ok := secret.RootOf(plain)
	if !ok {
		return secret.Root{}, errors.New("it is damaged")
	}
	return found, nil
}

// makeRoot stores another one, unless there is one.
func (s *Store) makeRoot(ctx context.Context) error {
	made, err := secret.NewRoot()
	if err != nil {
		return err
	}
	data, err := s.keys.SealBytes(place(sealsName, rootID, 0), made.Bytes())
	if err != nil {
		return err
	}
	_, err = s.insertOnce(ctx, s.db.Collection(sealsName), rootDoc{rootID, data})
	return err
}

// Root is the secret of the installation that stays as it is when sealing keys change.
func (s *Store) Root(ctx context.Context) (secret.Root, error) {
	r, err := s.rooted(ctx)
	if err != nil {
		return secret.Root{}, err
	}
	return r.Root, nil
}

// leafTexts is what is sealed of a leaf: what clusters answered may quote what was sent.
type leafTexts struct {
	Notes     []domain.Note `bson:"notes,omitempty"`
	Warnings  []domain.Note `bson:"warnings,omitempty"`
	LastError string        `bson:"err,omitempty"`
	Report    string        `bson:"report,omitempty"`
}

// sealLeaf takes the texts of a record out of its members. Most have none.
func (s *Store) sealLeaf(r *leafRecord) error {
	texts := leafTexts{r.Notes, r.Warnings, r.LastError, r.Report}
	if len(texts.Notes)+len(texts.Warnings) == 0 && texts.LastError == "" && texts.Report == "" {
		return nil
	}
	plain, err := bson.Marshal(texts)
	if err != nil {
		return fail.Wrap(err, fail.Internal, "a leaf cannot be stored")
	}
	if r.Sealed, err = s.keys.SealBytes(leafPlace(r.ID, r.Turn), plain); err != nil {
		return err
	}
	r.Notes, r.Warnings, r.LastError, r.Report = nil, nil, "", ""
	return nil
}

// leafPlace is what the texts of a leaf are bound to.
func leafPlace(id string, turn domain.Turn) string {
	return fmt.Sprintf("%s/%s#%d.%d", leavesName, id, turn.Began, turn.Rank)
}

// openLeaf is the opposite of sealLeaf.
func (s *Store) openLeaf(r *leafRecord) error {
	if len(r.Notes)+len(r.Warnings)+len(r.LastError)+len(r.Report) > 0 {
		return fail.New(fail.Internal, "the texts of leaf %s are not sealed: who wrote them was not the product", r.ID)
	}
	if len(r.Sealed) == 0 {
		return nil
	}
	plain, err := s.keys.OpenBytes(leafPlace(r.ID, r.Turn), r.Sealed)
	if err != nil {
		return fmt.Errorf("open leaf %s: %w", r.ID, err)
	}
	var texts leafTexts
	if err := bson.Unmarshal(plain, &texts); err != nil {
		return fail.Wrap(err, fail.Internal, "leaf %s is damaged", r.ID)
	}
	r.Notes, r.Warnings, r.LastError, r.Report, r.Sealed = texts.Notes, texts.Warnings, texts.LastError, texts.Report, nil
	return nil
}

// openSaid opens the texts of an observation.
func (s *Store) openSaid(o *observation) error {
	parts, _, err := s.keys.PartsOf(o.Names.Data)
	if err != nil {
		return err
	}
	plain, err := parts.Open(observedPlace(o, saidPart, 0), o.Said)
	if err != nil {
		return err
	}
	o.Said = nil
	return json.Unmarshal(plain, &o.Texts)
}

// watchPlace is what the reason of a watch is bound to.
func watchPlace(id domain.Key, watcher string) string {
	return watches + "/" + string(id) + "#" + watcher
}

// sealWatch seals the reason, which may quote what a cluster answered, if there is one.
func (s *Store) sealWatch(d *watchDoc) (err error) {
	if d.Reason == "" {
		return nil
	}
	d.Sealed, err = s.keys.SealBytes(watchPlace(d.ID, d.Watcher), []byte(d.Reason))
	return err
}

// openWatch is the opposite of sealWatch. That a reason cannot be opened is no reason to know nothing of all clusters.
func (s *Store) openWatch(d *watchDoc) {
	if len(d.Sealed) == 0 {
		return
	}
	plain, err := s.keys.OpenBytes(watchPlace(d.ID, d.Watcher), d.Sealed)
	switch d.Reason, d.Sealed = string(plain), nil; {
	case fail.IsUnanswered(err):
		d.Reason = "the reason that is stored cannot be opened now"
	case err != nil:
		d.Reason = "the reason that is stored cannot be opened"
	}
}
