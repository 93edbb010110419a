package rights_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/rights"
)

const (
	ours, theirs = domain.Key("projects/ours"), domain.Key("projects/theirs")
	cp           = domain.Key("cluster-providers/cp")
	group        = ours + "/composite-apps/ca/v1/deployment-intent-groups/web"
)

// bind gives a role to the user alice.
func bind(in domain.Key, role string) *domain.RoleBinding {
	return bindTo(in, role, domain.RightSubject{Kind: domain.SubjectUser, Name: "alice"})
}

func bindTo(in domain.Key, role string, subjects ...domain.RightSubject) *domain.RoleBinding {
	return &domain.RoleBinding{
		Identity: domain.Identity{Parent: in}, Metadata: domain.Metadata{Name: "b"}, Spec: domain.RoleBindingSpec{Role: role, Subjects: subjects},
	}
}

var alice = caller.Identity{Kind: caller.User, Name: "alice", Groups: []string{"staff"}}

func TestDecide(t *testing.T) {
	const allowed, forbidden, hidden = rights.Allowed, rights.Forbidden, rights.Hidden
	for name, c := range map[string]struct {
		bound []*domain.RoleBinding
		verb  string
		noun  *domain.Noun
		key   domain.Key
		want  rights.Decision
	}{
		"nothing is bound":               {nil, "get", domain.DeploymentIntentGroups, group, hidden},
		"a viewer sees":                  {[]*domain.RoleBinding{bind(ours, "viewer")}, "get", domain.DeploymentIntentGroups, group, allowed},
		"a viewer watches":               {[]*domain.RoleBinding{bind(ours, "viewer")}, "watch", domain.DeploymentIntentGroups, group, allowed},
		"a viewer writes":                {[]*domain.RoleBinding{bind(ours, "viewer")}, "put", domain.DeploymentIntentGroups, group, forbidden},
		"a viewer of all projects":       {[]*domain.RoleBinding{bind("", "viewer")}, "get", domain.DeploymentIntentGroups, group, allowed},
		"a viewer elsewhere":             {[]*domain.RoleBinding{bind(theirs, "viewer")}, "get", domain.DeploymentIntentGroups, group, hidden},
		"an admin elsewhere":             {[]*domain.RoleBinding{bind(theirs, "admin")}, "terminate", domain.DeploymentIntentGroups, group, hidden},
		"a project whose name is longer": {[]*domain.RoleBinding{bind(ours+"-2", "viewer")}, "get", domain.DeploymentIntentGroups, group, hidden},
		"an editor writes":               {[]*domain.RoleBinding{bind(ours, "editor")}, "put", domain.DeploymentIntentGroups, group, allowed},
		"an editor instantiates":         {[]*domain.RoleBinding{bind(ours, "editor")}, "instantiate", domain.DeploymentIntentGroups, group, forbidden},
		"an editor approves":             {[]*domain.RoleBinding{bind(ours, "editor")}, "approve", domain.DeploymentIntentGroups, group, forbidden},
		"an approver":                    {[]*domain.RoleBinding{bind(ours, "approver")}, "approve", domain.DeploymentIntentGroups, group, allowed},
		"an operator":                    {[]*domain.RoleBinding{bind(ours, "operator")}, "migrate", domain.DeploymentIntentGroups, group, allowed},
		"an operator writes":             {[]*domain.RoleBinding{bind(ours, "operator")}, "create", domain.DeploymentIntentGroups, group, forbidden},
		"two roles":                      {[]*domain.RoleBinding{bind(ours, "operator"), bind(ours, "editor")}, "create", domain.DeploymentIntentGroups, group, allowed},
		"an editor and clouds":           {[]*domain.RoleBinding{bind(ours, "editor")}, "create", domain.LogicalClouds, ours, forbidden},
		"a project's admin and clouds":   {[]*domain.RoleBinding{bind(ours, "project-admin")}, "create", domain.LogicalClouds, ours, allowed},
		"a project's admin binds":        {[]*domain.RoleBinding{bind(ours, "project-admin")}, "create", domain.ProjectRoleBindings, ours, allowed},
		"a project's admin elsewhere":    {[]*domain.RoleBinding{bind(ours, "project-admin")}, "create", domain.ProjectRoleBindings, theirs, hidden},
		"a project's admin in the fleet": {[]*domain.RoleBinding{bind(ours, "project-admin")}, "create", domain.RoleBindings, "", hidden},
		"a new project":                  {[]*domain.RoleBinding{bind(ours, "project-admin")}, "create", domain.Projects, "", forbidden},
		"of many projects' admin":        {[]*domain.RoleBinding{bind("", "project-admin")}, "create", domain.Projects, "", allowed},
		"clusters of nobody":             {[]*domain.RoleBinding{bind(ours, "project-admin")}, "list", domain.ClustersNoun, cp, hidden},
		"clusters that one may use":      {[]*domain.RoleBinding{bind(cp, "cluster-user")}, "list", domain.ClustersNoun, cp, allowed},
		"clusters that one may change":   {[]*domain.RoleBinding{bind(cp, "cluster-user")}, "put", domain.ClustersNoun, cp + "/clusters/c", forbidden},
		"clusters that one has":          {[]*domain.RoleBinding{bind(cp, "cluster-admin")}, "put", domain.ClustersNoun, cp + "/clusters/c", allowed},
		"their admin in projects":        {[]*domain.RoleBinding{bind("", "cluster-admin")}, "get", domain.DeploymentIntentGroups, group, hidden},
		"a list of what one may see":     {nil, "list", domain.Projects, "", allowed},
		"and of groups of all projects":  {nil, "list", domain.DeploymentIntentGroups, "", allowed},
		"a stream of all groups":         {[]*domain.RoleBinding{bind(ours, "viewer")}, "watch", domain.DeploymentIntentGroups, "", forbidden},
		"for who may see all":            {[]*domain.RoleBinding{bind("", "viewer")}, "watch", domain.DeploymentIntentGroups, "", allowed},
		"operations":                     {nil, "list", domain.Operations, "", allowed},
		"a stream of them":               {nil, "watch", domain.Operations, "", forbidden},
		"a stream of them, of a project": {[]*domain.RoleBinding{bind(ours, "viewer")}, "watch", domain.Operations, "", forbidden},
		"of all of them":                 {[]*domain.RoleBinding{bind("", "viewer")}, "watch", domain.Operations, "", allowed},
		"settings":                       {nil, "get", domain.ReadinessRules, "readiness-rules/r", hidden},
		"settings, with any right":       {[]*domain.RoleBinding{bind(ours, "viewer")}, "get", domain.ReadinessRules, "readiness-rules/r", allowed},
		"to write them":                  {[]*domain.RoleBinding{bind(ours, "viewer")}, "put", domain.ReadinessRules, "readiness-rules/r", forbidden},
		"tenants":                        {[]*domain.RoleBinding{bind(ours, "project-admin")}, "list", domain.Tenants, "", hidden},
		"an admin":                       {[]*domain.RoleBinding{bind("", "admin")}, "put", domain.Tenants, "tenants/t", allowed},
		"a role that is not there":       {[]*domain.RoleBinding{bind(ours, "ghost")}, "get", domain.DeploymentIntentGroups, group, hidden},
		"a verb that is none":            {[]*domain.RoleBinding{bind("", "admin")}, "frobnicate", domain.DeploymentIntentGroups, group, forbidden},
		"a group of the caller": {
			[]*domain.RoleBinding{bindTo(ours, "viewer", domain.RightSubject{Kind: "group", Name: "staff"})}, "get", domain.DeploymentIntentGroups, group, allowed,
		},
		"a group of others": {
			[]*domain.RoleBinding{bindTo(ours, "viewer", domain.RightSubject{Kind: "group", Name: "alice"})}, "get", domain.DeploymentIntentGroups, group, hidden,
		},
		"a service account of the same name": {
			[]*domain.RoleBinding{bindTo(ours, "viewer", domain.RightSubject{Kind: "service-account", Name: "alice"})}, "get", domain.DeploymentIntentGroups, group, hidden,
		},
	} {
		t.Run(name, func(t *testing.T) {
			held := rights.NewBook(nil, c.bound).Of(alice)
			asked := rights.Request{Verb: c.verb, Noun: c.noun, Key: c.key}
			require.Equal(t, c.want, held.Decide(asked))
			switch err := held.Refusal(asked); c.want {
			case allowed:
				require.NoError(t, err)
			case forbidden:
				require.True(t, fail.Is(err, fail.Forbidden), err)
			default:
				require.True(t, fail.Is(err, fail.NotFound), err)
			}
		})
	}
}

