package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/service"
)

// tenancy is what there is of tenants beside the plain verbs.
func tenancy() []endpoint {
	get := func(noun *domain.Noun, verb door.Verb, path, summary, about string, out any, query []parameter, handle handler) endpoint {
		return endpoint{method: http.MethodGet, path: path, verb: verb, noun: noun, summary: summary, about: about, out: map[int]any{200: out}, query: query, handle: handle}
	}
	const aboutMatches = "In pages: the rule, the workload, what was made for them where, and why it is not as it is wanted."
	preview := func(noun *domain.Noun, whose string, query []parameter) endpoint {
		return endpoint{
			method: http.MethodPost, path: manyPath(noun) + "/preview", verb: door.Query, noun: noun, summary: "Say what a " + noun.Title + " would bring about",
			about: "What it would make, change and delete for the workloads of " + whose + " as they are now, and where, in pages. Where there is a rule of its name, that is replaced by it. Nothing is stored; it is refused where POST and PUT would refuse it.",
			in:    noun.New(), out: map[int]any{http.StatusOK: service.RulePreview{}}, query: query, handle: previewRule(noun),
		}
	}
	why := func(noun *domain.Noun, about string, query ...parameter) endpoint {
		return textual(get(noun, door.Explain, onePath(noun)+"/explain", "Say why what is wanted for a "+noun.Title+" is not made", about,
			explain.Explanation{}, append(query, explainQuery...), explainTenancy))
	}
	aboutWhy := "Which matches are not as they are wanted and why, and what rules say of workloads, expression by expression, with the value that each has seen."
	return []endpoint{
		why(domain.Tenants, "Which of its matches are not as they are wanted and why, what is held or left out, and whether it is connected."),
		why(domain.WorkloadRules, aboutWhy, parameter{name: "workload", filled: true, about: "what it says of the workload with this id; of those that come nearest when missing, where it applies to none"}),
		why(domain.OperatorRules, aboutWhy, parameter{name: "workload", filled: true, about: "what it says of the workloads with this id; of those that come nearest when missing, where it applies to none"}),
		why(domain.Workloads, aboutWhy, parameter{name: "rule", filled: true, about: "only what this rule says of it: the tenant's by its name, the operator's by its path, workload-rules/name"}),
		preview(domain.WorkloadRules, "the tenant", previewQuery),
		preview(domain.OperatorRules, "all tenants", append([]parameter{{name: "tenant", about: "only for this tenant", filled: true}}, previewQuery...)),
		get(domain.Tenants, door.Status, onePath(domain.Tenants)+"/status", "Show where a tenant stands",
			"Whether its cluster is connected, how many workloads and matches it has, and what was left out of what it says.", service.TenantStatus{}, nil, tenantStatus),
		{
			method: http.MethodPost, path: onePath(domain.Tenants) + "/release", verb: door.Release, noun: domain.Tenants,
			summary: "Release what is held of a tenant", about: "The workloads whose deletion spec.deleteGuard holds go, and what was made for them.",
			out: map[int]any{http.StatusNoContent: nil}, handle: release,
		},
		get(domain.Workloads, door.List, manyPath(domain.Workloads), "List the workloads of a tenant", "In pages, sorted by id, as the tenant's cluster last said them.",
			service.WorkloadList{}, workloadsQuery, listWorkloads),
		get(domain.Workloads, door.Get, onePath(domain.Workloads), "Show a workload of a tenant", "As the tenant's cluster last said it.", domain.Workload{}, nil, getWorkload),
		get(domain.Matches, door.List, manyPath(domain.Matches), "List the matches of a tenant", aboutMatches, service.MatchList{}, tenantMatchesQuery, listMatches),
		get(domain.Matches, door.List, onePath(domain.WorkloadRules)+"/"+domain.Matches.Collection, "List the matches of a workload rule", aboutMatches,
			service.MatchList{}, matchesQuery, listMatches),
		get(domain.Matches, door.List, onePath(domain.OperatorRules)+"/"+domain.Matches.Collection, "List the matches of a workload rule of the operator",
			aboutMatches+" Those with all tenants.", service.MatchList{}, matchesQuery, listMatches),
	}
}

var (
	workloadsQuery = []parameter{
		{name: "namespace", about: "only those in this namespace", filled: true}, {name: "name", about: "only those of this name", filled: true},
		{name: "node", about: "only those on this node", filled: true},
		{name: "held", about: "only those whose deletion is held, or is not", enum: truths},
		limitQuery, continueQuery,
	}
	previewQuery       = []parameter{{name: "workload", about: "only for the workload with this id, with the whole manifest", filled: true}, limitQuery, continueQuery}
	matchesQuery       = []parameter{{name: "workload", about: "only those of the workload with this id", filled: true}, limitQuery, continueQuery}
	tenantMatchesQuery = append([]parameter{{name: "rule", filled: true, about: "only those of this rule: the tenant's by its name, the operator's by its path, workload-rules/name"}}, matchesQuery...)
)

func previewRule(noun *domain.Noun) handler {
	return func(c echo.Context, s door.Service, on *door.Request) (reply, error) {
		rule, _, err := receive(c, resource{noun: noun}, on.Parent)
		if err != nil {
			return nil, err
		}
		p, err := s.Preview(c.Request().Context(), rule, c.QueryParams())
		return asJSON(http.StatusOK, p), err
	}
}

func tenantStatus(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	status, err := s.TenantStatus(c.Request().Context(), on.Name)
	return asJSON(http.StatusOK, status), err
}

func release(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	return noContent(http.StatusNoContent), s.Release(c.Request().Context(), on.Name)
}

func listWorkloads(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	list, err := s.Workloads(c.Request().Context(), on.Parent.Name(), c.QueryParams())
	return asJSON(http.StatusOK, list), err
}

func getWorkload(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	w, err := s.Workload(c.Request().Context(), on.Parent.Name(), on.Name)
	return asJSON(http.StatusOK, w), err
}

func listMatches(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	list, err := s.MatchesOf(c.Request().Context(), on.Parent, c.QueryParams())
	return asJSON(http.StatusOK, list), err
}
