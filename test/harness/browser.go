package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// browsers are the names under which Chromium is looked for.
var browsers = []string{"chromium", "chromium-browser", "google-chrome"}

// Browser is a headless Chromium of a test's own. Where there is none the test is left out, whatever else is required: not every
// machine on which everything else is there has one.
type Browser struct {
	t   testing.TB
	ctx context.Context
}

// NewBrowser starts one, which ends with the test.
func NewBrowser(ctx context.Context, t testing.TB) *Browser {
	t.Helper()
	program := ""
	for _, name := range browsers {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		t.Skipf("none of %s is in PATH: the page is not looked at in a browser", strings.Join(browsers, ", "))
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:len(chromedp.DefaultExecAllocatorOptions):len(chromedp.DefaultExecAllocatorOptions)],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1400, 900), chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.WSURLReadTimeout(Patience), chromedp.UserDataDir(t.TempDir()))
	ctx, stop := chromedp.NewExecAllocator(context.WithoutCancel(ctx), options...) // to be asked at the end what was to be seen
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until it has ended; afterwards nothing is written into its folder
		end()
	})
	require.NoError(t, chromedp.Do(ctx))
	return &Browser{t, ctx}
}

// Tab is a tab of a browser.
type Tab struct {
	t   testing.TB
	ctx context.Context
	end context.CancelFunc

	mu    sync.Mutex
	wrong []string // what the page, or the browser about it, has said to be wrong
}

// Tab opens one at an address. Before that it does what is given.
func (b *Browser) Tab(address string, before ...chromedp.Action[chromedp.Void]) *Tab {
	b.t.Helper()
	ctx, end := chromedp.NewContext(b.ctx)
	b.t.Cleanup(end)
	tab := &Tab{t: b.t, ctx: ctx, end: end}
	require.NoError(b.t, chromedp.Listen(ctx, tab.listen)) // opens it, with a context that has no end of its own
	b.t.Cleanup(func() {
		if b.t.Failed() && tab.ctx.Err() == nil {
			b.t.Logf("the page at the end:\n%s\nwhat was wrong: %q", tab.text(), tab.Wrong())
		}
	})
	tab.Do(before...)
	tab.Do(chromedp.Navigate(address))
	return tab
}

// Close closes it, as a browser does that is ended: nobody asks the page.
func (t *Tab) Close() { t.end() }

// listen notes what is said to be wrong.
func (t *Tab) listen(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		said := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			said += " " + e.ExceptionDetails.Exception.Description
		}
		t.note("exception: " + said)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			t.note(string(e.Entry.Source) + ": " + e.Entry.Text)
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			for _, a := range e.Args {
				t.note("console: " + a.Description + string(a.Value))
			}
		}
	}
}

func (t *Tab) note(wrong string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrong = append(t.wrong, wrong)
}

// Wrong is what was said to be wrong: exceptions, and what the page's policy has forbidden. That a server does not answer is not.
func (t *Tab) Wrong() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.wrong...)
}

// patience bounds each thing that a browser is asked for.
const patience = time.Minute

// Do does things in the tab.
func (t *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	t.t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	require.NoError(t.t, chromedp.Do(ctx, actions...))
}

// Ask evaluates an expression, waits for it if it is a promise, and decodes what it comes to; into may be nil.
func (t *Tab) Ask(expression string, into any) {
	t.t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	text, err := ask(ctx, expression)
	require.NoError(t.t, err, "%s", expression)
	if into != nil {
		require.NoError(t.t, json.Unmarshal([]byte(text), into), "%s", expression)
	}
}

// ask answers with what an expression comes to, as JSON.
func ask(ctx context.Context, expression string) (string, error) {
	return chromedp.Run(ctx, chromedp.Evaluate[string]("Promise.resolve("+expression+").then((v) => JSON.stringify(v ?? null))", chromedp.EvalAwaitPromise))
}

// Until waits until an expression is true.
func (t *Tab) Until(what, expression string) {
	t.t.Helper()
	Until(t.ctx, t.t, what, func() bool {
		ctx, cancel := context.WithTimeout(t.ctx, patience)
		defer cancel()
		text, err := ask(ctx, "Boolean("+expression+")")
		return err == nil && text == "true" // while another page is loaded, nobody answers
	})
}

// Says waits until the text is on the page, in what of it a selector finds.
func (t *Tab) Says(selector, text string) {
	t.t.Helper()
	t.Until(fmt.Sprintf("%q in %s", text, selector), fmt.Sprintf("[...document.querySelectorAll(%s)].some((e) => e.innerText.includes(%s))", quoted(selector), quoted(text)))
}

