package cli

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// selection is what is meant by a noun and names: those of its documents whose keys have these names.
type selection struct {
	noun  *domain.Noun
	fixed map[string]string // by what nouns call them: "project"
}

// item is one of what was selected.
type item struct {
	key    domain.Key
	object any
	status any // where it stands, nil where that is not known
}

// where are the flags that say below what a command looks.
type where struct {
	in  string
	all bool
}

// given says of a name whether the command line has it.
func (s *session) given(w *where) func(called string) bool {
	project := ""
	if c, err := s.current(); err == nil {
		project = c.Project
	}
	return func(called string) bool { return called == "project" && project != "" && !w.all }
}

// choose makes the selection of a noun and a name ("" for all). A name is the last parts of what a key is made of, with slashes
// between: sink, compositevfw/v1/sink, or the whole path projects/…; provider+cluster is as good as provider/cluster.
func (s *session) choose(n *domain.Noun, name string, w *where) (*selection, error) {
	x := &selection{noun: n, fixed: map[string]string{}}
	all := names(n)
	if name != "" {
		if err := x.fix(n, all, name); err != nil {
			return nil, err
		}
	}
	if w.in != "" {
		if n.Parent == nil {
			return nil, usage("--in says nothing of %s, which is at the top", n.Kind)
		}
		if err := x.fix(n.Parent, names(n.Parent), w.in); err != nil {
			return nil, err
		}
	}
	if n != domain.Projects && slices.Contains(all, "project") && x.fixed["project"] == "" && !w.all { // of projects themselves it says nothing
		c, err := s.current()
		if err != nil {
			return nil, err
		}
		if c.Project != "" {
			x.fixed["project"] = c.Project
		}
	}
	return x, nil
}

// fix takes the names out of a text.
func (x *selection) fix(n *domain.Noun, all []string, text string) error {
	path := strings.Trim(strings.TrimPrefix(text, "/v2"), "/")
	found, ok := n.Split(domain.Key(path))
	if !ok {
		parts := strings.Split(strings.ReplaceAll(path, "+", "/"), "/")
		if len(parts) > len(all) {
			return usage("%q has more parts than the name of %s, which is %s", text, aOf(n), strings.Join(kebabs(all), "/"))
		}
		// Of an own name of several parts the first one alone will do: composite-app without its version.
		tail := all[len(all)-len(parts):]
		if len(parts) < len(n.Names) {
			tail = all[len(all)-len(n.Names):][:len(parts)]
		}
		found = map[string]string{}
		for i, part := range parts {
			found[tail[i]] = part
		}
	}
	for called, name := range found {
		var p fail.Problems
		if domain.CheckCalled(&p, called, name); p.Err() != nil {
			return usage("%q is no name of %s", text, aOf(n))
		}
		if old := x.fixed[called]; old != "" && old != name {
			return usage("%s is given twice: %s and %s", kebab(called), old, name)
		}
		x.fixed[called] = name
	}
	return nil
}

// one says whether the selection is of one key.
func (x *selection) one() (domain.Key, bool) { return x.noun.Key(x.fixed) }

// free are the names that are not given, in order.
func (x *selection) free() []string {
	return slices.DeleteFunc(names(x.noun), func(called string) bool { return x.fixed[called] != "" })
}

// below is the key of the deepest document above that is known by the names that are given.
func (x *selection) below() (*domain.Noun, domain.Key) {
	var last *domain.Noun
	var key domain.Key
	for _, level := range x.noun.Lineage()[:len(x.noun.Lineage())-1] {
		k, ok := level.Key(x.fixed)
		if !ok {
			break
		}
		last, key = level, k
	}
	return last, key
}

// fits says whether a key has the names that are given.
func (x *selection) fits(n *domain.Noun, key domain.Key) bool {
	found, ok := n.Split(key)
	if !ok {
		return false
	}
	for called, name := range x.fixed {
		if has, there := found[called]; there && has != name {
			return false
		}
	}
	return true
}

// at bounds how many requests a walk makes at a time.
const at = 8

