package activities_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/readiness"
)

// objects is a cluster that keeps what is applied. What a Job comes to is decided by its name.
type objects struct {
	mu     sync.Mutex
	kept   map[string]map[string]any
	ends   map[string]string // of Jobs: the condition that is True once it has been looked at; Complete when missing, "" for none
	writes []string          // PATCH and DELETE, in order
}

func (o *objects) ServeHTTP(w http.ResponseWriter, r *http.Request, body []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name := path.Base(r.URL.Path)
	if r.Method != http.MethodGet {
		o.writes = append(o.writes, r.Method+" "+name)
	}
	switch kept, there := o.kept[name]; {
	case r.Method == http.MethodPatch:
		object := map[string]any{}
		_ = json.Unmarshal(body, &object)
		object["metadata"].(map[string]any)["uid"] = fmt.Sprint(len(o.writes))
		o.kept[name] = object
		answer(w, http.StatusCreated, object)
	case !there:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, name)
	case r.Method == http.MethodDelete:
		delete(o.kept, name)
		answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
	default:
		answer(w, http.StatusOK, kept)
		end, said := o.ends[name]
		if !said {
			end = "Complete"
		}
		if kept["kind"] == "Job" && end != "" {
			kept["status"] = map[string]any{"conditions": []any{map[string]any{"type": end, "status": "True", "reason": "R", "message": "M"}}}
		}
	}
}

// put has an object in the cluster.
func (o *objects) put(name string, metadata map[string]any) {
	metadata["name"], metadata["uid"] = name, "of-before"
	o.kept[name] = map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
}

// complete has a Job in the cluster that has completed.
func (o *objects) complete(name string) {
	o.put(name, map[string]any{})
	o.kept[name]["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Complete", "status": "True"}}}
}

// hooked is a leaf with a ConfigMap "main" and hooks.
func hooked(t *testing.T, op domain.Operation, hooks ...plan.Resource) (*leaf, *objects) {
	t.Helper()
	l := newLeaf(t, op, 0)
	bundle := plan.Bundle{App: "app", Resources: append([]plan.Resource{{
		ResourceID: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: "main"},
		Manifest:   json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"main"}}`),
	}}, hooks...)}
	l.in.Bundle, l.in.Resources, l.in.Hooked, l.in.HookTime = l.store.put(t, bundle), len(bundle.Resources), true, time.Minute
	o := &objects{kept: map[string]map[string]any{}, ends: map[string]string{}}
	l.body = func(w http.ResponseWriter, r *http.Request, body []byte) { o.ServeHTTP(w, r, body) }
	return l, o
}

// losesItsCluster runs the leaf until it has told of its cluster, which answers no more from then on, and gives what brings the cluster back.
func (l *leaf) losesItsCluster(t *testing.T) (back func()) {
	t.Helper()
	lost, serve := false, l.body
	l.body = func(w http.ResponseWriter, r *http.Request, body []byte) {
		if lost {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		serve(w, r, body)
	}
	l.onContact = func(c activities.Contact) { lost = c.Reason != "" }
	_, err := l.run()
	require.Equal(t, fail.Unavailable, fail.KindOf(err), "%v", err)
	return func() { lost, l.onContact = false, nil }
}

func jobHook(name string, hook plan.Hook) plan.Resource {
	return plan.Resource{
		ResourceID: plan.ResourceID{Group: "batch", Version: "v1", Kind: "Job", Name: name}, Stage: 4, Hook: &hook,
		Manifest: json.RawMessage(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"` + name + `"},"spec":{"template":{}}}`),
	}
}

func settingsHook(name string, hook plan.Hook) plan.Resource {
	return plan.Resource{
		ResourceID: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: name}, Stage: 3, Hook: &hook,
		Manifest: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"}}`),
	}
}

func on(events ...string) plan.Hook { return plan.Hook{Events: events} }

// through runs all steps, and returns the marks after each.
func (l *leaf) through() []string {
	l.t.Helper()
	var marks []string
	for {
		end, err := l.run()
		require.NoError(l.t, err)
		marks = append(marks, end.Marks)
		if l.in.Step = end.Next; end.Next == 0 {
			return marks
		}
	}
}

// run of the annotation: the test's activities are all of one run.
const runOfTest = "default-test-run-id/"

func TestHooksAreRunInSteps(t *testing.T) {
	tidied := on("pre-install")
	tidied.DeletePolicies = []string{"hook-succeeded", "before-hook-creation"}
	l, o := hooked(t, domain.OpInstantiate,
		settingsHook("settings", on("pre-install")), jobHook("migrate", tidied), jobHook("announce", on("post-install")), jobHook("bye", on("pre-delete")))
	require.Equal(t, []string{"1p1A2p1h", "1p2A1p1h", "1p1A1D1p1h", "2A1D1p1h", "2A1D1A1h"}, l.through())
	require.Equal(t, []string{"PATCH settings", "PATCH migrate", "DELETE migrate", "PATCH main", "PATCH announce"}, o.writes)
	require.Equal(t, "2A1D1A1h", l.recorded().Marks)
	var reasons []string
	for _, c := range l.contacts {
		require.Equal(t, domain.ConnectivityAvailable, c.Connectivity)
		reasons = append(reasons, c.Reason)
	}
	require.Equal(t, []string{"waits for the pre-install hook Job migrate", "waits for the post-install hook Job announce"}, reasons,
		"each is told once, and what is not waited for is not")

	l.in.Operation, l.in.Step = domain.OpTerminate, 0
	o.writes = nil
	require.Equal(t, []string{"2d1D1d1A", "1D1d1D1d1A", "5D"}, l.through())
	require.Equal(t, "PATCH bye", o.writes[0])
	require.Equal(t, "DELETE main", o.writes[1])
	require.ElementsMatch(t, []string{"DELETE settings", "DELETE announce", "DELETE bye"}, o.writes[2:])
	require.Empty(t, o.kept)
}

