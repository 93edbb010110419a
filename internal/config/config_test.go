package config_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/address"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/limits"
)

func read(p config.Process, env map[string]string, args ...string) (*config.Config, error) {
	return config.Read(p, args, func(name string) string { return env[name] }, io.Discard)
}

// keys are what has no default.
var keys = map[string]string{"DROVER_SECRET_KEYS": "k:aGlkZGVu"}

func with(env map[string]string, more ...string) map[string]string {
	all := map[string]string{}
	for k, v := range env {
		all[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

func TestDefaults(t *testing.T) {
	api := config.Config{
		Listen: "127.0.0.1:9015", Auth: "on",
		GRPCListen: "127.0.0.1:9016", TenantListen: "127.0.0.1:9017", TenantRate: 200,
		Temporal:   config.Temporal{Address: "127.0.0.1:7233", Namespace: "drover"},
		MongoURI:   "mongodb://127.0.0.1:27017",
		Database:   "drover",
		SecretKeys: "k:aGlkZGVu",
		LogFormat:  "text",
		AuditKeep:  90 * 24 * time.Hour,
		MaxBody:    256 << 20,
		Operations: 32,
		Fair:       limits.Fairly(),
		Drain:      25 * time.Second,

		RenderMemory: 1 << 30,
	}
	api.ClusterDeny = address.Default
	api.CertUser, api.CertGroups = "cn", "o"
	worker := api
	worker.TenantListen, worker.TenantRate = "", 0
	worker.CertUser, worker.CertGroups = "", ""
	worker.Auth, worker.Fair = "", limits.Fair{GroupTargets: api.Fair.GroupTargets}
	worker.Listen, worker.GRPCListen, worker.MaxBody, worker.Operations = "", "", 0, 0
	worker.MetricsListen = "127.0.0.1:9465"
	worker.WorkerVersioning = "on"
	worker.Workflows, worker.Activities, worker.Clusters, worker.Cache = 200, 100, 2000, 4000
	worker.WatchMemory = 1 << 30
	both := worker
	both.CertUser, both.CertGroups = api.CertUser, api.CertGroups
	both.Auth, both.Fair = api.Auth, api.Fair
	both.TenantListen, both.TenantRate = api.TenantListen, api.TenantRate
	both.Listen, both.GRPCListen, both.MaxBody, both.Operations = api.Listen, api.GRPCListen, api.MaxBody, api.Operations
	for name, c := range map[string]struct {
		process config.Process
		want    config.Config
	}{"api": {config.API, api}, "worker": {config.Worker, worker}, "both": {config.Both, both}} {
		t.Run(name, func(t *testing.T) {
			got, err := read(c.process, keys)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(&c.want, got, cmpopts.IgnoreUnexported(config.Config{})))
		})
	}
}

func TestMonitorHasSettingsOfItsOwn(t *testing.T) {
	got, err := read(config.Monitoring, nil) // no keys, no database
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&config.Config{
		MetricsListen: "127.0.0.1:9465", LogFormat: "text",
		Monitor: config.Monitor{Namespace: "default", WriteInterval: time.Second, MaxSize: 1 << 20, Discover: true},
	}, got, cmpopts.IgnoreUnexported(config.Config{})))

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	got, err = read(config.Monitoring, map[string]string{"DROVER_DISCOVER": "false"}, "--metrics-listen", ":1", "--insecure", "--log-level", "warn",
		"--log-format", "json", "--kubeconfig", file, "--namespace", "n", "--write-interval", "2s", "--max-status", "65536", "--kinds-file", file)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&config.Config{
		MetricsListen: ":1", Insecure: true, LogLevel: slog.LevelWarn, LogFormat: "json",
		Monitor: config.Monitor{Kubeconfig: file, Namespace: "n", WriteInterval: 2 * time.Second, MaxSize: 64 << 10, KindsFile: file},
	}, got, cmpopts.IgnoreUnexported(config.Config{})))

	_, err = read(config.Monitoring, nil, "--max-status", "65535", "--discover", "maybe")
	require.ErrorContains(t, err, "--max-status (DROVER_MAX_STATUS)")
	require.ErrorContains(t, err, "--discover (DROVER_DISCOVER)")
	_, err = read(config.Monitoring, nil, "--mongo-uri", "mongodb://x")
	require.Error(t, err, "it knows nothing of databases")
}

