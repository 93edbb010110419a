package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/service/servicetest"
)

// The lists of reference 1, walked: nouns (nouns_test.go) has the plain verbs, verbs the operations by state, queries
// the rest, and deviations what is answered otherwise than EMCO does, and why. A route without a row fails the test,
// and so does a row without a route.

// Texts of refusals to delete.
const (
	hasChildren = "Cannot delete parent without deleting child references first"
	inUse       = "Cannot delete without deleting or updating referencing resources first"
)

// holders says of nouns, by their titles, which of furnish's documents cannot be deleted and why; nothing holds those
// that are missing.
var holders = map[string]struct {
	url  string
	says []string
}{
	"cluster provider":          {theProvider, []string{hasChildren, `cluster provider "p1" has cluster "c1"`}},
	"cluster":                   {theCluster, []string{hasChildren, `cluster "c1" has cluster label "edge"`}},
	"project":                   {theProject, []string{hasChildren, `project "proj" has`}},
	"logical cloud":             {theCloud, []string{hasChildren, `logical cloud "lc" has cluster reference "ref"`}},
	"composite app":             {theComposite, []string{hasChildren, `composite app "ca/v1" has`}},
	"app":                       {theComposite + "/apps/sink", []string{inUse, `app "sink" is used by`}},
	"composite profile":         {theProfile, []string{hasChildren, `composite profile "cp" has profile "sinkp"`}},
	"deployment intent group":   {theGroup, []string{hasChildren, `deployment intent group "dig" has`}},
	"service account":           {theAccount, []string{hasChildren, `service account "ci" has token of a service account "first"`}},
	"tenant":                    {theTenant, []string{hasChildren, `tenant "t1" has host "host-a"`}},
	"network controller intent": {theNetControllerIntent, []string{hasChildren, `network controller intent "ovn" has workload intent "w"`}},
	"workload intent":           {theWorkloadIntent, []string{hasChildren, `workload intent "w" has interface intent "if"`}},
	"traffic group intent":      {theTrafficGroup, []string{hasChildren, `traffic group intent "traffic" has inbound intent "in"`}},
	"inbound intent":            {theInbound, []string{hasChildren, `inbound intent "in" has inbound clients intent "client"`}},
	"inbound clients intent":    {theClients, []string{hasChildren, `inbound clients intent "client" has inbound clients access intent "get"`}},
	"hpa intent":                {theHPAIntent, []string{hasChildren, `hpa intent "hpa" has hpa resource consumer "c"`}},
	"hpa resource consumer":     {theHPAConsumer, []string{hasChildren, `hpa resource consumer "c" has resource requirement "cpu"`}},
	"generic k8s intent":        {theGenericIntent, []string{hasChildren, `generic k8s intent "gac" has generic resource "r"`}},
	"generic resource":          {theGenericResource, []string{hasChildren, `generic resource "r" has customization "c"`}},
	"generic placement intent":  {thePlacement, []string{hasChildren, `generic placement intent "gpi" has app intent "ai"`}},
}

// stand is where an owner stands: what its history has after Created, and its last context's status.
type stand struct {
	name    string
	history []domain.State
	context domain.ContextStatus
}

// stands are the columns of verbs.
var stands = [12]stand{
	{"created", nil, domain.ContextNone},
	{"approved", []domain.State{domain.Approved}, domain.ContextNone},
	{"instantiating", []domain.State{domain.Approved, domain.Instantiated}, domain.ContextInstantiating},
	{"instantiated", []domain.State{domain.Approved, domain.Instantiated}, domain.ContextInstantiated},
	{"instantiate failed", []domain.State{domain.Approved, domain.Instantiated}, domain.ContextInstantiateFailed},
	{"instantiate stopping", []domain.State{domain.Instantiated, domain.InstantiateStopped}, domain.ContextInstantiating},
	{"instantiate stopped", []domain.State{domain.Instantiated, domain.InstantiateStopped}, domain.ContextInstantiateFailed},
	{"terminating", []domain.State{domain.Instantiated, domain.Terminated}, domain.ContextTerminating},
	{"terminated", []domain.State{domain.Instantiated, domain.Terminated}, domain.ContextTerminated},
	{"terminate failed", []domain.State{domain.Instantiated, domain.Terminated}, domain.ContextTerminateFailed},
	{"terminate stopping", []domain.State{domain.Terminated, domain.TerminateStopped}, domain.ContextTerminating},
	{"terminate stopped", []domain.State{domain.Terminated, domain.TerminateStopped}, domain.ContextTerminateFailed},
}

// codes are an answer for each of stands, 0 where the owner cannot stand so.
type codes [len(stands)]int

// verb is a call on an owner.
type verb struct {
	owner        domain.Key
	method, path string // below the owner's
	body         string
	codes        codes
}

const (
	theCloudKey = domain.Key("projects/proj/logical-clouds/lc")
	aCloudKey   = domain.Key("projects/proj/logical-clouds/free") // which no group names

	theUsersKey = domain.Key("projects/proj/logical-clouds/standard") // of level 1

	theClusterKey = domain.Key("cluster-providers/p1/clusters/c1")
)

// theOther is another version of theComposite.
const theOther = theProject + "/composite-apps/ca/v2"

// ok is 200 whatever the owner does.
var ok = codes{200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200}

// okUnapproved is ok for what nobody approves.
var okUnapproved = codes{200, 0, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200}

// verbs are the operations (reference 1.3, 2.3 and 2.6) and the queries that are answered in every state. Logical clouds of
// level 0 have only three states: nothing ever goes on in them.
var verbs = []verb{
	{theGroupKey, "POST", "/approve", `{"metadata":{"name":""}}`, codes{202, 202, 409, 409, 409, 409, 409, 409, 202, 202, 409, 409}},
	{theGroupKey, "POST", "/instantiate", "", codes{409, 202, 409, 409, 409, 409, 409, 409, 202, 202, 409, 202}},
	{theGroupKey, "POST", "/terminate", `{}`, codes{409, 409, 202, 202, 202, 202, 202, 409, 409, 202, 409, 202}},
	{theGroupKey, "POST", "/stop", "\x00", codes{409, 409, 202, 409, 409, 202, 409, 202, 409, 409, 202, 409}},
	{theGroupKey, "PUT", "", groupBody, codes{200, 200, 200, 200, 200, 200, 200, 409, 200, 200, 409, 200}},
	{theGroupKey, "POST", "/update", "", codes{409, 409, 409, 202, 202, 409, 202, 409, 409, 409, 409, 409}},
	{theGroupKey, "POST", "/rollback", `{"metadata":{"description":""},"spec":{"revision":"1"}}`, codes{409, 409, 409, 202, 202, 409, 202, 409, 409, 409, 409, 409}},
	{theGroupKey, "POST", "/migrate", `{"spec":{"targetCompositeAppVersion":"v2","targetDeploymentIntentGroup":"dig2"}}`, codes{409, 409, 409, 202, 202, 409, 202, 409, 409, 409, 409, 409}},
	{theGroupKey, "GET", "/status", "", ok},
	{theGroupKey, "GET", "/explain", "", ok},
	{theGroupKey, "GET", "/preview", "", ok},
	{theGroupKey, "GET", "/diff", "", codes{200, 200, 409, 200, 200, 409, 200, 409, 200, 200, 409, 200}},
	{theGroupKey, "GET", "/combined-status", "", ok},
	{theGroupKey, "GET", "/objects", "", ok},
	{theGroupKey, "POST", "/combined-status/query", `{"spec":{"combinedFields":[{"name":"n","type":"COUNT"}]}}`, ok},

	{aCloudKey, "POST", "/instantiate", "", codes{0: 202, 3: 409, 8: 202}},
	{aCloudKey, "POST", "/terminate", "", codes{0: 409, 3: 202, 8: 409}},
	{aCloudKey, "POST", "/stop", "", codes{0: 409, 3: 200, 8: 200}},
	{aCloudKey, "POST", "/update", "", codes{0: 202, 3: 202, 8: 202}},
	{aCloudKey, "POST", "/update?reapply=true", "", codes{3: 202}},
	{aCloudKey, "GET", "/status", "", codes{0: 200, 3: 200, 8: 200}},
	{aCloudKey, "GET", "/explain", "", codes{0: 200, 3: 200, 8: 200}},
	{theCloudKey, "POST", "/terminate", "", codes{3: 400}}, // a group names it

	{theUsersKey, "POST", "/instantiate", "", codes{202, 0, 409, 409, 409, 409, 409, 409, 202, 409, 409, 409}},
	{theUsersKey, "POST", "/terminate", "", codes{409, 0, 202, 202, 202, 202, 202, 409, 409, 202, 409, 202}},
	{theUsersKey, "POST", "/stop", "", codes{409, 0, 200, 400, 400, 200, 409, 200, 400, 400, 200, 409}},
	{theUsersKey, "POST", "/update", "", codes{202, 0, 202, 202, 202, 202, 202, 202, 202, 202, 202, 202}},
	{theUsersKey, "GET", "/status", "", okUnapproved},
	{theUsersKey, "GET", "/explain", "", okUnapproved},

	{theClusterKey, "POST", "/apply", "", codes{204, 0, 204, 204, 204, 204, 204, 409, 204, 204, 409, 204}},
	{theClusterKey, "POST", "/terminate", "", codes{409, 0, 204, 204, 204, 204, 204, 204, 204, 204, 409, 204}},
	{theClusterKey, "POST", "/stop", "", codes{409, 0, 204, 409, 409, 409, 409, 204, 409, 409, 409, 409}},
	{theClusterKey, "GET", "/status", "", okUnapproved},
	{theClusterKey, "GET", "/explain", "", okUnapproved},
}

