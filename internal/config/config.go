// Package config reads the settings of `drover api`, `drover worker`, `drover monitor`, `drover tenant-agent`, `drover
// admin-token` and `drover keys` once, from flags and environment; a flag wins. All that is wrong is said at once.
package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	addresses "github.com/drover-io/drover/internal/address"
	"github.com/drover-io/drover/internal/hosts"
	"github.com/drover-io/drover/internal/limits"
)

// Config is every setting of the processes. Sizes are bytes. Printed, it shows the settings that were read
// and hides those that hold secrets.
type Config struct {
	shown string // what Format prints

	Listen, MetricsListen string
	TLS                   ServerTLS // of all listeners but that of the tenants' services
	Insecure              bool      // listeners that other machines reach may be without TLS
	GRPCListen            string    // "" for none
	TenantListen          string    // "" for none
	TenantTLS             ServerTLS
	TenantRate            int      // changes a second that are read of a tenant; 0 for all
	Auth                  string   // on or off: whether callers have to prove who they are
	AuthConfig            string   // file, see oidc.Config; "" for no issuers
	AdminTokenFile        string   // where the first start writes the administrator's token; "" for nowhere
	CertUser              string   // the part of a client certificate that is the user: cn, uri, email or dns
	CertGroups            string   // and that which is the groups: o, ou or none
	CertPrefix            string   // what stands before both
	TrustedProxies        []string // common names of the certificates of proxies that say for whom they ask
	AllowedHosts          []string
	AllowedOrigins        []string
	ExternalHosts         []string // that values are taken from, each with a port or without
	KubeconfigDownload    bool
	KubeconfigAllow       []string // what kubeconfigs may have, see kube.AllowedWords
	ClusterAllow          string   // networks, see address.Parse
	ClusterDeny           string
	Operations            int         // that are being begun at a time
	Fair                  limits.Fair // what one caller, and one project, may have
	ProfileListen         string      // "" for none
	Temporal              Temporal
	MongoURI, Database    string
	SecretKeys            string // see secret.Parse
	SecretKeysFile        string
	LogLevel              slog.Level
	LogFormat             string        // text or json
	OTLPEndpoint          string        // URL; "" for no tracing
	WebUI                 string        // base URL of Temporal's Web UI; ""
	CodecOrigins          []string      // of pages that may have payloads of histories opened; that of WebUI when empty
	AuditKeep             time.Duration // how long audit records are kept
	AuditFile             string        // that audit records are appended to; "" for none
	AuditSyslog           string        // URL of what takes them as syslog; "" for none
	AuditSyslogCA         string        // file; "" for the system's
	MaxBody               int64
	Drain                 time.Duration
	Renderers             int           // processes that render charts; 0 for one for each processor
	RenderMemory          int64         // of each of them
	WorkerVersioning      string        // on, off or force
	Workflows, Activities int           // at a time
	Clusters              int           // activities on clusters at a time
	Cache                 int           // workflows kept in memory
	WatchMemory           int64         // of the resources in clusters that a worker watches itself
	CertificateLifetime   time.Duration // of the users of logical clouds; 0 leaves it to the clusters
	CloudPodSecurity      string        // what namespaces of logical clouds enforce at least: baseline, restricted or "" for nothing
	MonitorImage          string        // of the agent in clusters that it is installed into; "" for the chart's
	Monitor               Monitor
	TenantAgent           TenantAgent
}

// Monitor is what the agent of a member cluster has of its own.
type Monitor struct {
	Kubeconfig    string // file; "" for that of the pod it runs in
	Namespace     string // the agent's; "" for no Lease
	WriteInterval time.Duration
	MaxSize       int64  // of a status
	KindsFile     string // see internal/monitor
	Discover      bool
}

// TenantAgent is what the agent of a tenant's cluster has of its own.
type TenantAgent struct {
	Server     string // address of the tenants' services
	Plaintext  bool   // without TLS
	CA, Cert   string // files; "" for the system's, and for none
	Key, Token string // files
	ServerName string // in the server's certificate; "" for that of the address
	Tenant     string
	Namespace  string // the agent's; "" for no Lease and no ConfigMap
	ConfigMap  string // its name
	Rules      bool   // WorkloadRules are carried over
}

// Temporal says how to connect to Temporal.
type Temporal struct {
	Address, Namespace                string
	TLSCert, TLSKey, TLSCA, TLSServer string // files; the server's name
	TokenFile                         string // "" for none
}

// Process says which settings a process has.
type Process int

// The processes.
const (
	API Process = 1 << iota
	Worker
	Monitoring
	TenantAgents
	Admin
	Keys
	Both   = API | Worker
	stored = Both | Admin | Keys // those that have the database
	all    = Both | Monitoring | TenantAgents
)

// String is the command that starts the process.
func (p Process) String() string {
	switch p {
	case API:
		return "api"
	case Worker:
		return "worker"
	case Monitoring:
		return "monitor"
	case TenantAgents:
		return "tenant-agent"
	case Admin:
		return "admin-token"
	case Keys:
		return "keys"
	default:
		return "api and worker"
	}
}

