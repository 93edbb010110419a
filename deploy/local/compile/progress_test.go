package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clock is a time that stands.
type clock struct{ t time.Time }

func (c *clock) now() time.Time          { return c.t }
func (c *clock) advance(d time.Duration) { c.t = c.t.Add(d) }

func TestProgress(t *testing.T) {
	c := &clock{t: time.Unix(0, 0)}
	p := progress{name: "servers", parallel: 2, now: c.now, begun: c.t, modules: 10}
	require.Equal(t, "servers: looking for what is to be compiled", p.line())
	p.downloads = 3
	require.Equal(t, "servers: downloading modules, 3 of 10 at most", p.line())
	p.downloads = 11
	require.Equal(t, "servers: downloading modules, 11 of 11 at most", p.line(), "what go.sum does not say")

	for _, name := range []string{"a", "b", "c", "d", "e"} {
		p.add(name, 100)
	}
	require.True(t, p.knows("a"))
	require.False(t, p.knows("x"))
	require.Equal(t, "servers: looking for what is to be compiled", p.line())
	p.compiling("a")
	p.compiling("b")
	require.Equal(t, "servers: compiling package 2 of 5", p.line(), "none has ended: nobody knows how fast it goes")
	c.advance(5 * time.Minute)
	p.compiling("c")
	require.Equal(t, "servers: compiling package 3 of 5, about 20 min left", p.line(), "a fifth took 5 minutes: a has ended, b and c run")
	c.advance(5 * time.Minute)
	p.compiling("d")
	require.Equal(t, "servers: compiling package 4 of 5, about 15 min left", p.line())
	p.compiling("e")
	require.Equal(t, "servers: compiled 5 packages, linking", p.line())
	c.advance(time.Minute)
	require.Equal(t, "servers: built in 11m0s (11 modules downloaded, 5 packages compiled)", p.built())
}

func TestLittleIsLeft(t *testing.T) {
	c := &clock{t: time.Unix(0, 0)}
	p := progress{name: "servers", now: c.now, begun: c.t}
	p.add("large", 990)
	p.add("small", 10)
	p.add("last", 1)
	p.compiling("large")
	c.advance(time.Minute)
	p.compiling("small")
	require.Equal(t, "servers: compiling package 2 of 3, less than a minute left", p.line())
}

func TestShow(t *testing.T) {
	c, out := &clock{t: time.Unix(0, 0)}, &strings.Builder{}
	log := &show{to: out, now: c.now, wrote: c.t}
	log.line("early")
	c.advance(rest)
	log.line("one")
	log.line("two")
	log.clear()
	log.last("done")
	require.Equal(t, "one\ndone\n", out.String(), "in a file: a line from time to time")

	out.Reset()
	terminal := &show{to: out, now: c.now, terminal: true}
	terminal.line("one")
	terminal.line("two")
	terminal.clear()
	terminal.last("done")
	require.Equal(t, overwrite+"one"+overwrite+"two"+overwrite+"done\n", out.String(), "on a terminal: one line")
}
