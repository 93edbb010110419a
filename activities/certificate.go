package activities

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"time"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/logicalcloud"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

// Users are the clients of clusters with the rights of logical clouds' users.
type Users interface {
	Since(ctx context.Context, user kube.User, at time.Time) (*kube.Cluster, error)
}

// References are the cluster references of logical clouds, which keep the certificates of their users.
type References interface {
	List(ctx context.Context, noun *domain.Noun, parent domain.Key) ([]domain.Object, error)
	Replace(ctx context.Context, o domain.Object) error
	// PutCertified notes whom a certificate is for that a cluster has signed: it outlives the reference.
	PutCertified(ctx context.Context, all ...domain.Certified) error
}

var errNotIssued = fail.New(fail.Unavailable, "the cluster has not issued the certificate of the logical cloud's user yet; does its controller manager sign?")

// certify has the cluster issue the certificate of the cloud's user, and stores it. The error is that the cluster is
// to be tried again; what it refuses for good is a failure of the certificate request. Doing it again changes nothing.
func (a *attempt) certify(ctx context.Context, cluster *kube.Cluster) error {
	i := slices.IndexFunc(a.resources, isRequest)
	if i < 0 || a.marked(i) != domain.MarkApplied {
		return nil
	}
	certificate, err := a.kube.sign(ctx, cluster, a.resources[i], a.in)
	if err == nil {
		err = a.kube.keep(ctx, a.in, certificate)
	}
	if err == nil || ctx.Err() != nil || fail.KindOf(err).Retryable() {
		return err
	}
	a.mark(i, domain.MarkUndeleted, fail.TextOf(err))
	return nil
}

func isRequest(r plan.Resource) bool { return r.Kind == "CertificateSigningRequest" }

