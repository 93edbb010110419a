package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// contexts is the command context.
func (s *session) contexts() *cobra.Command {
	c := &cobra.Command{
		Use: "context", Short: "Say which APIs there are, and which one is asked",
		Long: "Say which APIs there are, and which one is asked. They are kept in a file that nobody else can read.",
		Example: `  drover context set edge --server https://drover.example:9015 --ca ca.pem --token-file token --use
  drover context list
  drover context use edge`,
		Args: noCommand, RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	set := &cobra.Command{
		Use: "set NAME", Short: "Add a context, or change one: what is not given stays, and \"\" takes away",
		Example: "  drover context set edge --server https://drover.example:9015 --ca ca.pem --token-file token\n  drover context set edge --project demo",
		Args:    numbered(1, 1, "the name of the context"), ValidArgsFunction: s.completeContexts,
	}
	use := set.Flags().Bool("use", false, "use it from now on")
	set.RunE = func(c *cobra.Command, args []string) error {
		if args[0] == "" {
			return usage("the name of a context is empty")
		}
		s.begins = true
		return s.setContext(c.Context(), args[0], *use)
	}
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the contexts, the current one with a star", Args: noArguments,
		Example: "  drover context list",
	}
	output := list.Flags().StringP("output", "o", "", "the `form`: json, yaml or jsonpath=TEMPLATE; columns when missing")
	list.RunE = func(*cobra.Command, []string) error {
		p, err := newValuePrinter(*output)
		if err != nil {
			return err
		}
		return s.listContexts(p)
	}
	c.AddCommand(
		list,
		&cobra.Command{
			Use: "use NAME", Short: "Use a context from now on", Example: "  drover context use prod", Args: numbered(1, 1, "the name of the context"),
			ValidArgsFunction: s.completeContexts,
			RunE:              func(c *cobra.Command, args []string) error { return s.useContext(c.Context(), args[0]) },
		},
		set,
		&cobra.Command{
			Use: "delete NAME", Aliases: []string{"rm"}, Short: "Forget a context", Example: "  drover context delete prod", Args: numbered(1, 1, "the name of the context"),
			ValidArgsFunction: s.completeContexts,
			RunE:              func(c *cobra.Command, args []string) error { return s.deleteContext(c.Context(), args[0]) },
		},
	)
	return c
}

// listedContext is a context as it is shown to programs: without what proves who somebody is.
type listedContext struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	Server  string `json:"server"`
	Login   string `json:"login,omitempty"` // token, certificate or the provider that the user has logged in at; missing for none
	Project string `json:"project,omitempty"`
}

func (s *session) listContexts(p *printer) error {
	found, err := s.load()
	if err != nil {
		return err
	}
	current := or(s.flags.context, s.Getenv("DROVER_CONTEXT"), found.Current)
	all := []listedContext{}
	for _, x := range found.Contexts {
		login := ""
		switch {
		case x.Issuer != "":
			login = x.Issuer
		case x.Token != "" || x.TokenFile != "":
			login = "token"
		case x.ClientCertificate != "":
			login = "certificate"
		}
		all = append(all, listedContext{x.Name, x.Name == current, x.Server, login, x.Project})
	}
	if !p.people() {
		return p.value(s.Out, map[string]any{"items": all})
	}
	t := newTable(s.Out, "CURRENT", "NAME", "SERVER", "LOGIN", "PROJECT")
	for _, x := range all {
		t.row(map[bool]string{true: "*"}[x.Current], x.Name, x.Server, dash(x.Login), x.Project)
	}
	return t.flush()
}

func (s *session) useContext(ctx context.Context, name string) error {
	var used *Context
	err := s.update(ctx, func(found *settings) error {
		if used = found.find(name); used == nil {
			return usage("there is no context %q; see '%s context list'", name, s.Program)
		}
		found.Current = name
		return nil
	})
	if err == nil {
		s.sayf("context %s is used from now on", name)
		s.warn(s.above(used))
	}
	return err
}