// setting declares one: where it goes and what it is. set says what is wrong with a value; where the
// value may hold a secret it does not repeat it.
type setting struct {
	name, fallback, help string
	of                   Process
	set                  func(c *Config, value string) error
}

// secrets are the settings whose values are never shown.
var secrets = map[string]bool{"mongo-uri": true, "secret-keys": true}

var fairly = limits.Fairly()

// share is a setting of what one caller, or one project, may have.
func share(name string, fallback int, help string, at func(*limits.Fair) *int) setting {
	return setting{name, strconv.Itoa(fallback), help, API, between(0, math.MaxInt32, func(c *Config, n int64) { *at(&c.Fair) = int(n) })}
}

// settings are all of them; the variable of "mongo-uri" is DROVER_MONGO_URI.
var settings = []setting{
	{"listen", "127.0.0.1:9015", "`address` of the REST API", API, address(func(c *Config) *string { return &c.Listen })},
	{"grpc-listen", "127.0.0.1:9016", "`address` of the API's gRPC services; none when empty", API, optional(address(func(c *Config) *string { return &c.GRPCListen }))},
	{"tenant-listen", "127.0.0.1:9017", "`address` of the gRPC services of tenants; none when empty", API, optional(address(func(c *Config) *string { return &c.TenantListen }))},
	{"tenant-tls-cert", "", "certificate `file` of the tenants' services; without it they are for this machine alone", API, file(func(c *Config) *string { return &c.TenantTLS.Cert })},
	{"tenant-tls-key", "", "key `file` of the tenants' services", API, file(func(c *Config) *string { return &c.TenantTLS.Key })},
	{"tenant-tls-ca", "", "`file` with the CA of tenants' client certificates", API, file(func(c *Config) *string { return &c.TenantTLS.CA })},
	{"tenant-rate", "200", "`number` of changes of workloads a second that are read of a tenant; more are read later, 0 for all at once", API, atLeast(0, func(c *Config, n int64) { c.TenantRate = int(n) })},
	{"tls-cert", "", "certificate `file` of all listeners of this process, but for the tenants' services; without it they are for this machine alone", all, file(func(c *Config) *string { return &c.TLS.Cert })},
	{"tls-key", "", "key `file` of the same", all, file(func(c *Config) *string { return &c.TLS.Key })},
	{"insecure", "false", "whether other machines may reach a listener that has no TLS, such as one behind a proxy, but for the tenants' services: `true` or false", all, boolean(func(c *Config) *bool { return &c.Insecure })},
	{"auth", "on", "whether callers have to prove who they are: on or `off`, which is for this machine alone", API, oneOf(func(c *Config) *string { return &c.Auth }, "on", "off")},
	{"admin-token-file", "", "`file` that the first start writes the administrator's token to, when there is no service account yet", API | Admin, text(func(c *Config) *string { return &c.AdminTokenFile })},
	{"auth-config", "", "YAML `file` with the OpenID issuers whose bearer tokens are taken, and at which people log in by the page and the command", API, file(func(c *Config) *string { return &c.AuthConfig })},
	{"client-ca", "", "`file` with the CAs of callers' client certificates; without it nobody is asked for one", API, file(func(c *Config) *string { return &c.TLS.CA })},
	{"client-cert-user", "cn", "`part` of a client certificate that is the user: cn, or the first uri (such as a SPIFFE id), email or dns of its alternative names", API, oneOf(func(c *Config) *string { return &c.CertUser }, "cn", "uri", "email", "dns")},
	{"client-cert-groups", "o", "`part` of a client certificate that is the user's groups: o, ou or none", API, oneOf(func(c *Config) *string { return &c.CertGroups }, "o", "ou", "none")},
	{"client-cert-prefix", "", "`text` before the names of users and groups by certificates, such as cert:", API, prefix(func(c *Config) *string { return &c.CertPrefix })},
	{"trusted-proxy", "", "common `names`, comma-separated, of the client certificates of proxies whose X-Forwarded-User and X-Forwarded-Groups count", API, list(func(c *Config) *[]string { return &c.TrustedProxies })},
	{"allowed-hosts", "", "`names` that the REST API, and listeners for metrics and profiles, are asked by, comma-separated, beside loopback's and the address they listen at; * for any", all, list(func(c *Config) *[]string { return &c.AllowedHosts })},
	{"allowed-origins", "", "`origins` of pages of other sites that may change something by the REST API, comma-separated, such as https://gui.example.com", API, origins(func(c *Config) *[]string { return &c.AllowedOrigins })},
	{"allow-kubeconfig-download", "false", "whether the REST API gives the kubeconfigs of clusters back: `true` or false", API, boolean(func(c *Config) *bool { return &c.KubeconfigDownload })},
	{"kubeconfig-allow", "", "what `members` kubeconfigs of clusters may have, comma-separated: exec, auth-provider, files, insecure-skip-tls-verify, proxy-url, http; the same for api and worker", Both, kubeconfigAllow},
	{"cluster-allow", "", "`networks` that clusters may be in, comma-separated, such as 10.0.0.0/8; any when empty; the same for api and worker", Both, networks(func(c *Config) *string { return &c.ClusterAllow })},
	{"cluster-deny", addresses.Default, "`networks` that clusters must not be in, comma-separated; the same for api and worker", Both, networks(func(c *Config) *string { return &c.ClusterDeny })},
	{"external-hosts", "", "`hosts` that patches of generic k8s intents may take values from by https, comma-separated, with a port where it is not 443; none when empty; the same for api and worker", Both, hostNames},
	{"metrics-listen", "127.0.0.1:9465", "`address` of health and metrics", Worker | Monitoring | TenantAgents, address(func(c *Config) *string { return &c.MetricsListen })},
	{"profile-listen", "", "`address` of the runtime's profiles; none when empty", all, optional(address(func(c *Config) *string { return &c.ProfileListen }))},
	{"temporal-address", "127.0.0.1:7233", "`address` of Temporal's frontend; the same for api and worker", Both, address(func(c *Config) *string { return &c.Temporal.Address })},
	{"temporal-namespace", "drover", "Temporal `namespace`; the same for api and worker", Both, required(func(c *Config) *string { return &c.Temporal.Namespace })},
	{"worker-versioning", "on", "whether the worker tells Temporal its build, so that operations never go back to an older one: `on`, off where Temporal gives no right to Worker Deployments, or force, by which an older build takes over from a newer one", Worker, oneOf(func(c *Config) *string { return &c.WorkerVersioning }, "on", "off", "force")},
	{"temporal-tls-cert", "", "client certificate `file` for Temporal", Both, file(func(c *Config) *string { return &c.Temporal.TLSCert })},
	{"temporal-tls-key", "", "client key `file` for Temporal", Both, file(func(c *Config) *string { return &c.Temporal.TLSKey })},
	{"temporal-tls-ca", "", "CA `file` of Temporal; the system's when empty and another --temporal-tls-* is given. Without any of them there is no TLS", Both, file(func(c *Config) *string { return &c.Temporal.TLSCA })},
	{"temporal-tls-server-name", "", "`name` in Temporal's certificate", Both, text(func(c *Config) *string { return &c.Temporal.TLSServer })},
	{"temporal-token-file", "", "`file` with a bearer token for Temporal, such as an API key of Temporal Cloud, which is read again when it has changed; it needs a --temporal-tls-*, such as the server's name, unless Temporal is on this machine", Both, file(func(c *Config) *string { return &c.Temporal.TokenFile })},
	{"mongo-uri", "mongodb://127.0.0.1:27017", "`URI` of MongoDB; the same for api and worker", stored, mongoURI},
	{"mongo-database", "drover", "`name` of the database; the same for api and worker", stored, required(func(c *Config) *string { return &c.Database })},
	{"secret-keys", "", "`keys` that seal all that documents say, charts, reports and histories, which nobody can read without them: id:base64 of 32 bytes, comma-separated, the first one seals; the same for api and worker", stored, text(func(c *Config) *string { return &c.SecretKeys })},
	{"secret-keys-file", "", "`file` with the keys, one a line; a line name:unix:///path names a KMS plugin in place of a key; the same for api and worker", stored, file(func(c *Config) *string { return &c.SecretKeysFile })},
	{"log-level", "info", "least `level` that is logged: debug, info, warn, error", all | Admin | Keys, func(c *Config, v string) error { return c.LogLevel.UnmarshalText([]byte(v)) }},
	{"log-format", "text", "`format` of the log: text or json", all | Admin | Keys, oneOf(func(c *Config) *string { return &c.LogFormat }, "text", "json")},
	{"otlp-endpoint", "", "`URL` that traces are sent to by OTLP over HTTP, at /v1/traces if it has no path; none when empty", all, otlpURL},
	{"web-ui", "", "base `URL` of Temporal's Web UI, for links", API, httpURL(func(c *Config) *string { return &c.WebUI })},
	{"codec-origins", "", "`origins` of Web UIs of Temporal that may have payloads of histories opened (/codec), comma-separated; that of --web-ui when empty", API, origins(func(c *Config) *[]string { return &c.CodecOrigins })},
	{"audit-keep", "2160h", "`duration` for which audit records are kept, at least 24h; give it to all processes alike, as each drops those of all: the longest one counts", Both, auditKeep},
	{"audit-file", "", "`file` that audit records are appended to, too; it may be rotated at any time", Both | Admin, text(func(c *Config) *string { return &c.AuditFile })},
	{"audit-syslog", "", "`URL` of a collector that takes audit records as syslog (RFC 5424), too: tcp://host:port, tls://host:port or unix:///path", Both | Admin, auditSyslog},
	{"audit-syslog-ca", "", "CA `file` of the collector's certificate; the system's when empty", Both | Admin, file(func(c *Config) *string { return &c.AuditSyslogCA })},
	{"max-body", strconv.Itoa(limits.Body), "largest request body, in `bytes`", API, between(1, limits.Blob, func(c *Config, n int64) { c.MaxBody = n })},
	{"operations", "32", "`number` of operations that are being begun at a time; more wait a moment and are then answered 503", API, positive(func(c *Config, n int64) { c.Operations = int(n) })},
	share("caller-rate", fairly.CallerRate, "`number` of requests a second that one caller may make; more are answered 429, 0 for any", func(f *limits.Fair) *int { return &f.CallerRate }),
	share("caller-requests", fairly.CallerRequests, "`number` of requests of one caller at a time; 0 for any", func(f *limits.Fair) *int { return &f.CallerRequests }),
	share("caller-streams", fairly.CallerStreams, "`number` of open streams of one caller; 0 for any", func(f *limits.Fair) *int { return &f.CallerStreams }),
	share("project-rate", fairly.ProjectRate, "`number` of requests a second about one project; more are answered 429, 0 for any", func(f *limits.Fair) *int { return &f.ProjectRate }),
	share("project-requests", fairly.ProjectRequests, "`number` of requests about one project at a time; 0 for any", func(f *limits.Fair) *int { return &f.ProjectRequests }),
	share("project-streams", fairly.ProjectStreams, "`number` of open streams about one project; 0 for any", func(f *limits.Fair) *int { return &f.ProjectStreams }),
	share("project-operations", fairly.ProjectOperations, "`number` of operations of one project that go on at a time; 0 for any", func(f *limits.Fair) *int { return &f.ProjectOperations }),
	share("project-documents", fairly.ProjectDocuments, "`number` of documents of one project; 0 for any", func(f *limits.Fair) *int { return &f.ProjectDocuments }),
	{"project-bytes", strconv.FormatInt(fairly.ProjectBytes, 10), "size of the documents of one project with their files, in `bytes`; 0 for any", API, atLeast(0, func(c *Config, n int64) { c.Fair.ProjectBytes = n })},
	{"group-targets", strconv.Itoa(fairly.GroupTargets), "`number` of apps of a group times the clusters that each goes to; 0 for any; the same for api and worker", Both, atLeast(0, func(c *Config, n int64) { c.Fair.GroupTargets = int(n) })},
	share("connections", fairly.Connections, "`number` of connections to the REST API at a time; 0 for any", func(f *limits.Fair) *int { return &f.Connections }),
	share("address-connections", fairly.AddressConnections, "`number` of those of one address; behind a proxy all callers have its address; 0 for any", func(f *limits.Fair) *int { return &f.AddressConnections }),
	{"drain", "25s", "`duration` that a process may take to end its work when it is stopped", Both, duration(func(c *Config) *time.Duration { return &c.Drain })},
	{"renderers", "", "`number` of processes that render charts at a time; one for each processor, up to 8, when empty", Both, optional(positive(func(c *Config, n int64) { c.Renderers = int(n) }))},
	{"render-memory", strconv.Itoa(limits.RenderMemory), "most memory of a process that renders charts, in `bytes`", Both, atLeast(limits.RenderMemoryLeast, func(c *Config, n int64) { c.RenderMemory = n })},
	{"workflows", "200", "`number` of workflow tasks at a time", Worker, positive(func(c *Config, n int64) { c.Workflows = int(n) })},
	{"activities", "100", "`number` of lifecycle activities at a time", Worker, positive(func(c *Config, n int64) { c.Activities = int(n) })},
	{"clusters", "2000", "`number` of activities on clusters at a time, half of which may be at clusters that do not answer", Worker, positive(func(c *Config, n int64) { c.Clusters = int(n) })},
	{"cache", "4000", "`number` of workflows kept in memory", Worker, positive(func(c *Config, n int64) { c.Cache = int(n) })},
	{"watch-memory", strconv.Itoa(limits.Watched), "most memory for the resources in all clusters that the worker watches itself, without an agent, in `bytes`; of more the apps that have most are not heard", Worker, atLeast(limits.WatchedLeast, func(c *Config, n int64) { c.WatchMemory = n })},
	{"cloud-pod-security", "none", "Pod Security `standard` that the namespaces of logical clouds of level 1 enforce at least, in place of a cluster's own default: none, baseline or restricted; the same for api and worker", Both, cloudPodSecurity},
	{"certificate-lifetime", "", "`duration` for which certificates of logical clouds' users are good, at least 10m; as clusters have it when empty", Worker, certificateLifetime},
	{"monitor-image", "", "`image` of the agent in clusters registered with spec.report install; its chart's when empty", Worker, text(func(c *Config) *string { return &c.MonitorImage })},
	{"kubeconfig", "", "kubeconfig `file` of the cluster; that of the pod when empty", Monitoring | TenantAgents, file(func(c *Config) *string { return &c.Monitor.Kubeconfig })},
	{"namespace", "default", "`name` of the namespace with the Lease that the agent renews; none when empty", Monitoring, text(func(c *Config) *string { return &c.Monitor.Namespace })},
	{"write-interval", "1s", "shortest `duration` between two writes of one status", Monitoring, duration(func(c *Config) *time.Duration { return &c.Monitor.WriteInterval })},
	{"max-status", strconv.Itoa(limits.Status), "largest status of one ResourceBundleState, in `bytes`; the rest goes to further ones", Monitoring, atLeast(limits.StatusLeast, func(c *Config, n int64) { c.Monitor.MaxSize = n })},
	{"kinds-file", "", "JSON `file` with a list of Group, Version, Kind that are watched in any case", Monitoring, file(func(c *Config) *string { return &c.Monitor.KindsFile })},
	{"discover", "true", "whether every kind is watched that the agent may: `true` or false", Monitoring, boolean(func(c *Config) *bool { return &c.Monitor.Discover })},
	{"server", "", "`address` of the control plane's gRPC services of tenants, host:port; no URL, as DROVER_SERVER is for the client's commands", TenantAgents, address(func(c *Config) *string { return &c.TenantAgent.Server })},
	{"server-ca", "", "CA `file` of the server; the system's when empty", TenantAgents, file(func(c *Config) *string { return &c.TenantAgent.CA })},
	{"server-name", "", "`name` in the server's certificate; that of its address when empty", TenantAgents, text(func(c *Config) *string { return &c.TenantAgent.ServerName })},
	{"server-plaintext", "false", "whether the server is called without TLS, which it has to be on this machine for: `true` or false", TenantAgents, boolean(func(c *Config) *bool { return &c.TenantAgent.Plaintext })},
	{"client-cert", "", "client certificate `file`, which says for which tenant the agent may speak", TenantAgents, file(func(c *Config) *string { return &c.TenantAgent.Cert })},
	{"client-key", "", "client key `file`", TenantAgents, file(func(c *Config) *string { return &c.TenantAgent.Key })},
	{"token-file", "", "`file` with a bearer token, instead of a client certificate", TenantAgents, file(func(c *Config) *string { return &c.TenantAgent.Token })},
	{"tenant", "", "`name` of the tenant whose cluster this is", TenantAgents, tenant},
	{"agent-namespace", "default", "`name` of the namespace with the agents' Lease and their ConfigMap; neither, and all namespaces, when empty", TenantAgents, text(func(c *Config) *string { return &c.TenantAgent.Namespace })},
	{"config-map", "drover-tenant-agent", "`name` of the ConfigMap whose member config says namespaces", TenantAgents, required(func(c *Config) *string { return &c.TenantAgent.ConfigMap })},
	{"rules", "true", "whether WorkloadRules of the cluster are carried over: `true` or false", TenantAgents, boolean(func(c *Config) *bool { return &c.TenantAgent.Rules })},
}

