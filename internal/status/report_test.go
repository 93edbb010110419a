package status_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/view"
)

// reportedDocument is a document of what clusters report.
type reportedDocument struct {
	Kebab map[status.ClusterState]int `json:"cluster-status"`
	Camel map[status.ClusterState]int `json:"readyCounts"`
	Ready status.ClusterState         `json:"readyStatus"`
	shownClusters[struct {
		Connectivity domain.Connectivity `json:"connectivity"`
		Stale        bool                `json:"stale"`
		Resources    []struct {
			Name   string              `json:"name"`
			Reason string              `json:"reason"`
			Kebab  status.ClusterState `json:"cluster-status"`
			Camel  status.ClusterState `json:"readyStatus"`
		}
	}]
}

// TestReportedCountsAgreeWithWhatIsListed reads documents back, of every source, form and filter: counts
// are those of the resources in the document, a summary has the same, and nothing good is said of a
// cluster that is not heard.
func TestReportedCountsAgreeWithWhatIsListed(t *testing.T) {
	for source := range sources {
		for _, query := range []string{
			"?type=cluster", "?type=cluster&output=detail", "?status=ready", "?status=ready&output=detail",
			"?type=cluster&cluster=vfw-cluster-provider%2Bedge02", "?status=ready&cluster=vfw-cluster-provider%2Bedge02",
			"?type=cluster&resource=fw0-sink&resource=r1", "?status=ready&resource=fw0-sink-8b7557f65-ppkfp", "?status=ready&resource=nothing",
		} {
			t.Run(source+query, func(t *testing.T) {
				kebab := strings.Contains(query, "type=cluster")
				s := newSource(t, source)
				doc := readReported(t, query, s)
				listed := map[status.ClusterState]int{}
				for _, c := range doc.clusters(t, s) {
					require.True(t, len(c.Resources) > 0 || s.Subject == status.SubjectNetworks, "nothing is empty but the one cluster")
					for _, r := range c.Resources {
						state := r.Camel
						if kebab {
							if state = r.Kebab; state == "" {
								state = status.ClusterPresent // inherently
							}
						}
						if state != "" {
							listed[state]++
						}
						if c.Stale || r.Reason != "" {
							require.NotContains(t, []status.ClusterState{status.ClusterPresent, status.ClusterReady}, state, r.Name)
							require.Equal(t, c.Stale, c.Connectivity == domain.ConnectivityRetrying)
							require.NotEqual(t, status.ClusterReady, doc.Ready)
						}
					}
				}
				require.Empty(t, cmp.Diff(listed, merged(doc)))
				summary := readReported(t, query+"&output=summary", newSource(t, source))
				if !strings.Contains(query, "output") {
					require.Empty(t, cmp.Diff(listed, merged(summary)))
					require.Equal(t, doc.Ready, summary.Ready)
					for _, c := range summary.clusters(t, s) {
						require.Empty(t, c)
					}
				}
			})
		}
	}
}

func readReported(t *testing.T, query string, s status.Source) reportedDocument {
	t.Helper()
	var doc reportedDocument
	require.NoError(t, json.Unmarshal([]byte(write(t, parseQuery(t, query), s)), &doc))
	return doc
}

func merged(doc reportedDocument) map[status.ClusterState]int {
	counts := map[status.ClusterState]int{}
	for _, m := range []map[status.ClusterState]int{doc.Kebab, doc.Camel} {
		for k, v := range m {
			counts[k] += v
		}
	}
	return counts
}

