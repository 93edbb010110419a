package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// login is the command login.
func (s *session) login() *cobra.Command {
	c := &cobra.Command{
		Use: "login [SERVER]", Short: "Prove who you are, and keep the token for the commands that follow",
		Long: `Prove who you are, and keep the token in a context for the commands that follow.

The token is that of a service account or of an OpenID provider. It is read from --token-file, or from the standard input,
and shown to the API before it is kept.`,
		Example: `  drover login http://127.0.0.1:9015 --token-file build/run/admin-token
  drover login https://drover.example:9015 --ca ca.pem --name prod < token`,
		Args: numbered(0, 1, "one server at the most"),
	}
	name := c.Flags().String("name", "", "the `name` of the context (default that of the server's host)")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			if s.flags.server != "" && s.flags.server != args[0] {
				return usage("the server is given twice, and they differ")
			}
			s.flags.server = args[0]
		}
		return s.doLogin(c.Context(), *name)
	}
	return c
}

func (s *session) doLogin(ctx context.Context, name string) error {
	x, err := s.current()
	if err != nil {
		return err
	}
	base, err := baseURL(x.Server)
	if err != nil {
		return err
	}
	x.Name = or(name, s.flags.context, x.Name, base.Hostname())
	x.ClientCertificate, x.ClientKey = s.flags.certificate, s.flags.key
	if s.flags.token == "" {
		file := or(s.flags.tokenFile, "-")
		if file == "-" {
			s.note("The token is read from the standard input.")
		}
		if x.Token, err = s.readToken(file); err != nil {
			return err
		}
	}
	x.TokenFile = ""
	if s.client, err = s.open(x); err != nil {
		return err
	}
	s.flags.server = x.Server // for what is said when it does not answer
	// Who is known and may not list projects is known all the same.
	if _, err := s.client.API().List(ctx, domain.Projects, ""); err != nil && !fail.Is(err, fail.Forbidden) {
		if fail.Is(err, fail.Unauthorized) {
			return fail.New(fail.Forbidden, "%s does not accept the token: %s", x.Server, s.text(err))
		}
		return err
	}
	if err := s.keep(*x, true); err != nil {
		return err
	}
	s.sayf("logged in at %s, as context %s", x.Server, x.Name)
	return nil
}