func TestFlagThenVariableThenDefault(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
		want string
	}{
		"the default":                  {keys, nil, "drover"},
		"a variable":                   {with(keys, "DROVER_MONGO_DATABASE", "env"), nil, "env"},
		"an empty variable":            {with(keys, "DROVER_MONGO_DATABASE", ""), nil, "drover"},
		"a flag":                       {keys, []string{"--mongo-database", "flag"}, "flag"},
		"a flag over a variable":       {with(keys, "DROVER_MONGO_DATABASE", "env"), []string{"-mongo-database=flag"}, "flag"},
		"a flag that is as by default": {with(keys, "DROVER_MONGO_DATABASE", "env"), []string{"-mongo-database=drover"}, "drover"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(config.API, c.env, c.args...)
			require.NoError(t, err)
			require.Equal(t, c.want, got.Database)
		})
	}
}

func TestEverySettingCanBeSet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	got, err := read(config.Both, nil,
		"--listen", ":80", "--tls-cert", file, "--tls-key", file, "--grpc-listen", "", "--tenant-listen", ":81", "--tenant-rate", "7",
		"--tenant-tls-cert", file, "--tenant-tls-key", file, "--tenant-tls-ca", file, "--metrics-listen", "[::1]:81", "--temporal-address", "t:1", "--temporal-namespace", "n",
		"--temporal-tls-cert", file, "--temporal-tls-key", file, "--temporal-tls-ca", file, "--temporal-tls-server-name", "s", "--temporal-token-file", file,
		"--mongo-uri", "mongodb+srv://u:p@m", "--mongo-database", "d", "--secret-keys-file", file,
		"--log-level", "debug", "--log-format", "json", "--otlp-endpoint", "http://o:4318", "--web-ui", "https://w/x",
		"--auth", "on", "--admin-token-file", "f", "--auth-config", file, "--client-ca", file, "--client-cert-user", "uri", "--client-cert-groups", "none", "--client-cert-prefix", "cert:", "--trusted-proxy", "proxy,gate",
		"--allowed-hosts", "a.example, b", "--allowed-origins", "https://g.example,http://h:8080", "--allow-kubeconfig-download", "--kubeconfig-allow", "exec,files", "--cluster-allow", "10.0.0.0/8", "--cluster-deny", "10.1.0.0/16", "--cloud-pod-security", "baseline", "--codec-origins", "https://t.example", "--external-hosts", "v.example,[2001:db8::1]:8443",
		"--caller-rate", "11", "--caller-requests", "12", "--caller-streams", "13", "--project-rate", "14", "--project-requests", "15", "--project-streams", "16",
		"--project-operations", "17", "--project-documents", "18", "--project-bytes", "19", "--group-targets", "0", "--connections", "20", "--address-connections", "21",
		"--max-body", "1", "--operations", "6", "--drain", "1m30s", "--worker-versioning", "force", "--workflows", "2", "--activities", "3", "--clusters", "4", "--cache", "5", "--watch-memory", "67108864",
		"--renderers", "6", "--render-memory", "134217728", "--audit-keep", "48h", "--audit-file", "a.log", "--audit-syslog", "tls://s:6514", "--audit-syslog-ca", file)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&config.Config{
		Listen: ":80", TLS: config.ServerTLS{Cert: file, Key: file, CA: file}, Auth: "on", AdminTokenFile: "f", AuthConfig: file, CertUser: "uri", CertGroups: "none", CertPrefix: "cert:", TrustedProxies: []string{"proxy", "gate"}, MetricsListen: "[::1]:81", TenantListen: ":81", TenantRate: 7, TenantTLS: config.ServerTLS{Cert: file, Key: file, CA: file},
		AllowedHosts: []string{"a.example", "b"}, AllowedOrigins: []string{"https://g.example", "http://h:8080"}, KubeconfigDownload: true,
		KubeconfigAllow: []string{"exec", "files"}, ClusterAllow: "10.0.0.0/8", ClusterDeny: "10.1.0.0/16", CloudPodSecurity: "baseline", CodecOrigins: []string{"https://t.example"},
		ExternalHosts: []string{"v.example", "[2001:db8::1]:8443"},
		Temporal:      config.Temporal{Address: "t:1", Namespace: "n", TLSCert: file, TLSKey: file, TLSCA: file, TLSServer: "s", TokenFile: file},
		MongoURI:      "mongodb+srv://u:p@m", Database: "d", SecretKeysFile: file,
		AuditKeep: 48 * time.Hour, AuditFile: "a.log", AuditSyslog: "tls://s:6514", AuditSyslogCA: file,
		LogLevel: slog.LevelDebug, LogFormat: "json", OTLPEndpoint: "http://o:4318", WebUI: "https://w/x",
		Fair: limits.Fair{
			CallerRate: 11, CallerRequests: 12, CallerStreams: 13, ProjectRate: 14, ProjectRequests: 15, ProjectStreams: 16,
			ProjectOperations: 17, ProjectDocuments: 18, ProjectBytes: 19, Connections: 20, AddressConnections: 21,
		},
		MaxBody: 1, Operations: 6, Drain: 90 * time.Second, WorkerVersioning: "force", Workflows: 2, Activities: 3, Clusters: 4, Cache: 5, WatchMemory: 64 << 20, Renderers: 6, RenderMemory: 128 << 20,
	}, got, cmpopts.IgnoreUnexported(config.Config{})))
}

