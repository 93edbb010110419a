// Package service holds the commands and queries of the product. The plain verbs are written once, over
// domain.Object: validate, look for what the object refers to and belongs to, write, look again. What a
// noun has beyond that is a rule in one table (rules.go). Lifecycle operations are in lifecycle.go.
//
// The store has no transactions. A verb that needs two documents to agree checks before its write and
// again after it, and takes the write back when the second look says no; of two writers that meet, at
// least one sees the other.
package service

import (
	"context"
	"time"

	"github.com/drover-io/drover/internal/access"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/share"
)

// Store keeps documents and blobs. Its errors are fail errors whose messages name the document.
type Store interface {
	// Create inserts o and sets its revision to 1; Conflict when its key is taken.
	Create(ctx context.Context, o domain.Object) error
	// LastMade is a time by which all direct children of parent were made that were made at a time, or up to policy.ClockSkew after it; zero
	// where none was.
	LastMade(ctx context.Context, noun *domain.Noun, parent domain.Key, from time.Time) (time.Time, error)
	// Get reads one document; NotFound when it is not there.
	Get(ctx context.Context, noun *domain.Noun, key domain.Key) (domain.Object, error)
	// List reads the direct children of parent, sorted by key.
	List(ctx context.Context, noun *domain.Noun, parent domain.Key) ([]domain.Object, error)
	// ListUnder reads everything of the noun below prefix, sorted by key.
	ListUnder(ctx context.Context, noun *domain.Noun, prefix domain.Key) ([]domain.Object, error)
	// Each hands over what ListUnder reads, one after the other, until take fails.
	Each(ctx context.Context, noun *domain.Noun, prefix domain.Key, take func(domain.Object) error) error
	Exists(ctx context.Context, noun *domain.Noun, key domain.Key) (bool, error)
	// Existing are those of the keys of which there is a document.
	Existing(ctx context.Context, noun *domain.Noun, keys []domain.Key) (map[domain.Key]bool, error)
	// Replace writes o if the stored revision is still o's, and counts o's revision up; Conflict when it
	// is another, NotFound when the document is gone.
	Replace(ctx context.Context, o domain.Object) error
	// Delete removes the document if it has the revision; Conflict and NotFound as Replace. Revision 0
	// stands for any.
	Delete(ctx context.Context, noun *domain.Noun, key domain.Key, revision int64) error
	// Unread is a document as it is stored that cannot be opened or decoded; Conflict for one that can. Discard removes it if it is still the
	// same, and PutBack stores it again.
	Unread(ctx context.Context, noun *domain.Noun, key domain.Key) ([]byte, error)
	Discard(ctx context.Context, noun *domain.Noun, key domain.Key, raw []byte) error
	PutBack(ctx context.Context, noun *domain.Noun, key domain.Key, raw []byte) error
	// Referring finds a document of the noun that refers to key.
	Referring(ctx context.Context, noun *domain.Noun, key domain.Key) (holder domain.Key, found bool, err error)
	// Holders are the keys of all documents of the noun that refer to key.
	Holders(ctx context.Context, noun *domain.Noun, key domain.Key) ([]domain.Key, error)
	// GetAll reads those of the documents that are there, sorted by key.
	GetAll(ctx context.Context, noun *domain.Noun, keys []domain.Key) ([]domain.Object, error)
	// Count is how many documents of the noun are directly below parent.
	Count(ctx context.Context, noun *domain.Noun, parent domain.Key) (int, error)
	// FirstUnder finds a document of the noun below prefix.
	FirstUnder(ctx context.Context, noun *domain.Noun, prefix domain.Key) (child domain.Key, found bool, err error)
	// LabelsVersion is another one after a label of one of the provider's clusters has changed.
	LabelsVersion(ctx context.Context, provider string) (string, error)
	// Certified are the certificates of a logical cloud's user that a cluster has signed, and that are good at a time.
	Certified(ctx context.Context, c domain.ClusterName, user string, at time.Time) ([]domain.Certified, error)
	// PutCertified notes those that are not noted.
	PutCertified(ctx context.Context, all ...domain.Certified) error
	// SetReachable notes whether a cluster answered.
	SetReachable(ctx context.Context, c domain.ClusterName, reachable bool) error
	// ForgetWatch forgets what was heard of a cluster, and why it was not heard.
	ForgetWatch(ctx context.Context, c domain.ClusterName) error
	// Form is a document as it is stored, in bytes.
	Form(o domain.Object) ([]byte, error)
	PutBlob(ctx context.Context, data []byte) (domain.Digest, error)
	Blob(ctx context.Context, digest domain.Digest) ([]byte, error)
}

// Sealer encrypts what must not lie open in the store. The aad ties the data to its place: what was
// sealed for one document cannot be opened as another's.
type Sealer interface {
	Seal(aad string, plain []byte) (domain.Sealed, error)
	Open(aad string, s domain.Sealed) ([]byte, error)
}

