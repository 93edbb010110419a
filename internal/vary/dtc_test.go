package vary_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/vary"
)

// client is one of the app client-<name>.
func client(name string, change ...func(*domain.InboundClientsIntentSpec)) vary.Client {
	c := vary.Client{Name: name, Spec: domain.InboundClientsIntentSpec{App: "client-" + name, AppLabel: "app=" + name, ServiceName: name}}
	for _, f := range change {
		f(&c.Spec)
	}
	return c
}

// traffic is a group with one inbound intent, of the app web.
func traffic(change func(*domain.InboundServerIntentSpec), clients ...vary.Client) *vary.DTC {
	in := vary.Inbound{Name: "in", Clients: clients, Spec: domain.InboundServerIntentSpec{
		App: "web", AppLabel: "app=web", ServiceName: "web-svc", Port: 3333, Protocol: "TCP",
	}}
	if change != nil {
		change(&in.Spec)
	}
	return &vary.DTC{Name: "group", Inbound: []vary.Inbound{in}}
}

// with is a cluster that has policies, and pairs.
func with(name string, pairs ...map[string]string) *vary.Cluster {
	c := cluster(name, pairs...)
	c.Labels = map[string]bool{"networkpolicy-supported": true}
	return c
}

// placed is an app on its clusters, and where others are.
func placed(name string, where map[string][]*vary.Cluster) *vary.App {
	return &vary.App{Name: name, Namespace: "ns", Clusters: where[name], Placed: where}
}

// gets are the manifests of a cluster, by kind and name.
func gets(v *vary.Varied, i int) map[string]string {
	bundle, lacks := v.Bundle, v.Lacks
	if n := v.Of[i]; n > 0 {
		bundle, lacks = v.Variants[n-1].Overlay.On(bundle), v.Variants[n-1].Lacks
	}
	marks, found := domain.DecodeMarks(lacks), map[string]string{}
	for i, r := range bundle.Resources {
		if i >= len(marks) || marks[i] != domain.MarkGone {
			found[r.Kind+"/"+r.Name] = string(r.Manifest)
		}
	}
	return found
}

// anyone is what is said of a policy that lets in all addresses.
const anyone = "spec.externalSupport is false and no client has cidrs, so that all IPv4 addresses are let in, beside any client: name cidrs to restrict them"

func TestNetworkPolicies(t *testing.T) {
	peer := func(label string) string {
		return `{"podSelector":{"matchLabels":{"app":"` + label + `"}}}`
	}
	block := func(cidr string) string { return `{"ipBlock":{"cidr":"` + cidr + `"}}` }
	cidrs := func(of ...string) func(*domain.InboundClientsIntentSpec) {
		return func(s *domain.InboundClientsIntentSpec) { s.CIDRs = of }
	}
	for name, c := range map[string]struct {
		change   func(*domain.InboundServerIntentSpec)
		clients  []vary.Client
		from     []string
		protocol string // TCP when ""
		warns    string // of who is let in; of all addresses where from has them
	}{
		"clients, and whoever comes from another cluster": {clients: []vary.Client{client("b"), client("a")}, from: []string{peer("a"), peer("b"), block("0.0.0.0/0")}},
		"ranges of which other addresses are named, once": {
			change:  func(s *domain.InboundServerIntentSpec) { s.ExternalSupport = true },
			clients: []vary.Client{client("a", cidrs("10.20.20.0/16", "10.20.0.0/16")), client("b", cidrs("10.20.30.1/16"))}, from: []string{peer("a"), block("10.20.0.0/16"), peer("b")},
		},
		"addresses in place of all there are": {clients: []vary.Client{client("a", cidrs("10.0.0.0/8")), client("b")}, from: []string{peer("a"), block("10.0.0.0/8"), peer("b")}},
		"from outside, by addresses": {
			change: func(s *domain.InboundServerIntentSpec) { s.ExternalSupport = true }, clients: []vary.Client{client("a", cidrs("10.0.0.0/8", "FD00::/8"))},
			from: []string{peer("a"), block("10.0.0.0/8"), block("FD00::/8")},
		},
		"from outside, and no address": {
			change: func(s *domain.InboundServerIntentSpec) { s.ExternalSupport = true }, clients: []vary.Client{client("a")}, from: []string{peer("a")},
			warns: "spec.externalSupport is true and no client has cidrs, so that only pods of the same cluster are let in: name cidrs to let others in",
		},
		"in namespaces": {
			clients: []vary.Client{client("a", func(s *domain.InboundClientsIntentSpec) { s.Namespaces = []string{"np2", "np1", "np2"} })},
			from: []string{
				`{"podSelector":{"matchLabels":{"app":"a"}},"namespaceSelector":{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["np1","np2"]}]}}`,
				block("0.0.0.0/0"),
			},
		},
		"by a protocol above TCP": {change: func(s *domain.InboundServerIntentSpec) { s.Protocol = "http" }, clients: []vary.Client{client("a")}, from: []string{peer("a"), block("0.0.0.0/0")}},
		"by UDP":                  {change: func(s *domain.InboundServerIntentSpec) { s.Protocol = "udp" }, clients: []vary.Client{client("a")}, from: []string{peer("a"), block("0.0.0.0/0")}, protocol: "UDP"},
	} {
		t.Run(name, func(t *testing.T) {
			where := map[string][]*vary.Cluster{"web": {with("c1"), cluster("c2"), with("c3")}}
			v, err := vary.Apply([]vary.Intent{traffic(c.change, c.clients...)}, placed("web", where))
			require.NoError(t, err)
			if c.protocol == "" {
				c.protocol = "TCP"
			}
			want := `{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"group-in"},"spec":{"podSelector":{"matchLabels":{"app":"web"}},
				"policyTypes":["Ingress"],"ingress":[{"from":[` + strings.Join(c.from, ",") + `],"ports":[{"protocol":"` + c.protocol + `","port":3333}]}]}}`
			for _, i := range []int{0, 2} {
				got := gets(v, i)
				require.Len(t, got, 1)
				require.JSONEq(t, want, got["NetworkPolicy/group-in"])
			}
			require.Empty(t, gets(v, 1))
			warnings := []string{`dtc intent group, inbound intent in: 1 of 3 clusters of app "web" do not carry the label networkpolicy-supported, and get no NetworkPolicy: p+c2`}
			if slices.Contains(c.from, block("0.0.0.0/0")) {
				c.warns = anyone
			}
			if c.warns != "" {
				warnings = append(warnings, "dtc intent group, inbound intent in: "+c.warns)
			}
			require.Equal(t, append(warnings, `dtc intent group, inbound intent in: no pods of app "web", as it is rendered, carry the label app=web: nothing is restricted`), v.Warnings)
			require.Equal(t, []plan.Effect{{Resource: 0, What: "made", By: "dtc intent group, inbound intent in"}}, v.Effects)
		})
	}
}

