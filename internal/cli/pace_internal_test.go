package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
)

func TestPace(t *testing.T) {
	var p pace
	at := time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)
	require.Empty(t, p.say(10, 100, at))
	require.Empty(t, p.say(20, 100, at.Add(time.Second)), "it would be a guess")
	require.Equal(t, "  10/s, about 5s left", p.say(50, 100, at.Add(4*time.Second)))
	require.Empty(t, p.say(100, 100, at.Add(5*time.Second)))
	require.Empty(t, p.say(3, 100, at.Add(6*time.Second)), "another operation")
	require.Equal(t, "  1/s, about 1m33s left", p.say(7, 100, at.Add(10*time.Second)))
}

// TestAClusterThatIsAway: it is named while something of its own is left to be done there, and not for what others have to do.
func TestAClusterThatIsAway(t *testing.T) {
	of := func(name string, connectivity domain.Connectivity, states ...domain.ResourceState) status.DocumentCluster {
		c := status.DocumentCluster{Provider: "p", Name: name, Connectivity: connectivity}
		for _, s := range states {
			c.Resources = append(c.Resources, status.DocumentResource{Status: s})
		}
		return c
	}
	d := &status.Document{Apps: []status.DocumentApp{{Name: "web", Clusters: []status.DocumentCluster{
		of("busy", domain.ConnectivityAvailable, domain.ResourceApplied, domain.ResourcePending),
		of("done", domain.ConnectivityRetrying, domain.ResourceApplied),
		of("away", domain.ConnectivityRetrying, domain.ResourceRetrying),
	}}}}
	require.Equal(t, "  web  2 of 4 Applied on 3 clusters, 1 of which done; 1 cluster retried: p+away", progress(d, domain.OpInstantiate)[1])
	for i := range d.Apps[0].Clusters { // as counts say the same, with what the cluster has said last
		c := &d.Apps[0].Clusters[i]
		c.Deployed, c.Resources, c.LastError = deployedOf(*c), nil, "refused by "+c.Name
	}
	require.Equal(t, "  web  2 of 4 Applied on 3 clusters, 1 of which done; 1 cluster retried: p+away (refused by away)", progress(d, domain.OpInstantiate)[1])
}

// TestWhatIsMeantToBeOtherwise: of an operation that has ended as it was to, what stays and what hooks have left is not counted as work that is missing.
func TestWhatIsMeantToBeOtherwise(t *testing.T) {
	of := func(at domain.ContextStatus, counts map[domain.ResourceState]int) *status.Document {
		c := func(name string) status.DocumentCluster {
			return status.DocumentCluster{Provider: "p", Name: name, Deployed: counts}
		}
		return documentOf(at, c("one"), c("two"))
	}
	kept := map[domain.ResourceState]int{domain.ResourceDeleted: 3, domain.ResourceApplied: 1}
	require.Equal(t, "  web  6 of 8 Deleted on 2 clusters, 0 of which done", progress(of(domain.ContextTerminating, kept), domain.OpTerminate)[1])
	require.Equal(t, "  web  6 of 8 Deleted on 2 clusters, 2 are meant to stay", progress(of(domain.ContextTerminated, kept), domain.OpTerminate)[1])
	hooks := map[domain.ResourceState]int{domain.ResourceApplied: 3, domain.ResourcePending: 1, domain.ResourceDeleted: 1}
	require.Equal(t, "  web  6 of 10 Applied on 2 clusters, 0 of which done", progress(of(domain.ContextInstantiating, hooks), domain.OpUpdate)[1])
	require.Equal(t, "  web  6 of 10 Applied on 2 clusters, the other 4 are hooks: of other operations, or tidied up", progress(of(domain.ContextInstantiated, hooks), domain.OpUpdate)[1])
	require.Equal(t, "  web  6 of 10 Applied on 2 clusters, 0 of which done", progress(of(domain.ContextInstantiateFailed, hooks), domain.OpUpdate)[1])
	one := map[domain.ResourceState]int{domain.ResourceDeleted: 3, domain.ResourceApplied: 1}
	d := documentOf(domain.ContextTerminated, status.DocumentCluster{Provider: "p", Name: "one", Deployed: one})
	require.Equal(t, "  web  3 of 4 Deleted on 1 cluster, 1 is meant to stay", progress(d, domain.OpTerminate)[1])
	hook := map[domain.ResourceState]int{domain.ResourceApplied: 3, domain.ResourcePending: 1}
	d = documentOf(domain.ContextInstantiated, status.DocumentCluster{Provider: "p", Name: "one", Deployed: hook})
	require.Equal(t, "  web  3 of 4 Applied on 1 cluster, the other one is a hook: of another operation, or tidied up", progress(d, domain.OpInstantiate)[1])
}

// TestAReasonThatSaysWaits: the word is not said twice.
func TestAReasonThatSaysWaits(t *testing.T) {
	of := func(reason string) *status.Document {
		return documentOf(domain.ContextInstantiating, status.DocumentCluster{Name: "one", Reason: reason, Deployed: map[domain.ResourceState]int{domain.ResourcePending: 1}})
	}
	require.Equal(t, "  web  0 of 1 Applied on 1 cluster; waits for the pre-install hook Job web", progress(of("waits for the pre-install hook Job web"), domain.OpInstantiate)[1])
	require.Equal(t, "  web  0 of 1 Applied on 1 cluster; waits: app db is not Ready", progress(of("app db is not Ready"), domain.OpInstantiate)[1])
}

func documentOf(at domain.ContextStatus, clusters ...status.DocumentCluster) *status.Document {
	return &status.Document{Status: at, Apps: []status.DocumentApp{{Name: "web", Clusters: clusters}}}
}

