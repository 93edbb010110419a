package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/internal/access"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
)

// accountFlags say in which cluster, with whose rights, which account of Drover's is made or changed.
type accountFlags struct {
	kubeconfig, context string
	dryRun              bool
	account, namespace  string
	address             string
	life                time.Duration
}

const (
	defaultLife = 90 * 24 * time.Hour
	accountTime = 2 * time.Minute // of what is asked of a cluster
)

// addCluster adds the flags that name a cluster and the account in it.
func (f *accountFlags) addCluster(c *cobra.Command) {
	f.life = defaultLife // where nothing is issued nobody says how long that is good
	c.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "the kubeconfig `file` (default KUBECONFIG, or kubectl's)")
	c.Flags().StringVar(&f.context, "context", "", "the `context` of the kubeconfig (default its current one); that of the API is DROVER_CONTEXT's")
	c.Flags().StringVar(&f.context, "kube-context", "", "the same")
	c.Flags().Lookup("kube-context").Hidden = true
	_ = c.RegisterFlagCompletionFunc("context", f.kubeContexts) // it has just been added
	c.Flags().StringVar(&f.account, "account", "", "the `name` of the ClusterRole and of its ServiceAccounts, which have a suffix (default of the installation and the registration: drover-site-edge01-3f9a0c1b)")
	c.Flags().StringVar(&f.namespace, "account-namespace", domain.AccountNamespace, "the `namespace` of the ServiceAccounts")
}

// kubeContexts are the contexts of the kubeconfig.
func (f *accountFlags) kubeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	config, err := rules.Load()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

func (f *accountFlags) add(c *cobra.Command) {
	f.addCluster(c)
	if c.Name() != "add" { // which has more to say of it
		c.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would be done, and do nothing")
	}
	if c.Name() != "remove" {
		c.Flags().StringVar(&f.address, "address", "", "the `URL` by which Drover reaches the cluster, where it is not that of the context: a tunnel's for example")
		c.Flags().DurationVar(&f.life, "expires-after", defaultLife, "for how long the token is to be good, at least 10m; the cluster may have it shorter")
	}
}

// given says whether a context was named.
func (f *accountFlags) given() bool { return f.kubeconfig != "" || f.context != "" }

// meant refuses flags about the account in the cluster where no cluster is looked at.
func (f *accountFlags) meant(c *cobra.Command) error {
	for _, name := range []string{"account", "account-namespace", "force"} {
		if c.Flags().Changed(name) && !f.given() {
			return usage("--%s is about the account in the cluster, and goes with --context or --kubeconfig", name)
		}
	}
	return nil
}

var notInNames = regexp.MustCompile(`[^a-z0-9-]+`)

// nameFor is the name of the account of a registration: what Kubernetes takes as a name, another one for each registration of each
// installation. Its end is a hash of both, as two names may be the same in what Kubernetes takes.
func (f *accountFlags) nameFor(h kube.Holder) string {
	if f.account != "" {
		return f.account
	}
	key := domain.Key(h.Registration)
	provider, name := domain.Cut(domain.ClustersNoun, key)
	made := notInNames.ReplaceAllString(strings.ToLower("drover-"+provider.Name()+"-"+name), "-")
	const most = 41 // with the hash, and the suffix of a ServiceAccount, it is the value of a label
	sum := sha256.Sum256([]byte(h.Installation + "/" + h.Registration))
	return strings.Trim(made[:min(len(made), most)], "-") + "-" + hex.EncodeToString(sum[:4])
}

// holder is who an account for a registration belongs to, as the API says which installation it is.
func (s *session) holder(ctx context.Context, api *client.API, key domain.Key) (kube.Holder, error) {
	who, err := api.Whoami(ctx, nil)
	if err != nil {
		return kube.Holder{}, err
	}
	if who.Installation == "" {
		return kube.Holder{}, fail.New(fail.Precondition, "the API does not say which installation it is, and accounts in clusters belong to one: it is older than this command (%s version)", s.Program)
	}
	return kube.Holder{Installation: who.Installation, Registration: string(key)}, nil
}

