// Package app puts the processes together from their parts: the API and the worker, apart or in one
// process. It is the only place besides the commands that knows everything.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/codec"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/engine"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/oidc"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/render"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/telemetry"
	"github.com/drover-io/drover/worker"
)

// Logger logs to w as configured.
func Logger(c *config.Config, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// Parts are what API and worker share.
type Parts struct {
	config *config.Config
	log    *slog.Logger
	store  *store.Store
	sealer *secret.Sealer // of the store
	inner  *secret.Sealer // of what documents hold sealed, whatever seals them; see begin
	// installation is the id of the installation, see begin.
	installation string
	codec        *codec.Codec
	temporal     client.Client
	engine       *engine.Engine
	rules        *readiness.Book
	charts       *render.Processes
	tracing      telemetry.Tracing
	metrics      prometheus.Collector // what the process has measured
	leases       *worker.Leases
	build        string                  // by which Temporal knows this worker, "" where it is to know of none
	newer        *atomic.Pointer[string] // the build that does the work instead of this worker's, "" for none; nil until it is known
	ramp         *atomic.Pointer[string] // which part of the work this worker does not get though its build does it; nil and "" for none
	audit        *auditing
	issuers      *oidc.Providers // whose tokens callers of the API may show; nil for none
	sessions     *oidc.Sessions  // of browsers that have logged in at one of them; nil where nobody does
}

// Connect makes the parts and waits, until ctx ends, for the dependencies to answer, saying which one it
// waits for, also at the front; nil for none.
func Connect(ctx context.Context, c *config.Config, logger *slog.Logger, f *Front) (*Parts, error) {
	p := &Parts{config: c, log: logger, leases: worker.NewLeases(lease.Now), newer: new(atomic.Pointer[string]), ramp: new(atomic.Pointer[string])}
	ok := false
	defer func() {
		if !ok {
			p.Close()
		}
	}()
	var sizes []any
	for _, s := range limits.All(cmp.Or(c.MaxBody, limits.Body), c.RenderMemory, cmp.Or(c.WatchMemory, limits.Watched)) {
		sizes = append(sizes, s.Key, s.Text())
	}
	if c.Listen != "" {
		for _, s := range c.Fair.Sizes() {
			sizes = append(sizes, s.Key, s.Text())
		}
	}
	logger.Info("limits of sizes", sizes...)
	var err error
	if p.sealer, err = sealer(c); err != nil {
		return nil, err
	}
	ringOf(p.sealer).Tell(func(err error) {
		if err != nil {
			logger.Error("the secret keys cannot be had, those of before are used", "file", c.SecretKeysFile, "error", err)
		} else {
			logger.Info("the secret keys can be had again", "file", c.SecretKeysFile)
		}
	})
	if p.issuers, err = issuersOf(c); err != nil {
		return nil, err
	}
	if err := p.checkIssuers(ctx); err != nil {
		return nil, err
	}
	if p.charts, err = render.NewProcesses(render.Options{Size: c.Renderers, Memory: c.RenderMemory, Log: logger}); err != nil {
		return nil, err
	}
	if p.metrics, err = telemetry.Metrics(processOf(p)); err != nil {
		return nil, err
	}
	measure.Panics.Begin()
	if p.tracing, err = telemetry.Start(ctx, c.OTLPEndpoint, processOf(p), logger); err != nil {
		return nil, err
	}
	if p.store, err = store.Open(store.Config{URI: c.MongoURI, Database: c.Database, Keys: p.sealer}); err != nil {
		return nil, err
	}
	if err := p.reachTemporal(); err != nil {
		return nil, err
	}
	if p.audit, err = newAuditing(p); err != nil {
		return nil, err
	}
	p.rules = rulesIn(p.store)
	database := "start a MongoDB, such as by `drover-local mongo --dir DIR`, or say where one is by --mongo-uri (DROVER_MONGO_URI)"
	for _, d := range []dependency{
		{"secret keys", "start the plugin of the KMS that the secret keys name, or have its socket where they say", p.keysAtHand},
		{"database", database, within(pingTime, p.store.Ping)},
		{"database layout", database, p.store.EnsureLayout},
		{"database indexes", database, p.store.EnsureIndexes},
		{"audit log", database, p.begin},
		{
			"Temporal at " + c.Temporal.Address,
			"start a Temporal, such as by `drover-local temporal --db FILE`, or say where one is by --temporal-address (DROVER_TEMPORAL_ADDRESS)",
			within(pingTime, p.meetTemporal),
		},
		{
			"Temporal namespace " + c.Temporal.Namespace,
			fmt.Sprintf("where there is none, make it by `temporal operator namespace create --namespace %s --retention 72h --address %s`, or name another one by --temporal-namespace (DROVER_TEMPORAL_NAMESPACE); where it lacks search attributes, add them, or make the client an admin of the namespace",
				c.Temporal.Namespace, c.Temporal.Address),
			func(ctx context.Context) error {
				return p.engine.EnsureSearchAttributes(ctx, c.Temporal.Namespace, func(err error) {
					logger.Warn("Temporal's visibility does not answer: operations go on, and lists of them are missing until it does", "error", err)
				})
			},
		},
		{"Temporal schedules", "look at Temporal's log", p.engine.EnsureSchedules},
	} {
		f.waitFor(d.name)
		if err := await(ctx, logger, d); err != nil {
			return nil, err
		}
	}
	f.waitFor("the end of its start")
	ok = true
	return p, nil
}

// meetTemporal says whether Temporal answers, and warns of one that is too old: what it does not know is refused later, as something else.
func (p *Parts) meetTemporal(ctx context.Context) error {
	if err := p.engine.Ping(ctx); err != nil {
		return err
	}
	if has, least, err := p.engine.Outdated(ctx); err == nil && has != "" {
		p.log.Warn("this Temporal is too old: operations are refused", "version", has, "least", least)
	}
	return nil
}

// begin reads the secret of the installation, and makes what needs it. Credentials in documents, and in plans, which stay as they are when
// sealing keys change, are sealed by a key that comes from it; what holds them is sealed once more.
func (p *Parts) begin(ctx context.Context) error {
	root, err := p.store.Root(ctx)
	if err != nil {
		return err
	}
	p.installation = root.ID()
	if p.inner, err = root.Sealer("credentials in documents"); err != nil {
		return err
	}
	return p.audit.begin(ctx)
}

// Close closes the parts.
func (p *Parts) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if p.charts != nil {
		p.charts.Close()
	}
	if p.temporal != nil {
		p.temporal.Close()
	}
	if p.audit != nil {
		p.audit.close(ctx)
	}
	if p.store != nil {
		if err := p.store.Close(ctx); err != nil {
			p.log.Warn("close the store", "error", err)
		}
	}
	if p.sealer != nil {
		p.sealer.Close()
	}
	traced, done := context.WithTimeout(context.Background(), closeTimeout) // the store may have taken all of ctx
	defer done()
	if err := p.tracing.Stop(traced); err != nil {
		p.log.Warn("stop tracing", "error", err)
	}
}

