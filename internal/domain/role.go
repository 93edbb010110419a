package domain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/fail"
)

// Role is a role of the installation's own: a set of rights that bindings give. Those that are built in are no documents
// (BuiltInRoles).
type Role struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     RoleSpec `json:"spec" api:"required"`
}

// RoleSpec has the rules of a role. What any of them allows, the role allows.
type RoleSpec struct {
	Rules []RoleRule `json:"rules" api:"required"` // what it allows
}

// RoleRule allows verbs of nouns.
type RoleRule struct {
	Verbs []string `json:"verbs" api:"required"` // such as get, create or instantiate; * for all
	Nouns []string `json:"nouns" api:"required"` // by their kinds, such as deployment-intent-groups; * for all
	// fleet, project or provider: where what the rule is about lies; anywhere when missing
	Scopes []string `json:"scopes,omitempty"`
}

// Roles is the noun of roles of the installation's own.
var Roles = &Noun{
	Kind: "roles", Title: "role", Collection: "roles", Names: []string{"role"},
	New: func() Object { return &Role{} },
}

// Noun is Roles.
func (*Role) Noun() *Noun { return Roles }

// The roles that are built in. Package rights says what they allow.
const (
	RoleViewer       = "viewer"
	RoleEditor       = "editor"
	RoleApprover     = "approver"
	RoleOperator     = "operator"
	RoleProjectAdmin = "project-admin"
	RoleClusterUser  = "cluster-user"
	RoleClusterAdmin = "cluster-admin"
	RoleAdmin        = "admin"
)

// BuiltInRoles lists them, those that allow least first.
var BuiltInRoles = []string{
	RoleViewer, RoleEditor, RoleApprover, RoleOperator, RoleProjectAdmin, RoleClusterUser, RoleClusterAdmin, RoleAdmin,
}

// maxRules bounds the rules of a role.
const maxRules = 64

// Validate checks the body, but for whether there are such verbs and nouns.
func (r *Role) Validate(p *fail.Problems) {
	r.Metadata.Validate(p)
	if slices.Contains(BuiltInRoles, r.Name) {
		p.Add("metadata.name", "the role %q is built in and cannot be replaced; use another name", r.Name)
	}
	if len(r.Spec.Rules) == 0 {
		p.Add("spec.rules", "is required: a role without rules allows nothing")
	}
	if len(r.Spec.Rules) > maxRules {
		p.Add("spec.rules", "there may be %d rules at the most", maxRules)
		return
	}
	for i, rule := range r.Spec.Rules {
		for _, member := range []struct {
			name  string
			words []string
		}{{"verbs", rule.Verbs}, {"nouns", rule.Nouns}} {
			if len(member.words) == 0 {
				p.Add(at("spec.rules", i, member.name), "is required")
			}
		}
	}
}

// RoleBinding gives the rights of a role to subjects: in the whole fleet, in a project or in a cluster provider, by what it is
// below.
type RoleBinding struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     RoleBindingSpec `json:"spec" api:"required"`
	noun     *Noun
}

// RoleBindingSpec says which role, and who gets it.
type RoleBindingSpec struct {
	Role     string         `json:"role" api:"required"`     // one that is built in, or of /v2/roles
	Subjects []RightSubject `json:"subjects" api:"required"` // who has the role
}

// RightSubject is somebody who may have rights.
type RightSubject struct {
	Kind string `json:"kind" api:"required,enum=user;group;service-account"` // what sort of caller it is
	// a user's or group's name, as the provider of identities has it, or the path of a service account below /v2, such as
	// service-accounts/ci
	Name string `json:"name" api:"required"`
}

// The kinds of subjects.
const (
	SubjectUser           = "user"
	SubjectGroup          = "group"
	SubjectServiceAccount = "service-account"
)

// String is such as "user alice@example.org".
func (s RightSubject) String() string { return s.Kind + " " + s.Name }

