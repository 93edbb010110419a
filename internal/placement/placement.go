// Package placement decides on which clusters an app runs: app intents, labels and the logical cloud's
// members in, targets with their reasons out. It is pure; what is known of clusters comes in as functions.
//
// The rules are EMCO's generic placement (orchestrator, ResolveClusters), with two gaps closed: a cluster
// outside the logical cloud is never taken for an anyOf, and of several candidates one that answers is
// preferred.
package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

// Input is what the placement of one app depends on.
type Input struct {
	App          string
	LogicalCloud string             // its name, for messages
	Intents      []domain.AppIntent // of this app; all of them hold together
	// Labelled gives the names of the provider's clusters that carry the label, in any order.
	Labelled func(provider, label string) []string
	// Member says whether a cluster belongs to the logical cloud.
	Member func(domain.ClusterName) bool
	// Reachable says whether a cluster answered when it was last seen. Nil means that all do.
	Reachable func(domain.ClusterName) bool
	// Fit says whether a cluster has what the app's hpa intents ask for. Nil means that there are none.
	Fit func(domain.ClusterName) Fit
	// Resident says that the app is on a cluster already and is to stay as long as that fits. Nil means that it is on none.
	Resident func(domain.ClusterName) bool
}

func (in *Input) resident(c domain.ClusterName) bool { return in.Resident != nil && in.Resident(c) }

// unfit says why a cluster is not for the app, "" when it is. Where the app is already, it stays although nobody knows.
func (in *Input) unfit(c domain.ClusterName) string {
	f := in.fit(c)
	if f.Unknown && in.resident(c) {
		return ""
	}
	return f.Why
}

// fit is Fit for who has none.
func (in *Input) fit(c domain.ClusterName) Fit {
	if in.Fit == nil {
		return Fit{}
	}
	return in.Fit(c)
}

// ErrOutside says that the logical cloud does not include clusters that intents ask for: as long as it does not, nothing of these is told but what
// the intents say themselves.
var ErrOutside = errors.New("outside of the logical cloud")

// Place resolves the intents to at least one target, each cluster once, in the order of plan.SortTargets.
//
// Every cluster of an allOf entry, named or labelled, is mandatory. An anyOf, nested or at the top, takes
// one of its clusters: only members of the logical cloud qualify; those that answer come first, of these the one on which the app is
// already (Resident), then the order of provider and name decides. Groups choose independently of each other, and a cluster that
// several of them chose is one target. A label that no cluster carries contributes nothing.
//
// With hpa intents a cluster qualifies that has what they ask for; of those that answer the one comes first on which the app is
// already, then the one that has most of what is not mandatory. A target says which were passed over.
//
// The error is Invalid, of ErrOutside, when a mandatory cluster or every candidate of an anyOf is outside the logical
// cloud, and Invalid when nothing at all was chosen. It is Malformed when a mandatory cluster, or none of an anyOf, has what hpa intents
// ask for.
func Place(in Input) ([]plan.Target, error) {
	var g groups
	for i := range in.Intents {
		g.add(in, in.Intents[i].Spec.Intent)
	}
	if err := g.checkMandatory(in); err != nil {
		return nil, err
	}
	if err := refuseUnfit(in, unique(g.mandatory), "each of these clusters is mandatory (allOf)"); err != nil {
		return nil, err
	}
	reasons, passed := map[domain.ClusterName]string{}, map[domain.ClusterName][]string{}
	for _, c := range g.mandatory {
		reasons[c] = "allOf"
	}
	for _, c := range g.choices {
		chosen, reason, over, err := choose(in, c, g.mandatory)
		if err != nil {
			return nil, err
		}
		if _, taken := reasons[chosen]; !taken {
			reasons[chosen] = reason
		}
		passed[chosen] = append(passed[chosen], over...)
	}
	if len(reasons) == 0 {
		return nil, nothingChosen(in, g)
	}
	targets := make([]plan.Target, 0, len(reasons))
	for c, reason := range reasons {
		targets = append(targets, plan.Target{ClusterName: c, Reason: reason, Passed: few(passed[c])})
	}
	plan.SortTargets(targets)
	return targets, nil
}

// groups is what intents ask for, with labels expanded.
type groups struct {
	mandatory []domain.ClusterName
	asked     []domain.Clusters // what intents say of these
	choices   []choice
	unmatched []domain.Clusters // labels that no cluster carries
}

// choice is an anyOf, of which one cluster is taken.
type choice struct {
	candidates []domain.ClusterName // in order, each once; at least one
	asked      []domain.Clusters    // what the intent says of them
}