// TestATokenForTemporal goes by TLS, or stays on this machine.
func TestATokenForTemporal(t *testing.T) {
	for _, args := range [][]string{
		{"--temporal-address", "127.0.0.1:7233"}, {"--temporal-address", "localhost:7233"},
		{"--temporal-address", "temporal.example:7233", "--temporal-tls-server-name", "temporal.example"},
	} {
		got, err := read(config.API, keys, append(args, "--temporal-token-file", os.DevNull)...)
		require.NoError(t, err, args)
		require.Equal(t, os.DevNull, got.Temporal.TokenFile)
	}
}

func TestWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		process config.Process
		env     map[string]string
		args    []string
		want    []string // each in the error
	}{
		"no keys":         {config.API, nil, nil, []string{"--secret-keys (DROVER_SECRET_KEYS) or --secret-keys-file (DROVER_SECRET_KEYS_FILE) is required"}},
		"keys twice":      {config.API, keys, []string{"--secret-keys-file", os.DevNull}, []string{"exclude each other"}},
		"half a key pair": {config.API, keys, []string{"--temporal-tls-cert", os.DevNull}, []string{"--temporal-tls-key (DROVER_TEMPORAL_TLS_KEY) belong together"}},
		"a token in clear": {
			config.Worker, keys, []string{"--temporal-token-file", os.DevNull, "--temporal-address", "temporal.example:7233"},
			[]string{`--temporal-token-file (DROVER_TEMPORAL_TOKEN_FILE): "temporal.example:7233" is not on this machine, so the token needs TLS`, "--temporal-tls-server-name (DROVER_TEMPORAL_TLS_SERVER_NAME)"},
		},
		"no address":        {config.API, keys, []string{"--listen", "localhost"}, []string{`--listen (DROVER_LISTEN): "localhost" is not host:port`}},
		"no port":           {config.API, keys, []string{"--listen", "localhost:"}, []string{"is not host:port"}},
		"an empty name":     {config.API, keys, []string{"--temporal-namespace", ""}, []string{"--temporal-namespace (DROVER_TEMPORAL_NAMESPACE): is required"}},
		"no network":        {config.Both, keys, []string{"--cluster-allow", "x", "--cluster-deny", "10.0.0.0/99"}, []string{"--cluster-allow", "--cluster-deny", "is not a network"}},
		"no such member":    {config.Both, keys, []string{"--kubeconfig-allow", "exec,everything"}, []string{"--kubeconfig-allow", "everything"}},
		"no such file":      {config.API, nil, []string{"--secret-keys-file", "/nowhere"}, []string{`--secret-keys-file (DROVER_SECRET_KEYS_FILE): the file "/nowhere" cannot be read`}},
		"a folder":          {config.API, nil, []string{"--secret-keys-file", os.TempDir()}, []string{"cannot be read"}},
		"no level":          {config.API, keys, []string{"--log-level", "loud"}, []string{"--log-level (DROVER_LOG_LEVEL)", "loud"}},
		"no format":         {config.API, keys, []string{"--log-format", "xml"}, []string{`"xml" is none of text, json`}},
		"no URL":            {config.API, keys, []string{"--web-ui", "host:80"}, []string{"--web-ui (DROVER_WEB_UI)", "is not an http or https URL"}},
		"a user":            {config.API, keys, []string{"--otlp-endpoint", "http://me:sesame@o:4318"}, []string{"--otlp-endpoint (DROVER_OTLP_ENDPOINT): is more than", "OTEL_EXPORTER_OTLP_HEADERS"}},
		"no number":         {config.Worker, keys, []string{"--clusters", "12abc"}, []string{`"12abc" is not a positive number`}},
		"not positive":      {config.API, keys, []string{"--operations", "0"}, []string{"is not a positive number"}},
		"not storable":      {config.API, keys, []string{"--max-body", "1073741825"}, []string{"is not a number of 1 to 1073741824"}},
		"no standard":       {config.API, keys, []string{"--cloud-pod-security", "privileged"}, []string{"--cloud-pod-security (DROVER_CLOUD_POD_SECURITY)", `"privileged" is none of none, baseline, restricted`}},
		"a short life":      {config.Worker, keys, []string{"--certificate-lifetime", "9m"}, []string{"is not a duration from 10m0s on"}},
		"forgotten soon":    {config.API, keys, []string{"--audit-keep", "1h"}, []string{"is not a duration from 24h0m0s on"}},
		"no collector":      {config.API, keys, []string{"--audit-syslog", "udp://h:514"}, []string{"is none of tcp://host:port"}},
		"less than none":    {config.API, keys, []string{"--project-rate", "-1"}, []string{"--project-rate (DROVER_PROJECT_RATE)", "is not a number of 0 to"}},
		"no duration":       {config.API, keys, []string{"--drain", "20"}, []string{"is not a positive duration"}},
		"by a variable":     {config.API, with(keys, "DROVER_DRAIN", "x"), nil, []string{"--drain (DROVER_DRAIN)"}},
		"a URL as a host":   {config.Worker, keys, []string{"--external-hosts", "https://a"}, []string{"--external-hosts (DROVER_EXTERNAL_HOSTS)", `"https://a" is not the name of a host`}},
		"any host":          {config.Worker, keys, []string{"--external-hosts", "a, *"}, []string{`"*" is not the name of a host`}},
		"a host's port":     {config.API, keys, []string{"--external-hosts", "a:x"}, []string{`"a:x" is not the name of a host`}},
		"an argument":       {config.API, keys, []string{"serve"}, []string{`unexpected argument "serve"`}},
		"all at once":       {config.API, nil, []string{"--listen", "x", "--drain", "y"}, []string{"--listen", "--drain", "--secret-keys"}},
		"another process's": {config.API, keys, []string{"--clusters", "1"}, []string{"flag provided but not defined: -clusters; it is one of worker"}},
		"all flags that are not there, and the rest": {
			config.API, nil, []string{"--clusters", "1", "--audit-fle=x", "--nothing-like-it", "--drain", "y", "--web-ui"},
			[]string{"-clusters; it is one of worker", "-audit-fle; perhaps --audit-file is meant", "-nothing-like-it\n", "--drain", "--secret-keys", "flag needs an argument: -web-ui"},
		},
		"for tenants who have no listener": {
			config.API, with(keys, "DROVER_TENANT_RATE", "7"), []string{"--tenant-listen", "", "--tenant-tls-ca", os.DevNull},
			[]string{"--tenant-tls-ca (DROVER_TENANT_TLS_CA) means nothing without --tenant-listen", "--tenant-rate (DROVER_TENANT_RATE) means nothing without --tenant-listen"},
		},
		"a CA of no collector":            {config.Worker, keys, []string{"--audit-syslog-ca", os.DevNull}, []string{"--audit-syslog-ca (DROVER_AUDIT_SYSLOG_CA) means nothing without --audit-syslog"}},
		"a CA of a collector without TLS": {config.API, keys, []string{"--audit-syslog-ca", os.DevNull, "--audit-syslog", "tcp://h:514"}, []string{"with tls://"}},
		"a ConfigMap that is nowhere":     {config.TenantAgents, nil, []string{"--agent-namespace", "", "--config-map", "x"}, []string{"--config-map (DROVER_CONFIG_MAP) means nothing without --agent-namespace"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(c.process, c.env, c.args...)
			require.Error(t, err)
			for _, part := range c.want {
				require.ErrorContains(t, err, part)
			}
		})
	}
}

