package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/deploy/local/ferret"
	"github.com/drover-io/drover/deploy/local/temporal"
	"github.com/drover-io/drover/internal/app"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/workflows"
)

// settings say where the local stack listens and keeps its data.
type settings struct {
	data                                                                     string
	apiPort, rpcPort, tenantPort, temporalPort, uiPort, mongoPort, kubePorts int
	clusters, auth                                                           string
}

func (s *settings) declare(fs *flag.FlagSet) {
	fs.IntVar(&s.apiPort, "api-port", 9015, "`port` of the REST API")
	fs.IntVar(&s.rpcPort, "grpc-port", 9016, "`port` of the API's gRPC services")
	fs.IntVar(&s.tenantPort, "tenant-port", 9017, "`port` of the gRPC services of tenants")
	fs.IntVar(&s.temporalPort, "temporal-port", 7233, "gRPC `port` of Temporal")
	fs.IntVar(&s.uiPort, "ui-port", 8233, "`port` of Temporal's Web UI")
	fs.IntVar(&s.mongoPort, "mongo-port", 27017, "`port` of the document store")
	fs.IntVar(&s.kubePorts, "kube-ports", 16443, "first `port` of the clusters; each takes a block of ten")
	fs.StringVar(&s.auth, "auth", "on", "whether callers of the API have to prove who they are: on or `off`, for clients that show no token")
	fs.StringVar(&s.clusters, "clusters", "edge01,edge02", "`names` of the local clusters, comma-separated; none when empty")
}

func (s *settings) names() []string {
	return strings.FieldsFunc(s.clusters, func(r rune) bool { return r == ',' })
}

func (s *settings) kubeconfig(cluster string) string {
	return filepath.Join(s.data, "clusters", cluster, "kubeconfig")
}

func (s *settings) apiURL() string { return fmt.Sprintf("http://%s:%d/v2", loopback, s.apiPort) }

// pageURL is where the page for people is.
func (s *settings) pageURL() string { return fmt.Sprintf("http://%s:%d/", loopback, s.apiPort) }

// tokenFile has the administrator's token.
func (s *settings) tokenFile() string { return filepath.Join(s.data, "admin-token") }

// token is the administrator's token, "" while nobody is asked for one.
func (s *settings) token() (string, error) {
	if s.auth == "off" {
		return "", nil
	}
	text, err := os.ReadFile(s.tokenFile())
	if err != nil {
		return "", fmt.Errorf("read the administrator's token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

const loopback = "127.0.0.1"

// checkPorts says which port is in use, before anything is started.
func (s *settings) checkPorts(ctx context.Context) error {
	var taken []error
	for _, p := range []struct {
		port          int
		purpose, flag string
	}{
		{s.apiPort, "the REST API", "--api-port"}, {s.rpcPort, "gRPC", "--grpc-port"},
		{s.tenantPort, "the tenants' services", "--tenant-port"},
		{s.temporalPort, "Temporal", "--temporal-port"},
		{s.uiPort, "the Web UI", "--ui-port"}, {s.mongoPort, "the document store", "--mongo-port"},
	} {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(p.port)))
		if err != nil {
			taken = append(taken, fmt.Errorf("port %d of %s is in use; choose another by %s", p.port, p.purpose, given(p.flag)))
			continue
		}
		l.Close()
	}
	return errors.Join(taken...)
}

// given is how a flag with a port is given, also by those who start the stack by make.
func given(flag string) string { return fmt.Sprintf("%s (with make: ARGS=%q)", flag, flag+" PORT") }

// private makes a folder that nobody else can look into. One that is there becomes such a one: what is in it may be older
// than that rule.
func private(folder string) error {
	const mode = 0o700
	if err := os.MkdirAll(folder, mode); err != nil {
		return err
	}
	return os.Chmod(folder, mode)
}

// stack is the running local stack.
type stack struct {
	settings
	uiURL string
	// failed ends with the first part that ends by itself.
	failed <-chan error
	stops  []func() error // in the order of starting
}

// startStack starts servers, API, worker and clusters. say tells a person what goes on.
func startStack(ctx context.Context, s settings, log *slog.Logger, say func(format string, args ...any)) (_ *stack, err error) {
	if err := s.checkPorts(ctx); err != nil {
		return nil, err
	}
	if err := private(s.data); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	failed := make(chan error, 3)
	k := &stack{settings: s, failed: failed}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.stop())
		}
	}()
	begin, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := k.startServers(begin, log, say); err != nil {
		return nil, err
	}
	var g errgroup.Group
	g.Go(func() error { return k.startProduct(begin, log, failed, say) })
	clusters := make(chan func() error, 1)
	g.Go(func() error {
		stop, err := startClusters(ctx, s, failed, say)
		if err == nil && stop != nil {
			clusters <- stop
		}
		return err
	})
	err = g.Wait()
	select {
	case stop := <-clusters:
		k.stops = append(k.stops, stop)
	default:
	}
	return k, err
}

