package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/access"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/service"
)

// cluster is the command cluster.
func (s *session) cluster() *cobra.Command {
	c := &cobra.Command{
		Use: "cluster", Short: "Register clusters, list them and see whether they can be used",
		Example: "  drover cluster add site/edge01 --context edge01 --label edge\n  drover cluster rotate edge01 --context edge01\n  drover cluster list\n  drover cluster check edge01",
		Args:    noCommand, RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	in := &accountFlags{}
	named := func(one *cobra.Command, do func(ctx context.Context, api *client.API, key domain.Key) error) *cobra.Command {
		one.Args = numbered(1, 1, "the name of a cluster")
		one.ValidArgsFunction = func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return s.completeOf(c.Context(), domain.ClustersNoun, &where{}), cobra.ShellCompDirectiveNoFileComp
		}
		one.RunE = func(c *cobra.Command, args []string) error {
			api, err := s.api()
			if err != nil {
				return err
			}
			key, err := s.pick(c.Context(), api, domain.ClustersNoun, args[0], &where{})
			if fail.Is(err, fail.NotFound) && in.given() && strings.Contains(args[0], "/") { // only its account may be left
				key, err = s.newCluster(c.Context(), api, args[0])
			}
			if err != nil {
				return err
			}
			return do(c.Context(), api, key)
		}
		return one
	}
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List the clusters with where each of them stands", Args: noArguments,
		Example: "  drover cluster list\n  drover cluster list -o wide"}
	output := list.Flags().StringP("output", "o", "", aboutOutput)
	list.RunE = func(c *cobra.Command, _ []string) error {
		return s.doGet(c.Context(), &getFlags{output: *output}, domain.ClustersNoun.Kind, nil)
	}
	remove := &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, Short: "Forget a cluster, with its labels and what else is registered of it",
		Long: `Forget a cluster, with its labels. One in which something runs, or that something names, is refused, with --abandon too: terminate the group,
the logical cloud or the network intents first. If the cluster does not come back, stop that terminate, and delete the group or the logical cloud.
With --context also the account that 'cluster add' has made in the cluster is taken away; if it is not there, nothing is deleted. Its namespace
goes when it was made for accounts, none is left in it, and nothing else is there.`,
		Example: "  drover cluster remove edge01 --context edge01",
	}
	in.add(remove)
	check, looked := &cobra.Command{
		Use: "check NAME", Short: "Ask a cluster whether Drover can work on it, and say what runs there and what hangs there",
		Long: `Ask a cluster, by way of the API and with the credential that is registered: whether it answers, its version, the time of a round trip, how it
reports, when the credential expires, and each right that is missing of those that Drover needs there. Rights that only some need are asked about with
--groups and --logical-cloud-users, as with 'cluster add'. Then it is said what runs there and what hangs there, as Drover sees it. With --context the
account is looked at in the cluster, too: whether 'cluster add' of this installation has made it, how many tokens it has, and who else has its
rights there.

Exit code 0: Drover can work there. 1: the cluster does not answer, or not to work that goes on, its credential has expired, a right is missing,
or cannot be told, or others have the rights of the account, or with --context the account is another's or cannot be looked at. 3: there is no such
cluster. 5: the API does not answer.`,
		Example: "  drover cluster check edge01\n  drover cluster check edge01 --context edge01\n  drover cluster check edge01 -o json",
	}, &checking{}
	check.Flags().StringVarP(&looked.output, "output", "o", "", "the `form`: json, yaml or jsonpath=TEMPLATE; words when missing")
	check.Flags().StringSliceVar(&looked.needs.Groups, "groups", nil, "further `API-GROUPS` whose kinds charts have; * for any")
	check.Flags().BoolVar(&looked.needs.Users, "logical-cloud-users", false, "for logical clouds of level 1, too")
	looked.account.addCluster(check)
	check.PreRunE = func(c *cobra.Command, _ []string) error { return looked.account.meant(c) }
	forget := &forgotten{accountFlags: in}
	remove.PreRunE = func(c *cobra.Command, _ []string) error { return in.meant(c) }
	remove.Flags().BoolVar(&forget.abandon, "abandon", false, "forget it although it may keep for ever what tenants that are gone have there, since it does not come back")
	remove.Flags().BoolVar(&forget.force, "force", false, "take the account away although you may not see whether the cluster is registered, or although it says that it is another's")
	c.AddCommand(
		s.clusterAdd(), list,
		named(check, func(ctx context.Context, api *client.API, key domain.Key) error {
			return s.checkCluster(ctx, api, key, looked)
		}),
		s.clusterRotate(),
		named(remove, func(ctx context.Context, api *client.API, key domain.Key) error {
			return s.forgetCluster(ctx, api, key, forget)
		}),
	)
	return c
}

