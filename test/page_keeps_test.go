package test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/test/harness"
)

// keptGroup is a group of which the test says what becomes of it.
const keptGroup = "/v2/projects/demo/composite-apps/shop/v1/deployment-intent-groups/web"

// keptHost serves it.
type keptHost struct {
	*answersHost
	t   *testing.T
	ctx context.Context
	id  int
}

// newKeptHost has a group of which a status says document, beside what its stream tells.
func newKeptHost(ctx context.Context, t *testing.T, document string) *keptHost {
	t.Helper()
	h := &keptHost{answersHost: newAnswersHost(t), t: t, ctx: ctx}
	h.answer("GET "+keptGroup+"/status", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			h.stream(w, r)
			return
		}
		saying(document)(w, r)
	})
	return h
}

// next is the next stream that the page asks for.
func (h *keptHost) next() *pageStream {
	h.t.Helper()
	select {
	case s := <-h.streams:
		return s
	case <-h.ctx.Done():
		require.FailNow(h.t, "no stream is asked for")
		return nil
	}
}

// tell tells an event to who reads a stream.
func (h *keptHost) tell(s *pageStream, kind, data string) {
	h.t.Helper()
	h.id++
	select {
	case s.events <- fmt.Sprintf("id: %d\nevent: %s\ndata: %s", h.id, kind, data):
	case <-h.ctx.Done():
		require.FailNow(h.t, "nobody reads")
	}
}

// counted counts how often something is asked for.
func counted(answer http.HandlerFunc) (http.HandlerFunc, *atomic.Int32) {
	var n atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		answer(w, r)
	}, &n
}

// away answers that something cannot be had now.
func away(why string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		saying(`{"detail":"`+why+`"}`)(w, r)
	}
}

// explaining is an explanation of a group.
func explaining(more string) http.HandlerFunc {
	return saying(`{"resource":"g","kind":"deployment intent group","asWished":true,"reasons":[],` + more + `}`)
}

const (
	oneResource = `"resources":[{"GVK":{"Version":"v1","Kind":"ConfigMap"},"name":"page","readyStatus":"Ready"}]`
	oneCell     = `{"name":"web","states":{"actions":[]},"deployedStatus":"Instantiated","apps":[{"name":"site","clusters":[{"clusterProvider":"p","cluster":"c",` + oneResource + `}]}]}`
	noDialog    = "!document.querySelector('dialog')"
)

// cellsOf is an app on clusters as a stream tells of it: each with what is ready.
func cellsOf(app string, ready ...string) string {
	clusters := ""
	for n, r := range ready {
		if r == "" {
			continue
		}
		if clusters != "" {
			clusters += ","
		}
		clusters += fmt.Sprintf(`{"clusterProvider":"p","cluster":"c%d","deployedCounts":{"Applied":1},"readyCounts":{%q:1}}`, n, r)
	}
	return fmt.Sprintf(`{"name":%q,"clusters":[%s]}`, app, clusters)
}

