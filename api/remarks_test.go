package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// said is a write that is done, and what is said of it.
type said struct {
	call
	want []string
}

// says sends each of them, and compares the warnings.
func says(t *testing.T, w *world, all []said) {
	t.Helper()
	for _, c := range all {
		answer := do(t, w.router, c.call)
		require.Equal(t, c.status, answer.Code, "%s: %s", c.name, answer.Body)
		var want []string
		for _, text := range c.want {
			want = append(want, `299 - "`+text+`"`)
		}
		require.Equal(t, want, answer.Header()["Warning"], c.name)
	}
}

// A cloud of level 0 has neither a user nor a namespace of its own: what is said of them is taken, and comes to nothing.
func TestCloudsWarnOfWhatIsNotActedOn(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	clouds := theProject + "/logical-clouds"
	one := clouds + "/one"
	permission := `{"metadata":{"name":"p"},"spec":{"namespace":"ns","apiGroups":[""],"resources":["pods"],"verbs":["get"]}}`
	member := func(more string) string {
		return `{"metadata":{"name":"r"},"spec":{"clusterProvider":"p1","cluster":"c1",` + more + `}}`
	}
	says(t, w, []said{
		{call: call{name: "level 0", method: "POST", url: clouds, body: `{"metadata":{"name":"zero"},"spec":{"level":"0","namespace":"default","user":{}}}`, status: 201}},
		{
			call: call{name: "all at level 0", method: "POST", url: clouds, status: 201,
				body: `{"metadata":{"name":"more"},"spec":{"level":"0","namespace":"shop","labels":{"a":"b"},"user":{"userName":"u"}}}`},
			want: []string{`spec.namespace: \"shop\" is replaced by default, which is that of level 0`, "spec.labels: nothing is done with it at level 0", "spec.user: nothing is done with it at level 0"},
		},
		{
			call: call{name: "a permission of nobody", method: "POST", url: theCloud + "/user-permissions", body: permission, status: 201},
			want: []string{`logical cloud \"lc\" is of level 0, and has no user: nobody gets the permission`},
		},
		{call: call{name: "level 1", method: "POST", url: clouds, body: `{"metadata":{"name":"one"},"spec":{"namespace":"shop","user":{"userName":"u","type":"Certificate"}}}`, status: 201}},
		{call: call{name: "a permission", method: "POST", url: one + "/user-permissions", body: permission, status: 201}},
		{call: call{name: "a quota", method: "POST", url: one + "/cluster-quotas", body: `{"metadata":{"name":"q"},"spec":{"pods":"3"}}`, status: 201}},
		{call: call{name: "a reference as in EMCO's examples", method: "POST", url: one + "/cluster-references", body: member(`"loadBalancerIP":"0.0.0.0","certificate":""`), status: 201}},
		{call: call{name: "which goes", method: "DELETE", url: one + "/cluster-references/r", status: 204}},
		{
			call: call{name: "a certificate of one's own", method: "POST", url: one + "/cluster-references", body: member(`"loadBalancerIP":"10.0.0.1","certificate":"b3du"`), status: 201},
			want: []string{"spec.certificate: what was sent is not kept; the cluster signs one when the logical cloud is instantiated", `spec.loadBalancerIP: nothing is done with \"10.0.0.1\"`},
		},
		{
			call: call{name: "a token", method: "PUT", url: one, body: `{"metadata":{"name":"one"},"spec":{"namespace":"shop","user":{"userName":"u","type":"token"}}}`, status: 201},
			want: []string{`spec.user.type: nothing is done with \"token\"; the user gets a certificate`},
		},
		{
			call: call{name: "from level 1 to 0", method: "PUT", url: one, body: `{"metadata":{"name":"one"},"spec":{"level":"0"}}`, status: 201},
			want: []string{
				"spec.level: at level 0 nothing is done with user-permissions, which are still there, such as projects/proj/logical-clouds/one/user-permissions/p",
				"spec.level: at level 0 nothing is done with cluster-quotas, which are still there, such as projects/proj/logical-clouds/one/cluster-quotas/q",
			},
		},
	})
}