// Variable is the environment variable of a flag.
func Variable(name string) string {
	return "DROVER_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Read reads the settings of a process from args and, where they do not say, from the environment; an
// empty variable counts as not set. The error lists everything that is wrong, each with its flag and its
// variable, or is flag.ErrHelp after -h, for which the help is written to usage.
func Read(p Process, args []string, getenv func(string) string, usage io.Writer) (*Config, error) {
	flags := flag.NewFlagSet("drover", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.Usage = func() {
		fmt.Fprintf(usage, "Usage of drover %s:\nEvery flag can also be given by the variable behind it; the flag wins.\n\n", p)
		flags.PrintDefaults()
	}
	values := map[string]*string{}
	for _, s := range settings {
		if s.of&p != 0 {
			help := s.help + " (" + Variable(s.name) + ")"
			if s.fallback == "false" {
				v := standing(s.fallback)
				flags.Var(&v, s.name, help)
				values[s.name] = (*string)(&v)
				continue
			}
			values[s.name] = flags.String(s.name, s.fallback, help)
		}
	}
	good, rest, wrong := known(flags, args)
	if err := flags.Parse(append(good, rest...)); err != nil {
		return nil, err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	c := &Config{}
	if flags.NArg() > 0 {
		wrong = append(wrong, fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	}
	for _, s := range settings {
		value := values[s.name]
		if value == nil {
			continue
		}
		if v := getenv(Variable(s.name)); v != "" && !given[s.name] {
			*value, given[s.name] = v, true
		}
		if err := s.set(c, *value); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", both(s.name), err))
		}
		given[s.name] = given[s.name] && *value != s.fallback // nothing is missed where it is as it would be
		c.show(s.name, *value)
	}
	wrong = append(wrong, c.checkIgnored(func(name string) bool { return given[name] })...)
	wrong = append(wrong, c.checkListeners()...)
	if p&stored != 0 {
		wrong = append(wrong, c.check()...)
	}
	if p == Admin && c.AdminTokenFile == "" {
		wrong = append(wrong, fmt.Errorf("%s is required", both("admin-token-file")))
	}
	if p == TenantAgents {
		wrong = append(wrong, c.TenantAgent.check()...)
	}
	return c, errors.Join(wrong...)
}

// standing is the value of a flag that turns something on, with a value or without.
type standing string

// String implements flag.Value.
func (v *standing) String() string { return string(*v) }

// Set implements flag.Value.
func (v *standing) Set(s string) error { *v = standing(s); return nil }

// IsBoolFlag lets the flag stand alone.
func (v *standing) IsBoolFlag() bool { return true }

// both names a setting's flag and variable.
func both(name string) string { return "--" + name + " (" + Variable(name) + ")" }

func (c *Config) show(name, value string) {
	if secrets[name] && value != "" {
		value = "***"
	}
	if c.shown != "" {
		c.shown += " "
	}
	c.shown += fmt.Sprintf("%s=%q", name, value)
}

// Format implements fmt.Formatter for every verb, so that no way of printing shows a secret.
func (c Config) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.shown)) }