// openAccount opens the account.
func (s *session) openAccount(f *accountFlags, kubeconfig []byte, holder kube.Holder, role []byte) (*kube.Owned, error) {
	if f.life < 10*time.Minute {
		return nil, usage("--expires-after %s: a token is good for at least 10m", f.life)
	}
	if _, err := f.readdressed(nil); err != nil {
		return nil, err
	}
	o, err := kube.Own(kubeconfig, kube.Account{Namespace: f.namespace, Name: f.nameFor(holder), Role: role, Life: f.life}, holder)
	if err != nil {
		return nil, usage("%s", fail.TextOf(err))
	}
	o.Waits = func(what string) { s.note("It is waited %s.", what) }
	o.Told = func(what string) { s.warn([]string{what}) }
	return o, nil
}

// enrolment says how a cluster is registered with its account. Only register is given the token; first and last are what comes before and after.
type enrolment struct {
	report   domain.Report
	known    bool // it is registered already
	narrow   bool // rights that nobody has asked for now are taken away
	first    func() error
	register func(kubeconfig []byte) error
	last     func() error
}

// enroll makes the account of a cluster and has it registered. Each step can be done again: what is there stays, a token that the API never
// got ends with the next one that it gets.
func (s *session) enroll(ctx context.Context, o *kube.Owned, e enrolment) error {
	there, err := o.There(ctx)
	if err != nil {
		return err
	}
	if err := o.Allowed(ctx); err != nil { // before anything is made
		return err
	}
	if err := o.Alone(ctx); err != nil {
		return err
	}
	if err := e.first(); err != nil {
		return err
	}
	o.Anew = !e.known // nobody has a token that the API needs; who made the account in advance may
	if !e.narrow {
		kept, err := o.KeepRights(ctx)
		if err != nil {
			return err
		}
		if len(kept) > 0 {
			s.sayf("%d rights that nobody has asked for now stay: %s (--narrow)", len(kept), few(kept))
		}
	}
	if err := o.Make(ctx); err != nil {
		return err
	}
	done := created
	switch {
	case o.Changed():
		done = configured
	case there:
		done = unchanged
	}
	s.sayf("clusterrole %s %s in the cluster", o.Name, done)
	issued, err := s.replaceToken(ctx, o, e.known || there, e.register)
	if err != nil {
		return err
	}
	if err := e.last(); err != nil {
		return err
	}
	return s.sayAccess(ctx, issued.Kubeconfig, o.Role, e.report)
}

// replaceToken has a new token registered, and ends those before it. What the API has refused leaves nothing of it behind; what it may have
// stays: a token that it has and that has ended would cut the cluster off.
func (s *session) replaceToken(ctx context.Context, o *kube.Owned, known bool, register func(kubeconfig []byte) error) (*kube.Issued, error) {
	issued, err := o.Issue(ctx)
	if err != nil {
		return nil, err
	}
	if err := register(issued.Kubeconfig); err != nil {
		if refused(err) {
			s.takeBack(ctx, o, known, issued.Account)
		} else {
			s.warn([]string{"the API may have the new token: it stays good, as the one before does, until the same command is run again"})
		}
		return nil, err
	}
	if err := o.Revoke(ctx, issued); err != nil {
		return nil, err
	}
	s.sayf("the token of serviceaccount %s/%s is good until %s", o.Namespace, issued.Account, until(issued.Expires))
	s.warn(shortened(o.Life, issued.Expires))
	return issued, nil
}

// shortened warns of a token that the cluster has made far shorter than it was asked for, as managed ones do: who rotates it by what he has asked for comes
// too late.
func shortened(asked time.Duration, expires time.Time) []string {
	if given := time.Until(expires); given < asked/2 {
		return []string{fmt.Sprintf("the cluster lets no token live that long: it is good until %s, and not for %s; "+
			"have 'cluster rotate' run before that, again and again, or register a credential of another kind (--use-own-credentials)", until(expires), lasting(asked))}
	}
	return nil
}

// refused says whether the API has answered that it has not done what was asked. After a fault of its own, or without an answer, it may have.
func refused(err error) bool {
	var answered *client.Error
	return errors.As(err, &answered) && answered.Code >= 400 && answered.Code < 500 && !fail.IsUnanswered(err)
}

