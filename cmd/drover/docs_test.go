package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/cli"
)

var update = flag.Bool("update", false, "write docs/cli.md")

// TestTheManualIsTheHelp holds docs/cli.md to what the commands say.
func TestTheManualIsTheHelp(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, cli.Manual(&b, processes(io.Discard, io.Discard)))
	const file = "../../docs/cli.md"
	if *update {
		require.NoError(t, os.WriteFile(file, b.Bytes(), 0o644)) // #nosec G306 -- a document
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(data), b.String(), "go test ./cmd/drover -run TestTheManualIsTheHelp -update writes it")
}

// pages are the documents that tell users what to type.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"../../README.md", "../../docs/*.md", "../../docs/how-to/*.md", "../../deploy/examples/*/README.md"} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, names, pattern)
		for _, name := range names {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			texts[name] = string(text)
		}
	}
	return texts
}

var (
	indented = regexp.MustCompile(`(?m)^    (.*)$`)
	fenced   = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	inline   = regexp.MustCompile("`([^`\n]+)`")
	ours     = regexp.MustCompile(`^(?:sudo |build/bin/)?drover `)
	flagged  = regexp.MustCompile(`(?:^|[ (=/])(--[a-z][a-z0-9-]*)`)
	variable = regexp.MustCompile(`DROVER_[A-Z0-9_]*[A-Z0-9]`)
	path     = regexp.MustCompile(`/v2/[A-Za-z0-9/_{}.…:-]+`)
	metric   = regexp.MustCompile("`(drover_[a-z_]+)`")
	linked   = regexp.MustCompile(`\]\(([^)]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// commandsIn are the lines of a document that call drover.
func commandsIn(text string) (lines []string) {
	code := ""
	for _, m := range fenced.FindAllStringSubmatch(text, -1) {
		code += m[1] + "\n"
	}
	for _, pattern := range []*regexp.Regexp{indented, inline} {
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			code += m[1] + "\n"
		}
	}
	for line := range strings.Lines(strings.ReplaceAll(code, "\\\n", " ")) {
		if line = strings.TrimSpace(line); ours.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// words cuts a command as a shell does, up to what is no part of it any more.
func words(line string) (all []string) {
	word, quote, open := "", rune(0), false
	end := func() {
		if open {
			all = append(all, word)
		}
		word, open = "", false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '\'' || r == '"':
			quote, open = r, true
		case strings.ContainsRune("|;&<>#", r) && !open:
			return all
		case unicode.IsSpace(r):
			end()
		default:
			word, open = word+string(r), true
		}
	}
	end()
	return all
}

// TestCommandsInDocuments: there is each command that a document has its reader type, with each of its flags.
func TestCommandsInDocuments(t *testing.T) {
	n := 0
	for name, text := range pages(t) {
		for _, line := range commandsIn(text) {
			args := words(line)[1:]
			if len(args) == 0 || strings.HasPrefix(args[0], "…") {
				continue
			}
			n++
			var out, stderr bytes.Buffer
			code := run(append(append([]string{"drover"}, args...), "--help"), strings.NewReader(""), &out, &stderr)
			if code != 0 {
				t.Errorf("%s: %s\n%s", name, line, &stderr)
				continue
			}
			help := out.String()
			if help == "" { // of a server, or another command that reads its flags itself
				require.NotEmpty(t, stderr.String(), "%s: %s", name, line)
				continue
			}
			if strings.HasPrefix(args[0], "-") {
				continue
			}
			if !strings.Contains(help, "\n  drover "+args[0]) {
				t.Errorf("%s: %s", name, line)
			}
			if strings.Contains(help, "Available Commands:") && len(args) > 1 && !strings.HasPrefix(args[1], "-") {
				if !strings.Contains(help, "\n  drover "+args[0]+" "+args[1]) {
					t.Errorf("%s: %s", name, line)
				}
			}
		}
	}
	require.Greater(t, n, 60)
}

// helps is what all commands say of their flags.
func helps(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/cli.md") // which TestTheManualIsTheHelp holds true
	require.NoError(t, err)
	said := string(text)
	for _, args := range [][]string{{"api"}, {"worker"}, {"monitor"}, {"tenant-agent"}, {"admin-token"}, {"cluster-credential"}, {"keys"}, {"audit", "verify"}} {
		var out, stderr bytes.Buffer
		require.Zero(t, run(append(append([]string{"drover"}, args...), "-h"), strings.NewReader(""), &out, &stderr), "%v: %s", args, &stderr)
		for line := range strings.Lines(out.String() + stderr.String()) {
			if flag, ok := strings.CutPrefix(strings.TrimSpace(line), "-"); ok {
				said += "\n --" + strings.Fields(flag)[0] + " "
			}
		}
		said += out.String() + stderr.String()
	}
	return said
}

// TestFlagsInDocuments: there is each flag that a document names, whoever it is a flag of, and each variable.
func TestFlagsInDocuments(t *testing.T) {
	known, n := helps(t), 0
	others := regexp.MustCompile(`helm |kubectl |temporal |curl |go test|git |DROVER_TEST|DROVER_BENCH|docker|apt`)
	for name, text := range pages(t) {
		for _, m := range inline.FindAllStringSubmatch(text, -1) {
			if others.MatchString(m[1]) {
				continue
			}
			for _, f := range flagged.FindAllStringSubmatch(m[1], -1) {
				n++
				if strings.HasSuffix(f[1], "-") && strings.Contains(known, f[1]) {
					continue // --mongo-*: several
				}
				if !regexp.MustCompile(`[ ,]` + f[1] + `[ ,\n=]`).MatchString(known) {
					t.Errorf("%s: `%s`: no command has %s", name, m[1], f[1])
				}
			}
		}
		for _, v := range variable.FindAllString(text, -1) {
			if strings.HasPrefix(v, "DROVER_TEST") || strings.HasPrefix(v, "DROVER_BENCH") || strings.HasPrefix(v, "DROVER_RECORD") {
				continue
			}
			flag := "--" + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(v, "DROVER_"), "_", "-"))
			if !strings.Contains(known, v) && !strings.Contains(known, flag+" ") {
				t.Errorf("%s: nobody reads %s", name, v)
			}
		}
	}
	require.Greater(t, n, 60)
}

// TestFilesInKubernetes: each variable of production.md that names a file is said again for Kubernetes, with a path below what is mounted there: a process
// whose file is not there does not start.
func TestFilesInKubernetes(t *testing.T) {
	text := pages(t)["../../docs/how-to/production.md"]
	before, in, found := strings.Cut(text, "In Kubernetes:\n\n```yaml\n")
	require.True(t, found)
	var mounts []string
	for _, m := range regexp.MustCompile(`mountPath: ([^,} ]+)`).FindAllStringSubmatch(in, -1) {
		mounts = append(mounts, m[1]+"/")
	}
	require.NotEmpty(t, mounts)
	named := regexp.MustCompile(`(DROVER_[A-Z_]+|--[a-z-]+)=(/etc/[^ ,` + "`" + `\]]+)`)
	said := map[string]bool{}
	for _, m := range named.FindAllStringSubmatch(in, -1) {
		said[m[1]] = true
		require.True(t, slices.ContainsFunc(mounts, func(at string) bool { return strings.HasPrefix(m[2], at) }), "%s is below no mount", m[0])
	}
	files := named.FindAllStringSubmatch(before, -1)
	require.Greater(t, len(files), 1)
	for _, m := range files {
		require.True(t, said[m[1]], "%s in Kubernetes", m[1])
	}
}

// TestMetricsInDocuments: there is each metric that a document names.
func TestMetricsInDocuments(t *testing.T) {
	known, err := os.ReadFile("../../docs/metrics.md") // which a test of internal/measure holds true
	require.NoError(t, err)
	n := 0
	for name, text := range pages(t) {
		for _, said := range metric.FindAllStringSubmatch(text, -1) {
			n++
			if !strings.Contains(string(known), "`"+said[1]+"`") {
				t.Errorf("%s: there is no metric %s", name, said[1])
			}
		}
	}
	require.Greater(t, n, 10)
}

// TestPathsInDocuments: there is each path of the API that a document names.
func TestPathsInDocuments(t *testing.T) {
	text, err := os.ReadFile("../../api/testdata/door.txt")
	require.NoError(t, err)
	var routes [][]string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 0 {
			routes = append(routes, strings.Split(fields[0], "/"))
		}
	}
	require.Greater(t, len(routes), 100)
	same := func(route, said []string) bool {
		if len(said) > len(route) {
			return false
		}
		for i, word := range said {
			free := strings.HasPrefix(route[i], ":") || strings.HasPrefix(route[i], "*") || strings.ContainsAny(word, "…{")
			if !free && route[i] != word {
				return false
			}
		}
		return true
	}
	n := 0
	for name, text := range pages(t) {
		for _, said := range path.FindAllString(text, -1) {
			said = strings.TrimRight(said, "/.:…-")
			if strings.Contains(said, "//") || said == "/v2" {
				continue
			}
			n++
			there := false
			for _, route := range routes {
				there = there || same(route, strings.Split(said, "/"))
			}
			if !there {
				t.Errorf("%s: %s is no path of the API", name, said)
			}
		}
	}
	require.Greater(t, n, 20)
}

// TestLinksInDocuments: what a document links to is there, the heading too.
func TestLinksInDocuments(t *testing.T) {
	all := pages(t)
	for _, pattern := range []string{"../../docs/decisions/*.md", "../../docs/checklists/*.md", "../../*.md"} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range names {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			all[name] = string(text)
		}
	}
	for name, text := range all {
		for _, m := range linked.FindAllStringSubmatch(text, -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, ":") {
				continue
			}
			file := name
			if to != "" {
				file = filepath.Join(filepath.Dir(name), to)
			}
			data, err := os.ReadFile(file)
			if info, statErr := os.Stat(file); statErr == nil && info.IsDir() {
				continue
			}
			if err != nil || anchor != "" && !slices.Contains(anchors(string(data)), anchor) {
				t.Errorf("%s: %s leads nowhere", name, m[1])
			}
		}
	}
}

// anchors are those of a document's headings.
func anchors(text string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			default:
				return -1
			}
		}, m[1]))
	}
	return all
}