// LogValue implements slog.LogValuer.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.shown) }

// check looks at what settings of those say together that have the database.
func (c *Config) check() (wrong []error) {
	if c.SecretKeys == "" && c.SecretKeysFile == "" {
		wrong = append(wrong, fmt.Errorf("%s or %s is required", both("secret-keys"), both("secret-keys-file")))
	}
	if c.SecretKeys != "" && c.SecretKeysFile != "" {
		wrong = append(wrong, fmt.Errorf("%s and %s exclude each other", both("secret-keys"), both("secret-keys-file")))
	}
	if (c.Temporal.TLSCert == "") != (c.Temporal.TLSKey == "") {
		wrong = append(wrong, fmt.Errorf("%s and %s belong together", both("temporal-tls-cert"), both("temporal-tls-key")))
	}
	if host, _, _ := net.SplitHostPort(c.Temporal.Address); c.Temporal.TokenFile != "" && !c.Temporal.secured() && !hosts.Loopback(host) {
		wrong = append(wrong, fmt.Errorf("%s: %q is not on this machine, so the token needs TLS: give %s or %s",
			both("temporal-token-file"), c.Temporal.Address, both("temporal-tls-ca"), both("temporal-tls-server-name")))
	}
	return append(append(wrong, c.checkAuth()...), c.checkTenants()...)
}

