package service

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/logicalcloud"
)

// The lifecycle of an admin logical cloud (level 0) is in its document alone: there is nothing to put
// into its clusters, so every operation is over when it is recorded, and the status of its context
// follows from its history. Clouds of level 1 are operations like those of every other owner.

func fillCloud(o domain.Object) { o.(*domain.LogicalCloud).Default() }

// decideCloud asks the state machine.
func (s *Service) decideCloud(ctx context.Context, cloud *domain.LogicalCloud, op domain.Operation) (domain.Transition, error) {
	status, err := s.cloudStatus(ctx, cloud)
	if err != nil {
		return domain.Transition{}, err
	}
	return cloud.Decide(status, op)
}

// cloudStatus is where the last context of a cloud stands.
func (s *Service) cloudStatus(ctx context.Context, cloud *domain.LogicalCloud) (domain.ContextStatus, error) {
	if cloud.Admin() {
		return cloud.AdminStatus(), nil
	}
	_, observed, err := s.observe(ctx, cloud)
	return observed, err
}

// mayChangeCloud guards the document of a cloud and carries from write to write what is not of its body.
func (s *Service) mayChangeCloud(ctx context.Context, c change) error {
	if err := s.keepsPodSecurity(c); err != nil {
		return err
	}
	switch {
	case c.from == nil:
		c.to.(*domain.LogicalCloud).History = domain.NewHistory(s.now())
		return s.forgetNamesake(ctx, domain.KeyOf(c.to))
	case c.to == nil:
		cloud := c.from.(*domain.LogicalCloud)
		if _, err := s.decideCloud(ctx, cloud, domain.OpDelete); err != nil {
			return err
		}
		return s.mayLeave(ctx, cloud)
	}
	old, cloud := c.from.(*domain.LogicalCloud), c.to.(*domain.LogicalCloud)
	cloud.History, cloud.Key, cloud.Request = old.History, old.Key, old.Request
	if !samePlace(old, cloud) {
		status, err := s.cloudStatus(ctx, old)
		if err != nil {
			return err
		}
		// A terminate that has failed may have left something in clusters, though the cloud may be deleted then.
		if status != domain.ContextNone && status != domain.ContextTerminated {
			return fail.New(fail.Conflict, "logical cloud %q cannot change its level, namespace or user in state %s (%s); terminate it first",
				old.Name, old.History.State(), status)
		}
	}
	if old.Admin() != cloud.Admin() {
		cloud.History = domain.NewHistory(s.now()) // the contexts of one level are none of the other
	}
	references, err := s.changeCloud(ctx, old, cloud)
	if err != nil || old.Admin() == cloud.Admin() && old.Spec.User.UserName == cloud.Spec.User.UserName {
		return err
	}
	return s.noteCertificates(ctx, references...)
}

// keepsPodSecurity refuses labels by which the namespace of a cloud would enforce less than all do. What was there before that was so stays, and counts
// for nothing, which remarkCloud says: not everybody who may change a cloud may take such labels away.
func (s *Service) keepsPodSecurity(c change) error {
	if c.to == nil {
		return nil
	}
	var p fail.Problems
	was, _ := c.from.(*domain.LogicalCloud)
	c.to.(*domain.LogicalCloud).CheckPodSecurity(&p, was, s.podSecurity)
	return p.Err()
}

// cloudOf reads the cloud that a document belongs to.
func (s *Service) cloudOf(ctx context.Context, o domain.Object) (*domain.LogicalCloud, error) {
	cloud, err := s.store.Get(ctx, domain.LogicalClouds, o.Base().Parent)
	if err != nil {
		return nil, err
	}
	return cloud.(*domain.LogicalCloud), nil
}

// mayChangeMembers guards the cluster references of a cloud. EMCO lets them come and go with an
// instantiated cloud as without one, but not while it is half-way. What is in a cluster with the rights of the
// cloud's user could not be taken out again without the reference.
func (s *Service) mayChangeMembers(ctx context.Context, c change) error {
	if c.to == nil { // also where its cloud is gone
		if err := s.noteCertificates(ctx, c.from); err != nil {
			return err
		}
	}
	cloud, err := s.cloudOf(ctx, c.object())
	if err != nil {
		return err
	}
	return s.mayChangeMembersOf(ctx, cloud, c)
}

