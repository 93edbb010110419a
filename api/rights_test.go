package api_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/api"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/notify"
	ops "github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/rights/rightstest"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/service/servicetest"
	"github.com/drover-io/drover/internal/status"
)

// asksNobody are the routes at which nobody is asked who they are: what is no secret, and where one logs in.
var asksNobody = regexp.MustCompile(`^/(openapi\.json|docs(/.*)?|healthz|readyz|version|page/\*|login(/providers|/callback)?)?$`)

// TestRightsMatrix: every route, and every verb that a route may have, as each sort of caller. testdata/rights.txt says what each is
// answered: ✓ where the request goes on, else the status. A route that is new has no row there; DROVER_UPDATE=1 writes the file
// anew, and its difference is to be read.
func TestRightsMatrix(t *testing.T) {
	var columns []rightstest.Caller
	step := door.NewRights(func(context.Context) (*rights.Book, error) { return rightstest.Book(columns), nil }, lease.Now)
	var asked door.Request
	w := newWorldWith(t, func(w *world, d *deps, _ *service.Instances) {
		d.Prove = rightstest.Prover(w.store)
		d.Histories, d.Login = http.NotFoundHandler(), api.Login{Logins: &people{}} // there are all routes
		d.steps = []door.Step{
			func(ctx context.Context, r *door.Request, next door.Next) error {
				asked = *r
				return next(ctx)
			},
			step.Authorised,
			func(context.Context, *door.Request, door.Next) error { return fail.New(fail.Exhausted, "it goes on") },
		}
	})
	columns = rightstest.Callers(t, w.store)
	parameter := regexp.MustCompile(`:(\w+)`)
	rows := map[string]string{}
	row := func(method, path, query string) {
		var cells []string
		for _, c := range columns {
			answer := do(t, w.router, call{method: method, url: parameter.ReplaceAllString(path, "a-$1") + query, body: "{", header: map[string]string{
				"Authorization": c.Shows, "Cookie": "drover-session=one", // what /logout ends, whoever asks
			}})
			cell := fmt.Sprint(answer.Code)
			switch answer.Code {
			case http.StatusTooManyRequests:
				cell = "✓"
			case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
			default:
				t.Errorf("%s %s%s as %s %s: %d %s", method, path, query, c.Where, c.Role, answer.Code, answer.Body)
			}
			cells = append(cells, rightstest.Cell(cell))
		}
		what := fmt.Sprintf("%s %s%s (%s %s)", method, path, query, asked.Verb, asked.Noun.Kind)
		rows[path+" "+method+query] = strings.Join(cells, " ") + "  " + what
	}
	for _, route := range w.router.Routes() {
		if asksNobody.MatchString(route.Path) {
			continue
		}
		row(route.Method, route.Path, "")
		if route.Method == http.MethodGet && watched(t, w, parameter.ReplaceAllString(route.Path, "a-$1"), &asked) {
			row(route.Method, route.Path, "?watch=true")
		}
	}
	rightstest.Compare(t, "testdata/rights.txt", matrixLegend+rightstest.Legend+matrixNotes+rightstest.Matrix(columns, rows))
}

// watched says whether a route can be asked for as a stream.
func watched(t *testing.T, w *world, path string, asked *door.Request) bool {
	t.Helper()
	*asked = door.Request{}
	do(t, w.router, call{method: http.MethodGet, url: path + "?watch=true", header: map[string]string{"Authorization": "Bearer somebody"}})
	return asked.Verb == door.Watch
}

const matrixLegend = `Who may do what: rows are routes, with verb and noun; columns are callers, by where they have a role and which.
✓ the request goes on, 401 nobody knows who calls, 403 the caller may know of it and may not do it, 404 it is as if the thing were not
there.
`

const matrixNotes = `A list over scopes is open to all, and shows each what he may see. Routes at which nobody is asked who they are have no row: the page, the
documentation, probes, the version, and logins.

`

// callers is a world whose requests come from who its tests say.
type callers struct {
	*world
	who caller.Identity
}

func newCallers(t *testing.T) *callers {
	t.Helper()
	return newCallersWith(t, func(*deps) {})
}

// newCallersWith lets change put other parts in.
func newCallersWith(t *testing.T, change func(d *deps)) *callers {
	t.Helper()
	c := &callers{who: caller.Identity{Kind: caller.Open}}
	c.world = newRealWorldWith(t, func(w *world, d *deps) {
		change(d)
		read := func(ctx context.Context) (*rights.Book, error) { return w.service.Rights(ctx) }
		d.steps = append(d.steps, func(ctx context.Context, _ *door.Request, next door.Next) error {
			return next(caller.WithIdentity(ctx, c.who, nil))
		}, door.NewRights(read, lease.Now).Authorised)
	})
	return c
}

// as makes calls as a user.
func (c *callers) as(t *testing.T, user string, calls ...call) {
	t.Helper()
	c.who = caller.Identity{Kind: caller.User, Name: user}
	if user == "" {
		c.who = caller.Identity{Kind: caller.Open}
	}
	t.Run("as "+cmp.Or(user, "anybody"), func(t *testing.T) { check(t, c.router, calls) })
}

// bind is the call that gives roles.
func bind(below, name, role, user string) call {
	return call{
		name: role + " of " + below + " for " + user, method: "POST", url: below + "/role-bindings", status: 201,
		body: `{"metadata":{"name":"` + name + `"},"spec":{"role":"` + role + `","subjects":[{"kind":"user","name":"` + user + `"}]}}`,
	}
}

const (
	theirProject   = "/v2/projects/theirs"
	theirCloud     = theirProject + "/logical-clouds/lc"
	theirComposite = theirProject + "/composite-apps/ca/v1"
	theirProvider  = "/v2/cluster-providers/p2"
)

// furnishTheirs makes another project with a cluster provider of its own.
func furnishTheirs(t *testing.T, w *world) {
	t.Helper()
	for _, c := range []call{
		{url: "/v2/projects", body: `{"metadata":{"name":"theirs"}}`},
		{url: "/v2/cluster-providers", body: `{"metadata":{"name":"p2"}}`},
		{url: theirProvider + "/clusters", body: `{"metadata":{"name":"c2"}}`, file: []byte(kubeconfig)},
		{url: theirProvider + "/clusters/c2/labels", body: `{"clusterLabel":"far"}`},
		{url: theirProject + "/logical-clouds", body: `{"metadata":{"name":"lc"},"spec":{"level":"0"}}`},
		{url: theirCloud + "/cluster-references", body: `{"metadata":{"name":"ref"},"spec":{"clusterProvider":"p2","cluster":"c2"}}`},
		{url: theirCloud + "/cluster-references", body: `{"metadata":{"name":"shared"},"spec":{"clusterProvider":"p1","cluster":"c1"}}`},
		{url: theirCloud + "/instantiate", status: 202},
		{url: theirProject + "/status-collectors", body: `{"metadata":{"name":"theirs"},"spec":{"select":[{"name":"wec","def":"inventory.name"}]}}`},
		{url: theirProject + "/composite-apps", body: `{"metadata":{"name":"ca"},"spec":{"compositeAppVersion":"v1"}}`},
		{url: theirComposite + "/apps", body: `{"metadata":{"name":"theirapp"}}`, file: chartOf(t, "theirapp")},
		{url: theirComposite + "/composite-profiles", body: `{"metadata":{"name":"theirprofile"}}`},
		{url: theirComposite + "/deployment-intent-groups", body: `{"metadata":{"name":"theirgroup"},"spec":{"compositeProfile":"theirprofile","version":"r1","logicalCloud":"lc"}}`},
	} {
		post(t, w, c)
	}
}