// TestHooksThatAreKept have the objects of others' deployments depend on them: Helm deletes no CRD that is a hook.
func TestHooksThatAreKept(t *testing.T) {
	never := on("pre-install", "pre-upgrade")
	never.DeletePolicies = []string{string(plan.Never)}
	kept := settingsHook("kept", never)
	kept.Keep = true
	leaves := settingsHook("leaves", on("pre-delete"))
	leaves.Keep = true
	l, o := hooked(t, domain.OpInstantiate, kept, leaves)
	o.put("kept", map[string]any{"labels": map[string]any{plan.DeploymentLabel: "0-app"}})
	require.Equal(t, []string{"1p1A1h", "2A1h"}, l.through())
	require.Equal(t, []string{"PATCH kept", "PATCH main"}, o.writes, "what is there stays there")

	l.in.Operation, l.in.Step = domain.OpTerminate, 0
	o.writes = nil
	require.Equal(t, []string{"1d1K1A", "1D1K1A", "1D2K"}, l.through())
	require.Equal(t, []string{"PATCH leaves", "DELETE main"}, o.writes)
}

// runsOf are the entries of a hook in a bundle.
func runsOf(name string, hook plan.Hook) (runs []plan.Resource) {
	for _, run := range hook.Runs() {
		runs = append(runs, jobHook(name, *run))
	}
	return runs
}

// TestHookOfTwoEvents is run for each of them, whatever is left of the first run, and each has its own mark.
func TestHookOfTwoEvents(t *testing.T) {
	both := on("pre-install", "post-install")
	l, o := hooked(t, domain.OpInstantiate, runsOf("job", both)...)
	require.Equal(t, []string{"1p1A1p", "2A1p", "3A"}, l.through())
	require.Equal(t, []string{"PATCH job", "PATCH main", "DELETE job", "PATCH job"}, o.writes)

	both.DeletePolicies = []string{"hook-succeeded"}
	l, o = hooked(t, domain.OpInstantiate, runsOf("job", both)...)
	require.Equal(t, []string{"1p1A1p", "1p1D1p", "1A1D1p", "1A1D1A", "1A2D"}, l.through())
	require.Equal(t, []string{"PATCH job", "DELETE job", "PATCH main", "PATCH job", "DELETE job"}, o.writes)

	l, o = hooked(t, domain.OpTerminate, runsOf("job", on("pre-delete", "post-delete"))...)
	require.NoError(t, l.store.PutLeaf(t.Context(), domain.Leaf{ID: l.in.LeafID(), Operation: domain.OpInstantiate, Marks: "1A2h"}))
	o.put("main", map[string]any{"labels": map[string]any{plan.DeploymentLabel: "1-app"}})
	require.Equal(t, []string{"1d1A1p", "1D1A1p", "1D2A", "3D"}, l.through())
	require.Equal(t, []string{"PATCH job", "DELETE main", "DELETE job", "PATCH job"}, o.writes[:4])
	require.Empty(t, o.kept)
}

// TestHookOfTwoEventsGoesOn where an operation before this one has come to: a run that has succeeded is not run again.
func TestHookOfTwoEventsGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		inherited string // see plan.Diff
		was       string // the run of the object that is there
		want      string
		writes    []string
	}{
		"before its first run": {"3p", "", "3A", []string{"PATCH job", "PATCH main", "DELETE job", "PATCH job"}},
		"in its first run":     {"1p1s1p", "pre-install", "3A", []string{"DELETE job", "PATCH job", "PATCH main", "DELETE job", "PATCH job"}},
		"between its runs":     {"1p1A1p", "pre-install", "3A", []string{"PATCH main", "DELETE job", "PATCH job"}},
		"in its second run":    {"2A1s", "post-install", "3A", []string{"DELETE job", "PATCH job"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, o := hooked(t, domain.OpUpdate, runsOf("job", on("pre-install", "post-install"))...)
			l.in.Inherited, l.in.Installs = c.inherited, true
			if c.was != "" {
				o.put("job", map[string]any{
					"labels": map[string]any{plan.DeploymentLabel: "1-app"}, "annotations": map[string]any{"drover.io/hook-run": "earlier/" + c.was},
				})
			}
			marks := l.through()
			require.Equal(t, c.want, marks[len(marks)-1])
			require.Equal(t, c.writes, o.writes)
		})
	}
}

// TestSecondRunOfAHookFails: its first run has succeeded all the same.
func TestSecondRunOfAHookFails(t *testing.T) {
	l, o := hooked(t, domain.OpInstantiate, runsOf("job", on("pre-install", "post-install"))...)
	l.onContact = func(c activities.Contact) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if strings.Contains(c.Reason, "pre-install") { // of which the end is decided
			o.ends["job"] = "Failed"
		}
	}
	marks := l.through()
	require.Equal(t, "2A1X", marks[len(marks)-1])
	require.Equal(t, 2, l.recorded().Notes[0].Index)
}

