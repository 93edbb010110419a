package door

import (
	"context"
	"io"
	"net/url"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/status"
)

// Service is what is behind the door: all that can be asked of the product. Errors are fail errors.
type Service interface {
	Commands
	Queries
	Tenancy
}

// Commands change something. service.Service has them.
type Commands interface {
	// Attach checks a file that comes with o, which is still to be created or put.
	Attach(ctx context.Context, o domain.Object, file []byte) error
	// AttachAll is Attach for nouns with any number of files.
	AttachAll(ctx context.Context, o domain.Object, files []domain.Upload) error
	Create(ctx context.Context, o domain.Object) error
	Put(ctx context.Context, o domain.Object) (created bool, err error)
	// Replace is Put for what must be there.
	Replace(ctx context.Context, o domain.Object) error
	// ReplaceWith is Replace for who does not say all of a document: complete takes the rest from the one that is replaced.
	ReplaceWith(ctx context.Context, o domain.Object, complete func(old domain.Object)) error
	Delete(ctx context.Context, noun *domain.Noun, key domain.Key) error
	// Remove is Delete, and says what stays in clusters of what is deleted.
	Remove(ctx context.Context, noun *domain.Noun, key domain.Key) (left []string, err error)
	// Abandon is Delete for what may have something in a cluster that does not come back. It says what is left there.
	Abandon(ctx context.Context, noun *domain.Noun, key domain.Key) (left []string, err error)
	// Discard removes a document that cannot be read, and what it may have in clusters stays there when abandon says so.
	Discard(ctx context.Context, noun *domain.Noun, key domain.Key, abandon bool) (left []string, err error)
	// RemoveCluster is Delete or Abandon of a cluster with its labels.
	RemoveCluster(ctx context.Context, key domain.Key, abandon bool) (left []string, err error)

	service.Operations
}

// Tenancy takes what the clusters of tenants say of their workloads, and tells of it. service.Matcher has it.
type Tenancy interface {
	// Begin begins a stream of a tenant; Precondition when there is no such tenant.
	Begin(ctx context.Context, tenant string) (*service.Intake, error)
	// SpeakerBy says who speaks for a tenant by a bearer token.
	SpeakerBy(ctx context.Context, tenant, bearer string) (*service.Speaker, error)
	// Release removes the workloads whose deletion is held.
	Release(ctx context.Context, tenant string) error
	// Why explains a tenant, a workload rule or a workload.
	Why(ctx context.Context, noun *domain.Noun, parent domain.Key, name string, parameters url.Values) (*explain.Explanation, error)
	TenantStatus(ctx context.Context, tenant string) (*service.TenantStatus, error)
	Workloads(ctx context.Context, tenant string, parameters url.Values) (*service.WorkloadList, error)
	Workload(ctx context.Context, tenant, id string) (*domain.Workload, error)
	// MatchesOf lists the matches of a tenant, or of a rule, by its key.
	MatchesOf(ctx context.Context, of domain.Key, parameters url.Values) (*service.MatchList, error)
}

// Queries change nothing.
type Queries interface {
	Documents
	Statuses
	Previews
	Explanations
	Journal
	Fleet
	Tables
	Streams
	Tenancy
	Audits
}

// Documents are read as they are stored, or in other words. service.Service has them.
type Documents interface {
	Get(ctx context.Context, noun *domain.Noun, key domain.Key) (domain.Object, error)
	List(ctx context.Context, noun *domain.Noun, parent domain.Key) ([]domain.Object, error)
	// Each hands over what List reads, one after the other, until take fails.
	Each(ctx context.Context, noun *domain.Noun, parent domain.Key, take func(domain.Object) error) error
	File(ctx context.Context, o domain.Object) ([]byte, error)
	// Files are those of a noun with any number of them.
	Files(ctx context.Context, o domain.Object) ([]domain.Upload, error)
	// Remarks are warnings about a document that was just written.
	Remarks(ctx context.Context, o domain.Object) (warnings []string)
	Value(ctx context.Context, noun *domain.Noun, pairs domain.Key, key string) (string, error)
	ClustersByLabel(ctx context.Context, provider domain.Key, label string) ([]string, error)
	ClustersWithLabels(ctx context.Context, provider domain.Key) ([]service.LabelledCluster, error)
	ProfileOf(ctx context.Context, compositeProfile domain.Key, app string) (*domain.Profile, error)
	Bindings(ctx context.Context, group domain.Key) ([]map[string]string, error)
	AppIntentOf(ctx context.Context, placementIntent domain.Key, app string) (*domain.AppIntent, error)
	UserKubeconfig(ctx context.Context, reference domain.Key) ([]byte, error)
	// CheckCluster asks a cluster what it is like.
	CheckCluster(ctx context.Context, cluster domain.Key, n service.Needs) (*service.ClusterCheck, error)
	// Preview says what a workload rule would bring about; it is not stored.
	Preview(ctx context.Context, rule domain.Object, parameters url.Values) (*service.RulePreview, error)
}

