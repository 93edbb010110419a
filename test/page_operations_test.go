package test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/test/harness"
)

// runs are running operations as their stream tells of them, the first of them the one that has begun last; each is of a group of the project.
func runs(project string, from, to int) string {
	var all []string
	for n := from; n < to; n++ {
		all = append(all, fmt.Sprintf(`"%[1]s%02[2]d":{"id":"%[1]s%02[2]d-update","instance":"i","resource":"projects/%[1]s/composite-apps/shop/v1/deployment-intent-groups/g%02[2]d","operation":"update",`+
			`"state":"Running","started":%[3]q,"workflow":{"id":"w","runID":"%[1]s%02[2]d"}}`, project, n, time.Date(2026, 1, 1, 0, 59-n, 0, 0, time.UTC).Format(time.RFC3339)))
	}
	return strings.Join(all, ",")
}

// TestThePageOfOperations: what goes on can be stopped by who may, however much there is; and what is on the page stays what it was, so that
// one can press it.
func TestThePageOfOperations(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newKeptHost(ctx, t, oneCell)
	h.answer("GET /v2/operations", h.stream)
	mayNot := func(r *http.Request) string {
		if r.URL.Query().Get("project") != "locked" {
			return ""
		}
		return `{"verb":"stop","kind":"Forbidden","why":"an admin gives it"}`
	}
	told := make(chan struct{})
	h.answer("GET /v2/whoami", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("project") == "open" {
			select {
			case <-told:
			case <-r.Context().Done():
				return
			}
		}
		saying(`{"kind":"user","name":"operator","rights":[{"mayNot":[`+mayNot(r)+`]}]}`)(w, r)
	})
	p := browser.Tab(h.URL+"/#/operations", harness.BypassPolicy())
	s := h.next()
	h.tell(s, "status", "{"+runs("locked", 0, 30)+"}")
	p.Until("who may not stop one is told, however far down", "document.querySelectorAll('[data-stop].denied').length === 30")
	p.Ask("((f) => { AbortSignal.timeout = () => f(600_000) })(AbortSignal.timeout.bind(AbortSignal))", nil) // it waits for what it says here for 5 s alone
	h.tell(s, "change", "{"+runs("open", 30, 32)+"}")
	const stop = "document.querySelector('[data-stop=open30-update]')"
	p.Until("of the others it is not known yet", stop+".disabled")
	close(told)
	p.Until("they can be stopped", "!"+stop+".disabled")

	// A change draws what it is about: a line that was there is the same one, and what is beyond the edge of a phone is where it was.
	p.Size(390, 844)
	const box = "document.querySelector('.scroll')"
	p.Ask("(window.line = "+stop+".closest('tr'), "+box+".scrollLeft = 90, "+stop+".focus({ preventScroll: true }), true)", nil)
	h.tell(s, "change", `{"locked03":null,`+runs("open", 32, 33)+","+strings.ReplaceAll(runs("open", 31, 32), "Z", `Z","requestedBy":"another`)+"}")
	p.Says("td", "another")
	p.Says("td", "g32")
	p.Until("it is the same line", "window.line === "+stop+".closest('tr') && window.line.isConnected && document.activeElement === "+stop)
	p.Until("it is where it was", box+".scrollLeft === 90")
	p.Size(1400, 900)

	// The keyboard goes back to what has opened a box, though that was made anew, and to the head of the page where it has gone.
	p.Ask(stop+".click()", nil)
	p.Says("dialog", "nothing is taken back")
	p.Ask(stop+".replaceWith("+stop+".cloneNode(true))", nil)
	p.Press(kb.Escape)
	p.Until("it is there again", noDialog+" && document.activeElement === "+stop)
	p.Ask("((b) => { b.focus(); b.click(); })(document.querySelector('[data-stop=open31-update]'))", nil)
	p.Says("dialog", "nothing is taken back")
	h.tell(s, "change", `{"open31":null}`)
	p.Until("it is over", "!document.querySelector('[data-stop=open31-update]')")
	p.Press(kb.Escape)
	p.Until("at the head", noDialog+" && document.activeElement === document.querySelector('h1')")
	require.Empty(t, p.Violations())
	require.Empty(t, p.Wrong())
}

