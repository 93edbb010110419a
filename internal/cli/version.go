package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/internal/version"
)

// versions is what the command version shows.
type versions struct {
	Client version.Info  `json:"client"`
	Server *version.Info `json:"server,omitempty"`
	// Differ says whether the two were not built from the same sources; missing when the API was not asked.
	Differ *bool `json:"differ,omitempty"`
	// Installation is the id of the installation that the server is of; missing when it does not know who asks.
	Installation string `json:"installation,omitempty"`
}

// version is the command version.
func (s *session) version() *cobra.Command {
	c := &cobra.Command{
		Use: "version", Short: "Say what this command and the API were built from, and whether they differ",
		Example: "  drover version\n  drover version --client -o json", Args: noArguments,
	}
	alone := c.Flags().Bool("client", false, "do not ask the API")
	output := c.Flags().StringP("output", "o", "", "the `form`: json, yaml or jsonpath=TEMPLATE; words when missing")
	c.RunE = func(c *cobra.Command, _ []string) error { return s.showVersion(c.Context(), *alone, *output) }
	return c
}

func (s *session) showVersion(ctx context.Context, alone bool, output string) error {
	p, err := newValuePrinter(output)
	if err != nil {
		return err
	}
	v := versions{Client: version.Of()}
	var asked error
	if !alone {
		api, err := s.api()
		if err != nil {
			return err
		}
		if v.Server, asked = api.Version(ctx); asked != nil {
			v.Server = nil
		} else if who, err := api.Whoami(ctx, nil); err == nil { // which is told to callers who are known
			v.Installation = who.Installation
		}
		if v.Server != nil {
			differ := v.Server.Version != v.Client.Version || v.Server.Revision != v.Client.Revision
			v.Differ = &differ
		}
	}
	if !p.people() {
		if err := p.value(s.Out, v); err != nil {
			return err
		}
		return asked
	}
	fmt.Fprintf(s.Out, "Client: %s\n", called(v.Client))
	if v.Server != nil {
		fmt.Fprintf(s.Out, "Server: %s\n", called(*v.Server))
		if v.Installation != "" {
			fmt.Fprintf(s.Out, "Installation: %s\n", v.Installation)
		}
		if *v.Differ {
			s.warn([]string{"they were not built from the same sources: what one of them knows the other may not"})
		}
	}
	return asked
}

// called is a version for people.
func called(i version.Info) string {
	text := i.Version
	if i.Revision != "" {
		text += " (" + i.Revision[:min(len(i.Revision), 12)]
		if i.Modified {
			text += ", changed"
		}
		text += ")"
	}
	return text + " " + i.Go
}
