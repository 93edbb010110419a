package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/service/servicetest"
)

// TestOperations: each is asked for what its command says, waited for, and ends with the code of what became of it.
func TestOperations(t *testing.T) {
	w := newWorld(t)
	const v1 = "projects/default/composite-apps/web/v1/deployment-intent-groups/web"
	const v2 = "projects/default/composite-apps/web/v2/deployment-intent-groups/web"
	status := domain.ContextInstantiated
	asked := []domain.Scope{}
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		asked = append(asked, s)
		if s.Owner == v2 && s.Operation == domain.OpInstantiate {
			return 0, nil, fail.New(fail.Conflict, "not yet")
		}
		w.stand(s.Owner, domain.Instantiated, status, 1)
		return 1, nil, nil
	}
	chart := w.chart()
	w.done("deploy", chart, "--name", "web", "--clusters", "edge01")
	require.Equal(t, 1, w.run("deploy", chart, "--name", "web", "--clusters", "edge01", "--app-version", "v2").code)

	// What hangs is waited for in vain, and stopped.
	w.stand(v1, domain.Instantiated, domain.ContextInstantiating, 1)
	r := w.run("wait", "v1/web", "--for=deployed", "--timeout", "10ms")
	require.Equal(t, 6, r.code, r.out)
	require.Contains(t, r.err, "after 10ms, and goes on")
	require.Equal(t, 1, w.run("update", "v1/web").code)
	w.engine.stops = func(s domain.Scope) { w.stand(s.Owner, domain.InstantiateStopped, domain.ContextInstantiateFailed, 1) }
	require.Contains(t, w.done("stop", "v1/web", "--wait"), v1+" stop accepted\n")
	r = w.run("stop", "v1/web")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "it is already stopped")
	r = w.run("wait", "v1/web", "--for=deployed")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "its instantiate was stopped")

	// All is deployed, and nothing is reported.
	w.stand(v1, domain.Instantiated, domain.ContextInstantiated, 1)
	w.done("wait", "v1/web", "--for=deployed")
	w.leaves(v1, domain.MarkApplied)
	require.Equal(t, 6, w.run("wait", "v1/web", "--timeout", "30ms").code)
	require.Equal(t, 2, w.run("wait", "v1/web", "--for=ever").code)
	require.Equal(t, 3, w.run("wait", "none").code)

	r = w.run("migrate", "v1/web")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "--version is needed")
	require.Equal(t, 3, w.run("migrate", "v1/web", "--version", "v9").code)
	asked = nil
	require.Contains(t, w.done("migrate", "v1/web", "--version", "v2", "--wait"), v1+" migrate accepted")
	require.Len(t, asked, 1)
	require.Equal(t, domain.Key(v2), asked[0].Owner)
	status = domain.ContextInstantiateFailed
	w.stand(v2, domain.Instantiated, domain.ContextInstantiated, 1)
	r = w.run("update", "v2/web", "--wait")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "it could not be deployed")
}

// TestDryRun says what an operation would touch, and is refused where the operation would be as things stand; nothing is asked for.
func TestDryRun(t *testing.T) {
	w := newWorld(t)
	asked := 0
	w.engine.does = func(domain.Scope) (int, []string, error) {
		asked++
		return 1, nil, nil
	}
	w.engine.stops = func(domain.Scope) { asked++ }
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	asked = 0
	const group, cloud = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web", "projects/demo/logical-clouds/lc"
	refused := func(why string, args ...string) {
		t.Helper()
		r := w.run(append(args, "--dry-run")...)
		require.Equal(t, 1, r.code, r.out)
		require.Contains(t, r.err, why)
	}
	two := []plan.Target{{ClusterName: domain.ClusterName{Provider: "p", Name: "a"}}, {ClusterName: domain.ClusterName{Provider: "p", Name: "b"}}}
	w.places = []plan.App{{Name: "web", Resources: make([]plan.ResourceID, 3), Targets: two}, {Name: "sink", Resources: make([]plan.ResourceID, 1), Targets: two[:1]}}

	w.stand(group, domain.Created, domain.ContextNone, 0)
	require.Equal(t, group+" would be approved; an instantiate would put 7 resources of 2 apps on 2 clusters (dry run)\n"+
		"  web: 3 resources on 2 clusters\n  sink: 1 resource on 1 cluster\n", w.done("approve", "web", "--dry-run"))
	refused("cannot terminate in state Created", "terminate", "web")
	refused("cannot stop in state Created", "stop", "web")

	w.stand(group, domain.Instantiated, domain.ContextInstantiating, 1)
	w.leaves(group, domain.MarkApplied, domain.MarkApplied, domain.MarkDeleted)
	refused("it has already been instantiated", "approve", "web")
	require.Equal(t, group+" is Instantiating; that would be broken off, and what is done stays: up to 2 resources on 1 cluster (dry run)\n", w.done("stop", "web", "--dry-run"))
	w.stand(group, domain.Instantiated, domain.ContextInstantiated, 1)
	w.leaves(group, domain.MarkApplied, domain.MarkApplied, domain.MarkDeleted)
	require.Equal(t, group+" is Instantiated; up to 2 resources on 1 cluster would be deleted (dry run)\n", w.done("terminate", "web", "--dry-run"))

	refused("has not been asked to instantiate", "stop", "cloud/lc")
	require.Equal(t, cloud+" is Created; instantiate would be asked for (dry run)\n", w.done("instantiate", "cloud/lc", "--dry-run"))
	w.stand(cloud, domain.Instantiated, domain.ContextInstantiated, 1)
	refused("already instantiated", "instantiate", "cloud/lc")
	require.Zero(t, asked)
}