// keysAtHand says whether services that have keys answer.
func (p *Parts) keysAtHand(context.Context) error { return ringOf(p.sealer).Ready() }

const closeTimeout = 10 * time.Second

func sealer(c *config.Config) (*secret.Sealer, error) {
	if c.SecretKeysFile != "" {
		return secret.ReadFile(c.SecretKeysFile)
	}
	return secret.Parse(c.SecretKeys)
}

// reachTemporal makes the client, whose payloads are sealed by keys that the store has.
func (p *Parts) reachTemporal() (err error) {
	p.codec = codec.New(func() (secret.Root, error) {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		return p.store.Root(ctx)
	})
	if p.temporal, err = dial(p.config, p.log, p.tracing, p.leases, p.codec); err == nil {
		p.engine = engine.NewReading(p.temporal, p.codec.Data(), p.codec.Failures())
	}
	return err
}

// dial makes a client that connects when it is first used.
func dial(c *config.Config, logger *slog.Logger, tracing telemetry.Tracing, leases *worker.Leases, sealed *codec.Codec) (client.Client, error) {
	options := client.Options{
		HostPort: c.Temporal.Address, Namespace: c.Temporal.Namespace,
		Logger:             telemetry.TemporalLogger(logger),
		ContextPropagators: tracing.Propagators(),
		DataConverter:      sealed.Data(), FailureConverter: sealed.Failures(),
	}
	var err error
	if options.MetricsHandler, err = telemetry.TemporalMetrics(); err != nil {
		return nil, err
	}
	tls, err := c.Temporal.TLS(logger)
	if err != nil {
		return nil, err
	}
	options.ConnectionOptions.TLS = tls
	token, err := c.Temporal.Token(logger)
	if err != nil {
		return nil, err
	}
	if token != nil {
		options.Credentials = client.NewAPIKeyDynamicCredentials(func(context.Context) (string, error) { return token(), nil })
		options.ConnectionOptions.TLSDisabled = tls == nil // else credentials turn it on; settings allow it on this machine alone
	}
	// Payloads are small, and sealed: compressing them costs more than sending them.
	options.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	options.ConnectionOptions.DialOptions = []grpc.DialOption{grpc.WithChainUnaryInterceptor(leases.Listen)}
	return client.NewLazyClient(options)
}

// dependency is what a process needs before it can do anything, and what a person does when it is missing.
type dependency struct {
	name, remedy string
	call         func(context.Context) error
}

// clockRemedy is what a person does when the database is there, and this clock is behind the database's.
const clockRemedy = "set the clocks of this host and of the database's right, such as by NTP: the process goes on by itself"

// remedyOf is what a person does about an error of the call.
func (d *dependency) remedyOf(err error) string {
	if errors.Is(err, audit.ErrClock) {
		return clockRemedy
	}
	return d.remedy
}

// within bounds a call.
func within(limit time.Duration, call func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return call(ctx)
	}
}

// Waiting for a dependency: the first wait and the longest, how long a ping may take and an answer may be waited for in
// silence, and how often what is missing is said.
const (
	firstWait   = 200 * time.Millisecond
	longestWait = 5 * time.Second
	pingTime    = 1500 * time.Millisecond
	slowAnswer  = time.Second
	sayAgain    = 30 * time.Second
)

// await calls until there is no error, or one of a condition that does not hold: no time puts that right. It says what it waits
// for and what to do: at once, when the reason is another one, and every 30 s. That an answer takes long is worth a word, and no warning.
func await(ctx context.Context, logger *slog.Logger, d dependency) error {
	said, last := time.Time{}, ""
	again := pause.Backoff{First: firstWait, Most: longestWait}
	for {
		slow := time.AfterFunc(slowAnswer, func() { logger.Info("waiting for a dependency", "dependency", d.name) })
		if !said.IsZero() {
			slow.Stop()
		}
		err := d.call(ctx)
		slow.Stop()
		if err == nil {
			if !said.IsZero() {
				logger.Info("a dependency is there", "dependency", d.name)
			}
			return nil
		}
		if fail.Is(err, fail.Precondition) {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		if reason := fail.TextOf(err); reason != last || time.Since(said) >= sayAgain {
			logger.Warn("waiting for a dependency", "dependency", d.name, "error", err, "remedy", d.remedyOf(err))
			said, last = time.Now(), reason
		}
		if cause := again.Wait(ctx); cause != nil {
			return fmt.Errorf("wait for %s: %w (%w)", d.name, cause, err)
		}
	}
}