// A policy is about the pods' port, which is another one than that of their Service where the Service says so.
func TestNetworkPolicyHasThePortOfThePods(t *testing.T) {
	for name, c := range map[string]struct{ service, want string }{
		"of no Service":         {"", `3333`},
		"of another Service":    {`{"apiVersion":"v1","kind":"Service","metadata":{"name":"other"},"spec":{"ports":[{"port":3333,"targetPort":80}]}}`, `3333`},
		"of another's Service":  {`{"apiVersion":"serving.knative.dev/v1","kind":"Service","metadata":{"name":"web-svc"},"spec":{"ports":[{"port":3333,"targetPort":80}]}}`, `3333`},
		"by number":             {`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-svc"},"spec":{"ports":[{"port":80,"targetPort":8080},{"port":3333,"targetPort":80}]}}`, `80`},
		"by name":               {`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-svc"},"spec":{"ports":[{"port":3333,"targetPort":"web","protocol":"TCP"}]}}`, `"web"`},
		"the same":              {`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-svc"},"spec":{"ports":[{"port":3333}]}}`, `3333`},
		"of another protocol":   {`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-svc"},"spec":{"ports":[{"port":3333,"targetPort":80,"protocol":"UDP"}]}}`, `3333`},
		"without an address":    {`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-svc"},"spec":{"clusterIP":"None","ports":[{"port":3333,"targetPort":80}]}}`, `3333`},
		"that is the pods' own": {`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-svc"},"spec":{"ports":[{"port":8000,"targetPort":3333}]}}`, `3333`},
	} {
		t.Run(name, func(t *testing.T) {
			app := placed("web", map[string][]*vary.Cluster{"web": {with("c1")}})
			if c.service != "" {
				app.Resources = []plan.Resource{resource(t, c.service)}
			}
			v, err := vary.Apply([]vary.Intent{traffic(nil, client("a"))}, app)
			require.NoError(t, err)
			require.Contains(t, gets(v, 0)["NetworkPolicy/group-in"], `"ports":[{"port":`+c.want+`,"protocol":"TCP"}]`)
		})
	}
}