func (k *stack) startServers(ctx context.Context, log *slog.Logger, say func(string, ...any)) error {
	attributes := map[string]enumspb.IndexedValueType{}
	for _, name := range workflows.SearchAttributes() {
		attributes[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	server, err := temporal.Start(ctx, temporal.Config{
		DBFile: filepath.Join(k.data, "temporal.db"), IP: loopback, FrontendPort: k.temporalPort, UIPort: k.uiPort,
		Namespace: "drover", Retention: retention, SearchAttributes: attributes, Logger: log, Codec: k.codec(),
	})
	if err != nil {
		return err
	}
	k.stops = append(k.stops, server.Stop)
	k.uiURL = server.UIURL()
	say("Temporal         %s, Web UI %s", server.Addr(), k.uiURL)
	db, err := ferret.Start(ctx, ferret.Config{
		Dir: filepath.Join(k.data, "documents"), Database: "drover", Collections: collections(), Beside: store.Beside(), Texts: store.Texts(), Lists: store.Lists(), Plain: store.Plain(),
		Port: k.mongoPort, Logger: log,
	})
	if err != nil {
		return err
	}
	k.stops = append(k.stops, db.Stop)
	say("Document store   %s", db.URI())
	return nil
}

// codec has the API open payloads for pages of the Web UI, in the name of who has started the stack: the local Web UI knows no logins,
// and whoever reaches it may see and do all that it shows.
func (k *stack) codec() http.Handler {
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", net.JoinHostPort(loopback, strconv.Itoa(k.apiPort))
		r.Out.Host = r.Out.URL.Host
		for _, name := range []string{"Origin", "Sec-Fetch-Site", "Cookie", "Authorization"} { // the Web UI has looked at them
			r.Out.Header.Del(name)
		}
		if token, err := k.token(); err == nil && token != "" { // without one the API says what is missing
			r.Out.Header.Set("Authorization", "Bearer "+token)
		}
	}}
}

// retention is how long a local Temporal keeps closed workflows.
const retention = 7 * 24 * time.Hour

