package test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/test/harness"
)

// The page in a real browser, against the real stack.

// hostile is the name of an object that Kubernetes allows, and that would be markup if anybody made markup of it.
const hostile = `<img src=x onerror=document.title='taken'>`

// hostileApp is an app with such an object, and with text of that kind in it.
func hostileApp(t *testing.T) client.App {
	t.Helper()
	return client.App{Name: "rude", Chart: harness.Chart(t, "rude", map[string]string{"role.yaml": fmt.Sprintf(
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: %q\n  annotations:\n    note: %q\nrules: []\n", hostile, "<script>document.title='taken'</script>")})}
}

// findGroup has the list of groups show those of a name: of many groups only the rows that are in sight are in the document, and others'
// tests have groups there.
func findGroup(tab *harness.Tab, name string) {
	tab.Until("the box to find groups", `document.querySelector("input[aria-label^='Find groups']")`)
	tab.Ask(fmt.Sprintf(`((box) => { box.value = %q; box.dispatchEvent(new Event("input")); })(document.querySelector("input[aria-label^='Find groups']"))`, name), nil)
}

// choose chooses one of the options of a select of the fleet when it is there, "" for all.
func choose(tab *harness.Tab, label, option string) {
	tab.Until(option+" to choose", fmt.Sprintf("[...document.querySelectorAll('select[aria-label=%s] option')].some((o) => o.value === %q)", label, option))
	tab.Ask(fmt.Sprintf("((s) => { s.value = %q; s.dispatchEvent(new Event('change')); })(document.querySelector('select[aria-label=%s]'))", option, label), nil)
}

// TestThePage goes through a group's life on the page: it is found, approved, instantiated, read cell by cell, lost with its cluster and
// with the API, seen again without loading the page, and terminated.
func TestThePage(t *testing.T) {
	t.Parallel()
	ctx, whole := within(t), t // what a part of the test starts again lasts until its end
	browser := harness.NewBrowser(ctx, t)
	s, clusters := harness.SharedStack(t), twoClusters(t)
	var names []domain.ClusterName
	for _, c := range clusters {
		names = append(names, register(ctx, t, s, c, domain.ReportAgentless))
	}
	d := s.On(ctx, names, reportedApp(t), hostileApp(t))
	api := s.AddAPI(t) // one that may be killed
	group := fmt.Sprintf("%s/#/groups/%s/%s/%s/%s", api.URL, d.Project, d.CompositeApp, d.Version, d.Group)

	p := browser.Tab(api.URL + "/")
	findGroup(p, d.Group)
	p.Click(".rows a", d.Group)
	p.Says("h1", d.Group)
	p.Click("[data-operation=approve]", "Approve")
	p.Says("dialog", "on 2 clusters")
	p.Screenshot("page-ask")
	p.Click("dialog button", "Approve")
	p.Click("[data-operation=instantiate]", "Instantiate")
	p.Says("dialog", "Puts 10 resources of 2 apps on 2 clusters.")
	p.Click("dialog button", "Instantiate")

	cell := func(app string, n int, state string) string {
		return fmt.Sprintf("document.querySelector('a.cell[aria-label^=%q]')", fmt.Sprintf("%s on %s: %s", app, names[n], state))
	}
	for n := range names {
		p.Until("the cells ready", cell("site", n, "Ready")+" && "+cell("rude", n, "Ready"))
	}
	p.Says(".why", "as")
	p.Says(".live", "Live")
	p.Screenshot("page-group")

	t.Run("a hostile name is text", func(*testing.T) {
		p.Ask(cell("rude", 0, "")+".click()", nil)
		p.Says(".cellbox", hostile)
		p.Click(".cellbox summary", hostile)
		p.Says(".cellbox pre", "<script>document.title='taken'</script>")
		p.Until("nothing made of it", "!document.querySelector('img') && !document.title.includes('taken') && document.scripts.length === 1")
		p.Screenshot("page-cell")
		p.Ask("history.back()", nil)
		p.Until("the cell closed", "document.querySelector('.cellbox').hidden && location.hash.endsWith("+fmt.Sprintf("%q", d.Group)+")")
	})

	t.Run("a cluster is lost and back", func(*testing.T) {
		clusters[1].Down()
		p.Until("not heard of", cell("site", 1, "Not heard of"))
		p.Until("the other one is", cell("site", 0, "Ready"))
		clusters[1].Up(whole)
		p.Until("heard again", cell("site", 1, "Ready"))
	})

	t.Run("the API is lost and back", func(*testing.T) {
		// What it says of how it went on is gone with the next answer that is late, as on a busy machine.
		p.Ask(`void (window.wentOn = [], new MutationObserver(() => window.wentOn.push(document.querySelector('.wenton').textContent))
			.observe(document.querySelector('.wenton'), { childList: true, characterData: true, subtree: true }))`, nil)
		api.Kill()
		p.Until("said to be lost", "document.body.classList.contains('lost') && !document.querySelector('.banner').hidden")
		p.Says(".banner", "What is shown is as of")
		p.Screenshot("page-lost")
		api.Start(whole)
		p.Until("live again", "!document.body.classList.contains('lost') && document.querySelector('.banner').hidden")
		p.Says(".live", "Live")
		p.Until("told that all was read anew", "window.wentOn.some((w) => w.includes('All was read anew'))") // by another process, which knows nothing of the stream
	})

	t.Run("history and deep links", func(t *testing.T) {
		other := browser.Tab(group+"?tab=history", harness.BypassPolicy())
		other.Says("td", "instantiate")
		other.Until("its run in the Web UI", fmt.Sprintf("document.querySelector('td a[href^=%q]')", s.WebUI()))
		require.Empty(t, other.Violations())
		other.Click(".tabs a", "Where it would go")
		other.Says(".body", names[0].String())
		require.Empty(t, other.Violations())
		require.Empty(t, other.Wrong())
	})

	t.Run("an update and a way back", func(t *testing.T) {
		replaceChart(ctx, t, d, "rude", says(t, "rude", "a=1"))
		p.Click("[data-operation=update]", "Update")
		p.Says("dialog", "in line with what is described now")
		p.Says("dialog .lead", "2 created, 2 deleted; 8 stay as they are")
		p.Says("dialog .resources", hostile)
		p.Screenshot("page-update")
		p.Click("dialog button", "Update")
		p.Says(".facts", "revision 2")
		p.Until("updated", cell("rude", 0, "Ready")+" && "+cell("rude", 1, "Ready"))
		replaceChart(ctx, t, d, "rude", says(t, "rude", "a=2"))
		changes := browser.Tab(group+"?tab=changes", harness.BypassPolicy())
		changes.Says(".lead", "2 changed; 8 stay as they are")
		changes.Says(".fields td", "data.says")
		changes.Says(".fields del", "1")
		changes.Says(".fields ins", "2")
		require.Empty(t, changes.Violations())
		changes.Screenshot("page-changes")
		changes.Click("[data-operation=update]", "Update")
		changes.Says("dialog .lead", "2 changed; 8 stay as they are")
		require.Empty(t, changes.Violations())
		changes.Click("dialog button", "Cancel")
		changes.Click(".tabs a", "History")
		changes.Click("td button", "Roll back to 1")
		changes.Says("dialog .lead", "2 created, 2 deleted")
		require.Empty(t, changes.Violations())
		changes.Click("dialog button", "Cancel")
		require.Empty(t, changes.Wrong())
		p.Click(".tabs a", "History")
		p.Click("td button", "Roll back to 1")
		p.Says("dialog", "the next update brings it back")
		p.Says("dialog .lead", "2 created, 2 deleted")
		p.Click("dialog button", "Roll back")
		p.Says(".facts", "revision 3")
		p.Says("td", "rollback to 1")
		p.Click(".tabs a", "Matrix")
		p.Until("as before", cell("rude", 0, "Ready")+" && "+cell("rude", 1, "Ready"))
	})

	t.Run("what hangs is stopped", func(t *testing.T) {
		stuck := s.On(ctx, names[1:], reportedApp(t))
		do(ctx, t, stuck, "approve")
		gate := clusters[1].Gate("", 0)
		do(ctx, t, stuck, "instantiate")
		tab := browser.Tab(api.URL+"/#/operations", harness.BypassPolicy())
		row := fmt.Sprintf("[...document.querySelectorAll('tr')].find((r) => r.innerText.includes(%q) && r.querySelector('[data-stop]:enabled'))", stuck.Group)
		tab.Until("it goes on", row)
		tab.Ask(row+".querySelector('[data-stop]:enabled').click()", nil)
		tab.Says("dialog", "nothing is taken back")
		require.Empty(t, tab.Violations())
		tab.Click("dialog button", "Stop it")
		tab.Until("it is over", "!"+row)
		s.Await(ctx, stuck, "InstantiateFailed")

		// On the group's own page, too.
		do(ctx, t, stuck, "terminate")
		s.Await(ctx, stuck, "Terminated")
		do(ctx, t, stuck, "approve", "instantiate")
		tab.Ask(fmt.Sprintf("location.hash = '#/groups/%s/%s/%s/%s'", stuck.Project, stuck.CompositeApp, stuck.Version, stuck.Group), nil)
		tab.Click("[data-operation=stop]", "Stop")
		tab.Says("dialog", "on 1 cluster may be there")
		require.Empty(t, tab.Violations())
		tab.Click("dialog button", "Stop it")
		tab.Says(".title .state", "InstantiateFailed")
		s.Await(ctx, stuck, "InstantiateFailed")
		gate.Open()
		do(ctx, t, stuck, "terminate")
		s.Await(ctx, stuck, "Terminated")
		require.Empty(t, tab.Wrong())
	})

	t.Run("the fleet and its operations", func(t *testing.T) {
		tab := browser.Tab(api.URL+"/#/fleet", harness.BypassPolicy())
		choose(tab, "Provider", names[0].Provider)
		tab.Until("its cluster alone", "document.querySelectorAll('.tile').length === 1")
		tab.Says(".tile", "1 group")
		tab.Until("the cluster's version", `/v\d+\.\d+/.test(document.querySelector(".tile").innerText)`)
		tab.Says(".live", "Live")

		// The other cluster has the label, and neither reports otherwise.
		label := kubetest.Name("edge")
		_, err := d.API.Create(ctx, &domain.ClusterLabel{Identity: domain.Identity{Parent: names[1].Key()}, Label: label}, nil)
		require.NoError(t, err)
		choose(tab, "Label", label)
		tab.Says(".empty", "No cluster is like that now")
		choose(tab, "Provider", names[1].Provider)
		tab.Says(".tile.is-ready", label)
		choose(tab, "Report", string(domain.ReportAgentless))
		tab.Click(".chip.is-ready", "Heard")
		tab.Until("what was pressed is said to be", "document.querySelector('.chip.is-ready').getAttribute('aria-pressed') === 'true'")
		tab.Until("it is like all of that", "document.querySelectorAll('.tile').length === 1")
		tab.Click(".chip.is-ready", "Heard")
		choose(tab, "Label", "")
		choose(tab, "Provider", names[0].Provider)
		tab.Says(".tile", names[0].Name)
		clusters[0].Down()
		tab.Until("not heard of", "document.querySelector('.tile.is-unknown, .tile.is-retrying')")
		clusters[0].Up(whole)
		tab.Until("heard again", "document.querySelector('.tile.is-ready')")
		tab.Screenshot("page-fleet")
		everywhere(t, tab, "fleet")
		tab.Click(".tile", names[0].Name)
		tab.Says("td", d.Group)
		tab.Says("td", "instantiate")
		tab.Screenshot("page-cluster")
		everywhere(t, tab, "cluster")
		tab.Click(".nav a", "Operations")
		tab.Says("td", d.Group)
		require.Empty(t, tab.Violations())
		tab.Size(390, 844)
		tab.Until("words are whole on a phone", `(() => {
			const r = document.createRange();
			const cells = [...document.querySelectorAll('td')].filter((c) => c.innerText === 'instantiate');
			return cells.length > 0 && cells.every((c) => { r.selectNodeContents(c); return r.getClientRects().length === 1; }) && document.documentElement.scrollWidth <= innerWidth;
		})()`)
		tab.Size(1400, 900)
		for _, name := range []string{"Tenants", "Rules", "Collectors", "Readiness", "Audit"} {
			tab.Click(".nav a", name)
			tab.Says("h1", name)
			require.Empty(t, tab.Violations(), name)
		}
		tab.Says("td", "instantiate")
		require.Empty(t, tab.Wrong())
	})

	t.Run("tables", func(t *testing.T) {
		tab := browser.Tab(group+"?tab=tables", harness.BypassPolicy())
		tab.Click("button", "Try it")
		tab.Says("th", "ready")
		tab.Says("td", names[0].Name)
		require.Empty(t, tab.Violations())
		tab.Ask("document.querySelector('textarea').value = 'spec: {filter: \"obj.\"}'", nil)
		tab.Click("button", "Try it")
		tab.Says(".wrong", "filter")
		require.Empty(t, tab.Wrong())
	})

	t.Run("everybody can use it", func(t *testing.T) {
		tab := browser.Tab(group, harness.BypassPolicy())
		tab.Until("shown", cell("site", 0, "Ready"))
		for _, size := range [][2]int64{{1400, 900}, {390, 844}} {
			tab.Size(size[0], size[1])
			for _, dark := range []bool{false, true} {
				tab.Dark(dark)
				require.Empty(t, tab.Violations(), "%v, dark: %v", size, dark)
				tab.Screenshot(fmt.Sprintf("page-group-%d-%v", size[0], dark))
			}
			tab.Until("no wider than the screen", "document.documentElement.scrollWidth <= innerWidth")
		}
		tab.Ask(cell("site", 0, "")+".click()", nil)
		tab.Says(".cellbox", "Deployment")
		require.Empty(t, tab.Violations())
		tab.Screenshot("page-cell-390-true")
		tab.Size(1400, 900)
		tab.Press(kb.Escape)
		tab.Until("closed by a key", "document.querySelector('.cellbox').hidden")
		tab.Ask(cell("site", 0, "")+".focus()", nil)
		tab.Press(kb.ArrowLeft)
		tab.Until("the cell beside it", "document.activeElement === "+cell("rude", 0, ""))
		tab.Press(kb.Enter)
		tab.Says(".cellbox h2", "rude on")
		tab.Press(kb.Escape)
		tab.Until("back where one was", "document.activeElement === "+cell("rude", 0, ""))
		tab.Ask("document.querySelector('[data-operation=terminate]').focus()", nil)
		tab.Press(kb.Enter)
		tab.Says("dialog", "Deletes up to 10 resources on 2 clusters.")
		require.Empty(t, tab.Violations())
		tab.Click("dialog button", "Cancel")
		tab.Ask("location.hash = '#/groups'", nil)
		findGroup(tab, d.Group)
		tab.Says(".rows", d.Group)
		require.Empty(t, tab.Violations())
		tab.Screenshot("page-groups-dark")
		tab.Dark(false)
		tab.Screenshot("page-groups")
	})

	p.Click("[data-operation=terminate]", "Terminate")
	p.Says("dialog", "Deletes up to 10 resources on 2 clusters.")
	p.Click("dialog button", "Terminate")
	p.Says(".title .state", "Terminated")
	require.Empty(t, p.Wrong())
}

// TestThePageAsksWhoLooks: with logins on, a token is asked for, kept in the tab, and forgotten.
func TestThePageAsksWhoLooks(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser := harness.NewBrowser(ctx, t)
	s, file := harness.SharedStack(t), filepath.Join(t.TempDir(), "admin-token")
	api := s.AddAPI(t, "DROVER_AUTH=on", "DROVER_ADMIN_TOKEN_FILE="+file, "DROVER_MONGO_DATABASE=page_"+strings.ToLower(rand.Text()[:8]))
	token, err := os.ReadFile(file)
	require.NoError(t, err)
	p := browser.Tab(api.URL+"/", harness.BypassPolicy())
	enter := func(token string) {
		p.Until("asked for a token", "document.querySelector('#token')")
		p.Ask(fmt.Sprintf("document.querySelector('#token').value = %q", strings.TrimSpace(token)), nil)
		p.Click("form button", "Sign in")
	}
	p.Until("asked for a token", "document.querySelector('#token')")
	require.Empty(t, p.Violations())
	p.Screenshot("page-login")
	enter("nobody's")
	p.Says(".wrong", "does not know this token")
	enter(string(token))
	p.Says(".empty", "There are no groups yet")
	p.Says(".empty", "drover deploy")
	p.Size(390, 844)
	p.Until("a phone has room for who one is", "document.documentElement.scrollWidth <= innerWidth && document.querySelector('.person button').getBoundingClientRect().right <= innerWidth")
	p.Size(1400, 900)
	p.Ask("window.old = 1, setTimeout(() => location.reload())", nil)
	p.Until("loaded again", "!window.old")
	p.Says(".empty", "There are no groups yet")

	// Who may see one project alone sees its groups, which no stream of the fleet tells him.
	admin := client.New(api.URL+"/v2", client.WithToken(strings.TrimSpace(string(token))))
	t.Cleanup(admin.Close)
	viewer := seesOneProject(ctx, t, admin.API())
	// Where the session of one has ended and another one goes on in the same page, nothing is offered by the rights of the one before.
	p.Click(".rows a", "group-shown")
	p.Until("the administrator's buttons", "document.querySelector('[data-operation=approve]')")
	p.Ask("sessionStorage.clear()", nil)
	enter(viewer)
	p.Until("the viewer's buttons", "document.querySelector('[data-operation=approve], [data-denied=approve]')")
	var denied bool
	p.Ask("!!document.querySelector('[data-denied=approve]')", &denied)
	require.True(t, denied)
	p.Ask("location.hash = '#/groups'", nil)
	p.Says(".rows", "shown")
	p.Click("button", "Sign out")
	enter(viewer)
	p.Says(".rows", "shown")
	p.Until("not the other one", "!document.querySelector('.rows').innerText.includes('hidden')")
	p.Until("nothing in a cookie", "document.cookie === ''")
	p.Click(".rows a", "group-shown")
	p.Click("[data-denied=approve]", "Approve") // who may only look is told who can give more
	p.Says("dialog", "approver")
	require.Empty(t, p.Violations())
	p.Screenshot("page-denied")
	p.Click("dialog button", "Close")
	p.Click("button", "Sign out")
	p.Until("asked for a token", "document.querySelector('#token')")
	require.Equal(t, http.StatusUnauthorized, s.Send(ctx, http.MethodGet, api.URL+"/v2/projects", nil, "").Code)
	require.Empty(t, p.Wrong())
}

// seesOneProject makes two projects with a group each, one of which may be seen by whoever has the token.
func seesOneProject(ctx context.Context, t *testing.T, api *client.API) (token string) {
	t.Helper()
	create := func(o domain.Object) {
		_, err := api.Create(ctx, o, nil)
		require.NoError(t, err)
	}
	for _, name := range []string{"shown", "hidden"} {
		project := &domain.Project{Metadata: domain.Metadata{Name: name}}
		create(project)
		app := &domain.CompositeApp{Identity: domain.Identity{Parent: domain.KeyOf(project)}, Metadata: domain.Metadata{Name: "app"}, Spec: domain.CompositeAppSpec{Version: "v1"}}
		create(app)
		create(&domain.CompositeProfile{Identity: domain.Identity{Parent: domain.KeyOf(app)}, Metadata: domain.Metadata{Name: "profile"}})
		create(&domain.LogicalCloud{Identity: domain.Identity{Parent: domain.KeyOf(project)}, Metadata: domain.Metadata{Name: "cloud"}, Spec: domain.LogicalCloudSpec{Level: "0"}})
		create(&domain.DeploymentIntentGroup{
			Identity: domain.Identity{Parent: domain.KeyOf(app)}, Metadata: domain.Metadata{Name: "group-" + name},
			Spec: domain.DeploymentIntentGroupSpec{CompositeProfile: "profile", Version: "r1", LogicalCloud: "cloud"},
		})
	}
	account := &domain.ServiceAccount{Metadata: domain.Metadata{Name: "looks"}}
	create(account)
	shown := &domain.ServiceAccountToken{Identity: domain.Identity{Parent: domain.KeyOf(account)}, Metadata: domain.Metadata{Name: "t"}}
	create(shown)
	binding := domain.ProjectRoleBindings.New().(*domain.RoleBinding)
	binding.Parent, binding.Metadata = "projects/shown", domain.Metadata{Name: "looks"}
	binding.Spec = domain.RoleBindingSpec{Role: "viewer", Subjects: []domain.RightSubject{{Kind: domain.SubjectServiceAccount, Name: "service-accounts/looks"}}}
	create(binding)
	return shown.Status.Token
}
