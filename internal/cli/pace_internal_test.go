package cli

import (
	"testing"
	"time"

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