// A label that no pods carry names nobody, be they the server's or a client's.
func TestTrafficOfPodsThatNobodyLabels(t *testing.T) {
	const (
		deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"r1","labels":{"app":"web"}},"spec":{"template":{"metadata":{"labels":{"app":%q}},"spec":{}}}}`
		cron       = `{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"r1"},"spec":{"jobTemplate":{"spec":{"template":{"metadata":{"labels":{"app":%q}}}}}}}`
		pod        = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"r1","labels":{"app":%q}}}`
	)
	cidrs := func(s *domain.InboundClientsIntentSpec) { s.CIDRs = []string{"10.0.0.0/8"} }
	elsewhere := func(s *domain.InboundClientsIntentSpec) { s.Namespaces = []string{"elsewhere"} }
	here := func(s *domain.InboundClientsIntentSpec) { s.Namespaces = []string{"elsewhere", "ns"} }
	server := `dtc intent group, inbound intent in: no pods of app "web", as it is rendered, carry the label app=web: nothing is restricted`
	of := `dtc intent group, inbound intent in: client "a": no pods of app "client-a", as it is rendered, carry the label app=a: it lets none of them in`
	for name, c := range map[string]struct {
		app, has, label string
		client          vary.Client
		want            []string
	}{
		"a server":                        {app: "web", has: deployment, label: "web", client: client("a", cidrs)},
		"a server of a CronJob":           {app: "web", has: cron, label: "web", client: client("a", cidrs)},
		"a server that is a Pod":          {app: "web", has: pod, label: "web", client: client("a", cidrs)},
		"another label":                   {app: "web", has: deployment, label: "webb", client: client("a", cidrs), want: []string{server}},
		"a client":                        {app: "client-a", has: deployment, label: "a", client: client("a", cidrs)},
		"a client of another label":       {app: "client-a", has: deployment, label: "b", client: client("a", cidrs), want: []string{of}},
		"a client in other namespaces":    {app: "client-a", has: deployment, label: "b", client: client("a", cidrs, elsewhere)},
		"a client where anyone is let in": {app: "client-a", has: deployment, label: "b", client: client("a")},
		"a client here as well":           {app: "client-a", has: deployment, label: "b", client: client("a", cidrs, here), want: []string{of}},
	} {
		t.Run(name, func(t *testing.T) {
			app := placed(c.app, map[string][]*vary.Cluster{"web": {with("c1")}, "client-a": {with("c1"), cluster("c2")}})
			app.Resources = []plan.Resource{resource(t, fmt.Sprintf(c.has, c.label))}
			v, err := vary.Apply([]vary.Intent{traffic(nil, c.client)}, app)
			require.NoError(t, err)
			require.Equal(t, c.want, v.Warnings)
			if c.app != "web" {
				require.Equal(t, app.Resources, v.Bundle.Resources, "a client gets nothing")
				require.Empty(t, v.Variants)
			}
		})
	}
}

func TestTrafficThatCannotBeControlled(t *testing.T) {
	istio := func(change func(*domain.InboundServerIntentSpec)) func(*domain.InboundServerIntentSpec) {
		return func(s *domain.InboundServerIntentSpec) {
			s.ServiceMesh = "istio"
			if change != nil {
				change(s)
			}
		}
	}
	exposed := func(tls, name string) func(*domain.InboundServerIntentSpec) {
		return istio(func(s *domain.InboundServerIntentSpec) {
			s.ExternalSupport, s.Management, s.ExternalName = true, domain.InboundManagement{SidecarProxy: "yes", TLSType: tls}, name
		})
	}
	of := func(provider, name string) *vary.Cluster {
		c := with(name)
		c.Provider = provider
		return c
	}
	for name, c := range map[string]struct {
		intent *vary.DTC
		on     []*vary.Cluster // the server; c1 for none
		has    string          // what the chart has already
		says   string
	}{
		"a name that Kubernetes does not take": {
			intent: func() *vary.DTC { d := traffic(nil, client("a")); d.Name = "Group_1"; return d }(),
			says:   `dtc intent Group_1, inbound intent in: app "web": NetworkPolicy "Group_1-in" cannot be made, since that is no name in Kubernetes`,
		},
		"a policy of the chart": {
			intent: traffic(nil, client("a")), has: `{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"group-in","namespace":"ns"}}`,
			says: `networking.k8s.io/v1 NetworkPolicy "group-in" is there already, with something else in it (cluster p+c1)`,
		},
		"a gateway that nobody knows": {intent: traffic(istio(nil), client("a")), says: `cluster p+c1 has no key-value pair istioIngressGatewayInternalPort`},
		"a way from outside without a name": {
			intent: traffic(exposed("", ""), client("a")), says: "spec.externalSupport needs spec.externalName",
		},
		"a way from outside by a name that is none": {intent: traffic(exposed("", "web_1.example"), client("a")), says: `spec.externalName is "web_1.example", and no name of DNS to Istio: "web_1" is not`},
		"a way from outside by an address":          {intent: traffic(exposed("", "10.0.0.1"), client("a")), says: "it ends in a number, 1"},
		"a cluster that is called what no host is": {
			intent: traffic(istio(nil), client("a")), on: []*vary.Cluster{with("c3"), with("c_1")},
			says: `on cluster p+c_1 it would be web-svc.ns.p.c_1 to clients in other clusters, which is no name of DNS to Istio: "c_1" is not`,
		},
		"a cluster that is called a number": {intent: traffic(istio(nil), client("a")), on: []*vary.Cluster{with("edge.7")}, says: "web-svc.ns.p.edge.7 to clients in other clusters, which is no name of DNS to Istio: it ends in a number, 7"},
		"a provider with a long name":       {intent: traffic(istio(nil), client("a")), on: []*vary.Cluster{of(strings.Repeat("p", 64), "c1")}, says: "is not 1 to 63 letters"},
		"a long host": {
			intent: traffic(istio(nil), client("a")), on: []*vary.Cluster{of(strings.Repeat("p.", 60)+"p", strings.Repeat("c.", 60)+"ccc")}, says: "it has 256 bytes, and may have 255",
		},
		"two clusters of one host": {
			intent: traffic(istio(nil), client("a")), on: []*vary.Cluster{of("a", "b.c"), of("a.b", "c")}, says: "on clusters a+b.c and a.b+c it would be the same to clients in other clusters, web-svc.ns.a.b.c",
		},
		"access points of datagrams": {
			intent: traffic(istio(func(s *domain.InboundServerIntentSpec) { s.Protocol = "udp" }), vary.Client{Name: "a", Access: []vary.Access{{Name: "get"}}}),
			says:   "spec.protocol is udp, and access points are of HTTP",
		},
		"TLS without certificates": {intent: traffic(exposed("SIMPLE", "web.example"), client("a")), says: "TLS type SIMPLE needs serviceCertificate and servicePrivateKey"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.on == nil {
				c.on = []*vary.Cluster{with("c1")}
			}
			app := placed("web", map[string][]*vary.Cluster{"web": c.on, "client-a": {with("c2")}})
			if c.has != "" {
				app.Resources = []plan.Resource{resource(t, c.has)}
				app.Resources[0].Namespace = "ns"
				c.says = strings.Replace(c.says, ` is there already, with something else in it (cluster p+c1)`, " is there already", 1)
			}
			_, err := vary.Apply([]vary.Intent{c.intent}, app)
			require.True(t, fail.Is(err, fail.Malformed), "%v", err)
			require.Contains(t, fail.TextOf(err), c.says)
		})
	}
}