// removeCluster deletes the registration with its labels, which the API does in one: who dies meanwhile has lost none.
func (s *session) removeCluster(ctx context.Context, api *client.API, key domain.Key, abandon bool) (string, error) {
	left, err := api.RemoveCluster(ctx, key, abandon)
	s.warn(left)
	if err != nil {
		return "", err
	}
	return "deleted", nil
}

// standing is where a cluster stands.
func (s *session) standing(ctx context.Context, api *client.API, key domain.Key) (service.ClusterStatus, error) {
	provider, _ := domain.Cut(domain.ClustersNoun, key)
	for c, err := range api.Clusters(ctx, provider) {
		if err != nil {
			return service.ClusterStatus{}, err
		}
		if c.Resource == key {
			return c.Status, nil
		}
	}
	return service.ClusterStatus{}, fail.New(fail.NotFound, "cluster %q not found", key.Name())
}

// checking says what of a cluster is looked at.
type checking struct {
	account accountFlags
	needs   service.Needs
	output  string
}

// checked is a report on a cluster.
type checked struct {
	Cluster domain.Key            `json:"cluster"`
	Status  service.ClusterStatus `json:"status"`
	Check   *service.ClusterCheck `json:"check"`
	Account *checkedAccount       `json:"account,omitempty"` // with --context
}

// checkedAccount is the account that Drover has in a cluster, as its administrator sees it.
type checkedAccount struct {
	Name            string   `json:"name"`
	There           bool     `json:"there"`
	ServiceAccounts []string `json:"serviceAccounts"`   // each has a token, and more than one when a rotate did not come to its end
	Others          []string `json:"others,omitempty"`  // who else has its rights, or a token of it
	Near            []string `json:"near,omitempty"`    // who may come by a token of it
	Problem         string   `json:"problem,omitempty"` // such as that it is somebody else's
}

// good says whether Drover can work there.
func (c *checked) good() bool {
	expired := c.Check.CredentialsExpire != nil && c.Check.CredentialsExpire.Before(time.Now())
	if c.Account != nil && (len(c.Account.Others) > 0 || c.Account.Problem != "") { // of what cannot be looked at nobody knows whether it is good
		return false
	}
	return c.Check.Reachable && c.Status.Connectivity != domain.ConnectivityRetrying && !expired && len(c.Check.Rights.Missing) == 0 && c.Check.Rights.Unknown == ""
}

func (s *session) checkCluster(ctx context.Context, api *client.API, key domain.Key, f *checking) error {
	p, err := newValuePrinter(f.output)
	if err != nil {
		return err
	}
	c := &checked{Cluster: key}
	if c.Check, err = api.CheckCluster(ctx, key, f.needs); err != nil {
		return err
	}
	if c.Status, err = s.standing(ctx, api, key); err != nil {
		return err
	}
	if f.account.given() {
		if c.Account, err = s.checkAccount(ctx, api, key, &f.account); err != nil {
			return err
		}
	}
	if !p.people() {
		if err := p.value(s.Out, c); err != nil {
			return err
		}
	} else {
		s.sayCluster(c)
		text, err := s.explanation(ctx, api, key)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "\n%s", text)
	}
	if !c.good() {
		return errSaid{exitFailed}
	}
	return nil
}

