package main

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "record the streams of go test -json anew")

// stream is what go test says of a package of testdata/sample.
func stream(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	file := filepath.Join("testdata", "streams", name+".json")
	if *update {
		cmd := exec.Command("go", append([]string{"test", "-json", "-trimpath", "-count=1", "-timeout=2s", "./" + name}, args...)...)
		cmd.Dir = filepath.Join("testdata", "sample")
		out, err := cmd.Output()
		require.Error(t, err, "each of them fails")
		require.NoError(t, os.WriteFile(file, out, 0o600))
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return data
}

func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		want   verdict
		shows  []string
		hides  string
	}{
		"fails": {
			"a failed subtest is its test's failure, and all others have been run", verdict{Suspects: []string{"TestFails"}},
			[]string{"    fails_test.go", "not as it should be", "FAIL\tsample/fails", "    left out  TestSkips\n    fails_test.go:10: why"}, "TestPasses",
		},
		"panics": {
			"who panics is known; tests that waited or came later were not run", verdict{Suspects: []string{"TestPanics"}, Rest: true, Ended: []string{"TestFirst"}},
			[]string{"assignment to entry in nil map"}, "TestLater",
		},
		"goroutine": {
			"a panic elsewhere is laid at the door of what ran", verdict{Suspects: []string{"TestOther"}, Rest: true, Ended: []string{"TestFirst"}},
			[]string{"in nobody's hands"}, "TestLater",
		},
		"timesout": {
			"what hangs ran, what waited for it did not", verdict{Suspects: []string{"TestHangs"}, Rest: true, Ended: []string{"TestFirst"}},
			[]string{"test timed out after 2s"}, "TestLater",
		},
		"killed": {
			"as by the kernel for want of memory", verdict{Suspects: []string{"TestKilled"}, Rest: true, Ended: []string{"TestFirst"}},
			[]string{"signal: killed"}, "TestLater",
		},
		"builds": {"no second run helps", verdict{Broken: "it does not build, or does not begin"}, []string{"undefined: missing"}, "panic"},
		"leaks":  {"there is no test to run again", verdict{Broken: "it fails without a failed test"}, []string{"FAIL\tsample/leaks"}, "panic"},
		"races":  {"luck is no proof", verdict{Broken: "data race in TestRaces"}, []string{"WARNING: DATA RACE"}, "panic"},
	} {
		t.Run(name, func(t *testing.T) {
			args := map[string][]string{"races": {"-race"}}[name]
			var shown bytes.Buffer
			packages, err := read(bytes.NewReader(stream(t, name, args...)), &shown, false)
			require.NoError(t, err)
			require.Len(t, packages, 1)
			require.Equal(t, c.want, judge(packages["sample/"+name]), c.reason)
			for _, text := range c.shows {
				require.Contains(t, shown.String(), text)
			}
			require.NotContains(t, shown.String(), c.hides)
			require.NotContains(t, shown.String(), "=== RUN")
		})
	}
}

