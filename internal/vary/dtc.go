package vary

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

// DTC is a traffic group intent: what EMCO's nps and its make of it. Each inbound intent becomes a NetworkPolicy in clusters
// that have policies, and objects of Istio where its service mesh is that (istio.go). What EMCO's dtc only logs is refused.
type DTC struct {
	Name    string
	Inbound []Inbound // in the order of their creation
	// Foreign says that the group is deployed with the rights of its logical cloud's user, who may have none in other namespaces.
	Foreign bool
}

// Inbound is an inbound intent and its clients.
type Inbound struct {
	Name    string
	Spec    domain.InboundServerIntentSpec
	Key     string // what stands in manifests for the private key (plan.SealedValue), "" for none
	Clients []Client
}

// Client is a clients intent and its access points.
type Client struct {
	Name   string
	Spec   domain.InboundClientsIntentSpec
	Access []Access
}

// Access is an access point.
type Access struct {
	Name string
	Spec domain.InboundClientsAccessIntentSpec
}

// policyLabel is the label of clusters whose network plugin enforces NetworkPolicies.
const policyLabel = "networkpolicy-supported"

// namespaceLabel is the label by which Kubernetes names each namespace.
const namespaceLabel = "kubernetes.io/metadata.name"

// anywhere are all addresses of IPv4.
const anywhere = "0.0.0.0/0"

func (d *DTC) by(in *Inbound) string {
	return fmt.Sprintf("%s intent %s, inbound intent %s", domain.ActorDTC, d.Name, in.Name)
}

func (d *DTC) refuse(in *Inbound, format string, args ...any) error {
	return fail.New(fail.Malformed, "%s: app %q: %s", d.by(in), in.Spec.App, fmt.Sprintf(format, args...))
}

// Apps refuses servers that the composite app does not have. It warns of inbound intents that do nothing.
func (d *DTC) Apps(apps []string) (warnings []string, err error) {
	if len(d.Inbound) == 0 {
		return nil, fail.New(fail.Malformed, "%s intent %s has no inbound intents", domain.ActorDTC, d.Name)
	}
	for i := range d.Inbound {
		in := &d.Inbound[i]
		if !slices.Contains(apps, in.Spec.App) {
			return nil, d.refuse(in, "the composite app has no such app (it has: %s)", strings.Join(apps, ", "))
		}
		if len(in.Clients) == 0 {
			warnings = append(warnings, d.by(in)+" has no clients: nothing is done with it")
		}
		for _, c := range in.Clients {
			switch missing := !slices.Contains(apps, c.Spec.App); {
			case missing && in.istio():
				return nil, d.refuse(in, "client %q: the composite app has no app %q (it has: %s)", c.Name, c.Spec.App, strings.Join(apps, ", "))
			case missing:
				warnings = append(warnings, fmt.Sprintf("%s: client %q: the composite app has no app %q", d.by(in), c.Name, c.Spec.App))
			}
			if len(c.Access) > 0 && !in.istio() {
				warnings = append(warnings, fmt.Sprintf("%s: client %q: access points hold with serviceMesh %s only", d.by(in), c.Name, domain.MeshIstio))
			}
		}
	}
	return warnings, nil
}

// Concerns says whether the app is a server or a client. A client's pods are looked at, also where nothing is done with them.
func (d *DTC) Concerns(app string) bool {
	return slices.ContainsFunc(d.Inbound, func(in Inbound) bool {
		return len(in.Clients) > 0 && (in.concerns(app) || slices.ContainsFunc(in.Clients, func(c Client) bool { return c.Spec.App == app }))
	})
}

func (in *Inbound) concerns(app string) bool {
	return in.Spec.App == app || in.istio() && slices.ContainsFunc(in.Clients, func(c Client) bool { return c.Spec.App == app })
}

func (in *Inbound) istio() bool { return in.Spec.ServiceMesh == domain.MeshIstio }

// Sort is whether a cluster has policies. What Istio gets has the cluster's name in it.
func (d *DTC) Sort(app string, c *Cluster) string {
	for i := range d.Inbound {
		if in := &d.Inbound[i]; len(in.Clients) > 0 && in.istio() && in.concerns(app) {
			return c.String() + " " + strconv.FormatBool(c.Labels[policyLabel])
		}
	}
	return strconv.FormatBool(c.Labels[policyLabel])
}

