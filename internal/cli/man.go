package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// man is the command man.
func (s *session) man() *cobra.Command {
	return &cobra.Command{
		Use: "man FOLDER", Short: "Write the manual pages of all commands into a folder",
		Long: "Write the manual pages of all commands, in section 1, into a folder, which is made where it is not there. What is there under their names is replaced.",
		Example: `  drover man ~/.local/share/man/man1
  man drover-cluster-add`,
		Args: numbered(1, 1, "a folder"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { // #nosec G301 -- pages are for everybody
				return errUsage{err}
			}
			pages := 0
			for name, text := range manPages(c.Root()) {
				pages++
				if err := os.WriteFile(filepath.Join(args[0], name), []byte(text), 0o644); err != nil { // #nosec G306 -- the same
					return errUsage{err}
				}
			}
			s.sayf("%d pages written to %s", pages, args[0])
			return nil
		},
	}
}

// manPages are the pages of a command and those below it, by their files' names.
func manPages(c *cobra.Command) map[string]string {
	c.InitDefaultHelpFlag()
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	pages := map[string]string{name + ".1": manPage(c, name)}
	for _, sub := range c.Commands() {
		if sub.Name() == "help" || sub.Hidden {
			continue
		}
		for file, text := range manPages(sub) {
			pages[file] = text
		}
	}
	return pages
}

// manPage is one in roff.
func manPage(c *cobra.Command, name string) string {
	var b strings.Builder
	section := func(title, text string, asIs bool) {
		if text == "" {
			return
		}
		fmt.Fprintf(&b, ".SH %s\n", title)
		if asIs {
			b.WriteString(".nf\n")
		}
		b.WriteString(roff(strings.Trim(text, "\n")) + "\n")
		if asIs {
			b.WriteString(".fi\n")
		}
	}
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"drover\" \"drover manual\"\n", roff(strings.ToUpper(name)))
	section("NAME", name+` \- `+c.Short, false)
	section("SYNOPSIS", c.UseLine(), false)
	if c.DisableFlagParsing {
		section("DESCRIPTION", c.Short+". Its flags: "+c.CommandPath()+" -h.", false)
		return b.String()
	}
	section("DESCRIPTION", or(c.Long, c.Short+"."), true)
	section("EXAMPLES", c.Example, true)
	section("OPTIONS", flagsOf(c.LocalNonPersistentFlags()), true)
	section("OPTIONS OF EVERY COMMAND", flagsOf(c.Root().PersistentFlags()), true)
	section("EXIT STATUS", aboutExitCodes, true)
	var also []string
	if c.HasParent() {
		also = append(also, strings.ReplaceAll(c.Parent().CommandPath(), " ", "-")+"(1)")
	}
	for _, sub := range c.Commands() {
		if sub.Name() != "help" && !sub.Hidden {
			also = append(also, strings.ReplaceAll(sub.CommandPath(), " ", "-")+"(1)")
		}
	}
	section("SEE ALSO", strings.Join(also, ", "), false)
	return b.String()
}

// roff is text that says what it said: a backslash, and a dot or a quote at the beginning of a line, would be a request. The sign that divides
// the name of a page from what it is about stays one.
func roff(text string) string {
	const divides = ` \- `
	parts := strings.Split(text, divides)
	for i := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(parts[i], `\`, `\e`), "-", `\-`)
	}
	lines := strings.Split(strings.Join(parts, divides), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
