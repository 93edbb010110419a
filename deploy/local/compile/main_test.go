package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBuild: a program of two packages of its own is built, and what is compiled is told apart from what was compiled before.
func TestBuild(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.org/program\n\ngo 1.26.0\n")
	write(t, dir, "main.go", "package main\n\nimport \"example.org/program/"+unique+"\"\n\nfunc main() { println("+unique+".Word) }\n")
	write(t, dir, unique+"/word.go", "package "+unique+"\n\nconst Word = \""+dir+"\"\n") // which no cache can have
	out, b := program(dir)
	require.NoError(t, b.run(t.Context()))
	require.FileExists(t, b.out)
	require.Contains(t, out.String(), "program: built in ")
	require.Contains(t, b.progress.started, "example.org/program/"+unique)
	require.Len(t, b.progress.started, len(b.progress.sizes), "what was to be compiled is compiled: %v", b.progress.sizes)

	out, b = program(dir)
	require.NoError(t, b.run(t.Context()))
	require.NotContains(t, b.progress.sizes, "example.org/program/"+unique, "it is in the cache")
	require.Contains(t, out.String(), "program: built in ")

	write(t, dir, "main.go", "package main\n\nfunc main() { nothing() }\n")
	out, b = program(dir)
	require.Error(t, b.run(t.Context()))
	require.Contains(t, out.String(), "undefined: nothing", "what the compiler says is shown")
	require.NotContains(t, out.String(), "built in")
}

const unique = "words"

func program(dir string) (*strings.Builder, *build) {
	out := &strings.Builder{}
	return out, &build{dir: dir, out: filepath.Join(dir, "program"), errors: out,
		show:     &show{to: out, now: time.Now, wrote: time.Now()},
		progress: progress{name: "program", now: time.Now, begun: time.Now()}}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

func TestMissingModules(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GOMODCACHE", filepath.Join(dir, "modules"))
	missing, err := missingModules(t.Context(), dir)
	require.NoError(t, err)
	require.Zero(t, missing, "a program of the standard library alone has no go.sum")

	write(t, dir, "go.sum", "example.org/One v1.0.0 h1:x=\nexample.org/One v1.0.0/go.mod h1:x=\nexample.org/two v1.0.0 h1:x=\nexample.org/three v1.0.0/go.mod h1:x=\n")
	missing, err = missingModules(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, 2, missing, "a line of go.mod alone is nothing to download")
	write(t, dir, "modules/example.org/!one@v1.0.0/one.go", "package one\n")
	missing, err = missingModules(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, 1, missing)
}
