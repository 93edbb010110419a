package status_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"testing"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/view"
)

// fleet is a context of so many apps on so many clusters with so many resources each; one cluster in ten
// does not answer.
func fleet(apps, clusters, resources int) status.Source {
	s := status.Source{
		Project: "fleet", CompositeApp: "collectd", Version: "v1", CompositeProfile: "default", Name: "everywhere",
		Source: view.Source{ContextID: "2621114006130701074", Status: domain.ContextInstantiating},
	}
	for a := range apps {
		app := view.App{Name: fmt.Sprintf("app-%d", a)}
		for r := range resources {
			app.Resources = append(app.Resources, plan.ResourceID{
				Group: "apps", Version: "v1", Kind: "Deployment", Name: fmt.Sprintf("release-component-%d", r),
			})
		}
		for c := range clusters {
			cluster := view.Cluster{
				ClusterName:  domain.ClusterName{Provider: "provider", Name: fmt.Sprintf("edge-%04d", c)},
				Connectivity: domain.ConnectivityAvailable,
				Marks:        domain.NewMarks(resources, domain.MarkApplied),
			}
			if c%10 == 0 {
				cluster.Connectivity, cluster.InProgress = domain.ConnectivityRetrying, true
				cluster.LastError = "connection refused"
				for i := resources / 2; i < resources; i++ {
					cluster.Marks[i] = domain.MarkPending
				}
			}
			app.Clusters = append(app.Clusters, cluster)
		}
		s.Apps = append(s.Apps, app)
	}
	detail := manifest(plan.ResourceID{Group: "apps", Version: "v1", Kind: "Deployment", Name: "release-component"})
	s.Manifest = func(string, int, int) (json.RawMessage, error) { return detail, nil }
	return s
}

// BenchmarkWrite writes whole documents: 3 apps on 100 clusters with 4 resources each, and on 1,000
// clusters with 40.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []struct{ apps, clusters, resources int }{{3, 100, 4}, {3, 1000, 40}} {
		n := size.apps * size.clusters * size.resources
		s := fleet(size.apps, size.clusters, size.resources)
		for _, query := range []string{"output=summary", "output=all", "output=detail", "status=deployed", "clusters"} {
			b.Run(fmt.Sprintf("%d/%s", n, query), func(b *testing.B) {
				v, err := url.ParseQuery(query)
				if err != nil {
					b.Fatal(err)
				}
				q, err := status.ParseQuery(v)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := status.Write(io.Discard, q, s); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/resource")
			})
		}
	}
}

// BenchmarkReports writes whole documents of what clusters report: as many planned resources as in
// BenchmarkWrite, and a Pod for each. All were judged on arrival.
func BenchmarkReports(b *testing.B) {
	for _, size := range []struct{ apps, clusters, resources int }{{3, 100, 4}, {3, 1000, 40}} {
		n := 2 * size.apps * size.clusters * size.resources
		s := reportedFleet(size.apps, size.clusters, size.resources)
		for _, query := range []string{"type=cluster&output=summary", "type=cluster", "type=cluster&output=detail", "status=ready", "resources&type=cluster"} {
			b.Run(fmt.Sprintf("%d/%s", n, query), func(b *testing.B) {
				v, err := url.ParseQuery(query)
				if err != nil {
					b.Fatal(err)
				}
				q, err := status.ParseQuery(v)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := status.Write(io.Discard, q, s); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/resource")
			})
		}
	}
}