// TestThePageFindsOut what operations wait for, however many somebody wants to know it of; where that cannot be read it says why, and what it
// knew before.
func TestThePageFindsOut(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newKeptHost(ctx, t, oneCell)
	h.answer("GET /v2/operations", h.stream)
	of := func(n int) string {
		return fmt.Sprintf("GET /v2/projects/demo/composite-apps/shop/v1/deployment-intent-groups/g%02d/explain", n)
	}
	h.answer(of(20), away("the engine is away"))
	p := browser.Tab(h.URL+"/#/operations", harness.BypassPolicy())
	h.tell(h.next(), "status", "{"+runs("demo", 0, 60)+"}")
	line := func(n int) string {
		return fmt.Sprintf("document.querySelector('[data-stop=demo%02d-update]').closest('tr')", n)
	}
	says := func(n int, words string) {
		t.Helper()
		p.Until(fmt.Sprintf("%d: %s", n, words), fmt.Sprintf("%s.innerText.includes(%q)", line(n), words))
	}
	ask := func(n int) {
		t.Helper()
		p.Click(fmt.Sprintf("[data-look=demo%02d-update]", n), "Find out")
	}
	const known = "everything is as wished"
	says(11, known)
	ask(20)
	says(20, "Not read: the engine is away")
	require.Empty(t, p.Violations())
	for range 2 { // it may be asked again, however often that fails for the same reason
		ask(20)
		p.Until("it can be pressed", line(20)+".querySelector('[data-look]:enabled')")
	}
	h.answer(of(20), nil)
	ask(20)
	says(20, known)
	h.answer(of(20), away("the engine is away again"))
	says(20, "Not read: the engine is away again")
	says(20, known)

	p.Ask("document.querySelectorAll('[data-look]:enabled').forEach((b) => b.click())", nil)
	says(59, known)
	ask(12) // which was wanted before all others, and is not asked for any more
	says(12, known)
	require.Empty(t, p.Wrong())
}

// TestThePageIsRefused: what was refused is asked for again, and nothing else is shown in its place meanwhile.
func TestThePageIsRefused(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newKeptHost(ctx, t, oneCell)
	forbidden := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		saying(`{"detail":"not yours"}`)(w, r)
	}
	const status = `{"contextStatus":"Instantiated","state":"Instantiated","connectivity":"Available","report":"none","groups":0}`
	p := browser.Tab("about:blank", harness.BypassPolicy())
	for _, of := range []struct{ view, list, item, shown string }{
		{"groups", "deployment-intent-groups", `{"resource":"projects/demo/composite-apps/shop/v1/deployment-intent-groups/web","status":` + status + `}`, "web"},
		{"fleet", "clusters", `{"resource":"cluster-providers/p/clusters/c1","status":` + status + `}`, "c1"},
		{"operations", "operations", strings.SplitN(runs("demo", 1, 2), ":", 2)[1], "g01"},
		{"readiness", "readiness-rules", "", "one"},
	} {
		h.answer("GET /v2/"+of.list, forbidden)
		p.Ask(fmt.Sprintf("setTimeout(() => { location = %q })", h.URL+"/#/"+of.view), nil)
		p.Says(".wrong", "not yours")
		require.Empty(t, p.Violations(), of.view)
		if of.item == "" {
			h.answer("GET /v2/"+of.list, saying(`[{"metadata":{"name":"one"}}]`))
		} else {
			h.answer("GET /v2/"+of.list, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("watch") != "" {
					forbidden(w, r)
					return
				}
				saying(`{"items":[`+of.item+`]}`)(w, r)
			})
		}
		look(p, false)
		look(p, true)
		p.Says("main a", of.shown)
		p.Until(of.view+" without a word of it", "![...document.querySelectorAll('.wrong')].some((e) => e.checkVisibility())")
	}

	h.answer("GET /v2/clusters", h.stream)
	p.Ask("location.hash = '#/fleet'", nil)
	s := h.next()
	h.tell(s, "status", `{"cluster-providers/p/clusters/c1":`+status+`}`)
	p.Says(".tile", "c1")
	h.tell(s, "error", `{"kind":"Invalid","reason":"it cannot be told"}`)
	p.Says(".wrong", "it cannot be told")
	p.Ask("((box) => { box.value = 'c'; box.dispatchEvent(new Event('input')); })(document.querySelector('input.search'))", nil)
	p.Ask("new Promise((done) => { setTimeout(done, 200) })", nil)
	p.Until("nothing old is shown", "!document.querySelector('.rows').checkVisibility() && document.querySelector('.wrong').checkVisibility()")
	require.Empty(t, p.Wrong())
}