// checkAccount looks at the account in the cluster. What is wrong with it is part of the report.
func (s *session) checkAccount(ctx context.Context, api *client.API, key domain.Key, f *accountFlags) (*checkedAccount, error) {
	kubeconfig, err := s.kubeconfig(f.kubeconfig, f.context, false)
	if err != nil {
		return nil, err
	}
	holder, err := s.holder(ctx, api, key)
	if err != nil {
		return nil, err
	}
	o, err := s.openAccount(f, kubeconfig, holder, nil)
	if err != nil {
		return nil, err
	}
	a := &checkedAccount{Name: o.Name, ServiceAccounts: []string{}}
	if a.There, err = o.There(ctx); err == nil && a.There {
		a.ServiceAccounts, err = o.Accounts(ctx)
	}
	if err == nil {
		var others *kube.Others
		if others, err = o.Others(ctx); others != nil { // beside an error what was seen before it
			a.Others, a.Near = slices.Concat(others.Lasting, others.Ending), others.Near
		}
	}
	if err != nil {
		a.Problem = fail.TextOf(err)
	}
	return a, nil
}

func (s *session) sayCluster(c *checked) {
	status, check := &c.Status, c.Check
	line := func(what, format string, args ...any) {
		fmt.Fprintf(s.Out, "%-15s%s\n", what+":", fmt.Sprintf(format, args...))
	}
	line("Path", "%s", c.Cluster)
	if check.Reachable {
		line("Answers", "in %s", time.Duration(check.LatencySeconds*float64(time.Second)).Round(time.Millisecond/10))
		line("Kubernetes", "%s", dash(printable(check.Version)))
	} else {
		line("Answers", "no: %s", printable(check.Reason))
	}
	line("Connectivity", "%s", status.Connectivity)
	line("Reports by", "%s", status.Report)
	line("Heard", "%s", heardOf(status, time.Now()))
	line("Groups there", "%d", status.Groups)
	if len(status.Labels) > 0 {
		line("Labels", "%s", strings.Join(status.Labels, ", "))
	}
	switch at := check.CredentialsExpire; {
	case at == nil:
	case at.Before(time.Now()):
		line("Expired", "%s; 'cluster rotate' makes another one", at.Local().Format(time.DateTime))
	default:
		line("Expires", "%s", until(*at))
	}
	if r := check.Rights; r != nil {
		switch {
		case r.Unknown != "":
			line("Rights", "the cluster does not say them: %s", printable(r.Unknown))
		case len(r.Missing) == 0:
			line("Rights", "all %d that are needed", r.Needed)
		default:
			line("Rights", "%d of %d are missing", len(r.Missing), r.Needed)
			for _, one := range r.Missing {
				fmt.Fprintf(s.Out, "  %s\n", printable(one))
			}
		}
	}
	switch a := c.Account; {
	case a == nil:
	case a.Problem != "":
		line("Account", "%s: %s", a.Name, printable(a.Problem))
	case !a.There:
		line("Account", "%s is not in the cluster of that context", a.Name)
	case len(a.ServiceAccounts) > 1:
		line("Account", "%s has %d ServiceAccounts, so an add or rotate did not come to its end; 'cluster rotate' ends all but a new one", a.Name, len(a.ServiceAccounts))
	default:
		line("Account", "%s, with %d token", a.Name, len(a.ServiceAccounts))
	}
	who := func(what, are string, all []string) {
		if len(all) == 0 {
			return
		}
		line(what, "%s", are)
		for _, one := range all {
			fmt.Fprintf(s.Out, "  %s\n", printable(one))
		}
	}
	if a := c.Account; a != nil {
		who("Others", "have its rights, or a token of it:", a.Others)
		who("Near it", "may come by a token of it:", a.Near)
	}
	if status.Reason != "" {
		line("Reason", "%s", printable(status.Reason))
	}
}

// addFlags say how a cluster is registered, and what its account may.
type addFlags struct {
	accountFlags
	labels []string
	report string // "" when missing
	groups []string
	users  bool
	rules  string
	narrow bool
	own    bool // nothing is made in the cluster
}

