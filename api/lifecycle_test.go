package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

const theGroupKey = domain.Key("projects/proj/composite-apps/ca/v1/deployment-intent-groups/dig")

func readGroup(t *testing.T, w *world, key domain.Key) *domain.DeploymentIntentGroup {
	t.Helper()
	o, err := w.store.Get(t.Context(), domain.DeploymentIntentGroups, key)
	require.NoError(t, err)
	return o.(*domain.DeploymentIntentGroup)
}

// record puts a group into a state, as an operation does.
func record(t *testing.T, w *world, key domain.Key, state domain.State, contextID string) {
	t.Helper()
	group := readGroup(t, w, key)
	group.History.Append(state, contextID, 0, now)
	require.NoError(t, w.store.Replace(t.Context(), group))
}

func TestLifecycleRoutes(t *testing.T) {
	for name, c := range map[string]struct {
		call     call
		warnings []string
		err      error
		asked    []string
	}{
		"approve with emcoctl's body":    {call: call{method: "POST", url: theGroup + "/approve", body: `{"metadata":{"name":""}}`, status: 202}, asked: []string{"approve dig"}},
		"instantiate":                    {call: call{method: "POST", url: theGroup + "/instantiate", status: 202, answers: map[string]string{"Warning": ""}}, asked: []string{"instantiate dig"}},
		"instantiate with a warning":     {call: call{method: "POST", url: theGroup + "/instantiate", status: 202, answers: map[string]string{"Warning": `299 - "hook \"a\u00e4\" is not run"`}}, warnings: []string{`hook "aä" is not run`}, asked: []string{"instantiate dig"}},
		"terminate with a body of bytes": {call: call{method: "POST", url: theGroup + "/terminate", body: "\x00", status: 202}, asked: []string{"terminate dig"}},
		"update":                         {call: call{method: "POST", url: theGroup + "/update", body: `{"metadata":{"name":""}}`, status: 202, is: "2\n", answers: map[string]string{"Content-Type": "application/json"}}, asked: []string{"update dig"}},
		"update without a difference":    {call: call{method: "POST", url: theGroup + "/update", status: 202, is: "2\n", answers: map[string]string{"Warning": `299 - "nothing"`}}, warnings: []string{"nothing"}, asked: []string{"update dig"}},
		"update refused":                 {call: call{method: "POST", url: theGroup + "/update", status: 409, contains: []string{"no\n"}}, err: fail.New(fail.Conflict, "no"), asked: []string{"update dig"}},
		"rollback":                       {call: call{method: "POST", url: theGroup + "/rollback", body: `{"metadata":{"description":"d"},"spec":{"revision":"3"}}`, status: 202}, asked: []string{"rollback to 3 dig"}},
		"rollback with much to say":      {call: call{method: "POST", url: theGroup + "/rollback", body: `{"metadata":{"description":"` + strings.Repeat("d", 1025) + `"},"spec":{"revision":"3"}}`, status: 400, contains: []string{"metadata.description"}}},
		"migrate with much to say":       {call: call{method: "POST", url: theGroup + "/migrate", body: `{"metadata":{"description":"` + strings.Repeat("d", 1025) + `"},"spec":{"targetCompositeAppVersion":"v2","targetDeploymentIntentGroup":"dig"}}`, status: 400, contains: []string{"metadata.description"}}},
		"rollback without a revision":    {call: call{method: "POST", url: theGroup + "/rollback", body: `{"spec":{}}`, status: 400, contains: []string{"spec.revision"}}},
		"rollback to no number":          {call: call{method: "POST", url: theGroup + "/rollback", body: `{"spec":{"revision":"one"}}`, status: 400, contains: []string{"spec.revision", "one"}}},
		"rollback to a number":           {call: call{method: "POST", url: theGroup + "/rollback", body: `{"spec":{"revision":1}}`, status: 422, contains: []string{"spec.revision"}}},
		"rollback without a body":        {call: call{method: "POST", url: theGroup + "/rollback", status: 400, contains: []string{"Empty body"}}},
		"migrate":                        {call: call{method: "POST", url: theGroup + "/migrate", body: `{"spec":{"targetCompositeAppVersion":"v2","targetDeploymentIntentGroup":"next"},"more":1}`, status: 202, answers: map[string]string{"Warning": `299 - "unknown field \"more\""`}}, asked: []string{"migrate to v2/next dig"}},
		"migrate to no group":            {call: call{method: "POST", url: theGroup + "/migrate", body: `{"spec":{"targetCompositeAppVersion":"v2"}}`, status: 400, contains: []string{"spec.targetDeploymentIntentGroup"}}},
		"stop":                           {call: call{method: "POST", url: theGroup + "/stop", status: 202}, asked: []string{"stop dig"}},
		"refused":                        {call: call{method: "POST", url: theGroup + "/approve", status: 409, contains: []string{"no\n"}}, err: fail.New(fail.Conflict, "no"), asked: []string{"approve dig"}},
		"status":                         {call: call{method: "GET", url: theGroup + "/status?output=summary", status: 200, is: `{"name":"dig","output":"summary"}`, answers: map[string]string{"Content-Type": "application/json"}}},
		"status refused":                 {call: call{method: "GET", url: theGroup + "/status", status: 400, contains: []string{"Invalid query"}, answers: map[string]string{"Content-Type": "text/plain; charset=utf-8"}}, err: fail.New(fail.Invalid, "Invalid query output")},
		"not an operation":               {call: call{method: "POST", url: theGroup + "/clone", status: 404, contains: []string{"404 page not found"}}},
		"wrong method":                   {call: call{method: "GET", url: theGroup + "/approve", status: 405}},
		"a group that cannot be":         {call: call{method: "POST", url: theComposite + "/deployment-intent-groups/a%2Fb/approve", status: 404, contains: []string{`"a/b" is not a name`}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.operations.warnings, w.operations.err = c.warnings, c.err
			check(t, w.router, []call{c.call})
			require.Equal(t, c.asked, w.operations.asked)
		})
	}
}