// warnings are those of calls of verbs that are accepted and do nothing, by owner and path, and by the index of the stand; in the others there is none.
var warnings = map[string]map[int]string{
	string(theClusterKey) + "/apply": {
		4: `nothing is applied: cluster "c1" is in state Applied (InstantiateFailed); terminate the network intents first`,
		5: `nothing is applied: cluster "c1" is in state InstantiateStopped (Instantiating); terminate the network intents first`,
		6: `nothing is applied: cluster "c1" is in state InstantiateStopped (InstantiateFailed); terminate the network intents first`,
	},
	string(aCloudKey) + "/update": {
		0: `nothing is done: logical cloud "free" is in state Created; instantiate it`,
		8: `nothing is done: logical cloud "free" is in state Terminated (Terminated); instantiate it`,
	},
	string(aCloudKey) + "/update?reapply=true": {3: `nothing of logical cloud "free" was applied again: it has nothing in clusters that could be`},
	string(theUsersKey) + "/update": {
		0:  `nothing is done: logical cloud "standard" is in state Created; instantiate it`,
		2:  `nothing is done: logical cloud "standard" is in state Instantiated (Instantiating); update it again when that has ended`,
		5:  `nothing is done: logical cloud "standard" is in state InstantiateStopped (Instantiating); update it again when that has ended`,
		7:  `nothing is done: logical cloud "standard" is in state Terminated (Terminating); instantiate it when that has ended`,
		8:  `nothing is done: logical cloud "standard" is in state Terminated (Terminated); instantiate it`,
		9:  `nothing is done: logical cloud "standard" is in state Terminated (TerminateFailed); terminate it again, then instantiate it`,
		10: `nothing is done: logical cloud "standard" is in state TerminateStopped (Terminating); instantiate it when that has ended`,
		11: `nothing is done: logical cloud "standard" is in state TerminateStopped (TerminateFailed); terminate it again, then instantiate it`,
	},
}