// TestEveryoneSeesHisOwn: lists over scopes, and what is said of things that belong to others.
func TestEveryoneSeesHisOwn(t *testing.T) {
	w := newCallers(t)
	furnish(t, w.world)
	furnishTheirs(t, w.world)
	w.as(t, "", bind(theProject, "v", "viewer", "vera"), bind(theProject, "a", "project-admin", "anna"), bind(theProvider, "c", "cluster-admin", "carl"),
		bind("/v2", "ops", "viewer", "otto"))
	w.as(t, "vera",
		call{method: "GET", url: "/v2/projects", status: 200, contains: []string{"proj"}, lacks: []string{"theirs"}},
		call{method: "GET", url: "/v2/cluster-providers", status: 200, is: "[]"},
		call{method: "GET", url: "/v2/deployment-intent-groups", status: 200, contains: []string{"dig"}, lacks: []string{"theirgroup"}},
		call{name: "a page at a time", method: "GET", url: "/v2/deployment-intent-groups?limit=1", status: 200, contains: []string{"dig"}, lacks: []string{"theirgroup", "continue"}},
		call{method: "GET", url: "/v2/deployment-intent-groups?watch=true", status: 403, contains: []string{"has no right to watch deployment-intent-groups of the fleet"}},
		call{method: "GET", url: theGroup + "/explain", status: 200},
		call{method: "GET", url: theGroup + "/status", status: 200},
		call{method: "PUT", url: theGroup, body: groupBody, status: 403, contains: []string{"user vera has no right to put deployment-intent-groups of projects/proj", "editor", "user anna"}},
		call{name: "a project of others", method: "GET", url: theirProject, status: 404, is: "", contains: []string{`project "theirs" not found`}},
		call{name: "a project that is not there", method: "GET", url: "/v2/projects/none", status: 404, contains: []string{`project "none" not found`}},
		call{name: "what is in it", method: "GET", url: theirComposite + "/apps", status: 404, contains: []string{`project "theirs" not found`}},
		call{name: "to write it", method: "PUT", url: theirProject, body: `{"metadata":{"name":"theirs"}}`, status: 404, contains: []string{`project "theirs" not found`}},
		call{name: "a setting of the fleet", method: "GET", url: "/v2/controllers/rsync", status: 200},
		call{name: "who may do what", method: "GET", url: theProject + "/role-bindings", status: 200, contains: []string{"anna"}},
		call{name: "and in the fleet", method: "GET", url: "/v2/role-bindings", status: 404},
		call{name: "tenants", method: "GET", url: "/v2/tenants", status: 404},
		call{method: "GET", url: "/metrics", status: 404},
	)
	w.as(t, "carl",
		call{method: "GET", url: "/v2/cluster-providers", status: 200, contains: []string{"p1"}, lacks: []string{"p2"}},
		call{name: "what others have there", method: "DELETE", url: theCluster + "/labels/edge", status: 204},
		call{method: "DELETE", url: theCluster + "/kv-pairs/kv", status: 204},
		call{name: "is not named", method: "DELETE", url: theCluster, status: 409, contains: []string{"you may not see"}, lacks: []string{"proj", "theirs"}},
		call{method: "GET", url: "/v2/projects", status: 200, is: "[]"},
		call{method: "GET", url: theProvider + "/clusters?view=full", status: 200, contains: []string{`"c1"`}},
	)
	w.as(t, "otto",
		call{method: "GET", url: "/v2/projects", status: 200, contains: []string{"proj", "theirs"}},
		call{method: "GET", url: "/v2/deployment-intent-groups", status: 200, contains: []string{"dig", "theirgroup"}},
		call{method: "GET", url: "/v2/role-bindings", status: 404},
		call{method: "GET", url: "/metrics", status: 200},
	)
	w.as(t, "nobody",
		call{method: "GET", url: "/metrics", status: 404},
		call{method: "GET", url: "/v2/projects", status: 200, is: "[]"},
		call{method: "GET", url: "/v2/deployment-intent-groups", status: 200, is: `{"items":[]}`},
		call{method: "GET", url: theProject, status: 404},
		call{method: "GET", url: "/v2/controllers/rsync", status: 404},
		call{method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"mine"}}`, status: 403},
	)
	w.as(t, "anna",
		call{name: "a right that is withdrawn", method: "DELETE", url: theProject + "/role-bindings/v", status: 204})
	w.as(t, "vera", call{method: "GET", url: theProject, status: 404})
}

// going has operations of a group of theirs, and one of the group before the last of them.
type going struct{ servicetest.Willing }

func (g going) Executions(_ context.Context, f ops.Filter, limit int, after []byte) (found []ops.Execution, next []byte, err error) {
	const all = 40
	from, _ := strconv.Atoi(string(after))
	for i := from; i < all; i++ {
		owner := domain.Key(strings.TrimPrefix(theirComposite, "/v2/")) + "/deployment-intent-groups/theirgroup"
		if i == all-2 {
			owner = g.Group
		}
		scope := domain.ScopeOf(owner)
		switch {
		case f.Owner != "" && f.Owner != owner, f.Project != "" && f.Project != scope.Name():
		case f.Within != nil && !slices.Contains(f.Within, scope) && !slices.Contains(f.Within, "projects"):
		case len(found) == limit:
			return found, []byte(strconv.Itoa(i)), nil
		default:
			found = append(found, ops.Execution{
				Scope: domain.Scope{Owner: owner, ContextID: strconv.Itoa(100 + i), Operation: domain.OpUpdate},
				Run:   explain.Run{ID: "x", RunID: strconv.Itoa(i), Status: explain.Running, Started: now},
			})
		}
	}
	return found, nil, nil
}

// TestEveryoneSeesHisOwnOperations, and is not told that there are more, which he may not see, of a project, a group or a cluster or at all.
func TestEveryoneSeesHisOwnOperations(t *testing.T) {
	w := newCallersWith(t, func(d *deps) {
		d.Journal = service.NewJournal(d.lifecycle.(*service.Lifecycle), going{willing()}, explain.WebUI{})
	})
	furnish(t, w.world)
	furnishTheirs(t, w.world)
	w.as(t, "", bind(theProject, "v", "viewer", "vera"), bind("/v2", "c", "cluster-admin", "carl"), bind("/v2", "ops", "viewer", "otto"))
	asked := func(query string, c call) call {
		c.name, c.method, c.url, c.status = "operations "+query, "GET", "/v2/operations?limit=1"+query, 200
		return c
	}
	theirGroup := "&owner=" + strings.TrimPrefix(theirComposite, "/v2/") + "/deployment-intent-groups/theirgroup"
	nothing, own := call{is: `{"items":[]}`}, call{contains: []string{`/dig"`}, lacks: []string{"theirs", "continue"}}
	for _, query := range []string{"", "&project=theirs", "&project=none", theirGroup, "&cluster=p2%2Bc2", "&state=Failed"} {
		w.as(t, "nobody", asked(query, nothing))
		w.as(t, "carl", asked(query, nothing))
	}
	w.as(t, "vera", asked("", own), asked("&project=proj", own), asked("&project=theirs", nothing), asked("&project=none", nothing), asked(theirGroup, nothing),
		asked("&cluster=p2%2Bc2&state=Failed", nothing))
	w.as(t, "otto", asked("", call{contains: []string{"theirgroup", `"continue"`}}), asked("&project=theirs", call{contains: []string{"theirgroup", `"continue"`}}),
		asked("&project=proj", own))
}

// TestNobodyGivesWhatHeHasNot: roles and bindings.
func TestNobodyGivesWhatHeHasNot(t *testing.T) {
	w := newCallers(t)
	furnish(t, w.world)
	w.as(t, "",
		call{method: "POST", url: "/v2/roles", body: `{"metadata":{"name":"starter"},"spec":{"rules":[{"verbs":["get","instantiate"],"nouns":["deployment-intent-groups"]}]}}`, status: 201},
		call{method: "POST", url: "/v2/roles", body: `{"metadata":{"name":"giver"},"spec":{"rules":[{"verbs":["*"],"nouns":["roles","role-bindings"]}]}}`, status: 201},
		call{method: "POST", url: "/v2/roles", body: `{"metadata":{"name":"admin"},"spec":{"rules":[{"verbs":["*"],"nouns":["*"]}]}}`, status: 400, contains: []string{`the role "admin" is built in`}},
		bind(theProject, "a", "project-admin", "anna"), bind("/v2", "root", "admin", "root"), bind("/v2", "giver", "giver", "gina"),
		call{name: "a role that is not there", method: "POST", url: "/v2/role-bindings", body: `{"metadata":{"name":"x"},"spec":{"role":"ghost","subjects":[{"kind":"user","name":"x"}]}}`, status: 404, contains: []string{`spec.role: role "ghost" not found`}},
	)
	refused := func(c call, says string) call {
		c.name, c.status, c.contains = c.name+" is refused", 403, []string{says}
		return c
	}
	w.as(t, "anna", bind(theProject, "v", "viewer", "vera"), bind(theProject, "s", "starter", "stan"), bind(theProject, "a2", "project-admin", "axel"),
		refused(bind(theProject, "x", "admin", "anna"), `you cannot give the role "admin" here: it has a right that you have not`),
		call{name: "of the fleet", method: "POST", url: "/v2/role-bindings", body: `{"metadata":{"name":"x"},"spec":` + bindingSpec + `}`, status: 404})
	w.as(t, "stan",
		call{method: "GET", url: theGroup, status: 200},
		call{method: "PUT", url: theGroup, body: groupBody, status: 403},
		call{method: "GET", url: theCloud, status: 404},
		call{method: "GET", url: theProject + "/role-bindings", status: 404})
	w.as(t, "gina",
		refused(bind("/v2", "x", "viewer", "gina"), `you cannot give the role "viewer" here`),
		call{name: "a role that she has herself", method: "PUT", url: "/v2/roles/giver", body: `{"metadata":{"name":"giver"},"spec":{"rules":[{"verbs":["*"],"nouns":["*"]}]}}`, status: 403, contains: []string{`role "giver" cannot have a right that you have not in the fleet`}},
		call{name: "the last admin", method: "DELETE", url: "/v2/role-bindings/root", status: 409, contains: []string{`"root" is the last one`, "service-accounts/admin"}},
		bind("/v2", "y", "giver", "gustav"))
	w.as(t, "root",
		call{name: "himself, the last one", method: "DELETE", url: "/v2/role-bindings/root", status: 409},
		call{name: "by another role", method: "PUT", url: "/v2/role-bindings/root", body: `{"metadata":{"name":"root"},"spec":{"role":"viewer","subjects":[{"kind":"user","name":"root"}]}}`, status: 409},
		bind("/v2", "root2", "admin", "ruth"),
		call{name: "when there is another one", method: "DELETE", url: "/v2/role-bindings/root", status: 204},
		call{name: "who is admin no more", method: "GET", url: "/v2/role-bindings", status: 404})
	w.who = caller.Identity{Kind: caller.ServiceAccount, Name: string(domain.FirstAdmin)}
	check(t, w.router, []call{
		{name: "the last one, by the first account", method: "DELETE", url: "/v2/role-bindings/root2", status: 204},
		{name: "a role that somebody has", method: "DELETE", url: "/v2/roles/starter", status: 409, contains: []string{`role "starter" is used by project role binding "s"`}},
	})
}