// TestWhatIsAsByDefaultIsNoMistake: one environment for many processes may say it.
func TestWhatIsAsByDefaultIsNoMistake(t *testing.T) {
	_, err := read(config.API, with(keys, "DROVER_TENANT_RATE", "200"), "--tenant-listen", "")
	require.NoError(t, err)
}

func TestVariablesThatNobodyReads(t *testing.T) {
	require.Equal(t, map[string]string{"DROVER_AUDIT_FLE": "DROVER_AUDIT_FILE", "DROVER_QQQQQQQQQQ": ""}, config.Unread([]string{
		"DROVER_AUDIT_FLE=x", "DROVER_QQQQQQQQQQ=1", "DROVER_LISTEN=:1", "DROVER_TOKEN=t", "DROVER_CLUSTERS=1", "DROVER_EMPTY=", "PATH=/bin",
		"DROVER_SERVICE_HOST=10.0.0.1", "DROVER_API_SERVICE_PORT_HTTPS=1", "DROVER_PORT=tcp://10.0.0.1:9015", "DROVER_API_PORT_9015_TCP_ADDR=10.0.0.1", "DROVER_SANDBOX=1",
	}))
}

func TestHelpNamesEveryFlagAndVariable(t *testing.T) {
	var help bytes.Buffer
	_, err := config.Read(config.API, []string{"-h"}, os.Getenv, &help)
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, name := range []string{"listen", "mongo-uri", "temporal-address", "secret-keys-file", "web-ui", "max-body"} {
		require.Contains(t, help.String(), "-"+name+" ")
		require.Contains(t, help.String(), config.Variable(name))
	}
	require.Contains(t, help.String(), `(default "127.0.0.1:9015")`)
	require.NotContains(t, help.String(), "-clusters", "that is the worker's")
}