// queries are the lists and documents that a parameter turns into something else.
var queries = []call{
	{method: "GET", url: theCluster + "/check", status: 200, contains: []string{`"reachable":true`, `"version":"v1.34.1"`, `"needed":`, `"missing":["delete apps/*"]`}},
	{method: "GET", url: theCluster + "/check?group=example.com&logicalCloudUsers=true", status: 200, contains: []string{`"missing":["delete apps/*","delete example.com/*","update certificates.k8s.io/certificatesigningrequests/approval"]`}},
	{method: "GET", url: theCluster + "/check?group=A_B", status: 400, contains: []string{"Invalid query group", `"A_B" is no API group`}},
	{method: "GET", url: theCluster + "/check?logicalCloudUsers=perhaps", status: 400, contains: []string{"use true or false"}},
	{method: "GET", url: theProvider + "/clusters/none/check", status: 404},
	{method: "GET", url: theProvider + "/clusters?label=edge", status: 200, is: `["c1"]`},
	{method: "GET", url: theProvider + "/clusters?withLabels=true", status: 200, contains: []string{`"labels":[{"clusterLabel":"edge"}]`}},
	{method: "GET", url: theCluster + "/kv-pairs/kv?key=a", status: 200, is: `{"value":"b"}`},
	{method: "GET", url: theCluster + "/kv-pairs/kv?key=none", status: 404},
	{method: "GET", url: theProfile + "/profiles?app=sink", status: 200, contains: []string{`"name":"sinkp"`}},
	{method: "GET", url: theGroup + "/intents", status: 200, is: `{"intent":[{"genericPlacementIntent":"gpi"}]}`},
	{method: "GET", url: theGroup + "/intents/?intent=intent", status: 200, is: `{"intent":{"genericPlacementIntent":"gpi"}}`},
	{method: "GET", url: theGroup + "/intents?intent=intent", status: 200, is: `{"intent":{"genericPlacementIntent":"gpi"}}`},
	{method: "GET", url: theGroup + "/intents/?intent=none", status: 404},
	{method: "GET", url: thePlacement + "/app-intents/?app=sink&app-name=sink", status: 200, contains: []string{`"app":"sink"`}},
	{method: "GET", url: thePlacement + "/app-intents/?app=x", status: 400, contains: []string{"Missing appName"}},
	{method: "GET", url: thePlacement + "/app-intents?app=sink&app-name=sink", status: 200, contains: []string{`"app":"sink"`}},
	{method: "GET", url: theGroup + "/intents?view=full", status: 200, contains: []string{`"metadata"`}},
	{method: "GET", url: theGroup + "/intents?view=some", status: 400, contains: []string{`Invalid query view: "some"; use full, or leave it out`}},
	{method: "GET", url: theGroup + "/intents?intent=intent&view=full", status: 400, contains: []string{"use one of them"}},
	{method: "GET", url: theGroup + "/combined-status?app=sink&kind=none&resource=none", status: 200},
	{method: "GET", url: theGroup + "/combined-status?app=sink&app=typo", status: 400, contains: []string{"Filter app typo not in list of apps for composite app ca (it has: "}},
	{method: "GET", url: theGroup + "/combined-status?collector=typo", status: 400, contains: []string{"Filter collector typo not in list of collectors for deployment intent group dig"}},
	{method: "GET", url: theGroup + "/objects?app=typo", status: 400, contains: []string{"Filter app typo"}},
	{method: "GET", url: theGroup + "/objects?app=typo&watch=true", status: 400, contains: []string{"Filter app typo"}},
	{method: "GET", url: theGroup + "/combined-status?collector=typo&watch=true", status: 400, contains: []string{"Filter collector typo"}},
	{method: "GET", url: theGroup + "/combined-status?colector=c&watch=true", status: 400, contains: []string{"colector", "did you mean collector?"}},
	{method: "GET", url: strings.Replace(theGroup, "/dig", "/none", 1) + "/combined-status?collector=typo&watch=true", status: 404},
	{method: "GET", url: strings.Replace(theGroup, "/dig", "/none", 1) + "/objects?app=typo", status: 404},
	{method: "GET", url: theProfile + "/profiles/?app=sink", status: 200, contains: []string{`"name":"sinkp"`}},
	{method: "GET", url: theGroup + "/intents/", status: 200, is: `{"intent":[{"genericPlacementIntent":"gpi"}]}`},
	{method: "POST", url: theGroup + "/intents/", body: `{"metadata":{"name":"slash"},"spec":{"intent":{"genericPlacementIntent":"gpi"}}}`, status: 201},
	{method: "PUT", url: theGroup + "/intents/slash/", body: `{"metadata":{"name":"slash"},"spec":{"intent":{"genericPlacementIntent":"gpi"}}}`, status: 404},
	{method: "DELETE", url: theGroup + "/intents/slash/", status: 404},
	{method: "DELETE", url: theGroup + "/intents/slash", status: 204},
	{name: "an escaped slash is part of a name", method: "GET", url: theGroup + "/intents/intent%2F", status: 404, contains: []string{`"intent/" is not a name`}},
	{name: "a slash behind what is escaped", method: "GET", url: theGroup + "/generic%2Dplacement%2Dintents/gpi%2Da/app%2Dintents/", status: 404},
	{method: "GET", url: strings.Replace(theGroup, "/dig", "/%64ig", 1) + "/intents/?intent=%69ntent", status: 200, is: `{"intent":{"genericPlacementIntent":"gpi"}}`},
	{method: "GET", url: strings.Replace(theGroup, "/dig", "/%64ig", 1) + "/network-controller-intents", status: 200, contains: []string{`"name":"ovn"`}},
	{method: "GET", url: theGroup + "/hpa-intents?intent=hpa", status: 200, is: `{"metadata":` + strings.ReplaceAll(full, "NAME", "hpa") + `,"spec":{"app":"web"}}`},
	{method: "GET", url: theGroup + "/hpa-intents/?intent=none", status: 404, contains: []string{`hpa intent "none" of`, `not found`}},
	{method: "GET", url: theGroup + "/hpa-intents?intent=a%2Fb", status: 400, contains: []string{"intent: Does not match pattern"}},
	{method: "GET", url: theHPAIntent + "/hpa-resource-consumers/?consumer=c", status: 200, contains: []string{`{"metadata":{"name":"c"`}},
	{method: "GET", url: theHPAConsumer + "/resource-requirements?resource=cpu", status: 200, contains: []string{`{"metadata":{"name":"cpu"`}},
	{name: "all, whatever is asked for", method: "DELETE", url: theGroup + "/hpa-intents?intent=none", status: 400, contains: []string{"intent: is no parameter of this request"}},
	{name: "the first has children", method: "DELETE", url: theGroup + "/hpa-intents", status: 409, contains: []string{hasChildren, `hpa intent "hpa" has`}},
	{name: "the first has children", method: "DELETE", url: theHPAIntent + "/hpa-resource-consumers", status: 409, contains: []string{hasChildren, `hpa resource consumer "c" has`}},
	{method: "POST", url: theHPAConsumer + "/resource-requirements/", body: `{"metadata":{"name":"label"},"spec":{"allocatable":false,"resource":{"key":"a/b","value":""}}}`, status: 201},
	{method: "DELETE", url: theHPAConsumer + "/resource-requirements", status: 204},
	{method: "GET", url: theHPAConsumer + "/resource-requirements", status: 200, is: "[]"},
	{method: "DELETE", url: theHPAConsumer + "/resource-requirements", status: 204},
	{name: "all of what is not there", method: "DELETE", url: strings.Replace(theGroup, "/dig", "/none", 1) + "/hpa-intents", status: 404, contains: []string{`deployment intent group "none"`, "not found"}},
	{name: "all of what is not there", method: "DELETE", url: theGroup + "/hpa-intents/none/hpa-resource-consumers", status: 404, contains: []string{`hpa intent "none"`, "not found"}},
	{name: "a name that is empty is not all", method: "DELETE", url: theHPAIntent + "/hpa-resource-consumers/", status: 404},
	{method: "DELETE", url: theHPAIntent + "/hpa-resource-consumers", status: 204},
	{method: "DELETE", url: theGroup + "/hpa-intents", status: 204},
	{method: "GET", url: theGroup + "/hpa-intents", status: 200, is: "[]"},
	{method: "POST", url: theGroup + "/hpa-intents/", body: `{"metadata":{"name":"hpa"},"spec":{"app":"web"}}`, status: 201},
	{method: "POST", url: theHPAIntent + "/hpa-resource-consumers/", body: `{"metadata":{"name":"c"},"spec":{"name":"r1-web","container":"web"}}`, status: 201},
	{method: "GET", url: theComposite + "/deployment-intent-groups?view=full", status: 200, contains: []string{`{"items":[{"metadata":{"name":"dig",`, `"resource":"` + string(theGroupKey) + `","status":{"state":"`}},
	{method: "GET", url: theComposite + "/deployment-intent-groups", status: 200, contains: []string{`[{"metadata":{"name":"dig",`}, lacks: []string{"status"}},
	{method: "GET", url: theComposite + "/deployment-intent-groups?view=most", status: 400, contains: []string{"Invalid query view"}},
	{method: "GET", url: theComposite + "/deployment-intent-groups?limit=1", status: 400, contains: []string{"view=full"}},
	{method: "GET", url: "/v2/projects/proj/deployment-intent-groups?limit=1", status: 200, contains: []string{`"name":"dig"`}},
	{method: "GET", url: "/v2/projects/none/deployment-intent-groups", status: 404, contains: []string{`"none"`}},
	{method: "GET", url: "/v2/projects/none/deployment-intent-groups?watch=perhaps", status: 400, contains: []string{"Invalid query watch"}},
	{method: "GET", url: "/v2/deployment-intent-groups", status: 200, contains: []string{`"name":"dig"`}},
	{method: "GET", url: "/v2/clusters?limit=2", status: 200, contains: []string{`{"items":[{"metadata":{"name":"`, `"status":{"connectivity":"`}},
	{method: "GET", url: "/v2/clusters?label=edge", status: 400, contains: []string{"label"}},
	{method: "GET", url: theProvider + "/clusters?view=full", status: 200, contains: []string{`"items":[{"metadata":{"name":"c1",`, `"connectivity":"Available"`, `"groups":0`}},
	{method: "GET", url: "/v2/operations?project=proj&limit=1", status: 200, is: `{"items":[` + goingOn + `]}`},
	{method: "GET", url: "/v2/operations?limit=many", status: 400, contains: []string{"Invalid query limit"}},
	{name: "a parameter is a field", method: "GET", url: "/v2/operations?limit=many", header: map[string]string{"Accept": "application/problem+json"}, status: 400, contains: []string{
		`"detail":"Invalid query limit: \"many\"; use a number from 1 to 1000"`, `"errors":[{"field":"limit","message":"\"many\"; use a number from 1 to 1000"}]`,
	}},
	{name: "a place of another list", method: "GET", url: "/v2/clusters?continue=" + placeOf("projects/proj"), status: 400, contains: []string{"Invalid query continue", "is of another list"}},
	{name: "a place of the groups", method: "GET", url: "/v2/clusters?continue=" + placeOf(string(theGroupKey)), status: 400, contains: []string{"is of another list"}},
	{name: "a place of another project", method: "GET", url: "/v2/projects/proj/deployment-intent-groups?continue=" + placeOf(strings.Replace(string(theGroupKey), "projects/proj/", "projects/proj2/", 1)), status: 400, contains: []string{"is of another list"}},
	{name: "one of the list", method: "GET", url: "/v2/projects/proj/deployment-intent-groups?continue=" + placeOf(string(theGroupKey)), status: 200, is: `{"items":[]}`},
	{name: "a place of groups in the log", method: "GET", url: "/v2/audit?continue=" + placeOf(string(theGroupKey)), status: 400, contains: []string{"Invalid query continue", "is of another list"}},
	{method: "GET", url: "/v2/operations?cluster=c1&since=x", status: 400, contains: []string{"cluster: ", "since: "}},
	{method: "GET", url: "/v2/operations?kind=approve", status: 400, contains: []string{`Invalid query kind: "approve"; use`}},
	{method: "GET", url: "/v2/operations/7-update", status: 200, is: goingOn},
	{method: "GET", url: "/v2/operations/p%2Fca%2Fv1%2Fdig%2F7%2Fupdate", status: 200, is: goingOn},
	{method: "GET", url: "/v2/audit", status: 200, is: `{"items":[]}`},
	{method: "GET", url: theProject + "/audit", status: 200, is: `{"items":[]}`},
	{method: "GET", url: "/v2/audit/keys", status: 200, contains: []string{"keys"}},
	{method: "GET", url: "/v2/operations/8-update", status: 404, contains: []string{`operation "8-update" not found`}},
	{method: "GET", url: theGroup + "/status?instance=7", status: 400, contains: []string{"No state information for 7"}},
	{
		name: "the example of seed 002", method: "GET", status: 200, answers: map[string]string{"Warning": `299 - "output is given several times; the last one counts"`},
		url: theGroup + "/status?resource=alertmanagers.monitoring.coreos.com&resource=servicemonitors.monitoring.coreos.com&output=all&cluster=provider1%2Bcluster1&output=detail",
	},
	{name: "a list of two", method: "GET", url: theGroup + "/status?apps&clusters=true&resources", status: 200, contains: []string{`"apps":[`}, answers: map[string]string{"Warning": `299 - "apps and clusters and resources are given; only apps counts"`}},
	{name: "a list", method: "GET", url: theGroup + "/status?clusters", status: 200, contains: []string{`"clusters-by-app":[`}, answers: map[string]string{"Warning": ""}},
	{name: "a filter of no list", method: "GET", url: theGroup + "/status?apps&app=sink", status: 200, contains: []string{`"apps":[`}, answers: map[string]string{"Warning": `299 - "app is given; beside apps it does nothing"`}},
	{name: "nor of the apps", method: "GET", url: theGroup + "/status?apps&cluster=p1%2Bc1", status: 200, answers: map[string]string{"Warning": `299 - "cluster is given; beside apps it does nothing"`}},
	{name: "a filter of clusters", method: "GET", url: theGroup + "/status?clusters&app=sink&cluster=p1%2Bc1", status: 200, answers: map[string]string{"Warning": ""}},
	{name: "a filter of none", method: "GET", url: theGroup + "/status?clusters&resource=r", status: 200, contains: []string{`"clusters-by-app":[`}, answers: map[string]string{"Warning": `299 - "resource is given; beside clusters it does nothing"`}},
	{name: "nor of resources", method: "GET", url: theGroup + "/status?resources&resource=r", status: 200, answers: map[string]string{"Warning": `299 - "resource is given; beside resources it does nothing"`}},
	{name: "nor of those of a cloud", method: "GET", url: theCloud + "/status?resources&resource=r", status: 200, answers: map[string]string{"Warning": `299 - "resource is given; beside resources it does nothing"`}},
	{name: "a list has one form", method: "GET", url: theGroup + "/status?resources&output=detail", status: 200, answers: map[string]string{"Warning": `299 - "output is given; beside resources it does nothing"`}},
	{name: "one type of two", method: "GET", url: theGroup + "/status?type=cluster&status=deployed", status: 200, answers: map[string]string{"Warning": `299 - "type is given; beside status it does nothing"`}},
	{name: "all that runs there", method: "GET", url: theCluster + "/status?view=full&app=network-intents", status: 200, answers: map[string]string{"Warning": `299 - "app is given; beside view it does nothing"`}},
	{name: "no list", method: "GET", url: theGroup + "/status?apps=false", status: 400, contains: []string{`Invalid query apps: "false"; it needs no value; leave it out`}},
	{name: "no list of a cloud", method: "GET", url: theCloud + "/status?clusters=false", status: 400, contains: []string{`Invalid query clusters: "false"; it needs no value; leave it out`}},
	{name: "nor of its resources", method: "GET", url: theCloud + "/status?resources=0", status: 400, contains: []string{`Invalid query resources: "0"; it needs no value; leave it out`}},
	{method: "GET", url: theGroup + "/status?output=all&output=telepathy", status: 400, contains: []string{"Invalid query output"}},
	{name: "the column rsync of seed 001 is type=rsync, as in EMCO", method: "GET", url: theGroup + "/status?output=rsync", status: 400, contains: []string{"Invalid query output"}},
	{method: "GET", url: theGroup + "/status?output=detail&type=rsync", status: 200},
	{method: "GET", url: theGroup + "/status?type=rsync&type=cluster", status: 400, contains: []string{"type: is given several times"}},
	{method: "GET", url: theGroup + "/status?type=telepathy", status: 400, contains: []string{"Invalid query type"}},
	{method: "GET", url: theGroup + "/combined-status", status: 200, is: `{"apiVersion":"control.kubestellar.io/v1alpha1","kind":"CombinedStatusList","metadata":{},"items":[]}`},
	{method: "GET", url: theGroup + "/combined-status?app=", status: 400, contains: []string{"Invalid query app"}},
	{method: "GET", url: theGroup + "/combined-status?watch=maybe", status: 400, contains: []string{"Invalid query watch"}},
	{method: "GET", url: theGroup + "/objects?watch=maybe", status: 400, contains: []string{"Invalid query watch"}},
	{method: "GET", url: theGroup + "/objects?kind=Pod", status: 200, is: `{"apiVersion":"v1","kind":"List","metadata":{},"items":[]}`},
	{method: "GET", url: theGroup + "/explain?output=song", status: 400, contains: []string{"Invalid query output"}},
}