// Click clicks on the first element that a selector finds and whose text has the words, when it is there and can be clicked on.
func (t *Tab) Click(selector, words string) {
	t.t.Helper()
	found := fmt.Sprintf("[...document.querySelectorAll(%s)].find((e) => !e.disabled && e.checkVisibility() && (e.innerText + (e.getAttribute('aria-label') ?? '')).includes(%s))", quoted(selector), quoted(words))
	t.Until(fmt.Sprintf("%s with %q", selector, words), found)
	t.Ask("setTimeout(() => "+found+"?.click())", nil) // what it does may end the page that is asked
}

// Press presses keys, as names of kb have them or as they are written.
func (t *Tab) Press(keys string) {
	t.t.Helper()
	t.Do(chromedp.KeyEvent(keys))
}

// text is all that can be read on the page, as far as the browser still tells.
func (t *Tab) text() string {
	ctx, cancel := context.WithTimeout(t.ctx, 5*time.Second)
	defer cancel()
	text, err := ask(ctx, "location.href + '\\n' + document.body.innerText")
	if err != nil {
		return err.Error()
	}
	return text
}

// Size makes the tab as large as a screen.
func (t *Tab) Size(width, height int64) {
	t.t.Helper()
	t.Do(chromedp.EmulateViewport(width, height))
}

// Dark has the tab prefer dark colours, or light ones.
func (t *Tab) Dark(dark bool) {
	t.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	t.Do(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}))
}

// command is an action that asks the browser for something and needs no answer.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// BypassPolicy has the browser not keep to the page's policy, which keeps axe out too.
func BypassPolicy() chromedp.Action[chromedp.Void] {
	return command(page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true})
}

// Violations are the rules of accessibility that the page breaks, by axe, each with the elements. The tab must have been opened with
// BypassPolicy.
func (t *Tab) Violations() []string {
	t.t.Helper()
	axe, err := os.ReadFile(filepath.Join("testdata", "axe", "axe.min.js"))
	require.NoError(t.t, err)
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	_, err = chromedp.Run(ctx, chromedp.Evaluate[int](string(axe)+";0"))
	require.NoError(t.t, err)
	var found []string
	t.Ask(`axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations.map((v) => v.id + ': ' + v.help + '\n' + v.nodes.slice(0, 3).map((n) => n.html + ' ' + (n.any[0]?.message ?? '')).join('\n')))`, &found)
	return found
}

// Hidden has the page think that nobody looks at it, from its beginning on.
func Hidden() chromedp.Action[chromedp.Void] {
	return command(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: "Object.defineProperty(document, 'hidden', { configurable: true, get: () => true })",
	})
}

// Old has the browser lack what browsers have since 2024.
func Old() chromedp.Action[chromedp.Void] {
	return command(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: "delete AbortSignal.any"})
}

// Forgetful has the browser store nothing for the page, as where people or their company have blocked that.
func Forgetful() chromedp.Action[chromedp.Void] {
	return command(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: "for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, { get() { throw new DOMException(name, 'SecurityError'); } })",
	})
}

// Heap is what is alive in the tab's heap after a collection, in bytes.
func (t *Tab) Heap() (used float64) {
	t.t.Helper()
	t.Do(command(heapprofiler.CollectGarbage, cdp.Empty{}), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		found, err := cdp.Call(ctx, target, runtime.GetHeapUsage, cdp.Empty{})
		used = found.UsedSize
		return err
	}))
	return used
}

// CountWork has the browser count from now on how long the tab's main thread works, see Worked.
func (t *Tab) CountWork() {
	t.t.Helper()
	t.Do(command(performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}))
}

// Worked is the processor time of the tab's main thread for all tasks so far: scripts, styles, layout and paint. Other work on the machine
// is not in it, unlike in what a clock says.
func (t *Tab) Worked() (worked time.Duration) {
	t.t.Helper()
	t.Do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		found, err := cdp.Call(ctx, target, performance.GetMetrics, cdp.Empty{})
		for _, m := range found.Metrics {
			if m.Name == "TaskDuration" {
				worked = time.Duration(m.Value * float64(time.Second))
				return err
			}
		}
		return errors.Join(err, errors.New("the browser does not count how long the main thread works"))
	}))
	return worked
}

// Screenshot writes what is to be seen into the folder DROVER_TEST_SCREENSHOTS; without it nothing is done.
func (t *Tab) Screenshot(name string) {
	t.t.Helper()
	folder := os.Getenv("DROVER_TEST_SCREENSHOTS")
	if folder == "" {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	require.NoError(t.t, err)
	require.NoError(t.t, os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o600))
}

// quoted is a text as JavaScript has it.
func quoted(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string
	}
	return string(data)
}
