package status_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/outcome"
	"github.com/drover-io/drover/internal/status"
)

var update = flag.Bool("update", false, "rewrite the documents of testdata/drover")

// TestExamplesOfEMCO holds every example of EMCO's documentation that a query of rsync resources of a
// deployment intent group has, as it is printed there. These files are never rewritten.
func TestExamplesOfEMCO(t *testing.T) {
	for _, path := range files(t, "seed") {
		t.Run(name(path), func(t *testing.T) {
			a := parse(t, path)
			require.Empty(t, cmp.Diff(indent(t, section(t, a, "want.json")), document(t, a)))
		})
	}
}

// TestDocuments holds what EMCO's examples leave open; -update rewrites the files.
func TestDocuments(t *testing.T) {
	for _, path := range files(t, "drover") {
		t.Run(name(path), func(t *testing.T) {
			a := parse(t, path)
			got := document(t, a)
			if *update {
				a.Files = append(a.Files[:2], txtar.File{Name: "want.json", Data: []byte(got)})
				require.NoError(t, os.WriteFile(path, txtar.Format(a), 0o644))
			}
			require.Empty(t, cmp.Diff(indent(t, section(t, a, "want.json")), got))
		})
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", dir, "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	return paths
}

func name(path string) string { return strings.TrimSuffix(filepath.Base(path), ".txtar") }

func parse(t *testing.T, path string) *txtar.Archive {
	t.Helper()
	a, err := txtar.ParseFile(path)
	require.NoError(t, err)
	return a
}

func section(t *testing.T, a *txtar.Archive, name string) string {
	t.Helper()
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	t.Fatalf("no section %q", name)
	return ""
}

// document is what the query of the archive makes of its source, indented as EMCO prints its examples.
func document(t *testing.T, a *txtar.Archive) string {
	t.Helper()
	q := parseQuery(t, strings.TrimSpace(section(t, a, "query")))
	s := newSource(t, strings.TrimSpace(section(t, a, "source")))
	contextID, err := q.ContextID(s.History)
	require.NoError(t, err)
	require.Equal(t, s.ContextID, contextID, "the query is about another context than the source")
	return indent(t, write(t, q, s))
}

func parseQuery(t testing.TB, query string) status.Query {
	t.Helper()
	u, err := url.Parse(query)
	require.NoError(t, err)
	q, err := status.ParseQuery(u.Query())
	require.NoError(t, err)
	return q
}

func write(t testing.TB, q status.Query, s status.Source) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, status.Write(&b, q, s))
	require.True(t, strings.HasSuffix(b.String(), "}\n"), "a document ends with one newline")
	return b.String()
}

func indent(t *testing.T, doc string) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, json.Indent(&b, []byte(strings.TrimSpace(doc)), "", "  "))
	return b.String() + "\n"
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		query, source string
		want          string // beginning of the text
	}{
		"an app that the context does not have": {
			"?app=sink&app=foo", "vfw", "Filter app foo not in list of apps for composite app compositevfw",
		},
		"an app that the context does not have, in a summary": {
			"?app=foo&output=summary", "vfw", "Filter app foo not in list of apps for composite app compositevfw",
		},
		"an app that the context does not have, in a list": {
			"?clusters&app=foo", "vfw", "Filter app foo not in list of apps for composite app compositevfw",
		},
		"an app that the context does not have, in the clusters": {
			"?type=cluster&app=foo", "vfw-reported", "Filter app foo not in list of apps for composite app compositevfw",
		},
		"an app that the context does not have, in a list of resources in the clusters": {
			"?resources&status=ready&app=foo", "vfw-reported", "Filter app foo not in list of apps for composite app compositevfw",
		},
	} {
		t.Run(name, func(t *testing.T) {
			q, s := parseQuery(t, c.query), newSource(t, c.source)
			var b strings.Builder
			err := status.Write(&b, q, s)
			require.True(t, fail.Is(err, fail.Invalid), "%v", err)
			require.True(t, strings.HasPrefix(fail.TextOf(err), c.want), "%v", err)
			require.Empty(t, b.String(), "nothing is written before the refusal")
			_, err = status.Summary(q, s)
			require.True(t, fail.Is(err, fail.Invalid), "%v", err)
		})
	}
}