func TestWhenEverythingIsReady(t *testing.T) {
	for name, c := range map[string]struct {
		query, source string
		want          status.ClusterState
	}{
		"all is ready": {"?status=ready", "vfw-reported", status.ClusterReady},
		"a cluster without reports that is filtered out does not count": {
			"?status=ready&cluster=vfw-cluster-provider%2Bedge01", "vfw-cut-off", status.ClusterReady,
		},
		"nothing that the filter leaves":         {"?status=ready&resource=nothing", "vfw-reported", status.ClusterNotReady},
		"what nobody judges, and a filter names": {"?status=ready&resource=r1-sec", "web-emco", status.ClusterReady},
		"no report at all":                       {"?status=ready", "vfw-no-report", status.ClusterNotReady},
		"a report, but the cluster cannot be heard": {
			"?status=ready&output=summary", "vfw-cut-off", status.ClusterNotReady,
		},
		"a kind that cannot be heard": {"?status=ready&output=summary", "vfw-unheard", status.ClusterNotReady},
		"a kind that cannot be heard, behind a filter": {
			"?status=ready&resource=sink-configmap", "vfw-unheard", status.ClusterReady,
		},
		"never instantiated": {"?status=ready", "vfw-reported-approved", ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, readReported(t, c.query, newSource(t, c.source)).Ready)
		})
	}
}

// TestAClusterThatIsNotHeardIsNotReady holds even where no kind is watched, so that nothing is NotPresent.
func TestAClusterThatIsNotHeardIsNotReady(t *testing.T) {
	s := newSource(t, "web-emco")
	other := s.Apps[0].Clusters[0]
	other.Name = "k2"
	s.Apps[0].Clusters = append(s.Apps[0].Clusters, other)
	s.Apps[0].Resources = s.Apps[0].Resources[:1] // the Secret
	doc := readReported(t, "?status=ready&resource=r1-sec&resource=r1-svc", s)
	require.Equal(t, map[status.ClusterState]int{status.ClusterReady: 1}, doc.Camel)
	require.Equal(t, status.ClusterNotReady, doc.Ready)
}

func TestConnectivityIsThatOfTheReports(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *view.Cluster, o *view.Observation)
		want   domain.Connectivity
	}{
		"heard": {func(*view.Cluster, *view.Observation) {}, domain.ConnectivityAvailable},
		"heard, while the work on it is not getting through": {
			func(c *view.Cluster, _ *view.Observation) { c.Connectivity = domain.ConnectivityRetrying }, domain.ConnectivityAvailable,
		},
		"cut off": {func(_ *view.Cluster, o *view.Observation) { o.Connected = false }, domain.ConnectivityRetrying},
		"never reported, but heard once": {
			func(_ *view.Cluster, o *view.Observation) {
				*o = view.Observation{ClusterName: o.ClusterName, LastSeen: cutOff}
			},
			domain.ConnectivityRetrying,
		},
		"never heard, and the work on it is not getting through": {
			func(c *view.Cluster, o *view.Observation) {
				*o, c.Connectivity = view.Observation{ClusterName: o.ClusterName}, domain.ConnectivityRetrying
			}, domain.ConnectivityRetrying,
		},
		"never heard, and the work on it is done": {
			func(_ *view.Cluster, o *view.Observation) { *o = view.Observation{ClusterName: o.ClusterName} },
			domain.ConnectivityUnknown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := newSource(t, "vfw"), vfwReported(t)
			s.Namespace, s.Observations = "default", r.observations
			c.change(&s.Apps[1].Clusters[0], r["firewall"][0])
			doc := readReported(t, "?status=ready&app=firewall&cluster=vfw-cluster-provider%2Bedge01", s)
			require.Equal(t, c.want, doc.Apps[0].Clusters[0].Connectivity)
		})
	}
}

