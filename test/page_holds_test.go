package test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/api/page"
	"github.com/drover-io/drover/test/harness"
)

// pageHost serves the page before answers that the test makes: late, broken off, or none.
type pageHost struct {
	*httptest.Server
	page    *page.Page
	streams chan *pageStream

	mu   sync.Mutex
	held chan struct{} // what the list of readiness rules waits for
	late int           // how many have waited
	told []string      // the paths that were asked for
	away bool          // no explanation is given
}

// pageStream is a stream that the page reads.
type pageStream struct {
	path   string
	after  string // the event that it says it has read
	events chan string
}

func newPageHost(t *testing.T) *pageHost {
	t.Helper()
	p, err := page.New()
	require.NoError(t, err)
	h := &pageHost{page: p, streams: make(chan *pageStream, 16)}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	t.Cleanup(h.CloseClientConnections)
	return h
}

func (h *pageHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" {
		h.page.ServeIndex(w, r)
		return
	}
	if h.page.ServePart(w, r) {
		return
	}
	h.mu.Lock()
	h.told = append(h.told, r.URL.EscapedPath())
	h.mu.Unlock()
	answer := "[]"
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/status"):
		h.stream(w, r)
		return
	case strings.HasSuffix(path, "/explain"):
		h.mu.Lock()
		away := h.away
		h.mu.Unlock()
		if away {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		answer = `{"resource":"g","kind":"deployment intent group","asWished":true,"summary":"everything is as wished","reasons":[],"may":["terminate"]}`
	case path == "/v2/readiness-rules":
		if held := h.holds(); held != nil {
			select {
			case <-held:
			case <-r.Context().Done():
				return
			}
		}
		answer = `[{"metadata":{"name":"one"},"spec":{"kind":"Pod","version":"v1","ready":"true"}}]`
	case path == "/v2/clusters", path == "/v2/operations":
		h.stream(w, r)
		return
	case path == "/v2/whoami":
		answer = `{"kind":"user","name":"viewer","rights":[{"noun":"deployment-intent-groups","may":["approve"],"mayNot":[` +
			`{"verb":"terminate","kind":"Forbidden","why":"terminate of deployment-intent-groups is missing; operator has it; an admin gives it"}]}]}`
	}
	_, _ = w.Write([]byte(answer)) // a page that has left has left
}

// stream answers with the events that the test makes, until it ends them.
func (h *pageHost) stream(w http.ResponseWriter, r *http.Request) {
	s := &pageStream{path: r.URL.Path, after: r.Header.Get("Last-Event-ID"), events: make(chan string)}
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	if control.Flush() != nil {
		return
	}
	h.streams <- s
	for {
		select {
		case event, more := <-s.events:
			if !more {
				return
			}
			if _, err := w.Write([]byte(event + "\n\n")); err != nil || control.Flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// hold lets no list of readiness rules be answered until release is called.
func (h *pageHost) hold() (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := make(chan struct{})
	h.held, h.late = held, 0
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.held = nil
		close(held)
	}
}

func (h *pageHost) holds() chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held != nil {
		h.late++
	}
	return h.held
}

// asked is how many of these lists are held back.
func (h *pageHost) asked() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.late
}

// explains says whether explanations are given, and has the page ask for one.
func (h *pageHost) explains(p *harness.Tab, given bool) {
	h.mu.Lock()
	h.away = !given
	h.mu.Unlock()
	look(p, false)
	look(p, true)
}

// explained is how many explanations were asked for, of what has a name that begins so.
func (h *pageHost) explained(name string) (n int) {
	for _, path := range h.paths() {
		if strings.Contains(path, "/"+name) && strings.HasSuffix(path, "/explain") {
			n++
		}
	}
	return n
}

func (h *pageHost) paths() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.told...)
}

// look has the page think that somebody looks at it, or nobody.
func look(p *harness.Tab, somebody bool) {
	p.Ask(fmt.Sprintf("(Object.defineProperty(document, 'hidden', { configurable: true, get: () => %t }), document.dispatchEvent(new Event('visibilitychange')))", !somebody), nil)
}