// Every write to a deployment intent group and below it goes through the state machine.
func TestWritesToAGroupByState(t *testing.T) {
	writes := map[string]call{
		"group":                {method: "PUT", url: theGroup, body: groupBody, status: 200},
		"intent created":       {method: "POST", url: theGroup + "/intents", body: `{"metadata":{"name":"new"},"spec":{"intent":{}}}`, status: 201},
		"intent replaced":      {method: "PUT", url: theGroup + "/intents/intent", body: `{"metadata":{"name":"intent"},"spec":{"intent":{}}}`, status: 200},
		"intent deleted":       {method: "DELETE", url: theGroup + "/intents/intent", status: 204},
		"placement created":    {method: "PUT", url: theGroup + "/generic-placement-intents/new", body: `{"metadata":{"name":"new"}}`, status: 201},
		"app intent replaced":  {method: "PUT", url: thePlacement + "/app-intents/ai", body: `{"metadata":{"name":"ai"},"spec":{"app":"sink","intent":{}}}`, status: 200},
		"app intent deleted":   {method: "DELETE", url: thePlacement + "/app-intents/ai", status: 204},
		"interface replaced":   {method: "PUT", url: theWorkloadIntent + "/interfaces/if", body: `{"metadata":{"name":"if"},"spec":{"interface":"eth2","name":"net-a","defaultGateway":true}}`, status: 201},
		"workload replaced":    {method: "PUT", url: theWorkloadIntent, body: `{"metadata":{"name":"w"},"spec":{"app":"sink","workloadResource":"x","type":"Pod"}}`, status: 201},
		"generic patched":      {method: "PUT", url: theGenericResource + "/customizations/c", body: customizationBody("c", `,"patchType":"json","patchJson":[{"op":"add","path":"/data","value":null}]`), status: 200},
		"generic replaced":     {method: "PUT", url: theGenericResource, body: resourceBody("r", "false", "ConfigMap"), status: 200},
		"generic created":      {method: "POST", url: theGroup + "/generic-k8s-intents", body: `{"metadata":{"name":"new"}}`, status: 201},
		"networks created":     {method: "POST", url: theGroup + "/network-controller-intent", body: `{"metadata":{"name":"new"}}`, status: 201},
		"inbound replaced":     {method: "PUT", url: theInbound, body: `{"metadata":{"name":"in"},"spec":{"app":"web","appLabel":"app=web","serviceName":"web","port":81,"protocol":"udp"}}`, status: 201},
		"clients deleted":      {method: "DELETE", url: theClients + "/access-points/get", status: 204},
		"traffic created":      {method: "POST", url: theGroup + "/traffic-group-intents", body: `{"metadata":{"name":"new"}}`, status: 201},
		"consumer replaced":    {method: "PUT", url: theHPAConsumer, body: `{"metadata":{"name":"c"},"spec":{"name":"r1-web","container":"other"}}`, status: 200},
		"requirement created":  {method: "PUT", url: theHPAConsumer + "/resource-requirements/new", body: `{"metadata":{"name":"new"},"spec":{"allocatable":false,"resource":{"key":"k","value":"v"}}}`, status: 200},
		"hpa intent created":   {method: "POST", url: theGroup + "/hpa-intents", body: `{"metadata":{"name":"new"},"spec":{"app":"sink"}}`, status: 201},
		"requirements deleted": {method: "DELETE", url: theHPAConsumer + "/resource-requirements", status: 204},
		// What is refused changes nothing.
		"intent that is there":     {method: "POST", url: theGroup + "/intents", body: `{"metadata":{"name":"intent"},"spec":{"intent":{}}}`, status: 409},
		"app intent that is there": {method: "POST", url: thePlacement + "/app-intents", body: `{"metadata":{"name":"ai"},"spec":{"app":"sink","intent":{}}}`, status: 409},
		"generic of another kind":  {method: "PUT", url: theGenericResource, body: resourceBody("r", "true", "Service"), status: 400},
		"inbound without its key":  {method: "PUT", url: theInbound, body: `{"metadata":{"name":"in"},"spec":{"app":"web","appLabel":"app=web","serviceName":"web","port":81,"protocol":"HTTP","external":{"externalCerts":{"servicePrivateKey":"********"}}}}`, status: 400},

		"app intent not there": {method: "PUT", url: thePlacement + "/app-intents/new", body: `{"metadata":{"name":"new"},"spec":{"app":"sink","intent":{}}}`, status: 201},
	}
	states := map[string]struct {
		reach   []domain.State
		context domain.ContextStatus
		refused bool           // a write to the group itself
		want    []domain.State // after the write, when it is not refused
	}{
		"created":  {want: []domain.State{domain.Created}},
		"approved": {reach: []domain.State{domain.Approved}, want: []domain.State{domain.Created, domain.Approved, domain.Created}},
		// The instance has its own plan: what is written is for the next update (docs/decisions).
		"instantiated":   {reach: []domain.State{domain.Approved, domain.Instantiated}, context: domain.ContextInstantiated, want: []domain.State{domain.Created, domain.Approved, domain.Instantiated}},
		"instantiating":  {reach: []domain.State{domain.Instantiated}, context: domain.ContextInstantiating, want: []domain.State{domain.Created, domain.Instantiated}},
		"stopped":        {reach: []domain.State{domain.Instantiated, domain.InstantiateStopped}, context: domain.ContextInstantiateFailed, want: []domain.State{domain.Created, domain.Instantiated, domain.InstantiateStopped}},
		"migrated":       {reach: []domain.State{domain.Instantiated, domain.Updated}, context: domain.ContextUpdated, want: []domain.State{domain.Created, domain.Instantiated, domain.Updated, domain.Created}},
		"terminating":    {reach: []domain.State{domain.Instantiated, domain.Terminated}, context: domain.ContextTerminating, refused: true, want: []domain.State{domain.Created, domain.Instantiated, domain.Terminated, domain.Created}},
		"terminated":     {reach: []domain.State{domain.Instantiated, domain.Terminated}, context: domain.ContextTerminated, want: []domain.State{domain.Created, domain.Instantiated, domain.Terminated, domain.Created}},
		"half-way ended": {reach: []domain.State{domain.Instantiated, domain.TerminateStopped}, context: domain.ContextTerminateFailed, want: []domain.State{domain.Created, domain.Instantiated, domain.TerminateStopped, domain.Created}},
	}
	w, n := newWorld(t), 0
	furnish(t, w)
	for stateName, s := range states {
		for name, c := range writes {
			t.Run(stateName+"/"+name, func(t *testing.T) {
				n++
				dig := fmt.Sprint("dig-", n) // a group of its own costs a tenth of a world
				w.operations.status = ""
				furnishGroup(t, w, dig)
				key := domain.Key(strings.Replace(string(theGroupKey), "/dig", "/"+dig, 1))
				for _, state := range s.reach {
					record(t, w, key, state, "1")
				}
				c.url, c.body = strings.Replace(c.url, "/dig", "/"+dig, 1), strings.Replace(c.body, `"dig"`, `"`+dig+`"`, 1)
				w.operations.status = s.context
				want := s.want
				if s.refused && name == "group" {
					want = append([]domain.State{domain.Created}, s.reach...)
					c.status, c.contains = 409, []string{`deployment intent group "` + dig + `" cannot change`}
				}
				said := ""
				switch stateName {
				case "approved":
					said = `299 - "deployment intent group ` + dig + ` is approved no more; approve it again"`
				case "terminating", "terminated", "half-way ended":
					said = fmt.Sprintf(`299 - "deployment intent group %s was %s and has to be approved now before it is instantiated again"`, dig, s.reach[1])
				}
				if c.status >= 400 {
					want, said = append([]domain.State{domain.Created}, s.reach...), ""
				}
				answer := do(t, w.router, c)
				require.Equal(t, c.status, answer.Code, answer.Body)
				for _, text := range c.contains {
					require.Contains(t, answer.Body.String(), text)
				}
				var warned []string
				for _, text := range answer.Header().Values("Warning") {
					if strings.Contains(text, "approved") {
						warned = append(warned, text)
					}
				}
				require.Equal(t, said, strings.Join(warned, "\n"), "who has approved it before is told")
				var got []domain.State
				for _, a := range readGroup(t, w, key).History.Actions {
					got = append(got, a.State)
				}
				require.Equal(t, want, got)
			})
		}
	}
}

