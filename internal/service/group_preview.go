package service

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

// GroupPreview is what an instantiate of a deployment intent group would put where, as all that it is described by is now. Nothing of
// it is stored or done, and nothing that resources contain is shown.
type GroupPreview struct {
	Group    domain.Key     `json:"group"`              // its path below /v2
	Apps     []PreviewedApp `json:"apps"`               // in the order of the composite app; none as long as it has none
	Warnings []string       `json:"warnings,omitempty"` // what does not hold, or is still missing, as approve says it
}

// PreviewedApp is an app, the clusters to which it would go, and what is not the same on all of them.
type PreviewedApp struct {
	App       string             `json:"app"`       // its name
	Resources int                `json:"resources"` // how many there are, with those that only some clusters get
	Total     int                `json:"total"`     // how many there are on all clusters together: some may not get all of them
	Clusters  []PreviewedCluster `json:"clusters"`  // sorted by provider and name
	// Effects are what intents make of resources on most clusters: on those that Differences does not name.
	Effects []PreviewedResource `json:"effects,omitempty"`
	// Differences are what other clusters get otherwise; those for which the same holds are together.
	Differences []PreviewedDifference `json:"differences,omitempty"`
}

// PreviewedCluster is a cluster to which an app would go.
type PreviewedCluster struct {
	Cluster   string   `json:"cluster"`          // provider+cluster
	Placement string   `json:"placement"`        // why it is taken
	Passed    []string `json:"passed,omitempty"` // clusters that could have been taken in its place, and why they are not
}

// PreviewedDifference is what some clusters get otherwise than most.
type PreviewedDifference struct {
	Clusters  []string            `json:"clusters"`  // as provider+cluster
	Variants  int                 `json:"variants"`  // how many different things they get: as many as clusters where each has a value of its own
	Resources []PreviewedResource `json:"resources"` // those that differ
}

// PreviewedResource is a resource, and the intents that decide what clusters get of it.
type PreviewedResource struct {
	Resource  string   `json:"resource"`            // kind/name, with the namespace in between where the manifest has one
	Absent    bool     `json:"absent,omitempty"`    // these clusters do not get it, and others do
	Effects   []string `json:"effects,omitempty"`   // what intents make of it on these clusters, and which
	Elsewhere []string `json:"elsewhere,omitempty"` // what intents make of it on most clusters, and not on these
}

// PreviewGroup says what an instantiate would put where, as approve rehearses it. Errors are those of an instantiate: what cannot be
// rendered, placed or carried out.
func (l *Lifecycle) PreviewGroup(ctx context.Context, key domain.Key) (*GroupPreview, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Accept)
	defer cancel()
	o, err := l.store.Get(ctx, domain.DeploymentIntentGroups, key)
	if err != nil {
		return nil, err
	}
	if l.Rehearse == nil {
		return nil, fail.New(fail.Internal, "nobody here can render charts")
	}
	p, warnings, err := l.Rehearse(ctx, o.(*domain.DeploymentIntentGroup))
	if err != nil {
		return nil, err
	}
	out := &GroupPreview{Group: key, Apps: make([]PreviewedApp, 0, len(p.Apps)), Warnings: warnings}
	for i := range p.Apps {
		out.Apps = append(out.Apps, previewOf(&p.Apps[i]))
	}
	return out, nil
}

func previewOf(a *plan.App) PreviewedApp {
	out := PreviewedApp{App: a.Name, Resources: a.Wanted(), Total: a.Total(), Clusters: make([]PreviewedCluster, len(a.Targets))}
	for i, t := range a.Targets {
		out.Clusters[i] = PreviewedCluster{Cluster: t.String(), Placement: t.Reason, Passed: t.Passed}
	}
	for _, e := range a.Effects {
		name := called(&a.Resources[e.Resource])
		at := slices.IndexFunc(out.Effects, func(r PreviewedResource) bool { return r.Resource == name })
		if at < 0 {
			at = len(out.Effects)
			out.Effects = append(out.Effects, PreviewedResource{Resource: name})
		}
		out.Effects[at].Effects = append(out.Effects[at].Effects, e.String())
	}
	for _, o := range a.Otherwise() {
		d := PreviewedDifference{Variants: o.Variants}
		for _, c := range o.Clusters {
			d.Clusters = append(d.Clusters, c.String())
		}
		for _, r := range o.Resources {
			d.Resources = append(d.Resources, PreviewedResource{
				Resource: called(&a.Resources[r.Index]), Absent: r.Absent, Effects: saying(r.Effects), Elsewhere: saying(r.Elsewhere),
			})
		}
		out.Differences = append(out.Differences, d)
	}
	return out
}

func saying(effects []plan.Effect) (texts []string) {
	for _, e := range effects {
		texts = append(texts, e.String())
	}
	return texts
}

// called is a resource as users read it.
func called(r *plan.ResourceID) string {
	if r.Namespace == "" {
		return r.Kind + "/" + r.Name
	}
	return r.Kind + "/" + r.Namespace + "/" + r.Name
}

// maxDiffering bounds how many resources of an app approve names.
const maxDiffering = 5

// differing says in a line of each app that is not the same on all of its clusters what of it is not, and by which intents.
func differing(p *plan.Plan) (lines []string) {
	for i := range p.Apps {
		a := &p.Apps[i]
		clusters := 0
		var resources []string
		for _, o := range a.Otherwise() {
			clusters += len(o.Clusters)
			for _, r := range o.Resources {
				var by []string
				for _, e := range slices.Concat(r.Effects, r.Elsewhere) {
					if !slices.Contains(by, e.By) {
						by = append(by, e.By)
					}
				}
				text := fmt.Sprintf("%s by %s", called(&a.Resources[r.Index]), strings.Join(by, " and "))
				if !slices.Contains(resources, text) {
					resources = append(resources, text)
				}
			}
		}
		if clusters == 0 {
			continue
		}
		if more := len(resources) - maxDiffering; more > 0 {
			resources = append(resources[:maxDiffering], fmt.Sprintf("%d more", more))
		}
		lines = append(lines, fmt.Sprintf("app %q: %d of %d clusters get something otherwise than most (%s): GET preview says which",
			a.Name, clusters, len(a.Targets), strings.Join(resources, "; ")))
	}
	return lines
}
