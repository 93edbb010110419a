package app

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/tenantcert"
)

// TestAllThatIsWrongWithFilesIsSaidAtOnce: by the setting of each, with no database or Temporal to be waited for.
func TestAllThatIsWrongWithFilesIsSaidAtOnce(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, tenantcert.Make(folder))
	in := func(name string) string { return filepath.Join(folder, name) }
	c := &config.Config{SecretKeys: "test:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", TLS: config.ServerTLS{Cert: in("server.crt"), Key: in("server.key"), CA: in("ca.crt")}}
	c.TenantTLS = c.TLS
	require.NoError(t, CheckFiles(c))
	require.NoError(t, CheckFiles(&config.Config{}), "a process without any")

	require.NoError(t, os.WriteFile(in("auth.yaml"), []byte("issuers: [{url: dex}]"), 0o600))
	c.SecretKeys, c.AuthConfig = "test:short", in("auth.yaml")
	c.TLS.Key, c.TLS.CA = in("admin.key"), in("admin.key")
	c.TenantTLS.Cert, c.TenantTLS.CA = in("ca.key"), in("none")
	c.Temporal.TLSCA, c.Temporal.TLSCert = in("ca.key"), in("server.crt")
	c.AuditFile, c.AuditSyslogCA = filepath.Join(in("nowhere"), "audit.log"), in("server.key")
	require.NoError(t, os.WriteFile(in("empty"), []byte("\n"), 0o600))
	c.TenantAgent = config.TenantAgent{CA: in("ca.key"), Cert: in("server.crt"), Key: in("ca.key"), Token: in("empty")}
	c.Temporal.TokenFile = in("empty")
	err := CheckFiles(c)
	for _, says := range []string{
		"--tls-cert (DROVER_TLS_CERT): read certificate: " + in("server.crt") + " and " + in("admin.key"),
		"--client-ca (DROVER_CLIENT_CA): read CA: " + in("admin.key") + ": there is no certificate in it",
		"--tenant-tls-cert (DROVER_TENANT_TLS_CERT): read certificate: " + in("ca.key"),
		"TLS with Temporal: read CA: " + in("ca.key") + ": there is no certificate in it",
		"--temporal-token-file (DROVER_TEMPORAL_TOKEN_FILE): token for Temporal: " + in("empty") + ": there is no token in it",
		"--secret-keys (DROVER_SECRET_KEYS): ",
		"--auth-config: " + in("auth.yaml"), "issuers[0].audiences",
		"--audit-file (DROVER_AUDIT_FILE): " + in("nowhere") + " is no folder to make audit.log in",
		"--audit-syslog-ca (DROVER_AUDIT_SYSLOG_CA): no certificate in " + in("server.key"),
		"--server-ca (DROVER_SERVER_CA): no certificate in " + in("ca.key"),
		"--client-cert (DROVER_CLIENT_CERT): ",
		"--token-file (DROVER_TOKEN_FILE): " + in("empty") + " is empty",
	} {
		require.ErrorContains(t, err, says)
	}
	require.NotContains(t, err.Error(), in("none"), "what is not there was said of the setting")
	c = &config.Config{AuditFile: in("audit.log")}
	require.NoError(t, CheckFiles(c))
	require.NoFileExists(t, in("audit.log"))
	require.NoError(t, os.Mkdir(in("audit.log"), 0o700))
	require.ErrorContains(t, CheckFiles(c), "--audit-file (DROVER_AUDIT_FILE): ")
	require.NotContains(t, err.Error(), "test:short")

	require.NoError(t, syscall.Mkfifo(in("pipe"), 0o600))
	err = CheckFiles(&config.Config{AuditFile: in("pipe"), SecretKeysFile: in("pipe")})
	require.ErrorContains(t, err, "--audit-file (DROVER_AUDIT_FILE): ")
	require.ErrorContains(t, err, "--secret-keys-file (DROVER_SECRET_KEYS_FILE): ")
	require.NoError(t, CheckFiles(&config.Config{AuditFile: os.DevNull}))
	read, write, err := os.Pipe() // as stderr is in a container
	require.NoError(t, err)
	defer read.Close()
	defer write.Close()
	require.NoError(t, CheckFiles(&config.Config{AuditFile: fmt.Sprint("/dev/fd/", write.Fd())}))
}