// tried says of each reference that may lead out of the scope of its document by which test it is tried at what is others'. All others lead to
// what is in the same scope, as their keys are made of the document's own.
var tried = map[string]string{
	"app-intents spec.intent.allOf[].cluster -> clusters":             "TestReferencesDoNotReachAcross: a cluster",
	"app-intents spec.intent.allOf[].anyOf[].cluster -> clusters":     "TestReferencesDoNotReachAcross: a cluster among some",
	"app-intents spec.intent.anyOf[].cluster -> clusters":             "TestReferencesDoNotReachAcross: any cluster",
	"cluster-references spec.cluster -> clusters":                     "TestReferencesDoNotReachAcross: a cluster of others in a cloud",
	"customizations spec.clusterInfo.cluster -> clusters":             "TestAheadDoesNotReachAcross",
	"deployment-intents spec.intent[] -> controllers":                 "none: registrations are the fleet's settings, which all may read, and need not be there",
	"status-intents spec.statusCollectors[] -> status-collectors":     "none: the library is the fleet's setting, which all may read; another project's is TestReferencesDoNotReachAcross: a collector",
	"role-bindings spec.role -> roles":                                "none: the fleet's own",
	"project-role-bindings spec.role -> roles":                        "TestNobodyGivesWhatHeHasNot",
	"provider-role-bindings spec.role -> roles":                       "TestNobodyGivesWhatHeHasNot",
	"role-bindings spec.subjects[].name -> service-accounts":          "none: the fleet's own",
	"project-role-bindings spec.subjects[].name -> service-accounts":  "TestProjectsUseServiceAccounts",
	"provider-role-bindings spec.subjects[].name -> service-accounts": "TestProjectsUseServiceAccounts",
	"tenants spec.cluster -> clusters":                                "none: tenants are made by who is admin of the fleet",
}

// TestEveryReferenceIsTried: a reference that documents get anew, and that may lead to what is others', has a row above and a test.
func TestEveryReferenceIsTried(t *testing.T) {
	index, found := regexp.MustCompile(`\[[^]]*\]`), map[string]bool{}
	for _, n := range domain.Nouns {
		if n.New == nil {
			continue
		}
		if _, ok := n.New().(domain.Referrer); !ok {
			continue
		}
		chosen := rand.New(rand.NewPCG(1, 2))
		for range 500 { // what refers may depend on words of the document
			o := n.New()
			fillIn(reflect.ValueOf(o).Elem(), nil, chosen)
			o.Base().Parent = somewhere(n.Parent)
			key := domain.KeyOf(o)
			for _, ref := range o.(domain.Referrer).References() {
				if domain.ScopeOf(ref.Key) == domain.ScopeOf(key) && domain.ScopeOf(key) != "" {
					continue
				}
				found[fmt.Sprintf("%s %s -> %s", n.Kind, index.ReplaceAllString(ref.Field, "[]"), ref.Noun.Kind)] = true
			}
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(tried)), slices.Collect(maps.Keys(found)))
}

// somewhere is a key of a noun.
func somewhere(n *domain.Noun) domain.Key {
	if n == nil {
		return ""
	}
	return somewhere(n.Parent).Child(n.Collection, strings.Join(slices.Repeat([]string{"a"}, len(n.Names)), "/"))
}

// fillIn fills in all that a document may have: text that may be a word with one of those, or with a name of others.
func fillIn(v reflect.Value, words []string, chosen *rand.Rand) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillIn(v.Elem(), words, chosen)
	case reflect.String:
		if len(words) == 0 {
			words = []string{"p+c", domain.FleetCollector + "c"}
		}
		v.SetString(words[chosen.IntN(len(words))])
	case reflect.Slice:
		if chosen.IntN(2) == 0 { // where it is empty another member may count
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillIn(v.Index(0), words, chosen)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillIn(key, nil, chosen)
		fillIn(value, nil, chosen)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			words = nil
			if _, enum, ok := strings.Cut(f.Tag.Get("api"), "enum="); ok {
				enum, _, _ = strings.Cut(enum, ",")
				words = strings.Split(enum, ";")
			}
			fillIn(v.Field(i), words, chosen)
		}
	default:
	}
}

// TestReferencesDoNotReachAcross tries each reference that a body can carry at what belongs to another project or provider: it is
// refused as if that were not there.
func TestReferencesDoNotReachAcross(t *testing.T) {
	w := newCallers(t)
	furnish(t, w.world)
	furnishTheirs(t, w.world)
	w.as(t, "", bind(theProject, "a", "project-admin", "anna"), bind(theProject, "e", "editor", "eddi"), bind(theProvider, "a", "cluster-user", "anna"))
	group := func(profile, cloud, app string) string {
		return `{"metadata":{"name":"x"},"spec":{"compositeProfile":"` + profile + `","version":"r1","logicalCloud":"` + cloud + `","overrideValues":[{"app":"` + app + `","values":{}}]}}`
	}
	place := func(clusters string) string {
		return `{"metadata":{"name":"x"},"spec":{"app":"web","intent":{"allOf":[` + clusters + `]}}}`
	}
	groups, intents := theComposite+"/deployment-intent-groups", thePlacement+"/app-intents"
	for _, user := range []string{"anna", "eddi"} {
		w.as(t, user,
			call{name: "a profile", method: "POST", url: groups, body: group("theirprofile", "lc", "web"), status: 404, contains: []string{`composite profile "theirprofile" not found`}},
			call{name: "a path in place of a name", method: "POST", url: groups, body: group("../../../../projects/theirs/composite-apps/ca/v1/composite-profiles/theirprofile", "lc", "web"), status: 400},
			call{name: "an app", method: "POST", url: groups, body: group("cp", "lc", "theirapp"), status: 404, contains: []string{`app "theirapp" not found`}},
			call{name: "a logical cloud's path", method: "POST", url: groups, body: group("cp", "../theirs/logical-clouds/lc", "web"), status: 400},
			call{name: "a cluster", method: "POST", url: intents, body: place(`{"clusterProvider":"p2","cluster":"c2"}`), status: 404, contains: []string{`cluster "c2" not found`}},
			call{name: "one that is not there", method: "POST", url: intents, body: place(`{"clusterProvider":"p2","cluster":"c3"}`), status: 404, contains: []string{`cluster "c3" not found`}},
			call{name: "a cluster among some", method: "POST", url: intents, body: place(`{"anyOf":[{"clusterProvider":"p2","cluster":"c2"}]}`), status: 404, contains: []string{`cluster "c2" not found`}},
			call{name: "any cluster", method: "POST", url: intents, body: `{"metadata":{"name":"x"},"spec":{"app":"web","intent":{"anyOf":[{"clusterProvider":"p2","cluster":"c2"}]}}}`, status: 404, contains: []string{`cluster "c2" not found`}},
			call{name: "a label", method: "POST", url: intents, body: place(`{"clusterProvider":"p2","clusterLabel":"far"}`), status: 404, contains: []string{`spec.intent.allOf[0].clusterProvider: cluster provider "p2" not found`}},
			call{name: "a label of no provider", method: "POST", url: intents, body: place(`{"clusterProvider":"p3","clusterLabel":"far"}`), status: 404, contains: []string{`spec.intent.allOf[0].clusterProvider: cluster provider "p3" not found`}},
			call{name: "a collector", method: "POST", url: theGroup + "/status-intents", body: `{"metadata":{"name":"x"},"spec":{"statusCollectors":["theirs"]}}`, status: 404, contains: []string{`status collector "theirs" not found`}},
			call{name: "what the project has", method: "POST", url: intents, body: place(`{"clusterProvider":"p1","cluster":"c1"},{"clusterProvider":"p1","clusterLabel":"edge"}`), status: 201},
			call{name: "away with it", method: "DELETE", url: intents + "/x", status: 204},
		)
	}
	w.as(t, "anna",
		call{name: "a cluster of others in a cloud", method: "POST", url: theProject + "/logical-clouds/standard/cluster-references", body: `{"metadata":{"name":"x"},"spec":{"clusterProvider":"p2","cluster":"c2"}}`, status: 404, contains: []string{`spec.cluster: cluster "c2" not found`}},
		call{name: "one that may be used", method: "POST", url: theProject + "/logical-clouds/standard/cluster-references", body: `{"metadata":{"name":"x"},"spec":{"clusterProvider":"p1","cluster":"c1"}}`, status: 201})
	w.as(t, "", bind(theirProvider, "a", "cluster-user", "anna"))
	w.as(t, "anna", call{name: "a cluster that may be used from now on", method: "POST", url: theProject + "/logical-clouds/standard/cluster-references", body: `{"metadata":{"name":"y"},"spec":{"clusterProvider":"p2","cluster":"c2"}}`, status: 201})
	w.as(t, "eddi", call{name: "is one that others may name then", method: "POST", url: intents, body: place(`{"clusterProvider":"p2","cluster":"c2"}`), status: 201})
}

