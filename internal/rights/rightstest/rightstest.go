// Package rightstest has the callers of the matrices of rights, which say of every route and of every gRPC method who may call it. Each edge has
// one, in a file that is to be read.
package rightstest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/token"
)

// The project and the provider that rows are about.
const (
	Project  = "a-project"
	Provider = "a-clusterProvider"
)

// Caller is a column: what somebody shows, with a role somewhere.
type Caller struct {
	Where, Role string
	Shows       string // the header Authorization
	bound       *domain.RoleBinding
}

// Callers are all columns. Service accounts show tokens that are stored.
func Callers(t testing.TB, s *store.Store) []Caller {
	t.Helper()
	const account = "service-accounts/ci"
	issue := func(account domain.Key, name string, until time.Time) string {
		key := account.Child(domain.ServiceAccountTokens.Collection, name)
		text, hash := token.New(string(key))
		require.NoError(t, s.Create(t.Context(), &domain.ServiceAccountToken{
			Identity: domain.Identity{Parent: account}, Metadata: domain.Metadata{Name: name}, Credential: domain.Credential{Hash: hash, Expires: until},
		}))
		return "Bearer " + text
	}
	later := time.Now().Add(time.Hour)
	expired, revoked := issue(account, "expired", time.Now().Add(-time.Hour)), issue(account, "revoked", later)
	require.NoError(t, s.Delete(t.Context(), domain.ServiceAccountTokens, account+"/tokens/revoked", 0))
	all := []Caller{{Where: "-", Role: "anonymous"}, {Where: "account", Role: "expired", Shows: expired}, {Where: "account", Role: "revoked", Shows: revoked}}
	add := func(where string, in domain.Key, roles ...string) {
		for _, role := range roles {
			name := where + "/" + role
			all = append(all, Caller{where, role, "Bearer " + name, Binding(in, role, domain.SubjectUser, name)})
		}
	}
	inProject := []string{"viewer", "editor", "approver", "operator", "project-admin", "admin"}
	all = append(all, Caller{Where: "-", Role: "none", Shows: "Bearer nobody"})
	add("fleet", "", domain.BuiltInRoles...)
	add("project", "projects/"+Project, inProject...)
	add("other", "projects/other", inProject...)
	add("provider", "cluster-providers/"+Provider, "viewer", "cluster-user", "cluster-admin", "admin")
	add("else", "cluster-providers/other", "cluster-user", "cluster-admin")
	return append(all,
		Caller{"account", "editor", issue(account, "good", later), Binding("projects/"+Project, "editor", domain.SubjectServiceAccount, account)},
		Caller{Where: "account", Role: "first", Shows: issue(domain.FirstAdmin, "good", later)},
	)
}

// Binding gives a role somewhere.
func Binding(in domain.Key, role, kind, name string) *domain.RoleBinding {
	return &domain.RoleBinding{
		Identity: domain.Identity{Parent: in}, Metadata: domain.Metadata{Name: "b"},
		Spec: domain.RoleBindingSpec{Role: role, Subjects: []domain.RightSubject{{Kind: kind, Name: name}}},
	}
}

// ByWord is an authn.Prover that knows users by what they call themselves.
func ByWord(_ context.Context, s *authn.Shown) (*authn.Proof, error) {
	if len(s.Authorization) == 0 {
		return nil, nil
	}
	return &authn.Proof{Identity: caller.Identity{Kind: caller.User, Name: strings.TrimPrefix(s.Authorization[0], "Bearer ")}}, nil
}

// Prover knows service accounts by their tokens, and users by word.
func Prover(s *store.Store) authn.Prover {
	return authn.Chain(authn.Tokens{Store: s, Now: time.Now}.Prove, ByWord)
}

// Book has what callers may do.
func Book(callers []Caller) *rights.Book {
	var bound []*domain.RoleBinding
	for _, c := range callers {
		if c.bound != nil {
			bound = append(bound, c.bound)
		}
	}
	return rights.NewBook(nil, bound)
}

// Legend says what columns are.
const Legend = `Where: - nowhere; flt the fleet; proj the project of the row; oth another project; prov the cluster provider of the row; else another
provider; acct a service account: with a token that has expired, with one that is revoked, with the role editor in the project, and the
first one, service-accounts/admin.
Roles: anon none, and nothing shown; none none; view viewer, edit editor, appr approver, oper operator, padm project-admin, cuse cluster-user, cadm cluster-admin, adm admin.
`

// short are the heads of columns.
var short = map[string]string{
	"fleet": "flt", "other": "oth", "viewer": "view", "editor": "edit", "approver": "appr", "operator": "oper", "project-admin": "padm",
	"cluster-user": "cuse", "cluster-admin": "cadm", "admin": "adm", "provider": "prov", "project": "proj", "account": "acct",
}

// Matrix are rows under the heads of callers, by the words by which they are sorted.
func Matrix(callers []Caller, rows map[string]string) string {
	var where, role []string
	for _, c := range callers {
		where = append(where, Cell(cmp.Or(short[c.Where], c.Where[:min(4, len(c.Where))])))
		role = append(role, Cell(cmp.Or(short[c.Role], c.Role[:min(4, len(c.Role))])))
	}
	return strings.Join(where, " ") + "\n" + strings.Join(role, " ") + "\n" + Rows(rows)
}

// Rows are lines, by the words by which they are sorted.
func Rows(rows map[string]string) string {
	var lines strings.Builder
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		lines.WriteString(rows[k] + "\n")
	}
	return lines.String()
}

// Cell is what stands in a column.
func Cell(text string) string { return fmt.Sprintf("%-4s", text) }

// Compare fails for each row of text that is not in the file, and the other way around. DROVER_UPDATE=1 writes the file anew.
func Compare(t testing.TB, file, text string) {
	t.Helper()
	if os.Getenv("DROVER_UPDATE") != "" {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644)) // #nosec G306 -- a document
	}
	want, err := os.ReadFile(file) // #nosec G304 -- of a test
	require.NoError(t, err)
	is, was := strings.Split(text, "\n"), strings.Split(string(want), "\n")
	for _, line := range was {
		if !slices.Contains(is, line) {
			t.Errorf("a row of %s is not so any more:\n%s", file, line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			t.Errorf("%s has no such row:\n%s", file, line)
		}
	}
}
