package test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/test/harness"
)

var update = flag.Bool("update", false, "rewrite what commands print, in testdata/printed")

// ofThisRun is what differs from run to run in what commands print, and what stands for it in testdata.
var ofThisRun = []struct {
	is *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( UTC|Z)`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UUID"},
	{regexp.MustCompile(`\d{17,19}`), "CONTEXT"},
	{regexp.MustCompile(`([Hh]eard:? +)(now|\S+ ago)`), "${1}AGO"},
	{regexp.MustCompile(`( |\()(\d+(\.\d+)?(µs|ms|s|m|h|d))+\b`), "${1}AGE"},
	{regexp.MustCompile(`\bv1\.\d+\.\d+\S*`), "VERSION"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`(\S) {2,}`), "$1  "}, // of tables, whose columns are as wide as what was replaced
}

// prints runs the command until it prints what testdata/printed has: what clusters report of what was done comes a little later. neutral replaces
// names of this run.
func (c *command) prints(name string, neutral *strings.Replacer, args ...string) {
	c.t.Helper()
	printed := func() string {
		text := neutral.Replace(c.done(args...))
		for _, x := range ofThisRun {
			text = x.is.ReplaceAllString(text, x.by)
		}
		return text
	}
	file := filepath.Join("testdata", "printed", name+".txt")
	if *update {
		require.NoError(c.t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(c.t, os.WriteFile(file, []byte(printed()), 0o644))
	}
	wanted, err := os.ReadFile(file)
	require.NoError(c.t, err)
	got := ""
	ctx, cancel := context.WithTimeout(c.ctx, harness.Patience/4)
	defer cancel()
	_ = harness.Look(ctx, func() bool {
		got = printed()
		return got == string(wanted)
	})
	require.Equal(c.t, string(wanted), got, "drover %v", args)
}