// TestWhere: where somebody's lists may have something is where they show something.
func TestWhere(t *testing.T) {
	own := &domain.Role{Metadata: domain.Metadata{Name: "clouds"}, Spec: domain.RoleSpec{Rules: []domain.RoleRule{{Verbs: []string{"get"}, Nouns: []string{"logical-clouds"}}}}}
	writer := &domain.Role{Metadata: domain.Metadata{Name: "writer"}, Spec: domain.RoleSpec{Rules: []domain.RoleRule{{Verbs: []string{"put"}, Nouns: []string{"*"}}}}}
	documents := []domain.Key{group, theirs + "/logical-clouds/lc", cp + "/clusters/c"}
	for name, c := range map[string]struct {
		bound []*domain.RoleBinding
		want  []domain.Key
	}{
		"nothing is bound":       {nil, nil},
		"in two projects":        {[]*domain.RoleBinding{bind(theirs, "viewer"), bind(ours, "operator"), bind(ours, "viewer")}, []domain.Key{ours, theirs}},
		"in a provider":          {[]*domain.RoleBinding{bind(cp, "cluster-user")}, []domain.Key{cp}},
		"in all providers":       {[]*domain.RoleBinding{bind("", "cluster-user")}, []domain.Key{"cluster-providers"}},
		"everywhere":             {[]*domain.RoleBinding{bind("", "viewer"), bind(ours, "viewer")}, []domain.Key{"cluster-providers", "projects", ours}},
		"one noun":               {[]*domain.RoleBinding{bind(theirs, "clouds")}, []domain.Key{theirs}},
		"to write alone":         {[]*domain.RoleBinding{bind("", "writer")}, nil},
		"nouns that lie nowhere": {[]*domain.RoleBinding{bind(cp, "clouds")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			held := rights.NewBook([]*domain.Role{own, writer}, c.bound).Of(alice)
			where := held.Where(domain.Owners...)
			require.Equal(t, c.want, where)
			for _, key := range documents {
				if held.Shows(domain.OwnerNoun(key), key) {
					scope := domain.ScopeOf(key)
					require.True(t, slices.Contains(where, scope) || slices.Contains(where, domain.Key(scope.Segments()[0])), key)
				}
			}
		})
	}
	require.Equal(t, []domain.Key{"cluster-providers", "projects"}, (*rights.Granted)(nil).Where(domain.Owners...))
}

