package combined

import (
	"encoding/json"
	"iter"
	"regexp"
	"slices"
	"time"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/domain"
)

// List is a CombinedStatusList as KubeStellar has it.
type List struct {
	APIVersion string            `json:"apiVersion"` // control.kubestellar.io/v1alpha1
	Kind       string            `json:"kind"`       // CombinedStatusList
	Metadata   map[string]string `json:"metadata"`   // empty
	Items      []*CombinedStatus `json:"items"`      // by app, group, kind, namespace and name; then those of apps together
}

// CombinedStatus has the tables of one object of a group, or of all objects of an app together.
type CombinedStatus struct { //nolint:revive // it is the name of the kind
	APIVersion string            `json:"apiVersion"` // control.kubestellar.io/v1alpha1
	Kind       string            `json:"kind"`       // CombinedStatus
	Metadata   Metadata          `json:"metadata"`   // which object it is of
	Results    []*combine.Result `json:"results"`    // one for each collector, by name
	Inputs     Inputs            `json:"inputs"`     // which clusters are in the tables
}

// Metadata names a CombinedStatus as KubeStellar does.
type Metadata struct {
	Name      string `json:"name"`      // 16 hex digits of the object, a dot, and 16 of the group
	Namespace string `json:"namespace"` // the object's; kubestellar-report where it has none
	// those of status.kubestellar.io: api-group, resource, namespace, name and binding-policy, which is the group
	Labels map[string]string `json:"labels"`
	// the app, the group's path, and whole what of a label had to be cut
	Annotations map[string]string `json:"annotations"`
}

// Inputs say of the rows of a table's input which are silent.
type Inputs struct {
	Clusters    int           `json:"clusters"`              // that the object goes to
	Reported    int           `json:"reported"`              // that have reported it
	Stale       int           `json:"stale"`                 // that have not, or are not heard now
	Unconfirmed []Unconfirmed `json:"unconfirmed,omitempty"` // of the stale ones the first 20
}

// Unconfirmed is a cluster that is stale.
type Unconfirmed struct {
	ClusterID string     `json:"clusterId"`       // provider+name
	Since     *time.Time `json:"since,omitempty"` // when it was heard for the last time
	Reason    string     `json:"reason"`          // why it is stale
}

const maxUnconfirmed = 20

// What the documents are called.
const (
	APIVersion     = domain.CollectorAPIVersion
	Kind           = "CombinedStatus"
	ListKind       = "CombinedStatusList"
	ObjectsVersion = "v1"
	ObjectsKind    = "List"
	NoNamespace    = "kubestellar-report" // where objects are shown that have none
	prefix         = "status.kubestellar.io/"
	appAnnotation  = "drover.io/app"
	digAnnotation  = "drover.io/deployment-intent-group"
	// TogetherGroup is what a document of all objects of an app together has in place of an API group.
	TogetherGroup = "drover.io"
)

// CombinedStatuses are the documents as they stand. What has not changed since the last time is the same.
func (s *Set) CombinedStatuses() *List {
	return &List{APIVersion: APIVersion, Kind: ListKind, Metadata: map[string]string{}, Items: slices.AppendSeq(make([]*CombinedStatus, 0, len(s.items)), s.Documents())}
}

// Documents are those of CombinedStatuses, each made when its turn comes.
func (s *Set) Documents() iter.Seq[*CombinedStatus] {
	return func(yield func(*CombinedStatus) bool) {
		for _, i := range s.items {
			d := i.content
			if d == nil {
				d = i.document(s.group.Key, s.unfinished)
			}
			if !s.once {
				i.content = d
			}
			if !yield(d) {
				return
			}
		}
	}
}

func (i *item) document(group domain.Key, unfinished string) *CombinedStatus {
	d := &CombinedStatus{
		APIVersion: APIVersion, Kind: Kind, Metadata: i.metadata(group), Results: make([]*combine.Result, 0, len(i.tables)), Inputs: i.inputs.shown(),
	}
	for n := range i.tables {
		d.Results = append(d.Results, i.tables[n].result(unfinished))
	}
	return d
}

func (i *item) metadata(group domain.Key) Metadata {
	m := Metadata{Labels: map[string]string{}, Annotations: map[string]string{appAnnotation: i.app, digAnnotation: string(group)}}
	label := func(name, value string) {
		m.Labels[prefix+name] = labelValue(value)
		if m.Labels[prefix+name] != value {
			m.Annotations[prefix+name] = value
		}
	}
	words := []string{"app", i.app}
	m.Namespace = NoNamespace
	if o := i.object; o != nil {
		words = []string{"object", i.app, o.Group, o.Kind, o.Namespace, o.Name}
		label("api-group", o.Group)
		label("resource", o.Resource)
		label("namespace", o.Namespace)
		label("name", o.Name)
		if o.Namespace != "" {
			m.Namespace = o.Namespace
		}
	} else {
		label("api-group", TogetherGroup)
		label("resource", "apps")
		label("namespace", "")
		label("name", i.app)
	}
	label("binding-policy", group.Name())
	m.Name = short(words...) + "." + short(string(group))
	return m
}

