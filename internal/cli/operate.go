package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/status"
)

const aboutOwner = `NAME is a deployment intent group, or with its noun before it another owner: cluster/edge01 (its network intents), cloud/lcadmin. Of
the path the last parts will do: web, v1/web; what is not given is looked for.`

const (
	aboutGroup = `NAME is a deployment intent group. Of its path the last parts will do: web, v1/web; what is not given is looked for.`
	aboutCloud = `NAME is a deployment intent group, or with its noun before it a logical cloud: cloud/lcadmin. Of the path the last parts will do: web,
v1/web; what is not given is looked for.`
)

// aboutName says what an operation can be asked of, and how it is named.
func aboutName(op domain.Operation) (use, about string) {
	switch {
	case offers(domain.ClustersNoun, op):
		return "[NOUN] NAME", aboutOwner
	case offers(domain.LogicalClouds, op):
		return "[NOUN] NAME", aboutCloud
	default:
		return "NAME", aboutGroup
	}
}

// operateFlags are those of operations.
type operateFlags struct {
	where
	wait        bool
	dryRun      bool
	reapply     bool
	timeout     time.Duration
	revision    int
	back        func() bool // says that a revision is given, which may be 0
	version, to string
}

// operations are the commands approve, instantiate, update and so on: an operation has one where an owner offers it.
func (s *session) operations() []*cobra.Command {
	var all []*cobra.Command
	seen := map[domain.Operation]bool{}
	for _, noun := range domain.Owners {
		for _, o := range noun.Owner.Operations {
			if !seen[o.Operation] {
				seen[o.Operation] = true
				all = append(all, s.operation(o))
			}
		}
	}
	return all
}

// shortOf is what the commands say of themselves, and an example.
var shortOf = map[domain.Operation][2]string{
	domain.OpApprove:     {"Approve a deployment intent group: it is rendered and placed, and what cannot be is refused", "drover approve web"},
	domain.OpInstantiate: {"Put what is described into clusters (of a cluster: apply its network intents)", "drover instantiate web --wait"},
	domain.OpTerminate:   {"Take out of clusters what is there", "drover terminate web --wait --timeout 5m"},
	domain.OpStop:        {"End the operation that goes on; what it has done stays", "drover stop web"},
	domain.OpUpdate:      {"Bring clusters in line with what is described now", "drover diff web\n  drover update web --wait\n  drover update web --reapply   # puts back what others have taken away"},
	domain.OpRollback:    {"Bring clusters back to a revision", "drover history web\n  drover rollback web --to 2 --wait"},
	domain.OpMigrate:     {"Hand what is in clusters over to a group of another version of the composite app", "drover migrate v1/web --version v2 --to web"},
}

func (s *session) operation(o domain.OwnerOperation) *cobra.Command {
	op, f := o.Operation, &operateFlags{back: func() bool { return false }}
	use, about := aboutName(op)
	answer := "The answer comes when the operation is accepted; --wait waits for its end, and says why where it ends otherwise."
	if op == domain.OpApprove {
		answer = "The answer comes when the group is rendered and placed, so that --wait changes nothing; --timeout bounds it."
	}
	c := &cobra.Command{
		Use: string(op) + " " + use, Short: shortOf[op][0], Example: "  " + shortOf[op][1],
		Long: shortOf[op][0] + ".\n\n" + about + "\n\n" + answer,
		Args: numbered(1, 2, "the name of a group, or a noun and a name"), ValidArgsFunction: s.completeOwners(offering(op)...),
	}
	s.placed(c, &f.where)
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what it would change in clusters, as far as the API can tell, and do nothing")
	if op == domain.OpApprove {
		c.Flags().BoolVar(&f.wait, "wait", false, "as without: the answer is the end")
		c.Flags().DurationVar(&f.timeout, "timeout", 0, "how long to wait for the answer; 0 for as long as it takes")
	} else {
		c.Flags().BoolVar(&f.wait, "wait", false, "wait for the end, and show what is going on")
		c.Flags().DurationVar(&f.timeout, "timeout", defaultWait, "how long to wait; 0 for as long as it takes")
	}
	switch op {
	case domain.OpUpdate:
		c.Flags().BoolVar(&f.reapply, "reapply", false, "apply all again, also what is in clusters as it is described: what others have changed there, or taken away, is put back, and the hooks of an update are run on each cluster")
	case domain.OpRollback:
		c.Flags().IntVar(&f.revision, "to", 0, "the `revision`, as \"history\" shows it")
		f.back = func() bool { return c.Flags().Changed("to") }
		s.completeFlagBeside(c, "to", s.completeRevisions)
	case domain.OpMigrate:
		c.Flags().StringVar(&f.version, "version", "", "the `version` of the composite app to migrate to")
		c.Flags().StringVar(&f.to, "to", "", "the `group` of that version to migrate to (default one of the same name)")
		s.completeFlagBeside(c, "version", s.completeVersions)
		s.completeFlagBeside(c, "to", s.completeGroupsThere)
	default: // the others need nothing to be said with them
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := timed(c, f.wait || op == domain.OpApprove, "--wait"); err != nil {
			return err
		}
		if op == domain.OpApprove {
			return s.doApprove(c.Context(), f, args)
		}
		return s.doOperate(c.Context(), f, op, args)
	}
	return c
}

