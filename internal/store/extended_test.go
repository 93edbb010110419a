package store

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/version"
)

var updateMembers = flag.Bool("update", false, "add new members to testdata/members.txt")

// documentTypes are what is stored with a version, by what extended calls it. Plans and bundles have plan.Known.
func documentTypes() map[string][]reflect.Type {
	types := map[string][]reflect.Type{
		instances:    {reflect.TypeFor[instance]()},
		sessions:     {reflect.TypeFor[domain.Session]()},
		leavesName:   {reflect.TypeFor[leafRecord]()},
		ledgerValues: {reflect.TypeFor[domain.Match](), reflect.TypeFor[domain.Workload]()},
		"plans":      {reflect.TypeFor[plan.Plan](), reflect.TypeFor[plan.Bundle]()},
	}
	for _, n := range domain.Nouns {
		if n.New != nil {
			types[n.Kind] = []reflect.Type{reflect.TypeOf(n.New()).Elem()}
		}
	}
	return types
}

// droppable are members without a version, each with what its absence means. A build that does not know one drops it when it writes the
// document again, and says nothing that is not so.
var droppable = map[string]string{
	"instances.runs.sound": "nobody knows whether all that was sent is recorded: clusters are asked",
}

// members adds the members of a type to a list: each with its path and its type, and "may be missing" where it is left out when it is empty.
func members(list *[]string, path string, t reflect.Type, above []reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() || slices.Contains(above, t) {
		return
	}
	above = append(slices.Clone(above), t)
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("bson")
		if !tagged {
			tag = f.Tag.Get("json")
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if strings.Contains(options, "inline") || f.Anonymous && name == "" {
			members(list, path, f.Type, above)
			continue
		}
		if name == "" {
			name = strings.ToLower(f.Name)
		}
		line := fmt.Sprintf("%s.%s %s", path, name, f.Type)
		if strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero") {
			line += " may be missing"
		}
		*list = append(*list, line)
		members(list, path+"."+name, f.Type, above)
	}
}

// TestMembersOfDocuments: documents that are stored keep the members that they have had, with their types, and what is added is a version.
// Else a build of before would drop the member when it writes the document again, or not find what it looks for.
func TestMembersOfDocuments(t *testing.T) {
	var now []string
	for kind, types := range documentTypes() {
		for _, of := range types {
			path := kind
			if len(types) > 1 {
				path += ":" + of.Name()
			}
			members(&now, path, of, nil)
		}
	}
	slices.Sort(now)
	file := filepath.Join("testdata", "members.txt")
	data, err := os.ReadFile(file)
	if !*updateMembers {
		require.NoError(t, err)
	}
	before := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for _, line := range before {
		if line != "" {
			require.Contains(t, now, line, "builds of before look for it; another layout (decision 0057) may change it")
		}
	}
	for _, line := range now {
		if slices.Contains(before, line) || len(data) == 0 {
			continue
		}
		path, _, _ := strings.Cut(line, " ")
		kind, member, _ := strings.Cut(path, ".")
		kind, _, _ = strings.Cut(kind, ":")
		isNew := !slices.ContainsFunc(before, func(l string) bool { return strings.HasPrefix(l, kind+".") || strings.HasPrefix(l, kind+":") })
		switch {
		case isNew: // a build of before does not look at what is of a kind that it does not know
		case kind == "plans":
			require.Positive(t, plan.Known, "%s is new: a build that does not know it must refuse the plan", line)
		case droppable[path] != "":
			require.Contains(t, line, "may be missing", "what is dropped is missing")
		default:
			require.True(t, isExtended(kind, member), "%s is new: add it to extended, with the next version", line)
			require.Contains(t, line, "may be missing", "else documents that do not use it would be refused by a build of before")
		}
		require.True(t, *updateMembers, "%s is new: run go test ./internal/store -run TestMembersOfDocuments -update", line)
	}
	if *updateMembers {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(now, "\n")+"\n"), 0o600))
	}
}