// maxLabel is how long the value of a label may be.
const maxLabel = 63

var (
	labelPattern = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`)
	notInLabels  = regexp.MustCompile(`[^-A-Za-z0-9_.]`)
)

// labelValue is a text as the value of a label: as it is where it can be one, else what can of it, cut, and a hash of the whole.
func labelValue(text string) string {
	if len(text) <= maxLabel && labelPattern.MatchString(text) {
		return text
	}
	hash := short(text)[:10]
	kept := notInLabels.ReplaceAllString(text, "-")
	kept = kept[:min(len(kept), maxLabel-len(hash)-1)]
	for len(kept) > 0 && !labelPattern.MatchString(kept) { // it may begin or end with a sign
		if trimmed := kept[:len(kept)-1]; labelPattern.MatchString(kept[:1]) {
			kept = trimmed
		} else {
			kept = kept[1:]
		}
	}
	if kept == "" {
		return hash
	}
	return kept + "-" + hash
}

// ObjectList is a List of Kubernetes: the objects that a group wants, each with the status that is asked for.
type ObjectList struct {
	APIVersion string            `json:"apiVersion"` // v1
	Kind       string            `json:"kind"`       // List
	Metadata   map[string]string `json:"metadata"`   // empty
	Items      []map[string]any  `json:"items"`      // the manifests as they were sent, with namespace, without what is secret
}

// UnmarshalJSON reads a list. Numbers are as combine.Decode has them: a float64 would lose digits of large ones.
func (l *ObjectList) UnmarshalJSON(data []byte) error {
	var raw struct {
		APIVersion, Kind string
		Metadata         map[string]string
		Items            []json.RawMessage
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	*l = ObjectList{APIVersion: raw.APIVersion, Kind: raw.Kind, Metadata: raw.Metadata, Items: make([]map[string]any, 0, len(raw.Items))}
	for _, data := range raw.Items {
		item, err := combine.Decode(data)
		if err != nil {
			return err
		}
		l.Items = append(l.Items, item)
	}
	return nil
}

// Annotations of an object in a list.
const (
	StateAnnotation  = "drover.io/reported-state"
	ReasonAnnotation = "drover.io/reported-state-reason"
)

// notAsked is the reason of an object of which no status is asked.
const notAsked = "no status intent asks for the state of the object"

// Objects are the objects, by app, group, kind, namespace and name.
func (s *Set) Objects() *ObjectList {
	list := &ObjectList{APIVersion: ObjectsVersion, Kind: ObjectsKind, Metadata: map[string]string{}, Items: make([]map[string]any, 0, len(s.objects))}
	for _, o := range s.Shown() {
		list.Items = append(list.Items, o)
	}
	return list
}

// Shown are those of Objects, each made when its turn comes, by names: the app, which may have a CRD that another one has too, and Object.String.
func (s *Set) Shown() iter.Seq2[string, map[string]any] {
	return func(yield func(string, map[string]any) bool) {
		for _, e := range s.objects {
			if !yield(e.App+"/"+e.String(), e.shown()) {
				return
			}
		}
	}
}

// shown is the object with its status: as its cluster gets it where it goes to one, else as clusters get it for which no intent varies it.
func (e *entry) shown() map[string]any {
	a := combine.Aggregated{State: combine.StateNone, Reason: notAsked}
	if e.states != nil {
		reported := make([]combine.Reported, 0, len(e.states))
		for _, r := range e.states {
			reported = append(reported, r.Reported)
		}
		slices.SortFunc(reported, func(a, b combine.Reported) int { return a.Cluster.Compare(b.Cluster) })
		a = combine.Aggregate(e.Group, e.Kind, combine.Want{Singleton: e.Wants.Singleton, Multi: e.Wants.Multi}, reported)
	}
	content := e.Content
	if len(e.Targets) == 1 {
		content = e.on(e.Targets[0])
	}
	metadata := map[string]any{}
	annotations := map[string]any{}
	shown := map[string]any{}
	for k, v := range content {
		shown[k] = v
	}
	if m, ok := content["metadata"].(map[string]any); ok {
		for k, v := range m {
			metadata[k] = v
		}
	}
	if m, ok := metadata["annotations"].(map[string]any); ok {
		for k, v := range m {
			annotations[k] = v
		}
	}
	annotations[StateAnnotation], annotations[ReasonAnnotation] = string(a.State), a.Reason
	metadata["annotations"], shown["metadata"] = annotations, metadata
	if len(a.Status) > 0 { // a ConfigMap has none
		shown["status"] = a.Status
	}
	return shown
}