func (s *session) setContext(ctx context.Context, name string, use bool) error {
	token, err := "", error(nil)
	switch {
	case s.flags.token != "":
		token, err = oneToken(s.flags.token, "--token")
	case s.flags.tokenFile == "-":
		token, err = s.readToken("-")
	}
	if err != nil {
		return err
	}
	err = s.update(ctx, func(found *settings) error {
		x := Context{Name: name}
		old := found.find(name)
		if old != nil {
			x = *old
		}
		if s.flags.server != "" {
			if old != nil && !sameServer(old.Server, s.flags.server) {
				x.forget() // it was for another server
			}
			x.Server = s.flags.server
		}
		if x.Server == "" {
			return usage("--server is needed: the URL of the API, such as %s", defaultServer)
		}
		for into, flag := range map[*string]struct{ name, value string }{ // "" takes away what was there
			&x.CA: {"ca", s.flags.ca}, &x.Project: {"project", s.flags.project},
			&x.ClientCertificate: {"client-certificate", s.flags.certificate}, &x.ClientKey: {"client-key", s.flags.key},
		} {
			if s.flags.changed(flag.name) {
				*into = flag.value
			}
		}
		switch {
		case token != "":
			x.forget()
			x.Token = token
		case s.flags.tokenFile != "":
			x.forget()
			x.TokenFile = s.flags.tokenFile
		case s.flags.changed("token"), s.flags.changed("token-file"): // to nothing
			x.forget()
		}
		if s.flags.changed("plaintext") {
			x.Plaintext = s.flags.plaintext
		}
		return s.putContext(found, x, use)
	})
	if err == nil {
		s.sayf("context %s is set", name)
	}
	return err
}

// keep stores a context, in place of one of its name; use has it used from now on. Its files must be there.
func (s *session) keep(ctx context.Context, x Context, use bool) error {
	return s.update(ctx, func(found *settings) error { return s.putContext(found, x, use) })
}

func (s *session) putContext(found *settings, x Context, use bool) error {
	base, err := baseURL(x.Server)
	if err != nil {
		return err
	}
	x.Server = strings.TrimSuffix(base.String(), "/v2")
	for _, file := range []*string{&x.CA, &x.TokenFile, &x.IssuerCA, &x.ClientCertificate, &x.ClientKey} {
		if *file != "" {
			if *file, err = filepath.Abs(*file); err != nil { // they are read wherever the command is started
				return errUsage{err}
			}
		}
	}
	c, err := s.open(&x)
	if err != nil {
		return err
	}
	c.Close()
	found.put(x)
	if use || found.Current == "" {
		found.Current = x.Name
	}
	return nil
}

func (s *session) deleteContext(ctx context.Context, name string) error {
	current := false
	err := s.update(ctx, func(found *settings) error {
		if found.find(name) == nil {
			return usage("there is no context %q; see '%s context list'", name, s.Program)
		}
		found.Contexts = slices.DeleteFunc(found.Contexts, func(x Context) bool { return x.Name == name })
		if current = found.Current == name; current {
			found.Current = ""
		}
		return nil
	})
	if err == nil {
		s.sayf("context %s is deleted", name)
	}
	if err == nil && current {
		s.note("No context is current now: commands ask %s, unless --server, DROVER_SERVER or --context says otherwise; '%s context use' makes another one current", defaultServer, s.Program)
	}
	return err
}

func (s *session) completeContexts(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return s.contextNames(), cobra.ShellCompDirectiveNoFileComp
}

// contextNames are the contexts that there are, each with its server, for a shell that completes them.
func (s *session) contextNames() (names []string) {
	found, err := s.load()
	if err != nil {
		return nil
	}
	for _, x := range found.Contexts {
		names = append(names, fmt.Sprintf("%s\t%s", x.Name, x.Server))
	}
	return names
}
