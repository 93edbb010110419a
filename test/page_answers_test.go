package test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/test/harness"
)

// answersHost serves the page before groups that can be terminated, and before what else the test answers.
type answersHost struct {
	*pageHost

	mu      sync.Mutex
	answers map[string]http.HandlerFunc // by method and path
	refuses bool                        // it does not know who asks
	ahead   time.Duration               // of its clock
}

func newAnswersHost(t *testing.T) *answersHost {
	t.Helper()
	h := &answersHost{pageHost: newPageHost(t), answers: map[string]http.HandlerFunc{}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	t.Cleanup(h.CloseClientConnections)
	h.answer("GET /v2/whoami", saying(`{"kind":"user","name":"operator"}`))
	return h
}

func (h *answersHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	answer, refuses, ahead := h.answers[r.Method+" "+r.URL.Path], h.refuses && strings.HasPrefix(r.URL.Path, "/v2/"), h.ahead
	h.mu.Unlock()
	if ahead != 0 {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
	}
	switch {
	case refuses:
		w.WriteHeader(http.StatusUnauthorized)
		saying(`{"kind":"Unauthorized","detail":"who asks?"}`)(w, r)
	case answer != nil:
		answer(w, r)
	case strings.HasSuffix(r.URL.Path, "/status") && r.URL.Query().Get("watch") == "":
		saying(`{"apps":[]}`)(w, r)
	case strings.HasSuffix(r.URL.Path, "/status"):
		w.Header().Set("Content-Type", "text/event-stream")
		saying("id: 1\nevent: status\ndata: {\"name\":\"web\",\"states\":{\"actions\":[]},\"deployedStatus\":\"Instantiated\",\"apps\":[]}\n\n")(w, r)
		_ = http.NewResponseController(w).Flush() // who has left does not wait
		<-r.Context().Done()
	default:
		h.pageHost.ServeHTTP(w, r)
	}
}

// answer has a request answered so from now on, such as "GET /v2/audit".
func (h *answersHost) answer(request string, answer http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers[request] = answer
}

// knows says whether the API knows who asks, and has the page ask for something.
func (h *answersHost) knows(p *harness.Tab, known bool) {
	h.mu.Lock()
	h.refuses = !known
	h.mu.Unlock()
	look(p, false)
	look(p, true)
}

// saying answers with a text.
func saying(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) } // a page that has left has left
}

// held is an answer that waits to be let go.
func held(ctx context.Context, answer http.HandlerFunc) (waits http.HandlerFunc, asked <-chan struct{}, letGo func()) {
	came, may := make(chan struct{}, 1), make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		select {
		case <-may:
			answer(w, r)
		case <-ctx.Done():
		}
	}, came, func() { close(may) }
}

