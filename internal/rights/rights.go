// Package rights decides who may do what (decision 0050). A Book has the roles and bindings of the installation; what it says of
// one caller is Granted. It reads nothing: the door has books read, and asks them before a request goes on.
package rights

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// Request is what somebody wants to do.
type Request struct {
	Verb string
	Noun *domain.Noun
	// Key is that of the document that it is about; of one that is still to be named, and of a list, that of what it is below.
	Key domain.Key
}

// Decision is what becomes of a request.
type Decision int

// The decisions.
const (
	// Hidden is what the caller has no right to at all: it is answered as if the thing were not there.
	Hidden Decision = iota
	// Forbidden is what the caller may know of, and may not do.
	Forbidden
	// Allowed is what the caller may do.
	Allowed
)

// Book has who was given what.
type Book struct {
	grants map[domain.RightSubject][]grant
	givers []giver
}

// grant is a role that somebody has somewhere.
type grant struct {
	scope domain.Key // "" for the fleet
	*powers
}

// allows says whether it allows verbs of a noun in a scope. What lies in projects or providers is asked for in the fleet to have
// that of all of them: so it must be allowed there, too.
func (g grant) allows(m mask, n *domain.Noun, scope domain.Key) bool {
	if !g.covers(scope) || m == 0 || g.powers[placeOf(scope)][n]&m != m {
		return false
	}
	return scope != "" || g.powers[below(n)][n]&m == m
}

// any says whether it allows anything at all of the noun in the scope.
func (g grant) any(n *domain.Noun, scope domain.Key) bool {
	return g.covers(scope) && g.powers[placeOf(scope)][n] != 0
}

func (g grant) covers(scope domain.Key) bool { return g.scope == "" || g.scope == scope }

// giver is somebody by whom others get rights.
type giver struct {
	subject domain.RightSubject
	grant
}

// NewBook makes a book of the roles and bindings there are. A binding to a role that is not there gives nothing.
func NewBook(roles []*domain.Role, bound []*domain.RoleBinding) *Book {
	b := &Book{grants: map[domain.RightSubject][]grant{}}
	own := map[string]*powers{}
	for _, r := range roles {
		own[r.Name] = powersOf(r.Spec.Rules)
	}
	give := func(s domain.RightSubject, g grant) {
		b.grants[s] = append(b.grants[s], g)
		b.givers = append(b.givers, giver{s, g})
	}
	give(firstAdmin, grant{"", builtIn[domain.RoleAdmin]})
	for _, o := range bound {
		p := builtIn[o.Spec.Role]
		if p == nil {
			p = own[o.Spec.Role]
		}
		if p == nil {
			continue
		}
		for _, s := range o.Spec.Subjects {
			give(s, grant{o.Parent, p})
		}
	}
	return b
}

// firstAdmin has the role admin without a binding.
var firstAdmin = domain.RightSubject{Kind: domain.SubjectServiceAccount, Name: string(domain.FirstAdmin)}

// Of is what the book says of a caller. Who is Open may do everything; who is Anonymous nothing; who speaks for a tenant what the
// protocol of tenants has, of that tenant.
func (b *Book) Of(who caller.Identity) *Granted {
	h := &Granted{who: who, book: b}
	switch who.Kind {
	case caller.Open:
		h.everything = true
	case caller.User:
		h.grants = append(h.grants, b.grants[domain.RightSubject{Kind: domain.SubjectUser, Name: who.Name}]...)
		for _, g := range who.Groups {
			h.grants = append(h.grants, b.grants[domain.RightSubject{Kind: domain.SubjectGroup, Name: g}]...)
		}
	case caller.ServiceAccount:
		h.grants = append(h.grants, b.grants[domain.RightSubject{Kind: domain.SubjectServiceAccount, Name: who.Name}]...)
	case caller.Anonymous, caller.Tenant:
	}
	return h
}

// Granted are the rights of one caller. A nil Granted may do everything: it is that of the program itself.
type Granted struct {
	who        caller.Identity
	book       *Book
	everything bool
	grants     []grant
}

type grantedKey struct{}

// With is ctx with the rights of who asks.
func With(ctx context.Context, h *Granted) context.Context {
	return context.WithValue(ctx, grantedKey{}, h)
}

// Of are the rights of who asks, nil where nobody does.
func Of(ctx context.Context) *Granted {
	h, _ := ctx.Value(grantedKey{}).(*Granted)
	return h
}

// Everything says whether the caller may do everything, as the program itself may.
func (h *Granted) Everything() bool { return h == nil || h.everything }

// Nothing says whether the caller has no right at all, and gets what everybody gets.
func (h *Granted) Nothing() bool {
	return !h.Everything() && h.who.Kind != caller.Tenant && len(h.grants) == 0
}