// TestLooks: tables and tenants are shown, also where there is nothing to be shown.
func TestLooks(t *testing.T) {
	w := newWorld(t)
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiated, 1)
		return 1, nil, nil
	}
	w.done("deploy", w.chart(), "--name", "web", "--clusters", "edge01")
	require.Zero(t, w.run("combined", "web").code)
	require.Contains(t, w.done("top", "-A", "-o", "json"), `"groups": [],`)
	w.stand("projects/default/composite-apps/web/v1/deployment-intent-groups/web", domain.Instantiated, domain.ContextInstantiateFailed, 1)
	require.Equal(t, "web 1 7-update\n", w.done("top", "-A", "-o", "jsonpath={.groups[*].metadata.name} {.of} {.operations[*].id}"))
	require.Equal(t, 3, w.run("combined", "none").code)
	r := w.run("tenants")
	require.Zero(t, r.code, r.err)
	require.Zero(t, w.run("tenants", "-o", "json").code)
	w.done("apply", "-f", w.file("tenant.yaml", "resourceContext: {anchor: tenants}\nmetadata: {name: t1}\nspec: {cluster: site+edge01}\n"))
	require.Contains(t, w.done("tenants"), "t1")
	require.Contains(t, w.done("explain", "tenant", "t1"), "the cluster of tenant \"t1\" has never told of its workloads")
	require.Equal(t, w.done("tenants", "t1", "-o", "json"), w.done("tenants", "tenants/t1", "-o", "json"))
	require.Equal(t, "0 workloads of tenants/t1 that its delete guard holds would be let go (dry run)\n", w.done("tenants", "t1", "--release", "--dry-run"))
	require.Equal(t, 3, w.run("tenants", "none", "--release", "--dry-run").code)
	require.Equal(t, 2, w.run("tenants", "t1", "--dry-run").code)
	require.Equal(t, "tenants/t1 released\n", w.done("tenants", "t1", "--release"))
	require.Equal(t, 3, w.run("tenants", "none", "--release").code)
	require.Equal(t, 2, w.run("tenants", "--release").code)
}

// TestAnApproveIsOverWhenItIsAnswered: it takes the flags of the other operations, and ends when time is over.
func TestAnApproveIsOverWhenItIsAnswered(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const group = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	r := w.run("approve", group, "--timeout", "10ms", "--server", silent.URL)
	require.Equal(t, 6, r.code, r.err)
	require.Contains(t, r.err, "the API has not answered after 10ms; whether it approves all the same is in 'drover status "+group+"'")
	require.Contains(t, w.done("approve", "web", "--wait", "--timeout", "1m"), group+" approved\n")
}

// TestWhatAMigrateHasMadeIsRevisionNought: it can be gone back to as to any other.
func TestWhatAMigrateHasMadeIsRevisionNought(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const group = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	w.stand(group, domain.Approved, domain.ContextNone, 0)
	w.stand(group, domain.Instantiated, domain.ContextInstantiated, 0)
	w.engine.does = func(domain.Scope) (int, []string, error) { return 0, []string{"there is nothing to update"}, nil }
	require.Equal(t, group+" unchanged\n", w.run("update", "web").out)
	require.Regexp(t, `Instantiated +- +0 `, w.done("history", "web"))
	require.Contains(t, w.done("status", "web"), "\nRevision:  0\n")

	w.stand(group, domain.Updated, domain.ContextInstantiated, 0)
	w.stand(group, domain.Instantiated, domain.ContextInstantiated, 1)
	w.foresees = func(_ domain.Scope, goal domain.Goal) (string, string, error) {
		require.NotEmpty(t, goal.Revert)
		return "later", "now", nil
	}
	require.Contains(t, w.done("diff", "web", "--to", "0"), "data.text: later -> now")
	require.Equal(t, "0\n", w.done("diff", "web", "--to", "0", "-o", "jsonpath={.to}"))
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		require.Equal(t, domain.OpRollback, s.Operation)
		return 2, nil, nil
	}
	r := w.run("rollback", "web", "--to", "0")
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.err, "says otherwise than revision 0")
	out := w.done("__complete", "rollback", "web", "--to", "")
	require.Contains(t, out, "0\tInstantiated, ")
	require.Contains(t, out, "1\tInstantiated, ")
	require.Equal(t, 2, w.run("rollback", "web").code)
	require.Equal(t, 2, w.run("rollback", "web", "--to=-1").code)
}

