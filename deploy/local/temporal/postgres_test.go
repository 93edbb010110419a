package temporal_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"

	"github.com/drover-io/drover/deploy/local/temporal"
	"github.com/drover-io/drover/internal/postgrestest"
)

func TestWorkflowOnPostgres(t *testing.T) {
	c := temporal.Config{
		Postgres:         postgrestest.Start(t).URL,
		SearchAttributes: map[string]enumspb.IndexedValueType{"DroverProject": keyword},
	}
	s := mustStart(t, c)
	cl := dial(t, s)
	stopWorker := work(t, cl)
	project := sdktemporal.NewSearchAttributeKeyKeyword("DroverProject")
	options := client.StartWorkflowOptions{
		ID: "survivor", TaskQueue: taskQueue, TypedSearchAttributes: sdktemporal.NewSearchAttributes(project.ValueSet("p1")),
	}
	if _, err := cl.ExecuteWorkflow(t.Context(), options, WaitForSignal); err != nil {
		t.Fatal(err)
	}
	t.Run("a second server is refused", func(t *testing.T) {
		if second, err := temporal.Start(t.Context(), c); err == nil {
			mustStop(t, second)
			t.Error("it started")
		} else if !strings.Contains(err.Error(), "another server is using it") {
			t.Error(err)
		}
	})
	stopWorker()
	mustStop(t, s)

	// The databases exist now, with an attribute less than is wanted.
	c.SearchAttributes = map[string]enumspb.IndexedValueType{"N": number}
	s = start(t, c)
	cl = dial(t, s)
	t.Cleanup(work(t, cl))
	if err := cl.SignalWorkflow(t.Context(), "survivor", "", "go", "after restart"); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := cl.GetWorkflow(t.Context(), "survivor", "").Get(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	if got != "after restart" {
		t.Errorf("result %q", got)
	}
	options.ID = "numbered"
	options.TypedSearchAttributes = sdktemporal.NewSearchAttributes(project.ValueSet("p1"), sdktemporal.NewSearchAttributeKeyInt64("N").ValueSet(1))
	if _, err := cl.ExecuteWorkflow(t.Context(), options, One); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both workflows are found by their search attribute", func() error {
		r, err := cl.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{
			Query: `DroverProject = "p1" AND ExecutionStatus = "Completed"`,
		})
		if err == nil && r.GetCount() != 2 {
			err = fmt.Errorf("%d workflows found", r.GetCount())
		}
		return err
	})
}

func TestPostgresConfigIsChecked(t *testing.T) {
	for name, test := range map[string]struct {
		config temporal.Config
		want   string
	}{
		"a file as well":   {temporal.Config{DBFile: filepath.Join(t.TempDir(), "temporal.db"), Postgres: "postgres://u@127.0.0.1/temporal"}, "only one of --db and --postgres"},
		"another scheme":   {temporal.Config{Postgres: "mysql://u:secret@127.0.0.1/temporal"}, "postgres://"},
		"no user":          {temporal.Config{Postgres: "postgres://127.0.0.1/temporal"}, "postgres://"},
		"no database":      {temporal.Config{Postgres: "postgres://u:secret@127.0.0.1/"}, "postgres://"},
		"not a URL":        {temporal.Config{Postgres: "postgres://u:secret%@127.0.0.1/temporal"}, "postgres://"},
		"nobody listening": {temporal.Config{Postgres: "postgres://u:secret@127.0.0.1:1/temporal"}, "create temporal databases on 127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := temporal.Start(t.Context(), test.config)
			if err == nil {
				mustStop(t, s)
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q lacks %q", err, test.want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("error %q shows the password", err)
			}
		})
	}
}

// BenchmarkFanOutOnPostgres is BenchmarkFanOut on PostgreSQL.
func BenchmarkFanOutOnPostgres(b *testing.B) {
	c := dial(b, start(b, temporal.Config{Postgres: postgrestest.Start(b).URL}))
	b.Cleanup(work(b, c))
	fanOut(b, c)
}