// TestReleaseOfAnInstance: what decides the names and the namespace of resources stays as long as there is an instance. Of all else an instance has what
// is written with the next update.
func TestReleaseOfAnInstance(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	record(t, w, theGroupKey, domain.Instantiated, "1")
	w.operations.status = domain.ContextInstantiated
	body := strings.Replace(groupBody, `"version":"`, `"version":"other-`, 1)
	require.NotEqual(t, groupBody, body)
	valued := strings.Replace(groupBody, `{"k":"v"}`, `{"k":"w"}`, 1)
	require.NotEqual(t, groupBody, valued)
	const awaits = `299 - "deployment intent group dig is instantiated: what has changed is there when an update takes it over"`
	check(t, w.router, []call{
		{method: "PUT", url: theGroup, body: body, status: 409, contains: []string{"spec.version", "Instantiated"}},
		{name: "what is there", method: "PUT", url: theGroup, body: groupBody, status: 200, answers: map[string]string{"Warning": ""}},
		{name: "other values", method: "PUT", url: theGroup, body: valued, status: 200, answers: map[string]string{"Warning": awaits}},
		{name: "the same again", method: "PUT", url: theGroup, body: valued, status: 200, answers: map[string]string{"Warning": ""}},
		{name: "the first ones", method: "PUT", url: theGroup, body: groupBody, status: 200, answers: map[string]string{"Warning": awaits}},
	})
	record(t, w, theGroupKey, domain.Terminated, "1")
	w.operations.status = domain.ContextTerminated
	check(t, w.router, []call{{method: "PUT", url: theGroup, body: body, status: 200}})
}