// TestNoAppIsRefusedWhereNoneIsKnown: the apps of a group that was migrated are those of the group that has them now.
func TestNoAppIsRefusedWhereNoneIsKnown(t *testing.T) {
	for _, of := range []domain.ContextStatus{domain.ContextUpdated, domain.ContextInstantiating} {
		for _, query := range []string{"?app=sink", "?app=sink&status=deployed", "?app=sink&output=summary", "?app=sink&type=cluster", "?app=sink&status=ready", "?app=sink&clusters", "?app=sink&resources"} {
			s := newSource(t, "vfw-reported")
			s.Status, s.Apps, s.Counts, s.Observations = of, nil, nil, nil
			require.NotContains(t, write(t, parseQuery(t, query), s), `"sink"`, query)
		}
	}
}

// TestCountsAgreeWithWhatIsListed reads documents back: for every source, form and filter the counts are
// those of the resources in the document, and those of Summary.
func TestCountsAgreeWithWhatIsListed(t *testing.T) {
	for source := range sources {
		for _, query := range []string{
			"?", "?output=detail", "?status=deployed", "?status=deployed&output=detail",
			"?cluster=vfw-cluster-provider%2Bedge02", "?resource=fw0-sink&resource=r1&status=deployed",
			"?resource=sink-service&cluster=vfw-cluster-provider%2Bedge01", "?resource=nothing",
		} {
			t.Run(source+query, func(t *testing.T) {
				q, s := parseQuery(t, query), newSource(t, source)
				var doc struct {
					Kebab map[domain.ResourceState]int `json:"rsync-status"`
					Camel map[domain.ResourceState]int `json:"deployedCounts"`
					shownClusters[struct {
						Resources []struct {
							Kebab domain.ResourceState `json:"rsync-status"`
							Camel domain.ResourceState `json:"deployedStatus"`
						}
					}]
				}
				require.NoError(t, json.Unmarshal([]byte(write(t, q, s)), &doc))
				listed := map[domain.ResourceState]int{}
				for _, c := range doc.clusters(t, s) {
					require.True(t, len(c.Resources) > 0 || s.Subject == status.SubjectNetworks, "nothing is empty but the one cluster")
					for _, r := range c.Resources {
						listed[r.Kebab+r.Camel]++
					}
				}
				shown := outcome.Rollup(doc.Kebab, doc.Camel)
				require.Empty(t, cmp.Diff(listed, shown))
				summary, err := status.Summary(q, s)
				require.NoError(t, err)
				require.Empty(t, cmp.Diff(listed, summary))
			})
		}
	}
}

// shownClusters are the clusters that a document shows: in its apps, or the one.
type shownClusters[C any] struct {
	Apps    []struct{ Clusters []C }
	Cluster *C
}

func (d shownClusters[C]) clusters(t *testing.T, s status.Source) (all []C) {
	t.Helper()
	require.Equal(t, s.Subject == status.SubjectNetworks, d.Cluster != nil)
	if d.Cluster != nil {
		require.Empty(t, d.Apps)
		return []C{*d.Cluster}
	}
	for _, app := range d.Apps {
		require.NotEmpty(t, app.Clusters)
		all = append(all, app.Clusters...)
	}
	return all
}

