package test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

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
	require.Empty(t, p.Wrong())
}
