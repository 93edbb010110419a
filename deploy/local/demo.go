package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/drover-io/drover/deploy/examples"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
)

// demoTimeout bounds the whole demo.
const demoTimeout = 5 * time.Minute

// tryNext are the lines that a story ends with, that of the story itself apart.
var tryNext = []string{
	"make run             the same servers and clusters, until Ctrl-C, to send requests to",
	"make demo-workloads  a Pod of a tenant's cluster, and what is made of it in another one",
	"With make run in another terminal, a chart of your own on a cluster, with any folder of a chart in place of this one:",
}

// runDemo tells the story of the vFW composite app, through the REST API only: two clusters are onboarded,
// the app is described, approved, instantiated on both, queried and terminated.
func runDemo(ctx context.Context, args []string, stdout io.Writer) error {
	return runStory(ctx, "demo", args, stdout, (*demo).tell)
}

// runStory starts the stack, has a story told, and stops it.
func runStory(ctx context.Context, name string, args []string, stdout io.Writer, tell func(*demo, context.Context, *stack) error) (err error) {
	var s settings
	fs := newFlags(name)
	s.declare(fs)
	if err := parse(fs, args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	if s.data, err = os.MkdirTemp("", "drover-demo-"); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.data)) }()
	d := &demo{out: stdout, begun: time.Now()}
	d.chapter("Starting the local stack and the clusters %s", s.clusters)
	k, err := startStack(ctx, s, slog.Default(), d.say)
	if err != nil {
		return err
	}
	defer func() {
		d.chapter("Stopping")
		logLevel.Set(max(logLevel.Level(), slog.LevelError)) // that work is cut off now is no news
		if err = errors.Join(err, k.stop()); err == nil {
			d.chapter("What to try next")
			usual := usual()
			for _, line := range tryNext {
				if !strings.HasPrefix(line, "make "+name+" ") {
					d.say("%s", line)
				}
			}
			for _, line := range usual.firstCommands() {
				d.say("  %s", line)
			}
			d.say("The page shows it live, with the same token: %s", usual.pageURL())
		}
	}()
	token, err := k.token()
	if err != nil {
		return err
	}
	connection := client.New(k.apiURL(), client.WithToken(token))
	defer connection.Close()
	d.vfw.API = connection.API()
	story := make(chan error, 1)
	go func() { story <- tell(d, ctx, k) }()
	select {
	case err = <-story:
	case err = <-k.failed:
		cancel()
		err = cmp.Or(err, <-story) // which was cut off
	}
	if err == nil {
		d.say("Done in %s.", time.Since(d.begun).Round(100*time.Millisecond))
	}
	return err
}

type demo struct {
	out   io.Writer
	begun time.Time
	vfw   client.Deployment
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, "  "+format+"\n", args...) }

func (d *demo) chapter(format string, args ...any) {
	fmt.Fprintf(d.out, "\n[%5.1fs] %s\n", time.Since(d.begun).Seconds(), fmt.Sprintf(format, args...))
}

const provider = "vfw-cluster-provider"

func (d *demo) tell(ctx context.Context, k *stack) error {
	for _, step := range []func(context.Context, *stack) error{d.onboard, d.describe, d.instantiate, d.terminate} {
		if err := step(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) onboard(ctx context.Context, k *stack) error {
	d.chapter("Onboarding the clusters")
	kubeconfigs := map[string][]byte{}
	for _, name := range k.names() {
		data, err := os.ReadFile(k.kubeconfig(name))
		if err != nil {
			return fmt.Errorf("read kubeconfig: %w", err)
		}
		kubeconfigs[name] = data
		d.vfw.Clusters = append(d.vfw.Clusters, domain.ClusterName{Provider: provider, Name: name})
	}
	return d.vfw.API.Register(ctx, provider, kubeconfigs, k.names(), []string{"edge"}, d.step)
}

func (d *demo) step(what string) { d.say("POST %s", what) }

func (d *demo) describe(ctx context.Context, _ *stack) error {
	d.chapter("Describing the composite app and where it is to run")
	d.vfw.Project, d.vfw.CompositeApp, d.vfw.Version = "testvfw", "compositevfw", "v1"
	d.vfw.Profile, d.vfw.LogicalCloud = "vfw_composite-profile", "admin"
	d.vfw.Group, d.vfw.Release = "vfw_deployment_intent_group", "fw0"
	for _, name := range examples.Apps {
		chart, err := examples.Chart(name)
		if err != nil {
			return err
		}
		profile, err := examples.Profile(name)
		if err != nil {
			return err
		}
		d.vfw.Apps = append(d.vfw.Apps, client.App{
			Name: name, Chart: chart, Profile: profile,
			Intent: domain.Placement{AllOf: []domain.AllOf{{Clusters: domain.Clusters{ClusterProvider: provider, ClusterLabel: "edge"}}}},
		})
	}
	return d.vfw.Create(ctx, d.step)
}

func (d *demo) instantiate(ctx context.Context, k *stack) error {
	d.chapter("Approving and instantiating")
	for _, op := range []domain.Operation{domain.OpApprove, domain.OpInstantiate} {
		if err := d.vfw.Do(ctx, op); err != nil {
			return err
		}
		d.say("POST %s: accepted", op)
	}
	if err := d.await(ctx, domain.ContextInstantiated, domain.ResourceApplied); err != nil {
		return err
	}
	d.say("Page             %s", k.pageURL())
	d.say("Web UI           %s", k.uiURL)
	d.chapter("Status, summary")
	if err := d.show(ctx, "summary"); err != nil {
		return err
	}
	d.chapter("Status, all")
	return d.show(ctx, "all")
}

func (d *demo) terminate(ctx context.Context, _ *stack) error {
	d.chapter("Terminating")
	if err := d.vfw.Do(ctx, domain.OpTerminate); err != nil {
		return err
	}
	d.say("POST terminate: accepted")
	if err := d.await(ctx, domain.ContextTerminated, domain.ResourceDeleted); err != nil {
		return err
	}
	d.chapter("Status, summary")
	return d.show(ctx, "summary")
}

// await waits for an operation to end, telling how many resources are where it wants them.
func (d *demo) await(ctx context.Context, where domain.ContextStatus, state domain.ResourceState) error {
	last := ""
	s, err := d.vfw.Wait(ctx, 100*time.Millisecond, func(s *status.Document) bool {
		total := 0
		for _, n := range s.Deployed {
			total += n
		}
		if line := fmt.Sprintf("%s: %d of %d resources %s", s.Status, s.Deployed[state], total, state); line != last {
			d.say("%s", line)
			last = line
		}
		return s.Status == where || strings.HasSuffix(string(s.Status), "Failed")
	})
	if err != nil {
		return err
	}
	const want = 12 // six resources on each of the two clusters of the seeds' example
	if s.Status != where || s.Deployed[state] != want && len(d.vfw.Clusters) == 2 {
		return fmt.Errorf("ended %s with %v, not %s with %d %s", s.Status, s.Deployed, where, want, state)
	}
	return nil
}

// show shows the status as the API answers.
func (d *demo) show(ctx context.Context, output string) error {
	document, err := d.vfw.Status(ctx, url.Values{"output": {output}})
	if err != nil {
		return err
	}
	d.say("GET /v2%s/status?status=deployed&output=%s", client.At(d.vfw.Key()), output)
	text, err := json.MarshalIndent(document, "  ", "  ")
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	d.say("%s", text)
	return nil
}
