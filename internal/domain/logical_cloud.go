package domain

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/drover-io/drover/internal/fail"
)

// LogicalCloud is a set of clusters with the namespace and the rights with which apps run there. Level
// "0" is the admin cloud: namespace default, the cluster's own credentials.
type LogicalCloud struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     LogicalCloudSpec `json:"spec"`
	History  History          `json:"-" bson:"history"`
	// Key is the user's private key (PEM), sealed; Request the certificate request (PEM) that was made with
	// it. They are made when a cloud of level 1 is first instantiated, and stay for as long as the user does.
	Key     Sealed `json:"-" bson:"key"`
	Request []byte `json:"-" bson:"request"`
	// Replaced is the namespace that was sent and that Default has replaced, "" for none.
	Replaced string `json:"-" bson:"-"`
}

// LogicalCloudSpec says how apps run in the cloud. Every answer has all its members.
type LogicalCloudSpec struct {
	Namespace string            `json:"namespace"` // the namespace of its apps in every cluster; default at level 0
	Labels    map[string]string `json:"labels"`    // labels of that namespace; nothing is done with them at level 0
	// 0: the rights of the clusters' kubeconfigs; 1, the default: those of a user of its own
	Level string    `json:"level" api:"enum=0;1"`
	User  CloudUser `json:"user"` // of level 1; nothing is done with it at level 0
}

// CloudUser is the user of a level 1 cloud.
type CloudUser struct {
	UserName string `json:"userName"` // at most 20 characters
	Type     string `json:"type"`     // certificate, which every user gets, whatever is said
}

// Certified says that a cluster has signed a certificate for the user of a logical cloud. It is good until it expires, whatever becomes of the cloud.
type Certified struct {
	Cluster ClusterName
	User    string    // whom the certificate is for
	Scope   Key       // of the cloud: its project
	Expires time.Time // of the certificate
}

// UserCertificate is the type of all users.
const UserCertificate = "certificate"

// LogicalClouds is the noun.
var LogicalClouds = &Noun{
	Kind: "logical-clouds", Title: "logical cloud", Collection: "logical-clouds", Names: []string{"logicalCloud"},
	Parent: Projects, New: func() Object { return &LogicalCloud{} },
	Owner: &OwnerKind{
		ID: "{project}/logical-clouds/{logicalCloud}", Label: "logical cloud {project} / {logicalCloud}", Name: "{logicalCloud}",
		Attributes: []Attribute{{"DroverProject", "{project}"}, {"DroverLogicalCloud", "{logicalCloud}"}},
		Document:   "cloud",
		Certifies:  true,
		Operations: []OwnerOperation{
			{Operation: OpInstantiate, Summary: "Instantiate a logical cloud", About: "The namespace, the user and its rights are made in each cluster that is referred to. The answer comes when it is accepted: follow it with status."},
			{Operation: OpTerminate, Summary: "Terminate a logical cloud", About: "What it has in its clusters is deleted; no deployment intent group may name it any more."},
			{Operation: OpUpdate, Summary: "Bring the clusters of a logical cloud in line with its references, permissions and quotas", About: "What was added is made in the clusters, and what was taken out is pruned there."},
			{Operation: OpStop, Summary: "Stop the last operation of a logical cloud", About: "What has been done stays; terminate takes it out."},
		},
	},
}

// Labels of Pod Security Admission, by which a namespace says what Pods the cluster takes in it.
const (
	PodSecurityLabels  = "pod-security.kubernetes.io/" // begins all of them
	PodSecurityEnforce = PodSecurityLabels + "enforce"
	podSecurityVersion = PodSecurityLabels + "enforce-version"
	latestVersion      = "latest"
)

// LevelAdmin and LevelStandard are the levels of logical clouds.
const (
	LevelAdmin    = "0"
	LevelStandard = "1"
)

// AdminNamespace is the namespace of clouds of level 0.
const AdminNamespace = "default"

// Noun is LogicalClouds.
func (*LogicalCloud) Noun() *Noun { return LogicalClouds }

// Track is the history.
func (o *LogicalCloud) Track() *History { return &o.History }

// Admin says whether the cloud is of level 0.
func (o *LogicalCloud) Admin() bool { return o.Spec.Level == LevelAdmin }

