package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// aboutCompletion is what the manual says of cobra's command, whose help is long.
const aboutCompletion = `
### drover completion

Print the script by which a shell completes commands, flags, nouns, and names, which come from the server. 'drover completion bash --help' and so on say
where a shell looks for it.

` + "```" + `
drover completion (bash | zsh | fish | powershell)

  source <(drover completion bash)
  drover completion zsh > "${fpath[1]}/_drover"
  drover completion fish > ~/.config/fish/completions/drover.fish
` + "```" + `

For "kubectl drover" the completion of kubectl asks a program in PATH that is called kubectl_complete-drover:

` + "```" + `
#!/bin/sh
exec kubectl-drover __complete "$@"
` + "```" + `
`

// aboutForms is what scripts may count on.
const aboutForms = `What -o json, -o yaml and jsonpath print is for scripts: members are added to it, and none is renamed or taken away. Words and tables are for people, and may
change. Nothing is coloured, so that NO_COLOR need not be set; lines that stay in their places, as of --watch and --wait, are written to a terminal alone.`

// Manual writes what the help of all commands says as one document, docs/cli.md.
func Manual(w io.Writer, processes []Process) error {
	s := &session{Options: Options{Program: "drover", Processes: processes, Getenv: func(string) string { return "" }}}
	root := s.root()
	root.InitDefaultHelpCmd()
	var b strings.Builder
	b.WriteString("# The command drover\n\nWritten from the help of the commands by `go test ./cmd/drover -run TestTheManualIsTheHelp -update`.\n\n" + aboutPlugin + "\n\n")
	b.WriteString("Exit codes:\n\n```\n" + aboutExitCodes + "\n```\n\n")
	b.WriteString(aboutForms + "\n\n")
	b.WriteString("Flags of every command:\n\n```\n" + flagsOf(root.PersistentFlags()) + "```\n")
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(g.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID && c.Name() != "help" && c.Name() != "completion" {
				describeCommand(&b, c)
			}
		}
		if g.ID == groupConnect {
			b.WriteString(aboutCompletion)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// describeCommand writes a command and those below it.
func describeCommand(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "\n### %s\n\n", c.CommandPath())
	if c.DisableFlagParsing {
		fmt.Fprintf(b, "%s. Its flags: `%s -h`.\n", c.Short, c.CommandPath())
		return
	}
	text := or(c.Long, c.Short+".")
	if strings.Contains(text, "\n  ") { // words in columns stay as they are
		text = "```\n" + text + "\n```"
	}
	fmt.Fprintf(b, "%s\n\n```\n%s\n", text, c.UseLine())
	if c.Example != "" {
		fmt.Fprintf(b, "\n%s\n", c.Example)
	}
	if flags := flagsOf(c.LocalNonPersistentFlags()); flags != "" {
		fmt.Fprintf(b, "\n%s", flags)
	}
	b.WriteString("```\n")
	for _, sub := range c.Commands() {
		describeCommand(b, sub)
	}
}

func flagsOf(f *pflag.FlagSet) string {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.VisitAll(func(one *pflag.Flag) {
		if one.Name != "help" {
			shown.AddFlag(one)
		}
	})
	return shown.FlagUsages()
}