// First says whether the caller is the service account that is admin without a binding.
func (h *Granted) First() bool {
	return h != nil && h.who.Kind == caller.ServiceAccount && h.who.Name == string(domain.FirstAdmin)
}

// May says whether the caller has a right: a verb of a noun where a key lies.
func (h *Granted) May(verb string, n *domain.Noun, key domain.Key) bool {
	if h.Everything() {
		return true
	}
	if h.who.Kind == caller.Tenant {
		own := domain.TenantKey(h.who.Name)
		return (n == domain.WorkloadRules || n == domain.Workloads) && (key == own || key.Under(own))
	}
	if areas[n] == settings && classes[verb] == see && len(h.grants) > 0 {
		return true
	}
	scope, m := domain.ScopeOf(key), maskOf(verb)
	return slices.ContainsFunc(h.grants, func(g grant) bool { return g.allows(m, n, scope) })
}

// Sees says whether the caller may read a document.
func (h *Granted) Sees(n *domain.Noun, key domain.Key) bool { return h.May("get", n, key) }

// Shows says whether a document is in the lists that the caller gets.
func (h *Granted) Shows(n *domain.Noun, key domain.Key) bool {
	return h.May("list", n, key) || h.Sees(n, key)
}

// Always says whether documents of a noun that lie where a key does are in the lists that the caller gets by a role that is bound in the fleet:
// then also what they tell of a scope that is gone. A role that is bound in a scope is of this one, and not of another one that had its name before.
func (h *Granted) Always(n *domain.Noun, key domain.Key) bool {
	scope := domain.ScopeOf(key)
	return h.Everything() || slices.ContainsFunc(h.grants, func(g grant) bool {
		return g.scope == "" && (g.allows(maskOf("list"), n, scope) || g.allows(maskOf("get"), n, scope))
	})
}

