package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/version"
)

// Drover writes what a logical cloud has in its clusters with the rights of their kubeconfigs. Who writes the cloud would have those
// of anybody there, if a cloud could have more than a namespace of its own.

// Beyond says in what a cloud has more in its clusters than a namespace of its own; "" in nothing. Namespaces of clouds enforce the least standard of
// Pod Security, "" for none.
func Beyond(cloud *domain.LogicalCloud, permissions []domain.Object, least domain.PodSecurity) string {
	switch {
	case cloud.Admin():
		return "is of level 0, which has the rights of the kubeconfigs of its clusters"
	case strings.HasPrefix(cloud.Spec.User.UserName, "system:"):
		return fmt.Sprintf("has a user of Kubernetes itself, %q", cloud.Spec.User.UserName)
	case strings.HasPrefix(cloud.Spec.Namespace, "kube-"):
		return fmt.Sprintf("has a namespace of Kubernetes itself, %q", cloud.Spec.Namespace)
	case domain.IsOwnNamespace(cloud.Spec.Namespace):
		return fmt.Sprintf("has a namespace of Drover's own, %q", cloud.Spec.Namespace)
	case cloud.Spec.Namespace == domain.AdminNamespace:
		return fmt.Sprintf("has the namespace %q, which is that of logical clouds of level 0", cloud.Spec.Namespace)
	}
	if labels := securityOf(cloud); len(labels) > 0 {
		return "says what Pods may be in its namespace" + named(labels)
	}
	for _, o := range permissions {
		switch p := o.(*domain.UserPermission); {
		case p.Spec.Namespace == "":
			return fmt.Sprintf("has rights in the whole of each cluster by the user permission %q", p.Name)
		case p.Spec.Namespace != cloud.Spec.Namespace:
			return fmt.Sprintf("has rights in namespace %q, which is not its own, by the user permission %q", p.Spec.Namespace, p.Name)
		case least != "" && p.Spec.Relabels():
			return fmt.Sprintf("may change what Pods its namespace takes, which is %s at least (--cloud-pod-security), by the user permission %q", least, p.Name)
		}
	}
	return ""
}

// securityOf are the labels by which the cloud's namespace says what Pods the cluster takes in it: they have more weight than what the cluster's
// administrator has set for all namespaces.
func securityOf(cloud *domain.LogicalCloud) map[string]string {
	labels := map[string]string{}
	for key, value := range cloud.Spec.Labels {
		if strings.HasPrefix(key, domain.PodSecurityLabels) {
			labels[key] = value
		}
	}
	return labels
}

// named names labels as members of a document.
func named(labels map[string]string) string {
	paths := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		paths = append(paths, "spec.labels["+key+"]")
	}
	return " (" + strings.Join(paths, ", ") + ")"
}

// refusalFor says why the caller may not write a cluster, nil when he may: by its kubeconfig he has all there that a cloud can get.
func refusalFor(ctx context.Context, cluster domain.ClusterName) error {
	return rights.Of(ctx).Refusal(rights.Request{Verb: "put", Noun: domain.ClustersNoun, Key: cluster.Key()})
}

// lackOf is what a refusal of refusalFor tells the caller.
func lackOf(refusal error, cluster domain.ClusterName) string {
	if fail.Is(refusal, fail.Forbidden) {
		return fail.TextOf(refusal)
	}
	return fmt.Sprintf("you have no right to put clusters of cluster provider %q", cluster.Provider) // and may know no more of it
}

// mayReach refuses a cloud that has more than a namespace of its own in clusters, "" for nothing, unless the caller may write these.
func mayReach(ctx context.Context, cloud *domain.LogicalCloud, more string, references []domain.Object) error {
	if more == "" || rights.Of(ctx).Everything() {
		return nil
	}
	for _, o := range references {
		cluster := o.(*domain.ClusterReference).ClusterName()
		err := refusalFor(ctx, cluster)
		if err == nil {
			continue
		}
		return fail.New(fail.Forbidden, "logical cloud %q %s; for cluster %s that is given by who may write it alone: %s", cloud.Name, more, cluster, lackOf(err, cluster))
	}
	return nil
}

