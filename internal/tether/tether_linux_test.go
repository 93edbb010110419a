package tether_test

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/tether"
)

// child is set for the process that starts another one and is killed.
const child = "DROVER_TETHER_CHILD"

// TestStart: neither the end of the thread that asks for it ends a process, nor does the process outlive who has started it.
func TestStart(t *testing.T) {
	sleep := func() *exec.Cmd { return exec.CommandContext(t.Context(), "sleep", "600") }
	if os.Getenv(child) != "" {
		cmd := sleep()
		require.NoError(t, tether.Start(cmd, syscall.SIGKILL))
		_, err := os.Stderr.WriteString(strconv.Itoa(cmd.Process.Pid) + "\n")
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
	}
	cmd, threads, asked := sleep(), make(chan int), make(chan error)
	var one sync.Once
	for range 2 { // one of them is not on the main thread, which never ends
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends
			if syscall.Gettid() == os.Getpid() {
				<-t.Context().Done()
				return
			}
			one.Do(func() {
				threads <- syscall.Gettid()
				asked <- tether.Start(cmd, syscall.SIGKILL)
			})
		}()
	}
	thread := <-threads
	require.NoError(t, <-asked)
	gone := func() bool {
		_, err := os.Stat("/proc/self/task/" + strconv.Itoa(thread))
		return err != nil
	}
	require.Eventually(t, gone, time.Minute, time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM), "its own end")
	require.Equal(t, syscall.SIGTERM, signalOf(t, cmd.Wait()))

	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStart$")
	parent.Env = append(os.Environ(), child+"=1")
	said, err := parent.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, syscall.SIGKILL, signalOf(t, parent.Wait()))
	pid, err := strconv.Atoi(line[:len(line)-1])
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !runs(pid) }, time.Minute, time.Millisecond)
}

func signalOf(t *testing.T, ended error) syscall.Signal {
	t.Helper()
	exit := new(exec.ExitError)
	require.ErrorAs(t, ended, &exit)
	return exit.Sys().(syscall.WaitStatus).Signal()
}

// runs says whether there is such a process that is no zombie: nobody waits here for a process whose parent has ended.
func runs(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	const state = len(" (sleep) ")
	return stat[len(strconv.Itoa(pid))+state] != 'Z'
}
