package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
)

// cluster is the command cluster.
func (s *session) cluster() *cobra.Command {
	c := &cobra.Command{
		Use: "cluster", Short: "Register clusters, list them and see whether they can be used",
		Example: "  drover cluster add site/edge01 --kube-context edge01 --label edge\n  drover cluster list\n  drover cluster check edge01",
		Args:    cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
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
			if err != nil {
				return err
			}
			return do(c.Context(), api, key)
		}
		return one
	}
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List the clusters with where each of them stands", Args: cobra.NoArgs}
	output := list.Flags().StringP("output", "o", "", aboutOutput)
	list.RunE = func(c *cobra.Command, _ []string) error {
		return s.doGet(c.Context(), &getFlags{output: *output}, domain.ClustersNoun.Kind, nil)
	}
	remove := &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, Short: "Forget a cluster, with its labels and what else is registered of it",
		Long:    "Forget a cluster, with its labels and what else is registered of it. One in which something runs is refused: terminate that first.",
		Example: "  drover cluster remove edge01",
	}
	abandon := remove.Flags().Bool("abandon", false, "forget it although it may keep something for ever, since it does not come back")
	c.AddCommand(
		s.clusterAdd(), list,
		named(&cobra.Command{
			Use: "check NAME", Short: "Say whether a cluster answers, what runs there and what hangs there; exit code 1 when it does not answer",
			Example: "  drover cluster check edge01",
		}, s.checkCluster),
		named(remove, func(ctx context.Context, api *client.API, key domain.Key) error {
			f := &deleteFlags{abandon: *abandon}
			return s.tasks([]domain.Key{key}, func(key domain.Key) (string, error) { return s.removeCluster(ctx, api, f, key) })
		}),
	)
	return c
}

// removeCluster deletes the registration. Its labels go first, and come back where it does not go: who is refused, or has had enough,
// has lost nothing.
func (s *session) removeCluster(ctx context.Context, api *client.API, f *deleteFlags, key domain.Key) (string, error) {
	labels, err := api.List(ctx, domain.ClusterLabels, key)
	if err != nil {
		return "", err
	}
	for _, child := range domain.Nouns {
		if child.Parent != domain.ClustersNoun || child == domain.ClusterLabels {
			continue
		}
		found, err := listed(ctx, api, &selection{noun: child, fixed: map[string]string{}}, key)
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return "", fail.New(fail.Conflict, "it has %s %q: delete that first", child.Title, found[0].key.Name())
		}
	}
	done := ""
	for _, l := range labels {
		if err = api.Delete(ctx, domain.KeyOf(l)); err != nil && !fail.Is(err, fail.NotFound) {
			break
		}
		err = nil
	}
	if err == nil {
		done, err = s.deleteKey(ctx, api, f, domain.ClustersNoun, key)
	}
	if err != nil {
		s.putBack(ctx, api, labels, key)
	}
	return done, err
}

// putBackTime bounds how long a command that has ended goes on to put back what it took.
const putBackTime = 30 * time.Second

// putBack makes labels of a cluster again where they are not there, also for who has had enough. A label whose deletion had no answer
// may be there still.
func (s *session) putBack(ctx context.Context, api *client.API, labels []domain.Object, key domain.Key) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackTime)
	defer cancel()
	for _, l := range labels {
		l.Base().Parent = key
		_, err := api.Create(ctx, l, nil)
		switch {
		case err == nil, fail.Is(err, fail.Conflict):
		case fail.Is(err, fail.NotFound): // the cluster is gone after all
			return
		default:
			s.warn([]string{fmt.Sprintf("label %s could not be put back: %s", l.LocalName(), s.text(err))})
		}
	}
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