func TestDeleteOfAGroup(t *testing.T) {
	for name, c := range map[string]struct {
		reach   []domain.State
		context domain.ContextStatus
		status  int
	}{
		"created":                        {status: 204},
		"approved":                       {reach: []domain.State{domain.Approved}, status: 204},
		"instantiated":                   {reach: []domain.State{domain.Instantiated}, context: domain.ContextInstantiated, status: 409},
		"terminating":                    {reach: []domain.State{domain.Terminated}, context: domain.ContextTerminating, status: 409},
		"terminated":                     {reach: []domain.State{domain.Terminated}, context: domain.ContextTerminated, status: 204},
		"migrated":                       {reach: []domain.State{domain.Instantiated, domain.Updated}, context: domain.ContextUpdated, status: 204},
		"terminate stopped and over":     {reach: []domain.State{domain.TerminateStopped}, context: domain.ContextTerminateFailed, status: 204},
		"terminate stopped, not yet off": {reach: []domain.State{domain.TerminateStopped}, context: domain.ContextTerminating, status: 409},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			furnish(t, w)
			// What hangs below goes first, as long as that is allowed.
			check(t, w.router, []call{
				{method: "DELETE", url: thePlacement + "/app-intents/ai", status: 204},
				{method: "DELETE", url: thePlacement, status: 204},
				{method: "DELETE", url: theWorkloadIntent + "/interfaces/if", status: 204},
				{method: "DELETE", url: theWorkloadIntent, status: 204},
				{method: "DELETE", url: theNetControllerIntent, status: 204},
				{method: "DELETE", url: theClients + "/access-points/get", status: 204},
				{method: "DELETE", url: theClients, status: 204},
				{method: "DELETE", url: theInbound, status: 204},
				{method: "DELETE", url: theTrafficGroup, status: 204},
				{method: "DELETE", url: theHPAConsumer + "/resource-requirements/cpu", status: 204},
				{method: "DELETE", url: theHPAConsumer, status: 204},
				{method: "DELETE", url: theHPAIntent, status: 204},
				{method: "DELETE", url: theGenericResource + "/customizations/c", status: 204},
				{method: "DELETE", url: theGenericResource, status: 204},
				{method: "DELETE", url: theGenericIntent, status: 204},
			})
			w.operations.forgot = nil // what is made forgets an earlier one of its name
			check(t, w.router, []call{{name: "a child is in the way", method: "DELETE", url: theGroup, status: 409, contains: []string{`has deployment intent "intent"`}}})
			require.Empty(t, w.operations.forgot, "a refused deletion must leave the contexts")
			check(t, w.router, []call{{method: "DELETE", url: theGroup + "/intents/intent", status: 204}})
			for _, state := range c.reach {
				record(t, w, theGroupKey, state, "1")
			}
			w.operations.status = c.context
			if w.operations.left = nil; c.context == domain.ContextTerminateFailed {
				w.operations.left = []string{"2 of its resources stay"}
			}
			answer := do(t, w.router, call{method: "DELETE", url: theGroup})
			require.Equal(t, c.status, answer.Code, answer.Body)
			if w.operations.left != nil {
				require.Equal(t, []string{`299 - "2 of its resources stay"`}, answer.Result().Header.Values("Warning"))
			} else {
				require.Empty(t, answer.Result().Header.Values("Warning"))
			}
			if c.status == 204 {
				require.Equal(t, []domain.Key{theGroupKey}, w.operations.forgot)
			} else {
				require.Empty(t, w.operations.forgot)
			}
		})
	}
}

