package limits_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/limits"
)

var update = flag.Bool("update", false, "rewrite the table of docs/limits.md")

// named is a size with the words for it in a failure.
type named struct {
	name  string
	bytes int64
}

// TestSizesAreInOrder: what one side takes is not too large for the next.
func TestSizesAreInOrder(t *testing.T) {
	for reason, chain := range map[string][]named{
		"a form has room for the largest document and a chart many times as large": {{"16 JSON and FormParts", 16*limits.JSON + limits.FormParts}, {"Body", limits.Body}},
		"what was uploaded can be stored":                                          {{"Body", limits.Body}, {"Blob", limits.Blob}},
		"what was rendered can be stored":                                          {{"Bundle", limits.Bundle}, {"Blob", limits.Blob}},
		"chart and profile of any --max-body fit the request to a process":         {{"Body and Body", 2 * limits.Body}, {"a frame", math.MaxInt32}},
		"a document that came fits the database, which knows more of it":           {{"JSON", limits.JSON}, {"Document", limits.Document}},
		"a chunk of a blob fits a document with its head":                          {{"Chunk and its head", limits.Chunk + 1<<10}, {"Document", limits.Document}},
		"an archive that may be uploaded may be opened":                            {{"Body", limits.Body}, {"Expanded", limits.Expanded}},
		"a process can hold a chart and its files":                                 {{"Body and Expanded", limits.Body + limits.Expanded}, {"RenderMemory", limits.RenderMemory}},
		"no file is as large as what all of them write, or are":                    {{"Parsed", limits.Parsed}, {"Written", limits.Written}, {"Expanded", limits.Expanded}},
		"text is larger as JSON, and crds directories come to it":                  {{"twice Written", 2 * limits.Written}, {"Bundle", limits.Bundle}},
		"the stack ends before the memory":                                         {{"RenderStack", limits.RenderStack}, {"RenderMemoryLeast", limits.RenderMemoryLeast}, {"RenderMemory", limits.RenderMemory}},
		"a cell fits a table as it is shown, which keeps more than it shows": {
			{"Cell", limits.Cell}, {"TableResult", limits.TableResult}, {"Table", limits.Table},
		},
		"a text that an expression makes may be too long for a cell, and is not for a table": {
			{"Cell", limits.Cell}, {"ExpressionText", limits.ExpressionText}, {"Table", limits.Table},
		},
		"an answer may have several tables of the largest, and a stream keeps several answers": {
			{"Table", limits.Table}, {"Tables", limits.Tables}, {"Streams", limits.Streams},
		},
		"the largest answer with its documents and their JSON fits what a caller has": {
			{"Tables and twice TablesJSON", limits.Tables + 2*limits.TablesJSON}, {"half of what is left of Answers, and a byte", (limits.Answers-limits.AnswersAtOnce*limits.AnswerFirst)/2 + 1},
		},
		"a difference shows several values, and compares what an object may have": {
			{"DiffValue", limits.DiffValue}, {"Etcd", limits.Etcd}, {"DiffManifest", limits.DiffManifest}, {"DiffItem", limits.DiffItem},
			{"DiffPage and a byte", limits.DiffPage + 1},
		},
		"the values from other hosts that a group may have are more than all of them may have together": {
			{"ExternalValue", limits.ExternalValue}, {"Varied", limits.Varied}, {"all of the largest", limits.ExternalValue * limits.ExternalValues},
		},
		"a worker holds several of the clusters that have most": {
			{"WatchedLeast", limits.WatchedLeast}, {"ClusterHeld", limits.ClusterHeld}, {"Watched", limits.Watched},
		},
		"the ratio counts before all is expanded": {{"RatioFrom", limits.RatioFrom}, {"Expanded", limits.Expanded}},
		"a status fits etcd with what is around it, and an object is read as a whole": {
			{"StatusLeast", limits.StatusLeast}, {"Status", limits.Status}, {"Etcd", limits.Etcd}, {"ClusterAnswer", limits.ClusterAnswer},
		},
	} {
		for i := range chain[1:] {
			less, more := chain[i], chain[i+1]
			require.Less(t, less.bytes, more.bytes, "%s: %s must be less than %s", reason, less.name, more.name)
		}
	}
}

// What the documentation says is what holds.
func TestDocumentation(t *testing.T) {
	var table strings.Builder
	table.WriteString("| key | of | limit | flag | for more one gets |\n|---|---|---|---|---|\n")
	for _, s := range append(limits.All(limits.Body, limits.RenderMemory, limits.Watched), limits.Fairly().Sizes()...) {
		set := ""
		if s.Flag != "" {
			set = "`--" + s.Flag + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", s.Key, s.Of, s.Text(), set, s.Answer)
	}
	const name, begin, end = "../../docs/limits.md", "<!-- table -->\n", "<!-- end -->\n"
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	before, rest, _ := strings.Cut(string(text), begin)
	_, after, found := strings.Cut(rest, end)
	require.True(t, found, "%s has no place for the table", name)
	want := before + begin + table.String() + end + after
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(want), 0o600))
		return
	}
	require.Equal(t, want, string(text), "go test ./internal/limits -update writes it")
}

func TestText(t *testing.T) {
	for want, s := range map[string]limits.Size{
		"none": {Bytes: true}, "200": {Value: 200}, "1000 B": {Value: 1000, Bytes: true}, "64 KiB": {Value: 64 << 10, Bytes: true},
		"1536 KiB": {Value: limits.Etcd, Bytes: true}, "256 MiB": {Value: 256 << 20, Bytes: true}, "2 GiB": {Value: 2 << 30, Bytes: true},
	} {
		require.Equal(t, want, s.Text())
	}
}