// sign approves the request, makes it anew when the cluster has removed it, and waits for the certificate.
func (k *Kube) sign(ctx context.Context, cluster *kube.Cluster, request plan.Resource, in LeafInput) ([]byte, error) {
	deadline := time.Now().Add(policy.Sign)
	look := pause.Backoff{First: policy.FirstLook, Most: policy.LongestLook}
	for {
		s, err := cluster.Approve(ctx, request, logicalcloud.ApprovalReason, logicalcloud.ApprovalMessage)
		switch {
		case err != nil:
			return nil, err
		case s.Refusal != "":
			return nil, fail.New(fail.Conflict, "%s", s.Refusal)
		case len(s.Certificate) > 0:
			return s.Certificate, nil
		case time.Now().After(deadline):
			return nil, errNotIssued
		case !s.Present:
			if err := k.request(ctx, cluster.Apply, request, in, domain.MarkPending); err != nil {
				return nil, err
			}
		}
		if err := look.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// request does work on the certificate request alone.
func (k *Kube) request(ctx context.Context, do func(context.Context, kube.Job) kube.Outcome, request plan.Resource, in LeafInput, m domain.Mark) error {
	refusal, outcome := beside(ctx, do, kube.Job{
		Resources: []plan.Resource{request}, Marks: domain.NewMarks(1, m), DeploymentID: in.deploymentID(),
	})
	if refusal != "" {
		return fail.New(fail.Conflict, "%s", refusal)
	}
	return outcome.Retry
}

// keep stores a certificate with the references of the cloud to the cluster, if there are still any, and notes before that whom it is for, and the one
// that it takes the place of: whoever has one is its user there until it expires.
func (k *Kube) keep(ctx context.Context, in LeafInput, certificate []byte) error {
	encoded := base64.StdEncoding.EncodeToString(certificate)
	if user, expires, err := logicalcloud.Holder(certificate); err == nil { // of what is no certificate nobody can make use
		is := domain.Certified{Cluster: in.Cluster, User: user, Scope: domain.ScopeOf(in.Owner), Expires: expires}
		if err := k.References.PutCertified(ctx, is); err != nil {
			return err
		}
	}
	return cas.Do(ctx, func() error {
		references, err := k.references(ctx, in)
		if err != nil {
			return err
		}
		var overtaken error
		for _, r := range references {
			if r.Spec.Certificate == encoded {
				continue
			}
			if err := lease.Check(ctx); err != nil {
				return err
			}
			if is, ok := logicalcloud.CertifiedBy(r); ok { // of a worker of v0.1.0 nobody else tells
				if err := k.References.PutCertified(ctx, is); err != nil {
					return err
				}
			}
			r.Spec.Certificate = encoded
			switch err := cas.Overtaken(k.References.Replace(ctx, r)); {
			case errors.Is(err, cas.ErrOvertaken):
				overtaken = err // the others first
			case err != nil && !fail.Is(err, fail.NotFound):
				return err
			}
		}
		return overtaken
	})
}

// Renewals says which certificates of a logical cloud are to be replaced, and when.
type Renewals struct {
	// Over says that nothing of the cloud is in clusters any more, or is to be.
	Over bool `json:"over,omitempty"`
	// Due has all clusters. Only a worker of v0.1.0 is given it, and its histories have it: of more than 6,000 clusters
	// Temporal does not take it.
	Due []Renewal `json:"due,omitempty"`
	// Leaf is the input of each of Clusters but for the cluster itself. These are the ones of the part that are due, those
	// first that have come due last.
	Leaf     LeafInput            `json:"leaf,omitzero"`
	Clusters []domain.ClusterName `json:"clusters,omitempty"`
	// Next is when the first of the others comes due, zero for never.
	Next time.Time `json:"next,omitzero"`
	// Last is where the next part begins, nil when there is none.
	Last *RenewalPlace `json:"last,omitempty"`
}

// Renewal is one cluster's.
type Renewal struct {
	At   time.Time `json:"at"`
	Leaf LeafInput `json:"leaf"`
}

// RenewalsPart asks for a part of the certificates that are to be replaced.
type RenewalsPart struct {
	By    time.Time     `json:"by"`              // what is due then
	All   bool          `json:"all,omitempty"`   // all are, whatever their age
	After *RenewalPlace `json:"after,omitempty"` // Renewals.Last of the part before
	Most  int           `json:"most"`            // clusters
}

// RenewalPlace is a cluster's place among those that are due. One whose certificate was replaced moves to a place before.
type RenewalPlace struct {
	At      time.Time          `json:"at"`
	Cluster domain.ClusterName `json:"cluster"`
}

// compare is negative when p comes before o. What has long been due has been tried before: it comes last, so that nothing
// waits for clusters that do not answer.
func (p RenewalPlace) compare(o RenewalPlace) int {
	return cmp.Or(o.At.Compare(p.At), p.Cluster.Compare(o.Cluster))
}

// Renewals reads when the certificates of a cloud are to be replaced. A cluster that has none yet is due at once. An
// update that goes on, or has failed, is no reason to let the others expire. A worker of v0.1.0 asks for no part.
func (l *Control) Renewals(ctx context.Context, cloudKey domain.Key, part *RenewalsPart) (*Renewals, error) {
	stop := beat(ctx)
	defer stop()
	owner, err := l.owner(ctx, cloudKey)
	if fail.Is(err, fail.NotFound) {
		return &Renewals{Over: true}, nil
	}
	if err != nil {
		return nil, err
	}
	cloud := owner.(*domain.LogicalCloud)
	i, err := l.Store.Instance(ctx, cloud.History.ContextID())
	switch {
	case fail.Is(err, fail.NotFound):
		return &Renewals{Over: true}, nil
	case err != nil:
		return nil, err
	case i.Working() == domain.OpTerminate:
		return &Renewals{Over: true}, nil
	}
	p, err := l.plan(ctx, i.Plan)
	if err != nil {
		return nil, err
	}
	references, err := list[*domain.ClusterReference](l.Store.List(ctx, domain.ClusterReferences, cloudKey))
	if err != nil {
		return nil, err
	}
	app := p.App(logicalcloud.App)
	leaf := LeafInput{
		Scope: domain.Scope{Owner: cloudKey, ContextID: i.ContextID, Operation: i.Working()}, Label: i.Label,
		App: app.Name, Bundle: app.Bundle, Resources: len(app.Resources), Namespace: p.Namespace,
	}
	places := renewalPlaces(app.Targets, references, cloud.Request)
	if part == nil {
		return everyRenewal(leaf, places), nil
	}
	return part.Of(leaf, places), nil
}

// renewalPlaces are those of a cloud's clusters. One without a reference is left out, until the cloud is updated.
func renewalPlaces(targets []plan.Target, references []*domain.ClusterReference, request []byte) (places []RenewalPlace) {
	of := make(map[domain.ClusterName]*domain.ClusterReference, len(references))
	for _, r := range references {
		if of[r.ClusterName()] == nil {
			of[r.ClusterName()] = r
		}
	}
	for _, t := range targets {
		if r := of[t.ClusterName]; r != nil {
			places = append(places, RenewalPlace{At: renewal(r, request), Cluster: t.ClusterName})
		}
	}
	return places
}

// everyRenewal is what a worker of v0.1.0 is given.
func everyRenewal(leaf LeafInput, places []RenewalPlace) *Renewals {
	out := &Renewals{}
	for _, p := range places {
		leaf.Cluster = p.Cluster
		out.Due = append(out.Due, Renewal{At: p.At, Leaf: leaf})
	}
	return out
}

// Of is the part of a cloud's clusters, of which each has the leaf but for its name.
func (part *RenewalsPart) Of(leaf LeafInput, places []RenewalPlace) *Renewals {
	out := &Renewals{Leaf: leaf}
	var due []RenewalPlace
	for _, p := range places {
		switch {
		case !part.All && p.At.After(part.By):
			if out.Next.IsZero() || p.At.Before(out.Next) {
				out.Next = p.At
			}
		case part.After == nil || part.After.compare(p) < 0:
			due = append(due, p)
		}
	}
	slices.SortFunc(due, RenewalPlace.compare)
	if most := max(part.Most, 1); len(due) > most {
		due = due[:most]
		out.Last = &due[most-1]
	}
	for _, p := range due {
		out.Clusters = append(out.Clusters, p.Cluster)
	}
	return out
}

// renewal is when the certificate of a reference is to be replaced; at once when there is none that is good.
func renewal(r *domain.ClusterReference, request []byte) time.Time {
	certificate, err := base64.StdEncoding.DecodeString(r.Spec.Certificate)
	if err != nil {
		return time.Time{}
	}
	c, err := logicalcloud.Read(certificate, request)
	if err != nil {
		return time.Time{}
	}
	return c.Renewal()
}

// RenewCertificate has a cluster issue another certificate of the cloud's user.
func (k *Kube) RenewCertificate(ctx context.Context, in LeafInput) error {
	stop := beat(ctx)
	defer stop()
	bundle, err := k.bundle(ctx, in.Owner, in.Bundle)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(bundle.Resources, isRequest)
	if i < 0 {
		return fail.New(fail.Invalid, "bundle %s has no certificate request", in.Bundle)
	}
	cluster, err := k.clusters.Since(ctx, in.Cluster, time.Now())
	if err != nil {
		return err
	}
	work, cancel := whileHeld(ctx)
	defer cancel(nil)
	if err := k.withdraw(work, cluster, bundle.Resources[i], in); err != nil {
		return err
	}
	certificate, err := k.sign(work, cluster, bundle.Resources[i], in)
	if err != nil {
		return err
	}
	return k.keep(ctx, in, certificate)
}

// withdraw deletes the request of an earlier certificate, and one that the cluster has refused. What the cluster has yet
// to sign stays, or a signer that takes longer than an attempt would never come to its end, and so does what it has
// signed for an attempt that could not store it.
func (k *Kube) withdraw(ctx context.Context, cluster *kube.Cluster, request plan.Resource, in LeafInput) error {
	s, err := cluster.Signing(ctx, request)
	if err != nil || !s.Present {
		return err
	}
	if s.Refusal == "" {
		kept, err := k.kept(ctx, in, s.Certificate)
		if err != nil || !kept {
			return err
		}
	}
	return k.request(ctx, cluster.Delete, request, in, domain.MarkDoomed)
}

// kept says whether a reference of the cloud to the cluster has the certificate.
func (k *Kube) kept(ctx context.Context, in LeafInput, certificate []byte) (bool, error) {
	if len(certificate) == 0 {
		return false, nil
	}
	references, err := k.references(ctx, in)
	encoded := base64.StdEncoding.EncodeToString(certificate)
	return slices.ContainsFunc(references, func(r *domain.ClusterReference) bool { return r.Spec.Certificate == encoded }), err
}

// references are those of the cloud to the cluster.
func (k *Kube) references(ctx context.Context, in LeafInput) ([]*domain.ClusterReference, error) {
	all, err := list[*domain.ClusterReference](k.References.List(ctx, domain.ClusterReferences, in.Owner))
	return slices.DeleteFunc(all, func(r *domain.ClusterReference) bool { return r.ClusterName() != in.Cluster }), err
}

// Keepers are the workflows that keep the certificates of logical clouds good.
type Keepers interface {
	// Keep starts the workflow of a cloud, or has it look again.
	Keep(ctx context.Context, cloud domain.Key) error
	// Release ends the workflow and waits until it is closed.
	Release(ctx context.Context, cloud domain.Key) error
}

// KeepCertificates sees to it that the certificates of a cloud are renewed from now on.
func (l *Control) KeepCertificates(ctx context.Context, cloud domain.Key) error {
	return inTime(ctx, l.Keepers.Keep(ctx, cloud))
}