func TestWhatIsWaitedFor(t *testing.T) {
	one := func(reason string) status.DocumentCluster { return status.DocumentCluster{Reason: reason} }
	require.Empty(t, waitingFor([]status.DocumentCluster{one(""), {Reason: "it is away", Connectivity: domain.ConnectivityRetrying}}))
	require.Equal(t, "app db is not Ready (and 1 other reason)", waitingFor([]status.DocumentCluster{one("x"), one("app db is not Ready"), one("app db is not Ready")}))
}

// TestLinesOfATerminal: a line that is longer than the terminal is wide says that there is more.
func TestLinesOfATerminal(t *testing.T) {
	for width, want := range map[int]string{0: "äbcdef", 7: "äbcdef", 6: "äbcdef", 5: "äbcd…", 1: "…"} {
		s := &session{Options: Options{Width: func() int { return width }}}
		require.Equal(t, want, s.fitting("äbcdef"), "%d", width)
	}
	require.Equal(t, "äbcdef", (&session{}).fitting("äbcdef"))
	for width, want := range map[int]string{9: "東京 東京", 8: "東京 東…", 7: "東京 …", 6: "東京 …", 5: "東京…", 4: "東…", 2: "…"} {
		s := &session{Options: Options{Width: func() int { return width }}}
		require.Equal(t, want, s.fitting("東京 東京"), "%d", width)
	}
}

// screen is a terminal of a width that knows what a picture sends: up, clear the line, and whether a line goes on in the next one.
type screen struct {
	width    int
	lines    []string
	row, col int
	cut      bool // what is over the width is not shown
}

func (s *screen) Write(b []byte) (int, error) {
	for text := string(b); text != ""; s.at() {
		s.at()
		var up int
		rest, found := strings.CutPrefix(text, "\x1b[")
		switch {
		case found && strings.HasPrefix(rest, "2K"):
			s.lines[s.row], text = "", rest[2:]
		case found && strings.HasPrefix(rest, "?7l"), found && strings.HasPrefix(rest, "?7h"):
			s.cut, text = rest[2] == 'l', rest[3:]
		case found:
			if _, err := fmt.Sscanf(rest, "%dA", &up); err != nil {
				return 0, fmt.Errorf("unknown: %q", text)
			}
			s.row, text = max(s.row-up, 0), rest[strings.Index(rest, "A")+1:]
		case text[0] == '\n':
			s.row, s.col, text = s.row+1, 0, text[1:]
		default:
			r, n := utf8.DecodeRuneInString(text)
			text = text[n:]
			if s.col == s.width {
				if s.cut {
					continue
				}
				s.row, s.col = s.row+1, 0
			}
			s.at()
			s.lines[s.row] += string(r)
			s.col++
		}
	}
	return len(b), nil
}

// at has a line where the cursor is.
func (s *screen) at() {
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, "")
	}
}

// TestThePictureOfATerminal: it stays in its place, whatever comes and goes in it, and what was said meanwhile stays above the next one.
func TestThePictureOfATerminal(t *testing.T) {
	terminal := &screen{width: 48}
	s := &session{Options: Options{Out: terminal, Err: terminal, Terminal: true}}
	p := s.picture()
	show := func(stands domain.ContextStatus, wanted ...string) {
		t.Helper()
		d := &status.Document{Status: stands}
		for i := 1; i < len(wanted); i++ {
			d.Apps = append(d.Apps, status.DocumentApp{Name: fmt.Sprint("app", i), Clusters: []status.DocumentCluster{
				{Provider: "p", Name: "c", Connectivity: domain.ConnectivityRetrying, LastError: "connection refused", Deployed: map[domain.ResourceState]int{domain.ResourcePending: i}},
			}})
		}
		p.show(d, domain.OpInstantiate)
		at := len(terminal.lines) - 1 // below it
		for terminal.lines[at] == "" && at > 0 {
			at--
		}
		require.Equal(t, wanted, terminal.lines[at+1-len(wanted):at+1], "of %q", terminal.lines)
	}
	const one, two = "  app1  0 of 1 Applied on 1 cluster; 1 cluster r", "  app2  0 of 2 Applied on 1 cluster; 1 cluster r"
	require.Len(t, one, terminal.width)
	show("Instantiating", "Instantiating", one)
	show("Instantiating", "Instantiating", one, two)
	require.Len(t, terminal.lines, 4, "in place of the first one")
	show("Instantiated", "Instantiated")
	require.Equal(t, []string{"Instantiated", "", "", ""}, terminal.lines, "what is gone is not seen")
	show("Instantiating", "Instantiating", one, two)
	require.Len(t, terminal.lines, 4)
	s.note("the API does not answer")
	show("Updating", "Updating", one)
	show("Updated", "Updated", one)
	require.Equal(t, []string{"Instantiating", one, two, "the API does not answer", "Updated", one, ""}, terminal.lines)
	p.show(&status.Document{Apps: make([]status.DocumentApp, mostLines+6)}, domain.OpInstantiate)
	require.Equal(t, "  and 7 more", terminal.lines[len(terminal.lines)-2])
}

// TestCompletionIsBounded: a shell waits for no value of a flag for longer than for names.
func TestCompletionIsBounded(t *testing.T) {
	c := &cobra.Command{Use: "x"}
	c.Flags().String("f", "", "")
	c.SetContext(t.Context())
	bounded := false
	(&session{}).completeFlagBeside(c, "f", func(c *cobra.Command, _ []string) []string {
		_, bounded = c.Context().Deadline()
		return nil
	})
	propose, ok := c.GetFlagCompletionFunc("f")
	require.True(t, ok)
	propose(c, nil, "")
	require.True(t, bounded)
}
