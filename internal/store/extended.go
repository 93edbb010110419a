package store

import (
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/version"
)

// A document has the version of the newest of its members (decision 0085). A build that does not know that version refuses the document:
// it would not see the member, and lose it when it writes the document again. A document in which no newer member says anything has the version
// that it always had, so that older and newer processes work side by side until somebody uses what is new.

// versionMember has a document's version. A document without it has the first one.
const (
	versionMember = "v"
	firstVersion  = 1
)

// extension is a member that documents have got after the first version, as a path with dots. It is left out of documents when it is
// empty (omitempty).
type extension struct {
	version int64
	member  string
}

// extended are the extensions of the documents of a collection, the last ones the newest. Who adds a member to a document adds it here:
// TestMembersOfDocuments says when one is missing.
var extended = map[string][]extension{
	"deployment-intent-groups": {{2, "reviewing"}, {2, "review"}},
	sessions:                   {{2, "ended"}},
}

// knownVersion is the newest version of documents of a collection that this build knows.
func knownVersion(collection string) int64 {
	known := int64(firstVersion)
	for _, e := range extended[collection] {
		known = max(known, e.version)
	}
	return known
}

// versionFor is the version of a document of a collection that is about to be stored with members.
func versionFor(collection string, members func() (bson.D, error)) (int64, error) {
	has := int64(firstVersion)
	if len(extended[collection]) == 0 {
		return has, nil
	}
	d, err := members()
	if err != nil {
		return 0, err
	}
	for _, e := range extended[collection] {
		if says(d, strings.Split(e.member, ".")) {
			has = max(has, e.version)
		}
	}
	return has, nil
}

// says whether members have one at a path. What they are is not encoded for that: marshal has done it.
func says(members bson.D, path []string) bool {
	at := slices.IndexFunc(members, func(e bson.E) bool { return e.Key == path[0] })
	if at < 0 || len(path) == 1 {
		return at >= 0
	}
	value, _ := members[at].Value.(bson.RawValue)
	below, ok := value.DocumentOK()
	if !ok {
		return false
	}
	_, err := below.LookupErr(path[1:]...)
	return err == nil
}

// refuseNewer is an error for a document of a version that this build does not know.
func refuseNewer(collection string, document bson.Raw) error {
	has, ok := document.Lookup(versionMember).AsInt64OK()
	if !ok || has <= firstVersion {
		return nil
	}
	id, _ := document.Lookup("_id").StringValueOK()
	collection = undivided(collection)
	return version.Refuse(fmt.Sprintf("document %q of %s", id, collection), has, knownVersion(collection))
}

// refuseNewerValue is refuseNewer for a value of a ledger, nil for none, which has no _id.
func refuseNewerValue(id string, value []byte) error {
	has, _ := bson.Raw(value).Lookup(versionMember).AsInt64OK()
	return version.Refuse(fmt.Sprintf("%q of %s", id, ledgerValues), has, knownVersion(ledgerValues))
}

// isNewer says whether refuseNewerValue refuses a value.
func isNewer(id string, value []byte) bool { return refuseNewerValue(id, value) != nil }
