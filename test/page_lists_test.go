package test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/test/harness"
)

// everywhere looks at a page in a wide window and on a phone, in light and dark: no rule of accessibility is broken, and nothing is
// wider than the screen.
func everywhere(t *testing.T, tab *harness.Tab, name string) {
	t.Helper()
	for _, size := range []struct {
		called        string
		width, height int64
	}{{"wide", 1400, 900}, {"phone", 390, 844}} {
		tab.Size(size.width, size.height)
		for _, dark := range []bool{false, true} {
			tab.Dark(dark)
			require.Empty(t, tab.Violations(), "%s, %s, dark: %v", name, size.called, dark)
			tab.Screenshot(fmt.Sprintf("page-%s-%s-%v", name, size.called, dark))
		}
		tab.Until(name+" is no wider than the screen", "document.documentElement.scrollWidth <= innerWidth")
	}
	tab.Size(1400, 900)
	tab.Dark(false)
}

// fleetLibrary makes a status collector and a readiness rule of the fleet, which go with the test.
func fleetLibrary(ctx context.Context, t *testing.T, e *tenancy) (collector, rule string) {
	t.Helper()
	collector, rule = kubetest.Name("sites"), kubetest.Name("widgets")
	c := domain.StatusCollectors.New().(*domain.StatusCollector)
	c.Metadata.Name = collector
	c.Spec.Select = []domain.NamedExpression{{Name: "wec", Def: "inventory.name"}, {Name: "there", Def: "returned.metadata.name"}}
	for _, o := range []domain.Object{
		c,
		&domain.ReadinessRule{Metadata: domain.Metadata{Name: rule}, Spec: domain.ReadinessRuleSpec{
			Group: "example.com", Version: "v1", Kind: "Widget" + rule[len(rule)-4:], Ready: "object.status.done == true",
		}},
	} {
		_, err := e.api.Create(ctx, o, nil)
		require.NoError(t, err)
		key := domain.KeyOf(o)
		t.Cleanup(func() { _ = e.api.Delete(context.WithoutCancel(ctx), key) })
	}
	return collector, rule
}

