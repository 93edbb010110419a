package explore

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// step is one line of a sequence: who does what, and how. Who is a group (a, b), the logical cloud of level 1 that a sequence with such
// steps has (cloud), the network intents of the first cluster (networks), a tenant whose matches are made in the fourth one (tenant), a cluster of
// the sequence (cluster1), a server or process (worker, api, api2, store, temporal), or we, who wait, or who share the clusters of the sequence
// before. An example:
//
//	a change n=2 on=13 job=slow
//	a approve
//	a instantiate beside
//	worker kill write=7 for=300ms
//	a terminate lost=20ms
type step struct {
	Who, Do string
	Args    string // name=value, or a word, separated by spaces
}

func (s step) String() string { return strings.TrimSpace(s.Who + " " + s.Do + " " + s.Args) }

// word says whether the arguments have a word.
func (s step) word(w string) bool { return slices.Contains(strings.Fields(s.Args), w) }

// arg is the value of an argument, "" when it is not given.
func (s step) arg(name string) string {
	for _, a := range strings.Fields(s.Args) {
		if value, ok := strings.CutPrefix(a, name+"="); ok {
			return value
		}
	}
	return ""
}

// number is an argument that is a number, 0 when it is not given.
func (s step) number(name string) int {
	n, _ := strconv.Atoi(s.arg(name))
	return n
}

// duration is an argument that is a duration, 0 when it is not given.
func (s step) duration(name string) time.Duration {
	d, _ := time.ParseDuration(s.arg(name))
	return d
}

// sequence is what one user does with the groups a and b, and what happens meanwhile.
type sequence []step

func (q sequence) String() string {
	lines := make([]string, len(q))
	for i, s := range q {
		lines[i] = s.String()
	}
	return strings.Join(lines, "\n")
}

// sharing is the step, first in a sequence, by which it has the clusters of the sequence before it.
var sharing = step{"we", "share", ""}

// shares says whether the sequence is to have the clusters of the one before it.
func (q sequence) shares() bool { return len(q) > 0 && q[0] == sharing }

// read reads sequences from a file. They are parted by empty lines and run side by side; what follows a # is for people.
func read(t testing.TB, file string) (all []sequence) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var q sequence
	for line := range strings.Lines(string(data) + "\n\n") {
		text, _, comment := strings.Cut(line, "#")
		words := strings.Fields(text)
		switch {
		case len(words) >= 2:
			q = append(q, step{words[0], words[1], strings.Join(words[2:], " ")})
		case len(words) == 0 && !comment && len(q) > 0:
			all, q = append(all, q), nil
		default:
			require.True(t, len(words) == 0, "%s: %q is no step", file, line)
		}
	}
	return all
}

// Bounds of what is drawn.
const (
	clustersEach = 3
	mostMoves    = 7
)

// sequences draws one: moves that make sense where a group probably is, and some that do not.
func sequences() *rapid.Generator[sequence] {
	return rapid.Custom(func(t *rapid.T) (q sequence) {
		where := map[string]string{"a": "new", "b": "new"}
		own := rapid.IntRange(0, 2).Draw(t, "a cloud of level 1") == 0
		shared := rapid.IntRange(0, 2).Draw(t, "on the clusters of the one before") == 0
		networks := !shared && rapid.IntRange(0, 3).Draw(t, "network intents") == 0 // they are the clusters', and not of a sequence
		tenant := rapid.IntRange(0, 2).Draw(t, "a tenant") == 0
		if shared {
			q = append(q, sharing)
		}
		if tenant {
			q = append(q, step{"tenant", "rule", ""}, step{"tenant", "run", "n=2"})
		}
		if own {
			q = append(q, beginning(t)...)
		}
		for range rapid.IntRange(2, mostMoves).Draw(t, "moves") {
			if own && rapid.IntRange(0, 3).Draw(t, "the cloud") == 0 {
				for _, do := range strings.Fields(rapid.SampledFrom(cloudMoves).Draw(t, "move of the cloud")) {
					q = append(q, complete(t, "cloud", do))
				}
			}
			if networks && rapid.IntRange(0, 1).Draw(t, "the networks") == 0 {
				q = append(q, networksOf(t)...)
			}
			if tenant && rapid.IntRange(0, 1).Draw(t, "the tenant") == 0 {
				q = append(q, tenantOf(t)...)
			}
			q = append(q, move(t, where)...)
		}
		return q
	})
}

// moves are the steps that make sense, by where a group is.
var moves = map[string][]string{
	"new": {
		"approve instantiate", "approve instantiate await", "change approve instantiate await", "approve instantiate await change update", "approve",
	},
	"approved": {"instantiate", "instantiate await", "change approve instantiate"},
	"on": {
		"update", "change update", "change update await", "change update stop", "change update update", "change update await rollback", "await",
		"stop", "stop await change update", "terminate", "terminate await", "terminate stop terminate", "stop terminate", "handover", "handover",
		"handover await", "handover stop", "handover await rollback", "handover change update", "handover terminate", "change update await rollback stop", "reapply", "reapply await", "reapply stop", "change reapply await", "reapply terminate",
		"change update await change update await rollback rollback", "rollback change update", "rollback terminate", "cancel", "end", "end terminate", "end update", "change update end",
	},
	"off": {
		"approve instantiate", "instantiate", "await approve instantiate await", "await instantiate await", "terminate", "await delete describe",
		"await delete", "stop", "end", "end terminate", "change",
	},
}