// reregister gives the API the credential of a cluster that is registered, which it refuses if it cannot use the cluster with it: what ends the one
// before comes next.
func (s *session) reregister(ctx context.Context, api *client.API, c *domain.Cluster, f *accountFlags, kubeconfig []byte) error {
	kubeconfig, err := f.readdressed(kubeconfig)
	if err != nil {
		return err
	}
	_, warnings, err := api.PutReachable(ctx, c, kubeconfig)
	if fail.Is(err, fail.Precondition) {
		s.note("The token before stays good. The API is given the context's address of the cluster, unless --address says by which one it can reach it.")
	}
	if err != nil {
		return err
	}
	s.warn(warnings)
	s.sayf("%s %s", domain.KeyOf(c), configured)
	return nil
}

// readdressed leads to the address by which Drover reaches the cluster; of no kubeconfig it only says whether the address is one.
func (f *accountFlags) readdressed(kubeconfig []byte) ([]byte, error) {
	if at, err := url.Parse(f.address); err != nil || f.address != "" && (at.Scheme != "https" || at.Host == "") {
		return nil, usage("--address %q: it is a URL such as https://edge01.example:6443", f.address)
	}
	if f.address == "" || kubeconfig == nil {
		return kubeconfig, nil
	}
	file, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("decode kubeconfig: %w", err)
	}
	for _, to := range file.Clusters {
		to.Server, to.TLSServerName, to.ProxyURL = f.address, "", "" // which are those of the way that is taken here
	}
	data, err := clientcmd.Write(*file)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}
	return data, nil
}

// takeBack takes away what nobody has registered.
func (s *session) takeBack(ctx context.Context, o *kube.Owned, known bool, account string) {
	var err error
	if known {
		err = o.End(ctx, account)
	} else {
		_, err = o.Drop(ctx)
	}
	if err != nil {
		s.warn([]string{"what was made in the cluster could not be taken away again: " + s.text(err)})
	}
}

// sayAccess tries a credential, and says what the cluster is like with it, and how it reports.
func (s *session) sayAccess(ctx context.Context, kubeconfig, role []byte, report domain.Report) error {
	ctx, cancel := context.WithTimeout(ctx, accountTime)
	defer cancel()
	seen, err := kube.See(ctx, kubeconfig, role)
	if err != nil {
		return fmt.Errorf("try the credential from here: %w", err)
	}
	rights := "all that are needed"
	switch {
	case len(seen.Lacks) > 0:
		rights = fmt.Sprintf("%d are missing: %s", len(seen.Lacks), few(seen.Lacks))
	case seen.Unknown != "":
		rights = "the cluster does not say them: " + printable(seen.Unknown)
	}
	s.sayf("Kubernetes %s answers in %s; rights: %s; reports by %s", printable(seen.Version), seen.Latency.Round(time.Millisecond/10), rights, report)
	return nil
}