// TestThePageOfLists: what tenants tell and what rules make of it, collectors, readiness rules and the audit log are on the page as the
// real stack has them, and change there.
func TestThePageOfLists(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, s := harness.NewBrowser(ctx, t), harness.SharedStack(t)
	e := newTenancy(ctx, t, s, domain.ReportAgentless)
	e.run(ctx, 2)
	e.settled(ctx, 2)
	collector, rule := fleetLibrary(ctx, t, e)
	d := s.On(ctx, []domain.ClusterName{register(ctx, t, s, e.cluster, domain.ReportAgentless)}, reportedApp(t))
	do(ctx, t, d, "approve", "instantiate")
	s.Await(ctx, d, "Instantiated")
	at := func(path string) *harness.Tab {
		t.Helper()
		return browser.Tab(s.URL()+"/#/"+path, harness.BypassPolicy())
	}
	row := func(name string) string {
		return fmt.Sprintf("[...document.querySelectorAll('tr')].find((r) => r.innerText.includes(%q))", name)
	}

	t.Run("tenants", func(t *testing.T) {
		tab := at("tenants")
		tab.Says("td", e.tenant.Name)
		tab.Until("what is made for it", row(e.tenant.Name)+".innerText.includes('2 of 2 made')")
		everywhere(t, tab, "tenants")
		tab.Click("td a", e.tenant.Name)
		tab.Says("h1", e.tenant.Name)
		tab.Says(".facts", "2 workloads")
		tab.Says("td", "Pod "+e.tenant.Namespace()+"/")
		tab.Until("what became of it", "[...document.querySelectorAll('td')].some((c) => c.innerText === 'NotReady')") // no node takes it
		everywhere(t, tab, "tenant")

		// A workload more is there, and one that is lost is said to be, without loading the page.
		e.run(ctx, 3)
		tab.Says(".facts", "3 workloads")
		tab.Until("three matches", "[...document.querySelectorAll('tbody tr')].filter((r) => r.innerText.includes('Applied')).length === 3")
		pods := e.settled(ctx, 3)
		for _, p := range pods {
			p.Status.Phase = corev1.PodSucceeded
			e.becomes(ctx, &p)
			break
		}
		tab.Until("one is ready", "[...document.querySelectorAll('td')].some((c) => c.innerText === 'Ready')")
		require.Empty(t, tab.Wrong())
	})

	t.Run("rules", func(t *testing.T) {
		tab := at("rules")
		tab.Until("read", "document.querySelector('table, .empty')")
		// One of the operator's is for the workloads of all tenants: this one for those of one namespace, which nobody else has.
		space := kubetest.Name("ns")
		r := domain.OperatorRules.New().(*domain.OperatorRule)
		r.Name, r.Spec = kubetest.Name("op"), e.newRule("nginx:1").Spec
		r.Spec.WorkloadTerms[0].MatchExpressions[0].Values = []string{space}
		_, err := e.api.Create(ctx, r, nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = e.api.Delete(context.WithoutCancel(ctx), domain.KeyOf(r)) })
		e.workload(3).ResourceNamespace = space
		e.run(ctx, 3)
		tab.Says("td", "v1/Pod with metadata.resourceNamespace In "+space)
		everywhere(t, tab, "rules")
		tab.Click("td a", r.Name)
		tab.Says("h1", r.Name)
		tab.Says("h2", "Matches")
		tab.Says("td", e.tenant.Name)
		tab.Says("pre", "nginx:1")
		everywhere(t, tab, "rule")
		require.Empty(t, tab.Wrong())
	})

	t.Run("collectors", func(t *testing.T) {
		tab := at("collectors")
		tab.Says("td", "wec, there")
		tab.Until("a group to choose", fmt.Sprintf("[...document.querySelectorAll('select option')].some((o) => o.innerText.startsWith(%q))", d.Group+" "))
		choose := fmt.Sprintf(`((s) => { s.value = [...s.options].find((o) => o.innerText.startsWith(%q)).value; })(document.querySelector("select[aria-label='Group to try it on']"))`, d.Group+" ")
		tab.Ask(choose, nil)
		tab.Click("button", "Try it")
		tab.Says("th", "ready")
		tab.Says("td", e.cluster.Name)
		everywhere(t, tab, "collectors")
		tab.Click("td a", collector)
		tab.Until("its own text to try", fmt.Sprintf("document.querySelector('textarea')?.value.includes('returned.metadata') && [...document.querySelectorAll('select option')].some((o) => o.innerText.startsWith(%q))", d.Group+" "))
		tab.Ask(choose, nil)
		tab.Click("button", "Try it")
		tab.Says("td", d.Release+"-site-000")
		everywhere(t, tab, "collector")
		require.Empty(t, tab.Wrong())
	})

	t.Run("readiness", func(t *testing.T) {
		tab := at("readiness")
		tab.Says("td", "object.status.done == true")
		everywhere(t, tab, "readiness")
		tab.Click("td a", rule)
		tab.Says("pre", "object.status.done")
		tab.Size(390, 844)
		require.Empty(t, tab.Violations())
		tab.Ask("location.hash = '#/audit'", nil)
		tab.Says("h1", "Audit")
		tab.Until("the word for where one is on a phone", `(() => {
			const r = document.querySelector('.nav [aria-current]').getBoundingClientRect();
			return r.left >= 0 && r.right <= innerWidth;
		})()`)
		require.Empty(t, tab.Wrong())
	})

	t.Run("audit", func(t *testing.T) {
		tab := at("audit?noun=tenants")
		tab.Says("td", "create")
		tab.Says("td", "tenants/"+e.tenant.Name)
		tab.Until("nothing else", "![...document.querySelectorAll('td')].some((c) => c.innerText.includes('instantiate'))")
		tab.Ask("document.querySelector('td summary').click()", nil)
		tab.Until("a whole record", "document.querySelector('details[open] pre')")
		everywhere(t, tab, "audit")
		at("audit?noun=tenants&from=1h").Says("td", "tenants/"+e.tenant.Name)
		at("audit?noun=tenants&to=1h").Says(".dim", "There is no such record")
		require.Empty(t, tab.Wrong())
	})

	t.Run("tables change", func(t *testing.T) {
		const key = "projects/%s/composite-apps/%s/%s/deployment-intent-groups/%s"
		_, err := e.api.Create(ctx, &domain.StatusIntent{
			Identity: domain.Identity{Parent: domain.Key(fmt.Sprintf(key, d.Project, d.CompositeApp, d.Version, d.Group))},
			Metadata: domain.Metadata{Name: "tables"},
			Spec:     domain.StatusIntentSpec{StatusCollectors: []string{"fleet/" + collector}, ObjectTest: domain.ObjectTest{Kinds: []string{"ConfigMap"}}},
		}, nil)
		require.NoError(t, err)
		tab := at(fmt.Sprintf("groups/%s/%s/%s/%s?tab=tables", d.Project, d.CompositeApp, d.Version, d.Group))
		tab.Says("h2", "configmaps")
		tab.Says(".live", "Live")
		there := func(n int) string {
			return fmt.Sprintf("[...document.querySelectorAll('td')].filter((c) => c.innerText.startsWith(%q)).length === %d", d.Release+"-site-", n)
		}
		tab.Until("both are there", there(2))
		maps := e.cluster.Client(t).CoreV1().ConfigMaps("default")
		require.NoError(t, maps.Delete(ctx, d.Release+"-site-001", metav1.DeleteOptions{}))
		tab.Until("one of them, without loading the page", there(1))
		tab.Says("td", "Null") // the cluster is heard, and says that it is gone
		everywhere(t, tab, "tables")
		require.Empty(t, tab.Wrong())
	})

	t.Run("health", func(t *testing.T) {
		tab := at("groups")
		tab.Until("the box to find groups", `!!document.querySelector("input.search")`)
		tab.Ask(fmt.Sprintf(`((box) => { box.value = %q; box.dispatchEvent(new Event("input")); })(document.querySelector("input.search"))`, d.Group), nil)
		of := fmt.Sprintf("[...document.querySelectorAll('.rows .row')].find((r) => r.innerText.includes(%q))", d.Group)
		tab.Until("one resource is gone", of+"?.innerText.includes('Not ready')")
		maps := e.cluster.Client(t).CoreV1().ConfigMaps("default")
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: d.Release + "-site-001"}}
		there, err := maps.Get(ctx, d.Release+"-site-000", metav1.GetOptions{})
		require.NoError(t, err)
		made.Labels, made.Annotations = there.Labels, there.Annotations
		_, err = maps.Create(ctx, made, metav1.CreateOptions{})
		require.NoError(t, err)
		tab.Until("all are ready", of+"?.querySelector('.is-ready .dim') && !"+of+".innerText.includes('Not ready')")
		everywhere(t, tab, "groups")
		require.Empty(t, tab.Wrong())
	})

	e.end(ctx)
	e.settled(ctx, 0)
	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")
}