func TestCountsOfTheContextAnswerASummary(t *testing.T) {
	counted := map[domain.ResourceState]int{
		domain.ResourceApplied: 7, domain.ResourcePending: 1, domain.ResourceRetrying: 2, domain.ResourceFailed: 0,
	}
	for name, c := range map[string]struct {
		query string
		want  map[domain.ResourceState]int
	}{
		"as they are in a summary": {
			"?output=summary",
			map[domain.ResourceState]int{domain.ResourceApplied: 7, domain.ResourcePending: 1, domain.ResourceRetrying: 2},
		},
		"without Retrying in the form that has none": {
			"?output=summary&status=deployed",
			map[domain.ResourceState]int{domain.ResourceApplied: 7, domain.ResourcePending: 3},
		},
		"but not behind a filter": {
			"?output=summary&app=sink", map[domain.ResourceState]int{domain.ResourceApplied: 6},
		},
		"and not beside a list of resources": {
			"?output=all", map[domain.ResourceState]int{domain.ResourceApplied: 12},
		},
	} {
		t.Run(name, func(t *testing.T) {
			q, s := parseQuery(t, c.query), newSource(t, "vfw")
			s.Counts = counted
			if q.CountsSuffice() {
				s.Apps = nil
			}
			got, err := status.Summary(q, s)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(c.want, got))
		})
	}
}

// chunks records what reaches the reader; it fails after a number of writes when that is not 0.
type chunks struct {
	writes, largest, total int
	failAfter              int
}

var errGone = errors.New("reader has gone")

func (c *chunks) Write(p []byte) (int, error) {
	c.writes++
	if c.failAfter > 0 && c.writes > c.failAfter {
		return 0, errGone
	}
	c.largest = max(c.largest, len(p))
	c.total += len(p)
	return len(p), nil
}

func TestALargeDocumentIsWrittenInPieces(t *testing.T) {
	var w chunks
	require.NoError(t, status.Write(&w, parseQuery(t, "?"), fleet(2, 300, 20)))
	require.Greater(t, w.total, 1<<20)
	require.LessOrEqual(t, w.largest, 64<<10)
}

func TestADocumentEndsWhenItsReaderHasGone(t *testing.T) {
	w := chunks{failAfter: 2}
	err := status.Write(&w, parseQuery(t, "?"), fleet(2, 300, 20))
	require.ErrorIs(t, err, errGone)
	require.Equal(t, 3, w.writes, "nothing is written after the first error")
}

func TestAManifestThatIsNotJSONIsInternal(t *testing.T) {
	s := newSource(t, "vfw")
	s.Manifest = func(app string, _, index int) (json.RawMessage, error) {
		if app == "sink" && index == 1 {
			return json.RawMessage(`{"kind":`), nil
		}
		return json.RawMessage(`{}`), nil
	}
	var b strings.Builder
	require.True(t, fail.Is(status.Write(&b, parseQuery(t, "?output=detail"), s), fail.Internal))
	require.NoError(t, status.Write(&b, parseQuery(t, "?output=detail&app=firewall"), s))
	require.NoError(t, status.Write(&b, parseQuery(t, "?output=all"), s), "only detail asks for manifests")
}

// What users should know of what is applied is in detail only, and Secrets are masked there.
func TestDetailHasWarningsAndNoSecrets(t *testing.T) {
	t.Parallel()
	s := newSource(t, "vfw")
	s.Manifest = func(string, int, int) (json.RawMessage, error) {
		return json.RawMessage(`{"apiVersion":"v1","kind":"Secret","stringData":{"password":"masked"}}`), nil
	}
	for i := range s.Apps {
		for j := range s.Apps[i].Clusters {
			s.Apps[i].Clusters[j].Warnings = []domain.Note{
				{Index: domain.WholeCluster, Message: "of the cluster"}, {Index: 0, Message: "of the first"}, {Index: 0, Message: "of the first, too"},
			}
		}
	}
	for _, query := range []string{"?output=detail", "?type=rsync&output=detail&status=deployed"} {
		detail := write(t, parseQuery(t, query), s)
		require.Contains(t, detail, `"warnings":["of the cluster"]`)
		require.Contains(t, detail, `"warnings":["of the first","of the first, too"]`)
		require.Contains(t, detail, `"password":"masked"`)
	}
	require.NotContains(t, write(t, parseQuery(t, "?output=all"), s), "warnings")
}
