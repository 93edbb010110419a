// Package bundle is the ResourceBundleState: the custom resource by which a member cluster tells what became of
// one app of one app context there. The agent (internal/monitor) writes its status with Split, the control
// plane reads it with Decode and Join; both are functions from values to values.
//
// A status lists whole objects, stripped of what nobody may see or needs (Strip). When it outgrows what an
// object may be, first the largest objects are summarised, then the rest is spread over further resources,
// the parts, which are named "<name>-2" and so on, belong to the first, and carry its label and PartLabel.
package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/plan"
)

// What the resource is called; EMCO's names.
const (
	Group    = "k8splugin.io"
	Version  = "v1alpha1"
	Kind     = "ResourceBundleState"
	Resource = "resourcebundlestates"
)

// PartLabel is the number of a part, from "2". The first resource of a bundle, the one with the selector, does
// not carry it.
const PartLabel = "k8splugin.io/part"

// maxName leaves room for the number of a part within the 253 bytes of a name.
const maxName = 240

// subdomain is what Kubernetes takes as a name.
var subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// Name is that of the resource: "<app>-<context id>". An app whose name cannot be part of an object's name, or is
// too long, is replaced by a hash of it, so that two such apps stay apart.
func Name(app, contextID string) string {
	name := app + "-" + contextID
	if len(name) <= maxName && subdomain.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(app))
	return "app-" + hex.EncodeToString(sum[:10]) + "-" + contextID
}

// PartName is the name of a part; part 1 is the resource itself.
func PartName(name string, part int) string {
	if part == 1 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, part)
}

// New is the resource as a control plane applies it, with label and selector but without a status: that is the
// agent's. It has to be applied to the logical cloud's namespace.
func New(app, contextID, namespace string) plan.Resource {
	id := plan.DeploymentID(contextID, app)
	r := resource{
		TypeMeta: metav1.TypeMeta{APIVersion: Group + "/" + Version, Kind: Kind},
		Metadata: metadata{Name: Name(app, contextID), Namespace: namespace, Labels: map[string]string{plan.DeploymentLabel: id}},
		Spec:     &spec{Selector: metav1.LabelSelector{MatchLabels: map[string]string{plan.DeploymentLabel: id}}},
	}
	return plan.Resource{
		ResourceID: plan.ResourceID{Group: Group, Version: Version, Kind: Kind, Namespace: namespace, Name: r.Metadata.Name},
		Manifest:   r.json(),
	}
}

// Owner is the first resource of a bundle, as its parts name it.
type Owner struct {
	Namespace, Name, UID, DeploymentID string
}

// NewPart is a part as the agent applies it, without its status. It goes with its owner.
func NewPart(o Owner, part int) json.RawMessage {
	r := resource{
		TypeMeta: metav1.TypeMeta{APIVersion: Group + "/" + Version, Kind: Kind},
		Metadata: metadata{
			Name: PartName(o.Name, part), Namespace: o.Namespace,
			Labels: map[string]string{plan.DeploymentLabel: o.DeploymentID, PartLabel: fmt.Sprint(part)},
			Owners: []owner{{APIVersion: Group + "/" + Version, Kind: Kind, Name: o.Name, UID: o.UID}},
		},
	}
	return r.json()
}

// resource is the whole custom resource; encoding/json knows its order.
type resource struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metadata        `json:"metadata"`
	Spec            *spec           `json:"spec,omitempty"`
	Status          json.RawMessage `json:"status,omitempty"`
}

// metadata are the members that are written and read here.
type metadata struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace,omitempty"`
	UID       string            `json:"uid,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Owners    []owner           `json:"ownerReferences,omitempty"`
}

type owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

type spec struct {
	Selector metav1.LabelSelector `json:"selector"`
}

func (r *resource) json() json.RawMessage {
	data, err := json.Marshal(r)
	if err != nil {
		panic("bundle: a resource of strings cannot be encoded: " + err.Error()) // no input can cause it
	}
	return data
}

// groupOf takes a group out of an apiVersion.
func groupOf(apiVersion string) (group, version string) {
	if g, v, ok := strings.Cut(apiVersion, "/"); ok {
		return g, v
	}
	return "", apiVersion
}
