package api_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
)

// beside are the routes that ask nothing of the product, or whose requests have tests of their own: those of logins.
var beside = regexp.MustCompile(`^/(openapi\.json|docs(/.*)?|healthz|readyz|version|metrics|page/\*|login(/providers|/callback)?|logout)?$`)

// TestEveryRoutePassesTheDoor: with a door that lets nobody in, every route answers with the door's refusal, whatever its
// body is, and has come there with a verb, a noun and a scope. testdata/door.txt says with which; DROVER_UPDATE=1 writes it
// anew.
func TestEveryRoutePassesTheDoor(t *testing.T) {
	var came []door.Request
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) {
		d.steps = []door.Step{func(_ context.Context, r *door.Request, _ door.Next) error {
			came = append(came, *r)
			return fail.New(fail.Forbidden, "closed")
		}}
	})
	parameter := regexp.MustCompile(`:(\w+)`)
	var found []string
	for _, route := range w.router.Routes() {
		if beside.MatchString(route.Path) {
			continue
		}
		require.True(t, strings.HasPrefix(route.Path, "/v2/"), "%s %s is neither below /v2 nor one that asks nothing", route.Method, route.Path)
		came = nil
		path := parameter.ReplaceAllString(route.Path, "a-$1")
		answer := do(t, w.router, call{method: route.Method, url: path, body: "{"})
		require.Equal(t, http.StatusForbidden, answer.Code, "%s %s: %s", route.Method, route.Path, answer.Body)
		require.Len(t, came, 1, "%s %s", route.Method, route.Path)
		r := came[0]
		require.True(t, slices.Contains(domain.Nouns, r.Noun) || slices.Contains(domain.Computed, r.Noun), "%s %s", route.Method, route.Path)
		require.Equal(t, route.Method != http.MethodGet && r.Verb != door.Query, r.Verb.Command(), "%s %s %s", route.Method, route.Path, r.Verb)
		require.True(t, strings.HasPrefix(path+"/", "/v2/"+string(r.Key())) || r.Key() == "", "%s: %s", path, r.Key())
		scope, _, _ := strings.Cut(string(r.Scope()), "/")
		found = append(found, fmt.Sprintf("%s %s: %s %s of %s", route.Path, route.Method, r.Verb, r.Noun.Kind, cmp.Or(scope, "the fleet")))
	}
	slices.Sort(found)
	text := strings.Join(found, "\n") + "\n"
	if os.Getenv("DROVER_UPDATE") != "" {
		require.NoError(t, os.WriteFile("testdata/door.txt", []byte(text), 0o644))
	}
	want, err := os.ReadFile("testdata/door.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

// TestStreamsPassTheDoorAsWatches: what is asked for as a stream is a verb of its own.
func TestStreamsPassTheDoorAsWatches(t *testing.T) {
	var verb door.Verb
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) {
		d.steps = []door.Step{func(_ context.Context, r *door.Request, _ door.Next) error {
			verb = r.Verb
			return fail.New(fail.Forbidden, "closed")
		}}
	})
	for path, want := range map[string]door.Verb{
		theGroup + "/status?watch=true": door.Watch, theCluster + "/status?watch=true": door.Watch, theCloud + "/status?watch=1": door.Watch,
		theProject + "/deployment-intent-groups?watch=true": door.Watch, "/v2/deployment-intent-groups?watch=true": door.Watch,
		theGroup + "/status?watch=false": door.Status, theGroup: door.Get,
	} {
		require.Equal(t, http.StatusForbidden, do(t, w.router, call{method: "GET", url: path}).Code, path)
		require.Equal(t, want, verb, path)
	}
}

// TestCommandsAreAnsweredBehindTheDoor: a step that fails when a command is done has the last word, as audit needs: nothing
// has been sent. It knows by then what was made.
func TestCommandsAreAnsweredBehindTheDoor(t *testing.T) {
	var shut bool
	var passed []string
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) {
		d.steps = []door.Step{func(ctx context.Context, r *door.Request, next door.Next) error {
			err := next(ctx)
			if err == nil && shut && r.Verb.Command() {
				passed = append(passed, string(r.Verb)+" "+string(r.Key()))
				return fail.New(fail.Unavailable, "cannot be audited")
			}
			return err
		}}
	})
	furnish(t, w)
	shut = true
	for _, c := range []call{
		{method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"more"}}`},
		{method: "PUT", url: theProject, body: `{"metadata":{"name":"proj"}}`},
		{method: "DELETE", url: "/v2/controllers/rsync"},
		{method: "POST", url: theComposite + "/apps", body: `{"metadata":{"name":"third"}}`, file: chartOf(t, "third")},
		{method: "POST", url: theGroup + "/approve"}, {method: "POST", url: theGroup + "/instantiate"},
		{method: "POST", url: theGroup + "/update"}, {method: "POST", url: theGroup + "/stop"}, {method: "POST", url: theGroup + "/terminate"},
		{method: "POST", url: theGroup + "/rollback", body: `{"spec":{"revision":"1"}}`},
		{method: "POST", url: theGroup + "/migrate", body: `{"spec":{"targetCompositeAppVersion":"v2","targetDeploymentIntentGroup":"g"}}`},
	} {
		answer := do(t, w.router, c)
		require.Equal(t, http.StatusServiceUnavailable, answer.Code, "%s %s: %s", c.method, c.url, answer.Body)
		require.Equal(t, "cannot be audited\n", answer.Body.String())
	}
	require.Equal(t, []string{
		"create projects/more", "put projects/proj", "delete controllers/rsync", "create projects/proj/composite-apps/ca/v1/apps/third",
		"approve " + string(theGroupKey), "instantiate " + string(theGroupKey), "update " + string(theGroupKey), "stop " + string(theGroupKey),
		"terminate " + string(theGroupKey), "rollback " + string(theGroupKey), "migrate " + string(theGroupKey),
	}, passed)
	require.Contains(t, w.log.String(), `msg=command requestId=`)
	require.Regexp(t, `verb=create noun=projects key=projects/more outcome=Unavailable`, w.log.String())
}

// TestStepsMayEndAStream: what a step gives to those behind it is what a stream lives by.
func TestStepsMayEndAStream(t *testing.T) {
	begun := make(chan context.CancelFunc, 1)
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) {
		d.steps = []door.Step{func(ctx context.Context, _ *door.Request, next door.Next) error {
			ctx, cancel := context.WithCancel(ctx)
			begun <- cancel
			return next(ctx)
		}}
	})
	server := httptest.NewServer(w.router)
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+theGroup+"/status?watch=true", nil)
	require.NoError(t, err)
	answer, err := server.Client().Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	(<-begun)()
	_, err = io.Copy(io.Discard, answer.Body) // until the stream has ended
	require.NoError(t, err)
}
