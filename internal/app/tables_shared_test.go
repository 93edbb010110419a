package app

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/view"
)

// reportsRead counts how often what clusters say is read, and holds that up while held is not nil.
type reportsRead struct {
	heard
	times atomic.Int64
	begun chan struct{}
	held  chan struct{}
}

func (r *reportsRead) Observations(ctx context.Context, contextID, app string, clusters []domain.ClusterName) iter.Seq2[view.Report, error] {
	r.times.Add(1)
	if r.held != nil {
		r.begun <- struct{}{}
		<-r.held
	}
	return r.heard.Observations(ctx, contextID, app, clusters)
}

// ask is combined-status, once.
func ask(t testing.TB, tables *service.Tables, group domain.Key, query string) string {
	t.Helper()
	return string(written(t, func(tables *service.Tables) (*service.TablesDocument, error) {
		v, err := url.ParseQuery(query)
		require.NoError(t, err)
		return tables.CombinedStatus(t.Context(), group, v)
	}, tables))
}

// TestWhoAsksAfterAWriteSeesIt: answers are kept, and each is that of an evaluation anew, byte for byte, whatever another process has
// written a moment before.
func TestWhoAsksAfterAWriteSeesIt(t *testing.T) {
	w := newTablesWorld(t, 5)
	w.collector("wecs", wecs)
	key, ctx, store := domain.KeyOf(w.group), t.Context(), w.p.store
	labelled := false
	writes := map[string]func(n int){
		"report": func(n int) { w.says(n%5, fmt.Sprintf(`{"availableReplicas":%d}`, n)) },
		"silent": func(n int) {
			require.NoError(t, store.DeleteObservation(ctx, domain.ObservedApp{ContextID: w.label, App: "web", Cluster: tablesCluster(n % 5)}, domain.Turn{}))
		},
		"collector": func(n int) {
			w.collector("wecs", strings.Replace(wecs, `inventory.name`, fmt.Sprintf(`inventory.name + '%d' + (inventory.labels.exists(l, l == 'x') ? 'x' : '')`, n), 1))
		},
		"another": func(n int) {
			w.collector(fmt.Sprint("c", n), `{"combinedFields":[{"name":"n","type":"COUNT"}]}`)
		},
		"update": func(n int) { w.replicas(n); w.updated() },
		"not heard": func(n int) {
			require.NoError(t, store.PutWatch(ctx, "watcher", &domain.Watch{Cluster: tablesCluster(n % 5), Reason: fmt.Sprint("refused ", n)}))
		},
		"heard": func(n int) {
			require.NoError(t, store.PutWatch(ctx, "watcher", &domain.Watch{Cluster: tablesCluster(n % 5), Connected: true, LastSeen: time.Now()}))
		},
		"label": func(int) {
			l := &domain.ClusterLabel{Identity: domain.Identity{Parent: tablesCluster(1).Key()}, Label: "x"}
			if labelled = !labelled; labelled {
				require.NoError(t, store.Create(ctx, l))
			} else {
				require.NoError(t, store.Delete(ctx, domain.ClusterLabels, domain.KeyOf(l), 0))
			}
		},
		"nothing": func(int) {},
	}
	names := []string{"report", "report", "report", "silent", "collector", "another", "update", "not heard", "heard", "label", "nothing"}
	r := rand.New(rand.NewPCG(33, 12))
	s := w.watch(service.CombinedStatusQuestion, "", "") // shares the tables, and looks at them all the time
	require.NotNil(t, s)
	for n := range 60 {
		name := names[r.IntN(len(names))]
		writes[name](n)
		query := []string{"", "app=web", "collector=wecs"}[r.IntN(3)]
		shared := ask(t, w.tables, key, query)
		require.Equal(t, ask(t, service.NewTables(w.lifecycle), key, query), shared, "%d: after %s", n, name)
	}
	require.NoError(t, store.Delete(ctx, domain.DeploymentIntentGroups, key, 0))
	_, err := w.tables.CombinedStatus(ctx, key, nil)
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)
}

// TestTablesAreEvaluatedOnceForAll who ask, as long as nothing changes. One that leaves takes nothing from the others.
func TestTablesAreEvaluatedOnceForAll(t *testing.T) {
	w := newTablesWorld(t, 3)
	w.collector("wecs", wecs)
	w.says(0, `{"availableReplicas":1}`)
	reports := &reportsRead{heard: heard{w.p.store, w.p.rules}, begun: make(chan struct{}, 1), held: make(chan struct{})}
	tables := service.NewTables(service.NewLifecycle(w.p.store, w.p.store, reports, w.p.engine, time.Now))
	key := domain.KeyOf(w.group)

	leaving, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := tables.CombinedStatus(leaving, key, nil)
		left <- err
	}()
	<-reports.begun // it is being evaluated
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	var g errgroup.Group
	answers := make([]string, 20)
	for i := range answers {
		g.Go(func() error {
			d, err := tables.CombinedStatus(t.Context(), key, nil)
			if err != nil {
				return err
			}
			var b bytes.Buffer
			_, err = d.WriteTo(&b)
			answers[i] = b.String()
			return err
		})
	}
	close(reports.held)
	go func() {
		for range reports.begun { // of which there may be more
		}
	}()
	require.NoError(t, g.Wait())
	require.LessOrEqual(t, reports.times.Load(), int64(2), "what the one who left had begun, and perhaps one look at everything")
	for _, a := range answers {
		require.Equal(t, ask(t, service.NewTables(w.lifecycle), key, ""), a)
	}
	before := reports.times.Load()
	for range 5 {
		ask(t, tables, key, "")
	}
	require.LessOrEqual(t, reports.times.Load(), before+1, "nothing has changed")
	w.says(1, `{"availableReplicas":1}`)
	require.Contains(t, ask(t, tables, key, ""), `"string":"c1"`)
	close(reports.begun)
}

