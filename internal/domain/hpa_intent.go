package domain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/quantity"
)

// HPAIntent says of an app what its nodes must have (hardware platform awareness): the app goes to clusters that have such
// nodes, and its workloads ask for them. All of a group count as soon as a deployment intent binds hpa, whatever name it binds.
type HPAIntent struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     HPAIntentSpec `json:"spec" api:"required"`
}

// HPAIntentSpec names the app.
type HPAIntentSpec struct {
	App string `json:"app" api:"required"` // the app of the composite app
}

// HPAIntents is the noun. The app need not be there yet.
var HPAIntents = &Noun{
	Kind: "hpa-intents", Title: "hpa intent", Collection: "hpa-intents", Names: []string{"hpaIntent"},
	Parent: DeploymentIntentGroups, New: func() Object { return &HPAIntent{} }, Ahead: true,
}

// Noun is HPAIntents.
func (*HPAIntent) Noun() *Noun { return HPAIntents }

// Validate checks the body.
func (o *HPAIntent) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	CheckName(p, "spec.app", o.Spec.App)
}

// References are the app.
func (o *HPAIntent) References() []Reference {
	return []Reference{{"spec.app", Apps, compositeAppOf(o.Parent).Child(Apps.Collection, o.Spec.App)}}
}

// HPAConsumer is a workload of the app that needs the resources below it.
type HPAConsumer struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     HPAConsumerSpec `json:"spec" api:"required"`
}

// HPAConsumerSpec names the workload as it is when the app is rendered.
type HPAConsumerSpec struct {
	// metadata.name of the object, with what the release name (spec.version of the group) adds to it, such as r1-http-client
	Name       string `json:"name" api:"required"`
	APIVersion string `json:"apiVersion,omitempty"` // kept for the user; the object is found by its kind and name
	Kind       string `json:"kind,omitempty"`       // the kind of the object as in its manifest; Deployment when missing
	// how many pods it has, from 1, which replaces spec.replicas where the manifest has that; missing: as the manifest says, and
	// room is looked for one
	Replicas  *int64 `json:"replicas,omitempty"`
	Container string `json:"container,omitempty"` // the container that gets the requests; allocatable resources need it
}

// HPAConsumers is the noun.
var HPAConsumers = &Noun{
	Kind: "hpa-resource-consumers", Title: "hpa resource consumer", Collection: "hpa-resource-consumers", Names: []string{"hpaConsumer"},
	Parent: HPAIntents, New: func() Object { return &HPAConsumer{} },
}

// Noun is HPAConsumers.
func (*HPAConsumer) Noun() *Noun { return HPAConsumers }

// maxReplicas is the greatest number of pods that Kubernetes takes.
const maxReplicas = 1<<31 - 1

// Validate checks the body.
func (o *HPAConsumer) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	if o.Spec.Name == "" {
		p.Add("spec.name", "is required")
	}
	CheckLength(p, "spec.name", o.Spec.Name, maxWorkloadResource)
	CheckLength(p, "spec.apiVersion", o.Spec.APIVersion, maxWorkloadResource)
	CheckLength(p, "spec.kind", o.Spec.Kind, maxWorkloadResource)
	CheckLength(p, "spec.container", o.Spec.Container, maxWorkloadResource)
	if r := o.Spec.Replicas; r != nil && *r < 1 {
		p.Add("spec.replicas", "Must be greater than or equal to 1")
	} else if r != nil && *r > maxReplicas {
		p.Add("spec.replicas", "Must be less than or equal to %d", maxReplicas)
	}
}

// HPAResource is a resource that the pods of a consumer need: an allocatable one of a node, such as cpu, or a label.
type HPAResource struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     HPAResourceSpec `json:"spec" api:"required"`
}

// HPAResourceSpec is the resource, and how much it is wanted.
type HPAResourceSpec struct {
	Allocatable *bool `json:"allocatable" api:"required"` // true: name and requests say how much of what; false: a label, by key and value
	// whether clusters without it are left out; false: they are only taken after those that have it. True when missing
	Mandatory *bool `json:"mandatory,omitempty"`
	// what having it counts, from 1, where one of several clusters is taken and mandatory is false; 1 when missing
	Weight *int64 `json:"weight,omitempty"`
	// either name with requests, or key with value
	Resource HPAResourceName `json:"resource" api:"required"`
}