// TestProjectsUseServiceAccounts: accounts are the fleet's, and who may not see them binds them in a project of theirs all the same. What the
// account gets holds there, and nobody gets the account by that.
func TestProjectsUseServiceAccounts(t *testing.T) {
	w := newCallers(t)
	furnish(t, w.world)
	furnishTheirs(t, w.world)
	given := `{"metadata":{"name":"ci"},"spec":{"role":"editor","subjects":[{"kind":"service-account","name":"service-accounts/ci"}]}}`
	w.as(t, "", bind(theProject, "a", "project-admin", "anna"))
	w.as(t, "anna",
		call{name: "the account is not to be seen", method: "GET", url: theAccount, status: 404},
		call{name: "it is bound", method: "POST", url: theProject + "/role-bindings", body: given, status: 201},
		call{name: "not in another project", method: "POST", url: theirProject + "/role-bindings", body: given, status: 404},
		call{name: "nor is a token of it made", method: "POST", url: theAccount + "/tokens", body: `{"metadata":{"name":"mine"}}`, status: 404})
	w.who = caller.Identity{Kind: caller.ServiceAccount, Name: "service-accounts/ci"}
	check(t, w.router, []call{
		{name: "what the account may", method: "PUT", url: theGroup + "/generic-placement-intents/more", body: `{"metadata":{"name":"more"}}`, status: 201},
		{name: "what it may not", method: "POST", url: theGroup + "/approve", status: 403},
		{name: "elsewhere nothing", method: "GET", url: theirProject, status: 404},
	})
	w.as(t, "anna", call{name: "it is taken back", method: "DELETE", url: theProject + "/role-bindings/ci", status: 204})
	w.who = caller.Identity{Kind: caller.ServiceAccount, Name: "service-accounts/ci"}
	check(t, w.router, []call{{name: "and holds no more", method: "GET", url: theGroup, status: 404}})
}

// TestLabelsOfAClusterNeedTheirRight: who may delete a cluster and not its labels does not do so by having them go with it.
func TestLabelsOfAClusterNeedTheirRight(t *testing.T) {
	w := newCallers(t)
	provider := "/v2/cluster-providers/site"
	w.as(t, "",
		call{name: "a provider", method: "POST", url: "/v2/cluster-providers", body: `{"metadata":{"name":"site"}}`, status: 201},
		call{name: "a cluster", method: "POST", url: provider + "/clusters", body: `{"metadata":{"name":"c"}}`, file: []byte(kubeconfig), status: 201},
		call{name: "its label", method: "POST", url: provider + "/clusters/c/labels", body: `{"clusterLabel":"edge"}`, status: 201},
		call{name: "a role", method: "POST", url: "/v2/roles", status: 201,
			body: `{"metadata":{"name":"clears"},"spec":{"rules":[{"verbs":["get","list","delete"],"nouns":["clusters"]},{"verbs":["get","list"],"nouns":["cluster-labels"]}]}}`},
		bind(provider, "c", "clears", "cleo"), bind(provider, "a", "cluster-admin", "adam"))
	w.as(t, "cleo", call{name: "the cluster with its labels", method: "DELETE", url: provider + "/clusters/c?labels=true", status: 403, contains: []string{"delete cluster-labels"}},
		call{name: "both are there", method: "GET", url: provider + "/clusters/c/labels/edge", status: 200})
	w.as(t, "adam", call{name: "the cluster with its labels", method: "DELETE", url: provider + "/clusters/c?labels=true", status: 204},
		call{name: "the cluster is gone", method: "GET", url: provider + "/clusters/c", status: 404})
}

// TestLabelsAreSeenByTheirRight: who may see clusters and not their labels is not told of them by lists of clusters, nor by what is streamed of all.
func TestLabelsAreSeenByTheirRight(t *testing.T) {
	streams := asks{of: map[domain.Key]status.Query{}}
	w := newCallersWith(t, func(d *deps) { d.Streams = streams })
	const provider = "/v2/cluster-providers/site"
	w.as(t, "",
		call{name: "a provider", method: "POST", url: "/v2/cluster-providers", body: `{"metadata":{"name":"site"}}`, status: 201},
		call{name: "a cluster", method: "POST", url: provider + "/clusters", body: `{"metadata":{"name":"c"}}`, file: []byte(kubeconfig), status: 201},
		call{name: "its label", method: "POST", url: provider + "/clusters/c/labels", body: `{"clusterLabel":"edge"}`, status: 201},
		call{name: "a role", method: "POST", url: "/v2/roles", status: 201,
			body: `{"metadata":{"name":"counts"},"spec":{"rules":[{"verbs":["get","list","watch"],"nouns":["clusters"]}]}}`},
		bind(provider, "c", "counts", "cleo"), bind("/v2", "f", "counts", "fred"), bind(provider, "v", "viewer", "vera"), bind("/v2", "v", "viewer", "otto"))
	for _, user := range []string{"cleo", "fred"} {
		w.as(t, user,
			call{name: "labels", method: "GET", url: provider + "/clusters/c/labels", status: 404},
			call{method: "GET", url: provider + "/clusters?withLabels=true", status: 200, contains: []string{`"name":"c"`, `"labels":[]`}, lacks: []string{"edge"}},
			call{method: "GET", url: provider + "/clusters?label=edge", status: 200, is: "[]"},
			call{method: "GET", url: provider + "/clusters?view=full", status: 200, contains: []string{`"name":"c"`}, lacks: []string{"edge"}},
			call{method: "GET", url: "/v2/clusters", status: 200, contains: []string{`"name":"c"`}, lacks: []string{"edge"}})
	}
	for _, user := range []string{"vera", "otto"} {
		w.as(t, user,
			call{method: "GET", url: provider + "/clusters?withLabels=true", status: 200, contains: []string{`"clusterLabel":"edge"`}},
			call{method: "GET", url: provider + "/clusters?label=edge", status: 200, is: `["c"]`},
			call{method: "GET", url: provider + "/clusters?view=full", status: 200, contains: []string{`"labels":["edge"]`}},
			call{method: "GET", url: "/v2/clusters", status: 200, contains: []string{`"labels":["edge"]`}})
	}
	for user, of := range map[string]domain.Key{"fred": service.FleetUnlabelled, "otto": service.FleetClusters} {
		clear(streams.of)
		w.as(t, user, call{method: "GET", url: "/v2/clusters?watch=true", status: 503})
		require.Contains(t, streams.of, of, user)
		require.Len(t, streams.of, 1)
	}
}

// waiting is streams that last as long as their caller may have them.
type waiting struct {
	door.Streams
	begun func(of domain.Key)
}

func (w waiting) Subscribe(ctx context.Context, of domain.Key, _ status.Query, _ string) (*notify.Subscription, error) {
	w.begun(of)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(30 * time.Second):
		return nil, fail.New(fail.Internal, "it goes on")
	}
}

