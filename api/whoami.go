package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/service"
)

// everyNoun stands for all nouns.
const everyNoun = "*"

// whoamis is the endpoint of who asks.
func (e *edge) whoamis() endpoint {
	return endpoint{
		method: http.MethodGet, path: manyPath(domain.Whoami), verb: door.Get, noun: domain.Whoami,
		summary: "Say who asks, and what that caller may do",
		about: "Everybody who is known may ask. Without parameters it says who asks, and by its id which installation answers. With any it says what may be done in a project, in a cluster " +
			"provider, or else everywhere; by the same rules by which requests are let in.",
		out: map[int]any{http.StatusOK: service.Whoami{}}, handle: e.whoami,
		query: []parameter{
			{name: "noun", about: "of this noun, such as deployment-intent-groups; * for all", repeats: true},
			{name: "verb", about: "only these verbs, such as approve; with nouns, the answer says why one may not", repeats: true},
			{name: "project", about: "in this project"},
			{name: "clusterProvider", about: "in this cluster provider"},
		},
	}
}

// verbs are what can be asked for, by noun.
type verbs map[*domain.Noun][]string

// verbsOf are those of endpoints, sorted, with those that no request has by itself.
func verbsOf(endpoints []endpoint) verbs {
	all := verbs{domain.ClustersNoun: {rights.Use, rights.Download}}
	add := func(n *domain.Noun, v door.Verb) {
		if !slices.Contains(all[n], string(v)) {
			all[n] = append(all[n], string(v))
		}
	}
	for _, p := range endpoints {
		add(p.noun, p.verb)
		if p.watch != nil {
			add(p.noun, door.Watch)
		}
	}
	for _, of := range all {
		slices.Sort(of)
	}
	return all
}

// of are those of a noun. What no endpoint here is about, such as metrics, may have any.
func (v verbs) of(n *domain.Noun) []string {
	if known := v[n]; known != nil {
		return known
	}
	return rights.Verbs()
}

// whoami answers with who asks, and what that caller may do.
func (e *edge) whoami(c echo.Context, _ door.Service, _ *door.Request) (reply, error) {
	ctx := c.Request().Context()
	answer, err := identityOf(ctx)
	if err != nil {
		return nil, err
	}
	answer.Installation = e.installation
	query := c.QueryParams()
	if len(query) == 0 {
		return asJSON(http.StatusOK, answer), nil
	}
	var p fail.Problems
	scope := scopeIn(&p, query)
	nouns := nounsIn(&p, query["noun"], scope)
	wanted := e.verbsIn(&p, query["verb"], query["noun"], nouns)
	if err := p.Err(); err != nil {
		return nil, err
	}
	answer.Scope = string(scope)
	named := !all(query["noun"])
	for _, n := range nouns {
		right := rightOf(rights.Of(ctx), n, scope, e.verbs.of(n), wanted, named && len(wanted) > 0)
		if named || len(right.May) > 0 {
			answer.Rights = append(answer.Rights, right)
		}
	}
	return asJSON(http.StatusOK, answer), nil
}

// identityOf is who asks.
func identityOf(ctx context.Context) (*service.Whoami, error) {
	who, err := door.Who(ctx)
	if err != nil {
		return nil, err
	}
	w := &service.Whoami{Kind: string(who.Kind), Name: who.Name, Groups: who.Groups, By: who.By}
	if !who.Expires.IsZero() {
		until := who.Expires.UTC()
		w.Expires = &until
	}
	if who.Kind == caller.Open {
		w.Name = ""
	}
	return w, nil
}

// scopeIn is the scope that a query names, "" for the fleet.
func scopeIn(p *fail.Problems, query url.Values) (scope domain.Key) {
	for _, n := range []*domain.Noun{domain.Projects, domain.ClusterProviders} {
		called := n.Names[0]
		if !query.Has(called) {
			continue
		}
		if scope != "" {
			p.Add(called, "is given beside project: rights are told of one of them at a time")
		}
		domain.CheckCalled(p, called, query.Get(called))
		scope = domain.Join(n.Collection, query.Get(called))
	}
	return scope
}

// all says whether those that are named are all that there are.
func all(named []string) bool { return len(named) == 0 || slices.Contains(named, everyNoun) }

// mostNamed bounds how many nouns, and verbs, a query names.
const mostNamed = 100

// few refuses to look at more.
func few(p *fail.Problems, called string, named []string) bool {
	if len(named) > mostNamed {
		p.Add(called, "is given %d times, and may be %d times", len(named), mostNamed)
	}
	return len(named) <= mostNamed
}

// nounsIn are the nouns that a query names. All are those that lie in the scope.
func nounsIn(p *fail.Problems, named []string, scope domain.Key) (found []*domain.Noun) {
	if !few(p, "noun", named) {
		return nil
	}
	if all(named) {
		for _, n := range rights.Nouns() {
			if rights.Lies(n, scope) {
				found = append(found, n)
			}
		}
		return found
	}
	for _, word := range named {
		i := slices.IndexFunc(rights.Nouns(), func(n *domain.Noun) bool { return n.Kind == word })
		if i < 0 {
			var kinds []string
			for _, n := range rights.Nouns() {
				kinds = append(kinds, n.Kind)
			}
			p.Add("noun", "%q is no noun; there are %s", cut(word, maxWarning), strings.Join(kinds, ", "))
			continue
		}
		n := rights.Nouns()[i]
		if !rights.Lies(n, scope) {
			p.Add("noun", "%s do not lie in %s; leave that out", n.Kind, scope)
		}
		if !slices.Contains(found, n) {
			found = append(found, n)
		}
	}
	return found
}

// verbsIn are the verbs that a query names. Those of nouns that are named must be theirs.
func (e *edge) verbsIn(p *fail.Problems, named, of []string, nouns []*domain.Noun) (found []string) {
	if !few(p, "verb", named) {
		return nil
	}
	for _, word := range named {
		if !slices.Contains(rights.Verbs(), word) {
			p.Add("verb", "%q is no verb; there are %s", cut(word, maxWarning), strings.Join(rights.Verbs(), ", "))
			continue
		}
		if !slices.Contains(found, word) {
			found = append(found, word)
		}
		if all(of) {
			continue
		}
		for _, n := range nouns {
			if has := e.verbs.of(n); !slices.Contains(has, word) {
				p.Add("verb", "nobody can %s %s; what can be done is %s", word, n.Kind, strings.Join(has, ", "))
			}
		}
	}
	return found
}

// rightOf says which verbs of a noun are allowed in a scope, of those that are wanted, all when none is; and why others are not.
func rightOf(granted *rights.Granted, n *domain.Noun, scope domain.Key, has, wanted []string, why bool) service.Right {
	right := service.Right{Noun: n.Kind, May: []string{}}
	for _, verb := range has {
		if len(wanted) > 0 && !slices.Contains(wanted, verb) {
			continue
		}
		asked := rights.Request{Verb: verb, Noun: n, Key: scope}
		if n.Bounds && (verb == string(door.Create) || verb == string(door.List)) {
			asked.Key = "" // a project is made, and found, in the fleet
		}
		switch {
		case granted.Decide(asked) == rights.Allowed:
			right.May = append(right.May, verb)
		case why:
			err := granted.Refusal(asked)
			right.MayNot = append(right.MayNot, service.Denied{Verb: verb, Kind: fail.KindOf(err), Why: fail.TextOf(err)})
		}
	}
	return right
}
