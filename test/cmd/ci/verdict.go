package main

import "strings"

// verdict is what a run of a package means.
type verdict struct {
	// Broken says why the package fails and no second run can help; "" when none of this is so.
	Broken string
	// Suspects are the tests to run again, each alone.
	Suspects []string
	// Rest says that tests were not run to their end, and are innocent of that: all but the suspects and Ended.
	Rest  bool
	Ended []string
}

// judge says what a run of a package means. A test binary that dies takes with it tests that did nothing wrong. Those that
// failed are the suspects then, or else those that ran at that moment.
func judge(p *packageRun) verdict {
	if !p.failed {
		return verdict{}
	}
	v := verdict{Suspects: p.in(failed)}
	if !p.orderly && len(v.Suspects) == 0 {
		v.Suspects = p.in(running)
	}
	switch {
	case len(p.tests) == 0:
		return verdict{Broken: "it does not build, or does not begin"}
	case len(v.Suspects) == 0:
		return verdict{Broken: "it fails without a failed test"}
	}
	for _, name := range v.Suspects {
		// The detector finds a race by luck: that a second run has none says nothing.
		if strings.Contains(p.tests[name].output.String(), "WARNING: DATA RACE") {
			return verdict{Broken: "data race in " + name}
		}
	}
	if strings.Contains(p.output.String(), "WARNING: DATA RACE") {
		return verdict{Broken: "data race"}
	}
	if !p.orderly {
		v.Rest, v.Ended = true, p.in(passed, skipped)
	}
	return v
}
