package domain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/drover-io/drover/internal/fail"
)

// NetControllerIntent is a set of workload intents, which a deployment intent binds to its group under the key ovnaction.
type NetControllerIntent struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
}

// NetControllerIntents is the noun. EMCO calls its collection in the singular.
var NetControllerIntents = &Noun{
	Kind: "network-controller-intents", Title: "network controller intent", Collection: "network-controller-intent",
	Names: []string{"netControllerIntent"}, Parent: DeploymentIntentGroups, New: func() Object { return &NetControllerIntent{} },
}

// Noun is NetControllerIntents.
func (*NetControllerIntent) Noun() *Noun { return NetControllerIntents }

// WorkloadIntent says which workload of an app gets the network interfaces below it.
type WorkloadIntent struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     WorkloadIntentSpec `json:"spec" api:"required"`
}

// WorkloadIntentSpec names the workload as it is when the app is rendered.
type WorkloadIntentSpec struct {
	App string `json:"app" api:"required"` // the app of the composite app
	// metadata.name of the object, with what the release name (spec.version of the group) adds to it, such as r1-firewall
	WorkloadResource string `json:"workloadResource" api:"required"`
	Type             string `json:"type" api:"required"` // the kind of the object exactly as in its manifest, such as Deployment
}

// WorkloadIntents is the noun. The app need not be there yet.
var WorkloadIntents = &Noun{
	Kind: "workload-intents", Title: "workload intent", Collection: "workload-intents", Names: []string{"workloadIntent"},
	Parent: NetControllerIntents, New: func() Object { return &WorkloadIntent{} }, Ahead: true, Ordered: true,
}

// Noun is WorkloadIntents.
func (*WorkloadIntent) Noun() *Noun { return WorkloadIntents }

// maxWorkloadResource is the longest name of a workload (EMCO's schema).
const maxWorkloadResource = 254

// Validate checks the body.
func (o *WorkloadIntent) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	CheckName(p, "spec.app", o.Spec.App)
	checkName(p, "spec.workloadResource", o.Spec.WorkloadResource, maxWorkloadResource)
	CheckName(p, "spec.type", o.Spec.Type)
}

// References are the app.
func (o *WorkloadIntent) References() []Reference {
	return []Reference{{"spec.app", Apps, compositeAppOf(o.Parent).Child(Apps.Collection, o.Spec.App)}}
}

// InterfaceIntent is a network interface that the pods of a workload get.
type InterfaceIntent struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     InterfaceIntentSpec `json:"spec" api:"required"`
}

// InterfaceIntentSpec is the interface, in the order and with the names in which the network plugin reads it.
type InterfaceIntentSpec struct {
	Interface string `json:"interface" api:"required"` // what it is called in the pod, such as eth1; at most 63 characters
	Name      string `json:"name" api:"required"`      // the network; at most 63 characters
	// whether the pod's default route goes through it: the word true or false, or a boolean; false when missing
	DefaultGateway Truth  `json:"defaultGateway" api:"enum=true;false"`
	IPAddress      string `json:"ipAddress,omitempty"`  // without a prefix; the network chooses one when missing
	MACAddress     string `json:"macAddress,omitempty"` // such as 02:42:ac:11:00:02; the network chooses one when missing
}

// Truth is true or false as a word, as EMCO stores it. Booleans of JSON are accepted, too.
type Truth string

// The truths.
const (
	True  Truth = "true"
	False Truth = "false"
)

// UnmarshalJSON takes a string, or a boolean.
func (t *Truth) UnmarshalJSON(data []byte) error {
	switch data = bytes.TrimSpace(data); {
	case bytes.Equal(data, []byte(True)), bytes.Equal(data, []byte(False)):
		*t = Truth(data)
		return nil
	default:
		return json.Unmarshal(data, (*string)(t)) // it says what is wrong
	}
}

// InterfaceIntents is the noun.
var InterfaceIntents = &Noun{
	Kind: "interface-intents", Title: "interface intent", Collection: "interfaces", Names: []string{"interfaceIntent"},
	Parent: WorkloadIntents, New: func() Object { return &InterfaceIntent{} }, Ordered: true,
}

// Noun is InterfaceIntents.
func (*InterfaceIntent) Noun() *Noun { return InterfaceIntents }

// maxInterface is the longest name of an interface and of its network: both are values of labels.
const maxInterface = maxLabelValue

// macPattern is an address of 6, 8 or 20 bytes, as Go's net.ParseMAC reads it.
var macPattern = func() *regexp.Regexp {
	var forms []string
	for _, size := range []int{6, 8, 20} {
		forms = append(forms, fmt.Sprintf("%[1]s(:%[1]s){%[2]d}|%[1]s(-%[1]s){%[2]d}|%[3]s(\\.%[3]s){%[4]d}",
			"[0-9a-fA-F]{2}", size-1, "[0-9a-fA-F]{4}", size/2-1))
	}
	return regexp.MustCompile("^(" + strings.Join(forms, "|") + ")$")
}()

// Fill says of an interface that it is not the default gateway, unless the user says it is.
func (o *InterfaceIntent) Fill() {
	if o.Spec.DefaultGateway == "" {
		o.Spec.DefaultGateway = False
	}
}

// Validate checks the body.
func (o *InterfaceIntent) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	checkName(p, "spec.interface", o.Spec.Interface, maxInterface)
	checkName(p, "spec.name", o.Spec.Name, maxInterface)
	if g := o.Spec.DefaultGateway; g != "" && g != True && g != False {
		p.Add("spec.defaultGateway", "Invalid default interface: %q; use %q or %q", g, True, False)
	}
	if a, err := netip.ParseAddr(o.Spec.IPAddress); o.Spec.IPAddress != "" && (err != nil || a.Zone() != "") {
		p.Add("spec.ipAddress", "Invalid IP address: %q; use one of IPv4 or IPv6, without a prefix", o.Spec.IPAddress)
	}
	if o.Spec.MACAddress != "" && !macPattern.MatchString(o.Spec.MACAddress) {
		p.Add("spec.macAddress", "Invalid MAC address: %q; use one such as 02:42:ac:11:00:02", o.Spec.MACAddress)
	}
}