// TestThePageHasItsParts: all parts of it are loaded once one is shown, one that cannot be is tried again, and that the server is another one by
// now is said.
func TestThePageHasItsParts(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newKeptHost(ctx, t, oneCell)
	index, err := h.Client().Get(h.URL + "/")
	require.NoError(t, err)
	text, err := io.ReadAll(index.Body)
	require.NoError(t, err)
	require.NoError(t, index.Body.Close())
	folder := regexp.MustCompile("/page/[0-9a-f]+/").FindString(strings.ReplaceAll(string(text), `"page/`, `"/page/`))
	t.Run("from one build", func(t *testing.T) { // one process has answered for the page, and another build for its parts
		h.answer("GET "+folder+"api.js", http.NotFound)
		p := browser.Tab(h.URL+"/", harness.BypassPolicy())
		defer p.Close()
		p.Until("said instead of nothing", "document.querySelector('main')?.innerText.includes('the server is being replaced')")
		require.Empty(t, p.Violations())
		h.answer("GET "+folder+"api.js", nil)
		p.Ask("setTimeout(() => location.reload())", nil)
		p.Says("h1", "Groups")
		p.Until("said no more", "!document.body.innerText.includes('is being loaded')")
	})

	t.Run("not in an old browser", func(t *testing.T) {
		p := browser.Tab(h.URL+"/", harness.BypassPolicy(), harness.Old())
		defer p.Close()
		p.Until("said instead of nothing", "document.querySelector('main')?.innerText.includes('This browser is too old')")
		require.Empty(t, p.Violations())
	})

	h.answer("GET "+folder+"audit.js", away("the process stops"))
	p := browser.Tab(h.URL+"/#/readiness", harness.BypassPolicy())
	p.Says("td", "one")
	p.Until("another part is there, too", "performance.getEntriesByType('resource').some((e) => e.name.endsWith('/fleet.js'))")
	p.Click(".nav a", "Audit")
	p.Says(".banner", "this part of the page cannot be loaded")
	require.Empty(t, p.Violations())
	h.answer("GET "+folder+"audit.js", nil)
	p.Says("h1", "Audit")
	p.Says("form button", "Filter")
	p.Until("nothing is wrong", "document.querySelector('.banner').hidden")

	another := saying(strings.ReplaceAll(string(text), folder[1:], "page/0123456789abcdef/"))
	t.Run("of a view without a stream", func(_ *testing.T) {
		p := browser.Tab(h.URL+"/#/readiness", harness.BypassPolicy())
		defer p.Close()
		p.Says("td", "one")
		h.answer("GET /", another)
		h.answer("GET /v2/readiness-rules", away("the process stops"))
		p.Says(".banner", "the process stops")
		h.answer("GET /v2/readiness-rules", nil)
		p.Says(".banner", "Drover was replaced")
		p.Until("nothing else is said", read+" && document.querySelector('.wenton').innerText === ''")
		h.answer("GET /", nil)
	})

	const document = `{"name":"web","states":{"actions":[]},"deployedStatus":"Instantiated","apps":[]}`
	p.Ask("location.hash = '#/groups/demo/shop/v1/web'", nil)
	s := h.next()
	h.tell(s, "status", document)
	p.Until("live", live)
	h.answer("GET /", another)
	h.tell(s, "end", `{"kind":"Unavailable","reason":"the process stops"}`)
	h.tell(h.next(), "status", document)
	p.Says(".banner", "Drover was replaced")
	everywhere(t, p, "replaced")
	h.answer("GET /", nil)
	p.Click(".banner button", "Load")
	p.Until("loaded again", "!document.querySelectorAll('.banner')[1].checkVisibility()")
	require.Empty(t, p.Wrong())
}