// TestThePageMigrates: a group is migrated on the page to one of another version, which says before what that changes.
func TestThePageMigrates(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, s := harness.NewBrowser(ctx, t), harness.SharedStack(t)
	c := instantiated(ctx, t, s, "web:a=1 b=1 c=1", "log:x=1")
	source, next := *c.Deployment, c.successor("a=1 b=2 d=1")
	require.NoError(t, next.API.Run(ctx, next.GroupSteps(), nil))
	do(ctx, t, &next, "approve")
	tab := browser.Tab(fmt.Sprintf("%s/#/groups/%s/%s/%s/%s", s.URL(), source.Project, source.CompositeApp, source.Version, source.Group), harness.BypassPolicy())
	tab.Click("[data-operation=migrate]", "Migrate")
	tab.Until("the group to choose", fmt.Sprintf("document.querySelector('#to-group')?.value === %q", "v2/"+next.Group))
	tab.Says("dialog .lead", "deleted")
	tab.Says("dialog .fields td", "data.says")
	everywhere(t, tab, "migrate")
	tab.Click("dialog button", "Migrate")
	tab.Says(".title .state", "Updated")
	s.Await(ctx, &next, "Instantiated")
	for _, k := range c.clusters {
		require.Equal(t, []string{"web/a=1", "web/b=2", "web/d=1"}, c.holds(k), "on %s", k.Name)
	}
	tab.Ask(fmt.Sprintf("location.hash = '#/groups/%s/%s/v2/%s?tab=history'", next.Project, next.CompositeApp, next.Group), nil)
	tab.Says("td", "migrate")
	tab.Until("its run in the Web UI", fmt.Sprintf("document.querySelector('table td a[href^=%q]')", s.WebUI()))
	require.Empty(t, tab.Violations())
	c.Deployment = &next
	c.chart(ctx, "web", "a=1 b=3 d=1")
	do(ctx, t, &next, "update")
	s.Await(ctx, &next, "Instantiated")
	tab.Click("td button", "Roll back to 0") // what the migrate has made
	tab.Says("dialog .fields td", "data.says")
	tab.Click("dialog button", "Roll back")
	tab.Says("td", "rollback to 0")
	s.Await(ctx, &next, "Instantiated")
	require.Contains(t, c.holds(c.clusters[0]), "web/b=2")
	require.Empty(t, tab.Wrong())
	c.end(ctx)
}