// HPAResourceName says which resource it is.
type HPAResourceName struct {
	Name     string  `json:"name,omitempty"`     // of an allocatable resource, such as cpu, memory or intel.com/qat
	Requests Amount  `json:"requests,omitempty"` // of each pod, from 1
	Limits   Amount  `json:"limits,omitempty"`   // of each pod, as requests; not less than these
	Units    string  `json:"units,omitempty"`    // kept for the user: a number says megabytes of memory, and units of all else
	Key      string  `json:"key,omitempty"`      // of a label of nodes
	Value    *string `json:"value,omitempty"`    // of the label
}

// Amount is how much of a resource, as JSON: a whole number, which EMCO counts in megabytes (10^6 bytes) of memory and in units of
// all else, or a quantity of Kubernetes as text, such as "500m". "" is none.
type Amount string

// MarshalJSON gives what was said.
func (a Amount) MarshalJSON() ([]byte, error) {
	switch {
	case a == "":
		return []byte("null"), nil
	case !json.Valid([]byte(a)): // nobody has said so
		return json.Marshal(string(a))
	default:
		return []byte(a), nil
	}
}

// UnmarshalJSON takes a whole number or a string.
func (a *Amount) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	var number int64
	into := any(&number)
	if data[0] == '"' {
		into = new(string)
	}
	if err := json.Unmarshal(data, into); err != nil { // it says what is wrong
		return err
	}
	*a = Amount(data)
	return nil
}

// megabyte is what EMCO counts memory in.
const megabyte = 1_000_000

// Quantity is an amount of a resource as Kubernetes takes it; "" for none.
func (a Amount) Quantity(resource string) string {
	number, err := strconv.ParseInt(string(a), 10, 64)
	if err != nil {
		var text string
		_ = json.Unmarshal([]byte(a), &text) // it is "", or what UnmarshalJSON has taken
		return text
	}
	if resource == "memory" {
		return new(big.Int).Mul(big.NewInt(number), big.NewInt(megabyte)).String()
	}
	return strconv.FormatInt(number, 10)
}

// HPAResources is the noun.
var HPAResources = &Noun{
	Kind: "resource-requirements", Title: "resource requirement", Collection: "resource-requirements", Names: []string{"hpaResource"},
	Parent: HPAConsumers, New: func() Object { return &HPAResource{} },
}

// Noun is HPAResources.
func (*HPAResource) Noun() *Noun { return HPAResources }

// Required says whether clusters without the resource are left out.
func (s *HPAResourceSpec) Required() bool { return s.Mandatory == nil || *s.Mandatory }

// Counts is what having the resource counts where it is not required.
func (s *HPAResourceSpec) Counts() int64 {
	if s.Weight == nil {
		return 1
	}
	return *s.Weight
}

// maxWeight lets all weights of a group be added up.
const maxWeight = 1 << 31

// Validate checks the body.
func (o *HPAResource) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	s, r := &o.Spec, &o.Spec.Resource
	if s.Allocatable == nil {
		p.Add("spec.allocatable", "is required")
	}
	if s.Weight != nil && *s.Weight < 1 {
		p.Add("spec.weight", "Must be greater than or equal to 1")
	} else if s.Weight != nil && *s.Weight > maxWeight {
		p.Add("spec.weight", "Must be less than or equal to %d", maxWeight)
	}
	amount, label := r.Name != "" || r.Requests != "" || r.Limits != "" || r.Units != "", r.Key != "" || r.Value != nil
	switch {
	case amount == label:
		p.Add("spec.resource", "Must validate one and only one schema (oneOf): name and requests, or key and value")
	case s.Allocatable != nil && *s.Allocatable != amount:
		p.Add("spec.allocatable", "allocatable and resource field value mismatch: a resource with name and requests is allocatable, one with key and value is not")
	case amount:
		r.validateAmount(p)
	default:
		if !isLabelKey(r.Key) {
			p.Add("spec.resource.key", "%q is not the key of a label", r.Key)
		}
		if r.Value == nil {
			p.Add("spec.resource.value", "is required")
		} else if !isLabelValue(*r.Value) {
			p.Add("spec.resource.value", "%q is not the value of a label", *r.Value)
		}
	}
}