func (g *groups) add(in Input, p domain.Placement) {
	for _, entry := range p.AllOf {
		if len(entry.AnyOf) > 0 {
			g.addChoice(in, entry.AnyOf)
			continue
		}
		g.mandatory = append(g.mandatory, g.expand(in, entry.Clusters)...)
		g.asked = append(g.asked, entry.Clusters)
	}
	g.addChoice(in, p.AnyOf)
}

func (g *groups) addChoice(in Input, anyOf []domain.Clusters) {
	var candidates []domain.ClusterName
	for _, c := range anyOf {
		candidates = append(candidates, g.expand(in, c)...)
	}
	if len(candidates) > 0 {
		g.choices = append(g.choices, choice{unique(candidates), anyOf})
	}
}

// expand gives the clusters that c names.
func (g *groups) expand(in Input, c domain.Clusters) []domain.ClusterName {
	if c.ClusterLabel == "" {
		return []domain.ClusterName{{Provider: c.ClusterProvider, Name: c.Cluster}}
	}
	names := in.Labelled(c.ClusterProvider, c.ClusterLabel)
	if len(names) == 0 {
		g.unmatched = append(g.unmatched, c)
	}
	clusters := make([]domain.ClusterName, 0, len(names))
	for _, name := range names {
		clusters = append(clusters, domain.ClusterName{Provider: c.ClusterProvider, Name: name})
	}
	return clusters
}

func (g *groups) checkMandatory(in Input) error {
	outside := slices.DeleteFunc(unique(g.mandatory), in.Member)
	if len(outside) == 0 {
		return nil
	}
	return fail.Wrap(ErrOutside, fail.Invalid,
		"The specified Logical Cloud doesn't provide the mandatory clusters: app %s: logical cloud %s does not include %s",
		in.App, in.LogicalCloud, in.called(outside, g.asked))
}

// called names clusters as intents ask for them, names before labels. Which clusters of a provider carry a label is not for everybody who may select by it.
func (in *Input) called(clusters []domain.ClusterName, asked []domain.Clusters) string {
	left := make(map[domain.ClusterName]bool, len(clusters))
	for _, c := range clusters {
		left[c] = true
	}
	var names []domain.ClusterName
	for _, a := range asked {
		if c := (domain.ClusterName{Provider: a.ClusterProvider, Name: a.Cluster}); a.ClusterLabel == "" && left[c] {
			names = append(names, c)
			delete(left, c)
		}
	}
	var texts []string
	for _, c := range unique(names) {
		texts = append(texts, c.String())
	}
	for _, a := range asked {
		if a.ClusterLabel == "" {
			continue
		}
		n := int64(0)
		for _, name := range in.Labelled(a.ClusterProvider, a.ClusterLabel) {
			if c := (domain.ClusterName{Provider: a.ClusterProvider, Name: name}); left[c] {
				delete(left, c)
				n++
			}
		}
		if n > 0 {
			texts = append(texts, fmt.Sprintf("%s with the label %s of cluster provider %s", count(n, "cluster"), a.ClusterLabel, a.ClusterProvider))
		}
	}
	return strings.Join(few(texts), ", ")
}

// choose takes one of the candidates of an anyOf; over are those that it has passed over, and why. That the app is on a mandatory cluster says
// nothing of a choice.
func choose(in Input, anyOf choice, mandatory []domain.ClusterName) (chosen domain.ClusterName, reason string, over []string, err error) {
	var members []domain.ClusterName
	for _, c := range anyOf.candidates {
		if in.Member(c) {
			members = append(members, c)
		}
	}
	if len(members) == 0 {
		return chosen, "", nil, fail.Wrap(ErrOutside, fail.Invalid,
			"app %s: logical cloud %s includes none of the clusters of anyOf: %s",
			in.App, in.LogicalCloud, in.called(anyOf.candidates, anyOf.asked))
	}
	var fit []domain.ClusterName
	scores := map[domain.ClusterName]int64{}
	for _, c := range members {
		if why := in.unfit(c); why != "" {
			over = append(over, fmt.Sprintf("%s: %s", c, why))
			continue
		}
		fit = append(fit, c)
		scores[c] = in.fit(c).Score
	}
	if len(fit) == 0 {
		return chosen, "", nil, refuseUnfit(in, members, "one of these clusters has to (anyOf)")
	}
	of := fmt.Sprint(len(fit))
	if len(over) > 0 {
		of = fmt.Sprintf("%d that fit of %d", len(fit), len(members))
	}
	answering := fit
	if in.Reachable != nil {
		if some := slices.DeleteFunc(slices.Clone(fit), func(c domain.ClusterName) bool { return !in.Reachable(c) }); len(some) > 0 {
			answering = some
		}
	}
	most := func(a, b domain.ClusterName) int { return cmp.Compare(scores[a], scores[b]) }
	best := slices.MaxFunc(answering, most)
	kept := slices.DeleteFunc(slices.Clone(answering), func(c domain.ClusterName) bool { return !in.resident(c) || slices.Contains(mandatory, c) })
	switch {
	case len(kept) > 0 && !in.resident(best):
		return slices.MaxFunc(kept, most), fmt.Sprintf("anyOf: it is there already, of %s", of), over, nil
	case best != answering[0]:
		return best, fmt.Sprintf("anyOf: most of what is preferred of %s", of), over, nil
	case best != fit[0]:
		return best, fmt.Sprintf("anyOf: first reachable of %s", of), over, nil
	default:
		return best, fmt.Sprintf("anyOf: first of %s", of), over, nil
	}
}