func (f *addFlags) add(c *cobra.Command) {
	f.accountFlags.add(c)
	c.Flags().StringSliceVar(&f.labels, "label", nil, "a `label` for placements to select it by")
	c.Flags().StringVar(&f.report, "report", "", "how the cluster reports: auto (when missing), agent, install, agentless or none")
	c.Flags().StringSliceVar(&f.groups, "groups", nil, "further `API-GROUPS` whose kinds charts have; * for any. A chart that gives rights beyond the account's own, as those of controllers do, needs --rules, too")
	c.Flags().BoolVar(&f.users, "logical-cloud-users", false, "for logical clouds of level 1, too: certificates of their users are signed, and who may have that done may be any user of the cluster")
	c.Flags().StringVar(&f.rules, "rules", "", "a `file` with further rules for the account, in YAML or JSON: a list of them, or a ClusterRole that has them. A chart that gives rights needs those that it gives")
	c.Flags().BoolVar(&f.narrow, "narrow", false, "take away rights that the account has from before and that are not asked for now; what runs there may need them")
	c.Flags().BoolVar(&f.own, "use-own-credentials", false, "send the user of the context, and make nothing in the cluster")
	for _, ofAccount := range []string{"narrow", "groups", "rules", "logical-cloud-users", "account", "account-namespace", "expires-after"} {
		c.MarkFlagsMutuallyExclusive("use-own-credentials", ofAccount)
	}
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "ask the cluster and the API what would be made, show the ClusterRole, and do nothing")
}

// reporting is how the cluster is to report.
func (f *addFlags) reporting() domain.Report {
	return domain.Report(or(f.report, string(domain.ReportAuto)))
}

// role is the ClusterRole of an account of this name, but for the rules of --rules.
func (f *addFlags) role(account string) ([]byte, error) {
	return access.ClusterRole(account, f.reporting(), f.users, f.groups...)
}

// further are the rules of --rules.
func (f *addFlags) further(c *cobra.Command) (kube.Rules, error) {
	if !c.Flags().Changed("rules") {
		return nil, nil
	}
	return ReadRules(f.rules)
}

// clusterAdd is the command cluster add.
func (s *session) clusterAdd() *cobra.Command {
	f := &addFlags{}
	c := &cobra.Command{
		Use: "add [PROVIDER/]NAME", Short: "Register a cluster, with an account of Drover's own that has the least rights",
		Long: `Register a cluster by a context of your kubeconfig. With its rights an account for Drover is made in the cluster: a ServiceAccount, a
ClusterRole with the least rights that Drover needs for the way in which the cluster reports, their binding, and a token. The
API gets a kubeconfig with that token alone, and seals it. Then it is tried: version, latency, rights. The provider is made where it is not there; without one
it is the only one there is, or else "default".

Nothing is made when others would have the rights of the account: a binding of its ClusterRole that Drover has not made is named, for you to delete.

When it dies in between, run it again: it goes on, and replaces the token of a cluster that is registered. A second run keeps what its flags do
not say: the registration, and the rights of the ClusterRole, unless --narrow takes away those that are not asked for now. 'cluster rotate' replaces the
token before it expires, 'cluster remove --context' takes the account away again.

What a second run registers is made of the context: say --address and --use-own-credentials again, or the address is the context's, and an account's
token takes the place of the credentials. With --label and no flag beside it a cluster that is registered gets labels, and nothing else is done.

--use-own-credentials makes nothing in the cluster: the user of the context is sent, with the files that it names. What works in the
cluster has that user's rights then. A user that runs a program for its credentials cannot be sent.`,
		Example: `  drover cluster add site/edge01 --context edge01 --label edge
  drover cluster add site/edge01 --context edge01 --report agentless --groups monitoring.coreos.com,example.com
  drover cluster add site/edge01 --context edge01 --rules rules.yaml
  drover cluster add site/edge01 --kubeconfig edge01.yaml --use-own-credentials
  drover cluster add site/edge01 --label north`,
		Args: numbered(1, 1, "a name, or a provider and a name, such as site/edge01"),
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			providers := s.completeOf(c.Context(), domain.ClusterProviders, &where{})
			for i := range providers {
				providers[i] += "/"
			}
			return providers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		},
	}
	f.add(c)
	s.completeFlag(c, "report", func(context.Context) []string { return wordsOf(domain.Reports) })
	c.RunE = func(c *cobra.Command, args []string) error { return s.addCluster(c, f, args[0]) }
	return c
}