// TestStreamsWithLabelsEndWithTheirRight: who watches all clusters, and may not see their labels any more, is sent away, and begins again without them.
func TestStreamsWithLabelsEndWithTheirRight(t *testing.T) {
	t.Parallel()
	streams := &waiting{}
	w := newCallersWith(t, func(d *deps) { d.Streams = streams })
	w.as(t, "",
		call{name: "a role", method: "POST", url: "/v2/roles", status: 201,
			body: `{"metadata":{"name":"counts"},"spec":{"rules":[{"verbs":["get","list","watch"],"nouns":["clusters"]}]}}`},
		bind("/v2", "c", "counts", "fred"), bind("/v2", "v", "viewer", "fred"))
	var of []domain.Key
	streams.begun = func(key domain.Key) {
		of = append(of, key)
		w.who = caller.Identity{Kind: caller.Open}
		require.Equal(t, http.StatusNoContent, do(t, w.router, call{method: "DELETE", url: "/v2/role-bindings/v"}).Code)
	}
	w.as(t, "fred", call{method: "GET", url: "/v2/clusters?watch=true", status: 403, contains: []string{"user fred has no right any more to list cluster-labels"}})
	ctx, cancel := context.WithCancel(t.Context())
	streams.begun = func(key domain.Key) {
		of = append(of, key)
		cancel()
	}
	w.who = caller.Identity{Kind: caller.User, Name: "fred"}
	w.router.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v2/clusters?watch=true", nil))
	require.Equal(t, []domain.Key{service.FleetClusters, service.FleetUnlabelled}, of)
}

// TestFourEyes: where a project asks for it, who has changed a group does not approve it.
func TestFourEyes(t *testing.T) {
	w := newCallers(t)
	furnish(t, w.world)
	w.as(t, "", bind(theProject, "e1", "editor", "eddi"), bind(theProject, "e2", "editor", "anna"), bind(theProject, "a1", "approver", "eddi"),
		bind(theProject, "a2", "approver", "anna"), bind(theProject, "a3", "approver", "otto"))
	approve := call{method: "POST", url: theGroup + "/approve", status: 202}
	placement := call{method: "PUT", url: theGroup + "/generic-placement-intents/more", body: `{"metadata":{"name":"more"}}`, status: 201}
	change := call{method: "PUT", url: theGroup, body: groupBody, status: 200}
	refused := approve
	refused.name, refused.status = "approve is refused", 403
	refused.contains = []string{`was changed by user eddi since it was last approved, and project "proj" asks for four eyes`}
	w.as(t, "eddi", change, approve, change)
	w.as(t, "", call{method: "PUT", url: theProject, body: `{"metadata":{"name":"proj"},"spec":{"fourEyes":true}}`, status: 200, contains: []string{`"fourEyes":true`}})
	w.as(t, "eddi", refused)
	w.as(t, "otto", approve)
	w.as(t, "eddi", placement, refused)
	w.as(t, "anna", change)
	w.as(t, "eddi", refused)
	w.as(t, "anna", call{name: "nor another one who has", method: "POST", url: theGroup + "/approve", status: 403, contains: []string{"user anna"}})
	w.as(t, "otto", approve)
	placement.method, placement.status = "DELETE", 204
	w.as(t, "eddi", placement, refused)
	w.as(t, "otto", approve)
	w.as(t, "", call{method: "PUT", url: theProject, body: `{"metadata":{"name":"proj"},"spec":{"fourEyes":"yes"}}`, status: 422, contains: []string{"spec.fourEyes"}})
}

// TestFourEyesOfMany: when more have changed a group than are kept by name, nobody comes to approve his own change by that.
func TestFourEyesOfMany(t *testing.T) {
	w := newCallers(t)
	furnish(t, w.world)
	var subjects []string
	for i := range 70 {
		subjects = append(subjects, fmt.Sprintf(`{"kind":"user","name":"eddi-%d"}`, i))
	}
	w.as(t, "", call{method: "PUT", url: theProject, body: `{"metadata":{"name":"proj"},"spec":{"fourEyes":true}}`, status: 200},
		call{method: "POST", url: theProject + "/role-bindings", body: `{"metadata":{"name":"e"},"spec":{"role":"project-admin","subjects":[` + strings.Join(subjects, ",") + `]}}`, status: 201},
		bind(theProject, "a", "approver", "otto"), bind("/v2", "r", "admin", "root"))
	for i := range 70 {
		w.who = caller.Identity{Kind: caller.User, Name: fmt.Sprintf("eddi-%d", i)}
		require.Equal(t, http.StatusOK, do(t, w.router, call{method: "PUT", url: theGroup, body: groupBody}).Code)
	}
	approve := call{method: "POST", url: theGroup + "/approve", status: 403}
	for _, user := range []string{"eddi-0", "eddi-69", "otto"} {
		w.as(t, user, approve)
	}
	approve.status = 202
	w.as(t, "root", approve)
}

// TestNobodySpeaksForWhoHasMore: a token of a service account is made by who has all that the account has.
func TestNobodySpeaksForWhoHasMore(t *testing.T) {
	w := newCallers(t)
	furnish(t, w.world)
	const first = "/v2/service-accounts/admin"
	anew := call{method: "POST", url: "/v2/service-accounts", body: `{"metadata":{"name":"admin"}}`, status: 201}
	issue := func(account, name string, status int, contains ...string) call {
		return call{name: "a token of " + account, method: "POST", url: account + "/tokens", body: `{"metadata":{"name":"` + name + `"}}`, status: status, contains: contains}
	}
	w.as(t, "", anew,
		call{method: "POST", url: "/v2/roles", body: `{"metadata":{"name":"issuer"},"spec":{"rules":[{"verbs":["*"],"nouns":["service-accounts","service-account-tokens"]}]}}`, status: 201},
		bind("/v2", "i", "issuer", "ines"), bind("/v2", "r", "admin", "root"), bind("/v2", "both", "issuer", "bea"), bind(theProject, "both", "project-admin", "bea"))
	w.as(t, "ines", issue(theAccount, "a", 201), issue(first, "a", 403, `you cannot speak as service account "admin", or end what speaks as it: it has a right that you have not`))
	w.as(t, "root", issue(first, "r", 201))
	w.as(t, "", call{method: "POST", url: theProject + "/role-bindings", status: 201,
		body: `{"metadata":{"name":"ci"},"spec":{"role":"editor","subjects":[{"kind":"service-account","name":"service-accounts/ci"}]}}`})
	w.as(t, "ines", issue(theAccount, "b", 403, "of projects/proj"))
	w.as(t, "bea", issue(theAccount, "b", 201), issue(first, "b", 403))
	revoked := call{method: "DELETE", url: first + "/tokens/r", status: 403}
	w.as(t, "ines", revoked, call{method: "DELETE", url: theAccount + "/tokens/a", status: 403})
	w.as(t, "bea", call{method: "DELETE", url: theAccount + "/tokens/a", status: 204})
	revoked.status = 204
	ended := call{method: "DELETE", url: first, status: 403}
	w.as(t, "root", revoked)
	w.as(t, "ines", ended)
	ended.status = 204
	w.as(t, "root", ended)
	anew.status = 403
	put := anew
	put.method, put.url = "PUT", first
	w.as(t, "ines", anew, put)
	anew.status = 201
	w.as(t, "root", anew)
}