// Check refuses what can be made on no cluster. It warns of clusters without policies, of policies that let in more or less than clients
// say, of labels that no pods carry, and of what needs rights that the user of a logical cloud may not have.
func (d *DTC) Check(app *App) (warnings []string, err error) {
	carry := carrying(app)
	for i := range d.Inbound {
		in := &d.Inbound[i]
		if len(in.Clients) == 0 {
			continue
		}
		if in.Spec.App == app.Name {
			warnings = append(warnings, d.open(in, app.Clusters)...)
			if slices.ContainsFunc(app.Clusters, func(c *Cluster) bool { return c.Labels[policyLabel] }) {
				warnings = append(warnings, d.width(in, app)...)
			}
			if !carry(in.Spec.AppLabel) {
				warnings = append(warnings, fmt.Sprintf("%s: no pods of app %q, as it is rendered, carry the label %s: nothing is restricted", d.by(in), app.Name, in.Spec.AppLabel))
			}
		}
		for _, c := range in.Clients {
			here := len(c.Spec.Namespaces) == 0 || slices.Contains(c.Spec.Namespaces, app.Namespace)
			if c.Spec.App == app.Name && here && !in.anyone() && !carry(c.Spec.AppLabel) { // who lets anyone in is told so
				warnings = append(warnings, fmt.Sprintf("%s: client %q: no pods of app %q, as it is rendered, carry the label %s: it lets none of them in", d.by(in), c.Name, app.Name, c.Spec.AppLabel))
			}
		}
		if in.istio() && in.Spec.App == app.Name {
			if err := d.checkIstio(in, app); err != nil {
				return nil, err
			}
			warnings = append(warnings, d.shut(in, app)...)
			if d.Foreign {
				warnings = append(warnings, fmt.Sprintf("%s: gateways are made in namespace %s, where the user of the logical cloud needs rights", d.by(in), IstioSystem))
			}
		}
	}
	return warnings, nil
}

// carrying says whether pods of an app carry a label, key=value.
func carrying(app *App) func(label string) bool {
	known := map[string]bool{}
	for i := range app.Resources {
		object, err := decode(app.Resources[i].Manifest)
		if err != nil {
			continue
		}
		metadata, _ := template(object)["metadata"].(map[string]any)
		labels, _ := metadata["labels"].(map[string]any)
		for key, value := range labels {
			known[fmt.Sprintf("%s=%v", key, value)] = true
		}
	}
	return func(label string) bool { return known[label] }
}

// open warns of clusters on which nothing restricts the traffic to a server.
func (d *DTC) open(in *Inbound, clusters []*Cluster) []string {
	var without []string
	for _, c := range clusters {
		if !c.Labels[policyLabel] {
			without = append(without, c.String())
		}
	}
	switch n := len(without); {
	case n == 0:
		return nil
	case n == len(clusters):
		return []string{fmt.Sprintf("%s: no cluster of app %q carries the label %s: no NetworkPolicy is made", d.by(in), in.Spec.App, policyLabel)}
	default:
		return []string{fmt.Sprintf("%s: %d of %d clusters of app %q do not carry the label %s, and get no NetworkPolicy: %s",
			d.by(in), n, len(clusters), in.Spec.App, policyLabel, fewOf(without))}
	}
}

// width warns of a policy whose addresses no client names: it lets in all there are, or none. It warns, too, of addresses that do not
// hold for whoever comes through Istio's gateway.
func (d *DTC) width(in *Inbound, app *App) []string {
	switch {
	case in.anyone():
		return []string{fmt.Sprintf("%s: spec.externalSupport is false and no client has cidrs, so that all IPv4 addresses are let in, beside any client: name cidrs to restrict them", d.by(in))}
	case !in.named() && !in.led(app.Placed):
		return []string{fmt.Sprintf("%s: spec.externalSupport is true and no client has cidrs, so that only pods of the same cluster are let in: name cidrs to let others in", d.by(in))}
	case in.named() && in.istio() && in.exposed():
		return []string{fmt.Sprintf("%s: the cidrs of its clients hold for who comes to the pods directly: who comes by %s through Istio's gateway is let in from all addresses", d.by(in), in.Spec.ExternalName)}
	default:
		return nil
	}
}

// named says whether a client names addresses.
func (in *Inbound) named() bool {
	return slices.ContainsFunc(in.Clients, func(c Client) bool { return len(c.Spec.CIDRs) > 0 })
}