// TestStreamIsShownAsItComes reads what passes, and what is no event.
func TestStreamIsShownAsItComes(t *testing.T) {
	const said = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"a word\n"}
{"Action":"pause","Package":"p","Test":"TestA"}
{"Action":"cont","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/sub"}
{"Action":"pass","Package":"p","Test":"TestA/sub","Elapsed":7}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1.5}
{"Action":"pass","Package":"p","Test":"TestB","Elapsed":0.5}
nobody's line
{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:1: there is no chromium\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t1.6s\n"}
{"Action":"pass","Package":"p","Elapsed":1.6}
{"Action":"output","Package":"q","Output":"?   \tq\t[no test files]\n"}
{"Action":"skip","Package":"q"}`
	var shown bytes.Buffer
	packages, err := read(strings.NewReader(said), &shown, true)
	require.NoError(t, err)
	require.Equal(t, "       1.5s  TestA\nnobody's line\n    left out  TestC\n    c_test.go:1: there is no chromium\nok  \tp\t1.6s\n", shown.String())
	require.Equal(t, verdict{}, judge(packages["p"]))
	require.Equal(t, verdict{}, judge(packages["q"]))
	require.Equal(t, 1500*time.Millisecond, packages["p"].tests["TestA"].took, "not that of its subtest")
}

// takenIn takes in orphans while a test runs.
func takenIn(t *testing.T) *orphans {
	t.Helper()
	o, err := takeIn(t.Context())
	require.NoError(t, err)
	return o
}

// TestOrphansAreAccountedFor starts a process that does not wait for the one which it has started.
func TestOrphansAreAccountedFor(t *testing.T) {
	o := takenIn(t)
	spent := func(script string) time.Duration {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		require.NoError(t, o.start(cmd))
		cpu, err := o.wait(t.Context(), cmd)
		require.NoError(t, err)
		return cpu
	}
	const work = `i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done`
	waitedFor, orphan, nothing := spent(work), spent("("+work+") >&- 2>&- &"), spent("true")
	require.Greater(t, waitedFor, 5*nothing)
	require.Greater(t, orphan, waitedFor/3, "it is the same work")
	require.Empty(t, o.own)
	require.Empty(t, o.cpu)
}

// TestRunAgain runs tests that fail in their several ways.
func TestRunAgain(t *testing.T) {
	dir := t.TempDir()
	var shown bytes.Buffer
	r := &run{show: &shown, spent: takenIn(t), known: map[string]bool{"sample/twice.TestKnown": true}}
	sample := func(name string, packages ...string) part {
		return part{name: name, dir: filepath.Join("testdata", "sample"), packages: packages, env: []string{"SAMPLE=" + dir}}
	}
	r.all(t.Context(), []part{sample("sample", "./dies", "./builds"), sample("other", "./flaky", "./twice")})
	require.Len(t, r.parts, 2)
	require.Positive(t, r.parts[1].cpu)
	first, other := strings.Index(shown.String(), "sample/dies"), strings.Index(shown.String(), "\nother\n")
	require.True(t, 0 < first && first < other, "one after the other: %s", &shown)
	r.parts = r.parts[:1]
	require.Equal(t, []string{"sample/dies.TestDies", "sample/flaky.TestPassesAlone"}, r.flaky, "%s", &shown)
	require.Equal(t, []string{
		"sample/builds: it does not build, or does not begin",
		"sample/dies.TestFailsAfter: it failed twice",
		"sample/twice.TestFailsTwice: it failed twice",
		"sample/twice.TestKnown: it failed, and is known to: docs/flaky.md",
	}, r.failures)
	data, err := os.ReadFile(filepath.Join(dir, "dies"))
	require.NoError(t, err)
	require.Equal(t, "TestBefore TestDies TestDies TestAfter TestFailsAfter TestBeside TestFailsAfter",
		strings.Join(strings.Fields(string(data)), " "), "each once, but for those that failed")
	r.parts[0].time, r.parts[0].cpu, r.time, r.tests = 61*time.Second, 2*time.Second, time.Minute, []timed{{"a.TestA", time.Second}, {"b.TestB", time.Minute}}
	shown.Reset()
	r.report(time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC))
	require.Equal(t, `
part             time      CPU
sample           1m1s       2s
all              1m0s       2s

slowest tests
    60.0s  b.TestB
     1.0s  a.TestA

failed
  sample/builds: it does not build, or does not begin
  sample/dies.TestFailsAfter: it failed twice
  sample/twice.TestFailsTwice: it failed twice
  sample/twice.TestKnown: it failed, and is known to: docs/flaky.md

flaky: failed, then passed alone. Find the cause; until it is mended these stand in docs/flaky.md
| `+"`sample/dies.TestDies` | 2026-11-22 | ? |\n| `sample/flaky.TestPassesAlone`"+` | 2026-11-22 | ? |
`, shown.String())
}

// TestCI: .ci/run builds all that it needs, for which it takes the time, and has the last release, or fails.
func TestCI(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("..", "..", "..", ".ci", "run"))
	require.NoError(t, err)
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o700)) //nolint:gosec // it is run
	}
	write(".ci/run", string(script))
	write("build/bin/ci", "#!/bin/sh\necho ci $GOFLAGS $*\n")
	run := func() (string, error) {
		cmd := exec.Command(filepath.Join(root, ".ci", "run")) //nolint:gosec // it is ours
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"), "GOFLAGS=-mod=mod")
		out, err := cmd.Output()
		return string(out), err
	}
	write("bin/make", "#!/bin/sh\necho make $*\n")
	out, err := run()
	require.NoError(t, err)
	require.Regexp(t, `^make released ready generated\nci -mod=mod -trimpath build=[0-9]+s \+lint \+licences\n$`, out)
	write("bin/make", "#!/bin/sh\ncase \"$*\" in *released*) exit 3 ;; esac\n")
	out, err = run()
	require.Error(t, err, "a clone that cannot have the last release")
	require.Empty(t, out)
}

// TestWhatRunsBesideTheTests has a row, and what it says is shown before the report when it fails.
func TestWhatRunsBesideTheTests(t *testing.T) {
	for name, c := range map[string]struct{ script, shown, fails string }{
		"passes": {"echo all is well", "", ""},
		"fails":  {"echo gofmt; exit 3", "\nlint\ngofmt\n", "exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			var shown bytes.Buffer
			r := &run{show: &shown, spent: takenIn(t)}
			ended := r.beside(t.Context(), "lint", "sh", "-c", c.script)
			ended()
			require.Len(t, r.parts, 1)
			require.Equal(t, "lint", r.parts[0].name)
			require.Positive(t, r.parts[0].time)
			require.Equal(t, c.shown, shown.String())
			if c.fails == "" {
				require.Empty(t, r.failures)
				return
			}
			require.Len(t, r.failures, 1)
			require.Contains(t, r.failures[0], c.fails)
		})
	}
	r := &run{show: io.Discard, spent: takenIn(t)}
	r.beside(t.Context(), "lint", "no-such-program")()
	require.Len(t, r.failures, 1)
}

// TestManyFailuresAreNoAccident runs none of them again.
func TestManyFailuresAreNoAccident(t *testing.T) {
	p := &packageRun{path: module + "p", tests: map[string]*test{}, failed: true, orderly: true}
	for i := range most + 1 {
		p.tests["Test"+string(rune('A'+i))] = &test{state: failed}
	}
	r := &run{show: io.Discard}
	r.again(p, nil)
	require.Len(t, r.failures, 1)
	require.Contains(t, r.failures[0], "p: 11 tests failed: TestA, TestB")
}

// TestWhatDoesNotBegin: go test that says nothing of any package has failed.
func TestWhatDoesNotBegin(t *testing.T) {
	r := &run{show: io.Discard, spent: takenIn(t)}
	r.all(t.Context(), []part{{name: "none", dir: filepath.Join("testdata", "nowhere")}})
	require.Len(t, r.failures, 1)
	require.Contains(t, r.failures[0], "none: go test")
}

func TestListOfFlakyTests(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want map[string]bool
		err  string
	}{
		"none":           {"# Flaky\n\ntext | text\n\n| test | seen | cause |\n|---|---|---|\n", map[string]bool{}, ""},
		"two":            {"| test | seen | cause |\n|---|---|---|\n| `a.TestA` | 2026-11-22 | x |\n| `b.TestB` | 2026-11-23 | y |\n", map[string]bool{"a.TestA": true, "b.TestB": true}, ""},
		"without cause":  {"| test | seen | cause |\n|---|---|---|\n" + row("a.TestA", "2026-11-22"), nil, "its cause"},
		"without a cell": {"| test | seen | cause |\n|---|---|---|\n| `a.TestA` | x |", nil, "its cause"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "flaky.md")
			require.NoError(t, os.WriteFile(file, []byte(c.text), 0o600))
			got, err := known(file)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

// TestWhatIsCalledFlakyIsThere: a row of docs/flaky.md whose test is gone, or has another name, protects nothing.
func TestWhatIsCalledFlakyIsThere(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	list, err := known(filepath.Join(root, "docs", "flaky.md"))
	require.NoError(t, err)
	for title := range list {
		i := strings.LastIndex(title, ".")
		require.Positive(t, i, title)
		found := false
		files, err := filepath.Glob(filepath.Join(root, title[:i], "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, d := range f.Decls {
				is, ok := d.(*ast.FuncDecl)
				found = found || ok && is.Recv == nil && is.Name.Name == title[i+1:]
			}
		}
		require.True(t, found, "%s is no test", title)
	}
}

func TestEachPackageIsInOnePart(t *testing.T) {
	race, unit := split([]string{module + "activities", module + "api/rpc", module + "cmd", module + "internal/cli", module + "internal/notify",
		module + "internal/notify/notifytest", module + "internal/notifying", module + "internal/store"})
	require.Equal(t, []string{module + "internal/store", module + "activities", module + "internal/notify", module + "internal/notify/notifytest"}, race)
	require.Equal(t, []string{module + "api/rpc", module + "internal/cli", module + "cmd", module + "internal/notifying"}, unit, "what takes longest first")
	for _, r := range slices.Concat(raced, long) {
		_, err := os.Stat(filepath.Join("..", "..", "..", r))
		require.NoError(t, err)
	}
}

func TestGroups(t *testing.T) {
	race, unit, end := part{name: "race"}, part{name: "unit", beside: true}, part{name: "end-to-end"}
	require.Equal(t, [][]part{{race, unit}, {end}}, groups([]part{race, unit, end}))
	require.Equal(t, [][]part{{unit}, {end}}, groups([]part{unit, end}), "alone it is its own")
	require.Empty(t, groups(nil))
}

func TestArguments(t *testing.T) {
	all := []part{{name: "race"}, {name: "unit"}, {name: "end-to-end"}}
	for name, c := range map[string]struct {
		arguments []string
		want      choice
		err       string
	}{
		"none":      {nil, choice{parts: all}, ""},
		"times":     {[]string{"check=90s", "build=1m30s"}, choice{parts: all, before: []took{{name: "check", time: 90 * time.Second}, {name: "build", time: 90 * time.Second}}}, ""},
		"parts":     {[]string{"end-to-end", "race"}, choice{parts: []part{all[2], all[0]}}, ""},
		"beside":    {[]string{"+lint"}, choice{parts: all, beside: []string{"lint"}}, ""},
		"no time":   {[]string{"check=soon"}, choice{}, "check=soon"},
		"no part":   {[]string{"rase"}, choice{}, "no part rase"},
		"all kinds": {[]string{"check=1s", "unit", "+lint"}, choice{all[1:2], []took{{name: "check", time: time.Second}}, []string{"lint"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := choose(all, c.arguments)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}