// goingOn is the one operation that willing tells of.
const goingOn = `{"id":"7-update","operation":"update","resource":"` + string(theGroupKey) + `","kind":"deployment intent group","instance":"7","state":"Running",
	"requestedBy":"alice","started":"2026-11-21T05:29:07.036Z","workflow":{"id":"dig/7/update","runID":"run","status":"Running"}}`

// deviation is a call that EMCO answers with another code.
type deviation struct {
	emco   int
	reason string
	call
}

// deviations are what is answered otherwise than EMCO does: where EMCO answers 500 to a caller's mistake, it is said
// what it is (section "EMCO: how it behaves", 3); the rest have their reason with them.
func deviations(t *testing.T) []deviation {
	return []deviation{
		{500, "the group is not there", call{method: "POST", url: theComposite + "/deployment-intent-groups/none/approve", status: 404}},
		{500, "the group is not there", call{method: "POST", url: theComposite + "/deployment-intent-groups/none/terminate", status: 404}},
		{500, "the group is not there", call{method: "POST", url: theComposite + "/deployment-intent-groups/none/stop", status: 404}},
		{400, "the group is not there, as for every other call on it", call{method: "GET", url: theComposite + "/deployment-intent-groups/none/status", status: 404}},
		{500, "a wrong state is a conflict", call{method: "POST", url: theGroup + "/instantiate", status: 409}},
		{500, "a wrong state is a conflict", call{method: "POST", url: theGroup + "/terminate", status: 409}},
		{500, "a wrong state is a conflict", call{method: "POST", url: theGroup + "/stop", status: 409}},
		{500, "a profile is named in one way at a time", call{method: "GET", url: theProfile + "/profiles/sinkp?app=sink", status: 400, contains: []string{"app: is no parameter of this request"}}},
		{200, "a parameter that nobody knows is no filter (decision 0040)", call{method: "GET", url: theGroup + "/status?apps&kind=Pod", status: 400, contains: []string{"kind: is no parameter of this request"}}},
		{200, "a parameter says what is answered, or is left out (decision 0040)", call{method: "GET", url: theGroup + "/intents?intent=", status: 400, contains: []string{`Invalid query intent: ""`}}},
		{200, "of two apps one is meant (decision 0040)", call{method: "GET", url: thePlacement + "/app-intents/?app=x&app-name=sink", status: 400, contains: []string{`app is "x" and app-name "sink"`}}},
		{201, "Kubernetes would refuse the name later", call{method: "POST", url: theCluster + "/networks", body: `{"metadata":{"name":"ResName"},"spec":{"cniType":"ovn4nfv","ipv4Subnets":[]}}`, status: 400, contains: []string{"metadata.name: must be the name of a Kubernetes resource"}}},
		{201, "Kubernetes would refuse the name later", call{method: "POST", url: theCluster + "/provider-networks", body: `{"metadata":{"name":"ResName"},"spec":{"cniType":"ovn4nfv","ipv4Subnets":[]}}`, status: 400, contains: []string{"metadata.name: must be the name of a Kubernetes resource"}}},
		{201, "Kubernetes would refuse the name later", call{method: "POST", url: theCloud + "/cluster-quotas", body: `{"metadata":{"name":"ResName"},"spec":{"limits.cpu":"4"}}`, status: 400, contains: []string{"metadata.name: must be the name of a ResourceQuota"}}},
		{201, "Kubernetes would refuse the namespace later", call{method: "POST", url: theProject + "/logical-clouds", body: `{"metadata":{"name":"x"},"spec":{"namespace":"Ns_1","user":{"userName":"u","type":"certificate"}}}`, status: 400, contains: []string{"spec.namespace: must be the name of a Kubernetes namespace"}}},
		{201, "Kubernetes would refuse the label later", call{method: "POST", url: theProject + "/logical-clouds", body: `{"metadata":{"name":"x"},"spec":{"namespace":"ns","labels":{"a b":"c"},"user":{"userName":"u","type":"certificate"}}}`, status: 400, contains: []string{"is not a label of a Kubernetes namespace"}}},
		{201, "a version is a part of paths", call{method: "POST", url: theProject + "/composite-apps", body: `{"metadata":{"name":"x"},"spec":{"compositeAppVersion":"v 1"}}`, status: 400, contains: []string{"spec.compositeAppVersion: Does not match pattern"}}},
		{201, "a document has the name of its path", call{method: "PUT", url: theComposite, body: `{"metadata":{"name":"other"},"spec":{"compositeAppVersion":"v1"}}`, status: 400, contains: []string{"Mismatched name in PUT request"}}},
		{400, "an empty collection is no mistake", call{method: "GET", url: theProject + "/logical-clouds/free/cluster-references", status: 200, is: "[]"}},
		{201, "what a body refers to must be there (decision 0004)", call{method: "POST", url: thePlacement + "/app-intents", body: `{"metadata":{"name":"x"},"spec":{"app":"none","intent":{}}}`, status: 404, contains: []string{`app "none"`}}},
		{201, "a version that is missing would match every other", call{method: "POST", url: theProject + "/composite-apps", body: `{"metadata":{"name":"x"}}`, status: 400}},
		{300, "*/* means JSON", call{method: "GET", url: theComposite + "/apps/sink", header: map[string]string{"Accept": "*/*"}, status: 200, contains: []string{`"sink"`}}},
		{406, "no Accept header means JSON", call{method: "GET", url: theComposite + "/apps/sink", status: 200, contains: []string{`"sink"`}}},
		{406, "of a list in Accept the best form is taken", call{method: "GET", url: theCluster, header: map[string]string{"Accept": "text/html, application/json;q=0.9"}, status: 200, contains: []string{`"c1"`}}},
		{201, "an unreadable chart is refused when it is sent, not when it is instantiated", call{method: "POST", url: theComposite + "/apps", body: `{"metadata":{"name":"other"}}`, file: tgz(t, "other/values.yaml", ""), status: 400}},
	}
}