// checkAuth looks at what settings of authentication say together. Without it whoever reaches the API may do everything, so that
// only this machine may, whatever else is set.
func (c *Config) checkAuth() (wrong []error) {
	if c.TLS.CA != "" && c.TLS.Cert == "" {
		wrong = append(wrong, fmt.Errorf("%s needs %s", both("client-ca"), both("tls-cert")))
	}
	if len(c.TrustedProxies) > 0 && c.TLS.CA == "" {
		wrong = append(wrong, fmt.Errorf("%s needs %s", both("trusted-proxy"), both("client-ca")))
	}
	for _, s := range []struct {
		name string
		set  bool
	}{{"client-cert-user", c.CertUser != "cn" && c.CertUser != ""}, {"client-cert-groups", c.CertGroups != "o" && c.CertGroups != ""}, {"client-cert-prefix", c.CertPrefix != ""}} {
		if s.set && c.TLS.CA == "" {
			wrong = append(wrong, fmt.Errorf("%s needs %s", both(s.name), both("client-ca")))
		}
	}
	if c.Auth != "off" {
		return wrong
	}
	for _, l := range []struct{ name, address string }{{"listen", c.Listen}, {"grpc-listen", c.GRPCListen}} {
		if host, _, err := net.SplitHostPort(l.address); err == nil && !hosts.Loopback(host) {
			wrong = append(wrong, fmt.Errorf("%s: %q can be reached from other machines, so %s may not be off", both(l.name), l.address, both("auth")))
		}
	}
	for _, s := range []struct {
		name string
		set  bool
	}{{"admin-token-file", c.AdminTokenFile != ""}, {"auth-config", c.AuthConfig != ""}, {"client-ca", c.TLS.CA != ""}, {"trusted-proxy", len(c.TrustedProxies) > 0}} {
		if s.set {
			wrong = append(wrong, fmt.Errorf("%s means nothing while %s is off", both(s.name), both("auth")))
		}
	}
	return wrong
}

