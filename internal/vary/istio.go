package vary

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-io/drover/internal/domain"
)

// What EMCO's its makes for Istio. A server has a name of its own in each of its clusters, <service>.<namespace>.<provider>.<cluster>,
// by which clients in other clusters reach it through that cluster's gateway, which passes TLS of the mesh through.

// IstioSystem is the namespace of Istio's gateway, where what it needs is made. Names there are EMCO's, which have the Service's and not its namespace's.
const IstioSystem = "istio-system"

const (
	istioNetworking = "networking.istio.io/v1beta1"
	istioSecurity   = "security.istio.io/v1beta1"
)

// The keys of a cluster's key-value pairs that say where its Istio gateway is.
const (
	gatewayAddress  = "istioIngressGatewayAddress"      // from outside: an address or a name
	gatewayPort     = "istioIngressGatewayPort"         // from outside
	gatewayInternal = "istioIngressGatewayInternalPort" // the gateway's own, which takes TLS of the mesh
	gatewayHTTPS    = "istioIngressGatewayHttpsPort"    // the gateway's own, for clients outside the mesh
	gatewayHTTP     = "istioIngressGatewayHttpPort"
)

// gatewayLabels are those of the pods of Istio's gateway.
func gatewayLabels() object { return object{"istio": "ingressgateway"} }

// exposed says whether a server is led to from outside the mesh.
func (in *Inbound) exposed() bool {
	return in.Spec.ExternalSupport && in.Spec.Management.SidecarProxy == domain.SidecarProxy
}

// tls says whether that is by TLS, and whether clients show a certificate.
func (in *Inbound) tls() (on, mutual bool) {
	t := in.Spec.Management.TLSType
	return t == domain.TLSSimple || t == domain.TLSMutual, t == domain.TLSMutual
}

// limited says whether a client has access points: Istio lets in by those alone, whichever client they are of.
func (in *Inbound) limited() bool {
	return slices.ContainsFunc(in.Clients, func(c Client) bool { return len(c.Access) > 0 })
}

// opaque are the protocols of which Istio sees no requests, by their names in ports.
var opaque = []string{"tcp", "tls", "https", "udp", "mongo", "mysql", "redis"}

// shut warns of clients that access points keep out though nobody has said so. These are all clients of a port that is not HTTP to Istio, and
// the clients of the same pods that have no access points.
func (d *DTC) shut(in *Inbound, app *App) (warnings []string) {
	if !in.limited() {
		return nil
	}
	protocol, of := in.Spec.Protocol, "spec.protocol is"
	if told, ok := in.portProtocol(app); ok {
		protocol, of = told, fmt.Sprintf("the port of Service %q is, by its name or appProtocol,", in.Spec.ServiceName)
	}
	if slices.Contains(opaque, strings.ToLower(protocol)) {
		warnings = append(warnings, fmt.Sprintf("%s: access points are of HTTP, and %s %s: as long as the port is that to Istio, nobody is let in", d.by(in), of, protocol))
	}
	for _, c := range in.Clients {
		if len(c.Access) == 0 {
			warnings = append(warnings, fmt.Sprintf("%s: client %q has no access points, and others have: it is let in by theirs alone", d.by(in), c.Name))
		}
	}
	for i := range d.Inbound {
		other := &d.Inbound[i]
		open := !other.istio() || !other.limited()
		if open && other.Spec.App == in.Spec.App && other.Spec.AppLabel == in.Spec.AppLabel && len(other.Clients) > 0 {
			warnings = append(warnings, fmt.Sprintf("%s: no access points hold for it, and those of inbound intent %s hold for all ports of the same pods: its clients are let in by these alone", d.by(other), in.Name))
		}
	}
	return warnings
}

// portProtocol is what the intent's port in its Service is to Istio: its appProtocol, or what its name begins with. It is false when the app has no
// such port. "" leaves it to Istio to find out.
func (in *Inbound) portProtocol(app *App) (protocol string, ok bool) {
	for i := range app.Resources {
		r := &app.Resources[i]
		if !in.isService(r, app.Namespace) {
			continue
		}
		service, err := decode(r.Manifest)
		if err != nil {
			continue
		}
		port := in.servicePort(service)
		if port == nil {
			continue
		}
		name, _ := port["name"].(string)
		protocol, _, _ = strings.Cut(name, "-")
		if is, _ := port["appProtocol"].(string); is != "" {
			protocol = is
		}
		ok = true
	}
	return protocol, ok
}

