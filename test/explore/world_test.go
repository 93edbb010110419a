package explore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	t        testing.TB
	stack    *harness.Stack
	second   *harness.Process // a worker beside the stack's
	other    *harness.Replica // an API beside the stack's
	fleet    *harness.Fleet
	temporal temporalclient.Client
	apis     []*client.API        // half of the sequences ask one, half the other
	tenants  []string             // the addresses of their services for tenants
	charts   map[string][]byte    // by app
	clusters []domain.ClusterName // of all places
	spare    []domain.ClusterName // of each place one, in which matches of tenants are made
	run      int                  // how many sequences there were
	strict   bool                 // a machine that is too slow to answer is not to be thought of
	places   int                  // how many sequences run at a time
	began    time.Time

	busy   sync.Mutex               // held while a process is harmed
	mu     sync.Mutex               // guards what follows
	creds  map[string]*credential   // by cluster
	harmed int                      // processes that are harmed now
	last   time.Time                // when one was
	spent  map[string]time.Duration // CPU time of processes that were killed, by name
	phases map[string]time.Duration // of all batches
	goes   sync.WaitGroup
}

// ground is the clusters of a sequence, or of some that share them.
type ground struct {
	place     int
	sequences []sequence
	refusing  bool // one of them has refused something; guarded by the world
	givenUp   bool // the spare one's registration was deleted with what tenants had there; guarded by the world
}

// credential is a cluster's kubeconfig that is good, and what is known of the registration.
type credential struct {
	kubeconfig []byte
	stale      bool // it may have one that is good for nothing
	gone       bool // it may be deleted
}

// newWorld starts one for so many sequences at a time.
func newWorld(t testing.TB, places int) *world {
	t.Helper()
	w := &world{
		t: t, stack: harness.NewStackOn(t, harness.Servers{SlowDatabase: true, WireToTemporal: true}), fleet: harness.StartFleet(t, places*(clustersEach+1)),
		charts: map[string][]byte{}, creds: map[string]*credential{}, spent: map[string]time.Duration{}, phases: map[string]time.Duration{},
		places: places,
	}
	for _, app := range []string{"one", "two", "three"} {
		w.charts[app] = harness.Chart(t, app, map[string]string{"all.yaml": template})
	}
	w.temporal, w.second, w.other = w.stack.TemporalClient(), w.stack.AddWorker(), w.stack.AddAPI(t)
	w.apis = []*client.API{w.stack.Client.API(), w.other.Client.API()}
	w.tenants = []string{w.stack.TenantAddress(), w.other.Tenants}
	for place := range places {
		provider := fmt.Sprintf("place%d", place)
		defineNetworks(t, w.fleet.Kubeconfig(t, w.fleet.Names[place*clustersEach]))
		for _, name := range w.fleet.Names[place*clustersEach : (place+1)*clustersEach] {
			w.clusters = append(w.clusters, domain.ClusterName{Provider: provider, Name: name})
		}
		w.spare = append(w.spare, domain.ClusterName{Provider: provider, Name: w.fleet.Names[places*clustersEach+place]})
		steps := []client.Step{{Object: &domain.ClusterProvider{Metadata: domain.Metadata{Name: provider}}}}
		for _, k := range append(slices.Clone(w.of(place)), w.spare[place]) {
			w.creds[k.Name] = &credential{kubeconfig: w.fleet.Kubeconfig(t, k.Name)}
			steps = append(steps, client.Step{Object: w.registration(k), File: w.creds[k.Name].kubeconfig})
			if k != w.spare[place] {
				steps = append(steps, client.Step{Object: &domain.ClusterLabel{Identity: domain.Identity{Parent: k.Key()}, Label: "edge"}})
			}
		}
		require.NoError(t, w.apis[0].Run(t.Context(), steps, nil))
	}
	w.began = time.Now()
	for name, p := range w.processes() {
		w.spent[name] = -p.Spent(t)
	}
	return w
}

// processes are all that may be harmed, and the fleet.
func (w *world) processes() map[string]*harness.Process {
	return map[string]*harness.Process{
		"api": w.stack.API, "api2": w.other.Process, "worker": w.stack.Worker, "worker2": w.second, "temporal": w.stack.Temporal,
		"store": w.stack.Database, "fleet": w.fleet.Process,
	}
}

// costs says on what processors have spent their time since everything was described, for so many sequences.
func (w *world) costs(sequences int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var words []string
	all := time.Duration(0)
	processes := w.processes()
	for _, name := range slices.Sorted(maps.Keys(processes)) {
		spent := w.spent[name] + processes[name].Spent(w.t)
		all += spent
		words = append(words, fmt.Sprintf("%s %.2f", name, spent.Seconds()/float64(sequences)))
	}
	for _, name := range slices.Sorted(maps.Keys(w.phases)) {
		words = append(words, fmt.Sprintf("%s %s", name, w.phases[name].Round(time.Second)))
	}
	if asked := w.stack.Slow.Asked(); *every {
		most := slices.SortedFunc(maps.Keys(asked), func(a, b mongotest.Question) int { return cmp.Compare(asked[b].Took, asked[a].Took) })
		for _, q := range most[:min(len(most), 20)] {
			words = append(words, fmt.Sprintf("\n%s of %s by %s: %d, %s", q.Command, q.Collection, q.By, asked[q].N, asked[q].Took.Round(time.Millisecond)))
		}
	}
	return fmt.Sprintf("CPU seconds a sequence: %.2f, %.0f %% of a processor (%s)", all.Seconds()/float64(sequences),
		100*all.Seconds()/time.Since(w.began).Seconds(), strings.Join(words, ", "))
}

