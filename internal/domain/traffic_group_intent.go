package domain

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/fail"
)

// TrafficGroupIntent is a set of inbound intents, which a deployment intent binds to its group under the key dtc.
type TrafficGroupIntent struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
}

// TrafficGroupIntents is the noun. Its names, and those of what is below it, are values of labels in EMCO.
var TrafficGroupIntents = &Noun{
	Kind: "traffic-group-intents", Title: "traffic group intent", Collection: "traffic-group-intents", Names: []string{"trafficGroupIntent"},
	Parent: DeploymentIntentGroups, New: func() Object { return &TrafficGroupIntent{} }, Longest: maxLabelValue,
}

// Noun is TrafficGroupIntents.
func (*TrafficGroupIntent) Noun() *Noun { return TrafficGroupIntents }

// Validate checks the body.
func (o *TrafficGroupIntent) Validate(p *fail.Problems) { o.validateShort(p) }

// validateShort is Validate for names that are values of labels.
func (m *Metadata) validateShort(p *fail.Problems) {
	checkName(p, "metadata.name", m.Name, maxLabelValue)
	m.checkRemarks(p)
}

// InboundServerIntent says which traffic the pods of an app take: that of the clients below it, on one port.
type InboundServerIntent struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     InboundServerIntentSpec `json:"spec" api:"required"`
	// PrivateKey is spec.external.externalCerts.servicePrivateKey, sealed for the document. It is kept nowhere else.
	PrivateKey Sealed `json:"-" bson:"privateKey"`
}

// InboundServerIntentSpec is the server, and how it is to be reached. Every answer has all its members.
type InboundServerIntentSpec struct {
	App         string `json:"app" api:"required"`         // the app of the composite app whose pods are the server
	AppLabel    string `json:"appLabel" api:"required"`    // a label of the pods as key=value, such as app=httpbin
	ServiceName string `json:"serviceName" api:"required"` // the Service by which clients know the server
	// the name under which the server is known from outside, for an Istio gateway; at most 128 characters
	ExternalName string `json:"externalName"`
	Port         int    `json:"port" api:"required"` // of the Service, or of the pods where their Service has no such port; 1 to 65535
	// TCP, UDP or SCTP; HTTP, HTTPS and GRPC mean TCP. In any case of letters
	Protocol string `json:"protocol" api:"required,enum=TCP;UDP;SCTP;HTTP;HTTPS;GRPC"`
	// whether clients may come from outside the clusters: from the cidrs of the clients, and with Istio through a gateway
	ExternalSupport bool              `json:"externalSupport"`
	ServiceMesh     string            `json:"serviceMesh"` // istio, or none; at most 128 characters
	EdgeCNF         string            `json:"edgeCNF"`     // EMCO's word for an edge gateway, which is not acted on; at most 128 characters
	Management      InboundManagement `json:"management"`
	External        InboundExternal   `json:"external"`
}

// InboundManagement says how a service mesh handles a server.
type InboundManagement struct {
	SidecarProxy string `json:"sidecarProxy"`                           // yes: the server has a sidecar, so that a gateway may lead to it; at most 4 characters
	TLSType      string `json:"tlsType" api:"enum=NONE;SIMPLE;MUTUAL;"` // of the gateway: who shows a certificate, nobody when empty
}

// InboundExternal is what is needed to be reached from outside.
type InboundExternal struct {
	Certificates InboundCertificates `json:"externalCerts"`
}

// InboundCertificates are those of a gateway, each PEM in base64, at most 8192 characters.
type InboundCertificates struct {
	ServiceCertificate string `json:"serviceCertificate"` // PEM in base64
	// PEM in base64. Answers have ******** in its place; a PUT with that leaves the key as it is
	ServicePrivateKey string `json:"servicePrivateKey" bson:"-"`
	CACertificate     string `json:"caCertificate"` // PEM in base64; clients show certificates of it when tlsType is MUTUAL
}

// InboundServerIntents is the noun. The app need not be there yet.
var InboundServerIntents = &Noun{
	Kind: "inbound-intents", Title: "inbound intent", Collection: "inbound-intents", Names: []string{"inboundServerIntent"},
	Parent: TrafficGroupIntents, New: func() Object { return &InboundServerIntent{} }, Longest: maxLabelValue, Ahead: true, Ordered: true,
}

// Noun is InboundServerIntents.
func (*InboundServerIntent) Noun() *Noun { return InboundServerIntents }

// MaskedKey stands for a private key in answers.
const MaskedKey = "********"

// The words of inbound intents that are acted on.
const (
	MeshIstio    = "istio"
	MeshNone     = "none"
	SidecarProxy = "yes"
	TLSNone      = "NONE"
	TLSSimple    = "SIMPLE"
	TLSMutual    = "MUTUAL"
)