func TestMembersOfAGroupAreInEMCOsOrder(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	check(t, w.router, []call{{method: "GET", url: theGroup, status: 200, contains: []string{
		`{"metadata":{"name":"dig","description":"","userData1":"","userData2":""},"spec":{"compositeProfile":"cp","version":"r1","overrideValues":[{"app":"sink","values":{"k":"v"}}],"logicalCloud":"lc"}}` + "\n",
	}}})
}

func TestLogicalCloudLifecycle(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	for _, url := range []string{
		thePlacement + "/app-intents/ai", thePlacement, theGroup + "/intents/intent",
		theWorkloadIntent + "/interfaces/if", theWorkloadIntent, theNetControllerIntent,
		theClients + "/access-points/get", theClients, theInbound, theTrafficGroup,
		theHPAConsumer + "/resource-requirements", theHPAConsumer, theHPAIntent,
		theGenericResource + "/customizations/c", theGenericResource, theGenericIntent,
	} {
		require.Equal(t, 204, do(t, w.router, call{method: "DELETE", url: url}).Code)
	}
	bare := theProject + "/logical-clouds/bare"
	cloud := `{"metadata":{"name":"lc"},"spec":{"level":"0"}}`
	check(t, w.router, []call{
		{name: "instantiated", method: "GET", url: theCloud + "/status", status: 200, contains: []string{`"project":"proj","name":"lc"`, `"deployedStatus":"Instantiated","readyStatus":"Ready"`, `"state":"Instantiated"`, `"revision":1`}},
		{name: "its clusters are in lists alone", method: "GET", url: theCloud + "/status", status: 200, lacks: []string{"lusters"}},
		{name: "its clusters", method: "GET", url: theCloud + "/status?clusters", status: 200, is: `{"project":"proj","name":"lc","clustersByApp":[{"app":"logical-cloud","clusters":[{"clusterProvider":"p1","cluster":"c1"}]}]}`},
		{name: "of which one is asked for", method: "GET", url: theCloud + "/status?clusters&cluster=p1%2Bc2", status: 200, is: `{"project":"proj","name":"lc","clustersByApp":[]}`},
		{name: "and nothing in them", method: "GET", url: theCloud + "/status?resources", status: 200, is: `{"project":"proj","name":"lc","resourcesByApp":[{"app":"logical-cloud","clusterProvider":"p1","cluster":"c1","resources":[]}]}`},
		{name: "whatever the form", method: "GET", url: theCloud + "/status?resources&status=deployed", status: 200, contains: []string{`"cluster":"c1","resources":[]`}},
		{name: "instantiate again", method: "POST", url: theCloud + "/instantiate", status: 409, contains: []string{"The Logical Cloud is already instantiated"}},
		{name: "a group names it", method: "POST", url: theCloud + "/terminate", status: 400, contains: []string{"Found at least one DIG associated", `"dig"`}},
		{name: "PUT keeps the history", method: "PUT", url: theCloud, body: cloud, status: 201},
		{name: "PUT may not change the level", method: "PUT", url: theCloud, body: `{"metadata":{"name":"lc"},"spec":{"level":"1"}}`, status: 409, contains: []string{"terminate it first"}},
		{name: "delete the group", method: "DELETE", url: theGroup, status: 204},
		{name: "delete its member", method: "DELETE", url: theCloud + "/cluster-references/ref", status: 204},
		{name: "delete while instantiated", method: "DELETE", url: theCloud, status: 409, contains: []string{"The Logical Cloud is instantiated, please terminate first"}},
		{name: "update", method: "POST", url: theCloud + "/update", status: 202, is: `{"metadata":{"name":"","description":"","userData1":"","userData2":""},"spec":{"namespace":"","labels":null,"level":"","user":{"userName":"","type":""}}}`},
		{name: "updated", method: "GET", url: theCloud + "/status", status: 200, contains: []string{`"state":"Updated"`, `"revision":2`, `"deployedStatus":"Instantiated","readyStatus":"Ready"`}},
		{name: "a member again", method: "POST", url: theCloud + "/cluster-references", body: `{"metadata":{"name":"ref"},"spec":{"clusterProvider":"p1","cluster":"c1"}}`, status: 201},
		{name: "stop", method: "POST", url: theCloud + "/stop", status: 200},
		{name: "stop again", method: "POST", url: theCloud + "/stop", status: 409, contains: []string{"instantiation already stopped"}},
		{name: "no members while stopped", method: "DELETE", url: theCloud + "/cluster-references/ref", status: 409, contains: []string{"Cluster References cannot be added/removed"}},
		{name: "a stopped one can be instantiated", method: "POST", url: theCloud + "/instantiate", status: 202},
		{name: "and stopped again", method: "POST", url: theCloud + "/stop", status: 200},
		{name: "terminate", method: "POST", url: theCloud + "/terminate", status: 202},
		{name: "terminate again", method: "POST", url: theCloud + "/terminate", status: 409, contains: []string{"has already been terminated"}},
		{name: "terminated", method: "GET", url: theCloud + "/status", status: 200, contains: []string{`"deployedStatus":"Terminated"`, `"revision":6`}, lacks: []string{"readyStatus"}},
		{name: "instantiate a terminated one", method: "POST", url: theCloud + "/instantiate", status: 202},
		{name: "no member is left", method: "DELETE", url: theCloud + "/cluster-references/ref", status: 204},
		{name: "terminate what has no clusters any more", method: "POST", url: theCloud + "/terminate", status: 202},
		{name: "which ends it", method: "GET", url: theCloud + "/status", status: 200, contains: []string{`"deployedStatus":"Terminated"`, `"revision":8`}},
		{name: "unknown instance", method: "GET", url: theCloud + "/status?instance=7", status: 400, contains: []string{"No state information for 7"}},
		{name: "empty instance", method: "GET", url: theCloud + "/status?instance=", status: 400, contains: []string{"Invalid query instance"}},
		{name: "status of none", method: "GET", url: theProject + "/logical-clouds/none/status", status: 404, contains: []string{`"none"`}},

		{method: "POST", url: theProject + "/logical-clouds", body: `{"metadata":{"name":"bare"},"spec":{"level":"0"}}`, status: 201},
		{name: "never instantiated", method: "GET", url: bare + "/status", status: 200, lacks: []string{"deployedStatus", "readyStatus"}},
		{name: "terminate never instantiated", method: "POST", url: bare + "/terminate", status: 409, contains: []string{"The Logical Cloud is not instantiated"}},
		{name: "stop never instantiated", method: "POST", url: bare + "/stop", status: 409, contains: []string{"has not been asked to instantiate"}},
		{name: "no quotas", method: "POST", url: bare + "/cluster-quotas", body: `{"metadata":{"name":"q"},"spec":{"limits.cpu":"4"}}`, status: 400, contains: []string{"Cluster Quotas not allowed for Logical Cloud Level 0"}},
		{name: "nothing to update", method: "POST", url: bare + "/update", status: 202},
		{name: "no clusters", method: "POST", url: bare + "/instantiate", status: 400, contains: []string{"No Cluster References associated"}},
		{name: "delete", method: "DELETE", url: bare, status: 204},
	})
}

