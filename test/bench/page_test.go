package bench

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/api/page"
	"github.com/drover-io/drover/test/harness"
)

// The matrix that the page is measured with, and how it is changed: each change is of one cell that is in sight and of some anywhere.
const (
	pageApps, pageClusters = 10, 2000
	pageChanges            = 100
	pageTouched            = 20
)

// pageServer serves the page, and one group whose status the benchmark makes: what is measured is the browser.
type pageServer struct {
	page   *page.Page
	events chan []byte
}

func (s *pageServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/":
		s.page.ServeIndex(w, r)
	case s.page.ServePart(w, r):
	case strings.HasSuffix(path, "/status"), path == "/v2/clusters":
		w.Header().Set("Content-Type", "text/event-stream")
		control := http.NewResponseController(w)
		for {
			select {
			case event := <-s.events:
				if _, err := w.Write(event); err != nil || control.Flush() != nil {
					return
				}
			case <-r.Context().Done():
				return
			}
		}
	case strings.HasSuffix(path, "/explain"):
		_, _ = w.Write([]byte(`{"resource":"g","kind":"deployment intent group","asWished":false,"summary":"not as wished yet, instantiate goes on: 18,518 of 20,000 are ready",` +
			`"operation":{"operation":"instantiate","by":"user alice","since":"2026-11-23T06:00:00Z"},"reasons":[],"may":["stop","terminate"]}`))
	default:
		_, _ = w.Write([]byte("[]"))
	}
}

// pageStates are what cells are like, and how many of 200 are so; all others are ready.
var pageStates = []struct {
	upTo   int
	counts string
}{
	{2, `"deployedCounts":{"Applied":4,"Failed":2},"readyCounts":{"Ready":4}`},
	{5, `"deployedCounts":{"Applied":3,"Retrying":3},"readyCounts":{"Ready":3}`},
	{9, `"deployedCounts":{"Applied":6},"readyCounts":{"Ready":5,"NotReady":1}`},
	{14, `"deployedCounts":{"Applied":2,"Pending":4},"readyCounts":{"Ready":2}`},
	{16, `"deployedCounts":{"Applied":6},"readyCounts":{"NotReady":6},"stale":true,"reason":"the cluster is not heard"`},
	{200, `"deployedCounts":{"Applied":6},"readyCounts":{"Ready":6}`},
}

// pageCell is a cell as the API says it, of one sort or another by chance that is the same each time.
func pageCell(b *bytes.Buffer, cluster, chance int) {
	chance = int(uint32(chance)*2654435761>>8) % 200
	for _, s := range pageStates {
		if chance < s.upTo {
			fmt.Fprintf(b, `{"clusterProvider":"provider","cluster":"cluster-%04d","connectivity":"Available",%s,"resources":[]}`, cluster, s.counts)
			return
		}
	}
}

func pageEvent(kind, data string) []byte {
	return []byte("event: " + kind + "\ndata: " + data + "\n\n")
}