// silent is a database that does not answer, as the store says it.
type silent struct{ heard }

func (silent) ObservationsVersion(context.Context, string) (string, error) {
	return "", fail.Wrap(context.DeadlineExceeded, fail.Unavailable, "the database cannot be reached")
}

// TestADatabaseThatDoesNotAnswerIsNamed, and not the clusters.
func TestADatabaseThatDoesNotAnswerIsNamed(t *testing.T) {
	w := newTablesWorld(t, 1)
	l := service.NewLifecycle(w.p.store, w.p.store, silent{heard{w.p.store, w.p.rules}}, w.p.engine, time.Now)
	_, err := service.NewTables(l).CombinedStatus(t.Context(), domain.KeyOf(w.group), nil)
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	require.Equal(t, "the database cannot be reached", fail.TextOf(err))
}

// TestReadersLeaveNothingBehind: streams that come and go leave no goroutine and, after a while, nothing that is kept.
func TestReadersLeaveNothingBehind(t *testing.T) {
	w := newTablesWorld(t, 3)
	w.collector("wecs", wecs)
	w.says(0, `{"availableReplicas":1}`)
	round := func() {
		for i := range 30 {
			s := w.watch(service.CombinedStatusQuestion, fmt.Sprint("app=web&app=", i%3), "")
			s.next("status")
			s.Close()
			ask(t, w.tables, domain.KeyOf(w.group), fmt.Sprint("app=web&resource=web&resource=", i))
		}
	}
	round()
	before := runtime.NumGoroutine()
	for range 3 {
		round()
	}
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+3 }, time.Minute, 10*time.Millisecond)
}

// TestTablesThatTakeLongAreThereInTheEnd: a stream and who asks again and again see them whole, however often a look at them was cut
// off; until then they have an error and no rows.
func TestTablesThatTakeLongAreThereInTheEnd(t *testing.T) {
	const clusters = 100
	w := newTablesWorld(t, clusters)
	const slow = `{"select":[{"name":"n","def":"[1,2,3,4,5,6,7,8,9,10].map(a, [1,2,3,4,5,6,7,8,9,10].map(b, ` +
		`[1,2,3,4,5].filter(c, a * b * c > 3).size())).size()"}],"limit":1}`
	w.collector("quick", `{"combinedFields":[{"name":"n","type":"COUNT"}]}`)
	w.collector("slow1", slow)
	w.collector("slow2", slow)
	want := []string{"n", fmt.Sprint(clusters), "n", "10", "n", "10"}
	s := w.watch(service.CombinedStatusQuestion, "", "")
	whole := func(data []byte) bool {
		rows, item := table(t, data)
		for _, r := range item.Results {
			if len(r.Errors) > 0 {
				require.Empty(t, r.Rows)
				require.Contains(t, r.Errors[0], "not there yet")
				return false
			}
		}
		require.Equal(t, want, rows)
		return true
	}
	for data := s.next("status"); !whole(data); {
		data = s.next("change")
	}
	tables := service.NewTables(w.lifecycle)
	for !whole([]byte(ask(t, tables, domain.KeyOf(w.group), ""))) { // each goes on with it
	}
}

// TestAStreamGoesOnBesideRequests that take what changes before it does: it tells of everything all the same.
func TestAStreamGoesOnBesideRequests(t *testing.T) {
	const clusters = 40
	w := newTablesWorld(t, clusters)
	w.collector("sum", `{"combinedFields":[{"name":"sum","type":"SUM","subject":"returned.status.availableReplicas"}]}`)
	s := w.watch(service.CombinedStatusQuestion, "", "")
	s.next("status")
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	for range 4 {
		g.Go(func() error {
			for ctx.Err() == nil {
				if _, err := w.tables.CombinedStatus(t.Context(), domain.KeyOf(w.group), nil); err != nil {
					return err
				}
			}
			return nil
		})
	}
	sum := 0
	for n := range clusters {
		w.says(n, fmt.Sprintf(`{"availableReplicas":%d}`, n+1))
		sum += n + 1
		want := []string{"sum", fmt.Sprint(sum)}
		require.Contains(t, ask(t, w.tables, domain.KeyOf(w.group), ""), fmt.Sprintf(`"float":"%d"`, sum))
		require.Equal(t, want, s.change(), "each change is told of, and the others are not")
	}
	stop()
	require.NoError(t, g.Wait())
}
