// Package workflows holds the operations of the product as Temporal workflows. It is deterministic: no
// clock, no randomness, no I/O but through activities.
//
// The tree of an operation:
//
//	Instantiate, Update or Terminate  <owner>/<context id>/instantiate
//	└ DeployApp or RemoveApp          …/<app>            (again …/<app>/<from>-<to> when there are many clusters)
//	  └ ApplyToCluster or DeleteFromCluster   …/<app>/<provider>+<cluster>
//
// An Update has two rounds under the same ids: DeployApp for all apps, and when all of that is applied RemoveApp for those of
// which something is to be pruned. So has an Instantiate that takes over what a terminate has left. Apps and clusters without
// work have no workflow.
//
// Beside operations there are:
//
//	WatchClusters     watch/<shard>                     for each shard of clusters that have something; WatchManyClusters of much
//	KeepCertificates  <cloud>/certificates              for each logical cloud of level 1
//	RemoveRemnants    <owner>/<context id>/remnants     for each context that is terminated, for a quarter of an hour; for
//	                                                    three days at most while something is left or a cluster does not answer
//	Sweep             sweep-<time>                      once a day
//	SettleTenants     settle-<time>                     once a minute
//
// What is made for the workloads of tenants has a tree of its own:
//
//	SettleTenant      match/<tenant>                    while matches of the tenant are due
//	└ SettleMatch     match/<tenant>/<rule>/<namespace>.<name>-<hash>, of several match/<tenant>/batch-<number>
package workflows

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
)

// Names of workflow types. Histories of running workflows hold them: they never change.
const (
	InstantiateName       = "Instantiate"
	TerminateName         = "Terminate"
	UpdateName            = "Update"
	RollbackName          = "Rollback"
	MigrateName           = "Migrate"
	DeployAppName         = "DeployApp"
	RemoveAppName         = "RemoveApp"
	ApplyToClusterName    = "ApplyToCluster"
	DeleteFromClusterName = "DeleteFromCluster"
	WatchClustersName     = "WatchClusters"
	WatchManyClustersName = "WatchManyClusters"
	SweepName             = "Sweep"
	KeepCertificatesName  = "KeepCertificates"
	RemoveRemnantsName    = "RemoveRemnants"
	SettleTenantName      = "SettleTenant"
	SettleMatchName       = "SettleMatch"
	SettleTenantsName     = "SettleTenants"
)

// Task queues: work on clusters, which may hang, never takes a slot from lifecycle work, nor do the watches,
// which last, nor what waits for something in a cluster.
const (
	LifecycleQueue = "drover-lifecycle"
	KubeQueue      = "drover-kube"
	WatchQueue     = "drover-watch"
	WaitQueue      = "drover-wait"
)

// Deployment is the Worker Deployment that all workers of a namespace belong to, whatever their build.
const Deployment = "drover"

// Messages.
const (
	// AcceptUpdate is answered when the operation is accepted or refused: Acceptance.
	AcceptUpdate = "accept"
	// StopUpdate is answered when the stop is recorded. Sending StopSignal does the same without an answer.
	StopUpdate = "stop"
	StopSignal = "stop"
	// ContactSignal carries an activities.Contact to a leaf; ProgressSignal an AppProgress to the root
	// or ClusterProgress to the app.
	ContactSignal  = "contact"
	ProgressSignal = "progress"
	// LackingSignal carries an activities.Lacking to the root.
	LackingSignal = "lacking"
	// ProgressQuery asks a root for OperationProgress, an app for AppDetail, a leaf for ClusterProgress.
	ProgressQuery = "progress"
	// WatchSignal carries an activities.Watching to WatchClusters and starts it where it does not run;
	// UnwatchSignal the id of a context that has ended.
	WatchSignal   = "watch"
	UnwatchSignal = "unwatch"
	// HeardSignal carries an activities.Heard to WatchClusters, which shows it.
	HeardSignal = "heard"
	// ChangesUpdate carries an activities.ChangesInput to WatchClusters and is answered with an
	// activities.WatchSet when there is a newer one.
	ChangesUpdate = "changes"
	// RemnantSignal has RemoveRemnants look at once, and starts it where it does not run.
	RemnantSignal = "remnant"
	// KeepSignal has KeepCertificates look again, and starts it where it does not run; RenewSignal, which a person
	// may send too, has all certificates replaced.
	KeepSignal  = "keep"
	RenewSignal = "renew"
	// SettleSignal has SettleTenant look for matches that are due, and starts it where it does not run.
	SettleSignal = "settle"
)

