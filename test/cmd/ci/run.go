package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
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
	beside   bool // it runs together with the part before it
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
	spent *orphans
	known map[string]bool // the tests that had their second chance before
	tests []timed
	parts []took
	time  time.Duration // from the first thing to the last; less than the sum of all where some run together
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

// said is what one call of go test came to.
type said struct {
	packages map[string]*packageRun
	took     took
	err      error
	text     bytes.Buffer // what is shown of it later
}

// all runs parts at the same time, and then, with nothing beside it, again what failed in them. What the first one says is
// shown as it comes, what the others say after it.
func (r *run) all(ctx context.Context, parts []part) {
	all := make([]said, len(parts))
	var running sync.WaitGroup
	for i, p := range parts {
		show := io.Writer(&all[i].text)
		if i == 0 {
			show = r.show
			fmt.Fprintf(show, "\n%s\n", p.name)
		}
		running.Go(func() { all[i].packages, all[i].took, all[i].err = r.goTest(ctx, p, show, p.each, p.packages) })
	}
	running.Wait()
	for i := range parts {
		if i > 0 {
			fmt.Fprintf(r.show, "\n%s\n%s", parts[i].name, &all[i].text)
		}
	}
	for i := range parts {
		r.part(ctx, parts[i], &all[i])
	}
}

// beside runs a command with what the tests leave of the processors: they wait for clusters and databases half of the time. ended waits
// until it has ended, and shows what it said if it has failed.
func (r *run) beside(ctx context.Context, name string, command ...string) (ended func()) {
	begun := time.Now()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "nice", append([]string{"-n", "19"}, command...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	spent, err := took{name: name}, r.spent.start(cmd)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err == nil {
			spent.cpu, err = r.spent.wait(ctx, cmd)
		}
		spent.time = time.Since(begun)
	}()
	return func() {
		<-done
		r.parts = append(r.parts, spent)
		if err != nil {
			fmt.Fprintf(r.show, "\n%s\n%s", name, &out)
			r.fail("%s: %v", strings.Join(command, " "), err)
		}
	}
}

// part takes what was said of a part, and runs again what failed in it.
func (r *run) part(ctx context.Context, p part, first *said) {
	spent := took{name: p.name}
	take := func(args []string, packages map[string]*packageRun, t took, err error) {
		spent.time, spent.cpu = spent.time+t.time, spent.cpu+t.cpu
		for _, path := range sorted(packages) {
			for name, t := range packages[path].tests {
				r.tests = append(r.tests, timed{title(path, name), t.took})
			}
		}
		fails := slices.ContainsFunc(sorted(packages), func(path string) bool { return packages[path].failed })
		if err != nil && !fails {
			r.fail("%s: go test %s: %v", p.name, strings.Join(args, " "), err)
		}
	}
	take(p.packages, first.packages, first.took, first.err)
	for _, path := range sorted(first.packages) {
		r.again(first.packages[path], func(show io.Writer, each bool, args ...string) map[string]*packageRun {
			packages, t, err := r.goTest(ctx, p, show, each, args)
			take(args, packages, t, err)
			return packages
		})
	}
	r.parts = append(r.parts, spent)
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

// lines is written to by the reader of a stream and by a program at the same time.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}

// goTest calls `go test -json`, and says what time it took, and what CPU time with all that it started.
//
// It does not vet, as `go test` does by itself: make check has, with more analyzers. Vet reads each package that a test
// imports, Kubernetes' among them, and that again for the race detector.
func (r *run) goTest(ctx context.Context, p part, show io.Writer, each bool, args []string) (map[string]*packageRun, took, error) {
	begun := time.Now()
	shown := &lines{to: show}
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"test", "-json", "-vet=off"}, p.args, args)...)
	cmd.Dir, cmd.Env, cmd.Stderr = p.dir, append(os.Environ(), p.env...), shown
	stream, err := cmd.StdoutPipe()
	if err != nil {
		return nil, took{}, err
	}
	if err := r.spent.start(cmd); err != nil {
		return nil, took{}, err
	}
	packages, err := read(stream, shown, each)
	t := took{time: time.Since(begun)}
	var waited error
	t.cpu, waited = r.spent.wait(ctx, cmd)
	return packages, t, errors.Join(err, waited)
}