// checkIstio refuses access points of what Istio does not see, a way from outside to which something is missing, and names that Istio
// refuses, which would be found in the middle of an operation.
func (d *DTC) checkIstio(in *Inbound, app *App) error {
	if t := in.Spec.Transport(); in.limited() && t != "TCP" {
		return d.refuse(in, "spec.protocol is %s, and access points are of HTTP", in.Spec.Protocol)
	}
	if in.elsewhere(app.Placed) {
		if err := d.checkHosts(in, app); err != nil {
			return err
		}
	}
	if !in.exposed() {
		return nil
	}
	if in.Spec.ExternalName == "" {
		return d.refuse(in, "spec.externalSupport needs spec.externalName")
	}
	if wrong := misnamed(strings.TrimPrefix(in.Spec.ExternalName, "*.")); in.Spec.ExternalName != "*" && wrong != "" {
		return d.refuse(in, "spec.externalName is %q, and no name of DNS to Istio: %s", in.Spec.ExternalName, wrong)
	}
	on, mutual := in.tls()
	c := in.Spec.External.Certificates
	switch {
	case on && (c.ServiceCertificate == "" || in.Key == ""):
		return d.refuse(in, "TLS type %s needs serviceCertificate and servicePrivateKey in spec.external.externalCerts", in.Spec.Management.TLSType)
	case mutual && c.CACertificate == "":
		return d.refuse(in, "TLS type %s needs caCertificate in spec.external.externalCerts", in.Spec.Management.TLSType)
	}
	return nil
}

// checkHosts refuses names that the server cannot have in its clusters, or would have in two of them. Providers and clusters may be
// called what no host is.
func (d *DTC) checkHosts(in *Inbound, app *App) error {
	known := map[string]*Cluster{}
	for _, c := range app.Clusters {
		host := in.host(app.Namespace, c)
		if wrong := misnamed(host); wrong != "" {
			return d.refuse(in, "on cluster %s it would be %s to clients in other clusters, which is no name of DNS to Istio: %s; use other names of the provider, the cluster or the service", c, host, wrong)
		}
		if other := known[host]; other != nil {
			return d.refuse(in, "on clusters %s and %s it would be the same to clients in other clusters, %s: use other names of providers or clusters", other, c, host)
		}
		known[host] = c
	}
	return nil
}

// hostLabel is what Istio takes between the dots of a host.
var hostLabel = regexp.MustCompile(`^[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$`)

// misnamed says why Istio takes no such host, "" when it does.
func misnamed(host string) string {
	const longest = 255
	if len(host) > longest {
		return fmt.Sprintf("it has %d bytes, and may have %d", len(host), longest)
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if !hostLabel.MatchString(label) {
			return fmt.Sprintf("%q is not 1 to 63 letters, digits and -, with no - first or last", label)
		}
	}
	if last := labels[len(labels)-1]; strings.Trim(last, "0123456789") == "" {
		return fmt.Sprintf("it ends in a number, %s", last)
	}
	return ""
}

// pair reads a port or an address of a cluster's gateway.
func (d *DTC) pair(in *Inbound, c *Cluster, key string) (string, error) {
	value, ok := c.pair(key)
	if !ok || value == "" {
		return "", d.refuse(in, "cluster %s has no key-value pair %s, which says where its Istio gateway is", c, key)
	}
	return value, nil
}

func (d *DTC) portOf(in *Inbound, c *Cluster, key string) (int, error) {
	value, err := d.pair(in, c, key)
	if err != nil {
		return 0, err
	}
	port, err := strconv.Atoi(value)
	if err != nil || port < 1 || port > 65535 {
		return 0, d.refuse(in, "key-value pair %s of cluster %s is %q, and no port", key, c, value)
	}
	return port, nil
}

// mesh adds what the app gets for Istio on the cluster, as a server and as a client.
func (d *DTC) mesh(w *Work, in *Inbound) error {
	servers := w.union.app.Placed[in.Spec.App]
	serves := slices.ContainsFunc(servers, func(c *Cluster) bool { return c.ClusterName == w.Cluster.ClusterName })
	var objects []object
	var err error
	if in.Spec.App == w.App {
		objects, err = d.server(w, in)
	}
	// Of several clients on a cluster the first one brings what all of them need.
	if err == nil && !serves && w.App == in.firstOn(w) {
		var more []object
		more, err = d.client(w, in, servers)
		objects = append(objects, more...)
	}
	for _, o := range objects {
		if err == nil {
			err = d.add(w, in, o)
		}
	}
	return err
}

// firstOn is the first of the intent's clients, by name, that is on the cluster.
func (in *Inbound) firstOn(w *Work) string {
	var apps []string
	for _, c := range in.Clients {
		if slices.ContainsFunc(w.union.app.Placed[c.Spec.App], func(on *Cluster) bool { return on.ClusterName == w.Cluster.ClusterName }) {
			apps = append(apps, c.Spec.App)
		}
	}
	if len(apps) == 0 {
		return ""
	}
	return slices.Min(apps)
}