func TestHookFails(t *testing.T) {
	for name, c := range map[string]struct {
		policies []string
		want     []string
		left     bool
	}{
		"and stays":   {nil, []string{"2p1X1p"}, true},
		"and is gone": {[]string{"hook-failed"}, []string{"2p1X1p", "2p1F1p"}, false},
		"and only if it had succeeded it would be gone": {[]string{"hook-succeeded"}, []string{"2p1X1p", "2p1X1p"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			hook := on("pre-install")
			hook.DeletePolicies = c.policies
			l, o := hooked(t, domain.OpInstantiate, jobHook("later", on("post-install")), jobHook("fails", hook), jobHook("after", on("pre-install")))
			o.ends["fails"] = "Failed"
			require.Equal(t, c.want, l.through())
			require.NotContains(t, o.writes, "PATCH main")
			require.NotContains(t, o.writes, "PATCH after")
			require.Equal(t, c.left, o.kept["fails"] != nil)
			note := l.recorded().Notes[0]
			require.Equal(t, 2, note.Index)
			require.Equal(t, "the Job has failed: R: M", note.Message)
		})
	}
}

func TestHookTakesTooLong(t *testing.T) {
	hook := on("pre-install")
	hook.Timeout = 100 * time.Millisecond
	l, o := hooked(t, domain.OpInstantiate, jobHook("slow", hook))
	o.ends["slow"] = ""
	require.Equal(t, []string{"1p1X"}, l.through())
	require.Equal(t, "it has not completed within 100ms: the Job has not completed", l.recorded().Notes[0].Message)
}

// TestHookThatWasSent is an attempt after one that was lost: nothing but the cluster knows what it did.
func TestHookThatWasSent(t *testing.T) {
	labels := map[string]any{plan.DeploymentLabel: "1-app"}
	annotated := func(run string) map[string]any { return map[string]any{"drover.io/hook-run": run} }
	for name, c := range map[string]struct {
		metadata map[string]any
		policies []string
		ttl      bool // it has a time to live
		ended    bool
		writes   []string
		want     string
		note     string
	}{
		"is waited for": {
			metadata: map[string]any{"labels": labels, "annotations": annotated(runOfTest + "pre-install/1")}, want: "1p1A",
		},
		"by another event is run": {
			metadata: map[string]any{"labels": labels, "annotations": annotated(runOfTest + "post-install/1")},
			writes:   []string{"DELETE job", "PATCH job"}, want: "1p1A",
		},
		"by an earlier context is run": {
			metadata: map[string]any{"labels": map[string]any{plan.DeploymentLabel: "0-app"}, "annotations": annotated("other/pre-install")},
			writes:   []string{"DELETE job", "PATCH job"}, want: "1p1A",
		},
		"earlier, and may not be deleted": {
			metadata: map[string]any{"labels": labels, "annotations": annotated("other/pre-install")}, policies: []string{"hook-succeeded"},
			want: "1p1X", note: "it is there already, from an earlier run; it would have to have the policy before-hook-creation",
		},
		"as the release's, which it is no more, is run": {
			metadata: map[string]any{"labels": labels}, policies: []string{"hook-succeeded"},
			writes: []string{"DELETE job", "PATCH job"}, want: "1p1A",
		},
		"earlier, has ended, and goes by itself": {
			metadata: map[string]any{"labels": labels, "annotations": annotated("other/pre-install")}, policies: []string{"hook-succeeded"}, ttl: true, ended: true,
			writes: []string{"DELETE job", "PATCH job"}, want: "1p1A",
		},
		"earlier, and goes by itself once it has ended": {
			metadata: map[string]any{"labels": labels, "annotations": annotated("other/pre-install")}, policies: []string{"hook-succeeded"}, ttl: true,
			want: "1p1X", note: "it is there already, from an earlier run; it would have to have the policy before-hook-creation",
		},
		"earlier, has ended, and stays": {
			metadata: map[string]any{"labels": labels, "annotations": annotated("other/pre-install")}, policies: []string{"hook-succeeded"}, ended: true,
			want: "1p1X", note: "it is there already, from an earlier run; it would have to have the policy before-hook-creation",
		},
		"as another deployment's resource stays": {
			metadata: map[string]any{"labels": map[string]any{plan.DeploymentLabel: "7-other"}}, want: "1p1F",
			note: "an object of its name is there already that another deployment has, by its label emco/deployment-id=7-other: rename the hook, or delete that by hand",
		},
		"by another installation stays": {
			metadata: map[string]any{
				"labels":      map[string]any{plan.DeploymentLabel: "7-app"},
				"annotations": map[string]any{"drover.io/hook-run": "other/pre-install", plan.InstallationAnnotation: "another"},
			}, want: "1p1F",
			note: "an object of its name is there already that another deployment has, by its label emco/deployment-id=7-app: rename the hook, or delete that by hand",
		},
		"by nobody of ours stays": {
			metadata: map[string]any{}, want: "1p1F", note: "an object of its name, that does not carry the label emco/deployment-id, is there already",
		},
	} {
		t.Run(name, func(t *testing.T) {
			hook := on("pre-install")
			hook.DeletePolicies = c.policies
			l, o := hooked(t, domain.OpInstantiate, jobHook("job", hook))
			o.put("job", c.metadata)
			if c.ttl {
				o.kept["job"]["spec"] = map[string]any{"ttlSecondsAfterFinished": 86400}
			}
			if c.ended {
				o.kept["job"]["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Failed", "status": "True"}}}
			}
			end, err := l.run()
			require.NoError(t, err)
			require.Equal(t, c.want, end.Marks)
			require.Equal(t, c.writes, slices.Clip(o.writes))
			if c.note != "" {
				require.Equal(t, c.note, l.recorded().Notes[0].Message)
			}
		})
	}
}

