package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	Main("test", perform)
	switch os.Getenv("SANDBOX_TEST_PARENT") {
	case "":
	case "replaced":
		replaced()
		os.Exit(0)
	default:
		parent()
	}
	os.Exit(m.Run())
}

// perform is what children of this package's tests can do.
func perform(request []byte, note func(string)) []byte {
	do, argument, _ := strings.Cut(string(request), " ")
	if do == "leave" {
		os.Exit(0)
	}
	note("doing " + do)
	switch do {
	case "echo":
		return []byte(argument)
	case "pid":
		return []byte(strconv.Itoa(os.Getpid()))
	case "print":
		fmt.Println(strings.Repeat("between the frames ", 1000))
		return []byte("printed")
	case "describe":
		return describe(argument)
	case "hang":
		select {}
	case "spin":
		fmt.Println("spinning") // said at once, for who waits for that
		for n := 0; ; n++ {
			runtime.KeepAlive(n)
		}
	case "eat":
		for {
			eaten = append(eaten, bytes.Repeat([]byte{1}, 1<<20))
		}
	case "gulp":
		return bytes.Repeat([]byte{1}, 1<<34)
	case "recurse":
		return make([]byte, recurse(1))
	case "shout":
		n, _ := strconv.Atoi(argument)
		return make([]byte, n)
	case "panic":
		panic("on purpose")
	case "exit", "exit" + strings.Repeat("x", 2*maxNote):
		os.Exit(0)
	}
	return nil
}

// eaten is kept from the collector.
var eaten [][]byte

func recurse(n int) int {
	if n < 0 {
		return n
	}
	return recurse(n+1) + n
}

// description is what a child sees of its surroundings.
type description struct {
	Environment []string
	Files       []string
	Dial        string
	Write       string
}

func describe(address string) []byte {
	d := description{Environment: os.Environ()}
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil {
			d.Files = append(d.Files, to)
		}
	}
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		_ = c.Close()
	}
	d.Dial = fmt.Sprint(err)
	d.Write = fmt.Sprint(os.WriteFile(filepath.Join(os.TempDir(), "sandbox-test"), []byte("x"), 0o600))
	answer, _ := json.Marshal(d)
	return answer
}

var limits = Limits{Time: time.Minute, CPU: time.Minute, Memory: 256 << 20, Stack: 16 << 20, Request: 1 << 20, Answer: 1 << 20}

