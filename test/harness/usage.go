package harness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clockTick is the unit of CPU time in /proc: USER_HZ, 100 on every Linux architecture.
const clockTick = 10 * time.Millisecond

// CPU is the time that the process has spent on processors, user and system.
func (p *Process) CPU(t testing.TB) time.Duration {
	t.Helper()
	s, err := readStat(p.PID())
	require.NoError(t, err)
	return s.own
}

// Spent is CPU with that of the processes that it has started.
func (p *Process) Spent(t testing.TB) time.Duration {
	t.Helper()
	spent, err := withChildren(p.PID())
	require.NoError(t, err)
	return spent
}

// withChildren is the CPU time of a process and of its children, those that have ended included.
func withChildren(parent int) (time.Duration, error) {
	self, err := readStat(parent)
	if err != nil {
		return 0, err
	}
	total := self.own + self.ended
	all, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil && s.parent == parent { // one that has ended meanwhile has no stat
			total += s.own
		}
	}
	return total, nil
}

// stat is a part of /proc/<pid>/stat.
type stat struct {
	parent int
	own    time.Duration // CPU time, user and system
	ended  time.Duration // that of children that have ended
}

func readStat(pid int) (stat, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	_, rest, ok := strings.Cut(string(data), ") ") // the name before it may hold anything
	fields := strings.Fields(rest)
	if !ok || len(fields) < 15 {
		return stat{}, fmt.Errorf("/proc/%d/stat: %q", pid, data)
	}
	var n [5]int64
	for i, f := range []int{1, 11, 12, 13, 14} { // ppid, utime, stime, cutime, cstime
		if n[i], err = strconv.ParseInt(fields[f], 10, 64); err != nil {
			return stat{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
	}
	return stat{
		parent: int(n[0]),
		own:    time.Duration(n[1]+n[2]) * clockTick,
		ended:  time.Duration(n[3]+n[4]) * clockTick,
	}, nil
}

// PeakMiB is the most memory that was resident since the start or since ForgetPeak.
func (p *Process) PeakMiB(t testing.TB) float64 { return p.memory(t, "VmHWM:") }

// ResidentMiB is the memory that is resident now.
func (p *Process) ResidentMiB(t testing.TB) float64 { return p.memory(t, "VmRSS:") }

// AnonymousMiB is the memory of its own that is resident now: without the pages of its binary.
func (p *Process) AnonymousMiB(t testing.TB) float64 { return p.memory(t, "RssAnon:") }

func (p *Process) memory(t testing.TB, field string) float64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			require.NoError(t, err)
			return kib / 1024
		}
	}
	require.FailNow(t, "no "+field)
	return 0
}

// ForgetPeak makes PeakMiB begin at what is resident now.
func (p *Process) ForgetPeak(t testing.TB) {
	t.Helper()
	require.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0))
}
