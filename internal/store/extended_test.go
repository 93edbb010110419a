package store

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
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

var updateMembers = flag.Bool("update", false, "add new members to testdata/members.txt, and versions to testdata/versions.txt")

// documentTypes are what is stored with a version, by what extended calls it. Plans and bundles have plan.Known.
func documentTypes() map[string][]reflect.Type {
	types := map[string][]reflect.Type{
		instances:    {reflect.TypeFor[instance]()},
		homes:        {reflect.TypeFor[homeDoc]()},
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
	"plans:Plan.held":                    "what an update has left in clusters may go with its namespace or CRD, and others may have it, as before there was the member; production.md says so",
	"instances.lost":                     "sound is dropped with it, so that the next operation asks the clusters; it counts for later ones alone, and v0.1.0 does not go by it",
	"instances.runs.sound":               "nobody knows whether all that was sent is recorded: clusters are asked",
	"values of ledgers:Match.made.label": "the label is that of the tenant there is, or of the home of the one that has gone, as it was before",
	"plans:Plan.apps.expires":            "a Job that has gone by itself is shown as one that is missing, as it was before; nothing is done otherwise",
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

// TestMembersOfDocuments: documents that are stored keep the members that they have had, with their types, and what no release has is a
// version that no release knows. Else a release would drop the member when it writes the document again, or not find what it looks for.
func TestMembersOfDocuments(t *testing.T) {
	now, versions := present()
	for _, line := range readLines(t, filepath.Join("testdata", membersFile)) {
		require.Contains(t, now, line, "builds of before look for it; another layout (decision 0057) may change it")
	}
	for file, lines := range map[string][]string{membersFile: now, versionsFile: versions} {
		file = filepath.Join("testdata", file)
		if *updateMembers {
			require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
		}
		before := readLines(t, file)
		for _, line := range lines {
			require.Contains(t, before, line, "it is new: run go test ./internal/store -run TestMembersOfDocuments -update")
		}
		require.Len(t, before, len(lines))
	}
	known := map[string]int64{"plans": plan.Known}
	for kind := range documentTypes() {
		if kind != "plans" {
			known[kind] = knownVersion(kind)
		}
	}
	for _, r := range releasesOf(t) {
		require.Empty(t, r.wrong(now, known, extended), "compared with %s", r.name)
	}
}

// The lists in testdata, and in a folder there for each release: the members of documents, and the versions of each kind that are known.
const (
	membersFile  = "members.txt"
	versionsFile = "versions.txt"
)

// present are the lines of the lists as this code has them.
func present() (of, versions []string) {
	for kind, types := range documentTypes() {
		for _, t := range types {
			path := kind
			if len(types) > 1 {
				path += ":" + t.Name()
			}
			members(&of, path, t, nil)
		}
		known := knownVersion(kind)
		if kind == "plans" {
			known = plan.Known
		}
		versions = append(versions, fmt.Sprint(kind, " ", known))
	}
	slices.Sort(of)
	slices.Sort(versions)
	return of, versions
}

func readLines(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err, "release.sh record puts the lists of a release there")
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// released is what a release knows of documents.
type released struct {
	name    string
	members []string
	known   map[string]int64 // versions, by kind
}

// releasesOf are the releases of docs/releases.txt.
func releasesOf(t *testing.T) (list []released) {
	t.Helper()
	for _, line := range readLines(t, filepath.Join("..", "..", "docs", "releases.txt")) {
		name, _, _ := strings.Cut(line, " ")
		if name == "#" || strings.Contains(name, "+") { // the latter was recorded later, of the same commit
			continue
		}
		r := released{name: name, known: map[string]int64{}, members: readLines(t, filepath.Join("testdata", name, membersFile))}
		for _, line := range readLines(t, filepath.Join("testdata", name, versionsFile)) {
			end := strings.LastIndex(line, " ")
			version, err := strconv.ParseInt(line[end+1:], 10, 64)
			require.NoError(t, err)
			r.known[line[:end]] = version
		}
		list = append(list, r)
	}
	require.NotEmpty(t, list)
	return list
}

// wrong says what of the present members the release would drop, or not find. Known are the versions that are known now.
func (r released) wrong(now []string, known map[string]int64, extended map[string][]extension) (wrong []string) {
	var before, after []string
	for _, line := range r.members {
		before = append(before, pathIn(line))
	}
	for _, line := range now {
		path := pathIn(line)
		if after = append(after, path); slices.Contains(before, path) {
			continue
		}
		kind, member, _ := strings.Cut(path, ".")
		kind, _, _ = strings.Cut(kind, ":")
		knew, isOld := r.known[kind]
		switch mayBeMissing := strings.HasSuffix(line, "may be missing"); {
		case isWithinDroppable(path):
		case !isOld: // the release does not look at what is of a kind that it does not know
		case member == versionMember: // which all releases look at
		case kind == "plans" && droppable[path] == "":
			if known[kind] <= knew {
				wrong = append(wrong, fmt.Sprintf("%s is new: the release must refuse the plan, and knows version %d", path, knew))
			}
		case !mayBeMissing:
			wrong = append(wrong, path+" is new and never missing: the release would refuse documents that do not use it")
		case droppable[path] != "":
		case versionOf(extended[kind], member) <= knew:
			wrong = append(wrong, fmt.Sprintf("%s is new: add it to extended, with a version after %d, which the release knows", path, knew))
		}
	}
	for _, path := range before {
		if !slices.Contains(after, path) {
			wrong = append(wrong, path+" is gone: the release looks for it")
		}
	}
	return wrong
}

// isWithinDroppable says whether a member goes with one that it is in.
func isWithinDroppable(path string) bool {
	for i, c := range path {
		if c == '.' && droppable[path[:i]] != "" {
			return true
		}
	}
	return false
}

// pathIn is the path of a member in its line. The name of a kind may have several words.
func pathIn(line string) string {
	kind, rest, _ := strings.Cut(line, ".")
	member, _, _ := strings.Cut(rest, " ")
	return kind + "." + member
}

// versionOf is that of a member, or of one that it is in; 0 for none.
func versionOf(of []extension, member string) (version int64) {
	for _, e := range of {
		if member == e.member || strings.HasPrefix(member, e.member+".") {
			version = max(version, e.version)
		}
	}
	return version
}

// TestWhatAReleaseWouldDrop is found, also where the release knows a version after the first.
func TestWhatAReleaseWouldDrop(t *testing.T) {
	r := released{
		members: []string{"projects.a string", "projects.b string may be missing", "plans:Plan.p string"},
		known:   map[string]int64{"projects": 2, "plans": 1, "instances": 1, ledgerValues: 1},
	}
	for name, c := range map[string]struct {
		member  string // a further one
		version int64
		plans   int64
		want    string
	}{
		"nothing new":               {"", 0, 1, ""},
		"without a version":         {"projects.c string may be missing", 0, 1, "with a version after 2"},
		"a version that it knows":   {"projects.c string may be missing", 2, 1, "with a version after 2"},
		"the next version":          {"projects.c string may be missing", 3, 1, ""},
		"never missing":             {"projects.c string", 3, 1, "never missing"},
		"of a kind that it has not": {"clouds.c string", 0, 1, ""},
		"of plans":                  {"plans:Plan.c string may be missing", 0, 1, "knows version 1"},
		"of plans, with a version":  {"plans:Plan.c string may be missing", 0, 2, ""},
		"one that may be dropped":   {"instances.runs.sound bool may be missing", 0, 1, ""},
		"of a ledger":               {"values of ledgers:Match.c string may be missing", 0, 1, "values of ledgers:Match.c is new"},
		"in one that has a version": {"projects.b.c string may be missing", 3, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			now := append(slices.Clone(r.members), c.member)
			of := map[string][]extension{"projects": {{2, "b"}}}
			if c.version > 0 {
				of["projects"] = append(of["projects"], extension{c.version, strings.TrimPrefix(pathIn(c.member), "projects.")})
			}
			wrong := r.wrong(slices.DeleteFunc(now, func(l string) bool { return l == "" }), map[string]int64{"projects": 3, "plans": c.plans}, of)
			if c.want == "" {
				require.Empty(t, wrong)
				return
			}
			require.Len(t, wrong, 1)
			require.Contains(t, wrong[0], c.want)
		})
	}
	require.Equal(t, []string{"projects.b is gone: the release looks for it"}, r.wrong([]string{r.members[0], r.members[2]}, r.known, nil))
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
	extended[homes] = []extension{{2, "leaving"}}
	for leaving, want := range map[bool]int64{false: 0, true: 2} { // the first one is not said
		home, err := homeDocument(&domain.Home{ContextID: "1", Leaving: leaving})
		require.NoError(t, err)
		require.Equal(t, want, home.Version)
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