// TestHookThatIsNotWaitedForWasSent, and the answer was lost: it is done when it is applied. A claim is not bound before the release has a Pod that uses it.
func TestHookThatIsNotWaitedForWasSent(t *testing.T) {
	hook := on("pre-install")
	l, o := hooked(t, domain.OpInstantiate, plan.Resource{
		ResourceID: plan.ResourceID{Version: "v1", Kind: "PersistentVolumeClaim", Name: "data"}, Hook: &hook,
		Manifest: json.RawMessage(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data"}}`),
	})
	l.in.HookTime = 10 * time.Millisecond
	o.put("data", map[string]any{"labels": map[string]any{plan.DeploymentLabel: "1-app"}, "annotations": map[string]any{"drover.io/hook-run": runOfTest + "pre-install/1"}})
	o.kept["data"]["apiVersion"], o.kept["data"]["kind"], o.kept["data"]["status"] = "v1", "PersistentVolumeClaim", map[string]any{"phase": "Pending"}
	end, err := l.run()
	require.NoError(t, err)
	require.Equal(t, "1p1A", end.Marks)
	require.Empty(t, o.writes)
}

// TestHookDeletesNothingThatHoldsWhatOthersHave: a namespace of another deployment is there with all that is in it.
func TestHookDeletesNothingThatHoldsWhatOthersHave(t *testing.T) {
	for name, c := range map[string]struct {
		metadata map[string]any
		keep     bool
		want     string
		writes   []string
	}{
		"of an earlier instance, to be kept": {
			metadata: map[string]any{"labels": map[string]any{plan.DeploymentLabel: "0-app"}}, keep: true, want: "1p1A", writes: []string{"PATCH shared"},
		},
		"of another deployment": {
			metadata: map[string]any{"labels": map[string]any{plan.DeploymentLabel: "7-other"}}, want: "1p1A", writes: []string{"PATCH shared"},
		},
		"of its own": {
			metadata: map[string]any{"labels": map[string]any{plan.DeploymentLabel: "1-app"}}, want: "1p1A", writes: []string{"DELETE shared", "PATCH shared"},
		},
		"of another app of its context": {
			metadata: map[string]any{"labels": map[string]any{plan.DeploymentLabel: "1-before"}}, want: "1p1A", writes: []string{"DELETE shared", "PATCH shared"},
		},
		"of another deployment, that is being deleted": {
			metadata: map[string]any{"labels": map[string]any{plan.DeploymentLabel: "7-other"}, "deletionTimestamp": "2020-01-01T00:00:00Z"}, want: "1p1A",
			writes: []string{"PATCH shared"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			hook := on("pre-install")
			l, o := hooked(t, domain.OpInstantiate, plan.Resource{
				ResourceID: plan.ResourceID{Version: "v1", Kind: "Namespace", Name: "shared"}, Hook: &hook, Keep: c.keep,
				Manifest: json.RawMessage(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shared"}}`),
			})
			o.put("shared", c.metadata)
			if c.metadata["deletionTimestamp"] != nil {
				serve, looks := l.body, 0
				l.body = func(w http.ResponseWriter, r *http.Request, body []byte) {
					if looks++; looks == 3 {
						delete(o.kept, "shared")
					}
					serve(w, r, body)
				}
			}
			end, err := l.run()
			require.NoError(t, err)
			require.Equal(t, c.want, end.Marks)
			require.Equal(t, c.writes, slices.Clip(o.writes))
		})
	}
}

// TestHooksOfOneName are run each, as charts have them that are there twice under different names.
func TestHooksOfOneName(t *testing.T) {
	l, o := hooked(t, domain.OpInstantiate, jobHook("job", on("pre-install")), jobHook("job", on("pre-install")))
	require.Equal(t, []string{"1p1A1p", "1p2A", "3A"}, l.through())
	require.Equal(t, []string{"PATCH job", "DELETE job", "PATCH job", "PATCH main"}, o.writes)
}

func TestHookIsDeletedByHand(t *testing.T) {
	l, o := hooked(t, domain.OpInstantiate, jobHook("job", on("pre-install")))
	o.ends["job"] = ""
	l.onContact = func(activities.Contact) {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.kept, "job")
	}
	require.Equal(t, []string{"1p1F"}, l.through())
	require.Equal(t, gone, l.recorded().Notes[0].Message)
}

// gone is the note on a hook that is waited for, and is not there any more.
const gone = "it was deleted before anybody had seen it complete: whether it has is not known"

// TestHookHasGoneWhileItsClusterWasAway, as a Job does that has a time to live, or that somebody deletes: it may have done its work.
func TestHookHasGoneWhileItsClusterWasAway(t *testing.T) {
	for name, c := range map[string]struct {
		there bool   // in its name, and not made by the run
		run   string // which one has made what is there, "" for none
		want  string
	}{
		"it is not run again":                          {want: "1p1F"},
		"what is put in its place by hand counts, too": {there: true, want: "1p1A"},
		"an earlier run's, of a backup, does not":      {there: true, run: "earlier/pre-install/1", want: "1p1F"},
	} {
		t.Run(name, func(t *testing.T) {
			l, o := hooked(t, domain.OpInstantiate, jobHook("job", on("pre-install")))
			o.ends["job"] = ""
			back := l.losesItsCluster(t)

			back()
			o.mu.Lock()
			delete(o.kept, "job")
			if delete(o.ends, "job"); c.there {
				o.put("job", map[string]any{"labels": map[string]any{plan.DeploymentLabel: "1-app"}, "annotations": map[string]any{"drover.io/hook-run": c.run}})
			}
			o.mu.Unlock()
			l.env.SetHeartbeatDetails(l.raw)
			end, err := l.run()
			require.NoError(t, err)
			require.Equal(t, c.want, end.Marks)
			require.Equal(t, []string{"PATCH job"}, o.writes, "it was not run twice")
			if c.want == "1p1F" {
				require.Equal(t, gone, l.recorded().Notes[0].Message)
			}
		})
	}
}

// TestHookWhoseAnswerIsLost is sent again where its cluster does not have it, unless that may have deleted it meanwhile.
func TestHookWhoseAnswerIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		ttl       bool
		away      time.Duration
		scheduled time.Duration // ago, by Temporal's clock
		want      string
	}{
		"a moment ago":                        {ttl: true, away: time.Minute, scheduled: 48 * time.Hour, want: "1p1A"},
		"longer ago than it stays":            {ttl: true, away: 25 * time.Hour, scheduled: 48 * time.Hour, want: "1p1F"},
		"long ago, and it stays for ever":     {away: 25 * time.Hour, scheduled: 48 * time.Hour, want: "1p1A"},
		"a moment ago, by a clock far behind": {ttl: true, away: 25 * time.Hour, scheduled: time.Minute, want: "1p1A"},
	} {
		t.Run(name, func(t *testing.T) {
			activities.SetScheduledFor(t, c.scheduled)
			job := jobHook("job", on("pre-install"))
			if c.ttl {
				job.Manifest = json.RawMessage(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"job"},"spec":{"ttlSecondsAfterFinished":0,"template":{}}}`)
			}
			l, o := hooked(t, domain.OpInstantiate, job)
			serve := l.body
			l.body = func(w http.ResponseWriter, r *http.Request, body []byte) {
				if r.Method == http.MethodPatch {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				serve(w, r, body)
			}
			_, err := l.run()
			require.Equal(t, fail.Unavailable, fail.KindOf(err), "%v", err)
			require.Empty(t, l.raw["since"], "nobody knows that it is there")
			sent, err := time.Parse(time.RFC3339, fmt.Sprint(l.raw["sent"]))
			require.NoError(t, err)
			require.Less(t, time.Since(sent), time.Minute)

			l.body = serve
			l.raw["sent"] = sent.Add(-c.away)
			l.env.SetHeartbeatDetails(l.raw)
			end, err := l.run()
			require.NoError(t, err)
			require.Equal(t, c.want, end.Marks)
			if c.want == "1p1F" {
				require.Empty(t, o.writes)
				require.Equal(t, "it was sent without an answer so long ago that its cluster may have deleted it since: whether it was run is not known", l.recorded().Notes[0].Message)
			}
		})
	}
}

// TestHookIsNotWaitedForWhileItsClusterIsAway: what becomes of it then, nobody can see.
func TestHookIsNotWaitedForWhileItsClusterIsAway(t *testing.T) {
	for name, c := range map[string]struct {
		heard time.Duration // until when, since it was waited for
		want  string
	}{
		"there is time left":  {10 * time.Second, "1p1A"},
		"its time was over":   {50 * time.Second, "1p1X"},
		"nobody has noted it": {0, "1p1X"}, // a worker of v0.1.0
	} {
		t.Run(name, func(t *testing.T) {
			l, o := hooked(t, domain.OpInstantiate, jobHook("job", on("pre-install")))
			o.ends["job"] = ""
			o.put("job", map[string]any{"labels": map[string]any{plan.DeploymentLabel: "1-app"}, "annotations": map[string]any{"drover.io/hook-run": runOfTest + "pre-install/1"}})
			l.onContact = func(activities.Contact) {
				o.mu.Lock()
				defer o.mu.Unlock()
				delete(o.ends, "job")
			}
			since := time.Now().Add(-3 * time.Hour)
			before := map[string]any{"marks": "1p1s", "announced": "1p1s", "connectivity": domain.ConnectivityRetrying, "since": since}
			if c.heard > 0 {
				before["heard"] = since.Add(c.heard)
			}
			l.env.SetHeartbeatDetails(before)
			end, err := l.run()
			require.NoError(t, err)
			require.Equal(t, c.want, end.Marks)
			require.Empty(t, o.writes)
		})
	}
}

func TestStopWhileAHookRuns(t *testing.T) {
	l, o := hooked(t, domain.OpInstantiate, jobHook("job", on("pre-install")))
	o.ends["job"] = ""
	ctx, cancel := context.WithCancelCause(t.Context())
	l.options.BackgroundActivityContext = ctx
	l.onContact = func(activities.Contact) { cancel(temporal.NewCanceledError()) }
	end, err := l.run()
	require.NoError(t, err)
	require.Equal(t, "1p1s", end.Marks)
	require.Zero(t, end.Next, "nothing follows a stop")
	require.Equal(t, "1p1s", l.recorded().Marks)
}

// TestClusterIsLostWhileAHookRuns comes back to a hook that has ended meanwhile.
func TestClusterIsLostWhileAHookRuns(t *testing.T) {
	l, o := hooked(t, domain.OpInstantiate, jobHook("job", on("pre-install")))
	o.ends["job"] = ""
	back := l.losesItsCluster(t)
	require.Equal(t, domain.ConnectivityRetrying, l.contacts[1].Connectivity)
	require.Empty(t, l.contacts[1].Reason)

	back()
	o.mu.Lock()
	delete(o.ends, "job")
	o.mu.Unlock()
	l.env.SetHeartbeatDetails(l.raw)
	end, err := l.run()
	require.NoError(t, err)
	require.Equal(t, "1p1A", end.Marks)
	require.Equal(t, []string{"PATCH job"}, o.writes, "it was not run twice")
}

// TestNothingToDelete asks a cluster for nothing that never got anything: no hook is run there either.
func TestNothingToDelete(t *testing.T) {
	l, o := hooked(t, domain.OpTerminate, jobHook("bye", on("pre-delete")))
	require.Equal(t, []string{"2D"}, l.through())
	require.Empty(t, o.writes)
	require.Empty(t, l.seen())
}

// TestTerminateAgain runs the hook that failed once more, and not the one that did not.
func TestTerminateAgain(t *testing.T) {
	l, o := hooked(t, domain.OpTerminate, jobHook("first", on("pre-delete")), jobHook("second", on("pre-delete")))
	require.NoError(t, l.store.PutLeaf(t.Context(), domain.Leaf{ID: l.in.LeafID(), Operation: domain.OpInstantiate, Marks: "1A2h"}))
	o.ends["second"] = "Failed"
	require.Equal(t, []string{"1d1A1p", "1d1A1X"}, l.through())
	delete(o.ends, "second")
	o.kept["second"]["metadata"].(map[string]any)["annotations"] = map[string]any{"drover.io/hook-run": "an earlier one"}
	o.writes, l.in.Step = nil, 0
	marks := l.through()
	require.Equal(t, "3D", marks[len(marks)-1])
	require.Equal(t, []string{"DELETE second", "PATCH second"}, o.writes[:2])
	require.NotContains(t, o.writes, "PATCH first")
}

func TestAwaitReady(t *testing.T) {
	l, o := hooked(t, domain.OpInstantiate, jobHook("hook", on("pre-delete")))
	job := jobHook("work", plan.Hook{})
	job.Hook = nil
	bundle := plan.Bundle{App: "app", Resources: []plan.Resource{job, jobHook("hook", on("pre-delete"))}}
	p := plan.Plan{Apps: []plan.App{{
		Name: "app", Bundle: l.store.put(t, bundle), Resources: make([]plan.ResourceID, 2), Targets: []plan.Target{{ClusterName: l.in.Cluster}},
	}}}
	in := activities.ReadyInput{Plan: l.store.put(t, p), App: "app", Namespace: "default", To: 1}
	l.onLacking = func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.complete("work")
	}
	_, err := l.env.ExecuteActivity(l.kube.AwaitReady, in)
	require.NoError(t, err)
	require.Equal(t, []activities.Lacking{{App: "app", Reason: "on p+c: Job work: NotPresent"}}, l.lacking)
	require.Empty(t, o.writes)
	for _, r := range l.seen() {
		require.False(t, strings.HasSuffix(r, " hook"), "hooks are not waited for")
	}
	in.To = 2
	delete(l.store.blobs, in.Plan) // the plan was decoded once for all that wait
	_, err = l.env.ExecuteActivity(l.kube.AwaitReady, in)
	require.ErrorContains(t, err, "has no clusters 0 to 2")
}

// aJob has AwaitReady wait for a Job called work.
func aJob(l *leaf) activities.ReadyInput {
	job := jobHook("work", plan.Hook{})
	job.Hook = nil
	p := plan.Plan{Apps: []plan.App{{
		Name: "app", Bundle: l.store.put(l.t, plan.Bundle{App: "app", Resources: []plan.Resource{job}}),
		Resources: make([]plan.ResourceID, 1), Targets: []plan.Target{{ClusterName: l.in.Cluster}},
	}}}
	return activities.ReadyInput{Plan: l.store.put(l.t, p), App: "app", Namespace: "default", To: 1}
}

// TestAwaitReadyAnew: an attempt does not tell what the one before has told, and tells what it has not, also where the clock of that one was ahead.
func TestAwaitReadyAnew(t *testing.T) {
	const reason = "on p+c: Job work: NotPresent"
	for name, c := range map[string]struct {
		told  string
		ahead time.Duration
		want  int // words
	}{
		"what was told":           {told: reason},
		"another, a moment later": {told: "on p+c: nobody has looked", ahead: 2 * time.Hour, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, o := hooked(t, domain.OpInstantiate)
			l.env.SetHeartbeatDetails(map[string]any{"reason": c.told, "at": time.Now().Add(c.ahead)})
			time.AfterFunc(max(policy.FirstLacking, policy.Beat)*3/2, func() {
				o.mu.Lock()
				defer o.mu.Unlock()
				o.complete("work")
			})
			_, err := l.env.ExecuteActivity(l.kube.AwaitReady, aJob(l))
			require.NoError(t, err)
			require.Len(t, l.lacking, c.want)
			if c.want == 0 { // else the heartbeat that says so may not have come yet
				require.Equal(t, reason, l.raw["reason"], "the next one knows what was told")
			}
		})
	}
}

// TestAwaitReadyWhoseLeaseIsLost: an attempt that may not tell what it waits for makes way for one that may.
func TestAwaitReadyWhoseLeaseIsLost(t *testing.T) {
	l, _ := hooked(t, domain.OpInstantiate)
	l.freezing()()
	var failure error
	l.options.Interceptors = append(l.options.Interceptors, &errorsOf{err: &failure})
	l.env.SetWorkerOptions(l.options)
	_, err := l.env.ExecuteActivity(l.kube.AwaitReady, aJob(l))
	require.Error(t, err)
	require.ErrorIs(t, failure, lease.ErrLost)
	require.Empty(t, l.lacking)
}

// TestAwaitReadyByRulesOfUsers: an app is Ready when its status says so, which knows of ConfigMaps their metadata alone.
func TestAwaitReadyByRulesOfUsers(t *testing.T) {
	l, o := hooked(t, domain.OpInstantiate)
	l.rules = readiness.Compile(
		readiness.Rule{Name: "job", Group: "batch", Kind: "Job", Ready: `object.status.phase == "Up"`},
		readiness.Rule{Name: "settings", Kind: "ConfigMap", Ready: `!has(object.data)`},
	)
	work, settings := jobHook("work", plan.Hook{}), settingsHook("settings", plan.Hook{})
	work.Hook, settings.Hook = nil, nil
	p := plan.Plan{Apps: []plan.App{{
		Name: "app", Bundle: l.store.put(t, plan.Bundle{App: "app", Resources: []plan.Resource{work, settings}}),
		Resources: []plan.ResourceID{work.ResourceID, settings.ResourceID}, Targets: []plan.Target{{ClusterName: l.in.Cluster}},
	}}}
	set := func(phase string) {
		o.put("work", map[string]any{})
		o.ends["work"], o.kept["work"]["status"] = "", map[string]any{"phase": phase}
	}
	set("Starting")
	o.kept["settings"] = map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings"}, "data": map[string]any{"k": "v"},
	}
	l.onLacking = func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		set("Up")
	}
	_, err := l.env.ExecuteActivity(l.kube.AwaitReady, activities.ReadyInput{Plan: l.store.put(t, p), App: "app", Namespace: "default", To: 1})
	require.NoError(t, err)
	require.Equal(t, []activities.Lacking{{App: "app", Reason: "on p+c: Job work: rule job: not fulfilled"}}, l.lacking)
}

// TestAwaitReadyOfAJobThatHasExpired: nobody waits for a Job that its cluster has deleted, as it says itself.
func TestAwaitReadyOfAJobThatHasExpired(t *testing.T) {
	l, _ := hooked(t, domain.OpInstantiate)
	work := jobHook("work", plan.Hook{})
	work.Hook, work.Manifest = nil, json.RawMessage(`{"kind":"Job","spec":{"ttlSecondsAfterFinished":0}}`)
	p := plan.Plan{Apps: []plan.App{{
		Name: "app", Bundle: l.store.put(t, plan.Bundle{App: "app", Resources: []plan.Resource{work}}),
		Resources: []plan.ResourceID{work.ResourceID}, Targets: []plan.Target{{ClusterName: l.in.Cluster}},
	}}}
	_, err := l.env.ExecuteActivity(l.kube.AwaitReady, activities.ReadyInput{Plan: l.store.put(t, p), App: "app", Namespace: "default", To: 1})
	require.NoError(t, err)
	require.Empty(t, l.lacking)
}

// TestAwaitReadyOfAClaim: a claim that is bound when a Pod uses it is not waited for, as that may be a Pod of what waits.
func TestAwaitReadyOfAClaim(t *testing.T) {
	claim := plan.Resource{ResourceID: plan.ResourceID{Version: "v1", Kind: "PersistentVolumeClaim", Name: "data"}, Manifest: json.RawMessage(`{}`)}
	bind := func(o *objects) { o.kept["data"]["status"] = map[string]any{"phase": "Bound"} }
	for name, c := range map[string]struct {
		mode, rule, lacks string
		class             string // which is in the cluster
	}{
		"late":                         {mode: "WaitForFirstConsumer", class: "fast"},
		"at once":                      {mode: "Immediate", class: "fast", lacks: "PVC is not Bound. phase: Pending"},
		"of a class of no mode":        {class: "fast", lacks: "PVC is not Bound. phase: Pending"},
		"of a class that is not there": {mode: "WaitForFirstConsumer", class: "other", lacks: "PVC is not Bound. phase: Pending"},
		"by a rule":                    {mode: "WaitForFirstConsumer", class: "fast", rule: `object.status.phase == "Bound"`, lacks: "rule r: not fulfilled"},
	} {
		t.Run(name, func(t *testing.T) {
			l, o := hooked(t, domain.OpInstantiate)
			if c.rule != "" {
				l.rules = readiness.Compile(readiness.Rule{Name: "r", Kind: "PersistentVolumeClaim", Ready: c.rule})
			}
			o.kept[c.class] = map[string]any{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": map[string]any{"name": c.class}, "volumeBindingMode": c.mode}
			o.kept["data"] = map[string]any{
				"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": "data"},
				"spec": map[string]any{"storageClassName": "fast"}, "status": map[string]any{"phase": "Pending"},
			}
			l.onLacking = func() { // so that it ends all the same
				o.mu.Lock()
				defer o.mu.Unlock()
				bind(o)
			}
			p := plan.Plan{Apps: []plan.App{{
				Name: "app", Bundle: l.store.put(t, plan.Bundle{App: "app", Resources: []plan.Resource{claim}}),
				Resources: []plan.ResourceID{claim.ResourceID}, Targets: []plan.Target{{ClusterName: l.in.Cluster}},
			}}}
			_, err := l.env.ExecuteActivity(l.kube.AwaitReady, activities.ReadyInput{Plan: l.store.put(t, p), App: "app", Namespace: "default", To: 1})
			require.NoError(t, err)
			var lacking []activities.Lacking
			if c.lacks != "" {
				lacking = []activities.Lacking{{App: "app", Reason: "on p+c: PersistentVolumeClaim data: " + c.lacks}}
			}
			require.Equal(t, lacking, l.lacking)
		})
	}
}

// TestAwaitReadyInAnUpdate waits for nothing that is to go, which may never have been Ready, nor there at all.
func TestAwaitReadyInAnUpdate(t *testing.T) {
	l, o := hooked(t, domain.OpUpdate)
	work, old := jobHook("work", plan.Hook{}), jobHook("old", plan.Hook{})
	work.Hook, old.Hook = nil, nil
	p := plan.Plan{Apps: []plan.App{{
		Name: "app", Bundle: l.store.put(t, plan.Bundle{App: "app", Resources: []plan.Resource{work, old}}),
		Resources: []plan.ResourceID{work.ResourceID, old.ResourceID}, Pruned: 1,
		Targets: []plan.Target{{ClusterName: l.in.Cluster}, {ClusterName: domain.ClusterName{Provider: "p", Name: "left"}, Leaving: true}},
	}}}
	o.complete("work")
	l.onLacking = func() { // so that it ends all the same
		o.mu.Lock()
		defer o.mu.Unlock()
		o.complete("old")
	}
	_, err := l.env.ExecuteActivity(l.kube.AwaitReady, activities.ReadyInput{Plan: l.store.put(t, p), App: "app", Namespace: "default", To: 2})
	require.NoError(t, err)
	require.Empty(t, l.lacking)
	require.Equal(t, []string{"GET work"}, l.seen())
}

// TestAwaitReadyWhereClustersDiffer waits on each cluster for what it gets, and for nothing that another one gets alone.
func TestAwaitReadyWhereClustersDiffer(t *testing.T) {
	l, o := hooked(t, domain.OpInstantiate)
	work, other := jobHook("work", plan.Hook{}), jobHook("other", plan.Hook{})
	work.Hook, other.Hook = nil, nil
	p := plan.Plan{Apps: []plan.App{{
		Name: "app", Bundle: l.store.put(t, plan.Bundle{App: "app", Resources: []plan.Resource{work, other}}),
		Resources: []plan.ResourceID{work.ResourceID, other.ResourceID}, Targets: []plan.Target{{ClusterName: l.in.Cluster}}, Lacks: "1p1G",
	}}}
	o.complete("work")
	l.onLacking = func() { // so that it ends all the same
		o.mu.Lock()
		defer o.mu.Unlock()
		o.complete("other")
	}
	_, err := l.env.ExecuteActivity(l.kube.AwaitReady, activities.ReadyInput{Plan: l.store.put(t, p), App: "app", Namespace: "default", To: 1})
	require.NoError(t, err)
	require.Empty(t, l.lacking)
	require.Equal(t, []string{"GET work"}, l.seen())
}

// bodyOf reads a request's body.
func bodyOf(r *http.Request) []byte {
	data, _ := io.ReadAll(r.Body)
	return data
}

// TestAHookWaitsForNoLaterStep has a hook in a namespace that is not there, and that the step after it brings: to wait for
// that would be for ever. In a first install, too, such a hook is refused.
func TestAHookWaitsForNoLaterStep(t *testing.T) {
	for name, c := range map[string]struct{ inherited, want string }{
		"where it is new": {inherited: "3p", want: "2p1F"},
		"where an earlier context had it, and it was deleted": {inherited: "1p1o1h", want: "1p1o1F"},
		"where it may have been sent":                         {inherited: "1p1s1h", want: "1p1s1F"},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := hooked(t, domain.OpUpdate, plan.Resource{
				ResourceID: plan.ResourceID{Version: "v1", Kind: "Namespace", Name: "gone"}, Manifest: json.RawMessage(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"gone"}}`),
			}, settingsHook("settings", on("pre-upgrade")))
			l.body = func(w http.ResponseWriter, r *http.Request, _ []byte) {
				if r.Method == http.MethodGet {
					refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, path.Base(r.URL.Path))
					return
				}
				answer(w, http.StatusNotFound, metav1.Status{
					TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound,
					Code: http.StatusNotFound, Message: `namespaces "gone" not found`, Details: &metav1.StatusDetails{Name: "gone", Kind: "namespaces"},
				})
			}
			l.in.Inherited = c.inherited
			require.Equal(t, []string{c.want}, l.through())
			require.Equal(t, []domain.Note{{Index: 2, Message: `namespaces "gone" not found`}}, l.recorded().Notes)
		})
	}
}