// addCluster registers a cluster. Before anything is made it is asked who may register it: who may not, or reaches no API, has changed nothing.
func (s *session) addCluster(c *cobra.Command, f *addFlags, name string) error {
	ctx, labelled := c.Context(), onlyLabels(c)
	kubeconfig, unread := s.kubeconfig(f.kubeconfig, f.context, f.own)
	if unread != nil && !labelled { // then it is seen first whether one is needed
		return unread
	}
	if _, err := f.role("drover"); err != nil {
		return usage("--report or --groups: %s", fail.TextOf(err))
	}
	further, err := f.further(c)
	if err != nil {
		return err
	}
	api, err := s.api()
	if err != nil {
		return err
	}
	key, err := s.newCluster(ctx, api, name)
	if err != nil {
		return err
	}
	registered, err := s.registered(ctx, api, key, f.own)
	if err != nil {
		return err
	}
	if registered != nil && !c.Flags().Changed("report") {
		f.report = string(registered.Spec.Report)
	}
	x, err := adding(key, registered, f.labels, domain.Report(f.report))
	if err != nil {
		return err
	}
	a := s.applier(api, f.dryRun)
	if registered != nil && labelled {
		return s.labelCluster(ctx, a, x)
	}
	if unread != nil {
		return unread
	}
	var holder kube.Holder
	var role []byte
	if !f.own {
		if holder, role, err = s.accountFor(ctx, api, key, f, further); err != nil {
			return err
		}
	}
	if err := s.mayAdd(ctx, a, x, registered != nil); err != nil {
		return err
	}
	if f.dryRun && !f.own {
		if err := s.tryAccount(ctx, f, kubeconfig, holder, role); err != nil {
			return err
		}
	}
	if f.own || f.dryRun {
		if x.cluster.File, err = f.readdressed(kubeconfig); err != nil {
			return err
		}
		return s.registerBy(ctx, a, append([]client.Step{x.provider, x.cluster}, x.labels...)...)
	}
	o, err := s.openAccount(&f.accountFlags, kubeconfig, holder, role)
	if err != nil {
		return err
	}
	return s.enroll(ctx, o, enrolment{
		report: f.reporting(), known: registered != nil, narrow: f.narrow,
		first: func() error { return s.registerBy(ctx, a, x.provider) },
		register: func(kubeconfig []byte) error {
			if registered != nil {
				return s.reregister(ctx, api, x.cluster.Object.(*domain.Cluster), &f.accountFlags, kubeconfig)
			}
			if x.cluster.File, err = f.readdressed(kubeconfig); err != nil {
				return err
			}
			return s.registerBy(ctx, a, x.cluster)
		},
		last: func() error { return s.registerBy(ctx, a, x.labels...) },
	})
}

// accountFor is whose the account of a cluster is, and its ClusterRole.
func (s *session) accountFor(ctx context.Context, api *client.API, key domain.Key, f *addFlags, further kube.Rules) (holder kube.Holder, role []byte, err error) {
	if holder, err = s.holder(ctx, api, key); err != nil {
		return holder, nil, err
	}
	if role, err = f.role(f.nameFor(holder)); err != nil {
		return holder, nil, err
	}
	role, err = further.On(role)
	return holder, role, err
}

// labelCluster gives a cluster that is registered its labels, and changes nothing else of it.
func (s *session) labelCluster(ctx context.Context, a *applier, x *added) error {
	rights, err := labelRights(ctx, a, x, true)
	if err != nil {
		return err
	}
	if err := s.needs(ctx, a.api, rights...); err != nil {
		return err
	}
	return s.registerBy(ctx, a, x.labels...)
}