// clusterRotate is the command cluster rotate.
func (s *session) clusterRotate() *cobra.Command {
	f := &accountFlags{}
	c := &cobra.Command{
		Use: "rotate NAME", Short: "Replace the credential of a cluster that 'cluster add' has made, at once",
		Long: `Replace the credential of a cluster that 'cluster add' has made. With the rights of a context of your kubeconfig a new ServiceAccount with
a token is made and given to the API, which has running operations go on with it; then the ServiceAccount before is deleted, which ends all
tokens of it. When it dies in between, run it again: until the API has the new token the one before is good. The API
refuses one with which it cannot reach the cluster; the one before stays then. Where the API reaches the cluster by another address than the
context has, say --address each time.

Who has stolen the token may have changed what the account says of itself, so that it seems to be another's, or may have bound somebody to its
ClusterRole. It is refused then, and the error says what was found. --force goes on: the account says again whose it is, and its tokens end. Bindings of
others stay, and are named.`,
		Example: "  drover cluster rotate edge01 --context edge01",
		Args:    numbered(1, 1, "the name of a cluster"),
		ValidArgsFunction: func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return s.completeOf(c.Context(), domain.ClustersNoun, &where{}), cobra.ShellCompDirectiveNoFileComp
		},
	}
	f.add(c)
	force := c.Flags().Bool("force", false, "take the account for that of this cluster although it says that it is another's, or although others have its rights, which are named and stay")
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		kubeconfig, err := s.kubeconfig(f.kubeconfig, f.context, false)
		if err != nil {
			return err
		}
		api, err := s.api()
		if err != nil {
			return err
		}
		key, err := s.pick(ctx, api, domain.ClustersNoun, args[0], &where{})
		if err != nil {
			return err
		}
		registered, err := api.Get(ctx, domain.ClustersNoun, key)
		if err != nil {
			return err
		}
		report := or(string(registered.(*domain.Cluster).Spec.Report), string(domain.ReportAuto))
		holder, err := s.holder(ctx, api, key)
		if err != nil {
			return err
		}
		role, err := access.ClusterRole(f.nameFor(holder), domain.Report(report), false)
		if err != nil {
			return err
		}
		o, err := s.openAccount(f, kubeconfig, holder, role)
		if err != nil {
			return err
		}
		o.Force = *force
		there, err := o.There(ctx)
		if err != nil {
			return err
		}
		if !there {
			return fail.New(fail.NotFound, "the cluster of that context has no account %s of Drover's: it is not %s, or 'cluster add' has not made its account", o.Name, key)
		}
		if err := o.Alone(ctx); err != nil {
			return err
		}
		if f.dryRun {
			s.sayf("%s would get a token of another ServiceAccount %s/%s-… (dry run)", key, o.Namespace, o.Name)
			return nil
		}
		if *force {
			if err := o.Restore(ctx); err != nil {
				return err
			}
		}
		issued, err := s.replaceToken(ctx, o, true, func(kubeconfig []byte) error {
			return s.reregister(ctx, api, registered.(*domain.Cluster), f, kubeconfig)
		})
		if err != nil {
			return err
		}
		return s.sayAccess(ctx, issued.Kubeconfig, role, domain.Report(report))
	}
	return c
}

// forgotten says how a cluster is removed.
type forgotten struct {
	*accountFlags
	abandon bool
	force   bool // although it cannot be seen whether it is registered
}

// dropAgent takes the agent away that `report: install` has put into a cluster: nobody else does, as what others have there may be reported by it, too.
const dropAgent = "kubectl delete namespace/" + domain.AgentNamespace + " clusterrole/drover-monitor clusterrolebinding/drover-monitor crd/resourcebundlestates.k8splugin.io"

// forgetCluster deletes a registration, and where a context is given the account in the cluster. A second run goes on with what is left.
// Where the account is not there, nothing is deleted: it is in another cluster, and its token good.
func (s *session) forgetCluster(ctx context.Context, api *client.API, key domain.Key, f *forgotten) error {
	registered, err := s.registration(ctx, api, key, f)
	if err != nil {
		return err
	}
	known := registered != nil
	var o *kube.Owned
	there := false
	if f.given() {
		kubeconfig, err := s.kubeconfig(f.kubeconfig, f.context, false)
		if err != nil {
			return err
		}
		holder, err := s.holder(ctx, api, key)
		if err != nil {
			return err
		}
		if o, err = s.openAccount(f.accountFlags, kubeconfig, holder, nil); err != nil {
			return err
		}
		o.Force = f.force
		if there, err = o.There(ctx); err != nil { // another's, or it does not answer: then nothing is forgotten yet
			return err
		}
		missing := fmt.Sprintf("the cluster of that context has no account %s of Drover's", o.Name)
		switch {
		case !there && known:
			return fail.New(fail.Conflict, "%s: it is not %s, or 'cluster add' has not made its account; nothing is deleted; without --context the registration alone is", missing, key)
		case !there:
			s.warn([]string{missing + ": if it is the cluster of another context, the account there has a token that stays good"})
		}
	}
	if there {
		s.sayOthers(ctx, o)
	}
	if f.dryRun {
		switch {
		case known:
			if err := s.removable(ctx, api, key); err != nil {
				return err
			}
			s.sayf("%s would be deleted (dry run)", key)
		case o == nil:
			return fail.New(fail.NotFound, "cluster %q not found", key.Name())
		default:
			s.sayf("%s is not there", key)
		}
		if there {
			s.sayf("its account %s would be deleted in the cluster (dry run)", o.Name)
		}
		return nil
	}
	done, err := s.removeCluster(ctx, api, key, f.abandon)
	if o != nil && fail.Is(err, fail.NotFound) && known { // who may see it now knows that it has gone meanwhile
		still, again := s.registration(ctx, api, key, f)
		if again != nil {
			return again
		}
		if still != nil { // something else is not found, or not the caller's to know of
			return err
		}
	}
	switch {
	case o != nil && fail.Is(err, fail.NotFound):
		s.sayf("%s is not there", key)
	case err != nil:
		return err
	default:
		s.sayf("%s %s", key, done)
		if known && registered.Reporting() == domain.ReportInstall {
			s.note("The agent that Drover has installed in the cluster is still there, with its rights. Unless others use it, take it away: %s", dropAgent)
		}
	}
	if o == nil {
		s.note("The account that 'cluster add' may have made in the cluster is still there: with --context it is taken away.")
		return nil
	}
	if there, err = o.Drop(ctx); err != nil {
		return err
	}
	if there {
		s.sayf("account %s/%s deleted in the cluster", o.Namespace, o.Name)
	}
	return nil
}