// TestOnlyWhatIsNeededIsRead counts what documents ask for.
func TestOnlyWhatIsNeededIsRead(t *testing.T) {
	const edge02 = "&cluster=vfw-cluster-provider%2Bedge02"
	for query, want := range map[string]struct {
		sequences, objects int
		named              bool // clusters are asked for by name
	}{
		"?type=cluster":                         {sequences: 3},
		"?type=cluster&output=summary":          {sequences: 3},
		"?type=cluster&app=sink":                {sequences: 1},
		"?type=cluster&app=sink" + edge02:       {sequences: 1, named: true},
		"?type=cluster&output=detail&app=sink":  {sequences: 2, objects: 8},
		"?resources&type=cluster":               {sequences: 3},
		"?resources&status=ready":               {sequences: 3},
		"?status=ready&app=sink":                {sequences: 1, objects: 8}, // nothing was judged on arrival
		"?status=ready&app=sink&output=detail":  {sequences: 2, objects: 24},
		"?status=ready&resource=sink-configmap": {sequences: 3, objects: 2},
		"?clusters&type=cluster":                {},
		"?apps&status=ready":                    {},
		"?":                                     {},
		"?status=deployed&output=detail":        {},
	} {
		t.Run(query, func(t *testing.T) {
			s := newSource(t, "vfw-reported")
			sequences, objects := 0, 0
			all := s.Observations
			s.Observations = func(app string, clusters []domain.ClusterName) iter.Seq2[*view.Observation, error] {
				sequences++
				require.Equal(t, want.named, len(clusters) > 0)
				return func(yield func(*view.Observation, error) bool) {
					for o, err := range all(app, clusters) {
						counting := *o
						counting.Object = func(i int) (json.RawMessage, error) { objects++; return o.Object(i) }
						if !yield(&counting, err) {
							return
						}
					}
				}
			}
			q := parseQuery(t, query)
			write(t, q, s)
			require.Equal(t, want.sequences, sequences, "sequences")
			require.Equal(t, want.objects, objects, "objects")
			require.Equal(t, want.sequences > 0, q.Reported())
		})
	}
}

func TestAnErrorOfTheObservationsIsReturned(t *testing.T) {
	gone := fail.New(fail.Unavailable, "the store does not answer")
	broken := func(app string, read int) func(view.Observations) view.Observations {
		return func(all view.Observations) view.Observations {
			return func(name string, clusters []domain.ClusterName) iter.Seq2[*view.Observation, error] {
				if name == app {
					if read--; read == 0 {
						return func(yield func(*view.Observation, error) bool) { yield(nil, gone) }
					}
				}
				return all(name, clusters)
			}
		}
	}
	for name, c := range map[string]struct {
		query   string
		breakIt func(view.Observations) view.Observations
	}{
		"while counting":              {"?type=cluster", broken("sink", 1)},
		"while a list is written":     {"?resources&type=cluster", broken("sink", 1)},
		"while objects are read":      {"?type=cluster&output=detail", broken("sink", 2)},
		"of an object for its detail": {"?type=cluster&output=detail", unreadable(gone)},
		"of an object to be judged":   {"?status=ready", unreadable(gone)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t, "vfw-reported")
			s.Observations = c.breakIt(s.Observations)
			var b strings.Builder
			require.ErrorIs(t, status.Write(&b, parseQuery(t, c.query), s), gone)
			require.Empty(t, b.String(), "a short document has not been sent before the error")
		})
	}
}

func unreadable(err error) func(view.Observations) view.Observations {
	return func(all view.Observations) view.Observations {
		return func(app string, clusters []domain.ClusterName) iter.Seq2[*view.Observation, error] {
			return func(yield func(*view.Observation, error) bool) {
				for o := range all(app, clusters) {
					o.Object = func(int) (json.RawMessage, error) { return nil, err }
					if !yield(o, nil) {
						return
					}
				}
			}
		}
	}
}

func TestObservationsOutOfOrderAreInternal(t *testing.T) {
	s, r := newSource(t, "vfw-reported"), vfwReported(t)
	r["sink"][0], r["sink"][1] = r["sink"][1], r["sink"][0]
	s.Observations = r.observations
	var b strings.Builder
	require.True(t, fail.Is(status.Write(&b, parseQuery(t, "?type=cluster"), s), fail.Internal))
	require.Empty(t, b.String())
}

func TestObservationsOfOtherClustersDoNoHarm(t *testing.T) {
	s, r := newSource(t, "vfw-reported"), vfwReported(t)
	want := write(t, parseQuery(t, "?status=ready&output=detail"), s)
	for app, observations := range r {
		r[app] = append([]*view.Observation{observation("edge00")}, observations[0], observation("edge01-old"), observations[1], observation("edge99"))
	}
	s.Observations = func(app string, _ []domain.ClusterName) iter.Seq2[*view.Observation, error] {
		return r.observations(app, nil)
	}
	require.Equal(t, want, write(t, parseQuery(t, "?status=ready&output=detail"), s))
}