// AdminStatus is where the last context of a cloud of level 0 stands. There is nothing to put into its
// clusters, so every operation is over when it is recorded, and a stop changes nothing.
func (o *LogicalCloud) AdminStatus() ContextStatus {
	switch o.History.State() {
	case Instantiated, InstantiateStopped, Updated:
		return ContextInstantiated
	case Terminated, TerminateStopped:
		return ContextTerminated
	default:
		return ContextNone
	}
}

// Default fills in what EMCO does: level 1, and for the admin cloud the namespace default, whatever is given: it is the
// one that a cluster's own credentials mean.
func (o *LogicalCloud) Default() {
	if o.Spec.Level == "" {
		o.Spec.Level = LevelStandard
	}
	if o.Spec.Level == LevelAdmin {
		if o.Spec.Namespace != AdminNamespace {
			o.Replaced = o.Spec.Namespace
		}
		o.Spec.Namespace = AdminNamespace
	}
}

// namespacePattern is Kubernetes' (RFC 1123 label): EMCO takes more, and clusters refuse it later.
var namespacePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// checkNamespace adds a problem unless s is "" or the name of a namespace.
func checkNamespace(p *fail.Problems, path, s string) {
	if s != "" && (len(s) > 63 || !namespacePattern.MatchString(s)) {
		p.Add(path, "must be the name of a Kubernetes namespace: at most 63 of a-z, 0-9 and -, not - first or last")
	}
}

// Validate checks the body.
func (o *LogicalCloud) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	checkNamespace(p, "spec.namespace", o.Spec.Namespace)
	CheckLength(p, "spec.user.userName", o.Spec.User.UserName, 20)
	CheckLength(p, "spec.user.type", o.Spec.User.Type, 128)
	if o.Spec.Level != LevelAdmin && o.Spec.Level != LevelStandard {
		p.Add("spec.level", "must be %q or %q", LevelAdmin, LevelStandard)
	}
	for _, k := range slices.Sorted(maps.Keys(o.Spec.Labels)) {
		switch v := o.Spec.Labels[k]; {
		case o.Spec.Level == LevelStandard && (!isLabelKey(k) || !isLabelValue(v)):
			p.Add("spec.labels["+k+"]", "%q is not a label of a Kubernetes namespace", k+"="+v)
		default:
			CheckLength(p, "spec.labels["+k+"]", v, 128)
		}
	}
}

// NamespaceLabels are those of the cloud's namespace. With a least standard, "" for none, the cluster enforces that one or a stricter one there, and not as
// an older version of Kubernetes has it.
func (o *LogicalCloud) NamespaceLabels(least PodSecurity) map[string]string {
	if least == "" {
		return o.Spec.Labels
	}
	labels := map[string]string{}
	maps.Copy(labels, o.Spec.Labels)
	for _, key := range o.weaker(least) {
		delete(labels, key)
	}
	labels[PodSecurityEnforce] = cmp.Or(labels[PodSecurityEnforce], string(least))
	return labels
}

// weaker are the keys of the cloud's labels by which less would be enforced than a least standard, sorted; none where that is "".
func (o *LogicalCloud) weaker(least PodSecurity) (keys []string) {
	if least == "" || o.Admin() {
		return nil
	}
	if level, set := o.Spec.Labels[PodSecurityEnforce]; set && !PodSecurity(level).AtLeast(least) {
		keys = append(keys, PodSecurityEnforce)
	}
	if version, set := o.Spec.Labels[podSecurityVersion]; set && version != latestVersion {
		keys = append(keys, podSecurityVersion)
	}
	return keys
}

// CheckPodSecurity adds a problem for each label by which less would be enforced than the least standard, and which was, nil for no cloud, has not.
func (o *LogicalCloud) CheckPodSecurity(p *fail.Problems, was *LogicalCloud, least PodSecurity) {
	for _, key := range o.weaker(least) {
		if was != nil && !was.Admin() && was.Spec.Labels[key] == o.Spec.Labels[key] {
			continue
		}
		what := fmt.Sprintf("be %s or stricter", least)
		if key == podSecurityVersion {
			what = "be " + latestVersion
		}
		p.Add("spec.labels["+key+"]", "must %s: the operator has all logical clouds' namespaces enforce %s (--cloud-pod-security)", what, least)
	}
}

// RemarkPodSecurity says which labels are not put on the namespace, since less would be enforced by them than the least standard.
func (o *LogicalCloud) RemarkPodSecurity(least PodSecurity) (warnings []string) {
	for _, key := range o.weaker(least) {
		warnings = append(warnings, fmt.Sprintf("spec.labels[%s]: %q is not put on the namespace, which enforces %s at least (--cloud-pod-security)", key, o.Spec.Labels[key], least))
	}
	return warnings
}

