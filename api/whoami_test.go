package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/rights/rightstest"
	"github.com/drover-io/drover/internal/service"
)

// TestWhoamiSaysWhatTheDoorSays: every route of a project, of a provider and of the fleet is let in where whoami says that its verb is
// allowed, and refused where whoami says so, as each role.
func TestWhoamiSaysWhatTheDoorSays(t *testing.T) {
	var bound []*domain.RoleBinding
	for _, in := range []domain.Key{"", "projects/a-project", "projects/other", "cluster-providers/a-clusterProvider"} {
		for _, role := range domain.BuiltInRoles {
			bound = append(bound, rightstest.Binding(in, role, domain.SubjectUser, string(in)+" "+role))
		}
	}
	step := door.NewRights(func(context.Context) (*rights.Book, error) { return rights.NewBook(nil, bound), nil }, lease.Now)
	var asked door.Request
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) {
		d.Prove = rightstest.ByWord
		d.steps = []door.Step{
			func(ctx context.Context, r *door.Request, next door.Next) error {
				asked = *r
				return next(ctx)
			},
			step.Authorised,
			func(ctx context.Context, r *door.Request, next door.Next) error {
				if r.Noun == domain.Whoami {
					return next(ctx)
				}
				return fail.New(fail.Exhausted, "it goes on")
			},
		}
	})
	as := func(user string, c call) (int, []byte) {
		c.header = map[string]string{"Authorization": "Bearer " + user, "Accept": "application/json"}
		answer := do(t, w.router, c)
		return answer.Code, answer.Body.Bytes()
	}
	parameter := regexp.MustCompile(`:(\w+)`)
	compared := 0
	for _, b := range append(bound, rightstest.Binding("", "viewer", domain.SubjectUser, "nobody")) {
		user := b.Spec.Subjects[0].Name
		may := map[string]service.Right{} // by query and noun
		for _, query := range []string{"?noun=*", "?project=a-project", "?clusterProvider=a-clusterProvider"} {
			code, body := as(user, call{method: "GET", url: "/v2/whoami" + query})
			require.Equal(t, http.StatusOK, code, "%s", body)
			var said service.Whoami
			require.NoError(t, json.Unmarshal(body, &said))
			require.Equal(t, user, said.Name)
			for _, r := range said.Rights {
				may[query+" "+r.Noun] = r
			}
		}
		for _, route := range w.router.Routes() {
			if beside.MatchString(route.Path) || route.Path == "/v2/whoami" {
				continue
			}
			code, body := as(user, call{method: route.Method, url: parameter.ReplaceAllString(route.Path, "a-$1"), body: "{"})
			query := "?noun=*"
			switch {
			case strings.HasPrefix(route.Path, "/v2/projects/:project"):
				query = "?project=a-project"
			case strings.HasPrefix(route.Path, "/v2/cluster-providers/:clusterProvider"):
				query = "?clusterProvider=a-clusterProvider"
			}
			let := slices.Contains(may[query+" "+asked.Noun.Kind].May, string(asked.Verb))
			require.Equal(t, code == http.StatusTooManyRequests, let, "%q: %s %s (%s %s): %d %s", user, route.Method, route.Path, asked.Verb, asked.Noun.Kind, code, body)
			compared++
		}
	}
	require.Greater(t, compared, 5_000)
}

// TestWhoami: who asks learns that, what is allowed, and what is missing; never whether something is there.
func TestWhoami(t *testing.T) {
	w := newCallers(t)
	furnish(t, w.world)
	furnishTheirs(t, w.world)
	w.as(t, "", bind(theProject, "v", "viewer", "vera"), bind(theProject, "a", "approver", "vera"), bind(theProject, "p", "project-admin", "anna"),
		call{name: "anybody", method: "GET", url: "/v2/whoami?noun=projects", status: 200, contains: []string{`"kind":"open"`, `"create"`}})
	const group = "noun=deployment-intent-groups&"
	w.as(t, "vera",
		call{method: "GET", url: "/v2/whoami", status: 200, is: `{"installation":"` + theInstallation + `","kind":"user","name":"vera"}`},
		call{
			name: "what the page asks", method: "GET", url: "/v2/whoami?project=proj&" + group + "verb=approve&verb=stop", status: 200,
			contains: []string{
				`"scope":"projects/proj","rights":[{"noun":"deployment-intent-groups","may":["approve"],"mayNot":[{"verb":"stop","kind":"Forbidden",`,
				"operator", "user anna or service-account service-accounts/admin can give",
			},
		},
		call{name: "what others have is not there", method: "GET", url: "/v2/whoami?project=theirs&" + group + "verb=get", status: 200, contains: []string{`"may":[]`, `"kind":"NotFound"`, `project \"theirs\" not found`}},
		call{name: "nor is what nobody has", method: "GET", url: "/v2/whoami?project=none&" + group + "verb=get", status: 200, contains: []string{`"may":[]`, `"kind":"NotFound"`, `project \"none\" not found`}},
		call{name: "everywhere", method: "GET", url: "/v2/whoami?" + group + "verb=get&verb=list", status: 200, contains: []string{`"may":["list"]`, `"verb":"get","kind":"Forbidden"`}},
		call{name: "a list", method: "GET", url: "/v2/whoami?project=proj", status: 200, contains: []string{`"noun":"apps"`}, lacks: []string{"mayNot", `"noun":"clusters"`, `"may":[]`}},
		call{name: "one verb of all", method: "GET", url: "/v2/whoami?project=proj&verb=approve", status: 200, contains: []string{`"rights":[{"noun":"deployment-intent-groups","may":["approve"]}]`}},
	)
	w.as(t, "vera",
		call{name: "a noun that is none", method: "GET", url: "/v2/whoami?noun=groups", status: 400, contains: []string{`noun: "groups" is no noun; there are cluster-providers,`}},
		call{name: "a verb that is none", method: "GET", url: "/v2/whoami?verb=fly", status: 400, contains: []string{`verb: "fly" is no verb`}},
		call{name: "a verb of others", method: "GET", url: "/v2/whoami?noun=apps&verb=approve", status: 400, contains: []string{"nobody can approve apps; what can be done is create, delete, get, list, put"}},
		call{name: "a noun that lies elsewhere", method: "GET", url: "/v2/whoami?noun=clusters&project=proj", status: 400, contains: []string{"clusters do not lie in projects/proj"}},
		call{name: "two scopes", method: "GET", url: "/v2/whoami?clusterProvider=p1&project=proj", status: 400, contains: []string{"is given beside project"}},
		call{name: "a project without a name", method: "GET", url: "/v2/whoami?project=", status: 400, contains: []string{"project"}},
		call{name: "a name that is none", method: "GET", url: "/v2/whoami?project=a%2Fb", status: 400, contains: []string{"project"}},
		call{name: "many", method: "GET", url: "/v2/whoami?" + strings.Repeat("noun=apps&", 101), status: 400, contains: []string{"is given 101 times"}},
	)
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	w.who = caller.Identity{Kind: caller.User, Name: "dex:alice", Groups: []string{"dex:ops"}, By: "oidc https://dex.example.org", Expires: until}
	check(t, w.router, []call{{
		name: "how it was proven", method: "GET", url: "/v2/whoami", status: 200,
		contains: []string{`"groups":["dex:ops"]`, `"by":"oidc https://dex.example.org"`, `"expires":"` + until.UTC().Format(time.RFC3339)},
	}})
}
