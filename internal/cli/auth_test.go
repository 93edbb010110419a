package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhoAndWhat: who one is, and what one may do; where there is no rights' step, everything.
func TestWhoAndWhat(t *testing.T) {
	w := newWorldWith(t, knows)
	w.env["DROVER_TOKEN"] = "good"
	require.Regexp(t, `^KIND +NAME +GROUPS +BY +UNTIL\nuser +alice +- +- +-\n$`, w.done("auth", "whoami"))
	require.Equal(t, "alice\n", w.done("auth", "whoami", "-o", "jsonpath={.name}"))
	require.Equal(t, "yes\n", w.done("auth", "can-i", "approve", "group", "-p", "demo"))
	require.Equal(t, "yes\n", w.done("auth", "can-i", "put", "clusters", "-p", "demo"), "a cluster is in no project")
	require.Empty(t, w.done("auth", "can-i", "approve", "group", "-q"))
	require.Regexp(t, `(?m)^apps +create delete get list put$`, w.done("auth", "can-i", "--list", "-p", "demo"))
	require.Regexp(t, `(?m)^clusters +.* use watch$`, w.done("auth", "can-i", "--list", "--provider", "edge"))
	require.Contains(t, w.done("auth", "can-i", "get", "metrics", "-o", "json"), `"get"`)
	for want, args := range map[string][]string{
		"nobody can approve apps":       {"auth", "can-i", "approve", "apps"},
		"a verb and a noun are needed":  {"auth", "can-i", "approve"},
		`"things" is no noun`:           {"auth", "can-i", "get", "things"},
		"apps do not lie in cluster-pr": {"auth", "can-i", "get", "apps", "--provider", "p"},
	} {
		r := w.run(args...)
		require.NotZero(t, r.code, args)
		require.Contains(t, r.err, want)
	}
	w.env["DROVER_TOKEN"] = "bad"
	require.Equal(t, 4, w.run("auth", "whoami").code)
}
