package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// part is one call of `go test`.
type part struct {
	name string
	dir  string   // the module's
	args []string // of go test, the packages apart
	// packages are patterns.
	packages []string
	env      []string
	each     bool // a line per test that takes a second, where one package takes minutes
}

// took is how long a part took.
type took struct {
	name      string
	time, cpu time.Duration
}

// timed is a test with its time.
type timed struct {
	name string
	took time.Duration
}

// most is how many tests of a package may fail to be run again: more are no accident.
const most = 10

// run is what a run of all parts has found.
type run struct {
	show  io.Writer
	known map[string]bool // the tests that had their second chance before
	tests []timed
	parts []took
	// failures say what failed and why, flaky which tests have passed alone.
	failures []string
	flaky    []string
}

// module is the path that all modules' paths begin with.
const module = "github.com/drover-io/drover/"

// title is how a test is called in lists.
func title(packagePath, name string) string {
	return strings.TrimPrefix(packagePath, module) + "." + name
}

// part runs a part, and again what failed in it.
func (r *run) part(ctx context.Context, p part) {
	fmt.Fprintf(r.show, "\n%s\n", p.name)
	begun, cpu := time.Now(), time.Duration(0)
	defer func() { r.parts = append(r.parts, took{p.name, time.Since(begun), cpu}) }()
	test := func(show io.Writer, each bool, args ...string) map[string]*packageRun {
		packages, spent, err := goTest(ctx, p, show, each, args)
		cpu += spent
		for _, path := range sorted(packages) {
			for name, t := range packages[path].tests {
				r.tests = append(r.tests, timed{title(path, name), t.took})
			}
		}
		fails := slices.ContainsFunc(sorted(packages), func(path string) bool { return packages[path].failed })
		if err != nil && !fails {
			r.fail("%s: go test %s: %v", p.name, strings.Join(args, " "), err)
		}
		return packages
	}
	packages := test(r.show, p.each, p.packages...)
	for _, path := range sorted(packages) {
		r.again(packages[path], test)
	}
}

// again runs again what failed in a package, or was not run to its end.
func (r *run) again(p *packageRun, test func(show io.Writer, each bool, args ...string) map[string]*packageRun) {
	ended := []string{}
	for p != nil && p.failed {
		v := judge(p)
		switch {
		case v.Broken != "":
			r.fail("%s: %s", strings.TrimPrefix(p.path, module), v.Broken)
			return
		case len(v.Suspects) > most:
			r.fail("%s: %d tests failed: %s", strings.TrimPrefix(p.path, module), len(v.Suspects), strings.Join(v.Suspects, ", "))
			return
		}
		for _, name := range v.Suspects {
			r.alone(p.path, name, test)
		}
		if !v.Rest {
			return
		}
		ended = slices.Concat(ended, v.Ended, v.Suspects)
		fmt.Fprintf(r.show, "\nwhat %s had not run to its end, again\n", p.path)
		p = test(r.show, true, "-count=1", "-skip="+only(ended...), p.path)[p.path]
	}
}

// alone runs a test that failed again, with nothing beside it, unless it is known to need that.
func (r *run) alone(packagePath, name string, test func(show io.Writer, each bool, args ...string) map[string]*packageRun) {
	title := title(packagePath, name)
	if r.known[title] {
		r.fail("%s: it failed, and is known to: docs/flaky.md", title)
		return
	}
	fmt.Fprintf(r.show, "\n%s again, alone\n", title)
	p := test(r.show, true, "-count=1", "-run="+only(name), packagePath)[packagePath]
	if p != nil && !p.failed && p.tests[name] != nil && p.tests[name].state == passed {
		r.flaky = append(r.flaky, title)
		return
	}
	r.fail("%s: it failed twice", title)
}

func (r *run) fail(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// only is the expression for exactly these tests.
func only(names ...string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return "^(" + strings.Join(quoted, "|") + ")$"
}

// goTest calls `go test -json`, and says what CPU time it took with all that it started.
func goTest(ctx context.Context, p part, show io.Writer, each bool, args []string) (map[string]*packageRun, time.Duration, error) {
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"test", "-json"}, p.args, args)...)
	cmd.Dir, cmd.Env, cmd.Stderr = p.dir, append(os.Environ(), p.env...), show
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	stream, err := cmd.StdoutPipe()
	if err != nil {
		return nil, 0, err
	}
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	packages, err := read(stream, show, each)
	err = errors.Join(err, cmd.Wait())
	return packages, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}