// standings are deviations of a group that stands somewhere, as stands have it.
var standings = []struct {
	stand int
	deviation
}{
	{1, deviation{409, "a change of a group ends its approval", call{method: "PUT", url: theGroup, body: groupBody, status: 200}}},
	{3, deviation{409, "an instance has its own plan, and an update takes the change over", call{method: "PUT", url: theGroup, body: groupBody, status: 200}}},
	{8, deviation{409, "what was terminated is changed and approved again", call{method: "PUT", url: theGroup, body: groupBody, status: 200}}},
	{7, deviation{202, "what is being deleted is not made anew beside that", call{method: "POST", url: theGroup + "/instantiate", status: 409, contains: []string{"wait until"}}}},
}

func TestConformance(t *testing.T) {
	w := newRealWorld(t)
	furnish(t, w)
	check(t, w.router, []call{ // there is one profile for an app
		{method: "POST", url: theComposite + "/apps", body: `{"metadata":{"name":"spare"}}`, file: chartOf(t, "spare"), status: 201},
	})
	succeeded := map[string]bool{} // routes, as "GET /v2/projects"
	w.router.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			succeeded[c.Request().Method+" "+c.Path()] = succeeded[c.Request().Method+" "+c.Path()] || err == nil
			return err
		}
	})
	rows := nouns(t)
	t.Run("nouns", func(t *testing.T) {
		for _, noun := range domain.Nouns {
			t.Run(noun.Title, func(t *testing.T) {
				row, found := rows[noun.Title]
				require.True(t, found, "add a row to nouns")
				check(t, w.router, row.calls(t))
				if h, held := holders[noun.Title]; held {
					check(t, w.router, []call{{name: "in use", method: "DELETE", url: h.url, status: 409, contains: h.says}})
				}
			})
			delete(rows, noun.Title)
		}
		require.Empty(t, rows, "there are no such nouns")
	})
	t.Run("queries", func(t *testing.T) { check(t, w.router, queries) })
	check(t, w.router, []call{
		{method: "POST", url: theProject + "/logical-clouds", body: `{"metadata":{"name":"free"},"spec":{"level":"0"}}`, status: 201},
	})
	t.Run("deviations", func(t *testing.T) {
		for _, d := range deviations(t) {
			d.name = d.reason + ": " + d.method + " " + d.url
			require.NotEqual(t, d.emco, d.status, d.name)
			check(t, w.router, []call{d.call})
		}
		for _, d := range standings {
			put(t, w, theGroupKey, stands[d.stand])
			d.name = d.reason + ": " + d.method + " " + d.url
			require.NotEqual(t, d.emco, d.status, d.name)
			check(t, w.router, []call{d.call})
		}
		put(t, w, theGroupKey, stands[0])
	})
	check(t, w.router, []call{
		{method: "POST", url: theProject + "/logical-clouds/free/cluster-references", body: `{"metadata":{"name":"ref"},"spec":{"clusterProvider":"p1","cluster":"c1"}}`, status: 201},
	})
	check(t, w.router, []call{ // what a group can migrate to
		{method: "POST", url: theProject + "/composite-apps", body: `{"metadata":{"name":"ca"},"spec":{"compositeAppVersion":"v2"}}`, status: 201},
		{method: "POST", url: theOther + "/composite-profiles", body: `{"metadata":{"name":"cp"}}`, status: 201},
		{method: "POST", url: theOther + "/deployment-intent-groups", body: `{"metadata":{"name":"dig2"},"spec":{"compositeProfile":"cp","version":"r1","logicalCloud":"lc","overrideValues":[]}}`, status: 201},
		{method: "POST", url: theOther + "/deployment-intent-groups/dig2/approve", status: 202},
	})
	t.Run("verbs", func(t *testing.T) { walkVerbs(t, w) })
	check(t, w.router, []call{{name: "who asks", method: "GET", url: "/v2/whoami", status: 200, contains: []string{`"kind"`}}})
	t.Run("a preview says what differs", func(t *testing.T) {
		check(t, w.router, []call{
			{method: "GET", url: theGroup + "/preview", status: 200, is: `{"group":"` + string(theGroupKey) + `","apps":[{"app":"sink","resources":2,"total":3,` +
				`"clusters":[{"cluster":"p1+c1","placement":"allOf"},{"cluster":"p1+c2","placement":"anyOf: first of 1 that fit of 2","passed":["p1+c3: 0 nodes"]}],` +
				`"effects":[{"resource":"Service/sink","effects":["add /x by gac intent g","add /y by gac intent g"]}],` +
				`"differences":[{"clusters":["p1+c2"],"variants":1,"resources":[{"resource":"Service/sink","absent":true,"elsewhere":["add /x by gac intent g","add /y by gac intent g"]},` +
				`{"resource":"Deployment/ns/sink","effects":["merge of f by gac intent h"]}]}]}],"warnings":["odd"]}`},
			{method: "GET", url: theComposite + "/deployment-intent-groups/none/preview", status: 404, contains: []string{`deployment intent group "none"`}},
			{method: "GET", url: theGroup + "/diff?operation=instantiate", status: 200, is: `{"group":"` + string(theGroupKey) + `","operation":"instantiate",` +
				`"changes":{"create":1,"change":0,"again":0,"run":0,"delete":0},"unchanged":0,"clusters":1,"apps":[{"app":"sink","clusters":1,"changes":{"create":1,"change":0,"again":0,"run":0,"delete":0}}],` +
				`"items":[{"app":"sink","clusters":["p1+c1"],"arrives":true,"resources":[{"resource":"Secret/sink","version":"v1","action":"create","object":{"apiVersion":"v1","kind":"Secret","data":{"k":"masked"}}}]}],"warnings":["odd"]}`},
			{method: "GET", url: theGroup + "/diff?operation=rollback&revision=1", status: 409, contains: []string{"it is not instantiated"}},
			{method: "GET", url: theGroup + "/diff?operation=rollback&revision=0", status: 409, contains: []string{"it is not instantiated"}}, // that of a migrate
			{method: "GET", url: theGroup + "/diff?operation=rollback&revision=-1", status: 400, contains: []string{"Invalid query revision"}},
			{method: "GET", url: theGroup + "/diff?operation=upgrade", status: 400, contains: []string{"use instantiate, update, rollback or migrate"}},
			{method: "GET", url: theGroup + "/diff?revisions=1", status: 400, contains: []string{"revisions: is no parameter of this request"}},
			{method: "GET", url: theComposite + "/deployment-intent-groups/none/diff", status: 404, contains: []string{`deployment intent group "none"`}},
			{method: "GET", url: theGroup + "/preview?app=sink", status: 400, contains: []string{"app: is no parameter of this request"}},
		})
		put(t, w, theGroupKey, stands[0])
		answer := do(t, w.router, call{method: "POST", url: theGroup + "/approve"})
		require.Equal(t, 202, answer.Code)
		require.Contains(t, strings.Join(answer.Header().Values("Warning"), "\n"),
			`app \"sink\": 1 of 2 clusters get something otherwise than most (Service/sink by gac intent g; Deployment/ns/sink by gac intent h): GET preview says which`)
	})
	t.Run("the kubeconfig of a logical cloud's user", func(t *testing.T) {
		one := theProject + "/logical-clouds/standard"
		put(t, w, domain.Key(strings.TrimPrefix(one, "/v2/")), stands[3])
		check(t, w.router, []call{{method: "POST", url: one + "/cluster-references", body: `{"metadata":{"name":"ref"},"spec":{"clusterProvider":"p1","cluster":"c1"}}`, status: 201}})
		o, err := w.store.Get(t.Context(), domain.ClusterReferences, domain.Key(strings.TrimPrefix(one, "/v2/")).Child("cluster-references", "ref"))
		require.NoError(t, err)
		o.(*domain.ClusterReference).Spec.Certificate = "issued"
		require.NoError(t, w.store.Replace(t.Context(), o))
		check(t, w.router, []call{{method: "GET", url: one + "/cluster-references/ref/kubeconfig", status: 200, contains: []string{"issued"}}})
	})
	t.Run("what is below a group that is being terminated can be deleted, as emcoctl does right after it has asked for that", func(t *testing.T) {
		for _, noun := range domain.Nouns {
			if row := nouns(t)[noun.Title]; strings.HasPrefix(row.path, theGroup+"/") {
				put(t, w, theGroupKey, stands[7])
				check(t, w.router, []call{
					{name: noun.Title, method: "POST", url: row.path, body: strings.ReplaceAll(row.body, "NAME", "gone"), file: row.file, status: 201},
					{name: noun.Title, method: "DELETE", url: row.path + "/gone", status: 204},
				})
			}
		}
	})
	t.Run("what tenants say", func(t *testing.T) { walkTenancy(t, w) })
	for _, r := range w.router.Routes() {
		if strings.HasPrefix(r.Path, "/v2/") && !strings.HasPrefix(r.Path, "/v2/*") {
			require.True(t, succeeded[r.Method+" "+r.Path], "no row has %s %s succeed", r.Method, r.Path)
		}
	}
}