// doApprove asks for an approve, which is over when it is answered.
func (s *session) doApprove(ctx context.Context, f *operateFlags, args []string) error {
	asking, cancel := bounded(ctx, f.timeout)
	defer cancel()
	err := s.doOperate(asking, f, domain.OpApprove, args)
	if err != nil && ctx.Err() == nil && asking.Err() != nil {
		return fail.New(fail.Timeout, "the API has not answered after %s; whether it approves all the same is in '%s status %s'", f.timeout, s.Program, strings.Join(args, " "))
	}
	return err
}

func (s *session) doOperate(ctx context.Context, f *operateFlags, op domain.Operation, args []string) error {
	switch {
	case op == domain.OpRollback && (!f.back() || f.revision < 0):
		return usage("--to is needed: the revision to bring back, as '%s history' shows it", s.Program)
	case op == domain.OpMigrate && f.version == "":
		return usage("--version is needed: that of the composite app to migrate to")
	}
	api, err := s.api()
	if err != nil {
		return err
	}
	key, err := s.owner(ctx, api, args, &f.where)
	if err != nil {
		return err
	}
	noun := domain.OwnerNoun(key)
	if !offers(noun, op) {
		return usage("%s has no %s; what it has: %s", aOf(noun), op, offered(noun))
	}
	spec := map[string]any{}
	switch op {
	case domain.OpUpdate:
		if f.reapply {
			spec["reapply"] = true
		}
	case domain.OpRollback:
		spec["revision"] = strconv.Itoa(f.revision)
	case domain.OpMigrate:
		group := or(f.to, key.Name())
		spec["targetCompositeAppVersion"], spec["targetDeploymentIntentGroup"] = f.version, group
	default:
	}
	if f.dryRun {
		return s.rehearse(ctx, api, key, op, f)
	}
	before := 0
	if op == domain.OpUpdate {
		d, err := api.Status(ctx, key, summary)
		if err != nil {
			return err
		}
		before = d.States.Revision()
	}
	accepted, err := s.ask(ctx, api, key, op, spec)
	if err != nil {
		return err
	}
	switch same := s.saySame(key, op, accepted, before); {
	case !same:
		s.warn(accepted.Warnings)
		s.sayf("%s %s", key, past(op, accepted))
	case !f.reapply:
		s.note("What others have changed in clusters, or taken away, is put back by '%s update %s --reapply'.", s.Program, key)
	}
	if op == domain.OpRollback {
		s.sayNext(ctx, api, key, f.revision)
	}
	if !f.wait || op == domain.OpApprove {
		return nil
	}
	return s.await(ctx, api, watched(key, op, spec), op, f.timeout)
}

// watched is the owner whose status tells how far an operation is: that which is asked, of a migrate the group that it goes to.
func watched(key domain.Key, op domain.Operation, spec map[string]any) domain.Key {
	names, ok := domain.DeploymentIntentGroups.Split(key)
	if op != domain.OpMigrate || !ok {
		return key
	}
	names["compositeAppVersion"], names["deploymentIntentGroup"] = said(spec, "targetCompositeAppVersion"), said(spec, "targetDeploymentIntentGroup")
	target, _ := domain.DeploymentIntentGroups.Key(names)
	return target
}

// said is a member of a spec as a text, "" for one that is not there.
func said(spec map[string]any, name string) string {
	if spec[name] == nil {
		return ""
	}
	return fmt.Sprint(spec[name])
}