// TestThePageComesBack: a list that one comes back to is as one has left it, and to have looked at cells is no way to go back.
func TestThePageComesBack(t *testing.T) {
	t.Parallel()
	const many = 60
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newKeptHost(ctx, t, oneCell)
	h.answer("GET /v2/deployment-intent-groups", h.stream)
	h.answer("GET /v2/operations", h.stream)
	p := browser.Tab(h.URL+"/", harness.BypassPolicy())
	groups := make([]string, many)
	for n := range groups {
		state := []string{"Instantiated", "Terminated"}[n%2]
		groups[n] = fmt.Sprintf(`"projects/demo/composite-apps/shop/v1/deployment-intent-groups/web%02d":{"state":%q,"contextStatus":%q,"health":{"ready":false,"counts":{"NotReady":1}}}`, n, state, state)
	}
	list := "{" + strings.Join(groups, ",") + `,"projects/demo/composite-apps/shop/v1/deployment-intent-groups/other":{"state":"Instantiated","contextStatus":"Instantiated"}}`
	h.tell(h.next(), "status", list)
	p.Says(".rows", "other")
	nothing := func(words string) {
		t.Helper()
		p.Until(words, fmt.Sprintf(`[...document.querySelectorAll(".empty")].some((e) => e.checkVisibility() && e.innerText.includes(%q))`, words))
	}
	findGroup(p, "deployment") // which is in the path of each
	nothing("No group is like that now")
	findGroup(p, "demo/shop")
	p.Says(".rows", "other")
	p.Size(390, 844)
	p.Until("a phone says where each is", `document.querySelector(".rows .row").innerText.includes("demo / shop v1") && document.documentElement.scrollWidth <= innerWidth`)
	require.Empty(t, p.Violations())
	p.Screenshot("page-groups-place")
	p.Size(1400, 900)
	findGroup(p, "web")
	p.Click(".chip.is-ready", "Instantiated")
	p.Click("button", "not ready")
	const there = `scrollY === 300 && document.querySelector(".search").value === "web" && document.querySelector(".chip[aria-pressed=true]")?.dataset.state === "ready" && document.querySelectorAll("button[aria-pressed=true]").length === 2`
	p.Ask("scrollTo(0, 300)", nil)
	p.Until("far down", there)
	p.Click(".rows a", "web20")
	p.Says("h1", "web20")
	p.Until("at its head", "scrollY === 0")
	p.Ask("setTimeout(() => history.back())", nil)
	s := h.next()
	h.tell(s, "status", list)
	p.Until("as it was left", there)
	p.Click(".nav a", "Groups")
	p.Until("all of them", `document.querySelector(".search").value === "" && document.querySelectorAll("button[aria-pressed=true]").length === 0`)
	p.Says(".rows", "other")

	// What was looked for is looked for on, as the address says, also where nothing is like that any more.
	var gone []string
	for n := range many {
		gone = append(gone, fmt.Sprintf(`"projects/demo/composite-apps/shop/v1/deployment-intent-groups/web%02d":null`, n))
	}
	h.tell(s, "change", "{"+strings.Join(gone, ",")+"}")
	for query, says := range map[string]string{"state=failed": "0 Failed", "ready=no": "0 not ready"} {
		p.Ask("location.hash = '#/groups?"+query+"'", nil)
		nothing("No group is like that now")
		p.Until("it says so", fmt.Sprintf(`document.querySelector("button[aria-pressed=true]").textContent.trim() === %q`, says))
		require.Empty(t, p.Violations())
		p.Click("button[aria-pressed=true]", "")
		p.Says(".rows", "other")
		p.Until("the address says no more than that", "location.hash === '#/groups'")
	}

	p.Click(".nav a", "Fleet")
	clusters := `{"cluster-providers/east/clusters/c1":{"connectivity":"Available","report":"none","groups":0,"labels":["edge"]},"cluster-providers/west/clusters/c2":{"connectivity":"Available","report":"none","groups":0}}`
	h.tell(h.next(), "status", clusters)
	p.Says(".tile", "c1")
	p.Ask("location.hash = '#/fleet?expiring=yes'", nil)
	nothing("No cluster is like that now")
	p.Click("button[aria-pressed=true]", "0 with credentials that expire")
	p.Says(".tile", "c1")
	find := func(words string) {
		p.Ask(fmt.Sprintf(`((box) => { box.value = %q; box.dispatchEvent(new Event("input")); })(document.querySelector("input.search"))`, words), nil)
	}
	find("cluster")
	nothing("No cluster is like that now")
	find("")
	choose(p, "Label", "edge")
	choose(p, "Provider", "east")
	p.Until("one of them", "document.querySelectorAll('.tile').length === 1")
	p.Click(".nav a", "Operations")
	h.tell(h.next(), "status", "{"+runs("demo", 1, 3)+"}")
	find("composite")
	nothing("No operation is like that now")
	find("g01")
	p.Until("one operation", "document.querySelectorAll('[data-stop]').length === 1")
	p.Ask("setTimeout(() => history.back())", nil)
	h.tell(h.next(), "status", clusters)
	p.Until("the same cluster", `document.querySelectorAll(".tile").length === 1 && document.querySelector("select[aria-label=Label]").value === "edge"`)
	p.Ask("setTimeout(() => history.forward())", nil)
	h.tell(h.next(), "status", "{"+runs("demo", 1, 3)+"}")
	p.Until("the same operation", `document.querySelectorAll("[data-stop]").length === 1 && document.querySelector(".search").value === "g01"`)

	// Cells that were looked at are left with one step, or none where a link has led to one.
	p.Ask("location.hash = '#/groups/demo/shop/v1/web'", nil)
	h.tell(h.next(), "status", `{"name":"web","states":{"actions":[]},"deployedStatus":"Instantiated","apps":[`+cellsOf("site", "Ready", "Ready")+`]}`)
	for _, cell := range []string{"c0", "c1"} {
		p.Click("a.cell", cell)
		p.Says(".cellbox h2", cell)
	}
	p.Ask("(window.seen = [], true)", nil)
	for n := range 6 {
		p.Click("a.cell", fmt.Sprintf("c%d", n%2))
		p.Says(".cellbox h2", fmt.Sprintf("c%d", n%2))
		p.Says(".cellbox summary", "page")
		p.Ask("(window.seen.push(new WeakRef(document.querySelector('.cellbox .resources'))), true)", nil)
	}
	harness.Until(t.Context(), t, "those that were looked at before are forgotten", func() (forgotten bool) {
		p.Heap() // collects garbage
		p.Ask("window.seen.filter((e) => e.deref()).length < 3", &forgotten)
		return forgotten
	})
	p.Ask("setTimeout(() => { for (let n = 0; n < 2; n++) document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' })); })", nil)
	p.Until("closed", `document.querySelector(".cellbox").hidden && location.hash === "#/groups/demo/shop/v1/web"`)
	p.Ask("setTimeout(() => history.back())", nil)
	h.tell(h.next(), "status", "{"+runs("demo", 1, 3)+"}")
	p.Says("h1", "Operations")
	p.Ask("location.hash = '#/groups/demo/shop/v1/web?cell=site/p%2Bc1'", nil)
	h.next()
	p.Says(".cellbox h2", "c1")
	var before, after int
	p.Ask("history.length", &before)
	p.Click(".cellbox .close", "Close")
	p.Until("closed", `document.querySelector(".cellbox").hidden && location.hash === "#/groups/demo/shop/v1/web"`)
	p.Ask("history.length", &after)
	require.Equal(t, before, after)
	require.Empty(t, p.Wrong())
}