// walkTenancy asks for what a tenant's cluster has said, and what follows from it.
func walkTenancy(t *testing.T, w *world) {
	check(t, w.router, []call{
		{method: "POST", url: theTenant + "/workload-rules", body: `{"metadata":{"name":"r"},"spec":` + ruleSpec + `}`, status: 201},
		{method: "POST", url: "/v2/workload-rules", body: `{"metadata":{"name":"o"},"spec":` + ruleSpec + `}`, status: 201},
		{method: "GET", url: theTenant + "/status", status: 200, is: `{"connected":false,"workloads":0,"held":0,"gone":0,"matches":{},"due":0,"reported":{},"leftOut":[],"leftOutCount":0}`},
	})
	in, err := w.tenancy.Begin(t.Context(), "t1")
	require.NoError(t, err)
	pod := func(id, name string) *domain.Workload {
		return &domain.Workload{ID: id, Orchestrator: domain.Kubernetes, ResourceType: domain.KindPod, ResourceNamespace: "default", ResourceName: name, NodeName: "host-a"}
	}
	other := pod("w/3", "c")
	other.ResourceNamespace = "other"
	require.NoError(t, in.Take(t.Context(), []*service.Said{{Sync: true, Put: []*domain.Workload{pod("w/1", "a"), pod("w/2", "b"), other}}}))
	previewed, bad := `{"metadata":{"name":"NAME"},"spec":`+ruleSpec+`}`, `{"metadata":{"name":"x"},"spec":`+strings.Replace(ruleSpec, `["default"]`, `[]`, 1)+`}`
	for _, below := range []string{theTenant, "/v2"} {
		path := below + "/workload-rules/preview"
		check(t, w.router, []call{
			{method: "POST", url: path, body: strings.Replace(previewed, "NAME", "new", 1), status: 200, contains: []string{`"replaces":false`, `"workloads":3,"matched":2`, `"counts":{"Create":2}`, `"workload":"w/1"`}},
			{method: "POST", url: path + "?workload=w%2F2", body: strings.Replace(previewed, "NAME", "new", 1), status: 200, contains: []string{`"manifest":{`, `"pod":"default/b"`}, lacks: []string{`w/1`}},
			{method: "POST", url: path, body: bad, status: 400, contains: []string{"spec.workloadTerms[0].matchExpressions[0].values"}},
			{name: "a place of another list", method: "POST", url: path + "?continue=" + placeOf("w/1"), body: strings.Replace(previewed, "NAME", "new", 1), status: 400, contains: []string{"Invalid query continue", "is of another list"}},
			{method: "POST", url: path + "?limit=0", body: strings.Replace(previewed, "NAME", "new", 1), status: 400, contains: []string{"Invalid query limit"}},
			{method: "POST", url: path, body: `{`, status: 422},
			{method: "GET", url: below + "/workload-rules/new", status: 404},
		})
	}
	check(t, w.router, []call{
		{method: "POST", url: theTenant + "/workload-rules/preview", body: strings.Replace(previewed, "NAME", "r", 1), status: 200, contains: []string{`"replaces":true`}},
		{method: "POST", url: "/v2/tenants/none/workload-rules/preview", body: strings.Replace(previewed, "NAME", "r", 1), status: 404, contains: []string{`tenant "none" not found`}},
		{method: "POST", url: "/v2/workload-rules/preview?tenant=none", body: strings.Replace(previewed, "NAME", "r", 1), status: 404, contains: []string{`tenant "none" not found`}},
		{method: "GET", url: theTenant + "/explain", status: 200, contains: []string{`"kind":"tenant"`, `"state":"Connected"`}},
		{method: "GET", url: theTenant + "/workload-rules/r/explain?workload=w%2F3", status: 200, contains: []string{`"judged":[{"rule":"tenants/t1/workload-rules/r","tenant":"t1","workload":"w/3","pod":"other/c","matches":false,"terms":[{"holds":false,"expressions":[{"key":"metadata.resourceNamespace","operation":"In","values":["default"],"holds":false,"value":"other"}]}]}]`}},
		{method: "GET", url: "/v2/workload-rules/o/explain", status: 200, contains: []string{`"kind":"workload rule of the operator"`}},
		{method: "GET", url: theTenant + "/workloads/w%2F3/explain", status: 200, contains: []string{`"resource":"tenants/t1/workloads/w%2F3"`, `"kind":"MatchesNothing"`}},
		{method: "GET", url: theTenant + "/workloads/w%2F3/explain?output=text&rule=r", status: 200, contains: []string{`rule r does not apply to other/c`, `term 1: no  metadata.resourceNamespace In default: it is "other"`}},
		{method: "GET", url: theTenant + "/workloads/w%2F3/explain?rule=none", status: 404},
		{method: "GET", url: theTenant + "/workloads/none/explain", status: 404, contains: []string{`workload "none" of tenant "`}},
		{method: "GET", url: theTenant + "/workload-rules/none/explain", status: 404, contains: []string{`workload rule "none"`}},
		{method: "GET", url: theTenant + "/workload-rules/r/explain?workload=none", status: 404},
		{method: "GET", url: "/v2/tenants/none/explain", status: 404, contains: []string{`tenant "none" not found`}},
		{method: "POST", url: "/v2/workload-rules/preview?tenant=No", body: strings.Replace(previewed, "NAME", "r", 1), status: 400},
		{method: "GET", url: theTenant + "/matches", status: 200, lacks: []string{"workload-rules/new"}},
	})
	check(t, w.router, []call{
		{method: "GET", url: theTenant + "/status", status: 200, contains: []string{`"connected":true`, `"workloads":3`, `"matches":{"Pending":4}`, `"due":4`}},
		{method: "GET", url: theTenant + "/workloads?limit=1", status: 200, contains: []string{`"id":"w/1"`, `"continue":"dy8x"`}, lacks: []string{`w/2`}},
		{method: "GET", url: theTenant + "/workloads?limit=1&continue=dy8x", status: 200, contains: []string{`"id":"w/2"`}},
		{method: "GET", url: theTenant + "/workloads?namespace=other", status: 200, contains: []string{`"id":"w/3"`}, lacks: []string{`w/1`}},
		{method: "GET", url: theTenant + "/workloads?held=true", status: 200, is: `{"items":[]}`},
		{method: "GET", url: theTenant + "/workloads?held=maybe", status: 400, contains: []string{"Invalid query held"}},
		{method: "GET", url: theTenant + "/workloads/w%2F1", status: 200, contains: []string{`"resourceName":"a"`}},
		{method: "GET", url: theTenant + "/workloads/none", status: 404, contains: []string{`workload "none" of tenant "`}},
		{method: "GET", url: "/v2/tenants/none/workloads", status: 404, contains: []string{`tenant "none" not found`}},
		{method: "GET", url: theTenant + "/matches?workload=w%2F1&rule=r", status: 200, contains: []string{`"rule":"tenants/t1/workload-rules/r"`, `"wanted":true`, `"cluster":"p1+c1"`}, lacks: []string{"w/2"}},
		{name: "a place of the matches", method: "GET", url: theTenant + "/workloads?continue=" + placeOf("t1\x00w/1\x00tenants/t1/workload-rules/r"), status: 400, contains: []string{"Invalid query continue", "is of another list"}},
		{name: "one of the rule's", method: "GET", url: theTenant + "/workload-rules/r/matches?continue=" + placeOf("t1\x00w/1\x00tenants/t1/workload-rules/r"), status: 200, contains: []string{`"workload":"w/2"`}, lacks: []string{"w/1"}},
		{name: "one of the tenant's", method: "GET", url: theTenant + "/matches?continue=" + placeOf("t1\x00w/1\x00tenants/t1/workload-rules/r"), status: 200, contains: []string{`"workload":"w/2"`}},
		{name: "a place of another rule", method: "GET", url: theTenant + "/workload-rules/r/matches?continue=" + placeOf("t1\x00w/1\x00workload-rules/o"), status: 400, contains: []string{"is of another list"}},
		{name: "a place of another tenant", method: "GET", url: theTenant + "/matches?continue=" + placeOf("t2\x00w/1\x00workload-rules/o"), status: 400, contains: []string{"is of another list"}},
		{method: "GET", url: theTenant + "/workload-rules/r/matches?limit=1", status: 200, contains: []string{`"workload":"w/1"`, `"continue"`}},
		{method: "GET", url: "/v2/workload-rules/o/matches", status: 200, contains: []string{`"tenant":"t1","rule":"workload-rules/o","workload":"w/1"`}},
		{method: "GET", url: "/v2/workload-rules/none/matches", status: 404},
		{method: "POST", url: theTenant + "/release", status: 204},
		{method: "POST", url: "/v2/tenants/none/release", status: 404},
		{method: "DELETE", url: theTenant + "?abandon=maybe", status: 400, contains: []string{"Invalid query abandon"}},
		{method: "DELETE", url: theTenant + "/workload-rules/r?abandon=true", status: 400, contains: []string{"abandon"}},
		{method: "DELETE", url: "/v2/tenants/none?abandon=true", status: 404},
	})
	require.NoError(t, in.Take(t.Context(), []*service.Said{{Put: []*domain.Workload{pod("100%", "percent"), pod("a%2Fb", "escaped"), pod("a/b", "slash")}}}))
	check(t, w.router, []call{
		{method: "GET", url: theTenant + "/workloads/100%25", status: 200, contains: []string{`"resourceName":"percent"`}},
		{method: "GET", url: theTenant + "/workloads/100%25/explain", status: 200, contains: []string{"percent"}},
		{method: "GET", url: theTenant + "/workloads/a%252Fb", status: 200, contains: []string{`"resourceName":"escaped"`}},
		{method: "GET", url: theTenant + "/workloads/a%2Fb", status: 200, contains: []string{`"resourceName":"slash"`}},
	})
	require.NoError(t, in.End(t.Context()))
	check(t, w.router, []call{{method: "GET", url: theTenant + "/status", status: 200, contains: []string{`"connected":false`, `"staleSince"`}}})
}

