package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/config"
)

func TestTenantAgent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	c, err := read(config.TenantAgents, map[string]string{"DROVER_TENANT": "tenant1"},
		"--server", "api.example.com:9017", "--server-ca", file, "--client-cert", file, "--client-key", file)
	require.NoError(t, err)
	require.Equal(t, config.TenantAgent{
		Server: "api.example.com:9017", CA: file, Cert: file, Key: file, Tenant: "tenant1",
		Namespace: "default", ConfigMap: "drover-tenant-agent", Rules: true,
	}, c.TenantAgent)
	require.Equal(t, "127.0.0.1:9465", c.MetricsListen)
	_, err = read(config.TenantAgents, nil, "--tenant", "t", "--server", "127.0.0.1:9017", "--server-plaintext")
	require.NoError(t, err)

	for name, one := range map[string]struct {
		args []string
		want []string
	}{
		"nothing": {nil, []string{"--server (DROVER_SERVER): \"\" is not host:port", "--tenant (DROVER_TENANT)", "--client-cert (DROVER_CLIENT_CERT) or --token-file (DROVER_TOKEN_FILE) is required"}},
		"all that is wrong at once": {
			[]string{"--server", "a:1", "--tenant", "Tenant", "--client-cert", file, "--token-file", file, "--rules", "maybe"},
			[]string{"\"Tenant\" is not the name of a tenant", "--client-cert (DROVER_CLIENT_CERT) and --client-key (DROVER_CLIENT_KEY) belong together", "exclude each other", "--rules"},
		},
		"plaintext to another machine": {[]string{"--server", "api.example.com:1", "--tenant", "t", "--server-plaintext"}, []string{"\"api.example.com:1\" is not on this machine"}},
		"a token that everybody could read": {
			[]string{"--server", "127.0.0.1:1", "--tenant", "t", "--server-plaintext", "--token-file", file}, []string{"--server-plaintext (DROVER_SERVER_PLAINTEXT) is without"},
		},
	} {
		_, err := read(config.TenantAgents, nil, one.args...)
		for _, text := range one.want {
			require.ErrorContains(t, err, text, name)
		}
	}
}
