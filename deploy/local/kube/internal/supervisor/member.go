package supervisor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-io/drover/deploy/local/kube/internal/cluster"
)

const (
	stopGrace = 10 * time.Second
	// An API server that is told to stop first finishes the requests it works on,
	// which takes moments here, and then waits long for its clients to end their
	// watches. It stores nothing itself, so there is no harm in not waiting.
	apiServerStopGrace = 2 * time.Second
)

// member is one of the clusters of a supervisor.
type member struct {
	layout     cluster.Layout
	ports      cluster.Ports
	components []string
	starter    *starter
	out        *printer

	// keepers are those of the started components, in the order of their start.
	keepers []*keeper

	mu        sync.Mutex
	published bool // whether the state file is to be kept up to date
}

// start brings the cluster up to the point where pods can be created, with at
// least the given number of nodes. When it fails, what was started still runs
// until stop is called.
func (m *member) start(ctx context.Context, nodes int) error {
	began := time.Now()
	if err := m.startEtcd(ctx); err != nil {
		return err
	}
	client, err := m.startAPIServer(ctx)
	if err != nil {
		return err
	}
	wanted := slices.DeleteFunc(cluster.Components(), func(name string) bool {
		return !slices.Contains(m.components, name)
	})
	if err := m.startOthers(ctx, client, wanted[len(m.keepers):], nodes); err != nil {
		return err
	}
	for _, k := range m.keepers {
		if err := k.adopt(); err != nil {
			return err
		}
	}
	if err := m.publish(); err != nil {
		return err
	}
	m.say("up (%s), kubeconfig %s", since(began), m.layout.Kubeconfig())
	return nil
}

func (m *member) startEtcd(ctx context.Context) error {
	began := time.Now()
	if err := m.launch(cluster.Etcd); err != nil {
		return err
	}
	if err := m.await(ctx, cluster.Etcd, etcdHealthy(m.ports.EtcdURL())); err != nil {
		return err
	}
	m.say("etcd ready at %s (%s)", m.ports.EtcdURL(), since(began))
	return nil
}

func (m *member) startAPIServer(ctx context.Context) (*client, error) {
	began := time.Now()
	if err := m.launch(cluster.APIServer); err != nil {
		return nil, err
	}
	client, err := newClient(m.layout.Kubeconfig())
	if err != nil {
		return nil, err
	}
	if err := m.await(ctx, cluster.APIServer, client.serverReady); err != nil {
		return nil, err
	}
	m.say("apiserver ready at %s (%s)", m.ports.ServerURL(), since(began))
	return client, nil
}

// startOthers starts the components that are clients of the API server, and waits
// for what they make of an empty cluster.
func (m *member) startOthers(ctx context.Context, client *client, names []string, nodes int) error {
	began := time.Now()
	for _, name := range names {
		if err := m.launch(name); err != nil {
			return err
		}
	}
	if err := m.await(ctx, "the default namespace", client.defaultNamespace); err != nil {
		return err
	}
	if slices.Contains(names, cluster.Kwok) {
		if err := client.ensureStorageClass(ctx); err != nil {
			return err
		}
	}
	if err := client.ensureNodes(ctx, m.layout.Name, nodes); err != nil {
		return err
	}
	if slices.Contains(names, cluster.ControllerManager) {
		if err := m.await(ctx, "the default service account", client.defaultServiceAccount); err != nil {
			return err
		}
	}
	if err := m.await(ctx, "the nodes", client.nodesReady(m.layout.Name, nodes)); err != nil {
		return err
	}
	if len(names) > 0 {
		m.say("%s running, %d node(s) ready (%s)", strings.Join(names, ", "), nodes, since(began))
	}
	return nil
}

// launch starts a component without waiting for it.
func (m *member) launch(name string) error {
	args, err := m.layout.Args(name, m.ports, m.components)
	if err != nil {
		return err
	}
	log := m.layout.Log(name)
	if err := setAsideLog(log); err != nil {
		return err
	}
	grace := stopGrace
	if name == cluster.APIServer {
		grace = apiServerStopGrace
	}
	k := &keeper{
		component: name,
		args:      args,
		log:       log,
		grace:     grace,
		starter:   m.starter,
		notify:    m.say,
		changed:   m.republish,
	}
	if err := k.start(); err != nil {
		return err
	}
	m.keepers = append(m.keepers, k)
	return nil
}

// await waits for something that the components started so far bring about, and
// fails as soon as one of them does.
func (m *member) await(ctx context.Context, what string, probe probe) error {
	err := poll(ctx, probe, func() error {
		for _, k := range m.keepers {
			if err := k.failure(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}

// stop ends the components, clients before servers. It returns when all
// processes are gone.
func (m *member) stop(force context.Context) {
	if err := m.unpublish(); err != nil {
		m.say("%v", err)
	}
	if len(m.keepers) == 0 {
		return
	}
	began := time.Now()
	var wait sync.WaitGroup
	servers := min(2, len(m.keepers))
	for _, k := range m.keepers[servers:] {
		wait.Go(func() { k.stop(force) })
	}
	wait.Wait()
	for _, k := range slices.Backward(m.keepers[:servers]) {
		k.stop(force)
	}
	m.say("stopped (%s)", since(began))
}

// publish writes the state file, and lets republish do so from now on.
func (m *member) publish() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.published = true
	return m.layout.WriteState(m.state())
}

// republish brings the state file up to date. The cluster works without the
// file, so a failure is only reported.
func (m *member) republish() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.published {
		return
	}
	if err := m.layout.WriteState(m.state()); err != nil {
		m.say("%v", err)
	}
}

func (m *member) unpublish() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.published = false
	return m.layout.RemoveState()
}

func (m *member) state() cluster.State {
	components := make(map[string]cluster.ComponentState, len(m.keepers))
	for _, k := range m.keepers {
		pid, restarts := k.status()
		components[k.component] = cluster.ComponentState{PID: pid, Restarts: restarts, Log: k.log}
	}
	return cluster.State{
		Cluster:       m.layout.Name,
		Server:        m.ports.ServerURL(),
		Kubeconfig:    m.layout.Kubeconfig(),
		SupervisorPID: os.Getpid(),
		Ports:         m.ports,
		Components:    components,
	}
}

func (m *member) say(format string, args ...any) {
	m.out.printf("%s: %s", m.layout.Name, fmt.Sprintf(format, args...))
}

func since(began time.Time) string {
	return fmt.Sprintf("%.1fs", time.Since(began).Seconds())
}