// refuseUnfit refuses clusters that do not have what hpa intents ask for, if there are any.
func refuseUnfit(in Input, clusters []domain.ClusterName, rule string) error {
	var unfit []string
	for _, c := range clusters {
		if why := in.unfit(c); why != "" {
			unfit = append(unfit, fmt.Sprintf("%s: %s", c, why))
		}
	}
	if len(unfit) == 0 {
		return nil
	}
	return fail.New(fail.Malformed, "app %s: hpa placement: %s, and does not have what is asked for: %s", in.App, rule, strings.Join(few(unfit), "; "))
}

// maxNamed bounds how many clusters are named with why they were not taken.
const maxNamed = 20

func few(texts []string) []string {
	if len(texts) <= maxNamed {
		return texts
	}
	return append(slices.Clone(texts[:maxNamed]), fmt.Sprintf("%d more", len(texts)-maxNamed))
}

func nothingChosen(in Input, g groups) error {
	const text = "No compatible clusters have been provided to the Deployment Intent Group"
	if len(g.unmatched) == 0 {
		return fail.New(fail.Invalid, "%s: app %s: no app intent names a cluster for it", text, in.App)
	}
	return fail.New(fail.Invalid, "%s: app %s: no cluster carries the label %s", text, in.App, strings.Join(g.labels(), " or "))
}

// Unmatched gives the labels that no cluster carries, and which therefore contribute nothing, as "label of cluster
// provider name".
func Unmatched(in Input) []string {
	var g groups
	for i := range in.Intents {
		g.add(in, in.Intents[i].Spec.Intent)
	}
	return g.labels()
}

func (g *groups) labels() []string {
	labels := make([]string, 0, len(g.unmatched))
	for _, c := range g.unmatched {
		labels = append(labels, fmt.Sprintf("%s of cluster provider %s", c.ClusterLabel, c.ClusterProvider))
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

// unique sorts clusters by provider and name and drops repetitions.
func unique(clusters []domain.ClusterName) []domain.ClusterName {
	sorted := slices.SortedFunc(slices.Values(clusters), func(a, b domain.ClusterName) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(sorted)
}

// Mandatory are the members of the logical cloud to which the app goes whatever is chosen (allOf), each once.
func Mandatory(in Input) []domain.ClusterName {
	var g groups
	for i := range in.Intents {
		g.add(in, in.Intents[i].Spec.Intent)
	}
	return slices.DeleteFunc(unique(g.mandatory), func(c domain.ClusterName) bool { return !in.Member(c) })
}

// Chooses says whether one of several clusters is taken for the app, or of those that a label may come to name (anyOf).
func Chooses(in Input) bool {
	return slices.ContainsFunc(in.Intents, func(i domain.AppIntent) bool {
		p := i.Spec.Intent
		return len(p.AnyOf) > 0 || slices.ContainsFunc(p.AllOf, func(entry domain.AllOf) bool { return len(entry.AnyOf) > 0 })
	})
}

// Candidates are the members of the logical cloud among the clusters that intents name, each once.
func Candidates(in Input) []domain.ClusterName {
	var g groups
	for i := range in.Intents {
		g.add(in, in.Intents[i].Spec.Intent)
	}
	all := slices.Clone(g.mandatory)
	for _, c := range g.choices {
		all = append(all, c.candidates...)
	}
	return slices.DeleteFunc(unique(all), func(c domain.ClusterName) bool { return !in.Member(c) })
}
