package test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/test/harness"
)

// tabsHost serves the page before a group of its own, whose state the test changes, and counts the streams that are read.
type tabsHost struct {
	*pageHost

	mu      sync.Mutex
	state   int
	changed chan struct{} // closed when the state is another one
	streams int
	most    int // streams at a time

	// Of the first group alone:
	halves  chan struct{} // what the second half of an event waits for, nil for nothing
	waiting int           // second halves that have waited
	firsts  int           // streams that are read
	refuses int           // requests for its stream that are refused yet
}

// newTabsHost serves on an address of the machine's that is not its loopback, where there is one: there a browser takes plain HTTP for
// insecure and has fewer means.
func newTabsHost(t *testing.T) *tabsHost {
	t.Helper()
	h := &tabsHost{pageHost: newPageHost(t), changed: make(chan struct{})}
	s := httptest.NewUnstartedServer(h)
	for _, host := range outside(t) {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			continue
		}
		require.NoError(t, s.Listener.Close())
		s.Listener = l
		break
	}
	s.Start()
	h.Server = s
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	return h
}

// outside are the machine's own addresses that others can reach.
func outside(t *testing.T) (hosts []string) {
	t.Helper()
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			hosts = append(hosts, n.IP.String())
		}
	}
	return hosts
}

func (h *tabsHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/g0/explain") { // else the page's "Read" would be of the older of the two, and another one when this is asked for anew
		http.Error(w, `{"detail":"it is not explained"}`, http.StatusNotFound)
		return
	}
	if !strings.HasSuffix(r.URL.Path, "/status") {
		h.pageHost.ServeHTTP(w, r)
		return
	}
	first := strings.HasSuffix(r.URL.Path, "/g0/status")
	if first && h.refused() {
		http.Error(w, `{"detail":"the process stops"}`, http.StatusServiceUnavailable)
		return
	}
	h.count(first, 1)
	defer h.count(first, -1)
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	read, _ := strconv.Atoi(r.Header.Get("Last-Event-ID")) // none is 0
	for {
		state, changed := h.now()
		if state != read {
			read = state
			event := fmt.Sprintf("id: %d\nevent: status\ndata: {\"name\":\"g\",\"states\":{\"actions\":[]},\"deployedStatus\":\"State%d\",\"apps\":[]}\n\n", state, state)
			if half := len(event) / 2; first {
				if _, err := w.Write([]byte(event[:half])); err != nil || control.Flush() != nil || !h.halfway(r.Context()) {
					return
				}
				event = event[half:]
			}
			if _, err := w.Write([]byte(event)); err != nil || control.Flush() != nil {
				return
			}
		} else if control.Flush() != nil { // a header comes with the first half: a turn ends when nothing follows it
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func (h *tabsHost) count(first bool, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if first {
		h.firsts += n
	}
	h.streams += n
	h.most = max(h.most, h.streams)
}

// open is how many streams are read.
func (h *tabsHost) open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams
}

// most is how many have been at a time since it was asked last.
func (h *tabsHost) since() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	most := h.most
	h.most = h.streams
	return most
}

func (h *tabsHost) now() (int, chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state, h.changed
}

// halve has second halves of events wait until they are let go.
func (h *tabsHost) halve() (letGo func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.halved()
}

// halveNext has the group in another state, and whoever reads the first group in its next turn get half of that. A turn that goes on might end
// by itself before the half has come to it.
func (h *tabsHost) halveNext(ctx context.Context, t *testing.T, state int) (letGo func()) {
	t.Helper()
	harness.Until(ctx, t, "between two turns", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.firsts > 0 {
			return false
		}
		letGo = h.halved()
		h.becomes(state)
		return true
	})
	return letGo
}

// halved is halve with mu held.
func (h *tabsHost) halved() (letGo func()) {
	halves := make(chan struct{})
	h.halves, h.waiting = halves, 0
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.halves = nil
		close(halves)
	}
}

