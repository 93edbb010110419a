package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/access"
	"github.com/drover-io/drover/internal/cli"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/secret"
)

const credentialUsage = `usage: drover cluster-credential --kubeconfig FILE [flags]

Makes a ServiceAccount in a cluster that has the least rights that Drover needs there, and writes a kubeconfig with a token of it to a file
that its owner alone can read (--out), or to the standard output: register the cluster with that one. With --show it makes nothing, and
writes the ClusterRole to the standard output.

`

// credentialTime bounds the command: five requests.
const credentialTime = time.Minute

// makeCredential is the command cluster-credential.
func makeCredential(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("drover cluster-credential", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintf(stderr, "%s", credentialUsage)
		flags.PrintDefaults()
	}
	admin := flags.String("kubeconfig", "", "kubeconfig `file` of an administrator of the cluster")
	report := flags.String("report", string(domain.ReportAuto), "how the cluster is to report, as in its `spec.report`")
	groups := flags.String("groups", "", "further API `groups` whose kinds charts have, comma-separated; * for any")
	rules := flags.String("rules", "", "`file` with further rules, in YAML or JSON: a list of them, or a ClusterRole that has them")
	users := flags.Bool("logical-cloud-users", false, "whether it is for logical clouds of level 1 too: the certificates of their users are signed, and whoever may have that done may be any user of the cluster")
	out := flags.String("out", "", "new `file` for the kubeconfig, which its owner alone can read")
	name := flags.String("name", "drover", "`name` of the ServiceAccount, the ClusterRole and the binding")
	namespace := flags.String("namespace", domain.AccountNamespace, "`name` of the ServiceAccount's namespace, which is made")
	life := flags.Duration("expires-after", 90*24*time.Hour, "for how long the token is to be good, at least 10m; the cluster may have it shorter")
	show := flags.Bool("show", false, "whether the ClusterRole is shown, and nothing is made")
	if err := config.Parse(flags, args); err != nil {
		return wrongLine(err)
	}
	if flags.NArg() > 0 {
		return wrongLine(fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	}
	var more []string
	if *groups != "" {
		more = strings.Split(*groups, ",")
	}
	role, err := access.ClusterRole(*name, domain.Report(*report), *users, more...)
	if err != nil {
		return wrongLine(err)
	}
	if *rules != "" {
		further, err := cli.ReadRules(*rules)
		if err != nil {
			return err
		}
		if role, err = further.On(role); err != nil {
			return wrongLine(err)
		}
	}
	if *show {
		_, err := stdout.Write(role)
		return err
	}
	if *admin == "" {
		flags.Usage()
		return wrongLine(errors.New("--kubeconfig is required"))
	}
	if _, err := os.Lstat(*out); *out != "" && !errors.Is(err, fs.ErrNotExist) {
		return wrongLine(cmp.Or(err, fmt.Errorf("%s (--out) is there already: nothing was made", *out)))
	}
	data, err := os.ReadFile(*admin)
	if err != nil {
		return wrongLine(err)
	}
	ctx, cancel := context.WithTimeout(ctx, credentialTime)
	defer cancel()
	kubeconfig, expires, err := kube.Credential(ctx, data, kube.Account{Namespace: *namespace, Name: *name, Role: role, Life: *life})
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "the token is good until %s\n", expires.Local().Format(time.RFC3339))
	if *out != "" {
		return secret.WriteNew(*out, kubeconfig)
	}
	_, err = stdout.Write(kubeconfig)
	return err
}
