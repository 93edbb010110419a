package test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/test/harness"
)

// TestThePageBehindALogin: what a proxy before the API answers in its place is told as that, and no longer than it is so.
func TestThePageBehindALogin(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newAnswersHost(t)
	page := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.WriteHeader(code)
			_, _ = w.Write([]byte("<!doctype html><title>Log in</title>"))
		}
	}
	answers := []struct {
		name   string
		answer http.HandlerFunc
		says   string
	}{
		{"a way to the login", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://login.example/", http.StatusFound)
		}, "may want a login: load the page again"},
		{"the login itself", page(http.StatusOK), "may want a login: load the page again"},
		{"a refusal of its own", page(http.StatusForbidden), "may want a login: load the page again"},
		{"a refusal for programs", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte("{}"))
		}, "may want a login: load the page again"},
		{"that it reaches nobody", page(http.StatusBadGateway), "what is before it answers 502"},
	}
	says := func(p *harness.Tab, words string) {
		t.Helper()
		p.Until(words, fmt.Sprintf("!document.querySelector('.banner').hidden && document.querySelector('.banner').innerText.includes(%q)", words))
	}
	p := browser.Tab(h.URL+"/#/readiness", harness.BypassPolicy())
	p.Says("main", "one")
	for _, c := range answers {
		h.answer("GET /v2/readiness-rules", c.answer)
		look(p, false)
		look(p, true)
		says(p, c.says)
		p.Says("main", "one")
		h.answer("GET /v2/readiness-rules", nil)
		p.Until("it goes on after "+c.name, read)
	}
	for _, c := range answers { // from the beginning on
		h.answer("GET /v2/whoami", c.answer)
		p.Ask("setTimeout(() => location.reload())", nil)
		says(p, c.says)
		h.answer("GET /v2/whoami", saying(`{"kind":"user","name":"operator"}`))
		p.Says("main", "one")
	}
	require.Empty(t, p.Wrong())
}

// TestThePageStoresNothing: it works where the browser may store nothing for it.
func TestThePageStoresNothing(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newAnswersHost(t)
	h.answer("GET /v2/whoami", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			saying(`{"kind":"Unauthorized","detail":"who asks?"}`)(w, r)
			return
		}
		saying(`{"kind":"user","name":"operator"}`)(w, r)
	})
	p := browser.Tab(h.URL+"/#/readiness", harness.Forgetful())
	p.Until("it asks who asks", "Boolean(document.querySelector('input[type=password]'))")
	p.Ask("(document.querySelector('input[type=password]').focus(), true)", nil)
	p.Press("secret\r")
	p.Says("main", "one")
	const theme = "document.documentElement.dataset.theme"
	p.Until("as the machine has it", theme+" === 'auto'")
	p.Click("button", "Auto")
	p.Until("light", theme+" === 'light'")
	require.Empty(t, p.Wrong())
}

// TestThePageOfAClusterStays: pulses alone change nothing of it.
func TestThePageOfAClusterStays(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newAnswersHost(t)
	const cluster = "/v2/cluster-providers/p/clusters/c1"
	var asked atomic.Int32
	h.answer("GET "+cluster+"/explain", saying(`{"resource":"cluster-providers/p/clusters/c1","kind":"cluster","asWished":true,"summary":"everything is as wished","reasons":[]}`))
	h.answer("GET "+cluster+"/labels", saying("[]"))
	h.answer("GET /v2/operations", saying(`{"items":[]}`))
	h.answer("GET "+cluster+"/status", func(w http.ResponseWriter, r *http.Request) {
		saying(fmt.Sprintf(`{"state":"Instantiated","connectivity":"Available","report":"agent","heard":true,"lastHeard":"2026-12-01T10:00:%02dZ"}`, asked.Add(1)))(w, r)
	})
	p := browser.Tab(h.URL+"/#/fleet/p/c1", harness.BypassPolicy())
	p.Says("main", "Reports: agent")
	p.Ask("(window.shown = document.querySelector('main .facts'), true)", nil)
	before := asked.Load()
	harness.Until(ctx, t, "it has asked again", func() bool { return asked.Load() >= before+2 })
	p.Until("the same is shown", "window.shown.isConnected && document.querySelector('main .facts').innerText.includes('Reports: agent')")
	require.Empty(t, p.Wrong())
}

// TestThePageKeepsWhatIsSaid: of why a group is not as wished only what changes is written anew, such as how long ago something was.
func TestThePageKeepsWhatIsSaid(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, h := harness.NewBrowser(ctx, t), newKeptHost(ctx, t, oneCell)
	var asked atomic.Int32
	h.answer("GET "+keptGroup+"/explain", func(w http.ResponseWriter, r *http.Request) {
		saying(fmt.Sprintf(`{"resource":"g","kind":"deployment intent group","asWished":false,"summary":"not as wished: it was stopped","reasons":[
			{"kind":"Stopped","text":"it was stopped %ds ago"},{"kind":"WorkGaveUp","text":"a cluster refused it","error":"no room"}],"may":["terminate"]}`, asked.Add(1)))(w, r)
	})
	p := browser.Tab(h.URL+"/#/groups/demo/shop/v1/web", harness.BypassPolicy())
	h.tell(h.next(), "status", `{"name":"web","states":{"actions":[]},"deployedStatus":"InstantiateFailed","apps":[`+cellsOf("site", "Failed")+`]}`)
	p.Says(".why", "a cluster refused it")
	p.Ask(`(() => {
		const reasons = document.querySelectorAll('.why details');
		reasons.forEach((d) => { d.open = true; });
		window.kept = reasons[1].querySelector('.error').firstChild;
		getSelection().selectAllChildren(reasons[1].querySelector('.error'));
		return true;
	})()`, nil)
	before := asked.Load()
	look(p, false)
	look(p, true)
	p.Says(".why", fmt.Sprintf("it was stopped %ds ago", before+1))
	p.Until("what was marked is", "window.kept.isConnected && getSelection().toString() === 'no room' && document.querySelectorAll('.why details[open]').length === 2")
	require.Empty(t, p.Wrong())
}
