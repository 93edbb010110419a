package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/service"
)

// BenchmarkReportedStatus asks, in the way of the API, what 3 apps of 4 resources on 100 clusters have become, by one
// client and by 20 at a time. An op is one answer to each client. The processor time of an answer is given for this
// process and for the database.
func BenchmarkReportedStatus(b *testing.B) {
	p := partial(b)
	l := service.NewLifecycle(p.store, p.store, heard{p.store, p.rules}, p.engine, time.Now)
	key := reported(b, p, []string{"one", "two", "three"}, 100, 4)
	for _, query := range []string{"type=cluster&output=summary", "type=cluster", "status=ready"} {
		for _, clients := range []int{1, 20} {
			b.Run(fmt.Sprintf("%s/%d", query, clients), func(b *testing.B) {
				q, err := url.ParseQuery(query)
				require.NoError(b, err)
				require.NoError(b, p.store.Pulse(b.Context(), "watcher", time.Now()))
				took := make([][]time.Duration, clients)
				self, database := used(b, "self"), used(b, children(b)...)
				var g errgroup.Group
				b.ResetTimer()
				for c := range clients {
					g.Go(func() error {
						for range b.N {
							began := time.Now()
							d, err := l.Status(b.Context(), key, q)
							if err == nil {
								err = d.Write(io.Discard)
							}
							if err != nil {
								return err
							}
							took[c] = append(took[c], time.Since(began))
						}
						return nil
					})
				}
				require.NoError(b, g.Wait())
				b.StopTimer()
				all := slices.Concat(took...)
				slices.Sort(all)
				ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
				b.ReportMetric(ms(all[len(all)/2]), "ms-p50")
				b.ReportMetric(ms(all[len(all)*99/100]), "ms-p99")
				b.ReportMetric(ms(used(b, "self")-self)/float64(len(all)), "cpu-ms/answer")
				b.ReportMetric(ms(used(b, children(b)...)-database)/float64(len(all)), "db-cpu-ms/answer")
			})
		}
	}
}

// reported puts into the store what there is of a group when it is instantiated and its clusters have reported.
func reported(b *testing.B, p *Parts, apps []string, clusters, resources int) domain.Key {
	b.Helper()
	const contextID = "2621114006130701074"
	now := time.Now()
	group := &domain.DeploymentIntentGroup{
		Identity: domain.Identity{Parent: "projects/p/composite-apps/a/v1"}, Metadata: domain.Metadata{Name: "group"},
		History: domain.NewHistory(now),
	}
	group.History.Append(domain.Instantiated, contextID, 1, now)
	ctx, key := b.Context(), domain.KeyOf(group)
	require.NoError(b, p.store.Create(ctx, group))
	whole := plan.Plan{ContextID: contextID, Owner: key}
	for _, name := range apps {
		a := plan.App{Name: name}
		var said []domain.ObservedResource
		for r := range resources {
			id := plan.ResourceID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: fmt.Sprintf("%s-%03d", name, r)}
			a.Resources = append(a.Resources, id)
			object := fmt.Sprintf(`{"metadata":{"name":%q,"uid":"%d"},"data":{"text":%q}}`, id.Name, r, strings.Repeat("value", 50))
			said = append(said, domain.ObservedResource{Version: id.Version, Kind: id.Kind, Namespace: id.Namespace, Name: id.Name, Status: "Ready", JSON: []byte(object)})
		}
		for c := range clusters {
			cluster := domain.ClusterName{Provider: "fleet", Name: fmt.Sprintf("edge-%04d", c)}
			a.Targets = append(a.Targets, plan.Target{ClusterName: cluster})
			on := domain.ObservedApp{ContextID: contextID, App: name, Cluster: cluster}
			require.NoError(b, p.store.PutObservation(ctx, &domain.Observation{ObservedApp: on, Kinds: []string{"ConfigMap"}, Resources: said}))
			require.NoError(b, p.store.PutLeaf(ctx, domain.Leaf{
				ContextID: contextID, App: name, Cluster: cluster, Operation: domain.OpInstantiate, Connectivity: domain.ConnectivityAvailable,
				Marks: domain.NewMarks(resources, domain.MarkApplied).Encode(),
			}))
			require.NoError(b, p.store.PutWatch(ctx, "watcher", &domain.Watch{Cluster: cluster, Connected: true, LastSeen: now}))
		}
		whole.Apps = append(whole.Apps, a)
	}
	encoded, err := json.Marshal(whole)
	require.NoError(b, err)
	digest, err := p.store.PutBlob(ctx, encoded)
	require.NoError(b, err)
	require.NoError(b, p.store.PutInstance(ctx, &domain.Instance{
		ContextID: contextID, Owner: key, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated, Plan: digest, Ended: now, Namespace: "default",
	}))
	return key
}

// children are the processes that this one has started: the database, unless it is somewhere else.
func children(b *testing.B) (pids []string) {
	b.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	require.NoError(b, err)
	for _, list := range lists {
		data, err := os.ReadFile(list)
		require.NoError(b, err)
		pids = append(pids, strings.Fields(string(data))...)
	}
	return pids
}

// used is the processor time of processes, in ticks of 10 ms.
func used(b *testing.B, pids ...string) (total time.Duration) {
	b.Helper()
	for _, pid := range pids {
		data, err := os.ReadFile("/proc/" + pid + "/stat")
		require.NoError(b, err)
		_, rest, _ := strings.Cut(string(data), ") ")
		for _, field := range strings.Fields(rest)[11:13] { // of user and system
			ticks, err := strconv.Atoi(field)
			require.NoError(b, err)
			total += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return total
}