// ReadRules reads the rules of the file that --rules names. Its errors are of the command line.
func ReadRules(file string) (kube.Rules, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, usage("--rules: %w", err)
	}
	rules, err := kube.ReadRules(text)
	if err != nil {
		return nil, usage("--rules %s: %s", file, fail.TextOf(err))
	}
	return rules, nil
}

// onlyLabels says whether labels are given, and nothing that says of which cluster, or of the registration or the account: of a cluster that is
// registered nothing else is written then. Whoever names a context may go on with an add that has died, or mean another credential.
func onlyLabels(c *cobra.Command) bool {
	only := c.Flags().Changed("label")
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "label" && f.Name != "dry-run" {
			only = false
		}
	})
	return only
}

// mayAdd refuses, before anything is made, what the caller may not register.
func (s *session) mayAdd(ctx context.Context, a *applier, x *added, registered bool) error {
	provider := domain.KeyOf(x.provider.Object)
	there, err := a.before(ctx, x.provider.Object)
	if err != nil {
		return err
	}
	var rights []right
	if there == nil {
		rights = append(rights, right{"create", domain.ClusterProviders, ""})
	}
	verb := "create"
	if registered {
		verb = "put"
	}
	rights = append(rights, right{verb, domain.ClustersNoun, provider})
	toLabel, err := labelRights(ctx, a, x, registered)
	if err != nil {
		return err
	}
	rights = append(rights, toLabel...)
	return s.needs(ctx, a.api, rights...)
}

// labelRights are those that the labels need which the cluster does not have yet.
func labelRights(ctx context.Context, a *applier, x *added, registered bool) ([]right, error) {
	for _, l := range x.labels {
		if registered {
			there, err := a.before(ctx, l.Object)
			if err != nil {
				return nil, err
			}
			if there != nil {
				continue
			}
		}
		return []right{{"create", domain.ClusterLabels, domain.KeyOf(x.provider.Object)}}, nil
	}
	return nil, nil
}