// find reads what is selected, sorted by key as the API does. What is named in full and not there is NotFound; a name alone that
// nothing has is too. Where some of what is selected, or of what it lies in, cannot be read, the rest comes with a client.LeftOut.
func (s *session) find(ctx context.Context, api *client.API, x *selection) ([]item, error) {
	if key, ok := x.one(); ok && x.noun.New != nil && x.noun != domain.DeploymentIntentGroups && x.noun != domain.ClustersNoun {
		o, err := api.Get(ctx, x.noun, key)
		if err != nil {
			return nil, err
		}
		return []item{{key: key, object: o}}, nil
	}
	levels := x.noun.Lineage()
	parents := []domain.Key{""}
	if x.noun == domain.DeploymentIntentGroups { // one list has them all
		_, below := x.below()
		parents, levels = []domain.Key{below}, levels[len(levels)-1:]
	}
	var left leftOut
	for _, level := range levels[:len(levels)-1] {
		next, err := s.children(ctx, api, x, level, parents)
		if err = left.keep(err); err != nil {
			return nil, err
		}
		parents = next
	}
	found := make([][]item, len(parents))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(at)
	for i, parent := range parents {
		g.Go(func() error {
			list, err := listed(ctx, api, x, parent)
			if fail.Is(err, fail.NotFound) && len(parents) > 1 { // gone meanwhile
				return nil
			}
			found[i] = list
			return left.keep(err)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(slices.Concat(found...), func(one item) bool { return !x.fits(x.noun, one.key) })
	if len(all) == 0 && x.fixed[x.noun.Names[0]] != "" && left.first == nil {
		return nil, fail.New(fail.NotFound, "%s %q not found", x.noun.Title, x.name())
	}
	return all, left.first
}

// leftOut is the first error of lists that are not whole.
type leftOut struct {
	mu    sync.Mutex
	first error
}

// keep keeps an error that comes with the rest of a list, and gives back others.
func (l *leftOut) keep(err error) error {
	var some *client.LeftOut
	if !errors.As(err, &some) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first = cmp.Or(l.first, err)
	return nil
}

// name is what is given of the selection's own name and of those above.
func (x *selection) name() string {
	var parts []string
	for _, called := range names(x.noun) {
		if x.fixed[called] != "" {
			parts = append(parts, x.fixed[called])
		}
	}
	return strings.Join(parts, "/")
}

// children are the keys of a level below parents.
func (s *session) children(ctx context.Context, api *client.API, x *selection, level *domain.Noun, parents []domain.Key) ([]domain.Key, error) {
	if known(level, x.fixed) {
		next := make([]domain.Key, 0, len(parents))
		for _, p := range parents {
			k := p.Child(level.Collection)
			for _, called := range level.Names {
				k = k.Child(x.fixed[called])
			}
			next = append(next, k)
		}
		return next, nil
	}
	found := make([][]domain.Key, len(parents))
	var left leftOut
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(at)
	for i, parent := range parents {
		g.Go(func() error {
			list, err := api.List(ctx, level, parent)
			if fail.Is(err, fail.NotFound) && len(parents) > 1 {
				return nil
			}
			for _, o := range list {
				if key := domain.KeyOf(o); x.fits(level, key) {
					found[i] = append(found[i], key)
				}
			}
			return left.keep(err)
		})
	}
	err := g.Wait()
	return slices.Concat(found...), cmp.Or(err, left.first)
}

func known(level *domain.Noun, fixed map[string]string) bool {
	return !slices.ContainsFunc(level.Names, func(called string) bool { return fixed[called] == "" })
}

// listed reads a list below a parent, with where each one stands where the API tells it.
func listed(ctx context.Context, api *client.API, x *selection, parent domain.Key) ([]item, error) {
	var all []item
	switch x.noun {
	case domain.DeploymentIntentGroups:
		for g, err := range api.Groups(ctx, parent) {
			if err != nil {
				return nil, err
			}
			g.Parent, _ = domain.Cut(x.noun, g.Resource)
			all = append(all, item{g.Resource, g.DeploymentIntentGroup, g.Status})
		}
		return all, nil
	case domain.ClustersNoun:
		for c, err := range api.Clusters(ctx, parent) {
			if err != nil {
				return nil, err
			}
			c.Parent = parent
			all = append(all, item{c.Resource, c.Cluster, c.Status})
		}
		return all, nil
	case domain.Workloads:
		for w, err := range api.Workloads(ctx, parent, nil) {
			if err != nil {
				return nil, err
			}
			all = append(all, item{parent.Child(domain.Workloads.Collection, url.PathEscape(w.ID)), w, nil})
		}
		return all, nil
	case domain.Matches:
		for m, err := range api.Matches(ctx, parent, nil) {
			if err != nil {
				return nil, err
			}
			all = append(all, item{parent.Child(domain.Matches.Collection, m.Rule.Name()+":"+m.Workload), m, nil})
		}
		return all, nil
	}
	read := func() ([]domain.Object, error) { return api.List(ctx, x.noun, parent) }
	if x.noun == domain.DeploymentIntents { // whose list has no names
		read = func() ([]domain.Object, error) { return api.Intents(ctx, parent) }
	}
	list, err := read()
	for _, o := range list {
		all = append(all, item{domain.KeyOf(o), o, nil})
	}
	return all, err
}

// unnamed refuses an empty name, such as that of a variable that is not set: it would mean whatever there is, and of one alone that one.
func unnamed(n *domain.Noun, names ...string) error {
	if slices.Contains(names, "") {
		return usage("the name of %s is empty", aOf(n))
	}
	return nil
}

// pick is the one of a noun and a name that is there: what is named in part must be unambiguous.
func (s *session) pick(ctx context.Context, api *client.API, n *domain.Noun, name string, w *where) (domain.Key, error) {
	if err := unnamed(n, name); err != nil {
		return "", err
	}
	x, err := s.choose(n, name, w)
	if err != nil {
		return "", err
	}
	if key, ok := x.one(); ok {
		return key, nil
	}
	found, err := s.find(ctx, api, x)
	if err != nil {
		return "", err
	}
	if len(found) > 1 {
		return "", ambiguous(name, found)
	}
	return found[0].key, nil
}

// ambiguous refuses a name that several have, and names the first of them.
func ambiguous(name string, found []item) error {
	var keys []string
	for _, one := range found[:min(len(found), 5)] {
		keys = append(keys, "  "+string(one.key))
	}
	return usage("%q may be any of %d:\n%s", name, len(found), strings.Join(keys, "\n"))
}
