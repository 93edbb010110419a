package tenantagent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/convey"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/universe"
)

// workloadRules are the resources that are carried over (deploy/crd).
var workloadRules = schema.GroupVersionResource{Group: "drover.io", Version: "v1alpha1", Resource: "workloadrules"}

// finalizer keeps a WorkloadRule until its rule is gone. It is in every cluster and must not change.
const finalizer = "drover.io/workload-rule"

// workloadRule is one of the cluster.
type workloadRule struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              domain.WorkloadRuleSpec `json:"spec"`
	Status            ruleStatus              `json:"status"`
}

// ruleStatus is what the agent says of one. All of it is written each time.
type ruleStatus struct {
	ObservedGeneration int64              `json:"observedGeneration"`
	RuleID             string             `json:"ruleID"`
	Synced             bool               `json:"synced"`
	Error              string             `json:"error"`
	Pods               int64              `json:"pods"`
	Made               bool               `json:"made"`
	Making             string             `json:"making"`
	Tenant             string             `json:"tenant"` // for whom the rule was made, or was about to be
	Conditions         []metav1.Condition `json:"conditions"`
}

// readRule reads one as the cluster has it.
func readRule(o *unstructured.Unstructured) (*workloadRule, error) {
	data, err := o.MarshalJSON()
	if err != nil {
		return nil, err
	}
	r := &workloadRule{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("read the WorkloadRule %s/%s: %w", o.GetNamespace(), o.GetName(), err)
	}
	return r, nil
}

// id is that of the rule. A namespace has no dots, so that no two WorkloadRules have the same one.
func (r *workloadRule) id() string { return r.Namespace + "." + r.Name }

func (r *workloadRule) hasFinalizer() bool { return slices.Contains(r.Finalizers, finalizer) }

// rule is the rule that there is to be. Exists and DoesNotExist have the one value that the protocol wants and ignores.
func (r *workloadRule) rule() *domain.WorkloadRule {
	spec := r.Spec
	spec.WorkloadTerms = slices.Clone(spec.WorkloadTerms)
	for i, term := range spec.WorkloadTerms {
		expressions := slices.Clone(term.MatchExpressions)
		for j, e := range expressions {
			if len(e.Values) == 0 && (e.Operation == domain.OperationExists || e.Operation == domain.OperationDoesNotExist) {
				expressions[j].Values = []string{""}
			}
		}
		spec.WorkloadTerms[i].MatchExpressions = expressions
	}
	return &domain.WorkloadRule{Metadata: domain.Metadata{Name: r.id()}, Spec: spec}
}

func (r *workloadRule) want() *universe.Rule { return convey.Rule(r.rule()) }

// step is what is to be done that the control plane has a rule as it is wanted.
type step string

// The steps.
const (
	create   step = "create"
	update   step = "update"
	nothing  step = "nothing"
	conflict step = "conflict" // nothing either: the rule of this id is somebody else's
)

// decide says what to do with a rule that is wanted, where the control plane has one of its id; nil when it has none. The
// protocol has no room for whose a rule is, so that the WorkloadRule says it (decision 35):
//
//	status.made   status.making      the rule there
//	true          -                  is ours, whatever it says: what differs is drift
//	false         has its hash       is ours: the answer to its creation was lost
//	false         has not            is not ours
func decide(want, have *universe.Rule, s *ruleStatus) step {
	switch {
	case have == nil:
		return create
	case !ours(have, s):
		return conflict
	case proto.Equal(want, have):
		return nothing
	default:
		return update
	}
}

func ours(have *universe.Rule, s *ruleStatus) bool {
	return s.Made || slices.Contains(strings.Fields(s.Making), hashOf(have))
}

// mostMaking is how many hashes of rules that may be on their way are noted, the last ones.
const mostMaking = 8

// isMaking notes that a rule of a hash is about to be made, beside others of which there was no answer. false when that is noted.
func (s *ruleStatus) isMaking(hash string) bool {
	making := strings.Fields(s.Making)
	if slices.Contains(making, hash) {
		return false
	}
	making = append(making, hash)
	s.Making = strings.Join(making[max(0, len(making)-mostMaking):], " ")
	return true
}

// hashOf is one of all that a rule says.
func hashOf(r *universe.Rule) string {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	if err != nil { // a text that is no UTF-8, which JSON does not have
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// The condition of a WorkloadRule, and its reasons.
const (
	conditionSynced = "Synced"

	reasonSynced      = "Synced"      // the control plane has the rule
	reasonConflict    = "Conflict"    // it has another one of that id
	reasonInvalid     = "Invalid"     // it does not take the rule
	reasonRefused     = "Refused"     // it does not take anything of the agent, or no more
	reasonUnreachable = "Unreachable" // it does not answer
)

// reasonOf is the reason for an answer.
func reasonOf(code codes.Code) string {
	switch {
	case code == codes.InvalidArgument:
		return reasonInvalid
	case refused(code):
		return reasonRefused
	default:
		return reasonUnreachable
	}
}

// say has the status say how it stands; message is "" when the rule is synced.
func (s *ruleStatus) say(r *workloadRule, reason, message string, now time.Time) {
	s.ObservedGeneration, s.RuleID = r.Generation, r.id()
	s.Synced, s.Error = message == "", message
	c := metav1.Condition{
		Type: conditionSynced, Status: metav1.ConditionTrue, Reason: reason, Message: message,
		ObservedGeneration: r.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	if message != "" {
		c.Status = metav1.ConditionFalse
	}
	s.Conditions = slices.Clone(s.Conditions)
	apimeta.SetStatusCondition(&s.Conditions, c)
}

// reason is that of the condition; "" when there is none yet.
func (s *ruleStatus) reason() string {
	if c := apimeta.FindStatusCondition(s.Conditions, conditionSynced); c != nil {
		return c.Reason
	}
	return ""
}