// tryAccount says what would be made in the cluster, as the cluster says it.
func (s *session) tryAccount(ctx context.Context, f *addFlags, kubeconfig []byte, holder kube.Holder, role []byte) error {
	o, err := s.openAccount(&f.accountFlags, kubeconfig, holder, role)
	if err != nil {
		return err
	}
	var kept []string
	if !f.narrow {
		if kept, err = o.KeepRights(ctx); err != nil {
			return err
		}
	}
	would, err := o.Try(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s", o.Role)
	if len(kept) > 0 {
		s.sayf("%d rights that nobody has asked for now would stay: %s (--narrow)", len(kept), few(kept))
	}
	for _, w := range would {
		s.sayf("%s %s in the cluster (dry run)", w.Object, w.Would)
	}
	return nil
}

// newCluster is the key of a cluster that is there, or is to be made.
func (s *session) newCluster(ctx context.Context, api *client.API, name string) (domain.Key, error) {
	if err := unnamed(domain.ClustersNoun, name); err != nil {
		return "", err
	}
	if !strings.Contains(name, "/") {
		list, err := api.List(ctx, domain.ClusterProviders, "")
		switch {
		case err != nil:
			return "", err
		case len(list) > 1:
			return "", usage("%q is not the name of a new cluster: give its provider as well, such as %s/%s", name, list[0].LocalName(), name)
		case len(list) == 1:
			name = list[0].LocalName() + "/" + name
		default:
			name = defaultProvider + "/" + name
		}
	}
	x, err := s.choose(domain.ClustersNoun, name, &where{})
	if err != nil {
		return "", err
	}
	key, ok := x.one()
	if !ok {
		return "", usage("%q is not the name of a cluster: a provider and a name are, such as site/edge01", name)
	}
	return key, nil
}

// defaultProvider is the cluster provider of who has named none.
const defaultProvider = "default"

// added is a cluster that is to be registered, with the provider that it may need, and its labels.
type added struct {
	provider, cluster client.Step
	labels            []client.Step
}

// registered is what there is of a cluster, nil for nothing, or for what may not be seen of one that is sent as it is: who then writes over one is
// refused by the API.
func (s *session) registered(ctx context.Context, api *client.API, key domain.Key, own bool) (*domain.Cluster, error) {
	o, err := api.Get(ctx, domain.ClustersNoun, key)
	switch {
	case fail.Is(err, fail.NotFound) || own && fail.Is(err, fail.Forbidden):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return o.(*domain.Cluster), nil
}

// adding is what registers a cluster, or changes one that is registered as nobody has said that it is not to be; a label that cannot be one
// is refused before anything is made.
func adding(key domain.Key, registered *domain.Cluster, labels []string, report domain.Report) (*added, error) {
	provider, name := domain.Cut(domain.ClustersNoun, key)
	cluster := &domain.Cluster{Identity: domain.Identity{Parent: provider}, Metadata: domain.Metadata{Name: name}}
	if registered != nil {
		*cluster = *registered
	}
	cluster.Spec.Report = report
	a := &added{
		provider: client.Step{Object: &domain.ClusterProvider{Metadata: domain.Metadata{Name: provider.Name()}}},
		cluster:  client.Step{Object: cluster},
	}
	for _, l := range labels {
		label := &domain.ClusterLabel{Identity: domain.Identity{Parent: key}, Label: l}
		var p fail.Problems
		if label.Validate(&p); p.Err() != nil {
			return nil, usage("--label: %s", fail.TextOf(p.Err()))
		}
		a.labels = append(a.labels, client.Step{Object: label})
	}
	return a, nil
}

// registerBy writes what registers a cluster, one after the other. A provider that is there stays as it is.
func (s *session) registerBy(ctx context.Context, a *applier, steps ...client.Step) error {
	for _, step := range steps {
		if _, ok := step.Object.(*domain.ClusterProvider); ok {
			if old, err := a.before(ctx, step.Object); err != nil || old != nil {
				if err != nil {
					return err
				}
				continue
			}
		}
		done, err := a.put(ctx, step.Object, nil, step.File, nil)
		if err != nil {
			return fmt.Errorf("%s %s: %w", step.Object.Noun().Title, step.Object.LocalName(), err)
		}
		if a.dryRun && done != unchanged {
			done += " (dry run)"
		}
		s.sayf("%s %s", domain.KeyOf(step.Object), done)
	}
	return nil
}

// kubeconfig is one context of a kubeconfig with all that it names, and nothing else of it. One that is sent may not have its
// credentials by a program.
func (s *session) kubeconfig(file, name string, sent bool) ([]byte, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if file != "" {
		if _, err := os.Stat(file); err != nil {
			return nil, errUsage{err}
		}
		rules.ExplicitPath = file
	}
	config, err := rules.Load()
	if err != nil {
		return nil, errUsage{err}
	}
	if name == "" {
		name = config.CurrentContext
	}
	if name == "" {
		return nil, usage("the kubeconfig has no context that is current: --context names one, and --kubeconfig another file")
	}
	if config.Contexts[name] == nil {
		return nil, usage("the kubeconfig has no context %q", name)
	}
	config.CurrentContext = name
	if err := clientcmdapi.MinifyConfig(config); err != nil {
		return nil, errUsage{err}
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return nil, errUsage{err}
	}
	for who, user := range config.AuthInfos {
		if user.TokenFile != "" && user.Token == "" {
			data, err := os.ReadFile(user.TokenFile)
			if err != nil {
				return nil, errUsage{err}
			}
			user.Token, user.TokenFile = strings.TrimSpace(string(data)), "" // as who reads the file himself does
		}
		if sent && (user.Exec != nil || user.AuthProvider != nil) {
			return nil, usage("user %q of the kubeconfig gets its credentials by a program, which Drover does not run: leave --use-own-credentials out, "+
				"and an account is made with it", who)
		}
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}
	return data, nil
}