// TestCloudsStayInTheirNamespace: who may use clusters and write logical clouds does not come to more there than namespaces of his
// clouds, unless he may write the clusters.
func TestCloudsStayInTheirNamespace(t *testing.T) {
	w := newCallers(t)
	furnish(t, w.world)
	w.as(t, "", bind(theProject, "a", "project-admin", "anna"), bind(theProvider, "a", "cluster-user", "anna"),
		bind(theProject, "c", "project-admin", "carl"), bind(theProvider, "c", "cluster-admin", "carl"), bind(theProject, "n", "project-admin", "nina"))
	clouds := theProject + "/logical-clouds"
	cloud := func(method, name, spec string, status int) call {
		url := clouds
		if method == "PUT" {
			url += "/" + name
		}
		return call{name: method + " " + name + " " + spec, method: method, url: url, body: `{"metadata":{"name":"` + name + `"},"spec":` + spec + `}`, status: status}
	}
	permission := func(cloud, name, namespace string, status int) call {
		return call{name: "permission for " + namespace, method: "POST", url: clouds + "/" + cloud + "/user-permissions", status: status,
			body: `{"metadata":{"name":"` + name + `"},"spec":{"namespace":"` + namespace + `","apiGroups":["*"],"resources":["*"],"verbs":["*"]}}`}
	}
	reference := func(cloud string, status int) call {
		return call{name: "reference of " + cloud, method: "POST", url: clouds + "/" + cloud + "/cluster-references", status: status,
			body: `{"metadata":{"name":"ref"},"spec":{"clusterProvider":"p1","cluster":"c1"}}`}
	}
	refused := func(c call) call {
		c.status, c.contains = 403, append(c.contains, "put clusters of cluster")
		return c
	}
	const own = `{"namespace":"ours","user":{"userName":"u"}}`
	w.as(t, "anna",
		cloud("POST", "own", own, 201), reference("own", 201), permission("own", "p", "ours", 201),
		refused(permission("own", "all", "", 0)), refused(permission("own", "others", "kube-system", 0)),
		refused(cloud("PUT", "own", `{"level":"0"}`, 0)), refused(cloud("PUT", "own", `{"namespace":"theirs","user":{"userName":"u"}}`, 0)),
		refused(cloud("PUT", "own", `{"namespace":"ours","user":{"userName":"system:apiserver"}}`, 0)), cloud("PUT", "own", own, 201),
		cloud("POST", "late", own, 201), permission("late", "all", "", 201), refused(reference("late", 0)),
		cloud("POST", "level0", `{"level":"0"}`, 201), refused(reference("level0", 0)),
		cloud("POST", "system", `{"namespace":"kube-system","user":{"userName":"u"}}`, 201), refused(reference("system", 0)),
		call{name: "nothing of it is stored", method: "GET", url: clouds + "/own/user-permissions", status: 200, lacks: []string{"kube-system", `"namespace":""`}},
		call{method: "GET", url: clouds + "/own", status: 200, contains: []string{`"namespace":"ours"`, `"level":"1"`, `"userName":"u"`}})
	unknown := refused(permission("own", "all", "", 0))
	unknown.contains = []string{`you have no right to put clusters of cluster provider "p1"`}
	w.as(t, "nina", unknown)
	w.as(t, "carl", permission("own", "all", "", 201), reference("late", 201), reference("level0", 201), reference("system", 201))
	w.as(t, "anna", call{name: "less of it", method: "DELETE", url: clouds + "/own/user-permissions/all", status: 204})
	w.as(t, "", permission("own", "all", "", 201))

	// Namespaces in which Drover has its ServiceAccounts, and those of others.
	w.as(t, "anna", cloud("POST", "moves", own, 201), reference("moves", 201))
	for i, c := range []struct {
		namespace string
		refused   bool
	}{
		{domain.AccountNamespace, true}, {domain.AgentNamespace, true}, {domain.OperatorNamespace, true}, {"default", true}, {"tenant-t1", true},
		{"tenant-other", false}, {"drovers", false},
	} {
		name, spec := fmt.Sprint("in", i), `{"namespace":"`+c.namespace+`","user":{"userName":"u"}}`
		come, change := reference(name, 201), cloud("PUT", "moves", spec, 201)
		if c.refused {
			come, change = refused(come), refused(change)
			come.contains = append(come.contains, c.namespace)
		}
		w.as(t, "anna", cloud("POST", name, spec, 201), come, change, cloud("PUT", "moves", own, 201))
		if c.refused {
			w.as(t, "carl", reference(name, 201))
		}
	}
	other := call{name: "a tenant whose namespace a cloud has", method: "POST", url: "/v2/tenants", body: `{"metadata":{"name":"other"},"spec":{"cluster":"p1+c1"}}`}
	other.status, other.contains = 409, []string{"namespace tenant-other of the tenant is that of projects/proj/logical-clouds/in5 in cluster p1+c1"}
	elsewhere := other
	elsewhere.status, elsewhere.contains, elsewhere.body = 201, nil, `{"metadata":{"name":"other"},"spec":{"cluster":"p1+elsewhere"}}`
	moves := other
	moves.name, moves.method, moves.url = "and comes there", "PUT", "/v2/tenants/other"
	w.as(t, "", other, call{method: "POST", url: theProvider + "/clusters", body: `{"metadata":{"name":"elsewhere"}}`, file: []byte(kubeconfig), status: 201}, elsewhere, moves)
}

// TestCloudsDoNotSayWhatPodsMayBe: labels by which a namespace says it are set, changed and taken away by who may write the clusters alone.
// Others stay free, and what is there already does not keep a cloud from being changed otherwise.
func TestCloudsDoNotSayWhatPodsMayBe(t *testing.T) {
	w := newCallers(t)
	furnish(t, w.world)
	w.as(t, "", bind(theProject, "a", "project-admin", "anna"), bind(theProvider, "a", "cluster-user", "anna"),
		bind(theProject, "c", "project-admin", "carl"), bind(theProvider, "c", "cluster-admin", "carl"))
	clouds := theProject + "/logical-clouds"
	labelled := func(method, labels string, status int) call {
		c := call{name: method + " " + labels, method: method, url: clouds, status: status,
			body: `{"metadata":{"name":"own"},"spec":{"namespace":"ours","labels":{` + labels + `},"user":{"userName":"u"}}}`}
		if method == "PUT" {
			c.url += "/own"
		}
		if status == 403 {
			c.contains = []string{"put clusters of cluster", "spec.labels[pod-security.kubernetes.io/enforce]"}
		}
		return c
	}
	reference := call{method: "POST", url: clouds + "/own/cluster-references", status: 201,
		body: `{"metadata":{"name":"ref"},"spec":{"clusterProvider":"p1","cluster":"c1"}}`}
	const privileged, restricted = `"pod-security.kubernetes.io/enforce":"privileged"`, `"pod-security.kubernetes.io/enforce":"restricted"`
	late := reference
	late.status, late.contains = 403, []string{"spec.labels[pod-security.kubernetes.io/enforce]"}
	w.as(t, "anna", labelled("POST", privileged, 201), late, labelled("PUT", ``, 201), reference,
		labelled("PUT", `"team":"a"`, 201), labelled("PUT", `"team":"a",`+privileged, 403),
		call{name: "it is not stored", method: "GET", url: clouds + "/own", status: 200, lacks: []string{"pod-security"}})
	w.as(t, "carl", labelled("PUT", restricted, 201))
	w.as(t, "anna", labelled("PUT", `"team":"b",`+restricted, 201), labelled("PUT", privileged, 403), labelled("PUT", ``, 403),
		call{name: "it stays", method: "GET", url: clouds + "/own", status: 200, contains: []string{"restricted"}})
	w.as(t, "carl", labelled("PUT", ``, 201))
}

// TestCloudsEnforceWhatAllDo: while the operator has all namespaces of logical clouds enforce a standard, no label says less, whoever sets it; and who may not
// write the clusters gives no right by which the label could be changed there.
func TestCloudsEnforceWhatAllDo(t *testing.T) {
	w := newCallersWith(t, func(d *deps) { d.podSecurity = domain.PodBaseline })
	furnish(t, w.world)
	w.as(t, "", bind(theProject, "a", "project-admin", "anna"), bind(theProvider, "a", "cluster-user", "anna"),
		bind(theProject, "c", "project-admin", "carl"), bind(theProvider, "c", "cluster-admin", "carl"))
	clouds := theProject + "/logical-clouds"
	labelled := func(method, label string, status int) call {
		c := call{name: method + " " + label, method: method, url: clouds, status: status,
			body: `{"metadata":{"name":"own"},"spec":{"namespace":"ours","labels":{` + label + `},"user":{"userName":"u"}}}`}
		if method == "PUT" {
			c.url += "/own"
		}
		if status == 400 {
			c.contains = []string{"spec.labels[pod-security.kubernetes.io/enforce", "the operator has all logical clouds' namespaces enforce baseline (--cloud-pod-security)"}
		}
		return c
	}
	permission := func(name, resources, verbs string, status int) call {
		c := call{name: "permission " + name, method: "POST", url: clouds + "/own/user-permissions", status: status,
			body: `{"metadata":{"name":"` + name + `"},"spec":{"namespace":"ours","apiGroups":[""],"resources":["` + resources + `"],"verbs":["` + verbs + `"]}}`}
		if status == 403 {
			c.contains = []string{"may change what Pods its namespace takes", name, "put clusters of cluster"}
		}
		return c
	}
	reference := call{name: "reference", method: "POST", url: clouds + "/own/cluster-references", status: 201,
		body: `{"metadata":{"name":"ref"},"spec":{"clusterProvider":"p1","cluster":"c1"}}`}
	early := reference
	early.status, early.contains = 403, []string{"may change what Pods its namespace takes"}
	const enforce = `"pod-security.kubernetes.io/enforce`
	w.as(t, "anna", labelled("POST", enforce+`":"privileged"`, 400), labelled("POST", enforce+`-version":"v1.20"`, 400), labelled("POST", `"team":"a"`, 201),
		permission("early", "*", "*", 201), early, call{name: "without it", method: "DELETE", url: clouds + "/own/user-permissions/early", status: 204}, reference,
		labelled("PUT", enforce+`":"privileged"`, 400), permission("pods", "pods", "*", 201), permission("namespaces", "namespaces", "patch", 403))
	w.as(t, "carl", labelled("PUT", enforce+`":"privileged"`, 400), labelled("PUT", enforce+`":"restricted"`, 201), permission("namespaces", "namespaces", "patch", 201))
}