func (k *stack) startProduct(ctx context.Context, log *slog.Logger, failed chan<- error, say func(string, ...any)) error {
	keys := filepath.Join(k.data, "secret-keys")
	if _, err := secret.LoadOrCreate(keys); err != nil {
		return err
	}
	if err := k.prepareTenants(); err != nil {
		return fmt.Errorf("the folder of the tenants' services: %w", err)
	}
	settings := []string{
		"--tenant-listen", net.JoinHostPort(loopback, strconv.Itoa(k.tenantPort)),
		"--tenant-tls-cert", filepath.Join(k.tenants(), "server.crt"), "--tenant-tls-key", filepath.Join(k.tenants(), "server.key"),
		"--tenant-tls-ca", filepath.Join(k.tenants(), "ca.crt"),
		"--listen", net.JoinHostPort(loopback, strconv.Itoa(k.apiPort)),
		"--grpc-listen", net.JoinHostPort(loopback, strconv.Itoa(k.rpcPort)), "--secret-keys-file", keys,
		"--temporal-address", net.JoinHostPort(loopback, strconv.Itoa(k.temporalPort)),
		"--mongo-uri", fmt.Sprintf("mongodb://%s:%d", loopback, k.mongoPort), "--web-ui", k.uiURL, "--drain", "5s", "--auth", k.auth,
		"--worker-versioning", "force", // there is one worker, and its data may be those of a newer build
	}
	if k.auth != "off" {
		settings = append(settings, "--admin-token-file", k.tokenFile())
	}
	c, err := config.Read(config.Both, settings, func(string) string { return "" }, io.Discard)
	if err != nil {
		return err
	}
	front, err := app.OpenAPI(context.WithoutCancel(ctx), c, log)
	if err != nil {
		return err
	}
	parts, err := app.Connect(ctx, c, log, front)
	if err != nil {
		front.Close()
		return err
	}
	if err := parts.EnsureAdmin(ctx); err != nil {
		front.Close()
		parts.Close()
		return err
	}
	asked, cancel := context.WithCancel(context.WithoutCancel(ctx))
	working, run := errgroup.WithContext(asked) // neither goes on without the other
	started := make(chan struct{}, 2)           // API and worker
	begun := func() { started <- struct{}{} }
	working.Go(func() error { return parts.ServeAPI(run, front, begun) })
	working.Go(func() error { return parts.Work(run, begun) })
	ended := make(chan error, 1)
	go func() {
		err := working.Wait()
		ended <- err
		if asked.Err() == nil {
			failed <- fmt.Errorf("API or worker ended: %w", err)
		}
	}()
	k.stops = append(k.stops, func() error {
		cancel()
		defer parts.Close()
		defer front.Close()
		return <-ended
	})
	for range cap(started) {
		select {
		case <-started:
		case err := <-ended:
			ended <- err
			return err
		case <-ctx.Done():
			return fmt.Errorf("start API and worker: %w", context.Cause(ctx))
		}
	}
	say("REST API         %s (%s)", k.apiURL(), "documentation at /docs")
	say("Page             %s", k.pageURL())
	if k.auth != "off" {
		say("Bearer token     in %s", k.tokenFile())
	}
	return nil
}

// stop stops everything, the last part first.
func (k *stack) stop() error {
	var errs []error
	for i := len(k.stops) - 1; i >= 0; i-- {
		errs = append(errs, k.stops[i]())
	}
	k.stops = nil
	return errors.Join(errs...)
}

// clusterStop bounds the end of the clusters.
const clusterStop = 30 * time.Second

// portBase is the flag of drover-kube for the first port of the clusters.
const portBase = "--port-base"

// startClusters starts the clusters by the program beside this one, and returns when they are ready.
func startClusters(ctx context.Context, s settings, failed chan<- error, say func(string, ...any)) (stop func() error, err error) {
	if len(s.names()) == 0 {
		return nil, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find drover-kube: %w", err)
	}
	program := filepath.Join(filepath.Dir(self), "drover-kube")
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, "up", "--data-dir", filepath.Join(s.data, "clusters"),
		"--cluster", s.clusters, portBase, strconv.Itoa(s.kubePorts))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true,            // Ctrl-C is ours to pass on, in our order
		Pdeathsig: syscall.SIGTERM, // they do not outlive us, however we end
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start clusters: %w", err)
	}
	started, ready, done := make(chan error, 1), make(chan struct{}), make(chan error, 1)
	stopping := make(chan struct{})
	go func() {
		runtime.LockOSThread() // Pdeathsig is sent when the thread ends that started the process
		err := cmd.Start()
		if started <- err; err != nil {
			return
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if lines.Text() == "ready" {
				close(ready)
				continue
			}
			select {
			case <-stopping:
			default:
				say("%s", lines.Text())
			}
		}
		done <- cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start clusters: %w (make servers builds %s)", err, program)
	}
	stop = func() error {
		close(stopping)
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop clusters: %w", err)
		}
		select {
		case err := <-done:
			return err
		case <-time.After(clusterStop):
			return errors.Join(errors.New("the clusters did not stop in time"), cmd.Process.Kill())
		}
	}
	select {
	case <-ready:
	case err := <-done:
		why := strings.ReplaceAll(errs.String(), portBase, given("--kube-ports")) // which is ours for it
		return nil, fmt.Errorf("clusters: %w: %s", err, strings.TrimSpace(why))
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), stop())
	}
	go func() {
		err := <-done
		done <- err
		select {
		case <-stopping:
		default:
			failed <- fmt.Errorf("the clusters ended: %w: %s", err, strings.TrimSpace(errs.String()))
		}
	}()
	return stop, nil
}
