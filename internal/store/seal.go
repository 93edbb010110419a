package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/secret"
)

// What documents say is sealed (decision 0058): of a noun's document, and of the record of an app context, all members but those by
// which it is found and guarded; blobs, observations and the entries of ledgers as they are; of a leaf its texts. What is sealed is bound to
// its collection, its _id and its revision, so that nobody who can write to the database can put it elsewhere or bring an
// older one back under a newer number.

// sealedMember holds the members that are sealed, as a document of BSON.
const sealedMember = "sealed"

// The members of documents that are not sealed: queries and updates name them.
var (
	// A token's hash is that of 256 random bits; the bytes that were uploaded are counted (Usage).
	openOfNouns     = []string{"_id", "refs", "parent", "revision", "made", "hash", "lastUsed", "uploaded"}
	openOfInstances = []string{"_id", "revision", "owner", "status"}
)

// place is what the sealed members of a document are bound to.
func place(collection, id string, revision int64) string {
	return collection + "/" + id + "#" + strconv.FormatInt(revision, 10)
}

// sealDocument takes all members of a document but some into one, sealed.
func (s *Store) sealDocument(collection, id string, revision int64, members []bson.RawElement, openly []string) (bson.D, error) {
	open, sealed := bson.D{}, bson.D{}
	for _, m := range members {
		e := bson.E{Key: m.Key(), Value: m.Value()}
		if slices.Contains(openly, e.Key) {
			open = append(open, e)
		} else {
			sealed = append(sealed, e)
		}
	}
	plain, err := bson.Marshal(sealed)
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the document cannot be stored")
	}
	data, err := s.keys.SealBytes(place(collection, id, revision), plain)
	return append(open, bson.E{Key: sealedMember, Value: data}), err
}

// decode decodes a document of a collection, and what is sealed of it.
func (s *Store) decode(collection string, document bson.Raw, into any) error {
	if raw, ok := into.(*bson.Raw); ok {
		*raw = slices.Clone(document)
		return nil
	}
	if err := decode(document, into); err != nil {
		return err
	}
	switch r := into.(type) {
	case domain.Object, *instance, *domain.Instance:
		return s.decodeSealed(collection, document, into)
	case *leafRecord:
		return s.openLeaf(r)
	default:
		return nil
	}
}

// decodeSealed decodes the sealed members of a document. Some are asked for by a projection without them: they are not decoded so.
func (s *Store) decodeSealed(collection string, document bson.Raw, into any) error {
	id, _ := document.Lookup("_id").StringValueOK()
	value, err := document.LookupErr(sealedMember)
	if err != nil {
		return fail.New(fail.Internal, "%s %q is not sealed: who wrote it was not the product, or a version of it that sealed nothing", collection, id)
	}
	_, data, ok := value.BinaryOK()
	revision, _ := document.Lookup("revision").AsInt64OK()
	if !ok {
		return fail.New(fail.Internal, "%s %q is damaged", collection, id)
	}
	plain, err := s.keys.OpenBytes(place(collection, id, revision), data)
	if err != nil {
		return fmt.Errorf("open %s %q: %w", collection, id, err)
	}
	return decode(plain, into)
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
	if r.Sealed, err = s.keys.SealBytes(leavesName+"/"+r.ID, plain); err != nil {
		return err
	}
	r.Notes, r.Warnings, r.LastError, r.Report = nil, nil, "", ""
	return nil
}

// openLeaf is the opposite of sealLeaf.
func (s *Store) openLeaf(r *leafRecord) error {
	if len(r.Sealed) == 0 {
		return nil
	}
	plain, err := s.keys.OpenBytes(leavesName+"/"+r.ID, r.Sealed)
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