// elsewhere says whether a client is on a cluster where the server is not.
func (in *Inbound) elsewhere(placed map[string][]*Cluster) bool {
	servers := placed[in.Spec.App]
	for _, client := range in.Clients {
		for _, c := range placed[client.Spec.App] {
			if !slices.ContainsFunc(servers, func(s *Cluster) bool { return s.ClusterName == c.ClusterName }) {
				return true
			}
		}
	}
	return false
}

// led says whether Istio's gateway leads to the server, from outside the mesh or from another cluster.
func (in *Inbound) led(placed map[string][]*Cluster) bool {
	return in.istio() && (in.exposed() || in.elsewhere(placed))
}

// host is the name of the server in one of its clusters.
func (in *Inbound) host(namespace string, c *Cluster) string {
	return fmt.Sprintf("%s.%s.%s.%s", in.Spec.ServiceName, namespace, c.Provider, c.Name)
}

// server is what the server's cluster gets.
func (d *DTC) server(w *Work, in *Inbound) (objects []object, err error) {
	service, namespace := in.Spec.ServiceName, w.union.app.Namespace
	inside := service + "." + namespace + ".svc.cluster.local"
	own := in.host(namespace, w.Cluster)
	hosts := []string{service, inside}
	if in.elsewhere(w.union.app.Placed) {
		internal, err := d.portOf(in, w.Cluster, gatewayInternal)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, own)
		objects = append(objects,
			istio("Gateway", IstioSystem, service+"-gateway", object{
				"selector": gatewayLabels(),
				"servers": list{object{
					"port": object{"number": internal, "name": "tls", "protocol": "TLS"}, "tls": object{"mode": "AUTO_PASSTHROUGH"}, "hosts": list{own},
				}},
			}),
			istio("ServiceEntry", IstioSystem, service+"-se-server", object{
				"hosts": list{own}, "location": "MESH_INTERNAL", "resolution": "DNS", "ports": list{in.port()},
				"endpoints": list{object{"address": inside, "ports": object{in.portName(): in.Spec.Port}}},
			}),
			destination(IstioSystem, service+"-se-server-dr", own, ""),
		)
	}
	if in.exposed() {
		hosts = append(hosts, in.Spec.ExternalName)
		exposed, err := d.expose(w, in, inside)
		if err != nil {
			return nil, err
		}
		objects = append(objects, exposed...)
	}
	return append(objects, in.authorization(hosts)...), nil
}

// expose is the way from outside the mesh.
func (d *DTC) expose(w *Work, in *Inbound, inside string) (objects []object, err error) {
	on, mutual := in.tls()
	way, key, protocol := "http", gatewayHTTP, "HTTP"
	if on {
		way, key, protocol = "simple", gatewayHTTPS, "HTTPS"
	}
	if mutual {
		way = "mutual"
	}
	port, err := d.portOf(in, w.Cluster, key)
	if err != nil {
		return nil, err
	}
	service := in.Spec.ServiceName
	gateway, credential := fmt.Sprintf("%s-ext-%s-gateway", service, way), service+"-credential"
	entry := object{"port": object{"number": port, "name": strings.ToLower(protocol), "protocol": protocol}, "hosts": list{in.Spec.ExternalName}}
	if on {
		entry["tls"] = object{"mode": in.Spec.Management.TLSType, "credentialName": credential}
		c := in.Spec.External.Certificates
		data := object{"tls.crt": c.ServiceCertificate, "tls.key": in.Key}
		if c.CACertificate != "" {
			data["ca.crt"] = c.CACertificate
		}
		objects = append(objects, object{
			"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": credential, "namespace": IstioSystem}, "type": "Opaque", "data": data,
		})
	}
	return append(objects,
		istio("Gateway", IstioSystem, gateway, object{"selector": gatewayLabels(), "servers": list{entry}}),
		istio("VirtualService", "", service+"-vs-"+gateway, object{
			"hosts": list{in.Spec.ExternalName}, "gateways": list{IstioSystem + "/" + gateway},
			"http": list{object{"route": list{object{"destination": object{"host": inside, "port": object{"number": in.Spec.Port}}}}}},
		}),
	), nil
}