// TestWhoIsAsked: what kind of caller somebody is decides which bindings are his.
func TestWhoIsAsked(t *testing.T) {
	book := rights.NewBook(nil, []*domain.RoleBinding{
		bindTo("", "admin", domain.RightSubject{Kind: "service-account", Name: "service-accounts/ci"}, domain.RightSubject{Kind: "user", Name: ""}),
	})
	asked := rights.Request{Verb: "delete", Noun: domain.Tenants, Key: "tenants/t"}
	for want, callers := range map[rights.Decision][]caller.Identity{
		rights.Allowed: {
			{Kind: caller.Open}, {Kind: caller.ServiceAccount, Name: "service-accounts/ci"},
			{Kind: caller.ServiceAccount, Name: "service-accounts/admin"}, // without a binding
		},
		rights.Hidden: {
			{}, {Kind: caller.User, Name: "service-accounts/ci"}, {Kind: caller.User, Name: "service-accounts/admin"},
			{Kind: caller.ServiceAccount, Name: "service-accounts/other"}, {Kind: caller.Tenant, Name: "t"}, {Kind: caller.User, Name: "x", Groups: []string{"admin"}},
			{Kind: "something new", Name: "service-accounts/admin"},
		},
	} {
		for _, who := range callers {
			require.Equal(t, want, book.Of(who).Decide(asked), "%v", who)
		}
	}
	var none *rights.Granted
	require.True(t, none.May("delete", domain.Tenants, "tenants/t"), "the program itself")
	require.Equal(t, rights.Hidden, book.Of(caller.Identity{}).Decide(rights.Request{Verb: "list", Noun: domain.Projects}), "who is nobody is shown no list")
	require.Equal(t, rights.Hidden, book.Of(caller.Identity{}).Decide(rights.Request{Verb: "list", Noun: domain.Operations}))
}