// isAccount says whether the name is a service account's.
func (s RightSubject) isAccount() bool {
	_, ok := ServiceAccounts.Split(Key(s.Name))
	return ok
}

func roleBindings(kind, title string, parent *Noun) *Noun {
	n := &Noun{Kind: kind, Title: title, Collection: "role-bindings", Names: []string{"roleBinding"}, Parent: parent}
	n.New = func() Object { return &RoleBinding{noun: n} }
	return n
}

// The nouns of bindings: RoleBindings are those of the fleet, whose rights hold everywhere, the others those of a project or of
// a cluster provider, whose rights hold there alone.
var (
	RoleBindings         = roleBindings("role-bindings", "role binding", nil)
	ProjectRoleBindings  = roleBindings("project-role-bindings", "project role binding", Projects)
	ProviderRoleBindings = roleBindings("provider-role-bindings", "provider role binding", ClusterProviders)
)

// BindingNouns lists the nouns of bindings.
var BindingNouns = []*Noun{RoleBindings, ProjectRoleBindings, ProviderRoleBindings}

// Noun says whose binding it is.
func (b *RoleBinding) Noun() *Noun { return b.noun }

// NewRoleBinding is a binding below a project, a cluster provider, or nothing.
func NewRoleBinding(below Key) *RoleBinding {
	n := RoleBindings
	switch {
	case below.Under(Key(Projects.Collection)):
		n = ProjectRoleBindings
	case below.Under(Key(ClusterProviders.Collection)):
		n = ProviderRoleBindings
	}
	b := n.New().(*RoleBinding)
	b.Parent = below
	return b
}

// What bindings may have.
const (
	maxSubjects    = 256
	maxSubjectName = 512
)

// Validate checks the body.
func (b *RoleBinding) Validate(p *fail.Problems) {
	b.Metadata.Validate(p)
	CheckName(p, "spec.role", b.Spec.Role)
	if len(b.Spec.Subjects) == 0 {
		p.Add("spec.subjects", "is required: without subjects the role is given to nobody")
	}
	if len(b.Spec.Subjects) > maxSubjects {
		p.Add("spec.subjects", "there may be %d at the most; bind a group", maxSubjects)
		return
	}
	for i, s := range b.Spec.Subjects {
		kind, name := at("spec.subjects", i, "kind"), at("spec.subjects", i, "name")
		switch s.Kind {
		case SubjectUser, SubjectGroup, SubjectServiceAccount:
		default:
			p.Add(kind, "%q is none of %s, %s and %s", s.Kind, SubjectUser, SubjectGroup, SubjectServiceAccount)
		}
		switch {
		case strings.TrimSpace(s.Name) == "":
			p.Add(name, "is required")
		case s.Kind == SubjectServiceAccount && !s.isAccount():
			p.Add(name, "%q is no service account; use its path below /v2, such as service-accounts/ci", s.Name)
		case slices.Contains(b.Spec.Subjects[:i], s):
			p.Add(fmt.Sprintf("spec.subjects[%d]", i), "%s is there already", s)
		}
		CheckLength(p, name, s.Name, maxSubjectName)
	}
}

// FirstAdmin is the service account that is made when there is none. It has the role admin of the fleet without a binding, so
// that there is always somebody who can give rights.
var FirstAdmin = Join(ServiceAccounts.Collection, "admin")

// References are the role, where it is not built in, and the service accounts: one that is made anew must not come to rights that
// another one of its name had.
func (b *RoleBinding) References() []Reference {
	var refs []Reference
	if !slices.Contains(BuiltInRoles, b.Spec.Role) {
		refs = append(refs, Reference{"spec.role", Roles, Join(Roles.Collection, b.Spec.Role)})
	}
	for i, s := range b.Spec.Subjects {
		if s.Kind == SubjectServiceAccount {
			refs = append(refs, Reference{at("spec.subjects", i, "name"), ServiceAccounts, Key(s.Name)})
		}
	}
	return refs
}
