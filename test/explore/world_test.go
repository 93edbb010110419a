package explore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	temporalclient "go.temporal.io/sdk/client"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/test/fleet"
	"github.com/drover-io/drover/test/harness"
)

// world is all that sequences share: the product, its servers, and a fleet in which each place has clusters of its own.
type world struct {
	t           testing.TB
	stack       *harness.Stack
	second      *harness.Process // a worker beside the stack's
	other       *harness.Replica // an API beside the stack's
	fleet       *harness.Fleet
	temporal    temporalclient.Client
	apis        []*client.API        // half of the sequences ask one, half the other
	charts      map[string][]byte    // by app
	kubeconfigs map[string][]byte    // by cluster
	clusters    []domain.ClusterName // of all places
	run         int                  // how many sequences there were
	strict      bool                 // a machine that is too slow to answer is not to be thought of

	busy   sync.Mutex // held while a process is harmed
	mu     sync.Mutex // guards what follows
	harmed int        // processes that are harmed now
	last   time.Time  // when one was
	goes   sync.WaitGroup
}

// newWorld starts one for so many sequences at a time.
func newWorld(t testing.TB, places int) *world {
	t.Helper()
	w := &world{
		t: t, stack: harness.NewStackOn(t, harness.Servers{SlowDatabase: true}), fleet: harness.StartFleet(t, places*clustersEach),
		charts: map[string][]byte{}, kubeconfigs: map[string][]byte{},
	}
	for _, app := range []string{"one", "two", "three"} {
		w.charts[app] = harness.Chart(t, app, map[string]string{"all.yaml": template})
	}
	w.temporal, w.second, w.other = w.stack.TemporalClient(), w.stack.AddWorker(), w.stack.AddAPI(t)
	w.apis = []*client.API{w.stack.Client.API(), w.other.Client.API()}
	for place := range places {
		provider := fmt.Sprintf("place%d", place)
		names := w.fleet.Names[place*clustersEach : (place+1)*clustersEach]
		for _, name := range names {
			w.kubeconfigs[name] = w.fleet.Kubeconfig(t, name)
			w.clusters = append(w.clusters, domain.ClusterName{Provider: provider, Name: name})
		}
		require.NoError(t, w.apis[0].Register(t.Context(), provider, w.kubeconfigs, names, []string{"edge"}, nil))
	}
	return w
}

// of are the clusters of a place.
func (w *world) of(place int) []domain.ClusterName {
	return w.clusters[place*clustersEach : (place+1)*clustersEach]
}

// template has n ConfigMaps that say what the group's values say, and two hooks.
const template = `{{- range $i, $e := until (int .Values.n) }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ $.Release.Name }}-{{ $.Values.app }}-{{ $i }}'}
data: {says: '{{ $.Values.says }}'}
{{- end }}
{{- if .Values.hooks }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}-{{ .Values.app }}-before', annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}
data: {says: hook}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}-{{ .Values.app }}-after', annotations: {helm.sh/hook: post-delete}}
data: {says: hook}
{{- end }}
`

// The faults of a cluster.
var clusterFaults = map[string][]fleet.Fault{
	"hang":   {{Hang: true}},
	"refuse": {{Refuse: true}},
	"cut":    {{Verb: "apply", Cut: true, Count: 2}, {Verb: "delete", Cut: true, Count: 2}}, // it is done, and nobody is told
	"slow":   {{Latency: fleet.Duration(300 * time.Millisecond), Jitter: fleet.Duration(300 * time.Millisecond)}},
	"fail":   {{Status: 500, Probability: 0.5}},
	"limit":  {{Status: 429, RetryAfter: 1, Probability: 0.5}},
	"forbid": {{Verb: "apply", Status: 403, Count: 1}},
	"heal":   {},
}

// harm does harm to a process or server at the nth write to the store from now on, if there are so many soon, and heals it after a
// while. Of two that are asked for at once the second one does not happen.
func (w *world) harm(s step) {
	if !w.busy.TryLock() {
		return
	}
	w.goes.Go(func() {
		defer w.busy.Unlock()
		met, once := make(chan struct{}), sync.Once{}
		passed := make(chan struct{})
		strike := func() { once.Do(func() { close(met) }); <-passed }
		f := mongotest.Fault{Before: strike}
		switch {
		case s.Do == "late":
			f = mongotest.Fault{Late: 2 * time.Second, Before: func() { once.Do(func() { close(met) }) }}
		case s.Do == "lose":
			f = mongotest.Fault{Lost: true}
		case s.word("done"):
			f = mongotest.Fault{Done: strike}
		}
		w.count(1)
		defer w.count(-1)
		w.stack.Slow.Meet("", max(s.number("write"), 1), f)
		const soon = 1500 * time.Millisecond
		select {
		case <-met:
		case <-time.After(soon):
		}
		heal := w.strike(s)
		close(passed)
		w.stack.Slow.Flush()
		<-time.After(s.duration("for"))
		heal()
	})
}

// strike does it, and gives what undoes it.
func (w *world) strike(s step) (heal func()) {
	processes := map[string]struct {
		is    *harness.Process
		start func()
	}{
		"worker2": {w.second, func() { w.second = w.stack.AddWorker() }},
		"worker":  {w.stack.Worker, w.stack.StartWorker}, "api": {w.stack.API, w.stack.StartAPI},
		"api2":  {w.other.Process, func() { w.other.Start(w.t) }},
		"store": {w.stack.Database, w.stack.StartDatabase}, "temporal": {w.stack.Temporal, w.stack.StartTemporal},
	}
	p, ok := processes[s.Who]
	switch {
	case ok && s.Do == "kill":
		p.is.Kill()
		return p.start
	case ok && s.Do == "freeze":
		return p.is.Freeze(w.t)
	default:
		return func() {}
	}
}

func (w *world) count(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.harmed += n
	w.last = time.Now()
}

// calm says whether no process was harmed since a moment, nor for a while before it: what is asked then is to be answered.
func (w *world) calm(since time.Time) bool {
	const while = 15 * time.Second
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.harmed == 0 && since.Sub(w.last) > while
}

// heal heals everything.
func (w *world) heal(ctx context.Context) {
	w.goes.Wait()
	require.NoError(w.t, w.fleet.Inject(ctx, fleet.All))
	for _, p := range []*harness.Process{w.stack.API, w.other.Process, w.stack.Worker, w.second, w.stack.Temporal, w.stack.Database} {
		require.True(w.t, p.Alive(), "it has ended by itself:\n%s", p.Log())
	}
}