// cloudRefusals are EMCO's sentences, by operation and status of the last context; what is not in it is
// allowed. Beyond EMCO, an instantiate that is going on can be terminated (the seeds promise it), and so
// can what a terminate that has failed left over.
var cloudRefusals = map[Operation]map[ContextStatus]string{
	OpInstantiate: {
		ContextInstantiating:     "The Logical Cloud is already instantiating",
		ContextInstantiated:      "The Logical Cloud is already instantiated",
		ContextInstantiateFailed: "The Logical Cloud has failed instantiating before, please terminate and try again",
		ContextTerminating:       "The Logical Cloud can't be re-instantiated yet, it is being terminated",
		ContextTerminateFailed:   "The Logical Cloud has failed terminating, please terminate it again, or have who may write its clusters delete it",
	},
	OpTerminate: {
		ContextNone:        "The Logical Cloud is not instantiated",
		ContextTerminating: "The Logical Cloud is already being terminated",
		ContextTerminated:  "The Logical Cloud has already been terminated",
	},
	OpChange: {
		ContextInstantiating:     "Cluster References cannot be added/removed unless the Logical Cloud is fully Instantiated or Terminated",
		ContextInstantiateFailed: "Cluster References cannot be added/removed unless the Logical Cloud is fully Instantiated or Terminated",
		ContextTerminating:       "Cluster References cannot be added/removed unless the Logical Cloud is fully Instantiated or Terminated",
		ContextTerminateFailed:   "Cluster References cannot be added/removed unless the Logical Cloud is fully Instantiated or Terminated",
	},
	OpDelete: {
		ContextInstantiating:     "The Logical Cloud is instantiating, please wait and then terminate",
		ContextInstantiated:      "The Logical Cloud is instantiated, please terminate first",
		ContextInstantiateFailed: "The Logical Cloud has failed instantiating, for safety please terminate and try again",
		ContextTerminating:       "The Logical Cloud can't be deleted yet, it is being terminated",
	},
}

// MayRefer says whether a cluster reference may be made or, when gone, deleted (reference 1.4): what is left over of a
// terminate that has failed does not keep references from going.
func (o *LogicalCloud) MayRefer(c ContextStatus, gone bool) error {
	if gone && c == ContextTerminateFailed {
		return nil
	}
	_, err := o.Decide(c, OpChange)
	return err
}

// Decide is the table of reference 2.6. OpChange is the making of a cluster reference.
func (o *LogicalCloud) Decide(c ContextStatus, op Operation) (Transition, error) {
	s, next := o.History.State(), o.History.Last().Revision+1
	sentence, refused := cloudRefusals[op][c]
	stopped := o.Admin() && (s == InstantiateStopped || s == TerminateStopped)
	switch {
	// Without this way back the stop of an admin cloud would be for good.
	case stopped && op == OpInstantiate:
		refused = false
	case stopped && op == OpChange:
		sentence, refused = cloudRefusals[OpChange][ContextInstantiating], true
	}
	if refused {
		return Transition{}, fail.New(fail.Conflict, "%s: logical cloud %q is in state %s%s", sentence, o.Name, s, ofContext(c))
	}
	switch op {
	case OpInstantiate:
		return Transition{To: Instantiated, Revision: next}, nil
	case OpTerminate:
		return Transition{To: Terminated, Revision: next}, nil
	case OpUpdate:
		if c != ContextInstantiated && c != ContextInstantiateFailed { // EMCO answers 202 all the same
			return Transition{To: s, Same: true, Why: o.notUpdated(c)}, nil
		}
		return Transition{To: Updated, Revision: next}, nil
	case OpStop:
		return o.decideStop(c, next)
	case OpChange, OpDelete:
		return Transition{To: s, Same: true}, nil
	default:
		return Transition{}, fail.New(fail.Internal, "unknown operation %q", op)
	}
}

// notUpdated says why an update does nothing, which EMCO does not.
func (o *LogicalCloud) notUpdated(c ContextStatus) string {
	advice := "instantiate it"
	switch c {
	case ContextInstantiating:
		advice = "update it again when that has ended"
	case ContextTerminating:
		advice = "instantiate it when that has ended"
	case ContextTerminateFailed: // an instantiate is refused
		advice = "terminate it again, then instantiate it"
	default:
	}
	return fmt.Sprintf("nothing is done: logical cloud %q is in state %s%s; %s", o.Name, o.History.State(), ofContext(c), advice)
}