// mayComeTo is mayReach of a cloud that comes to clusters, or comes to have another namespace or user there: what others have there
// already is not for it either.
func (s *Service) mayComeTo(ctx context.Context, cloud *domain.LogicalCloud, permissions, references []domain.Object) error {
	if err := mayReach(ctx, cloud, Beyond(cloud, permissions, s.podSecurity), references); err != nil || rights.Of(ctx).Everything() {
		return err
	}
	others := sync.OnceValues(func() (*alike, error) { return s.othersLike(ctx, cloud) })
	for _, o := range references {
		cluster := o.(*domain.ClusterReference).ClusterName()
		if refusalFor(ctx, cluster) == nil {
			continue
		}
		more, err := s.ofOthers(ctx, cloud, cluster, others)
		if err != nil {
			return err
		}
		if err := mayReach(ctx, cloud, more, []domain.Object{o}); err != nil {
			return err
		}
	}
	return nil
}

// othersLike are the clouds of other projects that have the user of a cloud.
func (s *Service) othersLike(ctx context.Context, cloud *domain.LogicalCloud) (*alike, error) {
	own := domain.ScopeOf(domain.KeyOf(cloud))
	return s.cloudsLike(ctx, func(key domain.Key) bool { return domain.ScopeOf(key) != own },
		func(c *domain.LogicalCloud) bool { return c.Spec.User.UserName == cloud.Spec.User.UserName })
}

// ofOthers says what a cloud has in a cluster that is somebody else's there; "" for nothing. The certificate of a cloud's user is one of
// the name, and so is that of another cloud with the name, one of others: each would have the rights of both. Clouds of one project may share a user.
func (s *Service) ofOthers(ctx context.Context, cloud *domain.LogicalCloud, cluster domain.ClusterName, others func() (*alike, error)) (string, error) {
	if more, err := s.ofTenant(ctx, cloud, cluster); err != nil || more != "" {
		return more, err
	}
	user := cloud.Spec.User.UserName
	if user == "" {
		return "", nil
	}
	other, still, err := s.cloudIn(ctx, cluster, others)
	var u *untold
	switch {
	case errors.As(err, &u) && u.kind != fail.Conflict:
		return "", fail.Wrap(err, u.kind, "logical cloud %q has spec.user.userName %q, which %s may have in cluster %s: %s", cloud.Name, user, ofOther(ctx, other), cluster, u.why)
	case errors.As(err, &u):
		return fmt.Sprintf("has spec.user.userName %q, which %s may have there: %s", user, ofOther(ctx, other), u.why), nil
	case errors.Is(err, errLost):
		return fmt.Sprintf("has spec.user.userName %q, which %s may still have there, as its plan is lost, until it is terminated, or, where that fails, who may write all clusters deletes it then", user, ofOther(ctx, other)), nil
	case err != nil:
		return "", fmt.Errorf("look for users of cluster %s: %w", cluster, err)
	case other == "":
		return s.certifiedToOthers(ctx, domain.ScopeOf(domain.KeyOf(cloud)), user, cluster)
	case still:
		return fmt.Sprintf("has spec.user.userName %q, which %s still has there, until that is updated or terminated", user, ofOther(ctx, other)), nil
	default:
		return fmt.Sprintf("has spec.user.userName %q, which is the user of %s there", user, ofOther(ctx, other)), nil
	}
}

// ofOther names a cloud of another project for the caller, who may not know of it.
func ofOther(ctx context.Context, cloud domain.Key) string {
	return cloudFor(ctx, cloud, "a logical cloud of another project")
}

// cloudFor names a cloud for the caller, and says another word for it to who may not know of it.
func cloudFor(ctx context.Context, cloud domain.Key, word string) string {
	if rights.Of(ctx).Shows(domain.LogicalClouds, cloud) {
		return string(cloud)
	}
	return word
}

