// Package cli is the client command: what users of kubectl expect, over the typed client of the API. One noun or verb has one
// file. A command reads what it needs, asks the API and prints; what the API knows (nouns, operations, plans, reasons) is not
// known here a second time.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/nearest"
)

// Options are what a run of the command is given by the program.
type Options struct {
	Program  string   // how the program is called: drover, or kubectl drover
	Args     []string // without the program
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Terminal bool // Out is a terminal
	// Width is how many characters a line of the terminal has now, 0 where that is not known; nil where Out is none.
	Width func() int
	// Lend runs what starts a program that has the terminal, and Ctrl-C, for as long as it takes; nil where nobody listens to Ctrl-C.
	Lend func(run func() error) error
	// Processes are the commands that are none of the client: servers and agents, which read their flags themselves.
	Processes []Process
}

// Process is a command that reads its own flags.
type Process struct {
	Name, Short string
	Under       string // the command that it belongs to, "" for the program
	Run         func(ctx context.Context, args []string) error
}

// The exit codes. aboutExitCodes, which the manual has, says the same.
const (
	exitDone        = 0
	exitFailed      = 1   // something was refused, has failed, or ended otherwise than asked for
	exitUsage       = 2   // the command line or a file on this machine is wrong; nothing was changed
	exitNotFound    = 3   // what is named is not there
	exitForbidden   = 4   // who asks is not known, or may not
	exitUnreachable = 5   // who was asked does not answer
	exitTimeout     = 6   // time was over before it was done; of many things, for all that failed
	exitDiffers     = 7   // of diff --exit-code: something would be done
	exitInterrupted = 130 // Ctrl-C
)

const aboutExitCodes = `  0    done
  1    something was refused, has failed, or has ended otherwise than asked for
  2    the command line, or a file of this machine, is wrong; nothing was changed
  3    what is named is not there
  4    who asks is not known (see "login"), or may not
  5    the API, a cluster or a provider of logins does not answer
  6    time was over (--timeout) before it was done; of many things, for all that failed
  7    "diff --exit-code": something would be done, and nothing has failed
  130  interrupted (Ctrl-C); an operation that was accepted goes on`

const aboutPlugin = `It is a plugin of kubectl, too: with a link to it in PATH that is called kubectl-drover, "kubectl drover get groups" is the same.`

// session is one run of the command.
type session struct {
	Options
	flags  globals
	client *client.Client // once something was asked
	ran    bool           // the command line was understood
	begins bool           // the command makes the file of contexts where there is none
	warned sync.Once      // that others can read the file of contexts
	busy   sync.Once      // that the API has refused something for now
	notes  atomic.Int64   // how many were said
}

// globals are the flags of every command.
type globals struct {
	config, context, server, token, tokenFile, ca, certificate, key, project string
	plaintext, quiet                                                         bool
	changed                                                                  func(name string) bool // says that one is given, also as ""
}

// errUsage is an error of the command line.
type errUsage struct{ error }

// Usage marks an error of the command line of a Process.
func Usage(err error) error { return errUsage{err} }

func usage(format string, args ...any) error { return errUsage{fmt.Errorf(format, args...)} }

// errSaid ends the command with a code when all has been said.
type errSaid struct{ code int }

func (e errSaid) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// Main runs the command and returns the code to exit with.
func Main(ctx context.Context, o Options) int {
	s := &session{Options: o}
	out := &people{to: o.Out, terminal: o.Terminal}
	s.In, s.Out, s.Err = &input{ctx, o.In}, out, &people{to: o.Err, terminal: true}
	root := s.root()
	root.SetArgs(o.Args)
	err := root.ExecuteContext(ctx)
	defer func() {
		if s.client != nil {
			s.client.Close()
		}
	}()
	if err != nil && !s.ran {
		var used errUsage
		if !errors.As(err, &used) {
			err = errUsage{err}
		}
	}
	if lost := out.lost.Load(); err == nil && lost != nil { // what follows in a script takes half a list for the whole
		err = *lost
	}
	return s.end(ctx, err)
}

// end says what went wrong and gives the code for it.
func (s *session) end(ctx context.Context, err error) int {
	var said errSaid
	var used errUsage
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &said):
		return said.code
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(s.Err, "drover: interrupted")
		return exitInterrupted
	case errors.As(err, &used):
		fmt.Fprintf(s.Err, "drover: %s\n", s.asCalled(err.Error()))
		return exitUsage
	}
	fmt.Fprintf(s.Err, "drover: %s\n", s.asCalled(s.text(err)))
	switch variable := s.tokenVariable(); {
	case !fail.Is(err, fail.Unauthorized):
	case variable != "" && s.flags.token == "" && s.flags.tokenFile == "":
		fmt.Fprintf(s.Err, "The token is that of %s, which stands above every login\n", variable)
	default:
		fmt.Fprintf(s.Err, "Log in with: %s login %s%s\n", s.Program, s.server(), s.byToken(ctx))
	}
	return codeOf(err)
}