// TestHistorySaysWhatCameOfIt: a revision that failed is told from one that is deployed, also when Temporal knows nothing of its operation any more, and one
// that goes on from both. Of two terminates of a context its record has the last.
func TestHistorySaysWhatCameOfIt(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const group domain.Key = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	o, err := w.db.Get(t.Context(), domain.DeploymentIntentGroups, group)
	require.NoError(t, err)
	h := o.(domain.Owner).Track()
	asked := func(state domain.State, id string, revision int, operation string) {
		h.Append(state, id, revision, time.Now())
		h.Note(operation, "")
	}
	recorded := func(id string, runs ...domain.Ran) {
		for i := range runs {
			runs[i].RunID, runs[i].Accepted, runs[i].Ended = id+"-"+string(runs[i].Status), time.Now(), time.Now()
		}
		require.NoError(t, w.db.PutInstance(t.Context(), &domain.Instance{ContextID: id, Owner: group, Runs: runs}))
	}
	asked(domain.Approved, "", 0, "")
	asked(domain.Instantiated, "1", 1, "")
	recorded("1", domain.Ran{Operation: domain.OpInstantiate, Status: domain.ContextInstantiated})
	asked(domain.Updated, "1", 1, "update, all applied again")
	asked(domain.Instantiated, "2", 2, "update, all applied again")
	recorded("2", domain.Ran{Operation: domain.OpUpdate, Status: domain.ContextInstantiateFailed})
	asked(domain.Updated, "2", 2, "rollback to 1")
	asked(domain.Instantiated, "3", 3, "rollback to 1")
	recorded("3", domain.Ran{Operation: domain.OpRollback, Status: domain.ContextInstantiated},
		domain.Ran{Operation: domain.OpTerminate, Status: domain.ContextTerminateFailed}, domain.Ran{Operation: domain.OpTerminate, Status: domain.ContextTerminated})
	asked(domain.Terminated, "3", 3, "")
	asked(domain.Terminated, "3", 3, "")
	asked(domain.Instantiated, "gone", 1, "") // of which there is no record
	asked(domain.Instantiated, servicetest.GoingOn, 2, "update")
	require.NoError(t, w.db.Replace(t.Context(), o))

	var came []string
	for line := range strings.Lines(w.done("history", "web", "-o", `jsonpath={range .items[*]}{.state}/{.deployed}{"\n"}{end}`)) {
		came = append(came, strings.TrimSpace(line))
	}
	require.Equal(t, []string{
		"Created/", "Approved/", "Instantiated/Instantiated", "Updated/", "Instantiated/InstantiateFailed", "Updated/", "Instantiated/Instantiated",
		"Terminated/", "Terminated/Terminated", "Instantiated/", "Instantiated/Running",
	}, came)
	require.Regexp(t, `(?m)^TIME +STATE +OPERATION +REVISION +DEPLOYED +CONTEXT +BY$`, w.done("history", "web"))
	require.Regexp(t, `(?m) Instantiated +update, all applied again +2 +InstantiateFailed +2 +-$`, w.done("history", "web"))

	// Without Temporal there is no list, but there are records, unless the API does not answer. They know the last of two terminates.
	to, err := url.Parse(w.url)
	require.NoError(t, err)
	through := httputil.NewSingleHostReverseProxy(to)
	together := make(chan struct{}) // closed once three records are asked for at once, as each may take its time
	var asking atomic.Int32
	for refused, deployed := range map[string]string{"/v2/operations$": "InstantiateFailed", "/v2/operations": "-"} {
		proxy := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			switch {
			case regexp.MustCompile(refused).MatchString(r.URL.Path):
				refuse(out, "Temporal does not answer", http.StatusBadRequest)
				return
			case strings.HasPrefix(r.URL.Path, "/v2/operations/"):
				if asking.Add(1) == 3 {
					close(together)
				}
				select {
				case <-together:
				case <-r.Context().Done():
					return
				}
			}
			through.ServeHTTP(out, r)
		}))
		t.Cleanup(proxy.Close)
		r := w.run("history", string(group), "--server", proxy.URL)
		require.Zero(t, r.code, r.err)
		require.Contains(t, r.err, "Warning: what came of some of it is not known: ")
		require.Regexp(t, `(?m) Instantiated +update, all applied again +2 +`+deployed+` +2 +-$`, r.out)
	}
}