// rehearse says what an operation would do, as far as the API can tell, and asks for nothing.
func (s *session) rehearse(ctx context.Context, api *client.API, key domain.Key, op domain.Operation, f *operateFlags) error {
	query := url.Values{"operation": {string(op)}, "limit": {mostAtOnce}}
	switch op {
	case domain.OpRollback:
		query.Set("revision", strconv.Itoa(f.revision))
	case domain.OpMigrate:
		query.Set("version", f.version)
		query.Set("group", or(f.to, key.Name()))
	case domain.OpInstantiate:
	case domain.OpUpdate:
		if f.reapply {
			query.Set("reapply", "true")
		}
	default:
		query = nil
	}
	if query == nil || domain.OwnerNoun(key) != domain.DeploymentIntentGroups {
		return s.rehearseByState(ctx, api, key, op)
	}
	d, err := api.Diff(ctx, key, query)
	if err != nil {
		return err
	}
	s.warn(d.Warnings)
	writeLines(s.Out, differenceLines(d, false))
	return nil
}

// rehearseByState says what an operation would touch of which the API has no difference, and refuses what the state of the owner forbids.
func (s *session) rehearseByState(ctx context.Context, api *client.API, key domain.Key, op domain.Operation) error {
	noun := domain.OwnerNoun(key)
	o, err := api.Get(ctx, noun, key)
	if err != nil {
		return err
	}
	d, err := api.Status(ctx, key, standingOf(key))
	if err != nil {
		return err
	}
	owner := o.(domain.Owner)
	*owner.Track() = d.States
	change, err := owner.Decide(d.Status, op)
	if err != nil {
		return err
	}
	is := or(string(d.Status), string(d.States.State()))
	if op == domain.OpApprove {
		p, err := api.PreviewGroup(ctx, key)
		if err != nil {
			return err
		}
		s.warn(p.Warnings)
		s.sayPreview(p)
		return nil
	}
	resources, clusters := footprint(d)
	there := fmt.Sprintf("%s on %s", counted(resources, "resource"), counted(clusters, "cluster"))
	switch {
	case change.Same:
		s.sayf("%s is %s; %s would change nothing (dry run)", key, is, op)
	case op == domain.OpTerminate && resources == 0:
		s.sayf("%s is %s; nothing is known to be in any cluster, and they would be asked all the same (dry run)", key, is)
	case op == domain.OpTerminate:
		s.sayf("%s is %s; up to %s would be deleted (dry run)", key, is, there)
	case op == domain.OpStop:
		s.sayf("%s is %s; that would be broken off, and what is done stays: up to %s (dry run)", key, is, there)
	default:
		s.sayf("%s is %s; %s would be asked for (dry run)", key, is, op)
	}
	return nil
}

// sayPreview says what an approve has rendered and placed.
func (s *session) sayPreview(p *service.GroupPreview) {
	resources, clusters := 0, map[string]bool{}
	for _, a := range p.Apps {
		resources += cmp.Or(a.Total, a.Resources*len(a.Clusters)) // an older API does not say the total
		for _, c := range a.Clusters {
			clusters[c.Cluster] = true
		}
	}
	s.sayf("%s would be approved; an instantiate would put %s of %s on %s (dry run)", p.Group,
		counted(resources, "resource"), counted(len(p.Apps), "app"), counted(len(clusters), "cluster"))
	for _, a := range p.Apps {
		more := ""
		if len(a.Differences) > 0 {
			more = ", some of which get something otherwise"
		}
		s.sayf("  %s: %s on %s%s", a.App, counted(a.Resources, "resource"), counted(len(a.Clusters), "cluster"), more)
	}
}

// footprint is how many resources may be in how many clusters, as a status has them.
func footprint(d *status.Document) (resources, clusters int) {
	all := slices.Clone(d.Clusters)
	if d.Cluster != nil {
		all = append(all, *d.Cluster)
	}
	for _, a := range d.Apps {
		all = append(all, a.Clusters...)
	}
	in := map[domain.ClusterName]bool{}
	for _, c := range all {
		for state, n := range deployedOf(c) {
			if state != domain.ResourceDeleted && n > 0 {
				resources += n
				in[domain.ClusterName{Provider: c.Provider, Name: c.Name}] = true
			}
		}
	}
	return resources, len(in)
}