// Statuses says where owners stand. service.Lifecycle has it.
type Statuses interface {
	Status(ctx context.Context, owner domain.Key, parameters url.Values) (Document, error)
}

// StatusFunc is Statuses as a function.
type StatusFunc func(ctx context.Context, owner domain.Key, parameters url.Values) (Document, error)

// Status calls it.
func (f StatusFunc) Status(ctx context.Context, owner domain.Key, parameters url.Values) (Document, error) {
	return f(ctx, owner, parameters)
}

// Document is an answer that writes itself as JSON, piece by piece, reading what it needs in the context in which it was
// asked for.
type Document interface{ Write(w io.Writer) error }

// Previews say what operations would do. service.Lifecycle has them.
type Previews interface {
	// PreviewGroup says what an instantiate of a group would put where.
	PreviewGroup(ctx context.Context, group domain.Key) (*service.GroupPreview, error)
	// Diff says what an operation on a group would change in clusters.
	Diff(ctx context.Context, group domain.Key, parameters url.Values) (*service.GroupDiff, error)
}

// Explanations say why something that is run is not as it was wished. service.Explainer has them; Tenancy.Why says it of tenants.
type Explanations interface {
	Explain(ctx context.Context, owner domain.Key) (*explain.Explanation, error)
	// Cluster says what runs in a cluster.
	Cluster(ctx context.Context, cluster domain.Key) (*explain.Cluster, error)
}

// Journal tells of operations. service.Journal has it.
type Journal interface {
	Operations(ctx context.Context, parameters url.Values) (*operations.List, error)
	Operation(ctx context.Context, id string) (*operations.Operation, error)
	// CheckWatch refuses what a watch of operations cannot be asked.
	CheckWatch(parameters url.Values) error
}

// Fleet lists resources with where each of them stands. service.Fleet has it.
type Fleet interface {
	Groups(ctx context.Context, prefix domain.Key, parameters url.Values) (*service.GroupList, error)
	Clusters(ctx context.Context, provider domain.Key, parameters url.Values) (*service.ClusterList, error)
}

// Tables are what all clusters report of the objects of a group, combined. service.Tables has them.
type Tables interface {
	CombinedStatus(ctx context.Context, group domain.Key, parameters url.Values) (*service.TablesDocument, error)
	Objects(ctx context.Context, group domain.Key, parameters url.Values) (*service.TablesDocument, error)
	// CheckFilter refuses the query of a stream of these.
	CheckFilter(ctx context.Context, group domain.Key, parameters url.Values) error
	// Query evaluates a collector that is not stored.
	Query(ctx context.Context, group domain.Key, q *service.TableQuery) (*service.TablesDocument, error)
}

// Streams tell what becomes of a status. notify.Hub has them.
type Streams interface {
	Subscribe(ctx context.Context, owner domain.Key, q status.Query, after string) (*notify.Subscription, error)
	SubscribeTo(ctx context.Context, owner domain.Key, q notify.Question, after string) (*notify.Subscription, error)
}

// Audits tell of audit records. service.Audit has them.
type Audits interface {
	AuditRecords(ctx context.Context, project domain.Key, parameters url.Values) (*service.AuditList, error)
	// AuditExport gives take each line; with nil for it, it says whether it would be refused.
	AuditExport(ctx context.Context, project domain.Key, parameters url.Values, take func(line []byte) error) error
	AuditKeys(ctx context.Context) (*audit.Keys, error)
}

// Parts makes a Service of those who have the parts of it.
type Parts struct {
	Audits
	Commands
	Documents
	Statuses
	Previews
	Explanations
	Journal
	Fleet
	Tables
	Streams
	Tenancy
}