// What has nothing in it is said before anything is rendered.
func TestTrafficOfApps(t *testing.T) {
	_, err := (&vary.DTC{Name: "none"}).Apps([]string{"web"})
	require.True(t, fail.Is(err, fail.Malformed), "%v", err)
	_, err = traffic(nil, client("a")).Apps([]string{"sink"})
	require.ErrorContains(t, err, `app "web": the composite app has no such app (it has: sink)`)
	_, err = traffic(func(s *domain.InboundServerIntentSpec) { s.ServiceMesh = "istio" }, client("a")).Apps([]string{"web"})
	require.ErrorContains(t, err, `client "a": the composite app has no app "client-a" (it has: web)`)
	point := client("a")
	point.Access = []vary.Access{{Name: "get"}}
	warnings, err := traffic(nil, point).Apps([]string{"web"})
	require.NoError(t, err)
	require.Equal(t, []string{
		`dtc intent group, inbound intent in: client "a": the composite app has no app "client-a"`,
		`dtc intent group, inbound intent in: client "a": access points hold with serviceMesh istio only`,
	}, warnings)
	warnings, err = traffic(nil).Apps([]string{"web"})
	require.NoError(t, err)
	require.Equal(t, []string{`dtc intent group, inbound intent in has no clients: nothing is done with it`}, warnings)
}