// checkListeners refuses listeners without TLS that other machines can reach, and --insecure where it would mean nothing.
func (c *Config) checkListeners() (wrong []error) {
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		return []error{fmt.Errorf("%s and %s belong together", both("tls-cert"), both("tls-key"))}
	}
	switch {
	case c.TLS.Cert != "" && c.Insecure:
		return []error{fmt.Errorf("%s means nothing beside %s, which gives TLS to all listeners that it is about", both("insecure"), both("tls-cert"))}
	case c.TLS.Cert != "" || c.Insecure:
		return nil
	}
	for _, l := range []struct{ name, address string }{
		{"listen", c.Listen}, {"grpc-listen", c.GRPCListen}, {"metrics-listen", c.MetricsListen}, {"profile-listen", c.ProfileListen},
	} {
		host, _, err := net.SplitHostPort(l.address)
		if err == nil && !hosts.Loopback(host) { // what is no address has been refused, and "" is none
			wrong = append(wrong, fmt.Errorf("%s: %q can be reached from other machines, so it needs %s, or %s", both(l.name), l.address, both("tls-cert"), both("insecure")))
		}
	}
	return wrong
}

// checkTenants looks at what the settings of the tenants' services say together.
func (c *Config) checkTenants() (wrong []error) {
	if c.TenantListen == "" {
		return nil
	}
	t := c.TenantTLS
	host, _, _ := net.SplitHostPort(c.TenantListen)
	switch {
	case (t.Cert == "") != (t.Key == "") || (t.Cert == "") != (t.CA == ""):
		wrong = append(wrong, fmt.Errorf("%s, %s and %s belong together", both("tenant-tls-cert"), both("tenant-tls-key"), both("tenant-tls-ca")))
	case t.Cert == "" && !hosts.Loopback(host):
		wrong = append(wrong, fmt.Errorf("%s: %q can be reached from other machines, so it needs %s", both("tenant-listen"), c.TenantListen, both("tenant-tls-cert")))
	}
	return wrong
}