// authorization are the access points. Those of a name are one, whichever client they are of: Istio does not tell them apart.
func (in *Inbound) authorization(hosts []string) (objects []object) {
	rules := map[string]list{}
	clients := slices.SortedStableFunc(slices.Values(in.Clients), func(a, b Client) int { return cmp.Compare(a.Name, b.Name) })
	for _, c := range clients {
		for _, a := range c.Access {
			operation := object{}
			if len(a.Spec.Access) > 0 {
				operation["methods"] = texts(sortedSet(a.Spec.Access))
			}
			if len(a.Spec.URL) > 0 {
				operation["paths"] = texts(sortedSet(a.Spec.URL))
			}
			var named list
			for _, h := range hosts {
				named = append(named, h, h+":*") // a request may name the port
			}
			operation["hosts"] = named
			rules[a.Name] = append(rules[a.Name], object{"to": list{object{"operation": operation}}})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		objects = append(objects, object{
			"apiVersion": istioSecurity, "kind": "AuthorizationPolicy", "metadata": object{"name": in.Spec.App + "-" + name},
			"spec": object{"selector": labelled(in.Spec.AppLabel), "action": "ALLOW", "rules": rules[name]},
		})
	}
	return objects
}

// client is what a cluster gets from which the server is in others: each of them by its name, and the first one by the name of
// the service.
func (d *DTC) client(w *Work, in *Inbound, servers []*Cluster) (objects []object, err error) {
	service, namespace := in.Spec.ServiceName, w.union.app.Namespace
	entry := func(i int, host, whole string, behind *Cluster) error {
		at, err := d.pair(in, behind, gatewayAddress)
		if err != nil {
			return err
		}
		port, err := d.portOf(in, behind, gatewayPort)
		if err != nil {
			return err
		}
		resolution := "DNS"
		if _, err := netip.ParseAddr(at); err == nil {
			resolution = "STATIC"
		}
		objects = append(objects, istio("ServiceEntry", "", fmt.Sprintf("%s-se-client%d", service, i), object{
			"hosts": list{host}, "addresses": list{w.address(whole).String()}, "location": "MESH_INTERNAL", "resolution": resolution, "ports": list{in.port()},
			"endpoints": list{object{"address": at, "ports": object{in.portName(): port}}},
		}))
		return nil
	}
	for i, c := range servers {
		host := in.host(namespace, c)
		if err := entry(i, host, host, c); err != nil {
			return nil, err
		}
		objects = append(objects, destination("", fmt.Sprintf("%s-dr-client%d", service, i), host, ""))
	}
	if len(servers) == 0 {
		return nil, nil
	}
	if err := entry(len(servers), service, service+"."+namespace, servers[0]); err != nil {
		return nil, err
	}
	// The gateway knows the server by its name there.
	sni := fmt.Sprintf("outbound_.%d_._.%s", in.Spec.Port, in.host(namespace, servers[0]))
	return append(objects, destination("", service+"-dr-client-svcname", service, sni)), nil
}

// address is the virtual address of a host, of 240.0.0.0/4 as in EMCO. It is made of the host's name, so that two hosts of a cluster
// hardly ever have the same, whichever intents or groups they are of, and a host keeps its own whatever else there is. Of those that one app gets
// on a cluster no two have the same.
func (w *Work) address(host string) netip.Addr {
	for n := 0; ; n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", host, n))
		at := [4]byte{240 + sum[0]%15, sum[1], sum[2], 1 + sum[3]%254} // 255.0.0.0/8 has the address of all; others end like that of a network
		if at[0] == 240 && at[1] == 240 {
			continue // Istio hands these out itself
		}
		a := netip.AddrFrom4(at)
		if of, taken := w.addresses[a]; taken && of != host {
			continue
		}
		if w.addresses == nil {
			w.addresses = map[netip.Addr]string{}
		}
		w.addresses[a] = host
		return a
	}
}

// port is the server's as Istio has ports. Its name begins with the protocol, as Istio wants it.
func (in *Inbound) port() object {
	return object{"number": in.Spec.Port, "name": in.portName(), "protocol": strings.ToUpper(in.Spec.Protocol)}
}

func (in *Inbound) portName() string { return strings.ToLower(in.Spec.Protocol) }

// istio is an object of its networking API; the namespace is that of the logical cloud when "".
func istio(kind, namespace, name string, spec object) object {
	metadata := object{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	return object{"apiVersion": istioNetworking, "kind": kind, "metadata": metadata, "spec": spec}
}

// destination has calls of a host made with the certificates of the mesh; sni is the name that is called, the host when "".
func destination(namespace, name, host, sni string) object {
	tls := object{"mode": "ISTIO_MUTUAL"}
	if sni != "" {
		tls["sni"] = sni
	}
	return istio("DestinationRule", namespace, name, object{"host": host, "trafficPolicy": object{"tls": tls}})
}