// removable says of a cluster that the API would refuse to delete it with its labels. What cannot be asked hinders nothing, and what names the cluster
// is not looked for: that may be in any project.
func (s *session) removable(ctx context.Context, api *client.API, key domain.Key) error {
	flags, _ := s.hinders(ctx, api, &deleteFlags{along: domain.ClusterLabels}, domain.ClustersNoun, key)
	switch {
	case slices.Contains(flags, "--terminate"):
		return fail.New(fail.Conflict, "it would be refused (dry run), as its network intents are in it: '%s terminate cluster %s' takes them out", s.Program, key)
	case len(flags) > 0:
		return fail.New(fail.Conflict, "it would be refused (dry run), as more than labels is below it: '%s delete %s --cascade' deletes that, too", s.Program, key)
	}
	here, err := api.Explain(ctx, key)
	if err != nil {
		s.note("What has something in it could not be looked at (dry run): " + s.text(err))
		return nil
	}
	if here.Cluster != nil {
		for _, d := range here.Cluster.Deployments {
			if d.Resource != key { // its network intents are its own
				return fail.New(fail.Conflict, "it would be refused (dry run), as %s %s has something in it; terminate that first", d.Title, d.Resource)
			}
		}
	}
	s.note("It is not looked (dry run) whether cluster references, intents or tenants name it, or what you may not see, or tenants that are gone, have something in it: then it is refused.")
	return nil
}

// sayOthers warns of who else has the rights of an account, before it goes: then nothing leads to them any more, and what is theirs stays.
func (s *session) sayOthers(ctx context.Context, o *kube.Owned) {
	others, err := o.Others(ctx)
	if others != nil {
		for _, one := range others.Lasting {
			s.warn([]string{"somebody else has the rights of the account: " + printable(one) + "; find out who made it, and what was made by it"})
		}
	}
	if err != nil {
		s.warn([]string{"whether others have the rights of the account cannot be told: " + s.text(err)})
	}
}

// registration is that of a cluster; nil for one that has none. That it is not found says nothing to who may not see it: then it is
// refused, as the API may go on using the account in the cluster, unless that is to be taken away in any case.
func (s *session) registration(ctx context.Context, api *client.API, key domain.Key, f *forgotten) (*domain.Cluster, error) {
	o, err := api.Get(ctx, domain.ClustersNoun, key)
	if err == nil {
		return o.(*domain.Cluster), nil
	}
	if !fail.Is(err, fail.NotFound) {
		return nil, err
	}
	if !f.given() || f.force {
		return nil, nil //nolint:nilnil // there is none, as is said above
	}
	provider, _ := domain.Cut(domain.ClustersNoun, key)
	lacks, err := s.lacks(ctx, api, right{"get", domain.ClustersNoun, provider})
	if err == nil && lacks != "" {
		err = fail.New(fail.Forbidden, "whether %s is registered is not yours to see, so that Drover may go on working with its account: %s; nothing is deleted; --force takes the account away all the same", key, lacks)
	}
	return nil, err
}

// until is a time to come for people.
func until(t time.Time) string {
	return fmt.Sprintf("%s (%s)", t.Local().Format(time.DateTime), lasting(time.Until(t)))
}

// lasting is a time for people: days, but for what is short.
func lasting(d time.Duration) string {
	if d < 48*time.Hour {
		return d.Round(time.Minute).String()
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