// check looks at what settings of the tenant's agent say together.
func (a *TenantAgent) check() (wrong []error) {
	if (a.Cert == "") != (a.Key == "") {
		wrong = append(wrong, fmt.Errorf("%s and %s belong together", both("client-cert"), both("client-key")))
	}
	if a.Cert != "" && a.Token != "" {
		wrong = append(wrong, fmt.Errorf("%s and %s exclude each other", both("client-cert"), both("token-file")))
	}
	host, _, _ := net.SplitHostPort(a.Server)
	switch secured := a.CA != "" || a.Cert != "" || a.Token != "" || a.ServerName != ""; {
	case a.Plaintext && secured:
		wrong = append(wrong, fmt.Errorf("%s is without %s, %s, %s and %s", both("server-plaintext"), both("server-ca"), both("server-name"), both("client-cert"), both("token-file")))
	case a.Plaintext && !hosts.Loopback(host):
		wrong = append(wrong, fmt.Errorf("%s: %q is not on this machine, so it needs TLS", both("server-plaintext"), a.Server))
	case !a.Plaintext && a.Cert == "" && a.Token == "":
		wrong = append(wrong, fmt.Errorf("%s or %s is required", both("client-cert"), both("token-file")))
	}
	return wrong
}

// tenant is a name as the server takes it; whether there is such a tenant is not known here.
func tenant(c *Config, v string) error {
	if c.TenantAgent.Tenant = v; !tenantName.MatchString(v) {
		return fmt.Errorf("%q is not the name of a tenant: a DNS-1123 label of at most 56", v)
	}
	return nil
}