// TestTenants: who speaks for a tenant does what the protocol has, of that tenant alone.
func TestTenants(t *testing.T) {
	held := rights.NewBook(nil, []*domain.RoleBinding{bindTo("", "admin", domain.RightSubject{Kind: "user", Name: "t"})}).Of(caller.Identity{Kind: caller.Tenant, Name: "t"})
	for _, r := range []rights.Request{
		{Verb: "list", Noun: domain.WorkloadRules, Key: "tenants/t"}, {Verb: "put", Noun: domain.WorkloadRules, Key: "tenants/t/workload-rules/r"},
		{Verb: "report", Noun: domain.Workloads, Key: "tenants/t"},
	} {
		require.Equal(t, rights.Allowed, held.Decide(r), "%v", r)
	}
	for _, r := range []rights.Request{
		{Verb: "list", Noun: domain.WorkloadRules, Key: "tenants/t2"}, {Verb: "put", Noun: domain.WorkloadRules, Key: "tenants/t2/workload-rules/r"},
		{Verb: "report", Noun: domain.Workloads, Key: "tenants/u"}, {Verb: "create", Noun: domain.TenantTokens, Key: "tenants/t"},
		{Verb: "get", Noun: domain.Tenants, Key: "tenants/t"}, {Verb: "list", Noun: domain.Projects}, {Verb: "list", Noun: domain.Operations},
		{Verb: "get", Noun: domain.ReadinessRules, Key: "readiness-rules/r"},
	} {
		require.Equal(t, rights.Hidden, held.Decide(r), "%v", r)
	}
}

// TestRefusals: one that may be known says what is missing and who can give it, one that may not says the same of what is there and
// what is not.
func TestRefusals(t *testing.T) {
	book := rights.NewBook(nil, []*domain.RoleBinding{
		bind(ours, "viewer"), bindTo(ours, "project-admin", domain.RightSubject{Kind: "user", Name: "bob"}),
		bindTo("", "admin", domain.RightSubject{Kind: "group", Name: "ops"}),
	})
	held := book.Of(alice)
	require.EqualError(t, held.Refusal(rights.Request{Verb: "instantiate", Noun: domain.DeploymentIntentGroups, Key: group}),
		"user alice has no right to instantiate deployment-intent-groups of projects/ours; that is in the role operator, project-admin or admin, "+
			"which user bob, service-account service-accounts/admin or group ops can give by a binding in /v2/projects/ours/role-bindings")
	require.EqualError(t, held.Refusal(rights.Request{Verb: "create", Noun: domain.Projects}),
		"user alice has no right to create projects of the fleet; that is in the role project-admin or admin, "+
			"which service-account service-accounts/admin or group ops can give by a binding in /v2/role-bindings")
	require.ErrorContains(t, held.Refusal(rights.Request{Verb: "list", Noun: domain.AuditRecords, Key: ours}),
		"user alice has no right to list audit of projects/ours; that is in the role project-admin or admin", "the project is there for her, so that it has records")
	for _, r := range []rights.Request{
		{Verb: "list", Noun: domain.AuditRecords, Key: theirs},
		{Verb: "get", Noun: domain.Projects, Key: theirs}, {Verb: "delete", Noun: domain.Projects, Key: theirs},
		{Verb: "list", Noun: domain.LogicalClouds, Key: theirs}, {Verb: "get", Noun: domain.LogicalClouds, Key: theirs + "/logical-clouds/lc"},
	} {
		require.EqualError(t, held.Refusal(r), `project "theirs" not found`)
	}
	require.EqualError(t, held.Refusal(rights.Request{Verb: "get", Noun: domain.Tenants, Key: "tenants/t"}), `tenant "t" not found`)
}

