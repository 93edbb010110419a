package sandbox

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// After an upgrade has replaced the program's file, one that runs still starts children, of itself.
func TestProgramIsReplaced(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("a child is started from the file")
	}
	program := filepath.Join(t.TempDir(), "program")
	content, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	// What another test starts meanwhile has this file open for writing until it is another program, and so long nobody can start it (ETXTBSY).
	syscall.ForkLock.RLock()
	err = os.WriteFile(program, content, 0o700) //nolint:gosec // it is to be run
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), program)
	command.Env = append(os.Environ(), "SANDBOX_TEST_PARENT=replaced")
	command.Stderr = os.Stderr
	said, err := command.Output()
	require.NoError(t, err)
	require.Equal(t, "still here\n", string(said))
}

// gone says whether a process has ended, waited for or not.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}
