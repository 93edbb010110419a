package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress is how far a build is.
type progress struct {
	name     string
	parallel int // packages that are compiled at the same time
	now      func() time.Time
	begun    time.Time

	modules, downloads int // to download at most, and begun

	sizes    map[string]int64 // of the packages to compile, in bytes of their files
	size     int64            // of all of them
	started  []string         // in that order
	done     int64            // the size of those that are compiled
	compiles time.Time        // since when
}

// add takes a package that is to be compiled.
func (p *progress) add(name string, size int64) {
	if p.sizes == nil {
		p.sizes = map[string]int64{}
	}
	p.sizes[name] = size
	p.size += size
}

// knows says whether a package is to be compiled.
func (p *progress) knows(name string) bool { _, is := p.sizes[name]; return is }

// compiling takes the name of a package whose compilation begins: of those before it, all but the last few have ended.
func (p *progress) compiling(name string) {
	if len(p.started) == 0 {
		p.compiles = p.now()
	}
	p.started = append(p.started, name)
	if ended := len(p.started) - 1 - p.parallel; ended >= 0 {
		p.done += p.sizes[p.started[ended]]
	}
}

// few is how much is to be compiled before its speed says something about the rest.
const few = 0.02

// line says how far the build is, in a line.
func (p *progress) line() string {
	switch all := len(p.sizes); {
	case p.size == 0 && p.downloads > 0:
		return fmt.Sprintf("%s: downloading modules, %d of %d at most", p.name, p.downloads, max(p.modules, p.downloads))
	case len(p.started) == 0:
		return fmt.Sprintf("%s: looking for what is to be compiled", p.name)
	case len(p.started) >= all:
		return fmt.Sprintf("%s: compiled %d packages, linking", p.name, all)
	default:
		return fmt.Sprintf("%s: compiling package %d of %d%s", p.name, len(p.started), all, p.left())
	}
}

// left is about how long the rest takes, as the end of a line.
func (p *progress) left() string {
	part := float64(p.done) / float64(p.size)
	if part < few {
		return ""
	}
	spent := p.now().Sub(p.compiles)
	left := time.Duration(float64(spent) * (1 - part) / part).Round(time.Minute)
	if left < time.Minute {
		return ", less than a minute left"
	}
	return fmt.Sprintf(", about %d min left", left/time.Minute)
}

// built is what is said at the end.
func (p *progress) built() string {
	compiled := fmt.Sprintf("%d packages compiled", len(p.started))
	if p.downloads > 0 {
		compiled = fmt.Sprintf("%d modules downloaded, %s", p.downloads, compiled)
	}
	return fmt.Sprintf("%s: built in %s (%s)", p.name, p.now().Sub(p.begun).Round(time.Second), compiled)
}

// show writes lines: over each other on a terminal, and elsewhere from time to time.
type show struct {
	to       io.Writer
	now      func() time.Time
	terminal bool
	stands   bool // a line stands on the terminal
	wrote    time.Time
}

func newShow(to *os.File, now func() time.Time) *show {
	info, err := to.Stat()
	return &show{to: to, now: now, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0, wrote: now()}
}

// rest is how long nothing is written where lines stay: what takes less needs no progress.
const rest = 15 * time.Second

const overwrite = "\r\x1b[K"

// line shows how far the build is.
func (s *show) line(text string) {
	switch {
	case s.terminal:
		fmt.Fprintf(s.to, "%s%s", overwrite, text)
		s.stands = true
	case s.now().Sub(s.wrote) >= rest:
		fmt.Fprintln(s.to, text)
		s.wrote = s.now()
	}
}

// clear makes room for something else.
func (s *show) clear() {
	if s.stands {
		fmt.Fprintf(s.to, "%s", overwrite)
		s.stands = false
	}
}

// last shows a line that stays.
func (s *show) last(text string) {
	s.clear()
	fmt.Fprintln(s.to, text)
}
