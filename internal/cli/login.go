package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/oauth2"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
)

// loginFlags are those of login.
type loginFlags struct {
	name, issuer, issuerCA string
	device, noBrowser      bool
}

// login is the command login.
func (s *session) login() *cobra.Command {
	c := &cobra.Command{
		Use: "login [SERVER]", Short: "Prove who you are, for the commands that follow",
		Long: `Prove who you are, for the commands that follow.

Where the API knows OpenID providers you log in at one of them, in a browser on this machine, or with --device on another one. The token
that it gives is replaced before it expires, as long as the provider lets it.

With --token-file (- for the standard input) or --token you show a token that you have, such as that of a service account. Without
providers it is read from the standard input.

What proves who you are is kept in a context, in a file that nobody else can read, and shown to the API before. DROVER_TOKEN and DROVER_TOKEN_FILE
are not read here: they are for the other commands, where they stand above what is kept.`,
		Example: `  drover login https://drover.example:9015
  drover login https://drover.example:9015 --device
  drover login http://127.0.0.1:9015 --token-file build/run/admin-token
  drover login https://drover.example:9015 --ca ca.pem --name prod --token-file - < token`,
		Args: numbered(0, 1, "the URL of a server"),
	}
	f := &loginFlags{}
	c.Flags().StringVar(&f.name, "name", "", "the `name` of the context (default that of the current one where it is of the same server, else the server's host)")
	c.Flags().StringVar(&f.issuer, "issuer", "", "of several providers this one, by its `URL` or its name; by its URL also where another server's context has the same one")
	c.Flags().StringVar(&f.issuerCA, "issuer-ca", "", "a `file` with the certificates that the provider's is checked by (default those of this machine)")
	c.Flags().BoolVar(&f.device, "device", false, "log in with a browser on another machine, by a code")
	c.Flags().BoolVar(&f.noBrowser, "no-browser", false, "open no browser; the address is printed")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			if args[0] == "" { // as of a variable that is not set: the current context's server would get another login
				return usage("the URL of the server is empty")
			}
			if s.flags.server != "" && s.flags.server != args[0] {
				return usage("the server is given twice, and they differ")
			}
			s.flags.server = args[0]
		}
		s.begins = true
		return s.doLogin(c.Context(), f)
	}
	return c
}

func (s *session) doLogin(ctx context.Context, f *loginFlags) error {
	x, err := s.current()
	if err != nil {
		return err
	}
	base, err := baseURL(x.Server)
	if err != nil {
		return err
	}
	found, err := s.load()
	if err != nil {
		return err
	}
	named := or(f.name, s.flags.context)
	x.Name = or(named, x.Name, base.Hostname())
	x.Project = s.flags.project // that of the environment is of this shell alone
	if kept := found.find(x.Name); kept != nil {
		if named == "" && !sameServer(kept.Server, x.Server) { // two of one host, say
			return usage("context %s is of %s, and would be lost: --name says how to call the one of %s", x.Name, kept.Server, x.Server)
		}
		x.Project = or(x.Project, kept.Project)
	}
	x.ClientCertificate, x.ClientKey = s.flags.certificate, s.flags.key
	x.forget()
	if s.flags.token != "" || s.flags.tokenFile != "" {
		for name, given := range map[string]bool{"device": f.device, "issuer": f.issuer != "", "issuer-ca": f.issuerCA != "", "no-browser": f.noBrowser} {
			if given {
				return usage("--%s is for logging in at a provider, without a token", name)
			}
		}
		err = s.loginByToken(x)
	} else {
		err = s.loginByProvider(ctx, f, x)
	}
	if err != nil {
		return err
	}
	if s.client != nil {
		s.client.Close()
	}
	shown := *x
	shown.RefreshToken = "" // what comes of it is for the file, which has nothing yet
	if s.client, err = s.open(&shown); err != nil {
		return err
	}
	s.flags.server = x.Server // for what is said when it does not answer
	who, err := s.client.API().Whoami(ctx, nil)
	if err != nil {
		if fail.Is(err, fail.Unauthorized) {
			return fail.New(fail.Forbidden, "%s does not accept the token: %s", x.Server, s.text(err))
		}
		return err
	}
	if err := s.keep(ctx, *x, true); err != nil {
		return err
	}
	s.sayf("logged in at %s as %s, as context %s", x.Server, nameOf(who), x.Name)
	s.warn(s.above(x))
	return nil
}

// nameOf is who somebody is, for people.
func nameOf(who *service.Whoami) string { return strings.TrimSpace(who.Kind + " " + who.Name) }

// loginByToken takes the token that is given, or reads it.
func (s *session) loginByToken(x *Context) (err error) {
	if s.flags.token != "" {
		x.Token, err = oneToken(s.flags.token, "--token")
		return err
	}
	file := or(s.flags.tokenFile, "-")
	if file == "-" && s.inTerminal() == nil {
		s.note("The token is read from the standard input.")
	}
	x.Token, err = s.readToken(file)
	return err
}