func (s *Service) mayChangeMembersOf(ctx context.Context, cloud *domain.LogicalCloud, c change) error {
	status, err := s.cloudStatus(ctx, cloud)
	if err != nil {
		return err
	}
	if err := cloud.MayRefer(status, c.to == nil); err != nil {
		return err
	}
	if c.to != nil {
		to, signed := c.to.(*domain.ClusterReference), ""
		if from, ok := c.from.(*domain.ClusterReference); ok && from.ClusterName() == to.ClusterName() {
			signed = from.Spec.Certificate
		}
		to.Certify(signed)
		return s.changeReach(ctx, cloud, c)
	}
	if cloud.Admin() {
		return nil
	}
	reference := c.from.(*domain.ClusterReference)
	tenant, found, err := s.instances.Tenant(ctx, domain.KeyOf(cloud), reference.ClusterName())
	if err != nil || !found {
		return err
	}
	return fail.New(fail.Conflict, "Can't remove Cluster Reference: %s has something in cluster %s; terminate that first", tenant, reference.ClusterName())
}

// noteCertificates notes whom the certificates of references are for that go, or whose cloud gets another user: those are not noted that a worker of
// v0.1.0 has got.
func (s *Service) noteCertificates(ctx context.Context, references ...domain.Object) error {
	var all []domain.Certified
	for _, r := range references {
		if is, ok := logicalcloud.CertifiedBy(r.(*domain.ClusterReference)); ok {
			all = append(all, is)
		}
	}
	return s.store.PutCertified(ctx, all...)
}

// changedMembers looks once more when a reference is written.
func (s *Service) changedMembers(ctx context.Context, c change) error {
	return s.counted(ctx, c, func(cloud *domain.LogicalCloud) error { return s.mayChangeMembersOf(ctx, cloud, c) })
}

// changedCloud counts a write below a cloud as one of the cloud's document: an instantiate that was planned before
// is refused.
func (s *Service) changedCloud(ctx context.Context, c change) error {
	return s.counted(ctx, c, func(*domain.LogicalCloud) error { return nil })
}

// counted is changedCloud of the very cloud that was looked at. One that is put meanwhile at another level would else be counted on unseen, and could
// not be taken back as it was.
func (s *Service) counted(ctx context.Context, c change, look func(*domain.LogicalCloud) error) error {
	return cas.Do(ctx, func() error {
		cloud, err := s.cloudOf(ctx, c.object())
		if err != nil {
			return err
		}
		if err := look(cloud); err != nil {
			return err
		}
		return cas.Overtaken(s.store.Replace(ctx, cloud))
	})
}

// droppedBelowCloud counts a write that was taken back, too: an instantiate that was planned while it was there is refused. It is counted when it is gone,
// since who plans reads the cloud first. What was planned and recorded before that stays, as nobody can tell then what the operation has done.
func (s *Service) droppedBelowCloud(ctx context.Context, c change, taken bool) error {
	if !taken {
		return nil
	}
	err := untilAnswered(ctx, func(ctx context.Context) error { return s.changedCloud(ctx, c) })
	if fail.Is(err, fail.NotFound) { // nothing is recorded of a cloud that is gone
		return nil
	}
	return err
}

// remarkCloud says what of a cloud is not acted on. What a cloud of level 1 had is still there when it has become one of level 0.
func (s *Service) remarkCloud(ctx context.Context, o domain.Object) (warnings []string, err error) {
	cloud := o.(*domain.LogicalCloud)
	spec := &cloud.Spec
	if !cloud.Admin() {
		if t := spec.User.Type; t != "" && !strings.EqualFold(t, domain.UserCertificate) {
			warnings = append(warnings, fmt.Sprintf("spec.user.type: nothing is done with %q; the user gets a certificate", t))
		}
		return append(warnings, cloud.RemarkPodSecurity(s.podSecurity)...), nil
	}
	if cloud.Replaced != "" {
		warnings = append(warnings, fmt.Sprintf("spec.namespace: %q is replaced by %s, which is that of level 0", cloud.Replaced, domain.AdminNamespace))
	}
	for _, m := range []struct {
		member string
		set    bool
	}{{"spec.labels", len(spec.Labels) > 0}, {"spec.user", spec.User != domain.CloudUser{}}} {
		if m.set {
			warnings = append(warnings, m.member+": nothing is done with it at level 0")
		}
	}
	for _, noun := range []*domain.Noun{domain.UserPermissions, domain.ClusterQuotas} {
		first, found, err := s.store.FirstUnder(ctx, noun, domain.KeyOf(cloud))
		if err != nil {
			return warnings, err
		}
		if found {
			warnings = append(warnings, fmt.Sprintf("spec.level: at level 0 nothing is done with %s, which are still there, such as %s", noun.Kind, first))
		}
	}
	return warnings, nil
}

// unroutable is the address that EMCO's examples have in every reference.
const unroutable = "0.0.0.0"