// Where says where the documents of nouns lie that may be in lists which the caller gets: in scopes, or in all scopes of a sort, by the name of their
// collection. Each of the nouns lies in scopes.
func (h *Granted) Where(nouns ...*domain.Noun) []domain.Key {
	var found []domain.Key
	for _, n := range nouns {
		every := domain.Key(n.Lineage()[0].Collection)
		if h.Everything() {
			found = append(found, every)
			continue
		}
		for _, g := range h.grants {
			switch at := below(n); {
			case g.powers[at][n]&(maskOf("list")|maskOf("get")) == 0:
			case g.scope == "":
				found = append(found, every)
			case placeOf(g.scope) == at:
				found = append(found, g.scope)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// Decide says what becomes of a request.
func (h *Granted) Decide(r Request) Decision {
	if r.Noun == domain.Operations && r.Verb == "watch" {
		return h.decideWatch()
	}
	if h.May(r.Verb, r.Noun, r.Key) {
		return Allowed
	}
	if h.who.Kind == caller.Anonymous || h.who.Kind == caller.Tenant {
		return Hidden
	}
	gathered := gathers(r.Noun, r.Key)
	if gathered && r.Verb == "list" || areas[r.Noun] == told {
		return Allowed
	}
	scope := domain.ScopeOf(r.Key)
	within := boundOf(scope) // who may know of a project may know that it has records
	known := func(g grant) bool { return g.any(r.Noun, scope) || within != nil && g.any(within, scope) }
	if gathered || areas[r.Noun] == settings && len(h.grants) > 0 || slices.ContainsFunc(h.grants, known) {
		return Forbidden
	}
	return Hidden
}

// boundOf is the noun of a scope, nil for that of the fleet.
func boundOf(scope domain.Key) *domain.Noun {
	for _, n := range domain.Nouns {
		if _, ok := n.Split(scope); ok && n.Bounds {
			return n
		}
	}
	return nil
}

// decideWatch says whether the operations of the fleet may be watched: nobody filters a stream by what each of those who read it may see.
func (h *Granted) decideWatch() Decision {
	for _, n := range domain.Owners {
		switch {
		case h.May("watch", n, ""):
		case h.who.Kind == caller.Anonymous || h.who.Kind == caller.Tenant:
			return Hidden
		default:
			return Forbidden
		}
	}
	return Allowed
}

// gathers says whether what is asked for is a list over scopes: everybody may ask for it, and is shown what he may see.
func gathers(n *domain.Noun, key domain.Key) bool {
	return key == "" && slices.ContainsFunc(n.Lineage(), func(above *domain.Noun) bool { return above.Bounds })
}

// Refusal is the answer to a request that is not allowed, nil for one that is.
func (h *Granted) Refusal(r Request) error {
	switch h.Decide(r) {
	case Allowed:
		return nil
	case Forbidden:
		return fail.New(fail.Forbidden, "%s", h.lacks(r))
	default:
		return fail.New(fail.NotFound, "%s not found", nameOf(r))
	}
}

// nameOf says what is not there. It is the same whether it is there or not.
func nameOf(r Request) string {
	scope := domain.ScopeOf(r.Key)
	if n := boundOf(scope); n != nil {
		return fmt.Sprintf("%s %q", n.Title, scope.Name())
	}
	if _, ok := r.Noun.Split(r.Key); ok {
		_, local := domain.Cut(r.Noun, r.Key)
		return fmt.Sprintf("%s %q", r.Noun.Title, local)
	}
	return r.Noun.Title
}

// named is how many of those who can give a right are named.
const named = 3

// lacks says which right is missing, which roles have it, and who can give it.
func (h *Granted) lacks(r Request) string {
	scope := domain.ScopeOf(r.Key)
	at := string(scope.Child("role-bindings"))
	have := func(role string) bool { return grant{"", builtIn[role]}.allows(maskOf(r.Verb), r.Noun, scope) }
	var roles []string
	for _, role := range domain.BuiltInRoles {
		if have(role) {
			roles = append(roles, role)
		}
	}
	text := fmt.Sprintf("%s has no right to %s %s of %s", h.who, r.Verb, r.Noun.Kind, whereOf(scope))
	if len(roles) > 0 {
		text += "; that is in the role " + list(roles, "or")
	}
	if givers := h.book.giversOf(scope); len(givers) > 0 {
		text += ", which " + list(givers, "or") + " can give by a binding in /v2/" + at
	}
	return text
}

// whereOf names a scope for people.
func whereOf(scope domain.Key) string {
	if scope == "" {
		return "the fleet"
	}
	return string(scope)
}

// giversOf are those who may write bindings of a scope, the nearest first.
func (b *Book) giversOf(scope domain.Key) []string {
	noun := map[place]*domain.Noun{fleet: domain.RoleBindings, project: domain.ProjectRoleBindings, provider: domain.ProviderRoleBindings}[placeOf(scope)]
	var found []giver
	for _, g := range b.givers {
		if g.allows(maskOf("create"), noun, scope) {
			found = append(found, g)
		}
	}
	slices.SortStableFunc(found, func(a, b giver) int { return -cmp.Compare(len(a.scope), len(b.scope)) })
	var names []string
	for _, g := range found {
		if name := g.subject.String(); !slices.Contains(names, name) && len(names) < named {
			names = append(names, name)
		}
	}
	return names
}

// list is "a, b or c".
func list(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

// Lacks names the first right that a role has in a scope, "" for the fleet, and the caller has not; "" when there is none. It is
// what keeps people from giving what they have not. rules are those of a role that is not built in.
func (h *Granted) Lacks(role string, rules []domain.RoleRule, scope domain.Key) string {
	if h.Everything() {
		return ""
	}
	p := builtIn[role]
	if p == nil {
		p = powersOf(rules)
	}
	return h.lacking(p, scope)
}

// LacksOf names the first right that a service account has, as a book says, and the caller has not; "" when there is none. It is
// what keeps people from becoming somebody who has more.
func (h *Granted) LacksOf(account domain.Key, b *Book) string {
	if h.Everything() {
		return ""
	}
	for _, g := range b.grants[domain.RightSubject{Kind: domain.SubjectServiceAccount, Name: string(account)}] {
		if lacks := h.lacking(g.powers, g.scope); lacks != "" {
			return lacks + " of " + whereOf(g.scope)
		}
	}
	return ""
}

// lacking names the first right of powers in a scope that the caller has not.
func (h *Granted) lacking(p *powers, scope domain.Key) string {
	for at, nouns := range p {
		if scope != "" && place(at) != placeOf(scope) {
			continue
		}
		for _, n := range Nouns() {
			for _, verb := range verbs {
				m := maskOf(verb)
				if nouns[n]&m == 0 || !lies(n, place(at)) {
					continue
				}
				if !slices.ContainsFunc(h.grants, func(g grant) bool { return g.covers(scope) && g.powers[at][n]&m != 0 }) {
					return verb + " " + n.Kind
				}
			}
		}
	}
	return ""
}

// Lies says whether documents of the noun are asked for in a scope, "" for the fleet, in which all are.
func Lies(n *domain.Noun, scope domain.Key) bool { return lies(n, placeOf(scope)) }

// lies says whether documents of the noun are asked for in such a place. In the fleet all are: those of scopes together.
func lies(n *domain.Noun, at place) bool {
	switch top := n.Lineage()[0]; {
	case at == fleet:
		return true
	case top == domain.AuditRecords:
		return at == project
	case !top.Bounds:
		return false
	case top == domain.Projects:
		return at == project
	default:
		return at == provider
	}
}

// below is the place in which documents of the noun lie, where that is not the fleet. A scope itself is asked for in the fleet
// before it has a name, and is the fleet's so far.
func below(n *domain.Noun) place {
	switch top := n.Lineage()[0]; {
	case n == top:
		return fleet
	case top == domain.Projects:
		return project
	case top == domain.ClusterProviders:
		return provider
	default:
		return fleet
	}
}

// Nouns are those that rights are of, in the order of their parents.
func Nouns() []*domain.Noun { return slices.Concat(domain.Nouns, domain.Computed) }

// anything stands for all verbs, or all nouns, in a rule.
const anything = "*"

// powersOf is what rules allow. What they name that there is not, they do not allow.
func powersOf(rules []domain.RoleRule) *powers {
	p := &powers{}
	for _, r := range rules {
		var m mask
		for _, v := range r.Verbs {
			if v == anything {
				m = all
			}
			m |= maskOf(v)
		}
		for at := range placesCount {
			if len(r.Scopes) > 0 && !slices.Contains(r.Scopes, places[at]) {
				continue
			}
			for _, n := range Nouns() {
				if slices.Contains(r.Nouns, n.Kind) || slices.Contains(r.Nouns, anything) {
					p.add(at, n, m)
				}
			}
		}
	}
	return p
}

// CheckRole adds a problem for each verb, noun and scope of a role that there is not.
func CheckRole(r *domain.Role, p *fail.Problems) {
	kinds := []string{anything}
	for _, n := range Nouns() {
		kinds = append(kinds, n.Kind)
	}
	check := func(member, what string, known []string) func(i int, words []string) {
		listed := strings.Join(known, ", ") // once: a million words may be wrong
		return func(i int, words []string) {
			for _, w := range words {
				if !slices.Contains(known, w) {
					p.Add(fmt.Sprintf("spec.rules[%d].%s", i, member), "%q is no %s; there are %s", w, what, listed)
				}
			}
		}
	}
	checkVerbs := check("verbs", "verb", append([]string{anything}, verbs...))
	checkNouns, checkScopes := check("nouns", "noun", kinds), check("scopes", "scope", places[:])
	for i, rule := range r.Spec.Rules {
		checkVerbs(i, rule.Verbs)
		checkNouns(i, rule.Nouns)
		checkScopes(i, rule.Scopes)
	}
}

// in is what powers come to of a noun in such a place, as a part of all that a role has: in the fleet, what lies in projects or providers
// must be allowed there, too.
func (p *powers) in(at place, n *domain.Noun, whole *powers) mask {
	switch {
	case !lies(n, at):
		return 0
	case at == fleet:
		return p[at][n] & whole[below(n)][n] & had(n)
	default:
		return p[at][n] & had(n)
	}
}

// each calls f with what powers come to, noun by noun, in a scope, and in all places for "".
func (p *powers) each(scope domain.Key, whole *powers, f func(at place, n *domain.Noun, m mask)) {
	for at := range placesCount {
		if scope != "" && at != placeOf(scope) {
			continue
		}
		for _, n := range Nouns() {
			f(at, n, p.in(at, n, whole))
		}
	}
}

// Remark says what is odd about giving a role in a scope, "" for nothing: it allows nothing there, or no more than to read. rules are those
// of a role that is not built in.
func Remark(role string, rules []domain.RoleRule, scope domain.Key) string {
	p, viewer := builtIn[role], builtIn[domain.RoleViewer]
	if p == nil {
		p = powersOf(rules)
	}
	nothing, same := true, builtIn[role] != nil && role != domain.RoleViewer
	p.each(scope, p, func(at place, n *domain.Noun, m mask) {
		nothing = nothing && m == 0
		same = same && m == viewer.in(at, n, viewer)
	})
	switch {
	case nothing:
		return fmt.Sprintf("the role %q allows nothing in %s: what it is about lies elsewhere", role, whereOf(scope))
	case same:
		return fmt.Sprintf("the role %q allows no more in %s than %s: what else it is about lies elsewhere", role, whereOf(scope), domain.RoleViewer)
	default:
		return ""
	}
}

// RemarkRules names the rules of a role that allow nothing, wherever it is bound, and says why.
func RemarkRules(r *domain.Role) (remarks []string) {
	whole := powersOf(r.Spec.Rules)
	for i, rule := range r.Spec.Rules {
		p := powersOf([]domain.RoleRule{rule})
		nothing, verbless := true, true
		p.each("", whole, func(at place, n *domain.Noun, m mask) {
			nothing = nothing && m == 0
			verbless = verbless && p[at][n]&had(n) == 0
		})
		switch {
		case !nothing:
		case verbless:
			remarks = append(remarks, fmt.Sprintf("spec.rules[%d] allows nothing: none of its nouns has a verb of its verbs", i))
		default:
			remarks = append(remarks, fmt.Sprintf("spec.rules[%d] allows nothing: its nouns do not lie in its scopes; without scopes it is about all "+
				"(%s alone is no scope of what lies in projects or providers)", i, places[fleet]))
		}
	}
	return remarks
}