func rule(verbs, nouns []string, scopes ...string) domain.RoleRule {
	return domain.RoleRule{Verbs: verbs, Nouns: nouns, Scopes: scopes}
}

func role(name string, rules ...domain.RoleRule) *domain.Role {
	return &domain.Role{Metadata: domain.Metadata{Name: name}, Spec: domain.RoleSpec{Rules: rules}}
}

// TestOwnRoles: rules allow what they name, where they say.
func TestOwnRoles(t *testing.T) {
	roles := []*domain.Role{
		role("starter", rule([]string{"instantiate", "get"}, []string{"deployment-intent-groups"}, "project")),
		role("reader", rule([]string{"get"}, []string{"*"})), role("all", rule([]string{"*"}, []string{"*"})),
		role("elsewhere", rule([]string{"get"}, []string{"deployment-intent-groups"}, "provider")),
	}
	may := func(bound *domain.RoleBinding, verb string, n *domain.Noun, key domain.Key) bool {
		return rights.NewBook(roles, []*domain.RoleBinding{bound}).Of(alice).May(verb, n, key)
	}
	require.True(t, may(bind(ours, "starter"), "instantiate", domain.DeploymentIntentGroups, group))
	require.True(t, may(bind("", "starter"), "instantiate", domain.DeploymentIntentGroups, group))
	require.False(t, may(bind("", "starter"), "get", domain.DeploymentIntentGroups, ""), "only of projects")
	require.False(t, may(bind(ours, "starter"), "terminate", domain.DeploymentIntentGroups, group))
	require.False(t, may(bind(ours, "starter"), "get", domain.LogicalClouds, ours+"/logical-clouds/lc"))
	require.True(t, may(bind(ours, "reader"), "get", domain.LogicalClouds, ours+"/logical-clouds/lc"))
	require.False(t, may(bind(ours, "reader"), "get", domain.Tenants, "tenants/t"))
	require.True(t, may(bind("", "all"), "delete", domain.Tenants, "tenants/t"))
	require.False(t, may(bind("", "elsewhere"), "get", domain.DeploymentIntentGroups, group))
}

// TestAllOfTheFleet: who is shown all groups, or has a stream of them, has the right where they lie. A rule of the fleet alone does
// not give it, and cannot be had by who has no such right.
func TestAllOfTheFleet(t *testing.T) {
	all := rule([]string{"list", "watch"}, []string{"deployment-intent-groups", "clusters"})
	fleetOnly := all
	fleetOnly.Scopes = []string{"fleet"}
	roles := []*domain.Role{role("all", all), role("fleet-only", fleetOnly), role("keeper", rule([]string{"*"}, []string{"roles"}))}
	held := func(name string) *rights.Granted {
		return rights.NewBook(roles, []*domain.RoleBinding{bind("", name)}).Of(alice)
	}
	watch := rights.Request{Verb: "watch", Noun: domain.DeploymentIntentGroups}
	for _, n := range []*domain.Noun{domain.DeploymentIntentGroups, domain.ClustersNoun} {
		require.True(t, held("all").Shows(n, ""))
		require.False(t, held("fleet-only").Shows(n, ""))
	}
	require.Equal(t, rights.Allowed, held("all").Decide(watch))
	require.Equal(t, rights.Forbidden, held("fleet-only").Decide(watch))
	require.True(t, held("viewer").Shows(domain.DeploymentIntentGroups, ""))
	require.NotEmpty(t, held("keeper").Lacks("", []domain.RoleRule{fleetOnly}, ""))
	require.Empty(t, held("fleet-only").Lacks("", []domain.RoleRule{fleetOnly}, ""))
}