// move draws what is done next, and notes where that brings a group.
func move(t *rapid.T, where map[string]string) (q sequence) {
	who := "a"
	if where["b"] == "on" || rapid.IntRange(0, 9).Draw(t, "the other group") == 0 {
		who = "b"
	}
	faulty := rapid.IntRange(0, 2).Draw(t, "with a fault") == 0
	if rapid.IntRange(0, 5).Draw(t, "something that makes no sense") == 0 {
		return append(q, steps().Draw(t, "step"))
	}
	words := strings.Fields(rapid.SampledFrom(moves[where[who]]).Draw(t, "move"))
	at := rapid.IntRange(0, len(words)-1).Draw(t, "fault before")
	for i, do := range words {
		if faulty && i == at {
			q = append(q, faults().Draw(t, "fault"))
		}
		next := who
		switch do {
		case "approve":
			where[who] = "approved"
		case "instantiate":
			where[who] = "on"
		case "terminate":
			where[who] = "off"
		case "delete":
			where[who] = "new"
		case "handover":
			other := map[string]string{"a": "b", "b": "a"}[who]
			q = append(q, step{other, "approve", ""})
			do, where[who], where[other], next = "migrate", "new", "on", other
		}
		q = append(q, complete(t, who, do))
		who = next
	}
	return q
}

// how is the way in which a user asks.
func how(t *rapid.T) string {
	switch rapid.IntRange(0, 9).Draw(t, "how") {
	case 9:
		return "twice"
	case 8:
		return fmt.Sprintf("lost=%dms", rapid.SampledFrom([]int{1, 5, 20, 60, 200}).Draw(t, "after"))
	case 6, 7:
		return "beside"
	default:
		return ""
	}
}

func with(args ...string) string { return strings.Join(strings.Fields(strings.Join(args, " ")), " ") }

func steps() *rapid.Generator[step] {
	return rapid.Custom(func(t *rapid.T) step {
		return complete(t, rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "who"), rapid.SampledFrom([]string{
			"update", "terminate", "stop", "change", "await", "wait", "rollback", "migrate", "approve", "instantiate", "delete", "describe",
			"cancel", "end",
		}).Draw(t, "do"))
	})
}

// complete draws how a step is done.
func complete(t *rapid.T, who, do string) step {
	switch do {
	case "wait":
		return step{"we", "wait", fmt.Sprintf("for=%dms", rapid.SampledFrom([]int{1, 10, 50, 200, 700}).Draw(t, "ms"))}
	case "await":
		return step{who, "await", ""}
	case "change":
		if who == "cloud" {
			return step{who, do, how(t)}
		}
		return step{who, do, with(
			fmt.Sprintf("n=%d", rapid.IntRange(0, 3).Draw(t, "n")),
			"on="+rapid.SampledFrom([]string{"1", "2", "12", "13", "23", "123", "edge"}).Draw(t, "on"),
			rapid.SampledFrom([]string{"", "", "", "job=ends", "job=slow", "job=fails"}).Draw(t, "job"),
			rapid.SampledFrom([]string{"", "", "", "with=fixed", "with=crd"}).Draw(t, "with"),
			how(t))}
	case "rollback":
		return step{who, do, with(fmt.Sprintf("to=%d", rapid.IntRange(0, 3).Draw(t, "to")), how(t))}
	case "cancel", "end":
		return step{who, do, rapid.SampledFrom([]string{"root", "root", "app", "leaf"}).Draw(t, "of")}
	default:
		return step{who, do, how(t)}
	}
}

func faults() *rapid.Generator[step] {
	return rapid.Custom(func(t *rapid.T) step {
		ms := func(of ...int) string { return fmt.Sprintf("%dms", rapid.SampledFrom(of).Draw(t, "ms")) }
		if rapid.IntRange(0, 4).Draw(t, "where") > 0 {
			return step{
				fmt.Sprintf("cluster%d", rapid.IntRange(1, clustersEach).Draw(t, "cluster")),
				rapid.SampledFrom([]string{"hang", "refuse", "cut", "slow", "fail", "limit", "heal", "forbid", "rotate", "revoke"}).Draw(t, "fault"), "",
			}
		}
		who := rapid.SampledFrom([]string{"worker", "worker", "worker2", "api", "api2", "store", "temporal"}).Draw(t, "process")
		do := rapid.SampledFrom([]string{"kill", "kill", "freeze"}).Draw(t, "fault")
		switch who {
		case "store":
			do = rapid.SampledFrom([]string{"kill", "freeze", "late", "lose"}).Draw(t, "fault of the store")
		case "temporal":
			do = rapid.SampledFrom([]string{"kill", "freeze", "slow", "lose"}).Draw(t, "fault of Temporal")
		}
		long := []int{0, 0, 300, 1500, 4000}
		if do == "freeze" && strings.HasPrefix(who, "worker") {
			long = []int{300, 1500, 7000, 9000} // heartbeats are missed after 5 s, and the other worker goes on
		}
		return step{who, do, with(
			fmt.Sprintf("write=%d", rapid.IntRange(1, 12).Draw(t, "write")),
			rapid.SampledFrom([]string{"", "", "done"}).Draw(t, "when"), "for="+ms(long...))}
	})
}