// walkVerbs makes every call in every state, and on an owner that is not there.
func walkVerbs(t *testing.T, w *world) {
	for _, v := range verbs {
		url := "/v2/" + string(v.owner) + v.path
		for i, code := range v.codes {
			if code == 0 {
				continue
			}
			put(t, w, v.owner, stands[i])
			c := call{name: v.method + " " + url + " when " + stands[i].name, method: v.method, url: url, body: v.body, status: code}
			if code == http.StatusConflict {
				c.contains = []string{v.owner.Name()}
			}
			if texts := warnings[string(v.owner)+v.path]; texts != nil {
				c.answers = map[string]string{"Warning": ""}
				if text := texts[i]; text != "" {
					c.answers["Warning"] = fmt.Sprintf("299 - %q", text)
				}
			}
			check(t, w.router, []call{c})
		}
		if v.path != "" {
			none := strings.TrimSuffix(string(v.owner), v.owner.Name()) + "none"
			check(t, w.router, []call{{name: v.method + " " + v.path + " of none", method: v.method, url: "/v2/" + none + v.path, body: v.body, status: 404, contains: []string{`"none"`}}})
		}
	}
}

// put makes an owner stand somewhere, in a new app context, as an operation would have left it.
func put(t *testing.T, w *world, key domain.Key, s stand) {
	t.Helper()
	noun := domain.OwnerNoun(key)
	o, err := w.store.Get(t.Context(), noun, key)
	require.NoError(t, err)
	h := domain.NewHistory(now)
	w.contexts++
	id := "c" + strings.Repeat("x", w.contexts)
	for _, state := range s.history {
		if state == domain.Instantiated && noun == domain.ClustersNoun {
			state = domain.Applied
		}
		context := id
		revision := 0
		switch state {
		case domain.Approved:
			context = ""
		case domain.Instantiated:
			revision = 1
		default:
		}
		h.Append(state, context, revision, now)
	}
	*o.(domain.Owner).Track() = h
	require.NoError(t, w.store.Replace(t.Context(), o))
	if s.context == domain.ContextNone {
		return
	}
	op := domain.OpInstantiate
	if s.context == domain.ContextTerminating || s.context == domain.ContextTerminated || s.context == domain.ContextTerminateFailed {
		op = domain.OpTerminate
	}
	require.NoError(t, w.store.PutInstance(t.Context(), &domain.Instance{ContextID: id, Owner: key, Operation: op, Status: s.context, Accepted: now}))
}