// remarkReference says what of a cluster reference is not acted on.
func (*Service) remarkReference(_ context.Context, o domain.Object) (warnings []string, _ error) {
	reference := o.(*domain.ClusterReference)
	if reference.Uncertified {
		warnings = append(warnings, "spec.certificate: what was sent is not kept; the cluster signs one when the logical cloud is instantiated")
	}
	if ip := reference.Spec.LoadBalancerIP; ip != "" && ip != unroutable {
		warnings = append(warnings, fmt.Sprintf("spec.loadBalancerIP: nothing is done with %q", ip))
	}
	return warnings, nil
}

// remarkPermission says that nobody gets a permission, where the cloud has no user.
func (s *Service) remarkPermission(ctx context.Context, o domain.Object) ([]string, error) {
	cloud, err := s.cloudOf(ctx, o)
	if err != nil || !cloud.Admin() {
		return nil, err
	}
	return []string{fmt.Sprintf("logical cloud %q is of level 0, and has no user: nobody gets the permission", cloud.Name)}, nil
}

// mayHaveQuotas refuses quotas of a cloud that has no namespace of its own.
func (s *Service) mayHaveQuotas(ctx context.Context, c change) error {
	cloud, err := s.cloudOf(ctx, c.object())
	if err != nil {
		return err
	}
	if c.to != nil && cloud.Admin() {
		return fail.New(fail.Invalid, "Cluster Quotas not allowed for Logical Cloud Level 0: logical cloud %q", cloud.Name)
	}
	return nil
}

// clouds has the operations of logical clouds. A cloud of level 0 is a document alone, and has no app contexts.
type clouds struct{ *Service }

// Instantiate makes a cloud ready to take deployment intent groups. Errors: Conflict in a wrong
// state or without the permission that level 1 needs; Invalid when it has no clusters.
func (s clouds) Instantiate(ctx context.Context, key domain.Key) (warnings []string, err error) {
	cloud, err := s.cloud(ctx, key)
	if err != nil {
		return nil, err
	}
	if !cloud.Admin() {
		return s.operations.Instantiate(ctx, key)
	}
	return s.operateAdmin(ctx, key, domain.OpInstantiate, func(*domain.LogicalCloud) (string, error) {
		if err := s.hasMembers(ctx, cloud); err != nil {
			return "", err
		}
		return newContextID()
	})
}

// Terminate takes a cloud out of service: where it was instantiated, whatever it refers to now. Errors: Conflict in a
// wrong state, or when something may be left with the rights of its user; Invalid, as in EMCO, when a deployment intent group names it.
func (s clouds) Terminate(ctx context.Context, key domain.Key) error {
	cloud, err := s.cloud(ctx, key)
	if err != nil {
		return err
	}
	if _, err := s.decideCloud(ctx, cloud, domain.OpTerminate); err != nil {
		return err
	}
	if err := s.unnamed(ctx, cloud); err != nil {
		return err
	}
	if !cloud.Admin() {
		holder, held, err := s.instances.Within(ctx, key)
		if err != nil {
			return err
		}
		if held {
			return cloud.HeldBy(holder)
		}
		return s.operations.Terminate(ctx, key)
	}
	_, err = s.operateAdmin(ctx, key, domain.OpTerminate, func(cloud *domain.LogicalCloud) (string, error) {
		cloud.History.StatusContextID = cloud.History.ContextID()
		return cloud.History.ContextID(), s.unnamed(ctx, cloud)
	})
	if err != nil {
		return err
	}
	return s.stillUnnamed(ctx, key)
}

// unnamed refuses to terminate a cloud that a group names.
func (s clouds) unnamed(ctx context.Context, cloud *domain.LogicalCloud) error {
	group, found, err := s.store.Referring(ctx, domain.DeploymentIntentGroups, domain.KeyOf(cloud))
	if err != nil || !found {
		return err
	}
	return cloud.UsedBy(group)
}

// stillUnnamed takes the terminate of an admin cloud back that a group has come to name meanwhile: an instantiate looks at the cloud once more when its
// record is there, so that one of two that cross sees the other.
func (s clouds) stillUnnamed(ctx context.Context, key domain.Key) error {
	return cas.Do(ctx, func() error {
		cloud, err := s.cloud(ctx, key)
		if err != nil {
			return err
		}
		refusal := s.unnamed(ctx, cloud)
		if refusal == nil || fail.KindOf(refusal).Retryable() {
			return refusal
		}
		if cloud.History.State() != domain.Terminated { // something else was asked for since
			return nil
		}
		cloud.History.TakeBack()
		if err := s.store.Replace(ctx, cloud); err != nil {
			return cas.Overtaken(err)
		}
		return refusal
	})
}