// TestThePageAsksOfWhatItShows: a box that asks whether something is to be done says of what, goes with what it is about, and stays until
// what was asked for is answered.
func TestThePageAsksOfWhatItShows(t *testing.T) {
	t.Parallel()
	const none = "!document.querySelector('dialog')"
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newAnswersHost(t)
	terminate := func(t *testing.T, answer http.HandlerFunc) (asked <-chan struct{}, letGo func()) {
		t.Helper()
		waits, asked, letGo := held(ctx, answer)
		h.answer("POST /v2/projects/demo/composite-apps/shop/v1/deployment-intent-groups/web/terminate", waits)
		return asked, letGo
	}
	// open has two groups of a name behind one another in a tab, and asks to terminate the second one.
	open := func(t *testing.T) *harness.Tab {
		t.Helper()
		p := browser.Tab(h.URL+"/#/groups/other/shop/v1/web", harness.BypassPolicy())
		p.Says(".title .state", "Instantiated")
		p.Ask("location.hash = '#/groups/demo/shop/v1/web'", nil)
		p.Says(".crumbs", "demo")
		p.Click("[data-operation=terminate]", "Terminate")
		p.Says("dialog", "Nothing is known to be in any cluster")
		return p
	}
	confirm := func(t *testing.T, p *harness.Tab, asked <-chan struct{}) {
		t.Helper()
		p.Click("dialog button", "Terminate")
		select {
		case <-asked:
		case <-ctx.Done():
			require.FailNow(t, "nothing is asked for")
		}
		p.Says("dialog", "waiting for the answer")
	}
	back := func(t *testing.T, p *harness.Tab) {
		t.Helper()
		p.Ask("setTimeout(() => history.back())", nil)
		p.Says(".crumbs", "other")
	}

	t.Run("it says of what", func(t *testing.T) {
		p := open(t)
		p.Says("dialog h2", "Terminate web demo / shop v1")
		everywhere(t, p, "terminate")
		p.Press(kb.Escape)
		p.Until("closed by a key", none)
		require.Empty(t, p.Wrong())
	})

	t.Run("it goes with what it is about", func(t *testing.T) {
		p := open(t)
		back(t, p)
		p.Until("gone", none)
		p.Click("[data-operation=terminate]", "Terminate")
		p.Says("dialog h2", "other / shop v1")
		require.Empty(t, p.Wrong())
	})

	t.Run("it goes before one has to say who one is", func(t *testing.T) {
		p := open(t)
		h.knows(p, false)
		p.Until("asked for a token", "document.querySelector('#token')")
		p.Until("gone", none)
		p.Press("token")
		p.Until("the keyboard is in the form", "document.querySelector('#token').value === 'token'")
		h.knows(p, true)
		p.Click("form button", "Sign in")
		p.Says("h1", "web")
		require.Empty(t, p.Wrong())
	})

	t.Run("it stays until it is answered", func(t *testing.T) {
		p := open(t)
		asked, letGo := terminate(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Warning", `299 - "one cluster is not heard"`)
			saying("{}")(w, r)
		})
		confirm(t, p, asked)
		for range 3 { // the first of them can be prevented, in Chromium
			p.Press(kb.Escape)
			p.Ask("new Promise((done) => { setTimeout(done, 100) })", nil)
		}
		p.Says("dialog[open]", "waiting for the answer")
		letGo()
		p.Says("dialog[open]", "one cluster is not heard")
		require.Empty(t, p.Violations())
		p.Press(kb.Escape)
		p.Until("closed by a key", none)
		require.Empty(t, p.Wrong())
	})

	t.Run("its answer is told elsewhere", func(t *testing.T) {
		p := open(t)
		asked, letGo := terminate(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusConflict)
			saying(`{"detail":"it is at something else"}`)(w, r)
		})
		confirm(t, p, asked)
		back(t, p)
		letGo()
		p.Says("dialog[open]", "it is at something else")
		p.Says("dialog h2", "demo / shop v1")
		p.Until("nothing to confirm", "document.querySelectorAll('dialog button').length === 1")
		p.Click("dialog button", "Close")
		p.Until("closed", none)
		require.Empty(t, p.Wrong())
	})
}

// TestThePageOperatesUnforeseen: what is rendered first has as long as the API may take for it, and what cannot be foreseen can be asked for all the
// same, unless that would be refused.
func TestThePageOperatesUnforeseen(t *testing.T) {
	t.Parallel()
	const key = "/v2/projects/demo/composite-apps/shop/v1/deployment-intent-groups/web"
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newAnswersHost(t)
	h.answer("GET "+key+"/explain", saying(`{"resource":"g","kind":"deployment intent group","asWished":true,"summary":"nothing","reasons":[],"may":["approve","instantiate","update","terminate"]}`))
	refusing := func(code int, why string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(code)
			saying(`{"detail":"`+why+`"}`)(w, r)
		}
	}
	p := browser.Tab(h.URL+"/#/groups/demo/shop/v1/web", harness.BypassPolicy())
	p.Says("[data-operation=approve]", "Approve")
	p.Ask("((f) => { AbortSignal.timeout = (ms) => { globalThis.waits.push(ms); return f(ms); }; globalThis.waits = []; })(AbortSignal.timeout.bind(AbortSignal))", nil)
	for op, path := range map[string]string{"approve": "/preview", "instantiate": "/preview", "update": "/diff"} {
		may := `[...document.querySelectorAll("dialog .primary")].some((b) => !b.disabled)`
		h.answer("GET "+key+path, refusing(http.StatusGatewayTimeout, "rendering takes too long"))
		p.Ask("globalThis.waits = []", nil)
		p.Click("[data-operation="+op+"]", "")
		p.Says("dialog .warn", "could not be found out: rendering takes too long")
		p.Until(op+" has waited as long as the API may take", "globalThis.waits.some((ms) => ms > 80_000)")
		p.Until(op+" can be asked for", may)
		p.Press(kb.Escape)
		p.Until("closed by a key", "!document.querySelector('dialog')")
		h.answer("GET "+key+path, refusing(http.StatusConflict, "the chart is wrong"))
		p.Click("[data-operation="+op+"]", "")
		p.Says("dialog .wrong", "the chart is wrong")
		p.Until(op+" would be refused", "!("+may+")")
		p.Press(kb.Escape)
		p.Until("closed by a key", "!document.querySelector('dialog')")
	}

	// In trouble one can be terminated though nobody can say how much there is.
	h.answer("GET "+key+"/status", refusing(http.StatusInternalServerError, "the store is away"))
	p.Click("[data-operation=terminate]", "")
	p.Says("dialog", "Deletes what the group has in clusters.")
	p.Says("dialog .warn", "could not be found out: the store is away")
	p.Until("it can be asked for", `!document.querySelector("dialog .danger").disabled`)
	require.Empty(t, p.Violations())
	require.Empty(t, p.Wrong())
}