// Instances knows the app contexts of resources with a lifecycle. Lifecycle implements it.
type Instances interface {
	ContextStatus(ctx context.Context, owner domain.Key, contextID string) (domain.ContextStatus, error)
	// Repair puts right what operations have left of an owner that were ended by hand between two of their writes, and
	// returns it as it is then.
	Repair(ctx context.Context, owner domain.Owner) (domain.Owner, error)
	// Awaits refuses, with Conflict, an owner for which an operation runs that the owner does not know of yet: a migrate has taken an instance from
	// another group for it.
	Awaits(ctx context.Context, owner domain.Owner) error
	// Planned is what a context of one app puts into clusters, nil for a context that there is no record of.
	Planned(ctx context.Context, contextID string) (*plan.Bundle, error)
	// Left says what contexts of an owner that have not come to their end may have left in clusters.
	Left(ctx context.Context, owner domain.Key) (texts []string, err error)
	// Clusters are those that count in which contexts of an owner may have something of their own, sorted.
	Clusters(ctx context.Context, owner domain.Key, counts func(domain.ClusterName) bool) ([]domain.ClusterName, error)
	// Forget removes the records of all contexts of a resource that was deleted, and says whether there were any. Nothing is removed
	// when there is such a resource.
	Forget(ctx context.Context, owner domain.Key) (found bool, err error)
	// User finds who may have something in the cluster, Tenant who may have it there with the rights of the
	// logical cloud's user, and Within who may have it with these in any cluster.
	User(ctx context.Context, c domain.ClusterName) (owner domain.Key, found bool, err error)
	Tenant(ctx context.Context, cloud domain.Key, c domain.ClusterName) (owner domain.Key, found bool, err error)
	Within(ctx context.Context, cloud domain.Key) (owner domain.Key, found bool, err error)
}

// Operations run what takes its time. Lifecycle implements it.
type Operations interface {
	Approve(ctx context.Context, owner domain.Key) (warnings []string, err error)
	Instantiate(ctx context.Context, owner domain.Key) (warnings []string, err error)
	Terminate(ctx context.Context, owner domain.Key) error
	Stop(ctx context.Context, owner domain.Key) error
	Update(ctx context.Context, owner domain.Key, how UpdateOptions) (revision int, warnings []string, err error)
	Rollback(ctx context.Context, group domain.Key, revision int) (warnings []string, err error)
	Migrate(ctx context.Context, group domain.Key, version, target string) (warnings []string, err error)
}

// Checks look into uploaded files when they arrive, so that a bad one is the upload's error and not a
// workflow's. They return Malformed or Invalid.
type Checks struct {
	Chart func(ctx context.Context, app string, tgz []byte) error
	// Profile warns of what a profile says in vain, too.
	Profile    func(ctx context.Context, tgz []byte) (warnings []string, err error)
	Kubeconfig func(kubeconfig []byte) error
	// Expiry is when the first credential of a kubeconfig expires, zero for never; nil for a service that asks for none.
	Expiry func(kubeconfig []byte) time.Time
	// Reach says whether a cluster can be reached with a kubeconfig, in policy.ClusterTry at most. Its error says why not, in words
	// that may be shown; version is that of its Kubernetes, as far as it tells. nil for a service that tries none.
	Reach func(ctx context.Context, kubeconfig []byte) (version string, err error)
	// See asks a cluster what it is like with a kubeconfig that is to have the rights of a ClusterRole. Errors are those of Reach.
	See func(ctx context.Context, kubeconfig, role []byte) (*access.Seen, error)
}

// Clock tells the time.
type Clock func() time.Time

// Deps are what the plain verbs need; all of them are required but those of which it says what nil is for.
type Deps struct {
	Store      Store
	Sealer     Sealer
	Instances  Instances
	Operations Operations
	Checks     Checks
	// UserKubeconfig makes the kubeconfig of a logical cloud's user for a reference that has a certificate.
	UserKubeconfig func(ctx context.Context, reference *domain.ClusterReference) ([]byte, error)
	// Renewing tells those who work with the registration of a cluster that it is about to be replaced, or deleted; nil where nobody does.
	Renewing func(ctx context.Context, c domain.ClusterName) error
	// Undone is told of refused writes of which their callers were told that they are not taken back yet, when they are or cannot be; nil where nobody is. Its
	// context is the caller's, and has no end.
	Undone func(ctx context.Context, what Undone)
	Now    Clock
	// PodSecurity is what the namespaces of logical clouds enforce at least, "" for nothing. Workers have the same.
	PodSecurity domain.PodSecurity
	// Matching is told of rules, hosts and tenants; nil for a service that nobody tells of workloads.
	Matching Matching
}

// Service has the commands of the product, and the queries for documents.
type Service struct {
	store          Store
	sealer         Sealer
	instances      Instances
	operations     Operations
	checks         Checks
	userKubeconfig func(ctx context.Context, reference *domain.ClusterReference) ([]byte, error)
	renewing       func(ctx context.Context, c domain.ClusterName) error
	tell           func(ctx context.Context, what Undone)
	now            Clock
	podSecurity    domain.PodSecurity
	matching       Matching
	looks          *looks
	ruleSizes      *share.Reads[map[string]ruleSize] // of the rules of a tenant, or of the operator, by name
}

// New makes a service.
func New(d Deps) *Service {
	if d.Matching == nil {
		d.Matching = noMatching{}
	}
	if d.Renewing == nil {
		d.Renewing = func(context.Context, domain.ClusterName) error { return nil }
	}
	if d.Undone == nil {
		d.Undone = func(context.Context, Undone) {}
	}
	return &Service{
		store: d.Store, sealer: d.Sealer, instances: d.Instances, operations: d.Operations, checks: d.Checks,
		userKubeconfig: d.UserKubeconfig, renewing: d.Renewing, tell: d.Undone, now: d.Now, podSecurity: d.PodSecurity, matching: d.Matching, looks: newLooks(), ruleSizes: share.New[map[string]ruleSize](),
	}
}