// newRealWorld is newWorld with the real lifecycle; only the workflow engine is not there.
func newRealWorld(t *testing.T) *world {
	t.Helper()
	return newRealWorldWith(t, func(*world, *deps) {})
}

// newRealWorldWith lets change put other parts in.
func newRealWorldWith(t *testing.T, change func(w *world, d *deps)) *world {
	t.Helper()
	return newWorldWith(t, func(w *world, d *deps, instances *service.Instances) {
		lifecycle := service.NewLifecycle(w.store, w.store, servicetest.Deaf{}, willing(), func() time.Time { return now })
		lifecycle.Rehearse, lifecycle.Foresee = rehearsed, foreseen
		d.Previews = lifecycle
		explainer := service.NewExplainer(lifecycle, willing(), explain.WebUI{})
		*instances, d.lifecycle, d.Explanations = lifecycle, lifecycle, explainer
		journal := service.NewJournal(lifecycle, willing(), explain.WebUI{})
		fleet := service.NewFleet(lifecycle, w.store, journal)
		t.Cleanup(fleet.Close)
		d.Journal, d.Fleet = journal, fleet
		d.Tables = service.NewTables(lifecycle)
		d.Statuses = door.StatusFunc(func(ctx context.Context, owner domain.Key, q url.Values) (door.Document, error) {
			return lifecycle.Status(ctx, owner, q)
		})
		change(w, d)
	})
}

// foreseen is an operation by which one cluster gets an app anew.
func foreseen(_ context.Context, s domain.Scope, _ domain.Goal) (*plan.Way, error) {
	from := plan.Installed{Side: plan.Side{Plan: &plan.Plan{}}}
	id := plan.ResourceID{Version: "v1", Kind: "Secret", Name: "sink"}
	wanted := plan.Side{
		Plan: &plan.Plan{Owner: s.Owner, Apps: []plan.App{{
			Name: "sink", Resources: []plan.ResourceID{id}, Targets: []plan.Target{{ClusterName: domain.ClusterName{Provider: "p1", Name: "c1"}}},
		}}},
		Bundles: map[string]*plan.Bundle{"sink": {App: "sink", Resources: []plan.Resource{{
			ResourceID: id, Manifest: []byte(`{"apiVersion":"v1","kind":"Secret","data":{"k":"aGlkZGVu"}}`),
		}}}},
	}
	return &plan.Way{From: from, Change: plan.Diff(from, wanted, s.Operation), Warnings: []string{"odd"}}, nil
}

// rehearsed is a plan in which one of two clusters gets something otherwise.
func rehearsed(_ context.Context, group *domain.DeploymentIntentGroup) (*plan.Plan, []string, error) {
	return &plan.Plan{Owner: domain.KeyOf(group), Apps: []plan.App{{
		Name: "sink", Resources: []plan.ResourceID{{Version: "v1", Kind: "Service", Name: "sink"}, {Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "ns", Name: "sink"}},
		Effects:  []plan.Effect{{Resource: 0, What: "add /x", By: "gac intent g"}, {Resource: 0, What: "add /y", By: "gac intent g"}},
		Variants: []plan.Variant{{Differs: []int{1}, Lacks: "1G1p", Effects: []plan.Effect{{Resource: 1, What: "merge of f", By: "gac intent h"}}}},
		Targets: []plan.Target{
			{ClusterName: domain.ClusterName{Provider: "p1", Name: "c1"}, Reason: "allOf"},
			{ClusterName: domain.ClusterName{Provider: "p1", Name: "c2"}, Reason: "anyOf: first of 1 that fit of 2", Passed: []string{"p1+c3: 0 nodes"}, Variant: 1},
		},
	}}}, []string{"odd"}, nil
}

// willing is the engine of these tests.
func willing() servicetest.Willing {
	return servicetest.Willing{Group: theGroupKey, Now: func() time.Time { return now }}
}