// TestLacksOf: who would be a service account needs each right that it has, where it has it.
func TestLacksOf(t *testing.T) {
	const ci = domain.Key("service-accounts/ci")
	account := domain.RightSubject{Kind: domain.SubjectServiceAccount, Name: string(ci)}
	lacks := func(of domain.Key, bound ...*domain.RoleBinding) string {
		book := rights.NewBook(nil, append(bound, bindTo(ours, "editor", account)))
		return book.Of(alice).LacksOf(of, book)
	}
	require.Empty(t, lacks(ci, bind(ours, "editor")))
	require.Empty(t, lacks(ci, bind("", "project-admin")))
	require.Empty(t, lacks("service-accounts/none"))
	require.Equal(t, "create project-status-collectors of projects/ours", lacks(ci, bind(ours, "viewer")))
	require.Contains(t, lacks(ci, bind(theirs, "editor")), "of projects/ours")
	require.Contains(t, lacks(domain.FirstAdmin, bind("", "project-admin")), "of the fleet")
	require.Empty(t, lacks(domain.FirstAdmin, bind("", "admin")))
	require.Empty(t, lacks(ci, bind("", "admin")))
}

// TestLacks: who gives a role needs each of its rights there.
func TestLacks(t *testing.T) {
	lacks := func(bound *domain.RoleBinding, in domain.Key, name string, rules ...domain.RoleRule) string {
		return rights.NewBook(nil, []*domain.RoleBinding{bound}).Of(alice).Lacks(name, rules, in)
	}
	for _, name := range []string{"viewer", "editor", "approver", "operator", "project-admin"} {
		require.Empty(t, lacks(bind(ours, "project-admin"), ours, name), name)
		require.NotEmpty(t, lacks(bind(ours, "project-admin"), theirs, name), name)
		require.NotEmpty(t, lacks(bind(ours, "project-admin"), "", name), name)
	}
	for _, name := range domain.BuiltInRoles {
		require.Empty(t, lacks(bind("", "admin"), "", name), name)
		require.Empty(t, lacks(bind("", "admin"), ours, name), name)
	}
	require.Equal(t, "create project-status-collectors", lacks(bind(ours, "viewer"), ours, "editor"))
	require.NotEmpty(t, lacks(bind(ours, "project-admin"), ours, "admin"))
	require.Empty(t, lacks(bind(cp, "cluster-admin"), cp, "cluster-user"))
	require.NotEmpty(t, lacks(bind(cp, "cluster-user"), cp, "cluster-admin"))
	require.NotEmpty(t, lacks(bind("", "cluster-admin"), "", "admin"))
	require.Empty(t, lacks(bind(ours, "editor"), ours, "own", rule([]string{"put"}, []string{"apps"})))
	require.Equal(t, "approve deployment-intent-groups", lacks(bind(ours, "editor"), ours, "own", rule([]string{"approve"}, []string{"deployment-intent-groups"})))
}

// TestCheckRole names what there is not.
func TestCheckRole(t *testing.T) {
	var p fail.Problems
	rights.CheckRole(role("r", rule([]string{"get", "*"}, []string{"*", "operations"}, "fleet", "project", "provider")), &p)
	require.NoError(t, p.Err())
	rights.CheckRole(role("r", rule([]string{"get"}, []string{"apps"}), rule([]string{"fetch"}, []string{"group"}, "moon")), &p)
	var paths []string
	for _, f := range fail.FieldsOf(p.Err()) {
		paths = append(paths, f.Path)
	}
	require.Equal(t, []string{"spec.rules[1].verbs", "spec.rules[1].nouns", "spec.rules[1].scopes"}, paths)
	require.ErrorContains(t, p.Err(), `"fetch" is no verb; there are *, approve, `)
}