// codeOf is the exit code of an error.
func codeOf(err error) int {
	var said errSaid
	var used errUsage
	switch {
	case errors.As(err, &said):
		return said.code
	case errors.As(err, &used):
		return exitUsage
	}
	switch fail.KindOf(err) {
	case fail.NotFound:
		return exitNotFound
	case fail.Unauthorized, fail.Forbidden:
		return exitForbidden
	case fail.Unavailable:
		return exitUnreachable
	case fail.Timeout:
		return exitTimeout
	default:
		return exitFailed
	}
}

// text is an error for people: what the server has answered with its fields, one a line, and without the request that nobody
// has typed. What has had no answer has its cause, and names who was asked.
func (s *session) text(err error) string {
	var helped errHelped
	var answered *client.Error
	var unanswered *client.Unanswered
	var known *fail.Error
	switch {
	case errors.As(err, &helped):
		return s.text(helped.error) + "\n" + helped.help
	case errors.As(err, &answered) && errors.As(err, &known):
		text := known.Message
		if text == "" && len(known.Fields) == 0 {
			text = fmt.Sprintf("%s %s: %d", answered.Method, answered.Path, answered.Code)
		}
		for _, f := range known.Fields {
			if text != "" {
				text += "\n"
			}
			text += "  " + f.Path + ": " + f.Message
		}
		if answered.Code >= 500 && answered.RequestID != "" {
			text += "\n(request " + answered.RequestID + " in the server's log)"
		}
		return text
	case errors.As(err, &unanswered) && errors.As(err, &known) && known.Cause == nil: // something else has answered
		return fmt.Sprintf("%s (%s)", known.Message, s.server())
	case errors.As(err, &unanswered) && errors.As(err, &known):
		return fmt.Sprintf("%s (%s): %s", known.Message, s.server(), root(known.Cause))
	case errors.As(err, &known) && known.Cause != nil: // of a cluster, say
		text, cause := known.Text(), root(known.Cause).Error()
		if around, ok := strings.CutSuffix(err.Error(), known.Error()); ok {
			text = around + text
		}
		if !strings.Contains(text, cause) {
			text += ": " + cause
		}
		return text
	default:
		return err.Error()
	}
}

// root is the innermost error.
func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// note says something beside the result, unless the user wants it quiet.
func (s *session) note(format string, args ...any) {
	if !s.flags.quiet {
		s.notes.Add(1)
		fmt.Fprintf(s.Err, format+"\n", args...)
	}
}

// warn says warnings, which --quiet does not hide.
func (s *session) warn(warnings []string) {
	for _, w := range warnings {
		fmt.Fprintf(s.Err, "Warning: %s\n", w)
	}
}

// sayf says what was done, unless the user wants it quiet.
func (s *session) sayf(format string, args ...any) {
	if !s.flags.quiet {
		fmt.Fprintf(s.Out, format+"\n", args...)
	}
}

// Groups of commands, in the order of the help.
const (
	groupConnect  = "connect"
	groupDescribe = "describe"
	groupDeploy   = "deploy"
	groupOperate  = "operate"
	groupWatch    = "watch"
	groupProcess  = "process"
)

// root makes the tree of commands.
func (s *session) root() *cobra.Command {
	c := &cobra.Command{
		Use:         "drover",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: s.Program},
		Short:       "Deploy composite applications onto fleets of Kubernetes clusters",
		Long: `Deploy composite applications onto fleets of Kubernetes clusters, durably.

The API that is asked is that of the current context (see "context"), of DROVER_SERVER or of --server.

` + aboutPlugin + `

Exit codes:
` + aboutExitCodes,
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if err := c.ValidateFlagGroups(); err != nil { // which cobra does after this
				return err
			}
			s.ran = true
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		Args: noCommand,
	}
	c.SetIn(s.In)
	c.SetOut(s.Out)
	c.SetErr(s.Err)
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%w\nSee '%s --help'", err, c.CommandPath())
	})
	f := c.PersistentFlags()
	s.flags.changed = f.Changed
	f.StringVar(&s.flags.config, "config", "", "the `file` of contexts (DROVER_CONFIG; default drover/config.yaml in the user's config folder)")
	f.StringVar(&s.flags.context, "context", "", "the context to use (DROVER_CONTEXT)")
	f.StringVar(&s.flags.server, "server", "", "the `URL` of the API (DROVER_SERVER, which is host:port for the tenant-agent)")
	f.StringVar(&s.flags.token, "token", "", "the bearer token; others on this machine can see it, so rather DROVER_TOKEN or --token-file")
	f.StringVar(&s.flags.tokenFile, "token-file", "", "a `file` with the bearer token, - for the standard input (DROVER_TOKEN_FILE)")
	f.StringVar(&s.flags.ca, "ca", "", "a `file` with the certificates that the API's is checked by (DROVER_CA; default those of this machine)")
	f.StringVar(&s.flags.certificate, "client-certificate", "", "a `file` with the user's certificate (DROVER_CLIENT_CERTIFICATE)")
	f.StringVar(&s.flags.key, "client-key", "", "a `file` with its key (DROVER_CLIENT_KEY)")
	f.BoolVar(&s.flags.plaintext, "plaintext", false, "let a token go to another machine without TLS")
	f.StringVarP(&s.flags.project, "project", "p", "", "the project (DROVER_PROJECT)")
	f.BoolVarP(&s.flags.quiet, "quiet", "q", false, "say only what was asked for, warnings and errors")
	for _, g := range [][2]string{
		{groupConnect, "Connect:"}, {groupDescribe, "Describe:"}, {groupDeploy, "Deploy:"}, {groupOperate, "Operate:"},
		{groupWatch, "Look:"}, {groupProcess, "Servers and agents:"},
	} {
		c.AddGroup(&cobra.Group{ID: g[0], Title: g[1]})
	}
	for group, commands := range map[string][]*cobra.Command{
		groupConnect:  {s.contexts(), s.login(), s.logout(), s.auth(), s.version(), s.man()},
		groupDescribe: {s.nouns(), s.get(), s.describe(), s.apply(), s.remove(), s.edit(), s.export()},
		groupDeploy:   {s.cluster(), s.deploy()},
		groupOperate:  append(s.operations(), s.waits(), s.diff()),
		groupWatch:    {s.status(), s.explains(), s.history(), s.top(), s.events(), s.combines(), s.tenants(), s.audits()},
	} {
		for _, sub := range commands {
			sub.GroupID = group
			c.AddCommand(sub)
		}
	}
	s.processes(c)
	c.SetHelpCommandGroupID(groupConnect)
	c.SetCompletionCommandGroupID(groupConnect)
	s.completeFlag(c, "project", func(ctx context.Context) []string { return s.completeOf(ctx, domain.Projects, &where{}) })
	s.completeFlag(c, "context", func(context.Context) []string { return s.contextNames() })
	s.finish(c)
	strict(c)
	return c
}