// isExtended says whether a member, or one that it is in, is an extension.
func isExtended(kind, member string) bool {
	return slices.ContainsFunc(extended[kind], func(e extension) bool {
		return member == e.member || strings.HasPrefix(member, e.member+".")
	})
}

// TestExtendedDocuments: what has a newer member has its version, and nothing else has.
func TestExtendedDocuments(t *testing.T) {
	was := extended
	t.Cleanup(func() { extended = was })
	extended = map[string][]extension{"projects": {{2, "spec.colour"}, {3, "spec.size"}}}
	for name, c := range map[string]struct {
		spec bson.D
		want int64
	}{
		"neither":   {bson.D{}, 1},
		"the older": {bson.D{{Key: "colour", Value: "red"}}, 2},
		"the newer": {bson.D{{Key: "size", Value: 7}}, 3},
		"both":      {bson.D{{Key: "size", Value: 7}, {Key: "colour", Value: "red"}}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := versionFor("projects", func() (bson.D, error) { return marshal(bson.D{{Key: "spec", Value: c.spec}}) })
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	require.Equal(t, int64(3), knownVersion("projects"))
	require.Equal(t, int64(1), knownVersion("clusters"))
	require.Equal(t, "leaves", undivided("leaves-07"))
	require.Equal(t, "composite-apps", undivided("composite-apps"))
	document, err := bson.Marshal(bson.D{{Key: "_id", Value: "projects/p"}, {Key: "v", Value: 4}})
	require.NoError(t, err)
	err = refuseNewer("projects", document)
	require.True(t, fail.Is(err, fail.Unavailable))
	require.ErrorContains(t, err, `document "projects/p" of projects has version 4`)
	require.ErrorContains(t, err, "knows versions up to 3")
}

// TestWorkloadsOfANewerBuild are not changed, whatever would change them, and others are.
func TestWorkloadsOfANewerBuild(t *testing.T) {
	value := func(id string, more ...bson.E) []byte {
		members, err := marshal(&domain.Workload{Tenant: "t", ID: id, Held: true})
		require.NoError(t, err)
		data, err := bson.Marshal(append(members, more...))
		require.NoError(t, err)
		return data
	}
	newer := value("newer", bson.E{Key: "colour", Value: "red"}, bson.E{Key: versionMember, Value: int64(2)})
	for name, c := range map[string]struct {
		write   domain.WorkloadWrite
		refused bool
	}{
		"put":               {domain.WorkloadWrite{Put: []*domain.Workload{{Tenant: "t", ID: "newer"}}}, true},
		"deleted":           {domain.WorkloadWrite{Delete: []string{"newer"}}, true},
		"gone":              {domain.WorkloadWrite{Delete: []string{"newer"}, Gone: time.UnixMilli(1)}, true},
		"not listed":        {domain.WorkloadWrite{Whole: true, Keep: []string{"older"}}, true},
		"held":              {domain.WorkloadWrite{Whole: true, Keep: []string{"older"}, Guard: 1}, true},
		"another one, put":  {domain.WorkloadWrite{Put: []*domain.Workload{{Tenant: "t", ID: "older"}}}, false},
		"another one, gone": {domain.WorkloadWrite{Whole: true, Keep: []string{"newer"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var encoded []put
			for _, w := range c.write.Put {
				data, err := encodeValue(w)
				require.NoError(t, err)
				encoded = append(encoded, put{w.ID, data})
			}
			b := &book{known: known{values: map[string][]byte{"newer": newer, "older": value("older")}}}
			puts, _, err := decide(&c.write, b, encoded)
			if !c.refused {
				require.NoError(t, err)
				require.Len(t, puts, 1)
				return
			}
			require.ErrorIs(t, err, version.ErrNewer)
			require.ErrorContains(t, err, `"newer" of values of ledgers has version 2`)
			require.Empty(t, puts)
		})
	}
}