// TestCloudsOfOthersKeepTheirUsers: a cluster signs certificates of a name, whatever cloud they are for. So nobody takes the user of
// another project's cloud in one of its clusters, but who may write these; clouds of one project may share a user.
func TestCloudsOfOthersKeepTheirUsers(t *testing.T) {
	w := newCallers(t)
	furnish(t, w.world)
	const theirs = "/v2/projects/theirs"
	w.as(t, "", call{method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"theirs"}}`, status: 201},
		bind(theProject, "a", "project-admin", "anna"), bind(theProvider, "a", "cluster-user", "anna"),
		bind(theirs, "b", "project-admin", "bert"), bind(theProvider, "b", "cluster-user", "bert"),
		bind(theirs, "c", "project-admin", "carl"), bind(theProvider, "c", "cluster-admin", "carl"))
	cloud := func(method, project, name, spec string, status int) call {
		c := call{name: method + " " + project + " " + name + " " + spec, method: method, url: project + "/logical-clouds", status: status,
			body: `{"metadata":{"name":"` + name + `"},"spec":` + spec + `}`}
		if method == "PUT" {
			c.url += "/" + name
		}
		return c
	}
	reference := func(project, cloud string) call {
		return call{name: "reference of " + cloud, method: "POST", url: project + "/logical-clouds/" + cloud + "/cluster-references", status: 201,
			body: `{"metadata":{"name":"ref"},"spec":{"clusterProvider":"p1","cluster":"c1"}}`}
	}
	refused := func(c call) call {
		c.status, c.contains, c.lacks = 403, []string{`spec.user.userName "alice"`, "put clusters of cluster"}, []string{"projects/proj", `"proj"`, `"one"`}
		return c
	}
	const alice, bob = `{"namespace":"a","user":{"userName":"alice"}}`, `{"namespace":"b","user":{"userName":"bob"}}`
	w.as(t, "anna", cloud("POST", theProject, "one", alice, 201), reference(theProject, "one"),
		cloud("POST", theProject, "two", alice, 201), reference(theProject, "two"))
	w.as(t, "bert", cloud("POST", theirs, "late", alice, 201), refused(reference(theirs, "late")),
		cloud("POST", theirs, "own", bob, 201), reference(theirs, "own"),
		refused(cloud("PUT", theirs, "own", `{"namespace":"b","user":{"userName":"alice"}}`, 0)),
		call{name: "it is not stored", method: "GET", url: theirs + "/logical-clouds/own", status: 200, contains: []string{`"userName":"bob"`}},
		cloud("PUT", theirs, "own", `{"namespace":"b2","user":{"userName":"bob"}}`, 201),
		cloud("PUT", theirs, "late", `{"namespace":"a","user":{"userName":"Alice"}}`, 201), reference(theirs, "late"))
	w.as(t, "carl", cloud("PUT", theirs, "own", alice, 201))
	w.as(t, "anna", cloud("PUT", theProject, "one", `{"namespace":"a","labels":{"team":"a"},"user":{"userName":"alice"}}`, 201))
}

// puts stores an app context of a logical cloud that goes to p1+c1: what the cloud has there, of one resource, by its mark.
func (c *callers) puts(t *testing.T, cloud, id string, state domain.State, status domain.ContextStatus, mark domain.Mark) {
	t.Helper()
	key, edge := domain.Key(strings.TrimPrefix(cloud, "/v2/")), domain.ClusterName{Provider: "p1", Name: "c1"}
	o, err := c.store.Get(t.Context(), domain.LogicalClouds, key)
	require.NoError(t, err)
	o.(*domain.LogicalCloud).History.Append(state, id, 1, now)
	require.NoError(t, c.store.Replace(t.Context(), o))
	data, err := json.Marshal(plan.Plan{ContextID: id, Owner: key, Apps: []plan.App{{
		Name: "logical-cloud", Resources: make([]plan.ResourceID, 1), Targets: []plan.Target{{ClusterName: edge}},
	}}})
	require.NoError(t, err)
	i := &domain.Instance{ContextID: id, Owner: key, LogicalCloud: key, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Status: status, Accepted: now, Ended: now}
	if i.Plan, err = c.store.PutBlob(t.Context(), data); state == domain.Terminated {
		i.Operation = domain.OpTerminate
	}
	require.NoError(t, err)
	require.NoError(t, c.store.PutInstance(t.Context(), i))
	require.NoError(t, c.store.PutLeaf(t.Context(), domain.Leaf{
		ID: domain.LeafID(id, "logical-cloud", edge), ContextID: id, Operation: i.Operation, App: "logical-cloud", Cluster: edge, Marks: domain.Marks{mark}.Encode(),
	}))
}

// TestWhatACloudStillHasIsItsOwn: a reference that is deleted leaves what the cloud has in the cluster until the cloud is updated or terminated. Until then
// nobody else comes to its user, nor a tenant to its namespace, and it is not forgotten with the cloud by who may not write the cluster.
func TestWhatACloudStillHasIsItsOwn(t *testing.T) {
	w := newCallers(t)
	furnish(t, w.world)
	const theirs = "/v2/projects/theirs"
	w.as(t, "", call{method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"theirs"}}`, status: 201},
		bind(theProject, "a", "project-admin", "anna"), bind(theProvider, "a", "cluster-user", "anna"),
		bind(theProject, "c", "project-admin", "carl"), bind(theProvider, "c", "cluster-admin", "carl"),
		bind(theirs, "b", "project-admin", "bert"), bind(theProvider, "b", "cluster-user", "bert"))
	cloud := func(project, name, namespace string) call {
		return call{name: "cloud " + name, method: "POST", url: project + "/logical-clouds", status: 201,
			body: `{"metadata":{"name":"` + name + `"},"spec":{"namespace":"` + namespace + `","user":{"userName":"alice"}}}`}
	}
	reference := func(project, cloud string, status int) call {
		return call{name: "reference of " + cloud, method: "POST", url: project + "/logical-clouds/" + cloud + "/cluster-references", status: status,
			body: `{"metadata":{"name":"ref"},"spec":{"clusterProvider":"p1","cluster":"c1"}}`}
	}
	tenant := call{method: "POST", url: "/v2/tenants", body: `{"metadata":{"name":"other"},"spec":{"cluster":"p1+c1"}}`, status: 409,
		contains: []string{"projects/proj/logical-clouds/one still has namespace tenant-other of the tenant in cluster p1+c1: update that cloud, or terminate it"}}
	refused := reference(theirs, "late", 403)
	refused.contains = []string{`spec.user.userName "alice", which a logical cloud of another project still has there, until that is updated or terminated`, "put clusters of cluster"}
	refused.lacks = []string{"projects/proj", `"one"`}
	const one = theProject + "/logical-clouds/one"
	w.as(t, "anna", cloud(theProject, "one", "tenant-other"), reference(theProject, "one", 201))
	w.puts(t, one, "1", domain.Instantiated, domain.ContextInstantiated, domain.MarkApplied)
	w.as(t, "anna", call{method: "DELETE", url: one + "/cluster-references/ref", status: 204})
	w.as(t, "bert", cloud(theirs, "late", "theirs"), refused)
	w.as(t, "", tenant)

	// An update has taken all away there: the record of the context that it has made says so.
	require.NoError(t, w.store.UpdateInstance(t.Context(), "1", func(i *domain.Instance) error { i.Status = domain.ContextUpdated; return nil }))
	w.puts(t, one, "2", domain.Updated, domain.ContextInstantiated, domain.MarkDeleted)
	w.as(t, "bert", reference(theirs, "late", 201), call{method: "DELETE", url: theirs + "/logical-clouds/late/cluster-references/ref", status: 204})

	// Its terminate was stopped. Who may not write the cluster does not have it forgotten.
	require.NoError(t, w.store.UpdateInstance(t.Context(), "2", func(i *domain.Instance) error { i.Status = domain.ContextUpdated; return nil }))
	w.puts(t, one, "3", domain.Terminated, domain.ContextTerminateFailed, domain.MarkUndeleted)
	w.as(t, "bert", refused)
	w.as(t, "", tenant)
	gone := call{name: "the cloud goes", method: "DELETE", url: one, status: 403, contains: []string{
		`logical cloud "one" may have its namespace "tenant-other", and rights of its user, in cluster p1+c1 still: terminate it again`, "put clusters of cluster"}}
	w.as(t, "anna", gone, call{name: "it is there", method: "GET", url: one, status: 200})
	gone.status, gone.contains = 204, nil
	w.as(t, "carl", gone)
	w.as(t, "bert", reference(theirs, "late", 201))

	// Where nobody can tell what it has, it is not taken for gone.
	const lost = theProject + "/logical-clouds/lost"
	w.as(t, "anna", cloud(theProject, "lost", "tenant-other"))
	w.puts(t, lost, "5", domain.Terminated, domain.ContextTerminateFailed, domain.MarkUndeleted)
	require.NoError(t, w.store.UpdateInstance(t.Context(), "5", func(i *domain.Instance) error { i.Plan = domain.Digest(strings.Repeat("0", 64)); return nil }))
	w.as(t, "anna", call{name: "lost", method: "DELETE", url: lost, status: 409, contains: []string{"its plan is lost; who may write all clusters can delete it"}})
	w.as(t, "", bind(theirs, "d", "project-admin", "dora"), bind(theProject, "d", "viewer", "dora"), bind(theProvider, "d", "cluster-user", "dora"))
	const until = ` may still have there, as its plan is lost, until it is terminated, or, where that fails, who may write all clusters deletes it then; for cluster p1+c1 that is given by who may write it alone`
	again := refused
	again.contains = []string{`spec.user.userName "alice", which a logical cloud of another project` + until}
	w.as(t, "bert", call{method: "DELETE", url: theirs + "/logical-clouds/late/cluster-references/ref", status: 204}, again)
	again.contains, again.lacks = []string{`spec.user.userName "alice", which projects/proj/logical-clouds/lost` + until}, nil
	w.as(t, "dora", again)
	tenant.contains = []string{"projects/proj/logical-clouds/lost may still have namespace tenant-other of the tenant in cluster p1+c1, as its plan is lost: terminate that cloud, where that fails have it deleted then by who may write all clusters"}
	w.as(t, "", tenant, call{name: "lost", method: "DELETE", url: lost, status: 204})
	w.as(t, "bert", reference(theirs, "late", 201))

	// One whose terminate is through goes by itself.
	w.as(t, "anna", cloud(theProject, "over", "ours"))
	w.puts(t, theProject+"/logical-clouds/over", "4", domain.Terminated, domain.ContextTerminated, domain.MarkDeleted)
	w.as(t, "anna", call{method: "DELETE", url: theProject + "/logical-clouds/over", status: 204})
}