func (s *session) checkCluster(ctx context.Context, api *client.API, key domain.Key) error {
	status, err := s.standing(ctx, api, key)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "Path:          %s\nConnectivity:  %s\nReports by:    %s\nHeard now:     %t\nGroups there:  %d\n",
		key, status.Connectivity, status.Report, status.Heard, status.Groups)
	if status.Reason != "" {
		fmt.Fprintf(s.Out, "Reason:        %s\n", printable(status.Reason))
	}
	text, err := api.ExplainText(ctx, key)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "\n%s", text)
	if status.Connectivity == domain.ConnectivityRetrying {
		return errSaid{exitFailed}
	}
	return nil
}

// clusterAdd is the command cluster add.
func (s *session) clusterAdd() *cobra.Command {
	c := &cobra.Command{
		Use: "add PROVIDER/NAME", Short: "Register a cluster by a context of your kubeconfig",
		Long: `Register a cluster by a context of your kubeconfig: the cluster and the user of that context, with the files that they name, are sent to
the API, which seals them. The provider is made where it is not there. What works in the cluster has the rights of that user then:
make one for Drover in the cluster where that should not be you. A user that runs a program for its credentials cannot be sent.`,
		Example: "  drover cluster add site/edge01 --kube-context edge01 --label edge\n  drover cluster add site/edge01 --kubeconfig edge01.yaml --report agentless",
		Args:    numbered(1, 1, "a provider and a name, such as site/edge01"),
	}
	file := c.Flags().String("kubeconfig", "", "the kubeconfig `file` (default KUBECONFIG, or kubectl's)")
	from := c.Flags().String("kube-context", "", "the `context` of the kubeconfig (default its current one)")
	labels := c.Flags().StringSlice("label", nil, "a `label` for placements to select it by")
	report := c.Flags().String("report", "", "how the cluster reports: auto, agent, install, agentless or none")
	c.RunE = func(c *cobra.Command, args []string) error {
		x, err := s.choose(domain.ClustersNoun, args[0], &where{})
		if err != nil {
			return err
		}
		key, ok := x.one()
		if !ok {
			return usage("%q is not the name of a new cluster: give its provider as well, such as site/%s", args[0], args[0])
		}
		kubeconfig, err := s.kubeconfig(*file, *from)
		if err != nil {
			return err
		}
		api, err := s.api()
		if err != nil {
			return err
		}
		return s.addCluster(c.Context(), api, key, kubeconfig, *labels, domain.Report(*report))
	}
	return c
}

func (s *session) addCluster(ctx context.Context, api *client.API, key domain.Key, kubeconfig []byte, labels []string, report domain.Report) error {
	provider, name := domain.Cut(domain.ClustersNoun, key)
	steps := []client.Step{
		{Object: &domain.ClusterProvider{Metadata: domain.Metadata{Name: provider.Name()}}},
		{Object: &domain.Cluster{
			Identity: domain.Identity{Parent: provider}, Metadata: domain.Metadata{Name: name}, Spec: domain.ClusterSpec{Report: report},
		}, File: kubeconfig},
	}
	for _, l := range labels {
		steps = append(steps, client.Step{Object: &domain.ClusterLabel{Identity: domain.Identity{Parent: key}, Label: l}})
	}
	a := s.applier(api, false)
	for _, step := range steps {
		if _, ok := step.Object.(*domain.ClusterProvider); ok {
			if old, err := a.before(ctx, step.Object); err != nil || old != nil {
				if err != nil {
					return err
				}
				continue
			}
		}
		done, err := a.put(ctx, step.Object, step.File, nil)
		if err != nil {
			return fmt.Errorf("%s %s: %w", step.Object.Noun().Title, step.Object.LocalName(), err)
		}
		s.sayf("%s %s", domain.KeyOf(step.Object), done)
	}
	return nil
}

// kubeconfig is one context of a kubeconfig with all that it names, and nothing else of it.
func (s *session) kubeconfig(file, name string) ([]byte, error) {
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
			user.Token, user.TokenFile = string(data), ""
		}
		if user.Exec != nil || user.AuthProvider != nil {
			return nil, usage("user %q of the kubeconfig gets its credentials by a program, which Drover does not run: make a ServiceAccount for it, "+
				"and use a kubeconfig with its token", who)
		}
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}
	return data, nil
}
