package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// event is a line of `go test -json`: go doc test2json and go help buildjson say what its members are.
type event struct {
	Action, Package, Test, Output, ImportPath, FailedBuild string
	Elapsed                                                float64 // seconds
}

// state is how far a test has come.
type state int

const (
	running state = iota // since it was begun, or since it went on after a pause
	paused               // until the tests before it, which are not parallel, are done
	passed
	failed
	skipped
)

// test is one function of a test file, with everything that its subtests said.
type test struct {
	state  state
	took   time.Duration // without the time that it was paused
	output strings.Builder
}

// packageRun is what one run of a package's test binary was like.
type packageRun struct {
	path   string
	tests  map[string]*test // by the function's name
	output strings.Builder  // what no test said, and what the compiler did
	failed bool
	// orderly says that the binary came to its own end: one that panics, is killed or takes too long does not.
	orderly bool
}

// read reads a stream of events to its end, and shows what a person wants to see of it while it comes: a line per package,
// one per test that was left out, with each also one per test that took a second, and everything that a failed test said.
func read(stream io.Reader, show io.Writer, each bool) (map[string]*packageRun, error) {
	packages, builds := map[string]*packageRun{}, map[string]string{}
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			switch {
			case json.Unmarshal(line, &e) != nil: // what a program wrote past the test binary
				fmt.Fprintf(show, "%s", line)
			case e.Action == "build-output":
				builds[e.ImportPath] += e.Output
			case e.Package != "":
				p := packages[e.Package]
				if p == nil {
					p = &packageRun{path: e.Package, tests: map[string]*test{}}
					packages[e.Package] = p
				}
				if e.FailedBuild != "" {
					p.output.WriteString(builds[e.FailedBuild])
				}
				p.take(e)
				p.tell(e, show, each)
			}
		}
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return packages, err
		}
	}
}

// take takes an event of the package.
func (p *packageRun) take(e event) {
	name, _, sub := strings.Cut(e.Test, "/")
	if name == "" {
		switch e.Action {
		case "output":
			p.output.WriteString(e.Output)
			p.orderly = p.orderly || e.Output == "FAIL\n" || e.Output == "PASS\n"
		case "fail":
			p.failed = true
		}
		return
	}
	t := p.tests[name]
	if t == nil {
		t = &test{}
		p.tests[name] = t
	}
	if e.Action == "output" {
		t.output.WriteString(e.Output)
		return
	}
	next, known := map[string]state{"run": running, "cont": running, "pause": paused, "pass": passed, "fail": failed, "skip": skipped}[e.Action]
	if known && !sub {
		t.state, t.took = next, time.Duration(e.Elapsed*float64(time.Second))
	}
}

// tell shows what is new with an event that has been taken.
func (p *packageRun) tell(e event, show io.Writer, each bool) {
	switch {
	case e.Test == "" && e.Action == "fail":
		for _, name := range p.in(running) { // when the binary died
			fmt.Fprintf(show, "%s", p.tests[name].said())
		}
		fmt.Fprintf(show, "%s", p.output.String())
	case e.Test == "" && strings.HasPrefix(e.Output, "ok  "):
		fmt.Fprintf(show, "%s", e.Output)
	case e.Test == "" || strings.Contains(e.Test, "/"):
	case e.Action == "fail":
		fmt.Fprintf(show, "%s", p.tests[e.Test].said())
	case e.Action == "skip": // everywhere: else nobody sees what a machine does not test
		fmt.Fprintf(show, "    left out  %s\n%s", e.Test, p.tests[e.Test].said())
	case each && e.Action == "pass" && e.Elapsed >= 1:
		fmt.Fprintf(show, "    %6.1fs  %s\n", e.Elapsed, e.Test)
	}
}

// said is what the test said, without the lines that tell of its way.
func (t *test) said() string {
	var b strings.Builder
	for line := range strings.Lines(t.output.String()) {
		if !strings.HasPrefix(line, "=== ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// in are the names of the tests in one of some states, in the alphabet's order.
func (p *packageRun) in(states ...state) []string {
	names := slices.Sorted(maps.Keys(p.tests))
	return slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(states, p.tests[name].state) })
}