// anyone says whether all addresses are let in, so that what clients say restricts nothing.
func (in *Inbound) anyone() bool { return !in.Spec.ExternalSupport && !in.named() }

// fewOf names some, and how many more there are.
func fewOf(names []string) string {
	if more := len(names) - maxNamed; more > 0 {
		names = append(slices.Clone(names[:maxNamed]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// Vary adds the objects.
func (d *DTC) Vary(w *Work) error {
	for i := range d.Inbound {
		in := &d.Inbound[i]
		if len(in.Clients) == 0 {
			continue
		}
		if in.Spec.App == w.App && w.Cluster.Labels[policyLabel] {
			if err := d.add(w, in, d.policy(w, in)); err != nil {
				return err
			}
		}
		if in.istio() && in.concerns(w.App) && w.Cluster.Name != "" { // a cluster of which nothing is known has no gateway
			if err := d.mesh(w, in); err != nil {
				return err
			}
		}
	}
	return nil
}

// object is one of Kubernetes, in the making; list is one of JSON.
type (
	object = map[string]any
	list   = []any
)

// add adds an object. What is there under its name is refused, unless it is the same.
func (d *DTC) add(w *Work, in *Inbound, o object) error {
	id, err := identify(o)
	if err != nil {
		return err
	}
	if !domain.IsSubdomain(id.Name) {
		return d.refuse(in, "%s %q cannot be made, since that is no name in Kubernetes (a-z, 0-9, - and .): use other names of intents or services", id.Kind, id.Name)
	}
	manifest, err := encode(o)
	if err != nil {
		return err
	}
	at := plan.Place(id, w.union.app.Namespace)
	for i, r := range w.Resources {
		if r.Hook != nil || r.Kind != id.Kind || r.Name != id.Name || plan.Place(r.ResourceID, w.union.app.Namespace) != at {
			continue
		}
		if !bytes.Equal(r.Manifest, manifest) {
			return d.refuse(in, "%s is there already, with something else in it: it is the chart's, or of another intent", name(id))
		}
		w.Effect(i, madeEffect, d.by(in))
		return nil
	}
	index, err := w.AddManifest(id, manifest)
	if err == nil {
		w.Effect(index, madeEffect, d.by(in))
	}
	return err
}

// policy is what nps makes. Its peers are the clients by their labels, and addresses: those that clients name, or with
// externalSupport false and none named all there are, since a client in another cluster comes from outside the pods' network. With
// Istio its gateway is one more, where it leads to the server: whoever comes through it comes from its pods.
func (d *DTC) policy(w *Work, in *Inbound) object {
	clients := slices.SortedStableFunc(slices.Values(in.Clients), func(a, b Client) int { return cmp.Compare(a.Name, b.Name) })
	var from list
	known := map[string]bool{}
	peer := func(p object) {
		text, _ := encode(p)
		if !known[string(text)] {
			known[string(text)] = true
			from = append(from, p)
		}
	}
	for _, c := range clients {
		p := object{"podSelector": labelled(c.Spec.AppLabel)}
		if len(c.Spec.Namespaces) > 0 {
			p["namespaceSelector"] = object{"matchExpressions": list{
				object{"key": namespaceLabel, "operator": "In", "values": texts(sortedSet(c.Spec.Namespaces))},
			}}
		}
		peer(p)
		for _, cidr := range c.Spec.CIDRs {
			peer(object{"ipBlock": object{"cidr": rangeOf(cidr)}})
		}
	}
	if in.anyone() {
		peer(object{"ipBlock": object{"cidr": anywhere}})
	}
	if in.led(w.union.app.Placed) {
		peer(object{
			"namespaceSelector": object{"matchLabels": object{namespaceLabel: IstioSystem}}, "podSelector": object{"matchLabels": gatewayLabels()},
		})
	}
	return object{
		"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": object{"name": d.Name + "-" + in.Name},
		"spec": object{
			"podSelector": labelled(in.Spec.AppLabel), "policyTypes": list{"Ingress"},
			"ingress": list{object{"from": from, "ports": list{object{"protocol": in.Spec.Transport(), "port": in.podPort(w)}}}},
		},
	}
}

// podPort is the port of the server's pods, by its number or its name, which a policy has: spec.port is that of the Service where that
// has it, and leads to the one of the pods.
func (in *Inbound) podPort(w *Work) any {
	for _, i := range w.Find("Service", in.Spec.ServiceName) {
		if !in.isService(w.union.resource(i), w.union.app.Namespace) {
			continue
		}
		service, err := w.object(i)
		if err != nil || headless(service) {
			continue
		}
		switch to := in.servicePort(service)["targetPort"].(type) {
		case json.Number:
			if to != "0" {
				return to
			}
		case string:
			if to != "" {
				return to
			}
		}
	}
	return in.Spec.Port
}

// isService says whether a resource is the Service by which clients know the server.
func (in *Inbound) isService(r *plan.Resource, namespace string) bool {
	return r.Hook == nil && version(r.ResourceID) == "v1" && r.Kind == "Service" && r.Name == in.Spec.ServiceName && (r.Namespace == "" || r.Namespace == namespace)
}

// headless says whether a Service has no address of its own: who calls it calls the pods, by their port.
func headless(service object) bool {
	spec, _ := service["spec"].(object)
	return spec["clusterIP"] == "None"
}

// servicePort is the server's port among those of the Service; nil for none.
func (in *Inbound) servicePort(service object) object {
	spec, _ := service["spec"].(object)
	ports, _ := spec["ports"].(list)
	for _, p := range ports {
		p, _ := p.(object)
		number, _ := p["port"].(json.Number)
		protocol, _ := p["protocol"].(string)
		if n, err := number.Int64(); err == nil && n == int64(in.Spec.Port) && cmp.Or(protocol, "TCP") == in.Spec.Transport() {
			return p
		}
	}
	return nil
}

// rangeOf is a range as Kubernetes and Calico want it, with its first address: EMCO's own example has another one, 10.20.20.0/16.
func rangeOf(cidr string) string {
	if prefix, err := netip.ParsePrefix(cidr); err == nil && prefix != prefix.Masked() {
		return prefix.Masked().String()
	}
	return cidr // as it is written: in another spelling it would be a change of what runs
}

// labelled is a selector of what has a label, key=value.
func labelled(label string) object {
	key, value, _ := strings.Cut(label, "=")
	return object{"matchLabels": object{key: value}}
}

func texts(of []string) list {
	l := make(list, len(of))
	for i := range of {
		l[i] = of[i]
	}
	return l
}

func sortedSet(of []string) []string { return slices.Compact(slices.Sorted(slices.Values(of))) }

// policies are the kinds of objects that let in some, and so nobody else.
var policies = []string{"AuthorizationPolicy", "NetworkPolicy"}

// Clash refuses a plan in which intents make policies of one name for two apps on a cluster. Names are joined: those of app web with
// access point admin-read and of app web-admin with access point read are the same. The one applied last would take the other's place,
// and leave the other's pods open to everybody.
func Clash(p *plan.Plan) error {
	type policy struct {
		of    *plan.App
		index int
	}
	all := map[plan.ResourceID][]policy{}
	for i := range p.Apps {
		app := &p.Apps[i]
		for index, r := range app.Resources[:app.Wanted()] {
			if slices.Contains(policies, r.Kind) {
				at := plan.Place(r, p.Namespace)
				all[at] = append(all[at], policy{app, index})
			}
		}
	}
	maps.DeleteFunc(all, func(_ plan.ResourceID, of []policy) bool { return len(of) < 2 })
	byName := func(a, b plan.ResourceID) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	}
	for _, at := range slices.SortedFunc(maps.Keys(all), byName) {
		first := map[domain.ClusterName]maker{}
		for _, o := range all[at] {
			for i := range o.of.Targets {
				t := &o.of.Targets[i]
				by := makerOf(o.of, t, o.index)
				if was, found := first[t.ClusterName]; found && by != "" && was.app != o.of.Name {
					return fail.New(fail.Malformed, "apps %q and %q would both have %s %q on cluster %s, by %s and by %s: one would take the place of the other, and leave its pods open; use other names of intents or access points",
						was.app, o.of.Name, at.Kind, at.Name, t.ClusterName, was.by, by)
				}
				if by != "" {
					first[t.ClusterName] = maker{o.of.Name, by}
				}
			}
		}
	}
	return nil
}

// maker is an app, and the intent that makes an object for it.
type maker struct{ app, by string }

// makerOf is the intent that makes a resource of an app on a target, "" for none.
func makerOf(app *plan.App, t *plan.Target, index int) string {
	for _, e := range app.EffectsOn(t) {
		if e.Resource == index && e.What == madeEffect {
			return e.By
		}
	}
	return ""
}

var _ Intent = (*DTC)(nil)