// certifiedToOthers is ofOthers for who has a certificate of the user from a cloud of another project that has the cluster no more: he is that user
// there until it expires by the cluster's clock.
func (s *Service) certifiedToOthers(ctx context.Context, own domain.Key, user string, cluster domain.ClusterName) (string, error) {
	good, err := s.store.Certified(ctx, cluster, user, s.now().Add(-policy.CertificateOver))
	if err != nil {
		return "", fmt.Errorf("look for certificates of cluster %s: %w", cluster, err)
	}
	var last time.Time
	for _, c := range good {
		if c.Scope != own && c.Expires.After(last) {
			last = c.Expires
		}
	}
	if last.IsZero() {
		return "", nil
	}
	until := "is good until " + last.UTC().Format(time.RFC3339)
	if !last.After(s.now()) {
		until = fmt.Sprintf("was good until %s, and counts until %s, as the cluster's clock may be behind", last.UTC().Format(time.RFC3339), last.Add(policy.CertificateOver).UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("has spec.user.userName %q, of which a logical cloud of another project had a certificate there that %s", user, until), nil
}

// ofTenant is ofOthers for the namespace of a tenant, also of one that is gone, or in another cluster now, as long as it has something there.
func (s *Service) ofTenant(ctx context.Context, cloud *domain.LogicalCloud, cluster domain.ClusterName) (string, error) {
	key, ok := domain.TenantOf(cloud.Spec.Namespace)
	if !ok {
		return "", nil
	}
	switch tenant, err := s.store.Get(ctx, domain.Tenants, key); {
	case err == nil && tenant.(*domain.Tenant).ClusterName() == cluster:
		return fmt.Sprintf("has the namespace of a tenant, %q", cloud.Spec.Namespace), nil
	case err != nil && !fail.Is(err, fail.NotFound):
		return "", fmt.Errorf("look for the tenant of namespace %s: %w", cloud.Spec.Namespace, err)
	}
	left, err := s.matching.LeftIn(ctx, cluster)
	if err != nil {
		return "", fmt.Errorf("look for what tenants have left in cluster %s: %w", cluster, err)
	}
	if slices.ContainsFunc(left, func(l domain.TenantLeft) bool { return l.Namespace == cloud.Spec.Namespace }) {
		return fmt.Sprintf("has the namespace of an earlier tenant, %q, which is not deleted there yet", cloud.Spec.Namespace), nil
	}
	return "", nil
}

// alike are the clouds of level 1 that a question is of, whatever cluster it is asked of.
type alike struct {
	clouds     []domain.Object
	unreadable []domain.Key // each may be any
}

// cloudsLike are the clouds of level 1 with a key that counts and of which is says so.
func (s *Service) cloudsLike(ctx context.Context, counts func(domain.Key) bool, is func(*domain.LogicalCloud) bool) (*alike, error) {
	all, err := s.store.ListUnder(ctx, domain.LogicalClouds, "")
	unreadable, err := domain.UnreadableOf(err)
	if err != nil {
		return nil, err
	}
	like := &alike{clouds: slices.DeleteFunc(all, func(o domain.Object) bool {
		cloud := o.(*domain.LogicalCloud)
		return cloud.Admin() || !counts(domain.KeyOf(cloud)) || !is(cloud)
	})}
	for _, id := range unreadable {
		if counts(domain.Key(id)) {
			like.unreadable = append(like.unreadable, domain.Key(id))
		}
	}
	return like, nil
}

// errLost says that a cloud may have a cluster, which nobody can tell any more.
var errLost = errors.New("the plan of the cloud is lost")

// untold is the error of a cloud that may have a cluster, which nobody can tell as the cloud, or what is recorded of it, cannot be read.
type untold struct {
	kind  fail.Kind // Conflict, or Unavailable where a newer process can read it
	why   string    // why, and what to do, without the name of the cloud
	cause error
}

func (u *untold) Error() string { return u.why }

// Unwrap is for package errors.
func (u *untold) Unwrap() error { return u.cause }

// unreadBy is the error of what cannot be read, as what says it; nil when err does not say that.
func unreadBy(err error, what string) *untold {
	u := &untold{kind: fail.Conflict, cause: err}
	switch {
	case errors.Is(err, domain.ErrNoKey):
		u.why = what + " cannot be read, as it is sealed with a key that is not configured: whoever runs Drover is to bring the key back"
	case errors.Is(err, version.ErrNewer):
		u.kind, u.why = fail.Unavailable, what+" cannot be read here, as a newer Drover has written it: ask that, or have this one replaced by it"
	case errors.Is(err, domain.ErrUnreadable):
		u.why = what + " cannot be read: who changed it was not the product; have it put back from a backup, or the cloud deleted with unreadable=true"
	default:
		return nil
	}
	return u
}

// unreadCloud says why a cloud cannot be read; nil for one that has gone meanwhile.
func (s *Service) unreadCloud(ctx context.Context, key domain.Key) (*untold, error) {
	_, err := s.store.Get(ctx, domain.LogicalClouds, key)
	u := unreadBy(err, "it")
	switch {
	case u != nil:
		return u, nil
	case fail.Is(err, fail.NotFound):
		return nil, nil
	case err != nil:
		return nil, err
	default:
		return nil, fail.New(fail.Unavailable, "a logical cloud that could not be read can be read meanwhile; try again")
	}
}

// cloudIn finds a cloud that has a cluster, of those that of reads; "" for none. A cloud has the clusters that
// it refers to, and, as still says, those in which it may have something yet: a reference that is deleted leaves all there until the cloud is updated
// or terminated. References are looked at before records: who has deleted one meanwhile had a record before. An error of a cloud found tells
// why it counts: errLost, or an untold.
func (s *Service) cloudIn(ctx context.Context, cluster domain.ClusterName, of func() (*alike, error)) (found domain.Key, still bool, err error) {
	like, err := of()
	if err != nil || len(like.clouds)+len(like.unreadable) == 0 {
		return "", false, err
	}
	references, err := s.store.Holders(ctx, domain.ClusterReferences, cluster.Key())
	if err != nil {
		return "", false, err
	}
	refers := map[domain.Key]bool{}
	for _, r := range references {
		key, _ := domain.Cut(domain.ClusterReferences, r)
		refers[key] = true
	}
	for _, o := range like.clouds {
		if key := domain.KeyOf(o); refers[key] {
			return key, false, nil
		}
	}
	for _, o := range like.clouds {
		if still, err := s.isStillIn(ctx, domain.KeyOf(o), cluster); err != nil || still {
			return domain.KeyOf(o), still, err
		}
	}
	for _, key := range like.unreadable {
		has, records, err := refers[key], (*untold)(nil), error(nil)
		if !has {
			has, err = s.isStillIn(ctx, key, cluster)
		}
		switch {
		case err != nil && !errors.As(err, &records):
			return key, false, err
		case !has && records == nil: // it may have nothing there
			continue
		}
		why, err := s.unreadCloud(ctx, key)
		switch {
		case err != nil:
			return key, false, err
		case why != nil:
			return key, false, why
		}
	}
	return "", false, nil
}

// isStillIn says whether a cloud may have something in a cluster, whatever it refers to; errLost or an untold when that cannot be told.
func (s *Service) isStillIn(ctx context.Context, cloud domain.Key, cluster domain.ClusterName) (bool, error) {
	found, err := s.instances.Clusters(ctx, cloud, func(c domain.ClusterName) bool { return c == cluster })
	if u := unreadBy(err, "what is recorded of it"); u != nil {
		return false, u
	}
	if fail.Is(err, fail.Conflict) {
		err = fmt.Errorf("%w: %w", errLost, err)
	}
	return len(found) > 0, err
}

// mayLeave refuses that a cloud goes which may have something in clusters, as after a terminate that has failed or was stopped, unless the caller may write
// these: nobody deletes it there any more, nor knows of it. Who comes to the namespace would share it with the user of this one.
func (s *Service) mayLeave(ctx context.Context, cloud *domain.LogicalCloud) error {
	if cloud.Admin() || rights.Of(ctx).May("put", domain.ClustersNoun, "") { // who may write all of them need not know which
		return nil
	}
	left, err := s.instances.Clusters(ctx, domain.KeyOf(cloud), func(c domain.ClusterName) bool { return refusalFor(ctx, c) != nil })
	if err != nil || len(left) == 0 {
		return err
	}
	return fail.New(fail.Forbidden, "logical cloud %q may have its namespace %q, and rights of its user, in cluster %s still: terminate it again; as long as that "+
		"does not succeed, it is deleted by who may write the cluster alone: %s", cloud.Name, cloud.Spec.Namespace, left[0], lackOf(refusalFor(ctx, left[0]), left[0]))
}

// changeCloud guards a cloud that becomes another one for the clusters that it refers to. Labels that say what Pods there may be are not taken
// away either by who may not set them: somebody has, who may. It returns the references that it has looked at, nil where it needs none.
func (s *Service) changeCloud(ctx context.Context, from, to *domain.LogicalCloud) (references []domain.Object, err error) {
	place, security := samePlace(from, to), maps.Equal(securityOf(from), securityOf(to))
	if place && security {
		return nil, nil
	}
	if references, err = s.store.List(ctx, domain.ClusterReferences, domain.KeyOf(to)); err != nil {
		return nil, err
	}
	if !security {
		labels := securityOf(from)
		maps.Copy(labels, securityOf(to))
		if err := mayReach(ctx, to, "has other labels that say what Pods may be in its namespace"+named(labels), references); err != nil {
			return nil, err
		}
	}
	if place {
		return references, nil
	}
	permissions, err := s.store.List(ctx, domain.UserPermissions, domain.KeyOf(to))
	if err != nil {
		return nil, err
	}
	return references, s.mayComeTo(ctx, to, permissions, references)
}

// wroteCloud looks once more when a cloud is written that has become another one for its clusters.
func (s *Service) wroteCloud(ctx context.Context, c change) error {
	if c.from == nil || c.to == nil {
		return nil
	}
	_, err := s.changeCloud(ctx, c.from.(*domain.LogicalCloud), c.to.(*domain.LogicalCloud))
	return err
}

// samePlace says whether two versions of a cloud are one level, namespace and user.
func samePlace(a, b *domain.LogicalCloud) bool {
	return a.Spec.Level == b.Spec.Level && a.Spec.Namespace == b.Spec.Namespace && a.Spec.User.UserName == b.Spec.User.UserName
}

// changePermission guards the permissions of a cloud's user.
func (s *Service) changePermission(ctx context.Context, c change) error {
	if c.to == nil || rights.Of(ctx).Everything() {
		return nil
	}
	cloud, err := s.cloudOf(ctx, c.to)
	if err != nil {
		return err
	}
	return s.changePermissionOf(ctx, cloud, c)
}

func (s *Service) changePermissionOf(ctx context.Context, cloud *domain.LogicalCloud, c change) error {
	if c.to == nil || rights.Of(ctx).Everything() {
		return nil
	}
	references, err := s.store.List(ctx, domain.ClusterReferences, domain.KeyOf(cloud))
	if err != nil {
		return err
	}
	return mayReach(ctx, cloud, Beyond(cloud, []domain.Object{c.to}, s.podSecurity), references)
}

// changedPermission looks once more when a permission is written.
func (s *Service) changedPermission(ctx context.Context, c change) error {
	return s.counted(ctx, c, func(cloud *domain.LogicalCloud) error { return s.changePermissionOf(ctx, cloud, c) })
}

// changeReach guards a reference by which a cloud comes to a cluster.
func (s *Service) changeReach(ctx context.Context, cloud *domain.LogicalCloud, c change) error {
	to := c.to.(*domain.ClusterReference)
	if c.from != nil && c.from.(*domain.ClusterReference).ClusterName() == to.ClusterName() || rights.Of(ctx).Everything() {
		return nil
	}
	permissions, err := s.store.List(ctx, domain.UserPermissions, domain.KeyOf(cloud))
	if err != nil {
		return err
	}
	return s.mayComeTo(ctx, cloud, permissions, []domain.Object{to})
}

// The fence holds for what was written on top of a refused write, too: who changes another part of a document is not asked for what stands, and what is
// only counted on nobody looks at. So each of these says of a document that has been written since whether it has still what was refused, and what is
// to be stored in its place (rule.remains).

// remainsOfCloud tells of a cloud. What is known of its instances stays, but that of another level. Where a cloud has become one of level 1, and
// was instantiated since, nothing is taken back: nobody could terminate that.
func remainsOfCloud(c change, now domain.Object) (before domain.Object, ours bool) {
	if c.from == nil {
		return nil, false
	}
	from, to, cloud := c.from.(*domain.LogicalCloud), c.to.(*domain.LogicalCloud), now.(*domain.LogicalCloud)
	place := !samePlace(from, to) && samePlace(to, cloud)
	security := !maps.Equal(securityOf(from), securityOf(to)) && maps.Equal(securityOf(to), securityOf(cloud))
	if from.Admin() && !cloud.Admin() && cloud.History.ContextID() != "" {
		return nil, false
	}
	old := *cloud
	old.Metadata, old.Spec = from.Metadata, from.Spec
	if from.Admin() != cloud.Admin() {
		old.History = from.History
	}
	return &old, place || security
}

func remainsOfReference(c change, now domain.Object) (before domain.Object, ours bool) {
	to := c.to.(*domain.ClusterReference).ClusterName()
	if to != now.(*domain.ClusterReference).ClusterName() {
		return nil, false
	}
	if c.from == nil {
		return nil, sameLife(c.to, now)
	}
	old := *c.from.(*domain.ClusterReference)
	return &old, old.ClusterName() != to
}

func remainsOfPermission(c change, now domain.Object) (before domain.Object, ours bool) {
	to := c.to.(*domain.UserPermission).Spec
	if !samePermission(to, now.(*domain.UserPermission).Spec) {
		return nil, false
	}
	if c.from == nil {
		return nil, sameLife(c.to, now)
	}
	old := *c.from.(*domain.UserPermission)
	return &old, !samePermission(old.Spec, to)
}

func samePermission(a, b domain.UserPermissionSpec) bool {
	return a.Namespace == b.Namespace && slices.Equal(a.APIGroups, b.APIGroups) && slices.Equal(a.Resources, b.Resources) && slices.Equal(a.Verbs, b.Verbs)
}

// sameLife says whether a document is the one that was made, and not another one that has come to have its name.
func sameLife(made, now domain.Object) bool {
	return made.Base().Made.Truncate(policy.StoredTime).Equal(now.Base().Made.Truncate(policy.StoredTime))
}