// pageDocument is the whole matrix.
func pageDocument() string {
	var b bytes.Buffer
	b.WriteString(`{"name":"web","states":{"actions":[]},"deployedStatus":"Instantiating","apps":[`)
	for a := range pageApps {
		if a > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"name":"app-%02d","clusters":[`, a)
		for c := range pageClusters {
			if c > 0 {
				b.WriteString(",")
			}
			pageCell(&b, c, a*pageClusters+c)
		}
		b.WriteString("]}")
	}
	b.WriteString("]}")
	return b.String()
}

// pageChange is the nth change.
func pageChange(n int) string {
	var b bytes.Buffer
	b.WriteString(`{"apps":[{"name":"app-00","clusters":[`)
	fmt.Fprintf(&b, `{"clusterProvider":"provider","cluster":"cluster-0000","connectivity":"Available","deployedCounts":{"Applied":%d,"Pending":1},"resources":[]}`, 1000+n)
	for k := range pageTouched - 1 {
		b.WriteString(",")
		pageCell(&b, 1+(n*pageTouched+k)*7%(pageClusters-1), n)
	}
	b.WriteString("]}]}")
	return b.String()
}

// pageEvents measures how long a change takes from the server to the pixels with 20,000 cells, and what 10,000 changes leave in the
// browser's memory.
func pageEvents(ctx context.Context, t *trial) {
	t.Helper()
	browser := harness.NewBrowser(ctx, t)
	p, err := page.New()
	require.NoError(t, err)
	s := &pageServer{page: p, events: make(chan []byte)}
	server := httptest.NewServer(s)
	defer server.Close()
	defer server.CloseClientConnections()
	begun := time.Now()
	tab := browser.Tab(server.URL + "/#/groups/shop/storefront/v2/web")
	s.events <- pageEvent("status", pageDocument())
	tab.Until("the matrix", "document.querySelectorAll('a.cell').length > 100")
	first := time.Since(begun)
	t.add(goal(measured("page_cells_first_ms", "from nothing, the browser's own tab included, to 20,000 cells", []time.Duration{first}), "≤ 1,000", first <= time.Second),
		goal(values("page_weight_kb", "the page and all its parts, compressed", "KB", []float64{float64(p.Weight()) / 1000}), "≤ 300", p.Weight() <= 300_000))
	// Seen is when a text came to the pixels: with the frame after that in which the text was set.
	tab.Ask(`(() => { window.seen = {}; const at = () => { const words = document.querySelector('a.cell .n')?.textContent; requestAnimationFrame(() => requestAnimationFrame(() => { window.seen[words] ??= Date.now(); })); };
		new MutationObserver(at).observe(document.querySelector('.rows'), { subtree: true, childList: true, characterData: true }); })()`, nil)
	words := func(n int) string { return fmt.Sprintf("%d/%d", 1000+n, 1001+n) }
	var took []time.Duration
	t.finally(func() []figure {
		p95 := percentile(took, 95)
		return []figure{
			goal(values("page_event_ms_p95", "a change of a group with 20,000 cells, from the server to the pixels: p95", "ms", []float64{float64(p95.Milliseconds())}), "≤ 200", p95 <= 200*time.Millisecond),
			measured("page_event_ms", "the same", took),
		}
	})
	for n := range pageChanges {
		event := pageEvent("change", pageChange(n))
		sent := time.Now()
		s.events <- event
		var seen float64
		harness.Until(ctx, t, "seen", func() bool {
			tab.Ask(fmt.Sprintf("window.seen[%q] ?? 0", words(n)), &seen)
			return seen > 0
		})
		took = append(took, time.UnixMilli(int64(seen)).Sub(sent.Truncate(time.Millisecond)))
	}
	before := tab.Heap()
	flood := sizedDown(10_000, 1000)
	for n := range flood {
		s.events <- pageEvent("change", pageChange(pageChanges+n))
	}
	tab.Until("the last one", fmt.Sprintf("window.seen[%q]", words(pageChanges+flood-1)))
	after := tab.Heap()
	grown := (after - before) / (1 << 20)
	t.add(goal(values("page_memory_mib", "what 10,000 changes have left in the heap of the page", "MiB", []float64{grown}), "≤ 5", grown <= 5),
		values("page_heap_mib", "the heap of the page with 20,000 cells", "MiB", []float64{after / (1 << 20)}))
	require.Empty(t, tab.Wrong())
	tab.Screenshot("page-cells")
}

// The fleet that the page is measured with. A letter and a screen are smooth when the main thread's work for them fits into two frames, and
// events when they leave half of the thread's time to who uses the page.
const (
	pageTiles      = 2000
	pageTilesFor   = 10 * time.Second // that events come for
	pageTilesEvery = 10 * time.Millisecond
	pageTwoFrames  = 33.0 // ms
	pageScreens    = 20
)

// pageTile is where one of the fleet's clusters stands.
func pageTile(cluster, chance int) string {
	name := fmt.Sprintf(`"cluster-providers/site%d/clusters/c%04d":`, cluster%5, cluster)
	if int(uint32(chance)*2654435761>>8)%20 == 0 {
		return name + `{"connectivity":"Retrying","heard":false,"report":"agentless","groups":3,"lastHeard":"2026-11-23T06:00:00Z","reason":"connection refused","labels":["edge"]}`
	}
	return name + fmt.Sprintf(`{"connectivity":"Available","heard":true,"report":"agentless","groups":%d,"version":"v1.34.%d","labels":["edge","l%d"]}`, chance%9, cluster%4, cluster%7)
}

// frames has the page note how long each frame has taken.
const frames = `(() => { window.frames = []; let last = performance.now();
	const frame = (now) => { window.frames.push(now - last); last = now; requestAnimationFrame(frame); }; requestAnimationFrame(frame); return true; })()`

// pageFleet measures how much the main thread of the fleet's page works with 2,000 tiles: for a letter of the filter, for a screen further
// down, and while 100 events a second come. It is processor time: the time between frames tells how busy the machine is, and has no goal.
func pageFleet(ctx context.Context, t *trial) {
	t.Helper()
	browser := harness.NewBrowser(ctx, t)
	p, err := page.New()
	require.NoError(t, err)
	s := &pageServer{page: p, events: make(chan []byte)}
	server := httptest.NewServer(s)
	defer server.Close()
	defer server.CloseClientConnections()
	tab := browser.Tab(server.URL + "/#/fleet")
	all := make([]string, pageTiles)
	for n := range all {
		all[n] = pageTile(n, n)
	}
	s.events <- pageEvent("status", "{"+strings.Join(all, ",")+"}")
	tab.Until("the fleet", "document.querySelectorAll('.tile').length > 20")
	tab.Screenshot("page-fleet-2000") // docs/page-fleet.png
	tab.CountWork()
	// Work for one thing is that of the next 150 ms, until all of its frames are drawn. A script that does nothing costs what is asked for with it.
	work := func(script string) float64 {
		t.Helper()
		before := tab.Worked()
		tab.Ask("(async () => { "+script+"; await new Promise((done) => setTimeout(done, 150)); return true; })()", nil)
		return float64((tab.Worked() - before).Microseconds()) / 1000
	}
	shown := func() (n int) {
		t.Helper()
		tab.Ask("document.querySelectorAll('.tile').length", &n)
		return n
	}
	var idle, letters, screens []float64
	t.finally(func() []figure {
		return []figure{
			atMost(values("page_tiles_letter_ms", "2,000 tiles: work of the page's main thread for a letter of the filter", "ms", letters), pageTwoFrames),
			atMost(values("page_tiles_screen_ms", "the same for a screen further down", "ms", screens), pageTwoFrames),
			values("page_tiles_idle_ms", "the same for nothing: what the measurement is in both", "ms", idle),
		}
	})
	for range 5 {
		idle = append(idle, work(""))
	}
	full := shown()
	for _, words := range []string{"c", "c1", "c12", "c120", "c12", "c1", "", "v1.34.2", "", "site3", ""} {
		letters = append(letters, work(fmt.Sprintf("const box = document.querySelector('input.search'); box.value = %q; box.dispatchEvent(new Event('input'))", words)))
		if words == "c120" {
			require.Less(t, shown(), full, "the filter chooses")
		}
	}
	for range pageScreens {
		screens = append(screens, work("scrollBy(0, innerHeight)"))
	}
	var down float64
	tab.Ask("scrollY / innerHeight", &down)
	require.Greater(t, down, 5.0, "screens further down")
	tab.Ask("scrollTo(0, 0)", nil)

	tab.Ask(frames, nil)
	tick := time.NewTicker(pageTilesEvery)
	defer tick.Stop()
	events, worked, begun := 0, tab.Worked(), time.Now()
	for ; time.Since(begun) < pageTilesFor; events++ {
		<-tick.C
		s.events <- pageEvent("change", "{"+pageTile(events*7%pageTiles, events)+"}")
	}
	flood := time.Since(begun)
	busy := 100 * (tab.Worked() - worked).Seconds() / flood.Seconds()
	var drawn []float64
	tab.Ask("window.frames", &drawn)
	rate := float64(events) / flood.Seconds()
	t.add(goal(values("page_tiles_event_busy_pct", fmt.Sprintf("2,000 tiles: share of the main thread's time that %.0f events a second take", rate), "%", []float64{busy}), "≤ 50", busy <= 50),
		values("page_tiles_event_frame_ms", "between frames meanwhile: how busy the machine is", "ms", drawn))
	require.NotEmpty(t, drawn)
	require.Empty(t, tab.Wrong())
	tab.Screenshot("page-tiles")
}
