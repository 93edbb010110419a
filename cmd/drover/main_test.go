package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCommands: the servers read their own flags, the client is kubectl's plugin by its name, and what nobody knows is refused.
func TestCommands(t *testing.T) {
	there := filepath.Join(t.TempDir(), "least.conf")
	require.NoError(t, os.WriteFile(there, []byte("kept"), 0o600))
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(rules, []byte(`[{apiGroups: [""], resources: [events], verbs: [create]}]`), 0o600))
	for name, c := range map[string]struct {
		args        []string
		code        int
		out, stderr string
	}{
		"a server's help":     {[]string{"drover", "api", "-h"}, 0, "", "-mongo-uri"},
		"a server's flag":     {[]string{"drover", "worker", "--fly"}, 2, "", "fly"},
		"the help":            {[]string{"drover"}, 0, "Servers and agents:", ""},
		"kubectl's plugin":    {[]string{"/usr/bin/kubectl-drover", "--help"}, 0, "kubectl drover [command]", ""},
		"and its examples":    {[]string{"/usr/bin/kubectl-drover", "get", "--help"}, 0, "\n  kubectl drover get clusters\n", ""},
		"and its advice":      {[]string{"/usr/bin/kubectl-drover", "get", "things"}, 2, "", "see 'kubectl drover nouns'"},
		"no file is lost":     {[]string{"drover", "cluster-credential", "--kubeconfig", "admin.conf", "--out", there}, 2, "", "(--out) is there already: nothing was made"},
		"a role to look at":   {[]string{"drover", "cluster-credential", "--show"}, 0, "kind: ClusterRole", ""},
		"with further rules":  {[]string{"drover", "cluster-credential", "--show", "--rules", rules}, 0, "- events", ""},
		"no rules":            {[]string{"drover", "cluster-credential", "--show", "--rules", there}, 2, "", there + ": it is a list of rules"},
		"nothing to verify":   {[]string{"drover", "audit", "verify"}, 2, "", "one file is to be given"},
		"a file not there":    {[]string{"drover", "audit", "verify", "/nowhere"}, 2, "", "no such file"},
		"help with keys":      {[]string{"drover", "keys", "--help"}, 0, "", "usage: drover keys list"},
		"keys do not fly":     {[]string{"drover", "keys", "fly"}, 2, "", `drover keys has no command "fly"`},
		"an unknown command":  {[]string{"drover", "fly"}, 2, "", `has no command "fly"`},
		"the client's errors": {[]string{"drover", "get"}, 2, "", "get needs a noun"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, stderr bytes.Buffer
			require.Equal(t, c.code, run(c.args, strings.NewReader(""), &out, &stderr), stderr.String())
			require.Contains(t, out.String(), c.out)
			require.Contains(t, stderr.String(), c.stderr)
		})
	}
}

// TestSettingsAndTheirFilesAreRefusedTogether: who mends what was said need not start again to learn what else is wrong.
func TestSettingsAndTheirFilesAreRefusedTogether(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for command, c := range map[string]struct{ args, says []string }{
		"api": {
			[]string{"--listen", "nowhere", "--audit-file", filepath.Join(empty, "audit.log"), "--temporal-tls-ca", empty},
			[]string{"--listen", "--audit-file", "TLS with Temporal: read CA: "},
		},
		"tenant-agent": {
			[]string{"--tenant", "T!", "--token-file", empty, "--server-ca", empty, "--client-cert", filepath.Join(empty, "none")},
			[]string{"--tenant", "--token-file (DROVER_TOKEN_FILE): " + empty + " is empty", "--server-ca (DROVER_SERVER_CA): no certificate in", "none\" cannot be read"},
		},
	} {
		var out, stderr bytes.Buffer
		require.Equal(t, 2, run(append([]string{"drover", command}, c.args...), strings.NewReader(""), &out, &stderr))
		for _, says := range c.says {
			require.Contains(t, stderr.String(), says, command)
		}
		require.LessOrEqual(t, strings.Count(stderr.String(), "none"), 1, "it is said once: %s", stderr.String())
	}
}