// UsedBy is why a cloud that a group names is not terminated; EMCO answers this with 400.
func (o *LogicalCloud) UsedBy(group Key) error {
	_, name := Cut(DeploymentIntentGroups, group)
	return fail.New(fail.Invalid, "Found at least one DIG associated with Logical Cloud attempted to be terminated: %s %q (%s)",
		DeploymentIntentGroups.Title, name, group)
}

// HeldBy is why a cloud of level 1 is not terminated in which a group has an instance, whichever cloud the group names now: what is there
// is deleted with the rights of the cloud's user.
func (o *LogicalCloud) HeldBy(group Key) error {
	return fail.New(fail.Conflict, "logical cloud %q cannot be terminated: %s %s has something in its clusters; terminate that first",
		o.Name, DeploymentIntentGroups.Title, group)
}

func (o *LogicalCloud) decideStop(c ContextStatus, next int) (Transition, error) {
	s := o.History.State()
	switch {
	case s == Created:
		return Transition{}, fail.New(fail.Conflict, "LogicalCloud has not been asked to instantiate: %s", o.Name)
	case (s == InstantiateStopped || s == TerminateStopped) && c.InProgress():
		return Transition{To: s, Same: true}, nil
	case s == InstantiateStopped:
		return Transition{}, fail.New(fail.Conflict, "LogicalCloud instantiation already stopped: %s", o.Name)
	case s == TerminateStopped:
		return Transition{}, fail.New(fail.Conflict, "LogicalCloud termination already stopped: %s", o.Name)
	case s == Terminated && (o.Admin() || c == ContextTerminating):
		return Transition{To: TerminateStopped, Revision: next}, nil
	case s != Terminated && (o.Admin() || c == ContextInstantiating):
		return Transition{To: InstantiateStopped, Revision: next}, nil
	default:
		return Transition{}, fail.New(fail.Invalid, "LogicalCloud is not instantiating or terminating: %s is in state %s%s", o.Name, s, ofContext(c))
	}
}

// ClusterReference puts a cluster into a logical cloud.
type ClusterReference struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     ClusterReferenceSpec `json:"spec" api:"required"`
	// Uncertified says that a certificate was sent which is not that of the cluster, and is not kept.
	Uncertified bool `json:"-" bson:"-"`
}

// ClusterReferenceSpec names the cluster.
type ClusterReferenceSpec struct {
	ClusterProvider string `json:"clusterProvider" api:"required"` // the provider of the cluster
	Cluster         string `json:"cluster" api:"required"`         // the cluster
	LoadBalancerIP  string `json:"loadBalancerIP"`                 // stored only; at most 16 characters
	Certificate     string `json:"certificate"`                    // of the user of level 1, in base64, once the cluster has signed it
}

// ClusterReferences is the noun.
var ClusterReferences = &Noun{
	Kind: "cluster-references", Title: "cluster reference", Collection: "cluster-references", Names: []string{"clusterReference"},
	Parent: LogicalClouds, New: func() Object { return &ClusterReference{} }, Fixed: true,
}

// Noun is ClusterReferences.
func (*ClusterReference) Noun() *Noun { return ClusterReferences }

// Certify leaves the certificate to the cluster: the reference has the one that the cluster has signed, "" before that.
func (o *ClusterReference) Certify(signed string) {
	o.Uncertified = o.Uncertified || o.Spec.Certificate != "" && o.Spec.Certificate != signed
	o.Spec.Certificate = signed
}

// ClusterName is the cluster.
func (o *ClusterReference) ClusterName() ClusterName {
	return ClusterName{Provider: o.Spec.ClusterProvider, Name: o.Spec.Cluster}
}

// Validate checks the body.
func (o *ClusterReference) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	CheckName(p, "spec.clusterProvider", o.Spec.ClusterProvider)
	CheckName(p, "spec.cluster", o.Spec.Cluster)
	CheckLength(p, "spec.loadBalancerIP", o.Spec.LoadBalancerIP, 16)
}

// References is the cluster.
func (o *ClusterReference) References() []Reference {
	return []Reference{{"spec.cluster", ClustersNoun, o.ClusterName().Key()}}
}