// A cloud of level 1 is an owner like any other; what is special is what hangs below it.
func TestLogicalCloudOfLevel1(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	one := theProject + "/logical-clouds/standard"
	references := one + "/cluster-references"
	reference := `{"metadata":{"name":"ref"},"spec":{"clusterProvider":"p1","cluster":"c1","certificate":"forged"}}`
	check(t, w.router, []call{
		{method: "POST", url: references, body: reference, status: 201, contains: []string{`"certificate":""`}},
		{name: "no kubeconfig before it is instantiated", method: "GET", url: references + "/ref/kubeconfig", status: 409, contains: []string{"Logical Cloud hasn't been instantiated"}},
		{name: "nor of an admin cloud", method: "GET", url: theCloud + "/cluster-references/ref/kubeconfig", status: 409, contains: []string{"level 0"}},
		{name: "nor of none", method: "GET", url: references + "/none/kubeconfig", status: 404, contains: []string{`"none"`}},
		{method: "POST", url: one + "/instantiate", status: 202},
	})
	require.Equal(t, []string{"instantiate standard"}, w.operations.asked)
	key := domain.Key("projects/proj/logical-clouds/standard")
	read := func() *domain.LogicalCloud {
		o, err := w.store.Get(t.Context(), domain.LogicalClouds, key)
		require.NoError(t, err)
		return o.(*domain.LogicalCloud)
	}
	cloud := read()
	cloud.History.Append(domain.Instantiated, "7", 1, now)
	cloud.Key, cloud.Request = domain.Sealed{KeyID: "k"}, []byte("request")
	require.NoError(t, w.store.Replace(t.Context(), cloud))

	w.operations.status = domain.ContextInstantiating
	another := `{"metadata":{"name":"another"},"spec":{"clusterProvider":"p1","cluster":"c1"}}`
	check(t, w.router, []call{
		{name: "half-way, nobody comes", method: "POST", url: references, body: another, status: 409, contains: []string{"Cluster References cannot be added/removed"}},
		{name: "and nobody goes", method: "DELETE", url: references + "/ref", status: 409, contains: []string{"Cluster References cannot be added/removed"}},
		{name: "no kubeconfig without a certificate", method: "GET", url: references + "/ref/kubeconfig", status: 409, contains: []string{"has not issued the certificate"}},
		{name: "delete", method: "DELETE", url: one, status: 409, contains: []string{"has cluster reference"}},
		{name: "another user", method: "PUT", url: one, body: `{"metadata":{"name":"standard"},"spec":{"user":{"userName":"eve"}}}`, status: 409, contains: []string{"terminate it first"}},
	})
	w.operations.status, w.operations.tenants = domain.ContextInstantiated, true
	revision := read().Revision
	check(t, w.router, []call{
		{name: "more clusters", method: "POST", url: references, body: another, status: 201},
		{name: "not one that a group is in", method: "DELETE", url: references + "/another", status: 409, contains: []string{"tenant", "p1+c1"}},
		{name: "a permission", method: "POST", url: one + "/user-permissions", body: `{"metadata":{"name":"p"},"spec":{"apiGroups":[],"resources":[],"verbs":[]}}`, status: 201},
		{name: "a quota", method: "POST", url: one + "/cluster-quotas", body: `{"metadata":{"name":"q"},"spec":{}}`, status: 201},
		{name: "quotas have no PUT", method: "PUT", url: one + "/cluster-quotas/q", body: `{"metadata":{"name":"q"},"spec":{}}`, status: 405},
		{name: "PUT keeps what is not of the body", method: "PUT", url: one, body: `{"metadata":{"name":"standard","description":"new"}}`, status: 201},
	})
	require.Equal(t, revision+4, read().Revision, "what was planned before each write is refused")
	require.Equal(t, []byte("request"), read().Request)
	require.Equal(t, "k", read().Key.KeyID)

	o, err := w.store.Get(t.Context(), domain.ClusterReferences, key.Child("cluster-references", "ref"))
	require.NoError(t, err)
	o.(*domain.ClusterReference).Spec.Certificate = "issued"
	require.NoError(t, w.store.Replace(t.Context(), o))
	w.operations.tenants = false
	check(t, w.router, []call{
		{name: "the kubeconfig", method: "GET", url: references + "/ref/kubeconfig", status: 200, contains: []string{"certificate: issued"}, answers: map[string]string{"Content-Type": "application/yaml", "Cache-Control": "no-store"}},
		{name: "one that nobody is in may go", method: "DELETE", url: references + "/another", status: 204},
		{method: "POST", url: one + "/update", status: 202, contains: []string{`"level":""`}, answers: map[string]string{"Content-Type": "application/json"}},
		{method: "POST", url: one + "/stop", status: 200},
		{method: "POST", url: one + "/terminate", status: 202},
	})
	require.Equal(t, []string{"instantiate standard", "update standard", "stop standard", "terminate standard"}, w.operations.asked)
	w.operations.status, w.operations.forgot = domain.ContextTerminated, nil
	cloud = read()
	cloud.History.Append(domain.Terminated, "7", 2, now)
	require.NoError(t, w.store.Replace(t.Context(), cloud))
	check(t, w.router, []call{
		{name: "no kubeconfig any more", method: "GET", url: references + "/ref/kubeconfig", status: 409, contains: []string{"hasn't been instantiated"}},
		{method: "DELETE", url: references + "/ref", status: 204},
		{method: "DELETE", url: one + "/user-permissions/p", status: 204},
		{method: "DELETE", url: one + "/cluster-quotas/q", status: 204},
		{name: "delete", method: "DELETE", url: one, status: 204},
	})
	require.Equal(t, []domain.Key{key}, w.operations.forgot)
}

func TestHistoryHasTheServicesTime(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	want := domain.History{Actions: []domain.Action{{State: domain.Created, Time: now.Truncate(time.Millisecond)}}}
	require.Equal(t, want, readGroup(t, w, theGroupKey).History)
}