func TestSecretsAreNeverShown(t *testing.T) {
	const password, key = "pass-word", "k:aGlkZGVu"
	c, err := read(config.API, nil, "--mongo-uri", "mongodb://u:"+password+"@h", "--secret-keys", key)
	require.NoError(t, err)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("start", "config", c)
	shown := log.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		shown += fmt.Sprintf(verb, c) + fmt.Sprintf(verb, *c)
	}
	_, err = read(config.API, nil, "--mongo-uri", "u:"+password+"@h", "--secret-keys", key, "--drain", "x")
	shown += err.Error()
	require.NotContains(t, shown, password)
	require.NotContains(t, shown, key)
	require.Contains(t, shown, `listen="127.0.0.1:9015"`)
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	certPEM, keyPEM := pair(t)
	log := slog.New(slog.DiscardHandler)
	cert, key, empty := write("cert", certPEM), write("key", keyPEM), write("empty", "")
	t.Run("none", func(t *testing.T) {
		c, err := config.Temporal{}.TLS(log)
		require.NoError(t, err)
		require.Nil(t, c)
	})
	t.Run("all of it", func(t *testing.T) {
		c, err := config.Temporal{TLSCert: cert, TLSKey: key, TLSCA: cert, TLSServer: "temporal"}.TLS(log)
		require.NoError(t, err)
		require.NotNil(t, c.GetClientCertificate)
		require.NotNil(t, c.VerifyConnection)
		require.Equal(t, "temporal", c.ServerName)
	})
	for name, bad := range map[string]config.Temporal{
		"a key that is not":      {TLSCert: cert, TLSKey: empty},
		"a CA without any":       {TLSCA: empty},
		"a CA that is not there": {TLSCA: filepath.Join(dir, "none")},
		"no name to look for":    {TLSCA: cert, Address: "/socket of Temporal"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := bad.TLS(log)
			require.Error(t, err)
			require.True(t, strings.Contains(err.Error(), "Temporal") || strings.Contains(err.Error(), dir), "%v", err)
		})
	}
}