// Policies of two apps that come to one name on a cluster are refused, and those that charts have are not looked at.
func TestPoliciesOfOneName(t *testing.T) {
	server := func(name, app, label, point string) vary.Inbound {
		c := client("a")
		c.Access = []vary.Access{{Name: point}}
		return vary.Inbound{Name: name, Clients: []vary.Client{c}, Spec: domain.InboundServerIntentSpec{
			App: app, AppLabel: label, ServiceName: app, Port: 80, Protocol: "HTTP", ServiceMesh: "istio",
		}}
	}
	c1, c2 := with("c1"), with("c2")
	for name, c := range map[string]struct {
		intents []vary.Intent
		second  []*vary.Cluster // of web-admin; web is on c1
		charted bool            // as if the charts had what is made
		refused string
	}{
		"access points": {
			intents: []vary.Intent{&vary.DTC{Name: "d", Inbound: []vary.Inbound{server("x", "web", "app=web", "admin-read"), server("y", "web-admin", "app=admin", "read")}}},
			second:  []*vary.Cluster{c2, c1},
			refused: `apps "web" and "web-admin" would both have AuthorizationPolicy "web-admin-read" on cluster p+c1, by dtc intent d, inbound intent x and by dtc intent d, inbound intent y`,
		},
		"inbound intents": {
			intents: []vary.Intent{
				&vary.DTC{Name: "d", Inbound: []vary.Inbound{server("e-f", "web", "app=web", "get")}}, &vary.DTC{Name: "d-e", Inbound: []vary.Inbound{server("f", "web-admin", "app=admin", "get")}},
			},
			second:  []*vary.Cluster{c1},
			refused: `NetworkPolicy "d-e-f" on cluster p+c1, by dtc intent d, inbound intent e-f and by dtc intent d-e, inbound intent f`,
		},
		"on other clusters": {
			intents: []vary.Intent{&vary.DTC{Name: "d", Inbound: []vary.Inbound{server("x", "web", "app=web", "admin-read"), server("y", "web-admin", "app=admin", "read")}}},
			second:  []*vary.Cluster{c2},
		},
		"of charts": {
			intents: []vary.Intent{&vary.DTC{Name: "d", Inbound: []vary.Inbound{server("x", "web", "app=web", "admin-read"), server("y", "web-admin", "app=admin", "read")}}},
			second:  []*vary.Cluster{c1}, charted: true,
		},
		"other names": {
			intents: []vary.Intent{&vary.DTC{Name: "d", Inbound: []vary.Inbound{server("x", "web", "app=web", "write"), server("y", "web-admin", "app=admin", "read")}}},
			second:  []*vary.Cluster{c1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			where := map[string][]*vary.Cluster{"web": {c1}, "web-admin": c.second}
			p := &plan.Plan{Namespace: "ns"}
			for _, name := range []string{"web", "web-admin"} {
				v, err := vary.Apply(c.intents, placed(name, where))
				require.NoError(t, err)
				app := plan.App{Name: name, Effects: v.Effects}
				for _, r := range v.Bundle.Resources {
					app.Resources = append(app.Resources, r.ResourceID)
				}
				for _, x := range v.Variants {
					app.Variants = append(app.Variants, plan.Variant{Effects: x.Effects})
				}
				for i, on := range where[name] {
					app.Targets = append(app.Targets, plan.Target{ClusterName: on.ClusterName, Variant: v.Of[i]})
				}
				if c.charted {
					app.Effects, app.Variants = nil, make([]plan.Variant, len(app.Variants))
				}
				p.Apps = append(p.Apps, app)
			}
			err := vary.Clash(p)
			if c.refused == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, fail.Malformed, fail.KindOf(err), "%v", err)
			require.Contains(t, fail.TextOf(err), c.refused)
		})
	}
}

// meshed are a server on c1 and c2, and clients on c2 and c3, with access points.
func meshed() (*vary.DTC, map[string][]*vary.Cluster) {
	gateway := func(n int) map[string]string {
		return map[string]string{
			"istioIngressGatewayAddress": fmt.Sprintf("172.16.0.%d", n), "istioIngressGatewayPort": fmt.Sprint(32000 + n),
			"istioIngressGatewayInternalPort": "15443", "istioIngressGatewayHttpsPort": "443",
		}
	}
	c1, c2, c3 := with("c1", gateway(1)), with("c2", gateway(2)), with("c3")
	c2.Pairs[1].KV[0]["istioIngressGatewayAddress"] = "gateway.example"
	a, b := client("a"), client("b")
	a.Access = []vary.Access{{Name: "get", Spec: domain.InboundClientsAccessIntentSpec{Action: "ALLOW", URL: []string{"/status/*"}, Access: []string{"PUT", "GET"}}}}
	b.Access = []vary.Access{{Name: "get", Spec: domain.InboundClientsAccessIntentSpec{Action: "ALLOW", URL: []string{}, Access: []string{"POST"}}}, {Name: "any"}}
	d := traffic(func(s *domain.InboundServerIntentSpec) {
		s.ServiceMesh, s.Protocol, s.ExternalSupport, s.ExternalName = "istio", "HTTP", true, "web.example"
		s.Management = domain.InboundManagement{SidecarProxy: "yes", TLSType: "MUTUAL"}
		s.External.Certificates = domain.InboundCertificates{ServiceCertificate: "Y2VydA==", CACertificate: "Y2E="}
	}, a, b)
	d.Inbound[0].Key = plan.SealedValue("projects/p", domain.Sealed{KeyID: "k", Data: []byte("sealed")})
	return d, map[string][]*vary.Cluster{"web": {c1, c2}, "client-a": {c2, c3}, "client-b": {c3}}
}

