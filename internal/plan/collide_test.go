package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// planIn is a plan of one app with one resource on a cluster, of a group of a project, with the rights of the user of the project's cloud.
func planIn(project string, r plan.ResourceID) *plan.Plan {
	of := domain.Join("projects", project)
	return &plan.Plan{
		ContextID: project, Owner: of + "/composite-apps/ca/v1/deployment-intent-groups/group", Namespace: project + "-ns", User: of + "/logical-clouds/lc",
		Apps: []plan.App{{Name: "app", Resources: []plan.ResourceID{r}, Targets: []plan.Target{{ClusterName: domain.ClusterName{Provider: "p", Name: "edge"}}}}},
	}
}

// Who may have one namespace keeps no name anywhere else from other projects, by a chart that the cluster refuses.
func TestWhatAPlanMayNotHaveDoesNotCollide(t *testing.T) {
	t.Parallel()
	web := plan.ResourceID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "p-ns", Name: "web"}
	role := plan.ResourceID{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Name: "ingress"}
	permit := func(namespace string, change func(*domain.UserPermissionSpec)) *domain.UserPermission {
		p := &domain.UserPermission{Spec: domain.UserPermissionSpec{Namespace: namespace, APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
		if change != nil {
			change(&p.Spec)
		}
		return p
	}
	everywhere := []*domain.UserPermission{permit("", nil)}
	for name, c := range map[string]struct {
		resource  plan.ResourceID
		change    func(p, q *plan.Plan) // p is the one that has a right to it where somebody has
		ofP, ofQ  []*domain.UserPermission
		mark      domain.Mark // of q's record
		collides  bool
		otherwise bool // another answer when it is p that was first
	}{
		"in a namespace of another project":                      {resource: web, mark: domain.MarkPending},
		"which the cluster has refused":                          {resource: web, mark: domain.MarkRefused},
		"of which nobody knows whether it was refused":           {resource: web, mark: domain.MarkSent},
		"which it has applied, by rights from elsewhere":         {resource: web, mark: domain.MarkApplied, collides: true, otherwise: true},
		"in whole clusters":                                      {resource: role, mark: domain.MarkPending, ofP: everywhere},
		"in whole clusters, where both may":                      {resource: role, mark: domain.MarkPending, ofP: everywhere, ofQ: everywhere, collides: true},
		"by a permission in the other's namespace":               {resource: web, mark: domain.MarkPending, ofQ: []*domain.UserPermission{permit("p-ns", nil)}, collides: true},
		"which is not for whole clusters":                        {resource: role, mark: domain.MarkPending, ofP: everywhere, ofQ: []*domain.UserPermission{permit("p-ns", nil)}},
		"by a permission to read":                                {resource: web, mark: domain.MarkPending, ofQ: []*domain.UserPermission{permit("", func(s *domain.UserPermissionSpec) { s.Verbs = []string{"get", "watch"} })}},
		"by one for another kind":                                {resource: web, mark: domain.MarkPending, ofQ: []*domain.UserPermission{permit("", func(s *domain.UserPermissionSpec) { s.Resources = []string{"replicasets"} })}},
		"by one for its kind":                                    {resource: web, mark: domain.MarkPending, ofQ: []*domain.UserPermission{permit("", func(s *domain.UserPermissionSpec) { s.Resources = []string{"deployments"} })}, collides: true},
		"by one for another group":                               {resource: web, mark: domain.MarkPending, ofQ: []*domain.UserPermission{permit("", func(s *domain.UserPermissionSpec) { s.APIGroups = []string{""} })}},
		"of a cloud of level 0":                                  {resource: web, mark: domain.MarkPending, change: func(_, q *plan.Plan) { q.User = "" }, collides: true},
		"of one project":                                         {resource: web, mark: domain.MarkRefused, change: func(p, q *plan.Plan) { p.Owner, q.Owner = "projects/p/a", "projects/p/b" }, collides: true},
		"in a namespace that both have":                          {resource: web, mark: domain.MarkPending, change: func(_, q *plan.Plan) { q.Namespace = "p-ns" }, collides: true},
		"of a kind that q's CRDs say has no namespace":           {resource: web, mark: domain.MarkPending, change: func(_, q *plan.Plan) { q.Apps[0].Definitions = lie() }, ofP: everywhere},
		"where an earlier context had it, and it was refused so": {resource: web, mark: domain.MarkUndeleted, change: func(_, q *plan.Plan) { inherit(q, domain.MarkOutdated) }, collides: true},
		"where an earlier one had it, and it was deleted":        {resource: web, mark: domain.MarkDeleted, change: func(_, q *plan.Plan) { inherit(q, domain.MarkOutdated) }, otherwise: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, q := planIn("p", c.resource), planIn("q", c.resource)
			permissions := map[domain.Key][]*domain.UserPermission{p.User: c.ofP, q.User: c.ofQ}
			if c.change != nil {
				c.change(p, q)
			}
			_, ok := plan.Collide(p, q)
			require.True(t, ok, "by what they say")
			_, ok = plan.CollideNow(p, q, nil, map[string]string{domain.LeafID("q", "app", q.Apps[0].Targets[0].ClusterName): domain.NewMarks(1, c.mark).Encode()}, permissions)
			require.Equal(t, c.collides, ok)
			_, ok = plan.CollideNow(q, p, nil, nil, permissions)
			require.Equal(t, c.collides != c.otherwise, ok, "and q learns nothing of p")
		})
	}
}

// lie says of Deployments that they have no namespace.
func lie() *plan.Definitions {
	return plan.DefinitionsOf([]plan.Resource{{
		ResourceID: plan.ResourceID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "deployments.apps"},
		Manifest:   []byte(`{"spec":{"group":"apps","scope":"Cluster","names":{"kind":"Deployment"}}}`),
	}})
}

func inherit(p *plan.Plan, mark domain.Mark) {
	p.Apps[0].Targets[0].Inherited = &plan.Inherited{Marks: domain.NewMarks(1, mark).Encode()}
}