// TestOneClusterDoesNotSpoilTheDocument: what a member cluster sends is not to be trusted.
func TestOneClusterDoesNotSpoilTheDocument(t *testing.T) {
	for name, data := range map[string]string{
		"not JSON": `{"kind":`, "another type": `[1]`, "nothing": ``, "null": `null`,
		"members of other types": `{"metadata":{"generation":"x","labels":7},"spec":[],"status":"up"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, r := newSource(t, "vfw-reported"), vfwReported(t)
			s.Observations = r.observations
			r["firewall"][0].Object = func(int) (json.RawMessage, error) { return json.RawMessage(data), nil }
			doc := readReported(t, "?status=ready&output=detail", s)
			require.Equal(t, 16, doc.Camel[status.ClusterReady])
			require.Equal(t, 2, doc.Camel[status.ClusterNotReady])
			require.Len(t, doc.Apps, 3)
		})
	}
}

// TestAResourceThatChangesWhileTheDocumentIsMade: counts and list agree as long as the document is small
// enough to be remembered; else the list is the later word.
func TestAResourceThatChangesWhileTheDocumentIsMade(t *testing.T) {
	for query, want := range map[string]status.ClusterState{
		"?status=ready": status.ClusterReady, "?status=ready&output=detail": status.ClusterNotReady,
	} {
		s, r := newSource(t, "vfw-reported"), vfwReported(t)
		reads := 0
		s.Observations = func(app string, clusters []domain.ClusterName) iter.Seq2[*view.Observation, error] {
			if reads++; reads == 2 {
				r["firewall"][0] = observation("edge01", decoded(t, deployment("fw0-firewall", 0)))
			}
			return r.observations(app, clusters)
		}
		doc := readReported(t, query+"&resource=fw0-firewall&app=firewall&cluster=vfw-cluster-provider%2Bedge01", s)
		require.Equal(t, map[status.ClusterState]int{status.ClusterReady: 1}, doc.Camel)
		require.Equal(t, want, doc.Apps[0].Clusters[0].Resources[0].Camel, query)
	}
}

// TestADocumentThatIsTooLargeToBeRemembered is the same document.
func TestADocumentThatIsTooLargeToBeRemembered(t *testing.T) {
	s := reportedFleet(2, 700, 20)
	sequences, all := 0, s.Observations
	s.Observations = func(app string, clusters []domain.ClusterName) iter.Seq2[*view.Observation, error] {
		sequences++
		return all(app, clusters)
	}
	doc := readReported(t, "?status=ready", s)
	require.Equal(t, 4, sequences)
	require.Equal(t, map[status.ClusterState]int{status.ClusterReady: 2 * 630 * 40, status.ClusterNotReady: 2 * 70 * 40}, doc.Camel)
	for _, app := range doc.Apps {
		require.Len(t, app.Clusters, 700)
		for _, c := range app.Clusters {
			require.Len(t, c.Resources, 40)
		}
	}
}

func TestALargeReportedDocumentIsWrittenInPieces(t *testing.T) {
	for _, query := range []string{"?type=cluster&output=detail", "?status=ready", "?resources&type=cluster"} {
		var w chunks
		require.NoError(t, status.Write(&w, parseQuery(t, query), reportedFleet(2, 300, 20)))
		require.Greater(t, w.total, 1<<20)
		require.LessOrEqual(t, w.largest, 64<<10)
	}
}

func TestAReportedDocumentEndsWhenItsReaderHasGone(t *testing.T) {
	for _, query := range []string{"?type=cluster&output=detail", "?status=ready", "?resources&type=cluster"} {
		s := reportedFleet(2, 300, 20)
		read, all := 0, s.Observations
		s.Observations = func(app string, clusters []domain.ClusterName) iter.Seq2[*view.Observation, error] {
			return func(yield func(*view.Observation, error) bool) {
				for o, err := range all(app, clusters) {
					if read++; !yield(o, err) {
						return
					}
				}
			}
		}
		w := chunks{failAfter: 2}
		require.ErrorIs(t, status.Write(&w, parseQuery(t, query), s), errGone)
		require.Equal(t, 3, w.writes, "nothing is written after the first error")
		require.Less(t, read, 1200, "%s: reading has ended too", query)
	}
}

// TestObjectsAreNotHeld makes a document of 60 MB of objects.
func TestObjectsAreNotHeld(t *testing.T) {
	s := reportedFleet(1, 300, 20)
	large := fmt.Appendf(nil, `{"kind":"Deployment","metadata":{"annotations":{"a":%q}}}`, strings.Repeat("x", 5_000))
	peak, all := uint64(0), s.Observations
	s.Observations = func(app string, clusters []domain.ClusterName) iter.Seq2[*view.Observation, error] {
		return func(yield func(*view.Observation, error) bool) {
			for o, err := range all(app, clusters) {
				o.Object = func(i int) (json.RawMessage, error) {
					if i == 0 && o.Name[len(o.Name)-1] == '0' {
						runtime.GC()
						var m runtime.MemStats
						runtime.ReadMemStats(&m)
						peak = max(peak, m.HeapAlloc)
					}
					return append(json.RawMessage(nil), large...), nil
				}
				if !yield(o, err) {
					return
				}
			}
		}
	}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var w chunks
	require.NoError(t, status.Write(&w, parseQuery(t, "?type=cluster&output=detail"), s))
	require.Greater(t, w.total, 50<<20)
	require.NotZero(t, peak)
	require.Less(t, peak-min(before.HeapAlloc, peak), uint64(8<<20))
}

// reportedFleet is a fleet whose clusters report what was planned, and a Pod for each. One in ten is cut off.
func reportedFleet(apps, clusters, resources int) status.Source {
	s := fleet(apps, clusters, resources)
	s.Namespace = "default"
	ready := readiness.State{Status: readiness.Ready}
	data := json.RawMessage(deployment("release-component", 1))
	s.Observations = func(app string, _ []domain.ClusterName) iter.Seq2[*view.Observation, error] {
		return func(yield func(*view.Observation, error) bool) {
			for _, a := range s.Apps {
				if a.Name != app {
					continue
				}
				for i, c := range a.Clusters {
					o := &view.Observation{
						ClusterName: c.ClusterName, Seen: true, Connected: i%10 != 0, LastSeen: cutOff,
						Object: func(int) (json.RawMessage, error) { return data, nil },
					}
					for n, id := range a.Resources {
						id.Namespace = "default"
						o.Resources = append(o.Resources,
							view.ObservedResource{ResourceID: id, State: ready},
							view.ObservedResource{State: ready, ResourceID: plan.ResourceID{
								Version: "v1", Kind: "Pod", Namespace: "default", Name: fmt.Sprintf("release-component-%d-%04d", n, i),
							}})
					}
					if !yield(o, nil) {
						return
					}
				}
			}
		}
	}
	return s
}

func TestNoObservationsAreNoReports(t *testing.T) {
	s := newSource(t, "vfw-reported")
	s.Observations = nil
	doc := readReported(t, "?type=cluster", s)
	require.Equal(t, map[status.ClusterState]int{status.ClusterUnknown: 12}, doc.Kebab)
}

// TestWhatNobodyVouchesFor: an observation that contradicts itself is not believed either.
func TestWhatNobodyVouchesFor(t *testing.T) {
	for query, good := range map[string]status.ClusterState{
		"?type=cluster&app=firewall": status.ClusterPresent, "?status=ready&app=firewall": status.ClusterReady,
	} {
		for _, seen := range []bool{true, false} {
			for _, connected := range []bool{true, false} {
				s, r := newSource(t, "vfw-reported"), vfwReported(t)
				s.Observations = r.observations
				for _, o := range r["firewall"] {
					o.Seen, o.Connected = seen, connected
				}
				doc := readReported(t, query, s)
				require.Equal(t, seen && connected, doc.Kebab[good]+doc.Camel[good] > 0, "%s seen=%t connected=%t", query, seen, connected)
			}
		}
	}
}