// TestThePageKeepsUpWithAGroup: what is shown of one is what holds now, also where it was read but once.
func TestThePageKeepsUpWithAGroup(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newKeptHost(ctx, t, oneCell)
	page := h.URL + "/#/groups/demo/shop/v1/web"
	const begin = `{"name":"web","states":{"actions":[]},"deployedStatus":"Instantiated","apps":[%s]}`

	t.Run("a cell", func(t *testing.T) {
		p := browser.Tab(page+"?cell=site/p%2Bc1", harness.BypassPolicy())
		defer p.Close()
		s := h.next()
		p.Says(".cellbox summary", "page")
		p.Until("nobody knows yet where it stands", "document.querySelector('.cellbox p.state').hidden")
		h.tell(s, "status", fmt.Sprintf(begin, cellsOf("site", "", "NotReady")))
		p.Says(".cellbox .state.is-notready", "Not ready")
		h.tell(s, "change", `{"apps":[`+cellsOf("site", "", "Ready")+`]}`)
		p.Says(".cellbox .state.is-ready", "Ready")
		h.tell(s, "change", `{"removed":[{"app":"site","clusterProvider":"p","cluster":"c1"}]}`)
		p.Says(".cellbox .state.is-gone", "Gone")
		p.Ask("location.hash = '#/groups/demo/shop/v1/web?cell=other/p%2Bc1'", nil)
		p.Says(".cellbox h2", "other on p+c1")
		p.Says(".cellbox p", "This app does not go to this cluster.")
		p.Until("nothing has gone that was never there", "!document.querySelector('.cellbox .state')")
		require.Empty(t, p.Wrong())
	})

	t.Run("a cell with two of a name", func(t *testing.T) {
		h := newKeptHost(ctx, t, oneCell)
		roles := func(from, namespace string) string {
			return fmt.Sprintf(`{"GVK":{"Group":"rbac.authorization.k8s.io","Version":"v1","Kind":"Role"},"name":"leader","message":"%s in %s","detail":{"metadata":{"namespace":%q}}}`, from, namespace, namespace)
		}
		h.answer("GET "+keptGroup+"/status", func(w http.ResponseWriter, r *http.Request) {
			resources := roles("done", "a") + "," + roles("done", "b")
			switch q := r.URL.Query(); {
			case q.Get("watch") != "":
				h.stream(w, r)
				return
			case q.Get("type") == "":
				resources = roles("ready", "b") + "," + roles("ready", "a")
			}
			saying(`{"apps":[{"name":"site","clusters":[{"clusterProvider":"p","cluster":"c1","resources":[`+resources+`]}]}]}`)(w, r)
		})
		p := browser.Tab(h.URL+"/#/groups/demo/shop/v1/web?cell=site/p%2Bc1", harness.BypassPolicy())
		defer p.Close()
		p.Says(".cellbox summary", "leader")
		p.Until("each in one line", `((all) => all.length === 2 && ['a', 'b'].every((n, i) => all[i].includes('done in ' + n) && all[i].includes('ready in ' + n)))(`+
			`[...document.querySelectorAll('.cellbox .resources > li')].map((e) => e.textContent))`)
		require.Empty(t, p.Wrong())
	})

	t.Run("the worst cell", func(t *testing.T) {
		p := browser.Tab(page, harness.BypassPolicy())
		defer p.Close()
		s := h.next()
		h.tell(s, "status", fmt.Sprintf(begin, cellsOf("a", "Ready")+","+cellsOf("b", "Ready", "Ready"))) // a is not on c1
		p.Click("button", "Worst first")
		h.tell(s, "change", `{"apps":[`+cellsOf("b", "", "NotReady")+`]}`)
		p.Until("the worst is first", "document.querySelector('.matrix .rows .name')?.innerText.includes('c1')")
		require.Empty(t, p.Wrong())
	})

	t.Run("what was read once", func(t *testing.T) {
		preview, previews := counted(saying(`{"group":"g","apps":[]}`))
		diff, diffs := counted(saying(`{"changes":{},"clusters":0,"unchanged":1,"items":[]}`))
		operations, asked := counted(saying(`{"items":[]}`))
		h.answer("GET "+keptGroup+"/preview", preview)
		h.answer("GET "+keptGroup+"/diff", diff)
		h.answer("GET /v2/operations", operations)
		p := browser.Tab(page+"?tab=placement", harness.BypassPolicy())
		defer p.Close()
		s := h.next()
		h.tell(s, "status", fmt.Sprintf(begin, ""))
		p.Says(".title .state", "Instantiated")
		for n, tab := range []struct {
			name  string
			asked *atomic.Int32
		}{{"placement", previews}, {"changes", diffs}, {"history", asked}} {
			p.Ask("location.hash = '#/groups/demo/shop/v1/web?tab="+tab.name+"'", nil)
			harness.Until(ctx, t, "read", func() bool { return tab.asked.Load() == 1 })
			h.tell(s, "change", `{"warnings":["one"]}`)
			h.tell(s, "change", fmt.Sprintf(`{"deployedStatus":"Terminat%d"}`, n))
			harness.Until(ctx, t, tab.name+" read anew", func() bool { return tab.asked.Load() == 2 })
			read := func(times int32) {
				t.Helper()
				harness.Until(ctx, t, fmt.Sprintf("%s read %d times", tab.name, times), func() bool { return tab.asked.Load() == times })
				p.Until("it says when", `/^Read .*\d:\d\d/.test(document.querySelector(".body [role=status]").innerText) && !document.querySelector(".body [role=status]").innerText.includes("again")`)
			}
			read(2)
			p.Click(".body button", "Read again")
			read(3)
			look(p, false)
			look(p, true)
			read(4)
			h.tell(s, "end", `{"kind":"Unavailable","reason":"the process stops"}`)
			s = h.next()
			h.tell(s, "status", fmt.Sprintf(`{"name":"web","states":{"actions":[]},"deployedStatus":"Terminat%d","apps":[]}`, n))
			read(5)
			everywhere(t, p, "as-of-"+tab.name)
		}
		require.Empty(t, p.Wrong())
	})

	t.Run("what is ready", func(t *testing.T) {
		p := browser.Tab(page, harness.BypassPolicy())
		defer p.Close()
		s := h.next()
		h.tell(s, "status", fmt.Sprintf(begin, ""))
		for says, change := range map[string]string{
			"Instantiated and not confirmed": `{"deployedStatus":"Instantiated","readyStatus":"NotReady","readyCounts":{"Ready":2},"unconfirmedClusters":1}`,
			"Instantiated and not ready":     `{"deployedStatus":"Instantiated","readyStatus":"NotReady","readyCounts":{"Ready":2,"NotReady":1},"unconfirmedClusters":null}`,
			"Terminated":                     `{"deployedStatus":"Terminated","readyStatus":"NotReady","readyCounts":null}`,
		} {
			h.tell(s, "change", change)
			p.Until(says, fmt.Sprintf("document.querySelector('.title .state').textContent === %q", says))
		}
		require.Empty(t, p.Wrong())
	})

	t.Run("what is old", func(t *testing.T) {
		h.answer("GET "+keptGroup+"/explain", explaining(`"summary":"one cluster does not answer","may":["update","terminate"],"reasons":[{"kind":"Waiting","text":"it waits","error":"connection refused"}],"warnings":["one"]`))
		p := browser.Tab(page, harness.BypassPolicy())
		defer p.Close()
		s := h.next()
		states := []string{
			`"deployedCounts":{"Failed":1}`, `"deployedCounts":{"Retrying":1}`, `"deployedCounts":{"Applied":1},"readyCounts":{"NotReady":1}`,
			`"deployedCounts":{"Applied":1},"stale":true,"reason":"not heard"`, `"deployedCounts":{"Pending":1}`, `"deployedCounts":{"Applied":1}`,
			`"deployedCounts":{"Applied":1},"readyCounts":{"Ready":1}`, `"deployedCounts":{"Deleted":1}`,
		}
		cells := make([]string, 40) // as many have a map
		for n := range cells {
			cells[n] = fmt.Sprintf(`{"clusterProvider":"p","cluster":"c%02d",%s}`, n, states[n%len(states)])
		}
		group := fmt.Sprintf(begin, `{"name":"site","clusters":[`+strings.Join(cells, ",")+`]}`)
		h.tell(s, "status", group)
		p.Until("each in its state", "new Set([...document.querySelectorAll('a.cell')].map((c) => c.className)).size === 8")
		p.Says("[data-operation=update]", "Update")
		h.tell(s, "end", `{"kind":"Unavailable","reason":"the process stops"}`)
		p.Until("lost", lost)
		everywhere(t, p, "lost")
		var grey bool
		p.Ask(`[...document.querySelectorAll('a.cell, .why, .state, [data-operation], .chip')].every((e) => {
			const rgb = getComputedStyle(e).color.match(/\d+/g).slice(0, 3).map(Number);
			return Math.max(...rgb) - Math.min(...rgb) < 20;
		})`, &grey)
		require.True(t, grey, "it is not told from what is as of now")
		h.tell(h.next(), "status", group)
		p.Until("live", live)
		var coloured bool // though light and dark have changed meanwhile
		p.Ask(`((c) => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.reduce((most, _, i, all) => Math.max(most, i % 4 ? most : Math.abs(all[i] - all[i + 2])), 0) > 60)(document.querySelector('.map canvas'))`, &coloured)
		require.True(t, coloured, "the map is as before")
		require.Empty(t, p.Wrong())
	})

	t.Run("what one reads", func(t *testing.T) { // it is where it was after a change
		h := newKeptHost(ctx, t, oneCell)
		p := browser.Tab(h.URL+"/#/groups/demo/shop/v1/web?tab=tables", harness.BypassPolicy())
		defer p.Close()
		p.Size(390, 844)
		wide := strings.Repeat("wide", 40)
		tables := func(says string) http.HandlerFunc {
			return saying(`{"items":[{"metadata":{"annotations":{"drover.io/app":"site"}},"inputs":{"reported":1,"clusters":2,"stale":1,"unconfirmed":[{"clusterId":"p+c","reason":"not heard"}]},
				"results":[{"name":"seen","columnNames":["a","b"],"rows":[{"columns":[{"type":"String","string":"` + wide + `"},{"type":"String","string":"` + says + `"}]}],
				"totalRowErrors":1,"rowErrors":[{"wec":{"clusterId":"p+c"},"columnName":"a","error":"none"}],"aggregationErrors":[{"columnName":"a","error":"none"}]}]}]}`)
		}
		h.answer("GET "+keptGroup+"/combined-status", tables("before"))
		h.tell(h.next(), "status", fmt.Sprintf(begin, cellsOf("site", "", "Ready")))
		p.Says("td", "before")
		p.Ask("(document.querySelectorAll('.body details').forEach((d) => { d.open = true; }), document.querySelector('.scroll').scrollLeft = 90)", nil)
		h.answer("GET "+keptGroup+"/combined-status", tables("after"))
		p.Says("td", "after")
		p.Until("open, and as far to the right", "document.querySelectorAll('.body details[open]').length === 3 && document.querySelector('.scroll').scrollLeft === 90")
	})

	t.Run("what one reads of a cell", func(t *testing.T) {
		cell := func(says string) string {
			object := strings.Repeat(`"line",`, 200)
			return `{"apps":[{"name":"site","clusters":[{"clusterProvider":"p","cluster":"c1","reason":"` + says + `","resources":[{"GVK":{"Version":"v1","Kind":"ConfigMap"},"name":"page","readyStatus":"Ready","detail":{"a":[` + object + `1]}}]}]}]}`
		}
		var now atomic.Value
		now.Store(cell("3s ago"))
		h := newKeptHost(ctx, t, "")
		h.answer("GET "+keptGroup+"/status", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("watch") != "" {
				h.stream(w, r)
				return
			}
			saying(now.Load().(string))(w, r)
		})
		p := browser.Tab(h.URL+"/#/groups/demo/shop/v1/web?cell=site/p%2Bc1", harness.BypassPolicy())
		defer p.Close()
		p.Click(".cellbox summary", "page")
		p.Says("pre", "line")
		p.Ask("(document.querySelector('pre').scrollTop = 300, document.querySelector('.cellbox').scrollTop = 20)", nil)
		now.Store(cell("8s ago"))
		p.Says(".cellbox p", "8s ago")
		p.Until("as far down", "document.querySelector('pre').scrollTop === 300")
	})

	many := func() string { // more apps than a phone has room for
		apps := make([]string, 12)
		for n := range apps {
			apps[n] = cellsOf(fmt.Sprintf("app%02d", n), slices.Repeat([]string{"Ready"}, 40)...)
		}
		return fmt.Sprintf(begin, strings.Join(apps, ","))
	}

	t.Run("many apps on a phone", func(t *testing.T) {
		p := browser.Tab(page, harness.BypassPolicy())
		defer p.Close()
		p.Size(390, 844)
		h.tell(h.next(), "status", many())
		const cell = "document.querySelector('a.cell[aria-label^=\"app%02d on p+c0:\"]')"
		last := fmt.Sprintf(cell, 11)
		p.Until("there", last)
		p.Until("no wider than the screen", "document.documentElement.scrollWidth <= innerWidth")
		inSight := func(what string) {
			t.Helper()
			p.Until(what, fmt.Sprintf(`((cell, name) => {
				const { left, right, top, bottom } = cell.getBoundingClientRect();
				return left >= name.getBoundingClientRect().right && right <= innerWidth && document.elementFromPoint((left + right) / 2, (top + bottom) / 2)?.closest('a') === cell && name.getBoundingClientRect().left >= 0;
			})(%s, document.querySelector('.matrix .rows .name'))`, last))
		}
		p.Ask("(scrollTo(0, document.querySelector('.matrix').getBoundingClientRect().top + scrollY - 200), document.querySelector('.matrix').scrollLeft = 9999)", nil)
		inSight("the last one, beside its cluster")
		require.Empty(t, p.Violations())
		p.Screenshot("page-many-apps-phone")
		p.Ask("(document.querySelector('.matrix').scrollLeft = 0, "+fmt.Sprintf(cell, 10)+".focus({ preventScroll: true }))", nil)
		p.Press(kb.ArrowRight)
		inSight("the last one by the keyboard")
		require.Empty(t, p.Wrong())
	})

	t.Run("a banner on a phone", func(t *testing.T) {
		p := browser.Tab(page, harness.BypassPolicy())
		defer p.Close()
		p.Size(390, 844)
		s := h.next()
		h.tell(s, "status", many())
		p.Says(".matrix", "app11")
		h.tell(s, "end", `{"kind":"Unavailable","reason":"the process stops"}`)
		p.Until("lost", lost)
		p.Ask("scrollTo(0, 300)", nil)
		p.Until("in sight", `scrollY > 0 && ((r) => document.elementFromPoint((r.left + r.right) / 2, (r.top + r.bottom) / 2)?.closest('.banner'))(document.querySelector('.banner').getBoundingClientRect())`)
		require.Empty(t, p.Wrong())
		h.next() // the page asks again: left there, it would be taken for the next page's
	})

	t.Run("by the clock of the API", func(t *testing.T) {
		h.mu.Lock()
		h.ahead = time.Hour
		h.mu.Unlock()
		p := browser.Tab(page, harness.BypassPolicy())
		defer p.Close()
		h.tell(h.next(), "status", fmt.Sprintf(`{"name":"web","states":{"actions":[{"state":"Instantiated","time":%q}]},"apps":[]}`, time.Now().Add(time.Hour-100*time.Second).Format(time.RFC3339)))
		p.Until("as old as it is", `/\b[1-4]m/.test(document.querySelector('.facts time')?.innerText)`)
		require.Empty(t, p.Wrong())
	})
}