// loginByProvider has the user log in at a provider that the API names. Where it names none, a token is read.
func (s *session) loginByProvider(ctx context.Context, f *loginFlags, x *Context) error {
	c, err := s.open(x)
	if err != nil {
		return err
	}
	s.client = c
	offers, err := c.Offers(ctx)
	if err != nil && !fail.Is(err, fail.NotFound) {
		return err
	}
	if !f.device && f.issuer == "" && (err != nil || !hasProvider(offers)) {
		return s.loginByToken(x)
	}
	if err := plaintext(x); err != nil {
		return err
	}
	offer, err := chosen(offers, f.issuer)
	if err != nil {
		return err
	}
	if err := s.notAnothers(x, offer, f.issuer); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, loginTime, fail.New(fail.Timeout, "nobody has logged in for %s", loginTime))
	defer cancel()
	p, err := s.provider(ctx, offer.Issuer, offer.Command.ClientID, f.issuerCA)
	if err != nil {
		return err
	}
	p.ask(offer.Command.Scopes)
	s.note("%s lets you log in at %s (%s), as the client %s.", x.Server, printable(offer.Name), offer.Issuer, printable(offer.Command.ClientID))
	given, nonce, err := s.answerOf(ctx, p, offer, f)
	if err != nil {
		return err
	}
	if x.Token, err = p.idToken(ctx, given, nonce); err != nil {
		return err
	}
	x.Issuer, x.IssuerCA, x.ClientID, x.RefreshToken = offer.Issuer, f.issuerCA, p.ClientID, given.RefreshToken
	return nil
}

// notAnothers refuses to log in as the client of another server's contexts: what the provider gives would be good at that one as well, and this
// server is shown it. The user may say that it is meant, by the provider's URL.
func (s *session) notAnothers(x *Context, offer *authn.Offer, named string) error {
	found, err := s.load()
	if err != nil {
		return err
	}
	for i := range found.Contexts {
		y := &found.Contexts[i]
		if y.Issuer == offer.Issuer && y.ClientID == offer.Command.ClientID && !sameServer(y.Server, x.Server) && named != offer.Issuer {
			return usage("%s would have you log in at %s as the client %s, as %s (context %s) does: it could show your token there. If you trust it, give --issuer %s",
				x.Server, printable(offer.Issuer), printable(offer.Command.ClientID), y.Server, y.Name, printable(offer.Issuer))
		}
	}
	return nil
}

// answerOf is what a provider gives when the user has logged in there; of a device there is no nonce.
func (s *session) answerOf(ctx context.Context, p *provider, offer *authn.Offer, f *loginFlags) (given *oauth2.Token, nonce string, err error) {
	if f.device {
		given, err = s.byDevice(ctx, p)
	} else {
		given, nonce, err = s.byBrowser(ctx, p, offer.Command.RedirectURL, !f.noBrowser)
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if fail.Is(err, fail.Unauthorized) { // by the issuer, not by the API
		err = fail.New(fail.Forbidden, "%s", s.text(err))
	}
	return given, nonce, err
}

// hasProvider says whether one can log in at a provider by this command.
func hasProvider(o *authn.Offers) bool {
	for _, p := range o.Providers {
		if p.Command != nil {
			return true
		}
	}
	return false
}

// chosen is the provider that is meant.
func chosen(o *authn.Offers, issuer string) (*authn.Offer, error) {
	var all []string
	var found []*authn.Offer
	if o != nil {
		for i, p := range o.Providers {
			if p.Command == nil {
				continue
			}
			all = append(all, p.Issuer)
			if issuer == "" || issuer == p.Issuer || issuer == p.Name {
				found = append(found, &o.Providers[i])
			}
		}
	}
	switch {
	case len(all) == 0:
		return nil, fail.New(fail.NotFound, "the API names no provider for this command: log in with --token-file")
	case len(found) == 0:
		return nil, usage("the API does not know the issuer %q; it knows %s", issuer, strings.Join(all, ", "))
	case len(found) > 1:
		return nil, usage("the API knows several issuers: give --issuer, one of %s", strings.Join(all, ", "))
	}
	return found[0], nil
}

// logout is the command logout.
func (s *session) logout() *cobra.Command {
	c := &cobra.Command{
		Use: "logout", Short: "Forget what proves who you are, and give it back to the provider",
		Long:    "Forget what proves who you are in the current context, and give it back to the provider that it is of. The context stays.",
		Example: "  drover logout\n  drover logout --context prod", Args: noArguments,
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return s.doLogout(c.Context()) }
	return c
}

func (s *session) doLogout(ctx context.Context) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	found, err := s.load()
	if err != nil {
		return err
	}
	name := or(s.flags.context, s.Getenv("DROVER_CONTEXT"), found.Current)
	x := found.find(name)
	switch {
	case name == "":
		return usage("no context is current, so that there is no login to forget: --context names one of '%s context list'", s.Program)
	case x == nil:
		return usage("there is no context %q; see '%s context list'", name, s.Program)
	case s.flags.server != "" && !sameServer(s.flags.server, x.Server):
		return usage("context %s is of %s, and not of %s: --context names the one whose login is to be forgotten; see '%s context list'", name, x.Server, s.flags.server, s.Program)
	}
	old := *x
	x.forget()
	if err := s.save(found); err != nil {
		return err
	}
	s.sayf("logged out of context %s", name)
	if old.RefreshToken == "" {
		return nil
	}
	p, err := s.provider(ctx, old.Issuer, old.ClientID, old.IssuerCA)
	if err == nil {
		err = p.giveBack(ctx, old.RefreshToken)
	}
	if err != nil {
		s.warn([]string{fmt.Sprintf("%s could not be told: what it has given stays good there until it expires: %s", old.Issuer, s.text(err))})
	}
	return nil
}

// byToken is how to log in where that is by a token: nobody has logged in at a provider, and the API names none.
func (s *session) byToken(ctx context.Context) string {
	if c, err := s.current(); err == nil && c.Issuer != "" {
		return ""
	}
	if s.client != nil {
		ctx, cancel := context.WithTimeout(ctx, hintTime)
		defer cancel()
		if o, err := s.client.Offers(ctx); err == nil && hasProvider(o) {
			return ""
		}
	}
	return " --token-file FILE"
}