// registration is that of a cluster. The first one of a place is watched: what watches ask costs as much as all the rest.
func (w *world) registration(k domain.ClusterName) *domain.Cluster {
	c := &domain.Cluster{Identity: domain.Identity{Parent: domain.Join(domain.ClusterProviders.Collection, k.Provider)}, Metadata: domain.Metadata{Name: k.Name}}
	if i := slices.Index(w.clusters, k); i < 0 || i%clustersEach > 0 {
		c.Spec.Report = "none"
	}
	return c
}

// revoke ends the credential of a cluster. Another one is good from then on, which nobody knows yet.
func (w *world) revoke(ctx context.Context, k domain.ClusterName) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	kubeconfig, err := w.fleet.Revoke(ctx, k.Name)
	if err == nil {
		w.creds[k.Name].kubeconfig, w.creds[k.Name].stale = kubeconfig, true
	}
	return err
}

// renew registers a cluster with the credential that is good, in other words than before; the error is that of the answer, or that the words
// are said to be the same.
func (w *world) renew(ctx context.Context, api *client.API, k domain.ClusterName, words string) error {
	w.mu.Lock()
	good := w.creds[k.Name].kubeconfig
	w.mu.Unlock()
	same, _, err := api.PutSame(ctx, w.registration(k), bytes.ReplaceAll(good, []byte("\ncurrent-context:"), []byte("\n# "+words+"\ncurrent-context:")))
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.creds[k.Name]; bytes.Equal(now.kubeconfig, good) {
		now.stale, now.gone = false, false
	}
	if same && words != "" {
		return errSame
	}
	return nil
}

// register registers clusters again of which something is so.
func (w *world) register(ctx context.Context, is func(*credential) bool) {
	for _, k := range append(slices.Clone(w.clusters), w.spare...) {
		w.mu.Lock()
		asked := is(w.creds[k.Name])
		w.mu.Unlock()
		if asked {
			harness.Until(ctx, w.t, fmt.Sprintf("%s is registered again", k), func() bool { return w.renew(ctx, w.apis[0], k, "") == nil })
		}
	}
}

var errSame = errors.New("another kubeconfig is said to be the same")

// of are the clusters of a place.
func (w *world) of(place int) []domain.ClusterName {
	return w.clusters[place*clustersEach : (place+1)*clustersEach]
}

// template has n ConfigMaps that say what the group's values say, one that is to be kept, one that cannot be changed, an object of a kind
// of its own, and hooks, Jobs among them.
const template = `{{- range $i, $e := until (int .Values.n) }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ $.Release.Name }}-{{ $.Values.app }}-{{ $i }}'}
data: {says: '{{ $.Values.says }}'}
{{- end }}
{{- if .Values.kept }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}-{{ .Values.app }}-kept', annotations: {helm.sh/resource-policy: keep}}
data: {says: '{{ .Values.says }}'}
{{- end }}
{{- if eq (.Values.with | default "") "fixed" }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}-{{ .Values.app }}-fixed'}
immutable: true
data: {says: '{{ .Values.says }}'}
{{- end }}
{{- if eq (.Values.with | default "") "crd" }}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: '{{ .Release.Name }}-{{ .Values.app }}-things.{{ .Release.Name }}.example.com', annotations: {says: '{{ .Values.says }}'}}
spec:
  group: '{{ .Release.Name }}.example.com'
  scope: Namespaced
  names: {plural: '{{ .Release.Name }}-{{ .Values.app }}-things', singular: thing, kind: Thing, listKind: ThingList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: '{{ .Release.Name }}.example.com/v1'
kind: Thing
metadata: {name: '{{ .Release.Name }}-{{ .Values.app }}-thing', annotations: {says: '{{ .Values.says }}'}}
{{- end }}
{{- if .Values.hooks }}
{{- if .Values.job }}
---
apiVersion: batch/v1
kind: Job
metadata: {name: '{{ .Release.Name }}-{{ .Values.app }}-job', annotations: {
  helm.sh/hook: "pre-install,pre-upgrade,pre-rollback", fleet/ends: '{{ .Values.job }}', says: hook}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: example.com/c}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: '{{ .Release.Name }}-{{ .Values.app }}-gone', annotations: {
  helm.sh/hook: pre-delete, helm.sh/hook-delete-policy: "before-hook-creation,hook-succeeded", fleet/ends: Complete 100ms}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: example.com/c}]}}}
{{- end }}
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
	"cut":    {{Verb: "apply", Cut: true, Count: 2}, {Verb: "create", Cut: true, Count: 2}, {Verb: "delete", Cut: true, Count: 2}}, // it is done, and nobody is told
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
	start := map[string]func(){
		"worker": w.stack.StartWorker, "worker2": func() { w.second = w.stack.AddWorker() },
		"api": w.stack.StartAPI, "api2": func() { w.other.Start(w.t) },
		"store": w.stack.StartDatabase, "temporal": w.stack.StartTemporal,
	}
	p, ok := w.processes()[s.Who]
	switch {
	case ok && s.Do == "kill":
		spent := p.Spent(w.t)
		p.Kill()
		w.mu.Lock()
		w.spent[s.Who] += spent
		w.mu.Unlock()
		return start[s.Who]
	case ok && s.Do == "freeze":
		return p.Freeze(w.t)
	case s.Who == "temporal" && s.Do == "lose":
		return w.stack.Wire.Lose()
	case s.Who == "temporal" && s.Do == "slow":
		return w.stack.Wire.Delay(100 * time.Millisecond)
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
	w.register(ctx, func(c *credential) bool { return c.stale })
	for name, p := range w.processes() {
		require.True(w.t, p.Alive(), "%s has ended by itself:\n%s", name, p.Log())
	}
}
