// Package test has the end-to-end tests: real servers, real clusters, the product as processes, REST only.
package test

import (
	"context"
	"net/url"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/harness"
)

func TestMain(m *testing.M) {
	code := m.Run()
	harness.Stop()
	os.Exit(code)
}

// within bounds a test, or a part of it.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*harness.Patience)
	t.Cleanup(cancel)
	return ctx
}

// stopsSoon stops an operation, and waits until that has taken effect.
func stopsSoon(ctx context.Context, t *testing.T, stop func() error, over func() bool) {
	t.Helper()
	const most = 2 * time.Second
	answered := make(chan error, 1)
	go func() { answered <- stop() }()
	harness.Soon(ctx, t, most, over, func() string { return "the stop has not taken effect" })
	require.NoError(t, <-answered)
}

// stopped stops the operation on a deployment, and gives the status when it is as it should be after that.
func stopped(ctx context.Context, t *testing.T, d *client.Deployment, where domain.ContextStatus) *status.Document {
	t.Helper()
	var got *status.Document
	stopsSoon(ctx, t, func() error { return d.Do(ctx, "stop") }, func() bool {
		var err error
		got, err = d.Summary(ctx)
		return err == nil && got.Status == where
	})
	return got
}

// stopAtLast stops an operation whose worker has just come back: a stop that is not answered in time may get through, and
// is asked for again.
func stopAtLast(ctx context.Context, t *testing.T, d *client.Deployment) {
	t.Helper()
	late := false
	harness.Until(ctx, t, "stopped", func() bool {
		err := d.Do(ctx, "stop")
		if err == nil {
			return true
		}
		answer := code(t, err)
		if late && answer == 409 {
			return true
		}
		require.Equal(t, 504, answer, "%v", err)
		late = true
		return false
	})
}

// scope is that of an operation on a deployment's instance.
func scope(d *client.Deployment, contextID string, operation domain.Operation) domain.Scope {
	return domain.Scope{Owner: d.Key(), ContextID: contextID, Operation: operation}
}

// twoClusters are edge01 and edge02, each behind a proxy of the test's own.
func twoClusters(t *testing.T) []*harness.Cluster {
	t.Helper()
	return []*harness.Cluster{harness.NewCluster(t, harness.ClusterNames[0]), harness.NewCluster(t, harness.ClusterNames[1])}
}

func do(ctx context.Context, t *testing.T, d *client.Deployment, operations ...domain.Operation) {
	t.Helper()
	for _, op := range operations {
		require.NoError(t, d.Do(ctx, op), string(op))
	}
}

// waitFor waits for a status with what stands on each cluster.
func waitFor(ctx context.Context, t *testing.T, d *client.Deployment, is func(*status.Document) bool) *status.Document {
	t.Helper()
	var got *status.Document
	harness.Until(ctx, t, "the status that is waited for", func() bool {
		var err error
		got, err = d.Status(ctx, nil)
		return err == nil && is(got)
	})
	return got
}

// retrying are the resources that wait for a cluster which does not answer. EMCO 22's counts have them with what is Pending.
func retrying(d *status.Document) (n int) {
	clusters := slices.Clone(d.Clusters)
	for _, a := range d.Apps {
		clusters = append(clusters, a.Clusters...)
	}
	if d.Cluster != nil {
		clusters = append(clusters, *d.Cluster)
	}
	for _, c := range clusters {
		for _, r := range c.Resources {
			if c.Connectivity == domain.ConnectivityRetrying && r.Status == domain.ResourcePending {
				n++
			}
		}
	}
	return n
}

// summary asks for a status without what stands in single clusters.
var summary = url.Values{"output": {"summary"}}

// forget deletes a group that is not instantiated, with its intents.
func forget(ctx context.Context, t *testing.T, d *client.Deployment) {
	t.Helper()
	for _, s := range slices.Backward(d.IntentSteps()) {
		require.NoError(t, d.API.Delete(ctx, domain.KeyOf(s.Object)))
	}
}

// code is the status code of a refused request.
func code(t *testing.T, err error) int {
	t.Helper()
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	return refused.Code
}
