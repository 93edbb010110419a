// Command compile builds a Go program as `go build` does, and shows how far it is: modules downloaded, packages compiled, and
// about how long the rest takes. The first build of the local servers takes minutes in which `go build` says nothing.
//
// It imports the standard library alone, so that it is itself built in seconds on a machine that has built nothing yet; what
// is compiled for it the servers need, too.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	dir := flag.String("dir", ".", "`folder` of the program")
	out := flag.String("o", "", "`file` to write")
	name := flag.String("name", "", "what to call the program")
	ldflags := flag.String("ldflags", "", "of go build")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := build{dir: *dir, out: *out, ldflags: *ldflags, show: newShow(os.Stdout, time.Now), errors: os.Stderr}
	b.progress = progress{name: cmp.Or(*name, filepath.Base(*out)), parallel: runtime.NumCPU(), now: time.Now, begun: time.Now()}
	if err := b.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "compile:", err)
		os.Exit(1)
	}
}

// build is one call of `go build`.
type build struct {
	dir, out, ldflags string
	show              *show
	errors            io.Writer // what the go command says that is no progress
	progress          progress
}

func (b *build) run(ctx context.Context) error {
	if err := b.load(ctx); err != nil {
		return err
	}
	if err := b.compile(ctx); err != nil {
		return err
	}
	b.show.last(b.progress.built())
	return nil
}

// load downloads the modules that are missing, and finds the packages that the build cache does not have.
func (b *build) load(ctx context.Context) error {
	missing, err := missingModules(ctx, b.dir)
	if err != nil {
		return err
	}
	b.progress.modules = missing
	listed := func(line string) {
		fields := strings.Split(line, "\t")
		if len(fields) != 4 || fields[1] != "true" || fields[0] == "unsafe" {
			return
		}
		size := int64(0)
		for file := range strings.FieldsSeq(fields[3]) {
			if info, err := os.Stat(filepath.Join(fields[2], file)); err == nil {
				size += info.Size()
			}
		}
		b.progress.add(fields[0], size)
	}
	downloading := func(line string) bool {
		is := strings.HasPrefix(line, "go: downloading ")
		if is {
			b.progress.downloads++
		}
		return is
	}
	return b.goCommand(ctx, listed, downloading,
		"list", "-deps", "-f", "{{.ImportPath}}\t{{.Stale}}\t{{.Dir}}\t{{range .GoFiles}}{{.}} {{end}}", ".")
}

// compile builds. With -v the go command names each package when it begins to compile it.
func (b *build) compile(ctx context.Context) error {
	compiling := func(line string) bool {
		is := b.progress.knows(line)
		if is {
			b.progress.compiling(line)
		}
		return is
	}
	return b.goCommand(ctx, func(string) {}, compiling, "build", "-v", "-ldflags", b.ldflags, "-o", b.out, ".")
}

// goCommand runs the go command in the program's folder, and shows how far it is. It gives what the command writes to out, line by
// line, and what it writes to its errors to isProgress; what is not is shown.
func (b *build) goCommand(ctx context.Context, out func(line string), isProgress func(line string) bool, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	listed, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	said, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	results, errs := lines(listed), lines(said)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for results != nil || errs != nil {
		select {
		case line, more := <-results:
			if !more {
				results = nil
				continue
			}
			out(line)
		case line, more := <-errs:
			if !more {
				errs = nil
				continue
			}
			if !isProgress(line) {
				b.show.clear()
				fmt.Fprintln(b.errors, line)
			}
		case <-tick.C:
			b.show.line(b.progress.line())
		}
	}
	if err := cmd.Wait(); err != nil {
		b.show.clear()
		return fmt.Errorf("go %s in %s: %w", args[0], b.dir, err)
	}
	return nil
}

// lines gives away what r has, line by line.
func lines(r io.Reader) <-chan string {
	all := make(chan string)
	go func() {
		defer close(all)
		s := bufio.NewReader(r)
		for {
			line, err := s.ReadString('\n')
			if line != "" {
				all <- strings.TrimSuffix(line, "\n")
			}
			if err != nil {
				return // the process has ended, and says why
			}
		}
	}()
	return all
}

// missingModules counts the modules that the folder's go.sum knows the content of and that are not in the module cache: as many
// as a build downloads at most.
func missingModules(ctx context.Context, dir string) (int, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOMODCACHE")
	cmd.Dir = dir
	found, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("go env: %w", err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n := 0
	for line := range strings.Lines(string(sums)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || strings.HasSuffix(fields[1], "/go.mod") {
			continue
		}
		if _, err := os.Stat(filepath.Join(strings.TrimSpace(string(found)), escaped(fields[0]+"@"+fields[1]))); err != nil {
			n++
		}
	}
	return n, nil
}

// escaped is a module's folder in the module cache, where no two names differ by case alone.
func escaped(path string) string {
	var s strings.Builder
	for _, r := range path {
		if r >= 'A' && r <= 'Z' {
			s.WriteByte('!')
			r += 'a' - 'A'
		}
		s.WriteRune(r)
	}
	return s.String()
}