var tenantName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,54}[a-z0-9])?$`)

func text(at func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error { *at(c) = v; return nil }
}

func required(at func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if *at(c) = v; v == "" {
			return errors.New("is required")
		}
		return nil
	}
}

func address(at func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error {
		*at(c) = v
		if _, port, err := net.SplitHostPort(v); err != nil || port == "" {
			return fmt.Errorf("%q is not host:port", v)
		}
		return nil
	}
}

// optional takes an empty value for what it is.
func optional(set func(*Config, string) error) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v == "" {
			return nil
		}
		return set(c, v)
	}
}

func file(at func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if *at(c) = v; v == "" {
			return nil
		}
		if info, err := os.Stat(v); err != nil || info.IsDir() {
			return fmt.Errorf("the file %q cannot be read", v)
		}
		return nil
	}
}

func oneOf(at func(*Config) *string, choices ...string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if *at(c) = v; slices.Contains(choices, v) {
			return nil
		}
		return fmt.Errorf("%q is none of %s", v, strings.Join(choices, ", "))
	}
}

// mostPrefix leaves room for a name in what the name of a caller may be.
const mostPrefix = 64

// prefix is what stands before names: printable, without a space, as names end up in lists.
func prefix(at func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error {
		*at(c) = v
		if len(v) > mostPrefix || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }) {
			return fmt.Errorf("%q is no prefix: it has up to %d printable characters of ASCII, and no space or comma", v, mostPrefix)
		}
		return nil
	}
}

func list(at func(*Config) *[]string) func(*Config, string) error {
	return func(c *Config, v string) error {
		for _, word := range strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' }) {
			*at(c) = append(*at(c), word)
		}
		return nil
	}
}

// kubeconfigMembers are what kube.AllowedWords are.
var kubeconfigMembers = []string{"exec", "auth-provider", "files", "insecure-skip-tls-verify", "proxy-url", "http"}

func kubeconfigAllow(c *Config, v string) error {
	_ = list(func(c *Config) *[]string { return &c.KubeconfigAllow })(c, v)
	for _, word := range c.KubeconfigAllow {
		if !slices.Contains(kubeconfigMembers, word) {
			return fmt.Errorf("%q is none of %s", word, strings.Join(kubeconfigMembers, ", "))
		}
	}
	return nil
}

// cloudPodSecurity has no standard for none.
func cloudPodSecurity(c *Config, v string) error {
	err := oneOf(func(c *Config) *string { return &c.CloudPodSecurity }, "none", "baseline", "restricted")(c, v)
	if v == "none" {
		c.CloudPodSecurity = ""
	}
	return err
}

func networks(at func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error {
		*at(c) = v
		_, err := addresses.Parse(v, "")
		return err
	}
}

// ClusterNetworks are those that clusters may be in.
func (c *Config) ClusterNetworks() addresses.Networks {
	n, _ := addresses.Parse(c.ClusterAllow, c.ClusterDeny) // each was read before
	return n
}

// hostNames are names, with ports or without.
func hostNames(c *Config, v string) error {
	_ = list(func(c *Config) *[]string { return &c.ExternalHosts })(c, v)
	for _, host := range c.ExternalHosts {
		if u, err := url.Parse("https://" + host); err != nil || u.Host != host || u.Hostname() == "" || strings.Contains(host, "*") {
			return fmt.Errorf("%q is not the name of a host such as values.example.com or values.example.com:8443", host)
		}
	}
	return nil
}

// origins are a scheme and a host, as browsers send them.
func origins(at func(*Config) *[]string) func(*Config, string) error {
	return func(c *Config, v string) error {
		_ = list(at)(c, v)
		for _, origin := range *at(c) {
			if err := http.NewCrossOriginProtection().AddTrustedOrigin(origin); err != nil {
				return fmt.Errorf("%q is not an origin such as https://gui.example.com", origin)
			}
		}
		return nil
	}
}

func httpURL(at func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if *at(c) = v; v == "" {
			return nil
		}
		if u, err := url.Parse(v); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return fmt.Errorf("%q is not an http or https URL", v)
		}
		return nil
	}
}

// otlpURL never repeats what it refuses: it may hold a password.
func otlpURL(c *Config, v string) error {
	if err := httpURL(func(c *Config) *string { return &c.OTLPEndpoint })(c, v); err != nil {
		return err
	}
	if u, err := url.Parse(v); err == nil && (u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		return errors.New("is more than a host, a port and a path; a token goes into OTEL_EXPORTER_OTLP_HEADERS")
	}
	return nil
}

// mongoURI never repeats the value: it may hold a password.
func mongoURI(c *Config, v string) error {
	if c.MongoURI = v; !strings.HasPrefix(v, "mongodb://") && !strings.HasPrefix(v, "mongodb+srv://") {
		return errors.New("does not begin with mongodb:// or mongodb+srv://")
	}
	return nil
}

func duration(at func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is not a positive duration such as 30s", v)
		}
		*at(c) = d
		return nil
	}
}

func auditSyslog(c *Config, v string) error {
	if c.AuditSyslog = v; v == "" {
		return nil
	}
	u, err := url.Parse(v)
	switch {
	case err != nil:
	case u.Scheme == "unix" && u.Host == "" && u.Path != "", (u.Scheme == "tcp" || u.Scheme == "tls") && u.Port() != "" && u.Path == "":
		return nil
	}
	return fmt.Errorf("%q is none of tcp://host:port, tls://host:port and unix:///path", v)
}

// auditKept is the shortest time for which audit records may be kept.
const auditKept = 24 * time.Hour

func auditKeep(c *Config, v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < auditKept {
		return fmt.Errorf("%q is not a duration from %s on, such as 2160h", v, auditKept)
	}
	c.AuditKeep = d
	return nil
}

func positive(set func(*Config, int64)) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n <= 0 {
			return fmt.Errorf("%q is not a positive number", v)
		}
		set(c, n)
		return nil
	}
}

func between(least, most int64, set func(*Config, int64)) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < least || n > most {
			return fmt.Errorf("%q is not a number of %d to %d", v, least, most)
		}
		set(c, n)
		return nil
	}
}

func atLeast(least int64, set func(*Config, int64)) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < least {
			return fmt.Errorf("%q is not a number of %d at least", v, least)
		}
		set(c, n)
		return nil
	}
}

func boolean(at func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, v string) error {
		b, err := strconv.ParseBool(v)
		if err != nil {
			return fmt.Errorf("%q is not true or false", v)
		}
		*at(c) = b
		return nil
	}
}

// leastLifetime is the shortest life of a certificate that clusters grant.
const leastLifetime = 10 * time.Minute

func certificateLifetime(c *Config, v string) error {
	if v == "" {
		return nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < leastLifetime || d.Seconds() > math.MaxInt32 {
		return fmt.Errorf("%q is not a duration from %s on, such as 720h", v, leastLifetime)
	}
	c.CertificateLifetime = d
	return nil
}