const (
	lost = "document.body.classList.contains('lost') && document.querySelector('.live').innerText === 'Not live' && !document.querySelector('.banner').hidden"
	live = "!document.body.classList.contains('lost') && document.querySelector('.live').innerText === 'Live' && document.querySelector('.banner').hidden"
	// read is as live, of what is asked for now and then: it says when that was.
	read = "!document.body.classList.contains('lost') && /^Read .*\\d:\\d\\d/.test(document.querySelector('.live').innerText) && document.querySelector('.banner').hidden"
	// asOf is whether the banner has a time before that to which the page's clock was set.
	asOf = `(() => { for (let t = performance.timeOrigin; t < window.now() + 1000; t += 1000)
		if (document.querySelector('.banner').innerText.includes('as of ' + new Date(t).toLocaleTimeString())) return true; return false; })()`
)

// TestThePageSaysWhatHolds: what is shown is live as long as it is as of now, whatever the API, the network and the machine do.
func TestThePageSaysWhatHolds(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newPageHost(t)

	t.Run("a list", func(t *testing.T) {
		p := browser.Tab(h.URL + "/#/readiness")
		p.Says("td", "one")
		p.Until("live", read)

		release := h.hold()
		harness.Until(ctx, t, "asked again", func() bool { return h.asked() > 0 })
		p.Ask("(window.now = Date.now, Date.now = () => window.now() + 3600e3, true)", nil) // it has slept for an hour
		p.Until("missed", lost)
		p.Until("shown as of when it was answered", asOf)
		release()
		p.Until("live again", read)

		look(p, false)
		p.Until("not live while nobody looks", lost)
		release = h.hold()
		look(p, true)
		harness.Until(ctx, t, "asked as soon as somebody looks", func() bool { return h.asked() > 0 })
		p.Until("not live before it is answered", lost)
		release()
		p.Until("live after that", read)
		require.Empty(t, p.Wrong())
	})

	t.Run("a stream", func(t *testing.T) {
		p := browser.Tab(h.URL + "/")
		p.Until("there", "document.querySelector('.nav a')?.checkVisibility()")
		p.Ask(`(window.begun = 0, window.fetch = ((f) => (...a) => f(...a).then((r) => { if (String(a[0]).includes('watch=true')) window.begun++; return r; }))(fetch), true)`, nil)
		p.Ask("location.hash = '#/groups/p/a/v1/g'", nil)
		n := 0
		next := func() *pageStream {
			t.Helper()
			select {
			case s := <-h.streams:
				n++
				p.Until("begun to read", fmt.Sprintf("window.begun >= %d", n))
				return s
			case <-ctx.Done():
				require.FailNow(t, "no stream is asked for")
				return nil
			}
		}
		status := func(id int, state string) string {
			return fmt.Sprintf("id: %d\nevent: status\ndata: {\"name\":\"g\",\"states\":{\"actions\":[]},\"deployedStatus\":%q,\"apps\":[]}", id, state)
		}
		s := next()
		require.Empty(t, s.after)
		s.events <- status(1, "Instantiating")
		p.Says(".title .state", "Instantiating")
		p.Until("live", live)

		s.events <- "event: end\ndata: {\"kind\":\"Unavailable\",\"reason\":\"the process stops\"}"
		p.Until("the end said", lost)
		s = next()
		require.Empty(t, s.after, "after an end all is told again")
		s.events <- ": nothing new"
		var now bool
		p.Ask(lost, &now)
		require.True(t, now, "what is shown is from before")
		s.events <- status(2, "Instantiated")
		p.Says(".title .state", "Instantiated")
		p.Until("live", live)
		p.Says(".wenton", "read anew")

		p.Click("[data-denied=terminate]", "Terminate") // who looks may not: the button says why
		p.Says("dialog", "an admin gives it")
		p.Until("nothing to confirm", "document.querySelector('dialog .danger, dialog .primary').hidden")
		p.Click("dialog button", "Close")

		close(s.events)
		s = next()
		require.Equal(t, "2", s.after)
		p.Until("live again without a word, where nothing has changed", live)
		p.Says(".wenton", "nothing was missed")

		h.explains(p, false)
		p.Until("an explanation missed", lost)
		close(s.events)
		s = next()
		s.events <- status(3, "Terminating")
		p.Says(".title .state", "Terminating")
		h.explains(p, true)
		p.Until("live when the explanation is there, too", live)
		p.Says(".wenton", "read anew")

		s.events <- "event: end\ndata: {\"kind\":\"NotFound\",\"reason\":\"it is gone\"}"
		p.Says(".wrong", "There is no such group")
		p.Until("neither live nor not", "document.querySelector('.live').innerText === '' && document.querySelector('.banner').hidden")
		s = next() // it asks whether there is one again
		require.Empty(t, s.after)
		s.events <- status(4, "Instantiated")
		p.Says(".title .state", "Instantiated")
		p.Until("live", live)
		require.Empty(t, p.Wrong())
		p.Close()
	})

	t.Run("a fleet", func(t *testing.T) {
		const many = 2000
		p := browser.Tab(h.URL+"/#/fleet", harness.BypassPolicy())
		var s *pageStream
		select {
		case s = <-h.streams:
		case <-ctx.Done():
			require.FailNow(t, "no stream is asked for")
		}
		stands := func(n int, more string) string {
			return fmt.Sprintf(`"cluster-providers/site%d/clusters/c%04d":{"connectivity":"Available","heard":true,"report":"agentless","groups":1,"version":"v1.34.%d"%s}`, n%3, n, n%2, more)
		}
		all := make([]string, many)
		for n := range all {
			more := ""
			if n%500 == 0 {
				more = `,"credentialsExpire":"2020-01-01T00:00:00Z","labels":["edge"]`
			}
			all[n] = stands(n, more)
			if n%500 == 1 {
				all[n] = fmt.Sprintf(`"cluster-providers/site%d/clusters/c%04d":{"connectivity":"Unknown","heard":false,"report":"none","groups":0,"labels":["far"]}`, n%3, n)
			}
		}
		s.events <- "id: 1\nevent: status\ndata: {" + strings.Join(all, ",") + "}"
		p.Says(".title", "2,000 clusters")
		p.Until("those in sight alone are drawn", "document.querySelectorAll('.tile').length > 4 && document.querySelectorAll('.tile').length < 400")
		p.Says(".tile", "v1.34.0")
		p.Says(".tile", "credentials have expired")
		alone := func(what, kind string) {
			t.Helper()
			p.Until(what, fmt.Sprintf("document.querySelectorAll('.tile').length === 4 && document.querySelectorAll('.tile.%s').length === 4", kind))
		}
		for filter, option := range map[string]string{"Label": "far", "Report": "none"} {
			choose(p, filter, option)
			alone("those of the filter "+filter, "is-gone")
			choose(p, filter, "")
		}
		choose(p, "Label", "edge")
		alone("those of another label", "is-ready")
		p.Click(".chip.is-gone", "Never seen")
		p.Says(".empty", "No cluster is like that now")
		choose(p, "Label", "")
		alone("those of a state", "is-gone")
		p.Click(".chip.is-gone[aria-pressed=true]", "Never seen")
		p.Until("all again", "document.querySelectorAll('.tile').length > 4")
		p.Click("button", "4 with credentials that expire")
		p.Until("they alone", "document.querySelectorAll('.tile').length === 4")
		p.Screenshot("page-fleet-credentials")
		p.Ask("((box) => { box.value = 'v1.34.1'; box.dispatchEvent(new Event('input')); })(document.querySelector('input.search'))", nil)
		p.Says(".empty", "No cluster is like that now")
		p.Click("button", "4 with credentials that expire")
		p.Ask("((box) => { box.value = 'c1999'; box.dispatchEvent(new Event('input')); })(document.querySelector('input.search'))", nil)
		p.Says(".tile.is-ready", "c1999")
		s.events <- `id: 2` + "\n" + `event: change` + "\n" + `data: {"cluster-providers/site1/clusters/c1999":{"connectivity":"Retrying","heard":false,"report":"agentless","groups":1,"reason":"connection refused"}}`
		p.Says(".tile.is-retrying", "connection refused")
		for n, one := range []struct{ stands, says string }{
			{`"connectivity":"Retrying","heard":true,"report":"agentless","groups":1,"unreachableSince":"2020-01-01T00:00:00Z"`, `\nstopped answering \d+d ago$`},
			{`"connectivity":"Retrying","heard":false,"lastHeard":"2020-01-01T00:00:00Z","report":"agentless","groups":1,"unreachableSince":"2020-01-02T00:00:00Z","reason":"gone"`, `\nstopped answering \d+d ago: gone$`},
			{`"connectivity":"Available","heard":false,"lastHeard":"2020-01-01T00:00:00Z","report":"agentless","groups":1,"reason":"gone"`, `\nlast heard \d+d ago: gone$`},
			{`"connectivity":"Unknown","heard":false,"report":"none","groups":0,"triedAt":"2020-01-01T00:00:00Z","reason":"refused"`, `\nregistered \d+d ago: refused$`},
			{`"connectivity":"Available","heard":true,"report":"agentless","groups":2,"working":1,"failed":1`, `\nof its 2 groups 1 at work, 1 failed\n`},
		} {
			s.events <- fmt.Sprintf("id: %d\nevent: change\ndata: {\"cluster-providers/site1/clusters/c1999\":{%s}}", 10+n, one.stands)
			p.Until("its tile says "+one.says, "/"+one.says+"/.test(document.querySelector('.tile')?.innerText)")
		}
		s.events <- `id: 3` + "\n" + `event: change` + "\n" + `data: {"cluster-providers/site1/clusters/c1999":null}`
		p.Says(".title", "1,999 clusters")
		p.Until("live", live)

		// The keyboard stays with its cluster when others come and go before it, and goes to no other one in its place.
		p.Ask("((box) => { box.value = ''; box.dispatchEvent(new Event('input')); })(document.querySelector('input.search'))", nil)
		tile := func(n int) string {
			return fmt.Sprintf("document.querySelector('a.tile[href=\"#/fleet/site%d/c%04d\"]')", n%3, n)
		}
		p.Until("all again", tile(6))
		p.Ask(fmt.Sprintf("(window.tile = %s, window.tile.focus(), true)", tile(6)), nil)
		s.events <- "id: 4\nevent: change\ndata: {" + strings.ReplaceAll(stands(0, ""), "c0000", "a-new-one") + `,"cluster-providers/site0/clusters/c0003":null,"cluster-providers/site0/clusters/c0000":null}`
		p.Says(".tile", "a-new-one")
		p.Until("it is where it was", "document.activeElement === window.tile && window.tile.isConnected && window.tile.innerText.includes('c0006')")
		s.events <- "id: 5\nevent: change\ndata: {" + strings.ReplaceAll(stands(6, `,"labels":["other"]`), "v1.34", "v1.35") + "}"
		p.Says(".tile", "v1.35.0")
		p.Until("it says something else now", "document.activeElement === window.tile")
		p.Until("in the order of the list", "[...document.querySelectorAll('.tile')].slice(0, 3).map((a) => a.querySelector('.strong').innerText).join() === 'a-new-one,c0006,c0009'")
		s.events <- "id: 6\nevent: change\ndata: {\"cluster-providers/site0/clusters/c0006\":null}"
		p.Says(".title", "1,997 clusters")
		p.Until("it is on nothing", "document.activeElement === document.body && !"+tile(6))

		s.events <- "event: end\ndata: {\"kind\":\"Unavailable\",\"reason\":\"the process stops\"}"
		p.Until("what is shown is old", lost)
		for _, dark := range []bool{false, true} {
			p.Dark(dark)
			require.Empty(t, p.Violations(), "dark: %v", dark)
			p.Screenshot(fmt.Sprintf("page-fleet-lost-%v", dark))
		}
		require.Empty(t, p.Wrong())
		select {
		case <-h.streams: // it has asked for another one, and for no more once it is closed
			p.Close()
		case <-ctx.Done():
			require.FailNow(t, "no stream is asked for")
		}
	})

	t.Run("operations", func(t *testing.T) {
		p := browser.Tab(h.URL + "/#/operations")
		var s *pageStream
		select {
		case s = <-h.streams:
		case <-ctx.Done():
			require.FailNow(t, "no stream is asked for")
		}
		// The later ones have begun later, and are shown first.
		going := func(n int, project string) string {
			return fmt.Sprintf(`"r%04d":{"id":"%04d-instantiate","resource":"projects/%s/composite-apps/a/v1/deployment-intent-groups/g%04d","operation":"instantiate","state":"Running","started":%q,"workflow":{"id":"w","runID":"r%04d"}}`,
				n, n, project, n, time.Date(2026, 1, 1, 0, n, 0, 0, time.UTC).Format(time.RFC3339), n)
		}
		event := func(id int, kind string, entries ...string) {
			t.Helper()
			select {
			case s.events <- fmt.Sprintf("id: %d\nevent: %s\ndata: {%s}", id, kind, strings.Join(entries, ",")):
			case <-ctx.Done():
				require.FailNow(t, "nobody reads")
			}
		}
		all := make([]string, 100)
		for n := range all {
			all[n] = going(n, "p")
		}
		event(1, "status", all...)
		p.Says("td", "everything is as wished")
		p.Says(".title", "100 going on")

		// In a busy fleet others begin all the time.
		before, begun := h.explained("g0"), time.Now()
		for n := 100; n < 130; n++ {
			event(n, "change", going(n, "p"))
			p.Says("td", fmt.Sprintf("g%04d", n))
		}
		rounds := int(time.Since(begun)/(2*time.Second)) + 2
		require.LessOrEqual(t, h.explained("g0")-before, 12*rounds, "explanations in %d rounds", rounds)

		// The stream has 2,000 at the most: then more may go on.
		const most = 2000
		all = make([]string, most)
		for n := range all {
			all[n] = going(n, "p")
		}
		event(200, "status", all[1:]...)
		p.Says(".title", "1,999 going on")
		event(201, "change", all[0])
		p.Says(".title", "2,000 or more going on")
		p.Says(".dim", "200 of these 2,000")

		// The keyboard stays with its operation, and does not get to another one, of the same name as may be.
		event(202, "status", going(0, "p"), going(1, "p"), going(2, "p"), strings.ReplaceAll(going(3, "q"), "g0003", "g0001"))
		p.Says(".title", "4 going on")
		stop := func(n int) string {
			return fmt.Sprintf("document.querySelector('[data-stop=\"%04d-instantiate\"]')", n)
		}
		p.Until("they can be stopped", stop(1)+"?.disabled === false && "+stop(3)+"?.disabled === false")
		p.Ask(stop(3)+".focus()", nil)
		event(203, "change", `"r0002":null`)
		p.Says(".title", "3 going on")
		p.Until("it is where it was", "document.activeElement === "+stop(3))
		p.Until("what it would stop is said", "document.activeElement.getAttribute('aria-label') === 'Stop the instantiate of g0001'")
		event(204, "change", `"r0003":null`)
		p.Says(".title", "2 going on")
		var on string
		p.Ask("document.activeElement.dataset.stop ?? ''", &on)
		require.Empty(t, on, "what was to be stopped is over")
		require.Empty(t, p.Wrong())
	})

	t.Run("an address", func(t *testing.T) {
		p := browser.Tab(h.URL + "/")
		for _, word := range []string{"..%2F..%2Fx", "..", "%2E%2e", ".", "a%3Fb", "a%23b", "a%5Cb"} {
			before := len(h.paths())
			p.Ask(fmt.Sprintf("location.hash = '#/groups/asked-for-here-alone/a/v1/' + %q", word), nil)
			p.Says("h1", "There is no such page")
			require.NotContains(t, strings.Join(h.paths()[before:], " "), "asked-for-here-alone", word)
			p.Ask("location.hash = '#/readiness'", nil)
			p.Says("h1", "Readiness")
		}
		p.Ask("location.hash = '#/groups/p/a/v1/50%25%20%7Bb'", nil)
		p.Says("h1", "50% {b")
		harness.Until(ctx, t, "asked for by its name", func() bool {
			return strings.Contains(strings.Join(h.paths(), " "), "/v2/projects/p/composite-apps/a/v1/deployment-intent-groups/50%25%20%7Bb/explain")
		})
		for _, path := range []string{"projects/..", "projects/./p", "projects/%2e%2E/x", "projects?x", "projects#x"} {
			var said string
			p.Ask(fmt.Sprintf("import(document.scripts[0].src.replace('main.js', 'api.js')).then((m) => m.get(%q)).then(() => '', (e) => e.message)", path), &said)
			require.Contains(t, said, "is not the path of one thing")
		}
		require.Empty(t, p.Wrong())
	})
}