// strict has the commands that cobra adds refuse what they do not know: they show a help and end well, which a shell that asks for a completion would read
// as one.
func strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args, c.RunE = noCommand, func(c *cobra.Command, _ []string) error { return c.Help() }
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				about, rest, err := root.Find(args)
				if err == nil && about.HasSubCommands() {
					err = noCommand(about, rest)
				}
				return err
			}
		}
	}
}

// finish adds to a command and those below it what all of them have.
func (s *session) finish(c *cobra.Command) {
	c.Short, c.Long, c.Example = s.asCalled(c.Short), s.asCalled(c.Long), s.asCalled(c.Example)
	if o := c.LocalNonPersistentFlags().Lookup("output"); o != nil {
		forms := slices.DeleteFunc([]string{"table", "wide", "name", "json", "yaml"}, func(form string) bool { return !strings.Contains(o.Usage, form) })
		s.completeFlag(c, o.Name, func(context.Context) []string { return forms })
	}
	completeNothingElse(c)
	for _, sub := range c.Commands() {
		s.finish(sub)
	}
}

var aCommand = regexp.MustCompile(`(?:kubectl )?\bdrover ([a-z])`)

// asCalled has a text name commands as the user calls them, such as kubectl drover get.
func (s *session) asCalled(text string) string {
	if s.Program == "drover" {
		return text
	}
	return aCommand.ReplaceAllString(text, s.Program+" $1")
}

// processes adds the commands that read their own flags.
func (s *session) processes(root *cobra.Command) {
	for _, p := range s.Processes {
		sub := &cobra.Command{
			Use: p.Name, Short: p.Short, DisableFlagParsing: true, GroupID: groupProcess,
			RunE: func(c *cobra.Command, args []string) error { return p.Run(c.Context(), args) },
		}
		parent := root
		if p.Under != "" {
			for _, c := range root.Commands() {
				if c.Name() == p.Under {
					parent, sub.GroupID = c, ""
				}
			}
		}
		parent.AddCommand(sub)
	}
}

// noCommand refuses what follows a command that has others, and names the one that was meant, as far as that can be told.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var all []string
	for _, sub := range c.Commands() {
		all = append(append(all, sub.Name()), sub.Aliases...)
	}
	if near := nearest.Name(args[0], all); near != "" {
		return usage("%s has no command %q; did you mean %q?", c.CommandPath(), args[0], near)
	}
	return usage("%s has no command %q\nSee '%s --help'", c.CommandPath(), args[0], c.CommandPath())
}

// noArguments refuses what follows a command that takes flags alone.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if c.Flags().Lookup("filename") != nil {
		hint = "; files are named by -f"
	}
	return usage("%s takes no argument such as %q%s\nSee '%s --help'", c.CommandPath(), args[0], hint, c.CommandPath())
}

// numbered bounds how many arguments there are; what names them in the error.
func numbered(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usage("%s needs %s\nSee '%s --help'", c.CommandPath(), what, c.CommandPath())
		case most >= 0 && len(args) > most:
			return usage("%s takes %s, and nothing more: %q is too much\nSee '%s --help'", c.CommandPath(), what, args[most], c.CommandPath())
		}
		return nil
	}
}