// pair is a self-signed certificate and its key.
func pair(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

// TestAuthOffIsForThisMachine: an API that asks nobody who they are listens on loopback alone, whatever else is set; and what is
// for callers who prove who they are is refused with it, not passed over. The command that makes an administrator's token needs the
// database and the file.
func TestAuthOffIsForThisMachine(t *testing.T) {
	_, err := read(config.API, keys, "--auth", "off", "--listen", "127.0.0.1:1", "--grpc-listen", "localhost:2")
	require.NoError(t, err)
	_, err = read(config.API, keys, "--auth", "no")
	require.ErrorContains(t, err, `--auth (DROVER_AUTH): "no" is none of on, off`)
	_, err = read(config.API, with(keys, "DROVER_AUTH", "off"), "--listen", ":1", "--grpc-listen", "10.0.0.1:1", "--insecure", "--admin-token-file", "f",
		"--auth-config", os.DevNull, "--client-ca", os.DevNull, "--trusted-proxy", "p")
	for _, says := range []string{
		`--listen (DROVER_LISTEN): ":1" can be reached from other machines, so --auth (DROVER_AUTH) may not be off`,
		`--grpc-listen (DROVER_GRPC_LISTEN): "10.0.0.1:1" can be reached`,
		"--admin-token-file (DROVER_ADMIN_TOKEN_FILE) means nothing while --auth (DROVER_AUTH) is off",
		"--client-ca (DROVER_CLIENT_CA) means nothing", "--auth-config (DROVER_AUTH_CONFIG) means nothing", "--trusted-proxy (DROVER_TRUSTED_PROXY) means nothing", "--client-ca (DROVER_CLIENT_CA) needs --tls-cert (DROVER_TLS_CERT)",
	} {
		require.ErrorContains(t, err, says)
	}
	_, err = read(config.API, keys, "--trusted-proxy", "p")
	require.ErrorContains(t, err, "--trusted-proxy (DROVER_TRUSTED_PROXY) needs --client-ca (DROVER_CLIENT_CA)")
	for says, args := range map[string][]string{
		`--client-cert-user (DROVER_CLIENT_CERT_USER): "upn" is none of cn, uri, email, dns`:    {"--client-cert-user", "upn"},
		`--client-cert-groups (DROVER_CLIENT_CERT_GROUPS): "cn" is none of o, ou, none`:         {"--client-cert-groups", "cn"},
		`--client-cert-prefix (DROVER_CLIENT_CERT_PREFIX): "a b" is no prefix`:                  {"--client-cert-prefix", "a b"},
		`--client-cert-user (DROVER_CLIENT_CERT_USER) needs --client-ca (DROVER_CLIENT_CA)`:     {"--client-cert-user", "uri"},
		`--client-cert-groups (DROVER_CLIENT_CERT_GROUPS) needs --client-ca (DROVER_CLIENT_CA)`: {"--client-cert-groups", "ou"},
		`--client-cert-prefix (DROVER_CLIENT_CERT_PREFIX) needs --client-ca (DROVER_CLIENT_CA)`: {"--client-cert-prefix", "cert:"},
	} {
		_, err = read(config.API, keys, args...)
		require.ErrorContains(t, err, says)
	}

	got, err := read(config.Admin, keys, "--admin-token-file", "f", "--mongo-database", "d")
	require.NoError(t, err)
	require.Equal(t, []string{"f", "d"}, []string{got.AdminTokenFile, got.Database})
	_, err = read(config.Admin, nil)
	require.ErrorContains(t, err, "--admin-token-file (DROVER_ADMIN_TOKEN_FILE) is required")
	require.ErrorContains(t, err, "--secret-keys (DROVER_SECRET_KEYS) or --secret-keys-file", "they sign what it records")
	_, err = read(config.Admin, keys, "--listen", ":1")
	require.Error(t, err)
}