func pool(t testing.TB, size int, change func(*Limits)) *Pool {
	t.Helper()
	l := limits
	if change != nil {
		change(&l)
	}
	p, err := New(Config{Purpose: "test", Size: size, Limits: l, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func do(t testing.TB, p *Pool, request string) string {
	t.Helper()
	answer, err := p.Do(t.Context(), []byte(request))
	require.NoError(t, err)
	return string(answer)
}

func TestDo(t *testing.T) {
	t.Parallel()
	p := pool(t, 1, nil)
	require.Equal(t, "hello", do(t, p, "echo hello"))
	first := do(t, p, "pid")
	require.NotEqual(t, strconv.Itoa(os.Getpid()), first)
	require.Equal(t, first, do(t, p, "pid"), "a child is kept")
	require.Equal(t, "printed", do(t, p, "print"))
	large := strings.Repeat("x", 500_000)
	require.Equal(t, large, do(t, p, "echo "+large))
	for _, half := range []string{"", "y", large} {
		answer, err := p.Do(t.Context(), []byte("echo "), nil, []byte(half), []byte("z"))
		require.NoError(t, err)
		require.Equal(t, half+"z", string(answer), "parts are one request")
	}
	_, err := p.Do(t.Context(), []byte("e"), make([]byte, limits.Request))
	require.ErrorIs(t, err, ErrTooLarge)
}

func TestDeaths(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		request string
		change  func(*Limits)
		want    Limit
	}{
		"hangs":                 {"hang", func(l *Limits) { l.Time = 300 * time.Millisecond }, Time},
		"computes without end":  {"spin", func(l *Limits) { l.CPU = time.Second }, CPU},
		"takes memory":          {"eat", nil, Memory},
		"takes memory at once":  {"gulp", nil, Memory},
		"calls itself":          {"recurse", nil, Stack},
		"answers at length":     {"shout 2000000", nil, Answer},
		"panics":                {"panic", nil, Crashed},
		"ends without a reason": {"exit", nil, Crashed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS != "linux" && (c.want == CPU || c.want == Memory) {
				t.Skip("not limited here")
			}
			p := pool(t, 1, c.change)
			tries := 1
			if c.want == Time {
				tries = 20 // a child that has no turn on a busy machine is late, too, with whatever it is to do
			}
			var death *Death
			for range tries {
				_, err := p.Do(t.Context(), []byte(c.request))
				require.ErrorAs(t, err, &death)
				if death.Note != "" {
					break
				}
			}
			require.Equal(t, c.want, death.Limit, death.Text)
			require.Equal(t, "doing "+strings.Fields(c.request)[0], death.Note)
			var answer []byte
			var err error
			for range tries {
				if answer, err = p.Do(t.Context(), []byte("echo again")); err == nil {
					break
				}
			}
			require.NoError(t, err)
			require.Equal(t, "again", string(answer), "another child is there")
		})
	}
}

// What a child has noted tells of the request that it was noted for, and of no later one.
func TestNotesAreOfTheirRequest(t *testing.T) {
	t.Parallel()
	p := pool(t, 1, nil)
	noted := func(request string) string {
		_, err := p.Do(t.Context(), []byte(request))
		var death *Death
		require.ErrorAs(t, err, &death)
		return death.Note
	}
	do(t, p, "echo one")
	require.Empty(t, noted("leave"), "it died before it noted anything")
	do(t, p, "echo one")
	do(t, p, "echo two")
	require.Equal(t, "doing exit", noted("exit"))
	long := "exit" + strings.Repeat("x", 2*maxNote)
	require.Equal(t, ("doing " + long)[:maxNote], noted(long))
}

// What a child has said of earlier requests, however much, does not hide what it dies of.
func TestDeathsAfterWords(t *testing.T) {
	t.Parallel()
	p := pool(t, 1, nil)
	first := do(t, p, "pid")
	for range 3 {
		require.Equal(t, "printed", do(t, p, "print"))
	}
	require.Equal(t, first, do(t, p, "pid"), "it is the same child")
	_, err := p.Do(t.Context(), []byte("recurse"))
	var death *Death
	require.ErrorAs(t, err, &death)
	require.Equal(t, Stack, death.Limit, death.Text)
	require.NotContains(t, death.Text, "between the frames")
}

// A child that is stopped, as by a paused machine, is late like any other.
func TestFrozen(t *testing.T) {
	t.Parallel()
	p := pool(t, 1, nil)
	pid, err := strconv.Atoi(do(t, p, "pid"))
	require.NoError(t, err)
	p.mu.Lock()
	for c := range p.all {
		c.limits.Time = 500 * time.Millisecond // of this one alone
	}
	p.mu.Unlock()
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	_, err = p.Do(t.Context(), []byte("echo "+strings.Repeat("x", 500_000)))
	var death *Death
	require.ErrorAs(t, err, &death)
	require.Equal(t, Time, death.Limit)
	require.NotEqual(t, strconv.Itoa(pid), do(t, p, "pid"))
}

// What a signal from outside ends is tried once more, and not more often.
func TestKilledFromOutside(t *testing.T) {
	t.Parallel()
	p := pool(t, 1, nil)
	kill := func(pid string) {
		n, err := strconv.Atoi(pid)
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(n, syscall.SIGKILL))
	}
	first := do(t, p, "pid")
	kill(first)
	second := do(t, p, "pid")
	require.NotEqual(t, first, second, "one that died when it had nothing to do is not the next request's fault")

	ended := make(chan error, 1)
	go func() {
		_, err := p.Do(t.Context(), []byte("hang"))
		ended <- err
	}()
	busy := func() (pids []int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for c := range p.all {
			pids = append(pids, c.command.Process.Pid)
		}
		return pids
	}
	var err error
	for killed := map[int]bool{}; ; {
		select {
		case err = <-ended:
		case <-time.After(10 * time.Millisecond):
			for _, pid := range busy() {
				if !killed[pid] && len(killed) < 20 {
					killed[pid] = true
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			continue
		}
		break
	}
	if err != nil && strings.Contains(err.Error(), "start a child process") {
		return // a child was killed before it took the request
	}
	var death *Death
	require.ErrorAs(t, err, &death)
	require.Equal(t, Killed, death.Limit)
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	p := pool(t, 1, nil)
	first := do(t, p, "pid")
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	atWork := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for c := range p.all {
			if says(c.said.String(), "spinning") {
				return true
			}
		}
		return false
	}
	go func() {
		eventually(atWork)
		cancel(enough)
	}()
	_, err := p.Do(ctx, []byte("spin"))
	require.ErrorIs(t, err, enough)
	require.NotEqual(t, first, do(t, p, "pid"), "the child at work has gone")

	// One that waits for its turn goes too.
	ctx, cancel = context.WithCancelCause(t.Context())
	p.slots <- struct{}{}
	cancel(enough)
	_, err = p.Do(ctx, []byte("echo x"))
	require.ErrorIs(t, err, enough)
	<-p.slots
}

func TestNoMoreThanSizeAtATime(t *testing.T) {
	t.Parallel()
	const size = 2
	p := pool(t, size, nil)
	pids := sync.Map{}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			answer, err := p.Do(t.Context(), []byte("pid"))
			if err != nil {
				t.Error(err)
			}
			pids.Store(string(answer), true)
		})
	}
	all.Wait()
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.all) <= size && len(p.idle) == len(p.all)
	}, time.Minute, 10*time.Millisecond)
}