func (r *HPAResourceName) validateAmount(p *fail.Problems) {
	if !isLabelKey(r.Name) { // both are what Kubernetes calls qualified names
		p.Add("spec.resource.name", "%q is not the name of a resource such as cpu, memory or intel.com/qat", r.Name)
	}
	if r.Units != "" {
		CheckName(p, "spec.resource.units", r.Units)
	}
	if r.Requests == "" {
		p.Add("spec.resource.requests", "is required")
		return
	}
	requests, limits := r.Requests.check(p, "spec.resource.requests", r.Name), r.Limits.check(p, "spec.resource.limits", r.Name)
	if requests != nil && limits != nil && limits.Cmp(requests) < 0 {
		p.Add("spec.resource.limits", "%s is less than requests, %s", r.Limits, r.Requests)
	}
}

// extendedResource says whether a device plugin or an operator has made the resource. Kubernetes counts such in whole numbers, and
// refuses the pod otherwise.
func extendedResource(name string) bool {
	return strings.Contains(name, "/") && !strings.Contains(name, "kubernetes.io/")
}

// check adds a problem unless the amount is one, or none. It gives what it is worth, nil when that is not known.
func (a Amount) check(p *fail.Problems, path, resource string) *big.Rat {
	if a == "" {
		return nil
	}
	worth, err := quantity.Parse(a.Quantity(resource))
	switch {
	case err != nil:
		p.Add(path, "%.40q %s", a.Quantity(resource), err)
	case worth.Sign() <= 0 && a[0] != '"':
		p.Add(path, "Must be greater than or equal to 1")
	case worth.Sign() <= 0:
		p.Add(path, "Must be greater than 0")
	case extendedResource(resource) && !worth.IsInt():
		p.Add(path, "%.40q must be a whole number: %s is not a resource of Kubernetes' own", a.Quantity(resource), resource)
	default:
		return worth
	}
	return nil
}

// HPANeed is a requirement of a consumer of an hpa intent.
type HPANeed struct {
	Intent, Consumer string
	HPAConsumerSpec
	Resource string // the name of the requirement
	HPAResourceSpec
	// Tolerations are those of the workload's pods, as far as anybody has looked: of nodes with taints.
	Tolerations []Toleration
}

// HPANeeds are those of each app, by its name. They are sorted by the names of their documents: in which order these were made
// does not matter.
func HPANeeds(intents []*HPAIntent, consumers []*HPAConsumer, resources []*HPAResource) map[string][]HPANeed {
	app := make(map[Key]*HPAIntent, len(intents))
	for _, i := range intents {
		app[KeyOf(i)] = i
	}
	of := make(map[Key]*HPAConsumer, len(consumers))
	for _, c := range consumers {
		of[KeyOf(c)] = c
	}
	needs := map[string][]HPANeed{}
	for _, r := range resources {
		c := of[r.Parent]
		if c == nil || app[c.Parent] == nil { // it is going
			continue
		}
		i := app[c.Parent]
		needs[i.Spec.App] = append(needs[i.Spec.App], HPANeed{
			Intent: i.Name, Consumer: c.Name, HPAConsumerSpec: c.Spec, Resource: r.Name, HPAResourceSpec: r.Spec,
		})
	}
	for _, of := range needs {
		slices.SortFunc(of, func(a, b HPANeed) int {
			return cmp.Or(cmp.Compare(a.Intent, b.Intent), cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Resource, b.Resource))
		})
	}
	return needs
}

// Workload is the kind of the workload.
func (s *HPAConsumerSpec) Workload() string { return cmp.Or(s.Kind, "Deployment") }

// IsLabel says whether it is a label that is needed, and not an amount of something.
func (n *HPANeed) IsLabel() bool { return n.Allocatable == nil || !*n.Allocatable }

// Label is the label as users read it.
func (n *HPANeed) Label() string {
	if n.HPAResourceSpec.Resource.Value == nil {
		return n.HPAResourceSpec.Resource.Key
	}
	return n.HPAResourceSpec.Resource.Key + "=" + *n.HPAResourceSpec.Resource.Value
}
