package supervisor

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/deploy/local/kube/internal/cluster"
)

const portsTimeout = 3 * time.Second

// up starts the clusters, keeps them until run is done, and stops them. Being
// told to stop is success, even before the clusters are ready. Once force is
// done, the components are killed rather than asked to end.
func up(run, force context.Context, opts options, out io.Writer) error {
	if err := os.MkdirAll(opts.dataDir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	lock, err := lockDataDir(opts.dataDir)
	if err != nil {
		return err
	}
	defer lock.Close()

	members, err := prepare(run, opts, &printer{out: out})
	if err != nil {
		return err
	}
	defer stopAll(force, members)
	if err := startAll(run, opts, members); err != nil {
		if run.Err() != nil {
			return nil
		}
		return err
	}
	fmt.Fprintln(out, "ready")
	<-run.Done()
	return nil
}

// prepare makes the files of all clusters. No process is started before every
// cluster is known to be able to start.
func prepare(ctx context.Context, opts options, out *printer) ([]*member, error) {
	ports, err := cluster.AssignPorts(opts.dataDir, opts.portBase, opts.clusters)
	if err != nil {
		return nil, err
	}
	for _, name := range opts.clusters {
		if err := waitFree(ctx, ports[name], name); err != nil {
			return nil, err
		}
	}
	starter := newStarter()
	var members []*member
	for _, name := range opts.clusters {
		layout, err := cluster.NewLayout(opts.dataDir, name)
		if err != nil {
			return nil, err
		}
		if err := layout.RemoveState(); err != nil {
			return nil, err
		}
		if err := layout.Prepare(ports[name]); err != nil {
			return nil, fmt.Errorf("prepare cluster %s: %w", name, err)
		}
		members = append(members, &member{
			layout:     layout,
			ports:      ports[name],
			components: opts.components,
			starter:    starter,
			out:        out,
		})
	}
	return members, nil
}

// waitFree returns an error if the ports of a cluster stay in use. When the
// previous supervisor was killed, its components are killed with it, but may hold
// their ports for another moment.
func waitFree(ctx context.Context, ports cluster.Ports, name string) error {
	ctx, cancel := context.WithTimeout(ctx, portsTimeout)
	defer cancel()
	var inUse error
	err := poll(ctx, func(context.Context) error {
		inUse = ports.CheckFree(name)
		return inUse
	}, func() error { return nil })
	if err != nil {
		return inUse
	}
	return nil
}

// startAll starts all clusters at once: each spends much of its start waiting.
// The first failure ends the start of the others.
func startAll(ctx context.Context, opts options, members []*member) error {
	ctx, cancel := context.WithTimeoutCause(ctx, opts.timeout,
		fmt.Errorf("gave up after %s (--timeout), see the logs in %s", opts.timeout, opts.dataDir))
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range members {
		group.Go(func() error {
			if err := m.start(ctx, opts.nodes); err != nil {
				return fmt.Errorf("cluster %s: %w", m.layout.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func stopAll(force context.Context, members []*member) {
	var wait sync.WaitGroup
	for _, m := range members {
		wait.Go(func() { m.stop(force) })
	}
	wait.Wait()
}

// printer writes whole lines from several clusters.
type printer struct {
	mu  sync.Mutex
	out io.Writer
}

func (p *printer) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}