// What a child could give away, or do, it does not have.
func TestConfined(t *testing.T) {
	t.Setenv("DROVER_SECRET_KEYS", "secret")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	zero, err := syscall.Open("/dev/zero", syscall.O_RDONLY, 0) // as if it was inherited
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Close(zero)) }()
	var log bytes.Buffer
	p, err := New(Config{Purpose: "test", Size: 1, Limits: limits, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	var d description
	require.NoError(t, json.Unmarshal([]byte(do(t, p, "describe "+l.Addr().String())), &d))
	p.Close()
	require.Equal(t, []string{"DROVER_SANDBOX=test", "GOTRACEBACK=none", "TZ=UTC"}, d.Environment)
	if runtime.GOOS != "linux" {
		return
	}
	for _, f := range d.Files {
		require.True(t, strings.HasPrefix(f, "pipe:") || strings.HasPrefix(f, "anon_inode:") || strings.HasPrefix(f, "/proc/"), f)
	}
	require.Contains(t, d.Write, "file too large")
	if !strings.Contains(log.String(), "children keep the network") {
		require.Contains(t, d.Dial, "network is unreachable")
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	files := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(all)
	}
	if runtime.GOOS != "linux" {
		t.Skip("counts files as Linux does")
	}
	before, routines := files(), runtime.NumGoroutine()
	for range 3 {
		p, err := New(Config{Purpose: "test", Size: 3, Limits: limits, Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		pid, err := strconv.Atoi(do(t, p, "pid"))
		require.NoError(t, err)
		for range 3 {
			_, err = p.Do(t.Context(), []byte("exit"))
			require.Error(t, err)
		}
		hung := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := p.Do(context.Background(), []byte("hang"))
				hung <- err
			}()
		}
		require.Eventually(t, func() bool { return len(p.slots) == 2 }, time.Minute, time.Millisecond)
		p.Close()
		require.ErrorIs(t, <-hung, ErrClosed)
		require.ErrorIs(t, <-hung, ErrClosed)
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
		_, err = p.Do(t.Context(), []byte("pid"))
		require.ErrorIs(t, err, ErrClosed)
	}
	if !eventually(func() bool { return files() <= before && runtime.NumGoroutine() <= routines }) {
		all := make([]byte, 1<<20)
		t.Fatalf("%d files of %d, %d goroutines of %d:\n%s", files(), before, runtime.NumGoroutine(), routines, all[:runtime.Stack(all, true)])
	}
}

func eventually(f func() bool) bool {
	for range 1000 {
		if f() {
			return true
		}
		<-time.After(10 * time.Millisecond)
	}
	return false
}

// parent is a process that is killed while its child works.
func parent() {
	p, err := New(Config{Purpose: "test", Size: 1, Limits: limits, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	pid, err := p.Do(context.Background(), []byte("pid"))
	if err != nil {
		panic(err)
	}
	fmt.Println(string(pid))
	_, err = p.Do(context.Background(), []byte("spin"))
	panic(err)
}

// replaced is a process whose file is another one's before it starts its first child.
func replaced() {
	if err := errors.Join(os.Remove(os.Args[0]), os.WriteFile(os.Args[0], []byte("#!/bin/false"), 0o600)); err != nil {
		panic(err)
	}
	p, err := New(Config{Purpose: "test", Size: 1, Limits: limits, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	answer, err := p.Do(context.Background(), []byte("echo still here"))
	if err != nil {
		panic(err)
	}
	fmt.Println(string(answer))
}