// TestThePageOfACellGoesOn: how old a resource is goes on while nothing of it changes.
func TestThePageOfACellGoesOn(t *testing.T) {
	t.Parallel()
	const key = "/v2/projects/demo/composite-apps/shop/v1/deployment-intent-groups/web"
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newAnswersHost(t)
	apps := fmt.Sprintf(`"apps":[{"name":"site","clusters":[{"clusterProvider":"p","cluster":"c","resources":[`+
		`{"GVK":{"Version":"v1","Kind":"ConfigMap"},"name":"page","readyStatus":"Ready","detail":{"metadata":{"creationTimestamp":%q}}}]}]}]`, time.Now().Format(time.RFC3339))
	h.answer("GET "+key+"/status", func(w http.ResponseWriter, r *http.Request) {
		document := `{"name":"web","states":{"actions":[]},"deployedStatus":"Instantiated",` + apps + "}"
		if r.URL.Query().Get("watch") == "" {
			saying(document)(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		saying("id: 1\nevent: status\ndata: "+document+"\n\n")(w, r)
		_ = http.NewResponseController(w).Flush() // who has left does not wait
		<-r.Context().Done()
	})
	p := browser.Tab(h.URL+"/#/groups/demo/shop/v1/web?cell=site/p%2Bc", harness.BypassPolicy())
	p.Says(".cellbox summary", "page")
	const old = "[...document.querySelectorAll('.cellbox summary .dim')].at(-1).innerText"
	p.Ask("globalThis.first = "+old, nil)
	p.Until("an age", "/^[0-9]+s ago$/.test(globalThis.first)")
	p.Until("another age", old+" !== globalThis.first")
	require.Empty(t, p.Wrong())
}

// TestThePageKeepsNumbers: whole numbers are shown as the API says them, also those with which a browser cannot count.
func TestThePageKeepsNumbers(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	const large = "9007199254740993" // 2^53+1, which a browser takes for ...992
	browser, h := harness.NewBrowser(ctx, t), newKeptHost(ctx, t, `{"name":"web","states":{"actions":[]},"deployedStatus":"Instantiated","apps":[{"name":"site","clusters":[{"clusterProvider":"p","cluster":"c",
		"resources":[{"GVK":{"Version":"v1","Kind":"ConfigMap"},"name":"page","readyStatus":"Ready","detail":{"status":{"seen":`+large+`,"all":[`+large+`],"few":7}}}]}]}]}`)
	h.answer("GET "+keptGroup+"/diff", saying(`{"changes":{"change":1},"unchanged":0,"clusters":1,"items":[{"app":"site","clusters":["p+c"],"resources":[
		{"resource":"ConfigMap page","action":"change","fields":[{"path":".a","before":`+large+`,"after":{"b":-`+large+`}}]}]}]}`))
	h.answer("GET "+keptGroup+"/combined-status", saying(`{"items":[{"metadata":{"labels":{}},"inputs":{"reported":1,"clusters":1},"results":[{"name":"seen","columnNames":["a"],
		"rows":[{"columns":[{"type":"Object","object":{"b":`+large+`}}]}]}]}]}`))
	p := browser.Tab(h.URL+"/#/groups/demo/shop/v1/web?cell=site/p%2Bc", harness.BypassPolicy())
	h.tell(h.next(), "status", `{"name":"web","states":{"actions":[]},"deployedStatus":"Instantiated",`+`"apps":[`+cellsOf("site", "Ready")+`]}`)
	p.Click(".cellbox summary", "page")
	p.Says("pre", "seen: "+large)
	p.Says("pre", "- "+large)
	p.Says("pre", "few: 7")
	p.Ask("location.hash = '#/groups/demo/shop/v1/web?tab=changes'", nil)
	p.Says("del", large)
	p.Says("ins", "b: -"+large)
	p.Ask("location.hash = '#/groups/demo/shop/v1/web?tab=tables'", nil)
	p.Says("td", `{"b":`+large+`}`)
	require.Empty(t, p.Wrong())
}

// TestThePageOfARefusedGroup says why it is not shown, and asks no more; loaded again it is shown, where that has changed.
func TestThePageOfARefusedGroup(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newKeptHost(ctx, t, oneCell)
	for code, why := range map[int]string{http.StatusForbidden: "not yours", http.StatusBadRequest: "it cannot be told"} {
		refused, n := counted(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(code)
			saying(`{"detail":"`+why+`"}`)(w, r)
		})
		h.answer("GET "+keptGroup+"/status", refused)
		p := browser.Tab(h.URL+"/#/groups/demo/shop/v1/web", harness.BypassPolicy())
		p.Says(".wrong", why)
		p.Ask("new Promise((done) => { setTimeout(done, 1500) })", nil)
		require.EqualValues(t, 1, n.Load())
		p.Until("nothing is tried", "document.querySelector('.banner').hidden")
		h.answer("GET "+keptGroup+"/status", h.stream)
		p.Ask("setTimeout(() => { location.reload() })", nil)
		h.tell(h.next(), "status", `{"name":"web","states":{"actions":[]},"deployedStatus":"Instantiated","apps":[`+cellsOf("site", "Ready")+`]}`)
		p.Says(".state", "Instantiated")
	}
}

// TestThePageOfCollectors: those of projects are in the list beside the library of the fleet, as far as one may see them.
func TestThePageOfCollectors(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newAnswersHost(t)
	collector := func(name, column string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"select":[{"name":%q,"def":"inventory.name"}]}}`, name, column)
	}
	h.answer("GET /v2/deployment-intent-groups", saying(`{"items":[]}`))
	h.answer("GET /v2/status-collectors", saying("["+collector("sites", "library")+"]"))
	h.answer("GET /v2/projects", saying(`[{"metadata":{"name":"hidden"}},{"metadata":{"name":"demo"}}]`))
	h.answer("GET /v2/projects/demo/status-collectors", saying("["+collector("sites", "own")+"]"))
	h.answer("GET /v2/projects/demo/status-collectors/sites", saying(collector("sites", "own")))
	h.answer("GET /v2/projects/hidden/status-collectors", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		saying(`{"detail":"not yours"}`)(w, r)
	})
	p := browser.Tab(h.URL+"/#/collectors", harness.BypassPolicy())
	p.Says("td", "library")
	p.Says("td", "the fleet")
	p.Says("td", "demo")
	p.Until("both", "document.querySelectorAll('tbody tr').length === 2")
	everywhere(t, p, "collectors-of-projects")
	p.Click("a[href$='/demo/sites']", "sites")
	p.Says(".title", "of project demo")
	p.Says("pre", "name: own")
	require.Empty(t, p.Wrong())
}

// TestThePageReadsTheAuditAgain: the audit log can be read again where it could not be read, and where more has happened since.
func TestThePageReadsTheAuditAgain(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newAnswersHost(t)
	away := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		saying(`{"detail":"the store is away"}`)(w, r)
	}
	record := func(n int, more string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			event, outcome, more := "answered", `,"outcome":"done"`, more
			if r.URL.Query().Get("event") == "unanswered" {
				event, outcome, more = "begun", "", ""
				switch further := r.URL.Query().Get("continue") != ""; {
				case n == 4 && !further: // much was read for nothing
					saying(`{"items":[],"continue":"further"}`)(w, r)
					return
				case n != 4:
					saying(`{"items":[]}`)(w, r)
					return
				}
			}
			saying(fmt.Sprintf(`{"items":[{"time":"2026-01-01T00:00:00Z","event":%q,"verb":"create","key":"projects/p%d"%s}]%s}`, event, n, outcome, more))(w, r)
		}
	}
	const audit = "GET /v2/audit"
	h.answer(audit, away)
	p := browser.Tab(h.URL+"/#/audit", harness.BypassPolicy())
	p.Says(".wrong", "the store is away")
	everywhere(t, p, "audit-away")

	h.answer(audit, record(1, ""))
	p.Click("button", "Try again")
	p.Says("td", "projects/p1")
	p.Until("nothing wrong, and no more", "![...document.querySelectorAll('p.wrong, main div > button')].some((e) => e.checkVisibility())")

	h.answer(audit, record(2, `,"continue":"next"`))
	p.Click("button", "Filter") // though it is the same filter
	p.Says("td", "projects/p2")
	p.Until("no record twice", "document.querySelectorAll('tbody tr').length === 1")
	h.answer(audit, away)
	p.Click("button", "Show more")
	p.Says(".wrong", "the store is away")
	h.answer(audit, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("continue") != "next" {
			away(w, r)
			return
		}
		record(3, "")(w, r)
	})
	p.Click("button", "Try again")
	p.Says("td", "projects/p3")
	p.Says("td", "projects/p2")

	// What nobody has answered is there, too, unless one asks for an outcome.
	h.answer(audit, record(4, ""))
	const hanging = "document.querySelector('section[aria-label=\"Without an answer\"]')"
	p.Until("nothing is said of answers that are missing", hanging+".hidden")
	p.Click("button", "Filter")
	p.Click("section button", "Look further back")
	p.Says("section td", "no answer")
	p.Until("what was answered stays beside it", "[...document.querySelectorAll('td')].some((c) => c.innerText === 'done')")
	everywhere(t, p, "audit-unanswered")
	p.Ask("location.hash = '#/audit?outcome=done'", nil)
	p.Until("only what was answered", hanging+".hidden && document.querySelectorAll('tbody tr').length === 1")

	h.answer(audit, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		saying(`{"detail":"from is no time"}`)(w, r)
	})
	p.Ask("document.querySelector('input[name=from]').value = 'soon'", nil)
	p.Click("button", "Filter")
	p.Says(".wrong", "from is no time")
	p.Until("nothing to try again", "![...document.querySelectorAll('main div > button')].some((e) => e.checkVisibility())")
	require.Empty(t, p.Wrong())
}

// TestThePageOfManyTenants: of more tenants than are asked where they stand the page says so, as of one that does not say it. What was
// opened below one stays open when something else has changed.
func TestThePageOfManyTenants(t *testing.T) {
	t.Parallel()
	const many, asked = 60, 50
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newAnswersHost(t)
	tenants := make([]string, many)
	for n := range tenants {
		tenants[n] = fmt.Sprintf(`{"metadata":{"name":"t%02d"}}`, n)
		h.answer(fmt.Sprintf("GET /v2/tenants/t%02d/status", n), saying(`{"connected":true,"workloads":3,"matches":{"Applied":1,"Pending":2}}`))
	}
	h.answer("GET /v2/tenants", saying("["+strings.Join(tenants, ",")+"]"))
	h.answer("GET /v2/tenants/t01/status", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		saying(`{"detail":"its cluster is away"}`)(w, r)
	})
	p := browser.Tab(h.URL+"/#/tenants", harness.BypassPolicy())
	row := func(name string) string {
		return fmt.Sprintf("[...document.querySelectorAll('tbody tr')].find((r) => r.innerText.includes(%q)).innerText", name)
	}
	p.Says("p", "Of these 60 tenants the first 50 are asked where they stand.")
	p.Until("the last one that is asked", row(fmt.Sprintf("t%02d", asked-1))+".includes('1 of 3 made')")
	p.Until("the first one that is not", row(fmt.Sprintf("t%02d", asked))+".includes('Not asked')")
	p.Until("one that does not answer", row("t01")+".includes('Not known: its cluster is away')")
	everywhere(t, p, "tenants-many")
	p.Ask("document.querySelector('tbody tr:last-child').scrollIntoView()", nil)
	p.Screenshot("page-tenants-last")

	h.answer("GET /v2/tenants/t02", saying(tenants[2]))
	h.answer("GET /v2/tenants/t02/matches", saying(`{"items":[]}`))
	h.answer("GET /v2/tenants/t02/workload-rules", saying(`[{"metadata":{"name":"one"}},{"metadata":{"name":"two"}}]`))
	h.answer("GET /v2/tenants/t02/hosts", saying(`[{"metadata":{"name":"one"}}]`))
	p.Click("td a", "t02")
	p.Says(".facts", "3 workloads")
	p.Ask("[...document.querySelectorAll('details:not(.why *) summary')].filter((s) => s.innerText === 'two')[0].click()", nil)
	p.Until("open", "document.querySelector('details[open] pre[aria-label=two]')")
	h.answer("GET /v2/tenants/t02/status", saying(`{"connected":true,"workloads":4,"matches":{"Applied":4}}`))
	p.Says(".facts", "4 workloads")
	var open []string
	p.Ask("[...document.querySelectorAll('details[open] > summary')].map((s) => s.innerText)", &open)
	require.Equal(t, []string{"two"}, open, "what was opened")
	everywhere(t, p, "tenant-open")
	require.Empty(t, p.Wrong())
}