// TestThePageKeepsToWhomItKnows: all tabs have one session, and in another one somebody else may have logged in.
func TestThePageKeepsToWhomItKnows(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newKeptHost(ctx, t, oneCell)
	who := func(name string) {
		h.answer("GET /v2/whoami", saying(fmt.Sprintf(`{"kind":"user","name":%q,"by":"session of %s"}`, name, name)))
	}
	who("one")
	const document = `{"name":"web","states":{"actions":[]},"deployedStatus":"Instantiated","apps":[]}`
	p := browser.Tab(h.URL+"/#/groups/demo/shop/v1/web", harness.BypassPolicy())
	h.tell(h.next(), "status", document)
	p.Says(".who", "one")
	p.Click("[data-operation=terminate]", "Terminate")
	p.Says("dialog", "Nothing is known to be in any cluster")
	p.Ask("(window.shown = document.querySelector('h1'), true)", nil)

	look(p, false)
	look(p, true)
	p.Ask("new Promise((done) => { setTimeout(done, 300) })", nil)
	p.Until("it asks the same one", "document.querySelector('dialog') && window.shown.isConnected")
	who("two")
	look(p, false)
	look(p, true)
	p.Says(".who", "two")
	p.Until("what the other one was asked is gone", noDialog)
	s := h.next()
	h.tell(s, "status", document)
	p.Until("all is read anew", "!window.shown.isConnected && document.querySelector('h1')?.innerText === 'web'")
	p.Says(".title .state", "Instantiated")

	who("three")
	h.tell(s, "end", `{"kind":"Unavailable","reason":"the session has ended"}`)
	h.tell(h.next(), "status", document)
	p.Says(".who", "three")

	// Who is refused with a token that is the tab's no more says nothing of the one that is.
	h.answer("GET /v2/late", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	var told int
	p.Ask(`import(document.scripts[0].src.replace('main.js', 'api.js')).then(async (m) => {
		let told = 0;
		m.refused.addEventListener('refused', (e) => { told++; e.stopImmediatePropagation(); });
		m.keepToken('old');
		const late = m.get('late').catch(() => {});
		m.keepToken('new');
		await late;
		m.keepToken('');
		return told;
	})`, &told)
	require.Zero(t, told)
	require.Empty(t, p.Wrong())
}

// TestThePageDoesWhatItHasSaid: a box says what an operation will do, and does nothing where something else has been asked for since.
func TestThePageDoesWhatItHasSaid(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newKeptHost(ctx, t, oneCell)
	const now = "GET " + keptGroup + "/explain"
	terminate, terminated := counted(saying("{}"))
	h.answer("POST "+keptGroup+"/terminate", terminate)
	h.answer(now, explaining(`"instance":"i1","state":"Instantiated","since":"2026-01-01T00:00:00Z","status":"Instantiated","summary":"all is well","may":["terminate"]`))
	p := browser.Tab(h.URL+"/#/groups/demo/shop/v1/web", harness.BypassPolicy())
	h.tell(h.next(), "status", `{"name":"web","states":{"actions":[]},"deployedStatus":"Instantiated","apps":[]}`)
	p.Click("[data-operation=terminate]", "Terminate")
	p.Says("dialog", "Nothing is known to be in any cluster")
	h.answer(now, explaining(`"instance":"i2","state":"Instantiated","since":"2026-01-01T00:00:09Z","status":"TerminateFailed","summary":"it is another one","may":["terminate","instantiate","approve"]`))
	p.Click("dialog button", "Terminate")
	p.Says("dialog", "Something else was asked for since this has opened, and nothing is done. Now: it is another one")
	p.Until("nothing to confirm", "document.querySelectorAll('dialog button').length === 1")
	require.Zero(t, terminated.Load())
	p.Click("dialog button", "Close")
	p.Click("[data-operation=terminate]", "Terminate")
	p.Says("dialog", "Nothing is known to be in any cluster")
	p.Click("dialog button", "Terminate")
	harness.Until(ctx, t, "asked for once it is said", func() bool { return terminated.Load() == 1 })
	p.Until("closed", noDialog)

	// What a terminate has left is said, and resources that only some clusters get are counted where they go.
	h.answer("GET "+keptGroup+"/diff", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("operation") != "instantiate" {
			away("of another operation")(w, r)
			return
		}
		saying(`{"changes":{"create":2,"delete":3},"clusters":2,"unchanged":0,"items":[]}`)(w, r)
	})
	h.answer("GET "+keptGroup+"/preview", saying(`{"group":"g","apps":[{"app":"site","resources":3,"total":4,"clusters":[{"cluster":"p+a","placement":"allOf"},{"cluster":"p+b","placement":"allOf"}]}]}`))
	p.Click("[data-operation=instantiate]", "Instantiate")
	p.Says("dialog", "2 created, 3 deleted")
	require.Empty(t, p.Violations())
	p.Click("dialog button", "Cancel")
	p.Until("closed", noDialog)
	p.Click("[data-operation=approve]", "Approve")
	p.Says("dialog", "4 resources of 1 app on 2 clusters")
	require.Empty(t, p.Violations())

	// What was foreseen long ago is found out again, and has to be confirmed again where it is another thing.
	approve, approved := counted(saying("{}"))
	h.answer("POST "+keptGroup+"/approve", approve)
	later := func() { p.Ask("((f) => { Date.now = () => f() + 60_000 })(Date.now.bind(Date))", nil) }
	later()
	h.answer("GET "+keptGroup+"/preview", saying(`{"group":"g","apps":[{"app":"site","resources":3,"total":5,"clusters":[{"cluster":"p+a","placement":"allOf"},{"cluster":"p+b","placement":"allOf"}]}]}`))
	p.Click("dialog button", "Approve")
	p.Says("dialog", "5 resources of 1 app on 2 clusters")
	p.Says("dialog .warn", "nothing is done yet")
	require.Empty(t, p.Violations())
	require.Zero(t, approved.Load())
	later()
	p.Click("dialog button", "Approve")
	p.Until("closed", noDialog)
	require.EqualValues(t, 1, approved.Load())

	// An operation that has ended is not stopped in the one that goes on now.
	h.answer("GET /v2/operations", h.stream)
	h.answer(now, explaining(`"instance":"i3","state":"Instantiated","summary":"an update goes on","operation":{"operation":"update","workflow":{"id":"w3","runID":"r3"}}`))
	p.Ask("location.hash = '#/operations'", nil)
	s := h.next()
	for s.path != "/v2/operations" { // that of the group was begun anew, as it has said nothing for minutes
		s = h.next()
	}
	going := func(run string) string {
		return fmt.Sprintf(`%q:{"id":"i-update","instance":"i","resource":%q,"operation":"update","state":"Running","started":"2026-01-01T00:00:00Z","workflow":{"id":"w","runID":%q}}`, run, keptGroup[len("/v2/"):], run)
	}
	h.tell(s, "status", "{"+going("r2")+"}")
	p.Click("[data-stop]", "Stop")
	p.Says("dialog", "It has ended. Now: an update goes on")
	p.Until("nothing to confirm", "[...document.querySelectorAll('dialog button')].filter((b) => !b.disabled).length === 1")
	p.Click("dialog button", "Cancel")

	// What a stop leaves is counted, and one goes on without that where nobody says it.
	h.answer("GET "+keptGroup+"/status", saying(`{"apps":[{"name":"site","clusters":[{"clusterProvider":"p","cluster":"a","deployedCounts":{"Applied":2}},{"clusterProvider":"p","cluster":"b","deployedCounts":{"Pending":1,"Deleted":4}}]}]}`))
	h.tell(s, "change", `{"r2":null,`+strings.ReplaceAll(going("r3"), "Z", `Z","requestedBy":"the third`)+`}`)
	p.Says("td", "the third")
	p.Click("[data-stop]", "Stop")
	p.Says("dialog", "Up to 3 resources on 2 clusters may be there.")
	p.Says("dialog", "Now: an update goes on")
	require.Empty(t, p.Violations())
	p.Click("dialog button", "Cancel")
	h.answer("GET "+keptGroup+"/status", away("the store is away"))
	p.Until("closed", noDialog)
	p.Click("[data-stop]", "Stop")
	p.Says("dialog", "could not be found out: the store is away")
	p.Until("it can be stopped", "!document.querySelector('dialog .danger').disabled")
	p.Click("dialog button", "Cancel")
	h.tell(s, "change", `{"r3":null,`+going("r2")+`}`)

	// Another run on the same resource waits for something else, and of those that have ended there may be more.
	p.Says("td", "an update goes on")
	h.answer(now, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	h.tell(s, "change", `{"r2":null,`+strings.ReplaceAll(going("r4"), "Z", `Z","requestedBy":"another`)+`}`)
	p.Says("td", "another")
	var says string
	p.Ask("document.querySelector('td.long').innerText", &says)
	require.Equal(t, "Find out", says)
	ended := `"x":null`
	for n := range 100 {
		ended += fmt.Sprintf(`,"e%d":{"id":"i","instance":"i","resource":"r","operation":"update","state":"Succeeded","started":"2026-01-01T00:00:00Z","workflow":{"id":"w","runID":"e%d"}}`, n, n)
	}
	h.tell(s, "change", "{"+ended+"}")
	p.Says("p", "of the last 100 that have ended")
	require.Empty(t, p.Wrong())
}

// TestThePageKeepsItsPlace: what was opened stays open, and the keyboard where it was, when what is said of it is another thing. What cannot be
// read is said, and what is not there any more is not.
func TestThePageKeepsItsPlace(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newKeptHost(ctx, t, oneCell)
	const cluster, tenant = "/v2/cluster-providers/p/clusters/c", "/v2/tenants/t"
	reason := func(n int) string {
		return fmt.Sprintf(`"summary":"it waits","reasons":[{"kind":"Waiting","text":"%d clusters wait","examples":[{"app":"site","cluster":"p+c1"}]},{"kind":"Waiting","text":"another"}]`, n)
	}
	h.answer("GET "+cluster+"/explain", saying(`{"resource":"c","kind":"cluster","asWished":false,`+reason(3)+`}`))
	h.answer("GET "+cluster+"/status", saying(`{"report":"agentless","heard":true}`))
	h.answer("GET "+cluster+"/labels", away("the store is away"))
	h.answer("GET /v2/operations", away("the engine is away"))
	p := browser.Tab(h.URL+"/#/fleet/p/c", harness.BypassPolicy())
	p.Says(".facts", "Labels could not be read: the store is away")
	p.Says(".wrong", "They could not be read: the engine is away")
	p.Ask("(document.querySelector('.why summary').focus(), document.querySelector('.why summary').click())", nil)
	h.answer("GET "+cluster+"/explain", saying(`{"resource":"c","kind":"cluster","asWished":false,`+reason(2)+`}`))
	p.Says(".why summary", "2 clusters wait")
	p.Until("it is open, and no other one", "document.querySelectorAll('.why details[open]').length === 1 && document.querySelector('.why details').open")
	p.Until("the keyboard is there", "document.activeElement === document.querySelector('.why summary')")
	var kept bool
	p.Ask(`import(document.scripts[0].src.replace('main.js', 'dom.js')).then(({ fill, h }) => {
		const [box, button] = [document.body.appendChild(h('div')), h('button', {}, 'one')];
		fill(box, button);
		button.focus();
		fill(box, h('p', {}, 'more'), button);
		const kept = document.activeElement === button;
		box.remove();
		return kept;
	})`, &kept)
	require.True(t, kept, "the keyboard on what was put back")

	h.answer("GET "+cluster+"/status", saying(`{"report":"agentless","heard":false,"connectivity":"Available","deployments":[{"resource":"projects/demo/logical-clouds/lc","kind":"logical cloud","asWished":true}]}`))
	p.Says(".title .state.is-applied", "Idle") // a logical cloud is no group, as in the fleet

	h.answer("GET "+tenant, saying(`{"metadata":{"name":"t"}}`))
	h.answer("GET "+tenant+"/explain", saying(`{"resource":"t","kind":"tenant","asWished":true,"summary":"it is connected","reasons":[]}`))
	h.answer("GET "+tenant+"/status", saying(`{"connected":true}`))
	h.answer("GET "+tenant+"/matches", saying(`{"items":[]}`))
	p.Ask("location.hash = '#/tenants/t'", nil)
	p.Says(".why", "it is connected")
	h.answer("GET "+tenant, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		saying(`{"detail":"there is none"}`)(w, r)
	})
	p.Says(".wrong", "There is no such thing")
	p.Until("nothing is said of where it stands", "document.querySelector('.why').hidden")

	at := time.Now().Format(time.RFC3339)
	h.answer("GET /v2/audit", saying(fmt.Sprintf(`{"items":[{"time":%q,"event":"answered","outcome":"done","verb":"create"}]}`, at)))
	p.Ask("location.hash = '#/audit'", nil)
	p.Until("a record has its day, for tomorrow", fmt.Sprintf("document.querySelector('td.nowrap')?.innerText.includes(new Date(%q).toLocaleDateString())", at))
	require.Empty(t, p.Wrong())
}