// RefusedMemo is the memo of a root that did nothing: why it was refused. Lists of runs have it, unlike results.
const RefusedMemo = "refused"

// longestText is how much is kept of such a text, in bytes: memos are small. Of a failure after which an activity is tried again Temporal
// keeps 4 KiB, and of a longer one only how it begins.
const longestText = 1000

func clip(text string) string {
	if len(text) <= longestText {
		return text
	}
	return strings.ToValidUTF8(text[:longestText], "") + "…"
}

// Search attributes: a run can be found by any of them.
var (
	projectAttribute   = temporal.NewSearchAttributeKeyKeyword("DroverProject")
	appAttribute       = temporal.NewSearchAttributeKeyKeyword("DroverApp")
	clusterAttribute   = temporal.NewSearchAttributeKeyKeyword("DroverCluster")
	contextAttribute   = temporal.NewSearchAttributeKeyKeyword("DroverContext")
	operationAttribute = temporal.NewSearchAttributeKeyKeyword("DroverOperation")
	tenantAttribute    = temporal.NewSearchAttributeKeyKeyword("DroverTenant")
)

// SearchAttributes names the attributes that a namespace must have, all of type Keyword.
func SearchAttributes() []string {
	var names []string
	for _, n := range domain.Owners {
		for _, a := range n.Owner.Attributes {
			names = append(names, a.Name)
		}
	}
	for _, k := range []temporal.SearchAttributeKeyKeyword{appAttribute, clusterAttribute, contextAttribute, operationAttribute, tenantAttribute} {
		names = append(names, k.GetName())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// roots are the operations that run, each with the type of its root workflow.
var roots = []struct {
	operation domain.Operation
	name      string
}{
	{domain.OpInstantiate, InstantiateName},
	{domain.OpTerminate, TerminateName},
	{domain.OpUpdate, UpdateName},
	{domain.OpRollback, RollbackName},
	{domain.OpMigrate, MigrateName},
}

// Operations are those that run.
func Operations() (all []domain.Operation) {
	for _, r := range roots {
		all = append(all, r.operation)
	}
	return all
}

// OperationName is the type of the root workflow of op; "" of an operation that does not run.
func OperationName(op domain.Operation) string {
	for _, r := range roots {
		if r.operation == op {
			return r.name
		}
	}
	return ""
}

// OperationOf is the operation whose root workflow is of the type; "" of any other workflow.
func OperationOf(name string) domain.Operation {
	for _, r := range roots {
		if r.name == name {
			return r.operation
		}
	}
	return ""
}

// OperationID is the id of the root workflow of an operation on a context.
func OperationID(s domain.Scope) string { return fit(operationPath(s)) }

func operationPath(s domain.Scope) string {
	return fmt.Sprintf("%s/%s/%s", ownerPath(s.Owner), s.ContextID, s.Operation)
}

// ownerPath is the owner's id (domain.OwnerKind): testvfw/compositevfw/v1/vfw, testvfw/logical-clouds/lc1,
// vfw-provider/clusters/edge01. The number of segments, or what is before the last one, tells owners of different nouns from
// each other.
func ownerPath(owner domain.Key) string {
	if n := domain.OwnerNoun(owner); n != nil {
		if path, ok := n.Fill(n.Owner.ID, owner); ok {
			return path
		}
	}
	return string(owner)
}

// AppID is the id of the workflow for an app; all its clusters when from and to are 0.
func AppID(s domain.Scope, app string, from, to int) string {
	id := operationPath(s) + "/" + app
	if to != 0 {
		id += fmt.Sprintf("/%d-%d", from, to)
	}
	return fit(id)
}

// LeafID is the id of the workflow for an app on a cluster.
func LeafID(s domain.Scope, app string, c domain.ClusterName) string {
	return fit(operationPath(s) + "/" + app + "/" + c.String())
}

// longest is how much Temporal can keep of an id and of a search attribute in a SQL database, in bytes.
const longest = 255

// fit puts a hash in the place of the end of what is too long, the same one every time.
func fit(id string) string {
	if len(id) <= longest {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	end := "-" + hex.EncodeToString(sum[:])
	return id[:longest-len(end)] + end
}

// SweepSchedule is the id of the schedule of Sweep.
const SweepSchedule = "sweep"

// BehindSchedule is the id of the schedule of SettleTenants.
const BehindSchedule = "settle"

// TenantID is the id of the workflow that settles what is due of a tenant.
func TenantID(tenant string) string { return "match/" + tenant }

// TenantSummary is the one line by which a person knows it in the Web UI.
func TenantSummary(tenant string) string { return "makes what the rules of " + tenant + " want" }

// TenantAttributes are the search attributes of all that is done for a tenant's matches.
func TenantAttributes(tenant string, more ...temporal.SearchAttributeUpdate) temporal.SearchAttributes {
	return temporal.NewSearchAttributes(append(more, tenantAttribute.ValueSet(tenant), operationAttribute.ValueSet("match"))...)
}

// MatchID is the id of the workflow that settles one match.
func MatchID(tenant string, m activities.DueMatch) string {
	_, hash, _ := strings.Cut(m.ID, "/")
	return fit(TenantID(tenant) + "/" + m.Rule + "/" + inID(m.Of) + "-" + hash[:min(len(hash), matchHash)])
}

// matchHash is how much of the hash of a match is in the id of its workflow.
const matchHash = 10

// inID is what may be in an id of what a tenant's cluster has named.
func inID(s string) string {
	return strings.Map(func(r rune) rune {
		if r < '!' || r > '~' || r == '/' {
			return '_'
		}
		return r
	}, s)
}

// batchID is the id of a workflow that settles several. The number is another one for each of a run of SettleTenant, and a run
// ends after its children.
func batchID(tenant string, n int) string { return fmt.Sprintf("%s/batch-%d", TenantID(tenant), n) }

// batchSummary is the one line by which a person knows it in the Web UI.
func batchSummary(matches []activities.DueMatch) string {
	if sameRule(matches) {
		return fmt.Sprintf("%d matches of %s", len(matches), matches[0].Rule)
	}
	return fmt.Sprintf("%d matches of several rules", len(matches))
}

func sameRule(matches []activities.DueMatch) bool {
	return !slices.ContainsFunc(matches, func(m activities.DueMatch) bool { return m.Rule != matches[0].Rule })
}

// WatchID is the id of the workflow that watches the clusters of a shard.
func WatchID(shard int) string { return fmt.Sprintf("watch/%d", shard) }

// CertificatesID is the id of the workflow that keeps the certificates of a logical cloud.
func CertificatesID(cloud domain.Key) string { return fit(ownerPath(cloud) + "/certificates") }

// WatchSummary is the one line by which a person knows a watch in the Web UI.
func WatchSummary(shard int) string {
	return fmt.Sprintf("hears what clusters report, shard %d of %d", shard, activities.WatchShards)
}

// WatchAttributes are the search attributes of all watches.
func WatchAttributes() temporal.SearchAttributes {
	return temporal.NewSearchAttributes(operationAttribute.ValueSet("watch"))
}

// searchAttributes are those of every workflow of an operation; more are added by the caller.
func searchAttributes(s domain.Scope, more ...temporal.SearchAttributeUpdate) temporal.SearchAttributes {
	updates := []temporal.SearchAttributeUpdate{
		contextAttribute.ValueSet(s.ContextID),
		operationAttribute.ValueSet(string(s.Operation)),
	}
	for _, a := range ownerAttributes(s.Owner) {
		updates = append(updates, temporal.NewSearchAttributeKeyKeyword(a.Name).ValueSet(a.Value))
	}
	return temporal.NewSearchAttributes(append(updates, more...)...)
}

// ownerAttributes tell an owner from all others of its noun.
func ownerAttributes(owner domain.Key) (found []domain.Attribute) {
	n := domain.OwnerNoun(owner)
	if n == nil {
		return nil
	}
	for _, a := range n.Owner.Attributes {
		if value, ok := n.Fill(a.Value, owner); ok {
			found = append(found, domain.Attribute{Name: a.Name, Value: fit(value)})
		}
	}
	return found
}

// OperationAttributes are the search attributes of the root, which the API sets when it starts it.
func OperationAttributes(s domain.Scope) temporal.SearchAttributes { return searchAttributes(s) }

// CloudAttributes are the search attributes of the workflow that keeps the certificates of a logical cloud.
func CloudAttributes(cloud domain.Key) temporal.SearchAttributes {
	var updates []temporal.SearchAttributeUpdate
	for _, a := range ownerAttributes(cloud) {
		updates = append(updates, temporal.NewSearchAttributeKeyKeyword(a.Name).ValueSet(a.Value))
	}
	return temporal.NewSearchAttributes(updates...)
}

// Summary is the one line by which a person knows the run in the Web UI.
func Summary(s domain.Scope) string {
	label := string(s.Owner)
	if n := domain.OwnerNoun(s.Owner); n != nil {
		if text, ok := n.Fill(n.Owner.Label, s.Owner); ok {
			label = text
		}
	}
	return string(s.Operation) + " " + label
}
