package cli_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// inShells are scripts that complete "drover status" as who presses the tab key has it done, each in its shell.
var inShells = map[string]string{
	"bash": `source /usr/share/bash-completion/bash_completion
source <(drover completion bash)
COMP_WORDS=(drover status ""); COMP_CWORD=2; COMP_LINE="drover status "; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
__start_drover
printf '%s\n' "${COMPREPLY[@]}"`,
	"fish": `drover completion fish | source
complete -C "drover status "`,
	// A line editor needs a terminal.
	"zsh": `zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1=; autoload -U compinit; compinit -u -D; source <(drover completion zsh); echo rea''dy"
zpty -r z out '*ready*'
zpty -n -w z 'drover status '$'\t'
zpty -r z out '*demo/vfw/v1/web*'
print -r -- $out
zpty -d z`,
}

// TestCompletionInShells: each shell that is installed completes names from the server by the script that completion prints for it.
func TestCompletionInShells(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	self, err := os.Executable()
	require.NoError(t, err)
	home, programs := t.TempDir(), t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec env %s=1 '%s' \"$@\"\n", asCommand, self)
	require.NoError(t, os.WriteFile(filepath.Join(programs, "drover"), []byte(script), 0o700)) //nolint:gosec // it is a program
	t.Run("kubectl", func(t *testing.T) {                                                      // the program that its completion asks, as the manual has it
		manual, err := os.ReadFile("../../docs/cli.md")
		require.NoError(t, err)
		_, text, found := strings.Cut(string(manual), "called kubectl_complete-drover:\n\n```\n")
		require.True(t, found)
		text, _, _ = strings.Cut(text, "```")
		asked := filepath.Join(programs, "kubectl_complete-drover")
		require.NoError(t, os.WriteFile(asked, []byte(text), 0o700)) //nolint:gosec // it is a program
		require.NoError(t, os.Symlink("drover", filepath.Join(programs, "kubectl-drover")))
		ways := [][]string{{asked, "status", ""}}
		if kubectl, err := exec.LookPath("kubectl"); err == nil {
			ways = append(ways, []string{kubectl, "__complete", "drover", "status", ""})
		}
		for _, way := range ways {
			c := exec.CommandContext(t.Context(), way[0], way[1:]...)
			c.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "HOME="+home, "XDG_CONFIG_HOME="+home, "DROVER_SERVER="+w.url)
			out, err := c.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "demo/vfw/v1/web\n", way[0])
		}
	})
	for shell, complete := range inShells {
		t.Run(shell, func(t *testing.T) {
			program, err := exec.LookPath(shell)
			if _, missing := os.Stat("/usr/share/bash-completion/bash_completion"); err == nil && shell == "bash" {
				err = missing // which completion needs there
			}
			if err != nil {
				t.Skipf("%s is not installed: %v", shell, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c := exec.CommandContext(ctx, program, "-c", complete)
			c.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "HOME="+home, "XDG_CONFIG_HOME="+home, "DROVER_SERVER="+w.url, "TERM=xterm")
			out, err := c.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "demo/vfw/v1/web")
		})
	}
}