// sayNext says, of a group that goes back to a revision, that what is described is otherwise, and what the next update would do.
func (s *session) sayNext(ctx context.Context, api *client.API, key domain.Key, revision int) {
	if s.flags.quiet {
		return
	}
	d, err := api.Diff(ctx, key, url.Values{"operation": {string(domain.OpUpdate)}, "revision": {strconv.Itoa(revision)}, "limit": {mostAtOnce}})
	switch {
	case err != nil:
		s.note("What is described stays as it is, and is what the next update goes by.")
	case quantityOf(d) != "":
		s.note("What is described stays as it is, and says otherwise than revision %d: the next update has %s ('%s diff %s' shows it once the rollback is over).",
			revision, quantityOf(d), s.Program, key)
	}
}

// saySame says of an update that has made no revision that there was nothing to do; it says whether it was so.
func (s *session) saySame(key domain.Key, op domain.Operation, accepted *client.Accepted, before int) bool {
	if op != domain.OpUpdate || !accepted.Counted || accepted.Revision != before {
		return false
	}
	s.warn(accepted.Warnings[min(1, len(accepted.Warnings)):]) // the first one says it, too
	s.sayf("%s %s", key, unchanged)
	return true
}

// past says of an operation that it was accepted.
func past(op domain.Operation, accepted *client.Accepted) string {
	switch {
	case op == domain.OpApprove:
		return "approved"
	case accepted.Revision > 0:
		return fmt.Sprintf("%s accepted, revision %d", op, accepted.Revision)
	default:
		return string(op) + " accepted"
	}
}

func offers(noun *domain.Noun, op domain.Operation) bool {
	for _, o := range noun.Owner.Operations {
		if o.Operation == op {
			return true
		}
	}
	return false
}

func offered(noun *domain.Noun) string {
	var all []string
	for _, o := range noun.Owner.Operations {
		all = append(all, string(o.Operation))
	}
	return strings.Join(all, ", ")
}

// ask asks for an operation; the spec is that of rollback and migrate, and says of an update whether all is applied again.
func (s *session) ask(ctx context.Context, api *client.API, key domain.Key, op domain.Operation, spec map[string]any) (*client.Accepted, error) {
	if err := checkSpec(op, spec); err != nil {
		return nil, err
	}
	switch op {
	case domain.OpRollback:
		revision, _ := strconv.Atoi(said(spec, "revision")) // it is one
		return api.Rollback(ctx, key, revision)
	case domain.OpMigrate:
		return api.Migrate(ctx, key, said(spec, "targetCompositeAppVersion"), said(spec, "targetDeploymentIntentGroup"))
	case domain.OpUpdate:
		if said(spec, "reapply") == "true" {
			return api.Reapply(ctx, key)
		}
	default:
	}
	return api.Operate(ctx, key, op)
}

// checkSpec refuses what the spec of an operation cannot say.
func checkSpec(op domain.Operation, spec map[string]any) error {
	switch op {
	case domain.OpRollback:
		if _, err := strconv.Atoi(said(spec, "revision")); err != nil {
			return usage("spec.revision: %q is no revision", said(spec, "revision"))
		}
	case domain.OpUpdate:
		if again := said(spec, "reapply"); !slices.Contains([]string{"", "false", "true"}, again) {
			return usage("spec.reapply: %q; use true or false", again)
		}
	default:
	}
	return nil
}

// owner is the owner that arguments name: a group, or what a noun before the name says.
func (s *session) owner(ctx context.Context, api *client.API, args []string, w *where) (domain.Key, error) {
	n, name := domain.DeploymentIntentGroups, args[0]
	if len(args) == 2 {
		found, err := nounOf(args[0], s.given(w))
		if err != nil {
			return "", err
		}
		n, name = found, args[1]
	} else if path := domain.Key(strings.Trim(strings.TrimPrefix(name, "/v2"), "/")); domain.IsOwner(path) {
		return path, nil
	} else if word, rest, ok := strings.Cut(name, "/"); ok {
		for _, owner := range domain.Owners {
			if found, err := nounOf(word, s.given(w)); err == nil && found == owner {
				n, name = owner, rest
			}
		}
	}
	if n.Owner == nil {
		return "", usage("%s has no operations; deployment intent groups, logical clouds and clusters do", aOf(n))
	}
	return s.pick(ctx, api, n, name, w)
}