const (
	maxAppLabel    = 128
	maxProtocol    = 5
	maxSidecar     = 4
	maxCertificate = 8192
	maxURL         = 4096
)

// transports are the protocols that are taken, in capitals, and those of the transport below them.
var transports = map[string]string{"TCP": "TCP", "UDP": "UDP", "SCTP": "SCTP", "HTTP": "TCP", "HTTPS": "TCP", "GRPC": "TCP"}

// Transport is the protocol of Kubernetes that the intent's means, "" for none.
func (s *InboundServerIntentSpec) Transport() string { return transports[strings.ToUpper(s.Protocol)] }

// Validate checks the body.
func (o *InboundServerIntent) Validate(p *fail.Problems) {
	o.validateShort(p)
	s := &o.Spec
	CheckName(p, "spec.app", s.App)
	checkAppLabel(p, s.AppLabel)
	CheckName(p, "spec.serviceName", s.ServiceName)
	CheckLength(p, "spec.externalName", s.ExternalName, MaxName)
	if s.Port < 1 {
		p.Add("spec.port", "Must be greater than or equal to 1")
	}
	checkRange(p, "spec.port", max(s.Port, 0), maxPort)
	switch {
	case s.Protocol == "":
		p.Add("spec.protocol", "is required")
	case len(s.Protocol) > maxProtocol:
		p.Add("spec.protocol", "String length must be less than or equal to %d", maxProtocol)
	case s.Transport() == "":
		p.Add("spec.protocol", "Invalid protocol: %q; use TCP, UDP or SCTP, or HTTP, HTTPS or GRPC, which mean TCP", s.Protocol)
	}
	CheckLength(p, "spec.serviceMesh", s.ServiceMesh, MaxName)
	CheckLength(p, "spec.edgeCNF", s.EdgeCNF, MaxName)
	CheckLength(p, "spec.management.sidecarProxy", s.Management.SidecarProxy, maxSidecar)
	// EMCO takes any other word for NONE, which would open what was to be closed.
	if t := s.Management.TLSType; t != "" && t != TLSNone && t != TLSSimple && t != TLSMutual {
		p.Add("spec.management.tlsType", "Invalid TLS type: %q; use %s, %s or %s", t, TLSNone, TLSSimple, TLSMutual)
	}
	c := &s.External.Certificates
	checkCertificate(p, "serviceCertificate", c.ServiceCertificate)
	if c.ServicePrivateKey != MaskedKey {
		checkCertificate(p, "servicePrivateKey", c.ServicePrivateKey)
	}
	checkCertificate(p, "caCertificate", c.CACertificate)
}

const maxPort = 65535

// checkAppLabel adds a problem unless s is a label that a selector can have.
func checkAppLabel(p *fail.Problems, s string) {
	key, value, found := strings.Cut(s, "=")
	switch {
	case s == "":
		p.Add("spec.appLabel", "is required")
	case len(s) > maxAppLabel:
		p.Add("spec.appLabel", "String length must be less than or equal to %d", maxAppLabel)
	case !found || value == "" || !isLabelKey(key) || !isLabelValue(value):
		p.Add("spec.appLabel", "Invalid label: %q; use key=value, such as app=httpbin", s)
	}
}

// checkCertificate adds a problem unless s is empty, or base64. It never says what s is: it may be a key.
func checkCertificate(p *fail.Problems, name, s string) {
	path := "spec.external.externalCerts." + name
	CheckLength(p, path, s, maxCertificate)
	if _, err := base64.StdEncoding.DecodeString(s); err != nil {
		p.Add(path, "is not base64")
	}
}

// References are the app.
func (o *InboundServerIntent) References() []Reference {
	return []Reference{{"spec.app", Apps, compositeAppOf(o.Parent).Child(Apps.Collection, o.Spec.App)}}
}

// InboundClientsIntent is a client of a server: an app whose pods may send it traffic.
type InboundClientsIntent struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     InboundClientsIntentSpec `json:"spec" api:"required"`
}

// InboundClientsIntentSpec names the client's pods, and where they are.
type InboundClientsIntentSpec struct {
	App         string   `json:"app" api:"required"`         // the app of the composite app whose pods are the client
	AppLabel    string   `json:"appLabel" api:"required"`    // a label of the pods as key=value, such as app=client
	ServiceName string   `json:"serviceName" api:"required"` // the client's own Service; EMCO wants it, and nothing is done with it
	Namespaces  []string `json:"namespaces" api:"required"`  // where its pods are; the namespace of the server when empty
	// addresses from which it comes when it is in no pod of the server's cluster, such as 10.20.0.0/16. When no client of a server names any and
	// externalSupport is false, all IPv4 addresses are let in
	CIDRs []string `json:"cidrs" api:"required"`
}