// Stop records that the last operation is to be stopped; that of an admin cloud is over already, as it
// always is. Conflict when there was none, or it is stopped already; Invalid when it is over.
func (s clouds) Stop(ctx context.Context, key domain.Key) error {
	cloud, err := s.cloud(ctx, key)
	if err != nil {
		return err
	}
	if !cloud.Admin() {
		return s.operations.Stop(ctx, key)
	}
	_, err = s.operateAdmin(ctx, key, domain.OpStop, func(cloud *domain.LogicalCloud) (string, error) {
		return cloud.History.ContextID(), nil
	})
	return err
}

// Update brings the clusters of an instantiated cloud in line with its references, permissions and quotas. A cloud
// that is not instantiated is left alone, as in EMCO, which a warning says: an instantiate takes what there is.
func (s clouds) Update(ctx context.Context, key domain.Key, how UpdateOptions) (revision int, warnings []string, err error) {
	cloud, err := s.cloud(ctx, key)
	if err != nil {
		return 0, nil, err
	}
	if !cloud.Admin() {
		return s.operations.Update(ctx, key, how)
	}
	warnings, err = s.operateAdmin(ctx, key, domain.OpUpdate, func(*domain.LogicalCloud) (string, error) { return newContextID() })
	if err == nil && warnings == nil {
		warnings = how.nothing(cloud)
	}
	return 0, warnings, err
}

func (s *Service) cloud(ctx context.Context, key domain.Key) (*domain.LogicalCloud, error) {
	o, err := s.store.Get(ctx, domain.LogicalClouds, key)
	if err != nil {
		return nil, err
	}
	return o.(*domain.LogicalCloud), nil
}

// hasMembers refuses a cloud without clusters.
func (s *Service) hasMembers(ctx context.Context, cloud *domain.LogicalCloud) error {
	_, found, err := s.store.FirstUnder(ctx, domain.ClusterReferences, domain.KeyOf(cloud))
	if err != nil || found {
		return err
	}
	return fail.New(fail.Invalid, "No Cluster References associated: logical cloud %q has no clusters", cloud.Name)
}

// operateAdmin checks that the cloud may, lets act name the context, and records; again when somebody else has
// written meanwhile, but for itself: a database may do a write of which it has lost its own answer. The warnings say why nothing is done.
func (s *Service) operateAdmin(
	ctx context.Context, key domain.Key, op domain.Operation, act func(*domain.LogicalCloud) (contextID string, err error),
) (warnings []string, err error) {
	var own domain.Action
	err = cas.Do(ctx, func() error {
		cloud, err := s.cloud(ctx, key)
		if err != nil {
			return err
		}
		if own.State != "" && own.Is(cloud.History.Last()) {
			return nil
		}
		t, err := cloud.Decide(cloud.AdminStatus(), op)
		if warnings = whyNot(t); err != nil || t.Same {
			return err
		}
		id, err := act(cloud)
		if err != nil {
			return err
		}
		cloud.History.Append(t.To, id, t.Revision, s.now())
		cloud.History.Note("", caller.Of(ctx))
		own = cloud.History.Last()
		return cas.Overtaken(s.store.Replace(ctx, cloud))
	})
	return warnings, err
}

// UserKubeconfig is the kubeconfig of the cloud's user for the cluster of a reference. Conflict as long as there is
// no certificate, and for an admin cloud, which has no user.
func (s *Service) UserKubeconfig(ctx context.Context, key domain.Key) ([]byte, error) {
	o, err := s.store.Get(ctx, domain.ClusterReferences, key)
	if err != nil {
		return nil, err
	}
	reference := o.(*domain.ClusterReference)
	cloud, err := s.cloudOf(ctx, reference)
	if err != nil {
		return nil, err
	}
	switch {
	case cloud.Admin():
		return nil, fail.New(fail.Conflict, "logical cloud %q is of level 0: it has no user; use the kubeconfig of cluster %s", cloud.Name, reference.ClusterName())
	case !slices.Contains([]domain.State{domain.Instantiated, domain.InstantiateStopped, domain.Updated}, cloud.History.State()):
		return nil, fail.New(fail.Conflict, "Logical Cloud hasn't been instantiated: %s", cloud.Name)
	case reference.Spec.Certificate == "":
		return nil, fail.New(fail.Conflict, "cluster %s has not issued the certificate of logical cloud %q yet; see its status", reference.ClusterName(), cloud.Name)
	default:
		return s.userKubeconfig(ctx, reference)
	}
}
