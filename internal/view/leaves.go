package view

import (
	"cmp"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// Records is what is known of the leaves of an app context.
type Records struct {
	ContextID string
	Plan      *plan.Plan
	// Operation is the last one on the context, and Running says that it goes on.
	Operation domain.Operation
	Running   bool
	// Began is Scope.Began of its run, 0 where that is not known: a context may be terminated more than once.
	Began int64
	// Open are the leaves that are at work, as the running operation has them, and Leaves all records. Whoever reads
	// them asks for the open ones first: a leaf that ends in between is then in both, and its record is the later word.
	Open, Leaves []domain.Leaf
	// NotStarted are the apps that were not started because of others, and why.
	NotStarted map[string]string
}

// Words are the leaves that the operation has said something of, by their ids: as it has recorded them, or, where work
// goes on, as it has them.
func (r *Records) Words() map[string]domain.Leaf {
	words, _ := r.words()
	return words
}

// words are Words, and the records that earlier operations have left while one is running.
func (r *Records) words() (words, earlier map[string]domain.Leaf) {
	words, earlier = make(map[string]domain.Leaf, len(r.Open)+len(r.Leaves)), map[string]domain.Leaf{}
	for _, leaf := range r.Open {
		words[leaf.ID] = leaf
	}
	for _, leaf := range r.Leaves {
		if r.Running && (leaf.Operation != r.Operation || leaf.Turn.Began < r.Began) {
			earlier[leaf.ID] = leaf
			continue
		}
		if words[leaf.ID].Open && !domain.DecodeMarks(leaf.Marks).Settled() {
			continue // of an earlier step or round of the same work
		}
		words[leaf.ID] = leaf
	}
	return words, earlier
}

// Apps are the apps of the plan, and where each of them stands on each of its clusters.
func (r *Records) Apps() []App {
	words, earlier := r.words()
	apps := make([]App, 0, len(r.Plan.Apps))
	for _, a := range r.Plan.Apps {
		app := App{Name: a.Name, Resources: a.Resources, Hook: a.Hook, Expires: a.Expires, Clusters: make([]Cluster, 0, len(a.Targets))}
		for _, t := range a.Targets {
			c := r.cluster(&t, domain.LeafID(r.ContextID, a.Name, t.ClusterName), words, earlier)
			c.Reason = cmp.Or(r.NotStarted[a.Name], c.Reason)
			c.Variant, c.Effects = t.Variant, a.EffectsOn(&t)
			app.Clusters = append(app.Clusters, c)
		}
		apps = append(apps, app)
	}
	return apps
}

// cluster says what is known of one leaf: what the running operation or the last one recorded, else what
// a terminate has before it, else what earlier contexts left.
func (r *Records) cluster(t *plan.Target, id string, words, earlier map[string]domain.Leaf) Cluster {
	c := Cluster{ClusterName: t.ClusterName, Placement: t.Reason, Passed: t.Passed, InProgress: r.Running}
	leaf, ok := words[id]
	if ok {
		c.Connectivity, c.Marks = leaf.Connectivity, domain.DecodeMarks(leaf.Marks)
		c.Notes, c.LastError, c.Reason = leaf.Notes, leaf.LastError, leaf.Reason
		c.Warnings = r.warnings(t, &leaf)
		// What an update has to prune there is still before it when all is applied.
		c.InProgress = leaf.Open || r.Running && r.Operation != domain.OpTerminate && c.Marks.Has(domain.Mark.ToDelete)
		return c
	}
	c.Warnings = r.warnings(t, nil)
	if leaf, ok = earlier[id]; ok {
		c.Marks = domain.DecodeMarks(leaf.Marks)
	} else if t.Inherited != nil {
		c.Connectivity, c.Earlier, c.Marks = t.Inherited.Connectivity, true, domain.DecodeMarks(t.Inherited.Marks)
	}
	if r.Running && r.Operation == domain.OpTerminate && c.Marks != nil {
		c.Marks = c.Marks.Doom()
	}
	return c
}

// warnings are those about what is there. Once a terminate has begun they are what it has said itself, of what it has left: what was said before is about what goes.
func (r *Records) warnings(t *plan.Target, leaf *domain.Leaf) []domain.Note {
	switch {
	case r.Operation != domain.OpTerminate:
		return t.Warnings(leaf)
	case leaf == nil || cmp.Or(leaf.Operation, r.Operation) != domain.OpTerminate:
		return nil
	default:
		return leaf.Warnings
	}
}
