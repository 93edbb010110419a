package api_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/workflows"
)

// gadget is an owner that Drover does not have.
type gadget struct {
	domain.Identity `bson:",inline"`
	domain.Metadata `json:"metadata"`
	History         domain.History `json:"-" bson:"history"`
}

var gadgets = &domain.Noun{
	Kind: "gadgets", Title: "gadget", Collection: "gadgets", Names: []string{"gadget", "model"}, Parent: domain.Projects,
	New: func() domain.Object { return &gadget{} },
	Owner: &domain.OwnerKind{
		ID: "{project}/gadgets/{gadget}/{model}", Label: "gadget {gadget} {model} of {project}", Name: "{gadget}-{model}",
		Attributes: []domain.Attribute{{Name: "DroverProject", Value: "{project}"}, {Name: "DroverGadget", Value: "{gadget}/{model}"}},
		Operations: []domain.OwnerOperation{
			{Operation: domain.OpInstantiate, Word: "switch-on", Summary: "Switch a gadget on"},
			{Operation: domain.OpStop, Summary: "Stop a gadget"}, {Operation: domain.OpTerminate, Summary: "Switch a gadget off"},
		},
	},
}

func (*gadget) Noun() *domain.Noun       { return gadgets }
func (g *gadget) LocalName() string      { return g.Name + "/m1" }
func (g *gadget) Track() *domain.History { return &g.History }

func (g *gadget) Decide(_ domain.ContextStatus, op domain.Operation) (domain.Transition, error) {
	if op == domain.OpTerminate {
		return domain.Transition{}, fail.New(fail.Conflict, "gadget %q is not on", g.Name)
	}
	return domain.Transition{To: domain.Instantiated}, nil
}

// TestAnOwnerIsOneRegistration: an owner that nothing but its noun tells of has paths, operations, a status, an explanation,
// and workflows that are named and found by its names.
func TestAnOwnerIsOneRegistration(t *testing.T) {
	nouns, owners := domain.Nouns, domain.Owners
	t.Cleanup(func() { domain.Nouns, domain.Owners = nouns, owners })
	domain.Nouns, domain.Owners = append(slices.Clip(nouns), gadgets), append(slices.Clip(owners), gadgets)

	w := newRealWorld(t)
	furnish(t, w)
	g := &gadget{Identity: domain.Identity{Parent: "projects/proj"}, Metadata: domain.Metadata{Name: "fan"}, History: domain.NewHistory(now)}
	require.NoError(t, w.store.Create(t.Context(), g))
	const path, key = theProject + "/gadgets/fan/m1", domain.Key("projects/proj/gadgets/fan/m1")
	check(t, w.router, []call{
		{method: "POST", url: path + "/switch-on", status: http.StatusAccepted},
		{method: "POST", url: path + "/instantiate", status: http.StatusNotFound},
		{method: "POST", url: path + "/terminate", status: http.StatusConflict, contains: []string{`gadget "fan" is not on`}},
		{method: "POST", url: theProject + "/gadgets/none/m1/switch-on", status: http.StatusNotFound},
	})
	g.History.Append(domain.Instantiated, "7", 1, now)
	require.NoError(t, w.store.Replace(t.Context(), g))
	check(t, w.router, []call{
		{method: "GET", url: path + "/status?output=summary", status: http.StatusOK, contains: []string{`"name":"fan-m1"`, `"project":"proj"`, `"Instantiating"`}},
		{method: "GET", url: path + "/explain?output=json", status: http.StatusOK, contains: []string{`"resource":"projects/proj/gadgets/fan/m1"`}},
		{method: "POST", url: path + "/stop", status: http.StatusAccepted},
		{method: "GET", url: "/openapi.json", status: http.StatusOK, contains: []string{"/projects/{project}/gadgets/{gadget}/{model}/switch-on"}},
	})

	require.Equal(t, gadgets, domain.OwnerNoun(key))
	require.True(t, domain.IsOwner(key))
	s := domain.Scope{Owner: key, ContextID: "7", Operation: domain.OpInstantiate}
	require.Equal(t, "proj/gadgets/fan/m1/7/instantiate", workflows.OperationID(s))
	require.Equal(t, "instantiate gadget fan m1 of proj", workflows.Summary(s))
	require.Contains(t, workflows.SearchAttributes(), "DroverGadget")
	attributes := map[string]string{}
	for k, v := range workflows.OperationAttributes(s).GetUntypedValues() {
		attributes[k.GetName()] = v.(string)
	}
	require.Equal(t, map[string]string{
		"DroverProject": "proj", "DroverGadget": "fan/m1", "DroverContext": "7", "DroverOperation": "instantiate",
	}, attributes)
	require.Equal(t, s, workflows.ScopeOf(func(name string) string { return attributes[name] }))
}