// TestRemark: a role that is bound where nothing lies that it is about.
func TestRemark(t *testing.T) {
	nothing := func(role, where string) string {
		return `the role "` + role + `" allows nothing in ` + where + `: what it is about lies elsewhere`
	}
	for _, name := range domain.BuiltInRoles {
		require.Empty(t, rights.Remark(name, nil, ""), name)
		want := ""
		if name == "cluster-user" || name == "cluster-admin" {
			want = nothing(name, "projects/ours")
		}
		require.Equal(t, want, rights.Remark(name, nil, ours), name)
		want = ""
		if name == "editor" || name == "approver" || name == "operator" || name == "project-admin" {
			want = `the role "` + name + `" allows no more in cluster-providers/cp than viewer: what else it is about lies elsewhere`
		}
		require.Equal(t, want, rights.Remark(name, nil, cp), name)
	}
	groups := rule([]string{"get"}, []string{"deployment-intent-groups"})
	require.Empty(t, rights.Remark("own", []domain.RoleRule{groups}, ours))
	require.Equal(t, nothing("own", "cluster-providers/cp"), rights.Remark("own", []domain.RoleRule{groups}, cp))
	fleet := rule([]string{"get"}, []string{"deployment-intent-groups"}, "fleet")
	require.Equal(t, nothing("own", "the fleet"), rights.Remark("own", []domain.RoleRule{fleet}, ""))
	require.Equal(t, nothing("own", "projects/ours"), rights.Remark("own", []domain.RoleRule{rule([]string{"*"}, []string{"tenants"})}, ours))
}

// TestRemarkRules: each word is one that there is, and together they mean nothing.
func TestRemarkRules(t *testing.T) {
	of := func(rules ...domain.RoleRule) []string { return rights.RemarkRules(role("r", rules...)) }
	groups := []string{"deployment-intent-groups"}
	require.Empty(t, of(rule([]string{"*"}, []string{"*"}), rule([]string{"get"}, groups, "project", "provider"), rule([]string{"get"}, []string{"projects", "tenants"}, "fleet"),
		rule([]string{"use", "get"}, []string{"clusters"}, "provider"), rule([]string{"list"}, []string{"audit"}, "project")))
	require.Empty(t, of(rule([]string{"list"}, groups, "fleet"), rule([]string{"list", "get"}, groups, "project")), "the second rule makes the first one count")
	const scopes = "allows nothing: its nouns do not lie in its scopes; without scopes it is about all (fleet alone is no scope of what lies in projects or providers)"
	const verbs = "allows nothing: none of its nouns has a verb of its verbs"
	require.Equal(t, []string{"spec.rules[1] " + scopes, "spec.rules[2] " + scopes, "spec.rules[3] " + verbs, "spec.rules[4] " + scopes},
		of(rule([]string{"get"}, []string{"apps"}), rule([]string{"get"}, groups, "provider"), rule([]string{"*"}, groups, "fleet"), rule([]string{"approve"}, []string{"apps"}),
			rule([]string{"get"}, []string{"tenants"}, "project")))
}

// TestVerbsOfFewNouns: what can be asked for at a door is a verb of that noun.
func TestVerbsOfFewNouns(t *testing.T) {
	text, err := os.ReadFile("../../api/testdata/door.txt")
	require.NoError(t, err)
	n := 0
	for line := range strings.Lines(string(text)) {
		_, what, _ := strings.Cut(line, ": ")
		words := strings.Fields(what)
		if len(words) < 2 {
			continue
		}
		n++
		require.Empty(t, rights.RemarkRules(role("r", rule(words[:1], words[1:2]))), line)
	}
	require.Greater(t, n, 100)
}

// TestVerbsInTheDocuments: who writes a role finds its verbs in docs/security.md, each of them and no other.
func TestVerbsInTheDocuments(t *testing.T) {
	text, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	_, said, found := strings.Cut(string(text), "\nVerbs are ")
	require.True(t, found)
	said, _, _ = strings.Cut(said, ", which is\n")
	require.ElementsMatch(t, rights.Verbs(), strings.Fields(strings.NewReplacer(",", " ", ";", " ", " and ", " ").Replace(said)))
}
