package sandbox

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestAWeakerIsolationIsForWhereTheKernelAllowsNoBetterOne, not for a moment in which something is short.
func TestAWeakerIsolationIsForWhereTheKernelAllowsNoBetterOne(t *testing.T) {
	const best, good = uintptr(2), uintptr(1)
	for name, c := range map[string]struct {
		before, first map[uintptr]error // of a child before, if there is one, and of the one that is looked at
		way           uintptr           // of that one
		err           error
		then          uintptr // the way of the next one, for which all is there
	}{
		"all are allowed":               {way: best, then: best},
		"not allowed":                   {first: map[uintptr]error{best: syscall.EPERM}, way: good, then: good},
		"nothing is allowed":            {first: map[uintptr]error{best: syscall.EINVAL, good: syscall.EPERM}, way: 0, then: 0},
		"no files":                      {first: map[uintptr]error{best: syscall.EMFILE}, err: syscall.EMFILE, then: best},
		"no processes":                  {first: map[uintptr]error{best: syscall.EAGAIN}, err: syscall.EAGAIN, then: best},
		"no files for the weaker one":   {first: map[uintptr]error{best: syscall.EPERM, good: syscall.EMFILE}, err: syscall.EMFILE, then: best},
		"the program cannot be started": {first: map[uintptr]error{best: syscall.EACCES, good: syscall.EACCES, 0: syscall.EACCES}, err: syscall.EACCES, then: best},
		"no room from the beginning":    {first: map[uintptr]error{best: syscall.EUSERS, good: syscall.EPERM}, way: 0, then: best},
		"no room any more":              {before: map[uintptr]error{}, first: map[uintptr]error{best: syscall.EUSERS}, err: syscall.EUSERS, then: best},
	} {
		t.Run(name, func(t *testing.T) {
			if noNamespaces() && strings.HasPrefix(name, "no room") {
				t.Skip("there is never room here")
			}
			i := isolating{ways: []uintptr{best, good, 0}}
			start := func(errs map[uintptr]error) (uintptr, error) {
				return i.start(func(way uintptr) error {
					if err := errs[way]; err != nil {
						return &os.PathError{Op: "fork/exec", Path: "p", Err: err}
					}
					return nil
				})
			}
			if c.before != nil {
				_, err := start(c.before)
				require.NoError(t, err)
			}
			way, err := start(c.first)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.way, way)
			way, err = start(nil)
			require.NoError(t, err)
			require.Equal(t, c.then, way)
		})
	}
}

// TestChildrenStayConfinedAfterFilesWereShort for a moment.
func TestChildrenStayConfinedAfterFilesWereShort(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	var log bytes.Buffer
	p, err := New(Config{Purpose: "test", Size: 1, Limits: limits, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	do(t, p, "pid")

	var were unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &were))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: were.Max}))
	_, dies := p.Do(t.Context(), []byte("exit"))
	_, starved := p.Do(t.Context(), []byte("pid"))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &were))
	require.Error(t, dies)
	require.ErrorIs(t, starved, syscall.EMFILE)

	var d description
	require.NoError(t, json.Unmarshal([]byte(do(t, p, "describe "+l.Addr().String())), &d))
	p.Close()
	if strings.Contains(log.String(), "children keep the network") {
		t.Skip("the kernel allows no namespaces")
	}
	require.Contains(t, d.Dial, "network is unreachable")
}