func TestIstio(t *testing.T) {
	d, where := meshed()
	names := func(v *vary.Varied, i int) []string {
		var all []string
		for name := range gets(v, i) {
			all = append(all, name)
		}
		slices.Sort(all)
		return all
	}
	server, err := vary.Apply([]vary.Intent{d}, placed("web", where))
	require.NoError(t, err)
	for i := range where["web"] {
		require.Equal(t, []string{
			"AuthorizationPolicy/web-any", "AuthorizationPolicy/web-get", "DestinationRule/web-svc-se-server-dr", "Gateway/web-svc-ext-mutual-gateway", "Gateway/web-svc-gateway",
			"NetworkPolicy/group-in", "Secret/web-svc-credential", "ServiceEntry/web-svc-se-server", "VirtualService/web-svc-vs-web-svc-ext-mutual-gateway",
		}, names(server, i))
	}
	got := gets(server, 0)
	require.JSONEq(t, `{"apiVersion":"networking.istio.io/v1beta1","kind":"Gateway","metadata":{"name":"web-svc-gateway","namespace":"istio-system"},"spec":{"selector":{"istio":"ingressgateway"},
		"servers":[{"port":{"number":15443,"name":"tls","protocol":"TLS"},"tls":{"mode":"AUTO_PASSTHROUGH"},"hosts":["web-svc.ns.p.c1"]}]}}`, got["Gateway/web-svc-gateway"])
	require.JSONEq(t, `{"apiVersion":"networking.istio.io/v1beta1","kind":"ServiceEntry","metadata":{"name":"web-svc-se-server","namespace":"istio-system"},"spec":{"hosts":["web-svc.ns.p.c1"],
		"location":"MESH_INTERNAL","resolution":"DNS","ports":[{"number":3333,"name":"http","protocol":"HTTP"}],"endpoints":[{"address":"web-svc.ns.svc.cluster.local","ports":{"http":3333}}]}}`, got["ServiceEntry/web-svc-se-server"])
	require.JSONEq(t, `{"apiVersion":"networking.istio.io/v1beta1","kind":"Gateway","metadata":{"name":"web-svc-ext-mutual-gateway","namespace":"istio-system"},"spec":{"selector":{"istio":"ingressgateway"},
		"servers":[{"port":{"number":443,"name":"https","protocol":"HTTPS"},"hosts":["web.example"],"tls":{"mode":"MUTUAL","credentialName":"web-svc-credential"}}]}}`, got["Gateway/web-svc-ext-mutual-gateway"])
	var rules struct {
		Spec struct {
			Rules []struct {
				To []struct {
					Operation struct{ Methods, Paths, Hosts []string }
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got["AuthorizationPolicy/web-get"]), &rules))
	require.Len(t, rules.Spec.Rules, 2, "those of a name are one")
	require.Equal(t, []string{"GET", "PUT"}, rules.Spec.Rules[0].To[0].Operation.Methods)
	require.Equal(t, []string{"/status/*"}, rules.Spec.Rules[0].To[0].Operation.Paths)
	require.Contains(t, rules.Spec.Rules[0].To[0].Operation.Hosts, "web-svc.ns.p.c1")
	require.Empty(t, rules.Spec.Rules[1].To[0].Operation.Paths)
	require.Contains(t, got["Secret/web-svc-credential"], d.Inbound[0].Key)

	// A client beside the server needs nothing; of the clients in another cluster the first one brings it.
	for app, want := range map[string][][]string{
		"client-a": {nil, {
			"DestinationRule/web-svc-dr-client-svcname", "DestinationRule/web-svc-dr-client0", "DestinationRule/web-svc-dr-client1",
			"ServiceEntry/web-svc-se-client0", "ServiceEntry/web-svc-se-client1", "ServiceEntry/web-svc-se-client2",
		}},
		"client-b": {nil},
	} {
		v, err := vary.Apply([]vary.Intent{d}, placed(app, where))
		require.NoError(t, err)
		for i := range want {
			require.Equal(t, want[i], names(v, i), app)
		}
		if app == "client-a" {
			got := gets(v, 1)
			require.JSONEq(t, `{"apiVersion":"networking.istio.io/v1beta1","kind":"ServiceEntry","metadata":{"name":"web-svc-se-client1"},"spec":{"hosts":["web-svc.ns.p.c2"],"addresses":["251.253.155.180"],
				"location":"MESH_INTERNAL","resolution":"DNS","ports":[{"number":3333,"name":"http","protocol":"HTTP"}],"endpoints":[{"address":"gateway.example","ports":{"http":32002}}]}}`, got["ServiceEntry/web-svc-se-client1"])
			require.Contains(t, got["ServiceEntry/web-svc-se-client2"], `"hosts":["web-svc"]`)
			require.JSONEq(t, `{"apiVersion":"networking.istio.io/v1beta1","kind":"DestinationRule","metadata":{"name":"web-svc-dr-client-svcname"},"spec":{"host":"web-svc",
				"trafficPolicy":{"tls":{"mode":"ISTIO_MUTUAL","sni":"outbound_.3333_._.web-svc.ns.p.c1"}}}}`, got["DestinationRule/web-svc-dr-client-svcname"])
		}
	}
}

// Where Istio's gateway leads to a server, its pods are let in: who comes through it comes from them.
func TestIstioGatewayIsLetIn(t *testing.T) {
	const (
		gateway = `{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"istio-system"}},"podSelector":{"matchLabels":{"istio":"ingressgateway"}}}`
		more    = "name cidrs to let others in"
		through = "who comes by web.example through Istio's gateway is let in from all addresses"
	)
	cidrs := func(s *domain.InboundClientsIntentSpec) { s.CIDRs = []string{"10.0.0.0/8"} }
	inside := func(d *vary.DTC) {
		d.Inbound[0].Spec.Management, d.Inbound[0].Spec.ExternalSupport = domain.InboundManagement{}, true
	}
	for name, c := range map[string]struct {
		change func(d *vary.DTC)
		beside bool // the clients are where the server is
		in     bool
		says   string
	}{
		"from outside, and from other clusters": {change: func(*vary.DTC) {}, in: true},
		"from outside":                          {change: func(*vary.DTC) {}, beside: true, in: true},
		"from outside, whatever the addresses":  {change: func(d *vary.DTC) { d.Inbound[0].Clients = []vary.Client{client("a", cidrs)} }, beside: true, in: true, says: through},
		"from other clusters":                   {change: inside, in: true},
		"from nowhere else":                     {change: inside, beside: true, says: more},
		"without Istio": {change: func(d *vary.DTC) {
			d.Inbound[0].Spec.ServiceMesh, d.Inbound[0].Spec.Management = "none", domain.InboundManagement{}
		}, says: more},
	} {
		t.Run(name, func(t *testing.T) {
			d, where := meshed()
			c.change(d)
			if c.beside {
				where["client-a"], where["client-b"] = where["web"], where["web"]
			}
			v, err := vary.Apply([]vary.Intent{d}, placed("web", where))
			require.NoError(t, err)
			for i := range where["web"] {
				require.Equal(t, c.in, strings.Contains(gets(v, i)["NetworkPolicy/group-in"], gateway), gets(v, i)["NetworkPolicy/group-in"])
			}
			for _, text := range []string{more, through} {
				said := slices.ContainsFunc(v.Warnings, func(w string) bool { return strings.Contains(w, text) })
				require.Equal(t, c.says == text, said, v.Warnings)
			}
		})
	}
}

// No two hosts have one virtual address on a cluster, whichever intents or groups they are of, and each keeps its own.
func TestVirtualAddressesAreOfHosts(t *testing.T) {
	// of are the addresses by host that a client's cluster gets of servers.
	of := func(namespace string, groups ...[]string) map[string]string {
		var intents []vary.Intent
		for n, services := range groups {
			d := traffic(nil)
			d.Name, d.Inbound = fmt.Sprintf("group%d", n), nil
			for _, service := range services {
				in := traffic(func(s *domain.InboundServerIntentSpec) { s.ServiceMesh, s.ServiceName = "istio", service }, client("a")).Inbound[0]
				in.Name = service
				d.Inbound = append(d.Inbound, in)
			}
			intents = append(intents, d)
		}
		_, where := meshed()
		app := placed("client-a", map[string][]*vary.Cluster{"web": where["web"][:1], "client-a": {cluster("c3")}})
		app.Namespace = namespace
		v, err := vary.Apply(intents, app)
		require.NoError(t, err)
		found := map[string]string{}
		for name, manifest := range gets(v, 0) {
			if !strings.HasPrefix(name, "ServiceEntry/") {
				continue
			}
			var entry struct {
				Spec struct{ Hosts, Addresses []string }
			}
			require.NoError(t, json.Unmarshal([]byte(manifest), &entry))
			require.Len(t, entry.Spec.Addresses, 1)
			found[namespace+"/"+entry.Spec.Hosts[0]] = entry.Spec.Addresses[0]
		}
		return found
	}
	all := map[string]string{} // hosts by address
	for n, some := range []map[string]string{of("ns", []string{"db", "web"}, []string{"cache"}), of("ns", []string{"mail"}), of("other", []string{"web"})} {
		require.Len(t, some, []int{6, 2, 2}[n])
		for host, address := range some {
			require.Empty(t, all[address], host)
			all[address] = host
			require.Regexp(t, `^2(4\d|5[0-4])\.`, address)
		}
	}
	require.Subset(t, of("ns", []string{"aaa", "web"}), of("ns", []string{"web"}), "whatever else there is")
	// The hosts of these two come to the same.
	both := of("ns", []string{"web-1402", "web-13914"})
	require.Equal(t, of("ns", []string{"web-1402"})["ns/web-1402.ns.p.c1"], of("ns", []string{"web-13914"})["ns/web-13914.ns.p.c1"])
	require.NotEqual(t, both["ns/web-1402.ns.p.c1"], both["ns/web-13914.ns.p.c1"])
}

// Access points keep out all that is not HTTP to Istio, and whoever has none beside them.
func TestWhatAccessPointsKeepOut(t *testing.T) {
	service := func(port string) string {
		return `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-svc"},"spec":{"ports":[{"port":3333,` + port + `}]}}`
	}
	const (
		by     = "dtc intent group, inbound intent in: "
		opaque = by + "access points are of HTTP, and %s: as long as the port is that to Istio, nobody is let in"
		named  = `the port of Service "web-svc" is, by its name or appProtocol, `
	)
	second := func(change func(in *vary.Inbound)) func(d *vary.DTC) {
		return func(d *vary.DTC) {
			in := vary.Inbound{Name: "in2", Spec: d.Inbound[0].Spec, Clients: []vary.Client{client("a")}}
			in.Spec.ServiceMesh, in.Spec.Port = "none", 4444
			change(&in)
			d.Inbound = append(d.Inbound, in)
		}
	}
	for name, c := range map[string]struct {
		protocol string // HTTP when ""
		service  string
		change   func(d *vary.DTC)
		want     string
	}{
		"nobody":                            {},
		"all of TCP":                        {protocol: "tcp", want: fmt.Sprintf(opaque, "spec.protocol is tcp")},
		"all of TLS":                        {protocol: "HTTPS", want: fmt.Sprintf(opaque, "spec.protocol is HTTPS")},
		"nobody where the Service has HTTP": {protocol: "TCP", service: service(`"name":"http-web"`)},
		"nobody where Istio finds out":      {protocol: "TCP", service: service(`"targetPort":80`)},
		"all where the Service has TCP":     {service: service(`"name":"tcp"`), want: fmt.Sprintf(opaque, named+"tcp")},
		"all where it says so elsewhere":    {service: service(`"name":"http","appProtocol":"redis"`), want: fmt.Sprintf(opaque, named+"redis")},
		"another client": {
			change: func(d *vary.DTC) { d.Inbound[0].Clients = append(d.Inbound[0].Clients, client("c")) },
			want:   by + `client "c" has no access points, and others have: it is let in by theirs alone`,
		},
		"another intent of the same pods": {
			change: second(func(*vary.Inbound) {}),
			want:   "dtc intent group, inbound intent in2: no access points hold for it, and those of inbound intent in hold for all ports of the same pods: its clients are let in by these alone",
		},
		"not another intent of other pods": {change: second(func(in *vary.Inbound) { in.Spec.AppLabel = "app=other" })},
	} {
		t.Run(name, func(t *testing.T) {
			d, where := meshed()
			if c.protocol != "" {
				d.Inbound[0].Spec.Protocol = c.protocol
			}
			if c.change != nil {
				c.change(d)
			}
			app := placed("web", where)
			if c.service != "" {
				app.Resources = []plan.Resource{resource(t, c.service)}
			}
			v, err := vary.Apply([]vary.Intent{d}, app)
			require.NoError(t, err)
			var got []string
			for _, w := range v.Warnings {
				if strings.Contains(w, "access points") {
					got = append(got, w)
				}
			}
			require.Equal(t, c.want, strings.Join(got, "\n"))
		})
	}
}

// Neither the order of documents nor carrying out an intent a second time makes a difference.
func TestTrafficIsTheSame(t *testing.T) {
	d, where := meshed()
	other := *d
	other.Inbound = slices.Clone(d.Inbound)
	other.Inbound[0].Clients = slices.Clone(d.Inbound[0].Clients)
	slices.Reverse(other.Inbound[0].Clients)
	for app := range where {
		want, err := vary.Apply([]vary.Intent{d}, placed(app, where))
		require.NoError(t, err)
		for name, intents := range map[string][]vary.Intent{"twice": {d, d}, "in another order": {&other}, "both": {&other, d}} {
			got, err := vary.Apply(intents, placed(app, where))
			require.NoError(t, err, name)
			require.Empty(t, cmp.Diff(want.Bundle, got.Bundle), name)
			require.Equal(t, want.Effects, got.Effects, name)
			for i := range where[app] {
				require.Empty(t, cmp.Diff(gets(want, i), gets(got, i)), name)
			}
		}
	}
	// Inbound intents have a policy each.
	two := traffic(nil, client("a"))
	two.Inbound = append(two.Inbound, two.Inbound[0])
	two.Inbound[1].Name = "in2"
	turned := *two
	turned.Inbound = []vary.Inbound{two.Inbound[1], two.Inbound[0]}
	want, err := vary.Apply([]vary.Intent{two}, placed("web", where))
	require.NoError(t, err)
	got, err := vary.Apply([]vary.Intent{&turned}, placed("web", where))
	require.NoError(t, err)
	require.Len(t, gets(want, 0), 2)
	require.Empty(t, cmp.Diff(gets(want, 0), gets(got, 0)))
}