// A right is a verb of a noun in a place: words that there are, and that mean nothing together, give nothing.
func TestRightsThatComeToNothing(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	bind := func(role string) string {
		return `{"metadata":{"name":"` + role + `"},"spec":{"role":"` + role + `","subjects":[{"kind":"user","name":"anna"}]}}`
	}
	says(t, w, []said{
		{call: call{name: "a role that counts", method: "POST", url: theProject + "/role-bindings", body: bind("operator"), status: 201}},
		{
			call: call{name: "of clusters in a project", method: "POST", url: theProject + "/role-bindings", body: bind("cluster-admin"), status: 201},
			want: []string{`spec.role: the role \"cluster-admin\" allows nothing in projects/proj: what it is about lies elsewhere`},
		},
		{
			call: call{name: "of groups at a provider", method: "POST", url: theProvider + "/role-bindings", body: bind("operator"), status: 201},
			want: []string{`spec.role: the role \"operator\" allows no more in cluster-providers/p1 than viewer: what else it is about lies elsewhere`},
		},
		{
			call: call{name: "a rule of nothing", method: "POST", url: "/v2/roles", status: 201,
				body: `{"metadata":{"name":"odd"},"spec":{"rules":[{"verbs":["approve"],"nouns":["apps"]},{"verbs":["get"],"nouns":["apps"]}]}}`},
			want: []string{"spec.rules[0] allows nothing: none of its nouns has a verb of its verbs"},
		},
		{call: call{name: "a role of one's own", method: "POST", url: theProject + "/role-bindings", body: bind("odd"), status: 201}},
		{
			call: call{name: "a role of one's own elsewhere", method: "PUT", url: theProvider + "/role-bindings/odd", body: bind("odd"), status: 201},
			want: []string{`spec.role: the role \"odd\" allows nothing in cluster-providers/p1: what it is about lies elsewhere`},
		},
	})
}

// A profile whose manifest.yaml has a typo is one that changes nothing.
func TestProfilesWarnOfWhatIsNotActedOn(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	one, body := theProfile+"/profiles/sinkp", `{"metadata":{"name":"sinkp"},"spec":{"app":"sink"}}`
	says(t, w, []said{
		{call: call{name: "values", method: "PUT", url: one, body: body, file: profileOf(t), status: 201}},
		{
			call: call{name: "a typo", method: "PUT", url: one, body: body, file: tgz(t, "manifest.yaml", "version: v1\ntype: {value: v.yaml}\n", "v.yaml", "a: b\n"), status: 201},
			want: []string{
				`profile: manifest.yaml: unknown field \"type.value\", did you mean \"type.values\"?`,
				"profile: manifest.yaml names neither type.values nor type.configresource: the profile changes nothing",
			},
		},
		{call: call{name: "no archive", method: "PUT", url: one, body: body, status: 201}},
	})
	check(t, w.router, []call{{
		name: "two files for one place", method: "PUT", url: one, body: body, status: 400, contains: []string{`two files of type.configresource are for chartpath "sink/a"`},
		file: tgz(t, "manifest.yaml", "type: {configresource: [{filepath: a, chartpath: sink/a}, {filepath: b, chartpath: sink/a}]}", "a", "", "b", ""),
	}})
}

// Of a key that is in several maps one value is found.
func TestPairsThatNobodyFinds(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	body := func(kv string) string { return `{"metadata":{"name":"twice"},"spec":{"kv":` + kv + `}}` }
	hidden := []string{`spec.kv[1]: who asks for \"k\" gets the value that spec.kv[0] has`}
	says(t, w, []said{
		{call: call{name: "twice", method: "POST", url: theCluster + "/kv-pairs", body: body(`[{"k":"a"},{"k":"b","l":"b"}]`), status: 201}, want: hidden},
		{call: call{name: "the same", method: "PUT", url: theCluster + "/kv-pairs/twice", body: body(`[{"k":"a"},{"k":"a","l":"b"}]`), status: 201}},
		{call: call{name: "of a provider", method: "POST", url: theProvider + "/cluster-sync-objects", body: body(`[{"k":"a"},{"k":"b"}]`), status: 201}, want: hidden},
	})
}

// What is kept for its own sake says so, where somebody who comes from EMCO expects that something is done with it.
func TestDocumentsThatDoNothingSaySo(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	unused, uncalled := []string{"spec.kv: nothing is done with the key-value pairs of a logical cloud; patches find those of clusters and of cluster providers"},
		[]string{"nothing is done with it: no clm controller is called, and hpa intents need none"}
	controller := `{"metadata":{"name":"hpa-placement-controller-1"},"spec":{"host":"hpa-plc","port":9099,"priority":1}}`
	says(t, w, []said{
		{call: call{name: "pairs of a logical cloud", method: "POST", url: theCloud + "/kv-pairs", body: `{"metadata":{"name":"n"},"spec":{"kv":[{"k":"a"},{"k":"b"}]}}`, status: 201}, want: unused},
		{call: call{name: "a clm controller", method: "POST", url: "/v2/clm-controllers", body: controller, status: 201}, want: uncalled},
		{call: call{name: "a clm controller, again", method: "PUT", url: "/v2/clm-controllers/hpa-placement-controller-1", body: controller, status: 200}, want: uncalled},
	})
}