// halfway waits as long as second halves do; it says whether the reader is still there.
func (h *tabsHost) halfway(ctx context.Context) bool {
	h.mu.Lock()
	halves := h.halves
	if halves != nil {
		h.waiting++
	}
	h.mu.Unlock()
	if halves == nil {
		return true
	}
	select {
	case <-halves:
		return true
	case <-ctx.Done():
		return false
	}
}

// begun is how many second halves have waited.
func (h *tabsHost) begun() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting
}

// refuse has the next request for a stream refused.
func (h *tabsHost) refuse() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuses++
}

func (h *tabsHost) refused() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuses == 0 {
		return false
	}
	h.refuses--
	return true
}

// become has the group in another state.
func (h *tabsHost) become(state int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.becomes(state)
}

// becomes is become with mu held.
func (h *tabsHost) becomes(state int) {
	h.state = state
	close(h.changed)
	h.changed = make(chan struct{})
}

// TestThePageInManyTabs: a browser has six connections for a host over HTTP/1.1. With a group in each of eight windows, requests are
// answered all the same, every window shows what is new, and the ones that were turned to last are live.
func TestThePageInManyTabs(t *testing.T) {
	t.Parallel()
	const many, seats = 8, 4
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newTabsHost(t)
	h.become(1)
	tabs := make([]*harness.Tab, many)
	for n := range tabs {
		tabs[n] = browser.Tab(fmt.Sprintf("%s/#/groups/p/a/v1/g%d", h.URL, n))
		tabs[n].Says(".title .state", "State1")
	}
	answered := func() {
		t.Helper()
		for n, tab := range tabs {
			harness.Soon(ctx, t, 5*time.Second, func() bool {
				tab.Ask("fetch('v2/whoami').then((r) => r.text()).then(() => true)", nil)
				return true
			}, func() string { return fmt.Sprintf("a request of tab %d is not answered", n) })
		}
	}
	answered()
	tabs[many-1].Until("the last one is live", live)
	tabs[0].Until("the first one is read in turns", read)
	// Two may begin their turns before either has heard of the other one, and the server learns of an end after the others have.
	harness.Until(ctx, t, "no more streams than seats", func() bool { return h.open() <= seats })

	h.become(2)
	for _, tab := range tabs {
		tab.Says(".title .state", "State2")
	}
	answered()
	harness.Until(ctx, t, "no more streams than seats again", func() bool { return h.open() <= seats })

	// Who turns to a window has it live.
	tabs[0].Ask("dispatchEvent(new Event('focus'))", nil)
	tabs[0].Until("live", live)
	tabs[many-3].Until("read in turns", read)

	// Windows that are closed, in whatever way, leave their seats to the others.
	tabs[many-1].Ask("setTimeout(() => { location = 'about:blank' })", nil)
	tabs[many-2].Close()
	tabs[many-3].Until("live again", live)
	for _, tab := range tabs[:2] {
		tab.Close()
	}
	for _, tab := range tabs[2 : many-2] {
		tab.Until("all of those that are left", live)
	}

	// A window that was opened to be looked at later has no stream until somebody looks.
	late := browser.Tab("about:blank", harness.Hidden())
	late.Ask(fmt.Sprintf("setTimeout(() => { location = %q })", h.URL+"/#/groups/p/a/v1/late"), nil)
	late.Until("not live while nobody looks", "document.querySelector('.banner')?.innerText.includes('nobody looks')")
	harness.Until(ctx, t, "no more streams than seats with a tab more", func() bool { return h.open() <= seats })
	look(late, true)
	late.Says(".title .state", "State2")
	late.Until("live", live)
	for _, tab := range append(tabs[2:many-2], late) {
		for _, wrong := range tab.Wrong() { // over plain HTTP a browser leaves this part of the policy out, and says so
			require.Contains(t, wrong, "Cross-Origin-Opener-Policy header has been ignored")
		}
	}
}