// TestKeptIsLookedFor: of what is to be kept, and was sent without an answer, a terminate asks the cluster. It says neither that it
// is there when it is not, nor deletes it when it is.
func TestKeptIsLookedFor(t *testing.T) {
	for name, c := range map[string]struct {
		there bool
		marks string
	}{
		"it is there":     {true, "1D1K"},
		"it is not there": {false, "2D"},
	} {
		t.Run(name, func(t *testing.T) {
			kept := settingsHook("kept", plan.Hook{})
			kept.Hook, kept.Keep = nil, true
			l, o := hooked(t, domain.OpTerminate, kept)
			if c.there {
				o.put("kept", map[string]any{"labels": map[string]string{plan.DeploymentLabel: l.in.ContextID + "-app"}})
			}
			l.env.SetHeartbeatDetails(progress{Marks: "1D1k", Announced: "1D1k", Connectivity: domain.ConnectivityRetrying})
			end, err := l.run()
			require.NoError(t, err)
			require.Equal(t, c.marks, end.Marks)
			require.Equal(t, domain.ConnectivityAvailable, end.Connectivity, "it has answered")
			require.Empty(t, o.writes)

			l.env = l.environment()
			require.NoError(t, l.store.PutLeaf(t.Context(), domain.Leaf{ID: l.in.LeafID(), Operation: domain.OpInstantiate, Marks: "1D1s"}))
			end, err = l.run()
			require.NoError(t, err)
			require.Equal(t, c.marks, end.Marks, "from the record, as well")
			require.Empty(t, o.writes)
		})
	}
}
