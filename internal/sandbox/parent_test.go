package sandbox

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// However a parent ends, its children go: one that works, and one that is stopped.
func TestChildrenDieWithTheirParent(t *testing.T) {
	t.Parallel()
	for name, frozen := range map[string]bool{"at work": false, "stopped": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), os.Args[0])
			command.Env = append(os.Environ(), "SANDBOX_TEST_PARENT=yes")
			command.Stderr = os.Stderr
			out, err := command.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, command.Start())
			line, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			require.NoError(t, err)
			if frozen {
				require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
			}
			require.NoError(t, command.Process.Kill())
			require.Error(t, command.Wait())
			require.Eventually(t, func() bool { return gone(pid) }, time.Minute, 10*time.Millisecond)
		})
	}
}

// gone says whether a process has ended, waited for or not.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}