// TestCertificatesOutliveTheirClouds: who has one is its user until it expires, when cloud and reference are long gone. So nobody else gets the user's name.
func TestCertificatesOutliveTheirClouds(t *testing.T) {
	w := newCallers(t)
	furnish(t, w.world)
	w.as(t, "", bind(theProject, "a", "project-admin", "anna"), bind(theProvider, "a", "cluster-user", "anna"),
		bind(theProject, "c", "project-admin", "carl"), bind(theProvider, "c", "cluster-admin", "carl"))
	const own = theProject + "/logical-clouds/own"
	w.as(t, "anna", call{method: "POST", url: theProject + "/logical-clouds", status: 201, body: `{"metadata":{"name":"own"},"spec":{"namespace":"ours","user":{"userName":"alice"}}}`})
	reference := call{method: "POST", url: own + "/cluster-references", status: 201, body: `{"metadata":{"name":"ref"},"spec":{"clusterProvider":"p1","cluster":"c1"}}`}
	gone := call{method: "DELETE", url: own + "/cluster-references/ref", status: 204}
	refused, edge := reference, domain.ClusterName{Provider: "p1", Name: "c1"}
	refused.status, refused.lacks = 403, []string{"projects/was"}
	refused.contains = []string{`has spec.user.userName "alice", of which a logical cloud of another project had a certificate there that is good until ` + now.Add(time.Hour).UTC().Format(time.RFC3339), "put clusters of cluster"}
	for _, harmless := range []domain.Certified{
		{Cluster: edge, User: "alice", Scope: "projects/was", Expires: now.Add(-policy.CertificateOver)}, {Cluster: edge, User: "alice", Scope: "projects/proj", Expires: now.Add(time.Hour)},
		{Cluster: edge, User: "bob", Scope: "projects/was", Expires: now.Add(time.Hour)},
	} {
		require.NoError(t, w.store.PutCertified(t.Context(), harmless))
	}
	w.as(t, "anna", reference, gone)
	require.NoError(t, w.store.PutCertified(t.Context(), domain.Certified{Cluster: edge, User: "alice", Scope: "projects/was", Expires: now.Add(-time.Minute)}))
	late := refused // the cluster's clock may be behind
	late.contains = []string{"a certificate there that was good until " + now.Add(-time.Minute).UTC().Format(time.RFC3339) + ", and counts until " + now.Add(59*time.Minute).UTC().Format(time.RFC3339)}
	w.as(t, "anna", late)
	require.NoError(t, w.store.PutCertified(t.Context(), domain.Certified{Cluster: edge, User: "alice", Scope: "projects/was", Expires: now.Add(time.Hour)}))
	w.as(t, "anna", refused)
	w.as(t, "carl", reference)
}

// TestAheadDoesNotReachAcross: what may be named before it is there may not be named where it is others', be it there or not.
func TestAheadDoesNotReachAcross(t *testing.T) {
	w := newCallers(t)
	furnish(t, w.world)
	furnishTheirs(t, w.world)
	w.as(t, "", bind(theProject, "e", "editor", "eddi"), bind(theProject, "u", "editor", "uta"), bind(theirProvider, "u", "cluster-user", "uta"))
	customize := func(name, provider, cluster string, status int) call {
		return call{name: provider + " " + cluster, method: "POST", url: theGenericResource + "/customizations", file: []byte{}, status: status,
			body: `{"metadata":{"name":"` + name + `"},"spec":{"clusterSpecific":"true","clusterInfo":{"scope":"name","clusterProvider":"` + provider + `","cluster":"` + cluster + `","clusterLabel":"","mode":"allow"}}}`}
	}
	w.as(t, "eddi", customize("own", "p1", "c1", 201))
	for _, cluster := range []string{"c2", "none"} {
		refused := customize("x", "p2", cluster, 404)
		refused.contains = []string{`spec.clusterInfo.cluster: cluster "` + cluster + `" not found`}
		w.as(t, "eddi", refused)
		w.as(t, "uta", customize("u-"+cluster, "p2", cluster, 201))
	}
	byLabel := func(name, specific, provider string, status int) call {
		return call{name: "by label " + provider, method: "POST", url: theGenericResource + "/customizations", file: []byte{}, status: status,
			body: `{"metadata":{"name":"` + name + `"},"spec":{"clusterSpecific":"` + specific + `","clusterInfo":{"scope":"label","clusterProvider":"` + provider + `","cluster":"","clusterLabel":"edge","mode":"allow"}}}`}
	}
	w.as(t, "eddi", byLabel("own-label", "true", "p1", 201), byLabel("not-looked-at", "false", "p2", 201))
	for _, provider := range []string{"p2", "none"} { // approve would say whether it is there
		refused := byLabel("x", "true", provider, 404)
		refused.contains = []string{`spec.clusterInfo.clusterProvider: cluster provider "` + provider + `" not found`}
		w.as(t, "eddi", refused)
	}
	w.as(t, "uta", byLabel("u-label", "true", "p2", 201))
}

// TestScopesTakeTheirBindings: who has his rights by a binding of a project or provider can delete it, and who comes after has none
// of them.
func TestScopesTakeTheirBindings(t *testing.T) {
	w := newCallers(t)
	furnish(t, w.world)
	for _, c := range []struct{ collection, role string }{{"projects", "project-admin"}, {"cluster-providers", "cluster-admin"}} {
		scope, body := "/v2/"+c.collection+"/short", `{"metadata":{"name":"short"}}`
		anew := call{method: "POST", url: "/v2/" + c.collection, body: body, status: 201}
		gone := call{name: "its bindings are gone", method: "GET", url: scope + "/role-bindings", status: 200, is: "[]"}
		w.as(t, "", anew, bind(scope, "a", c.role, "anna"), bind(scope, "v", "viewer", "vera"))
		w.as(t, "anna", call{method: "DELETE", url: scope, status: 204})
		w.as(t, "", call{method: "GET", url: scope, status: 404}, anew, gone)
		w.as(t, "vera", call{method: "GET", url: scope, status: 404})

		// The process died between the two.
		key := domain.Key(c.collection + "/short")
		left := func() {
			noun := map[string]*domain.Noun{"projects": domain.Projects, "cluster-providers": domain.ClusterProviders}[c.collection]
			w.as(t, "", bind(scope, "a", c.role, "anna"))
			require.NoError(t, w.store.Delete(t.Context(), noun, key, 0))
		}
		left()
		w.as(t, "anna", call{name: "again", method: "DELETE", url: scope, status: 204})
		w.as(t, "", call{method: "DELETE", url: scope, status: 404}, anew, gone)
		left()
		w.as(t, "", anew, gone)
		w.as(t, "anna", call{method: "GET", url: scope, status: 404})
	}
}