// InboundClientsIntents is the noun. The app need not be there yet.
var InboundClientsIntents = &Noun{
	Kind: "inbound-clients", Title: "inbound clients intent", Collection: "clients", Names: []string{"inboundClientsIntent"},
	Parent: InboundServerIntents, New: func() Object { return &InboundClientsIntent{} }, Longest: maxLabelValue, Ahead: true, Ordered: true,
}

// Noun is InboundClientsIntents.
func (*InboundClientsIntent) Noun() *Noun { return InboundClientsIntents }

// notNull is what EMCO says of an array that must be sent, though it may be empty.
const notNull = "Invalid type. Expected: array, given: null"

// Validate checks the body.
func (o *InboundClientsIntent) Validate(p *fail.Problems) {
	o.validateShort(p)
	CheckName(p, "spec.app", o.Spec.App)
	checkAppLabel(p, o.Spec.AppLabel)
	CheckName(p, "spec.serviceName", o.Spec.ServiceName)
	if o.Spec.Namespaces == nil {
		p.Add("spec.namespaces", notNull)
	}
	for i, n := range o.Spec.Namespaces {
		path := fmt.Sprintf("spec.namespaces[%d]", i)
		if n == "" {
			p.Add(path, "is required")
		}
		checkNamespace(p, path, n)
	}
	if o.Spec.CIDRs == nil {
		p.Add("spec.cidrs", notNull)
	}
	for i, c := range o.Spec.CIDRs {
		if _, err := netip.ParsePrefix(c); err != nil {
			p.Add(fmt.Sprintf("spec.cidrs[%d]", i), "Invalid CIDR: %q; use an address and the length of its range, such as 10.20.0.0/16", c)
		}
	}
}

// References are the app.
func (o *InboundClientsIntent) References() []Reference {
	return []Reference{{"spec.app", Apps, compositeAppOf(o.Parent).Child(Apps.Collection, o.Spec.App)}}
}

// InboundClientsAccessIntent says what clients may ask of a server, of HTTP.
type InboundClientsAccessIntent struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     InboundClientsAccessIntentSpec `json:"spec" api:"required"`
}

// InboundClientsAccessIntentSpec are requests, which Istio lets through.
type InboundClientsAccessIntentSpec struct {
	Action string   `json:"action" api:"required,enum=ALLOW"`               // what is done with such requests
	URL    []string `json:"url" api:"required"`                             // paths, such as /status/*; any when empty
	Access []string `json:"access" api:"required,enum=GET;PUT;POST;DELETE"` // methods; any when empty
}

// InboundClientsAccessIntents is the noun.
var InboundClientsAccessIntents = &Noun{
	Kind: "inbound-clients-access", Title: "inbound clients access intent", Collection: "access-points", Names: []string{"inboundClientsAccessIntent"},
	Parent: InboundClientsIntents, New: func() Object { return &InboundClientsAccessIntent{} }, Longest: maxLabelValue, Ordered: true,
}

// Noun is InboundClientsAccessIntents.
func (*InboundClientsAccessIntent) Noun() *Noun { return InboundClientsAccessIntents }

const allow = "ALLOW"

// methods are those of HTTP that access points know.
var methods = []string{"GET", "PUT", "POST", "DELETE"}

// urlPattern is EMCO's.
const urlPattern = `^(/)([A-Za-z0-9][-A-Za-z0-9_./]*)?[A-Za-z0-9*]$`

var accessURL = regexp.MustCompile(urlPattern)

// Validate checks the body.
func (o *InboundClientsAccessIntent) Validate(p *fail.Problems) {
	o.validateShort(p)
	if o.Spec.Action != allow {
		p.Add("spec.action", "must be one of the following: %q", allow)
	}
	if o.Spec.URL == nil {
		p.Add("spec.url", notNull)
	}
	for i, u := range o.Spec.URL {
		path := fmt.Sprintf("spec.url[%d]", i)
		if !accessURL.MatchString(u) {
			p.Add(path, "Does not match pattern '%s': it begins with / and ends with a letter, a digit or *", urlPattern)
		}
		CheckLength(p, path, u, maxURL)
	}
	if o.Spec.Access == nil {
		p.Add("spec.access", notNull)
	}
	for i, m := range o.Spec.Access {
		if !slices.Contains(methods, m) {
			p.Add(fmt.Sprintf("spec.access[%d]", i), "must be one of the following: %q", methods)
		}
	}
}