// TestThePageByKeyboard: from cell to cell, over those that are not there, and back to the one that was looked at, wherever it is by then.
func TestThePageByKeyboard(t *testing.T) {
	t.Parallel()
	const many = 200
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newKeptHost(ctx, t, oneCell)
	p := browser.Tab(h.URL+"/#/groups/demo/shop/v1/web", harness.BypassPolicy())
	ready := slices.Repeat([]string{"Ready"}, many)
	holes := slices.Repeat([]string{"Ready", "", ""}, many/3)
	s := h.next()
	h.tell(s, "status", `{"name":"web","states":{"actions":[]},"deployedStatus":"Instantiated","apps":[`+cellsOf("a", ready...)+","+cellsOf("b", holes...)+","+cellsOf("c", ready...)+`]}`)
	cell := func(app string, n int) string {
		return fmt.Sprintf("document.querySelector('a.cell[aria-label^=\"%s on p+c%d:\"]')", app, n)
	}
	on := func(app string, n int) {
		t.Helper()
		p.Until(fmt.Sprintf("on %s of c%d", app, n), "document.activeElement === "+cell(app, n)+" && document.activeElement.checkVisibility({ visibilityProperty: true })")
	}
	p.Until("there", cell("a", 1))
	p.Ask(cell("a", 1)+".focus()", nil)
	p.Press(kb.ArrowRight) // there is none of b: as their names are sorted, c1 is followed by c10, c100, c101, and c102, which has one
	on("c", 1)
	p.Press(kb.ArrowLeft)
	on("a", 1)
	p.Ask(cell("b", 102)+".focus()", nil)
	p.Press(kb.ArrowDown)
	on("b", 105)
	p.Press(kb.ArrowUp)
	on("b", 102)
	p.Press(kb.ArrowLeft)
	on("a", 102)

	// The row of the cell that is looked at becomes that of another cluster.
	p.Press(kb.Enter)
	p.Says(".cellbox h2", "a on p+c102")
	p.Ask("scrollTo(0, document.body.scrollHeight)", nil)
	p.Until("others are in sight", cell("a", 99)+" && !"+cell("a", 102))
	p.Press(kb.Escape)
	p.Until("closed", `document.querySelector(".cellbox").hidden`)
	on("a", 102)

	// On the map, a square that is none says so and opens nothing, unlike the others.
	const click = `(() => {
		const map = document.querySelector(".map canvas");
		const { left, top, width, height } = map.getBoundingClientRect();
		for (let y = 2; y < height; y += 3) for (let x = 2; x < width; x += 3) {
			const at = { clientX: left + x, clientY: top + y, bubbles: true };
			map.dispatchEvent(new MouseEvent("mousemove", at));
			if (!%s.test(map.title)) continue;
			map.dispatchEvent(new MouseEvent("click", at));
			return map.title;
		}
	})()`
	var title string
	p.Ask(fmt.Sprintf(click, "/: nothing$/"), &title)
	require.Regexp(t, `^b on p\+c\d+: nothing$`, title)
	p.Ask("new Promise((done) => { setTimeout(done, 200) })", nil)
	p.Until("nothing is opened", `document.querySelector(".cellbox").hidden && location.hash === "#/groups/demo/shop/v1/web"`)
	p.Ask(fmt.Sprintf(click, "/^b on .*: Ready$/"), &title)
	p.Says(".cellbox h2", strings.TrimSuffix(title, ": Ready"))
	require.Empty(t, p.Violations())
	require.Empty(t, p.Wrong())
}
