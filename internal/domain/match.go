package domain

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Match is the record of a rule and a workload that it applies to: what is wanted, what was made where, and how that stands.
//
// The record is written before a request is sent, and removed when nothing is wanted and the cluster has confirmed that
// nothing is there. So all that we have in an infrastructure cluster has a record. Every write compares Revision and counts
// it up: who evaluates rules sets Wanted, Mark and Due by match.Diff, and who acts on clusters sets Made, Mark and Reason.
type Match struct {
	Tenant   string `bson:"tenant"`   // the tenant's name
	Rule     Key    `bson:"rule"`     // the rule's key: tenants/t/workload-rules/r, or workload-rules/r for the operator's
	Workload string `bson:"workload"` // the workload's id
	Revision int64  `bson:"revision"` // grows with each write, never that of an earlier record of the match; for compare-and-set

	// Wanted is what there is to be; nil when nothing is, as the rule does not match any more, or is gone, or the workload is.
	// The record goes then too, once nothing is in the cluster.
	Wanted *Wanted `bson:"wanted,omitempty"`
	// Made is what may be in a cluster by our doing; nil when nothing may be. It is set before the request is sent.
	Made *Made `bson:"made,omitempty"`
	// Mark is what is known of Made, and what is to be done. MarkPending: nothing is there and it was never sent.
	Mark Mark `bson:"mark"`
	// Reason is why it is not as it is wanted, for people: what the cluster said last. "" when all is well.
	Reason string `bson:"reason,omitempty"`
	// Due is since when there is something to do in the cluster; zero when there is not.
	Due time.Time `bson:"due,omitempty"`
	// Attempts and Next are of what did not succeed, or was made again: how often, and when it may be tried again.
	Attempts int       `bson:"attempts,omitempty"`
	Next     time.Time `bson:"next,omitempty"`
}

// Wanted is what a match is to have in the infrastructure cluster, by hash: the object is made of tenant, hosts, rule and
// workload when it is needed (match.Rule.Resource), and is never stored.
type Wanted struct {
	Cluster ClusterName `bson:"cluster"`
	// Spec is the hash of the object without its annotations; "" when nothing is to be made, for the reason in Without.
	Spec string `bson:"spec,omitempty"`
	// Annotations is the hash of the annotations. When it alone changes, the object is changed in place.
	Annotations string `bson:"annotations,omitempty"`
	// Without is why nothing is made although the rule matches, for people, as long as that is so: the workload's node is not
	// known yet, for example. Failed says that it stays so until the rule or the workload changes.
	Without string `bson:"without,omitempty"`
	Failed  bool   `bson:"failed,omitempty"`
}

// Made is an object that was sent to a cluster.
type Made struct {
	Cluster   ClusterName `bson:"cluster"`
	Group     string      `bson:"group,omitempty"`
	Version   string      `bson:"version"`
	Kind      string      `bson:"kind"`
	Namespace string      `bson:"namespace"`
	Name      string      `bson:"name"`
	// Label is the value of plan.DeploymentLabel with which it was sent: it tells whose it is, also when its tenant is gone. "" in records of v0.1.0.
	Label string `bson:"label,omitempty"`
	// UID is the object's as the cluster has last said it, "" when it has not.
	UID string `bson:"uid,omitempty"`
	// Spec and Annotations are the hashes with which it was sent, see Wanted.
	Spec        string `bson:"spec"`
	Annotations string `bson:"annotations"`
	// Sent is when it was written that the create is about to be sent. Over is when a create without an answer had ended as far
	// as its sender knows, zero when nobody has said so: the cluster may have it even so.
	Sent time.Time `bson:"sent,omitempty"`
	Over time.Time `bson:"over,omitempty"`
}

// ID is the record's _id: the matches of a tenant share the prefix "<tenant>/".
func (m *Match) ID() string { return MatchID(m.Tenant, m.Rule, m.Workload) }

// MatchID is the id of a match.
func MatchID(tenant string, rule Key, workload string) string {
	sum := sha256.Sum256([]byte(string(rule) + "\x00" + workload))
	return tenant + "/" + hex.EncodeToString(sum[:16])
}

// IsWanted says whether an object is to be there.
func (m *Match) IsWanted() bool { return m.Wanted != nil && m.Wanted.Spec != "" }

// Matches is the noun of matches, which are no documents.
var Matches = &Noun{Kind: "matches", Title: "match", Collection: "matches", Names: []string{"match"}, Parent: Tenants}