// TestThePageInTurns: a tab that has no stream of its own reads a document that comes slowly to its end, and does not say before that it
// was read. How it has gone on after a loss it says once.
func TestThePageInTurns(t *testing.T) {
	t.Parallel()
	const many, seats = 5, 4
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newTabsHost(t)
	h.become(1)
	tabs := make([]*harness.Tab, many)
	for n := range tabs {
		tabs[n] = browser.Tab(fmt.Sprintf("%s/#/groups/p/a/v1/g%d", h.URL, n))
		tabs[n].Says(".title .state", "State1")
	}
	tabs[many-1].Until("the last one is live", live)
	slow := tabs[0]
	slow.Until("the first one is read in turns", read)
	says := func(selector string) (text string) {
		t.Helper()
		slow.Ask(fmt.Sprintf("document.querySelector(%q).innerText", selector), &text)
		return text
	}

	letGo := h.halveNext(ctx, t, 2)
	before := says(".live") // the turn before has said when it has ended
	harness.Until(ctx, t, "half of it has come", func() bool { return h.begun() > 0 })
	harness.Until(ctx, t, "no more streams than seats", func() bool { return h.open() <= seats })
	h.since()
	begun := h.begun()
	slow.Ask("new Promise((done) => { setTimeout(done, 8000) })", nil) // longer than from a turn to the next one
	require.Equal(t, before, says(".live"), "it is read when it is whole")
	require.Equal(t, "State1", says(".title .state"))
	require.Equal(t, begun, h.begun(), "it is not cut off")
	require.LessOrEqual(t, h.since(), seats, "who waits for a turn waits for the end of this one")
	letGo()
	slow.Says(".title .state", "State2")
	slow.Until("read again", fmt.Sprintf("%s && document.querySelector('.live').innerText !== %q", read, before))
	require.Empty(t, says(".wenton"), "nothing was lost")

	slow.Ask(`void (window.wentOn = [], new MutationObserver(() => window.wentOn.push(document.querySelector('.wenton').textContent))
		.observe(document.querySelector('.wenton'), { childList: true, characterData: true, subtree: true }))`, nil) // it is shown for a minute alone
	h.refuse()
	slow.Until("nothing was missed", "window.wentOn.some((w) => w.includes('nothing was missed'))")
	for range 2 {
		before = says(".live")
		slow.Until("another turn", fmt.Sprintf("document.querySelector('.live').innerText !== %q", before))
	}
	var told []string
	slow.Ask("window.wentOn.filter((w) => w)", &told)
	require.Len(t, told, 1, "it is said once")
	require.Equal(t, "State2", says(".title .state"))
}

// TestThePageIsNotReadByHalves: a tab whose stream goes on after a loss, and of what is new has half, shows what was before. It says so
// until the rest has come, also when it loses its connection to other tabs meanwhile.
func TestThePageIsNotReadByHalves(t *testing.T) {
	t.Parallel()
	const others = 4 // as many as there are seats
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newTabsHost(t)
	h.become(1)
	tab := browser.Tab(h.URL + "/#/groups/p/a/v1/g0")
	tab.Says(".title .state", "State1")
	tab.Until("live", live)

	letGo := h.halve()
	h.become(2)
	harness.Until(ctx, t, "half of it has come", func() bool { return h.begun() == 1 })
	h.CloseClientConnections()
	tab.Until("lost", lost)
	tab.Ask(`void (window.told = [], new MutationObserver(() => window.told.push(document.querySelector('.live').innerText + ' ' + document.querySelector('.title .state').innerText))
		.observe(document.querySelector('.live'), { childList: true, characterData: true, subtree: true }))`, nil)
	harness.Until(ctx, t, "half of it has come on the next connection", func() bool { return h.begun() >= 2 })
	for n := range others {
		browser.Tab(fmt.Sprintf("%s/#/groups/p/a/v1/other%d", h.URL, n)).Says(".title .state", "State2")
	}
	harness.Until(ctx, t, "half of it has come in a turn", func() bool { return h.begun() >= 3 })
	letGo()
	tab.Says(".title .state", "State2")
	tab.Until("read in turns", read)
	var told []string
	tab.Ask("window.told", &told)
	require.NotEmpty(t, told)
	for _, now := range told {
		require.True(t, strings.HasPrefix(now, "Not live ") || strings.HasSuffix(now, "State2"), "said to be as of now: %q", now)
	}
}
