package workflows

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/outcome"
)

// Counts are numbers of resources by state.
type Counts map[domain.ResourceState]int

// String lists the states that have resources.
func (c Counts) String() string {
	var parts []string
	for _, s := range domain.ResourceStates {
		if c[s] != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c[s], s))
		}
	}
	return strings.Join(parts, ", ")
}

// Acceptance is the answer to AcceptUpdate.
type Acceptance struct {
	Warnings []string `json:"warnings,omitempty"`
	Revision int      `json:"revision,omitempty"` // of an operation that takes over
}

// OperationProgress is the root's answer to ProgressQuery.
type OperationProgress struct {
	Status domain.ContextStatus `json:"status"`
	Apps   []AppProgress        `json:"apps"`
}

// AppProgress is where one app stands over all its clusters, or over a batch of them.
type AppProgress struct {
	App      string `json:"app"`
	From     int    `json:"from,omitempty"` // of a batch
	Counts   Counts `json:"counts"`
	Clusters int    `json:"clusters"`
	Done     int    `json:"done"`             // clusters
	Retrying int    `json:"retrying"`         // clusters that do not answer
	Failed   int    `json:"failed,omitempty"` // clusters among Done on which not all came to be as planned
	Reason   string `json:"reason,omitempty"` // what an app waits for that is not started, or why it never will be
	// Unapplied is how many resources an operation that takes over has still to apply, or was refused.
	Unapplied int `json:"unapplied,omitempty"`
	// Quiet says of a batch that it goes on, and tells nothing until it needs its place no longer, see pace.
	Quiet bool `json:"quiet,omitempty"`
	// Lost is the number of clusters the workflow for which has ended without recording what it came to.
	Lost int `json:"lost,omitempty"`
}

// addLeaf counts what is known of one cluster.
func (p *AppProgress) addLeaf(in AppInput, l *leafState) {
	marks := domain.DecodeMarks(l.Marks)
	toPrune := in.tookOver() && marks.Has(domain.Mark.ToDelete)
	p.Counts = outcome.Rollup(p.Counts, marks.Count(!l.done || toPrune, l.Connectivity))
	if in.tookOver() && !in.Prune {
		p.Unapplied += unapplied(marks)
	}
	if l.lost {
		p.Lost++
	}
	switch {
	case l.done:
		p.Done++
		if in.tookOver() && !in.Prune {
			marks = ofFirstRound(marks)
		}
		if !outcome.Succeeded(in.Operation, marks) {
			p.Failed++
		}
	case l.Connectivity == domain.ConnectivityRetrying:
		p.Retrying++
	}
}

// ofFirstRound are the marks that say how a leaf has ended in the first round of an operation that takes over. What is to be pruned is the second
// round's: of what was sent without an answer the first one knows as little as before, and apps that need this one do not wait for that.
func ofFirstRound(marks domain.Marks) domain.Marks {
	return slices.DeleteFunc(slices.Clone(marks), domain.Mark.ToDelete)
}

// addBatch counts what a batch has counted.
func (p *AppProgress) addBatch(b *AppProgress) {
	p.Counts = outcome.Rollup(p.Counts, b.Counts)
	p.Unapplied += b.Unapplied
	p.Lost += b.Lost
	p.Done += b.Done
	p.Retrying += b.Retrying
	p.Failed += b.Failed
}

// unapplied counts what was to be applied and is not.
func unapplied(marks domain.Marks) (n int) {
	for _, m := range marks {
		if m.ToApply() || m.Failed() {
			n++
		}
	}
	return n
}

// AppDetail is an app's answer to ProgressQuery: its open clusters, or the ids of the workflows that have
// them when the app was split.
type AppDetail struct {
	Open    []ClusterProgress `json:"open,omitempty"`
	Batches []string          `json:"batches,omitempty"`
}

// ClusterProgress is where one app stands on one cluster.
type ClusterProgress struct {
	Cluster      domain.ClusterName  `json:"cluster"`
	Connectivity domain.Connectivity `json:"connectivity"`
	Marks        string              `json:"marks"`
	Error        string              `json:"error,omitempty"`
	Reason       string              `json:"reason,omitempty"` // what is waited for in the cluster
	Notes        []domain.Note       `json:"notes,omitempty"`  // on what outlives its deletion
	GaveUp       bool                `json:"gaveUp,omitempty"` // its activity has failed, and is not tried again
}

// Succeeded says whether all came to be on the cluster as the work was to make it.
func (p *ClusterProgress) Succeeded(in activities.LeafInput) bool {
	marks := p.round(in)
	if in.Prune {
		return !marks.Has(domain.Mark.ToDelete) && !marks.Failed()
	}
	return outcome.Succeeded(in.Operation, marks)
}

// Stopped says of work that has come to an end whether it was ended before its own: nothing has failed, and something is left to be done.
func (p *ClusterProgress) Stopped(in activities.LeafInput) bool {
	marks := p.round(in)
	left := !marks.Settled()
	if in.Prune {
		left = !marks.Pruned()
	}
	return left && !p.GaveUp && !marks.Failed()
}

// round are the marks of what the work's round is about.
func (p *ClusterProgress) round(in activities.LeafInput) domain.Marks {
	marks := domain.DecodeMarks(p.Marks)
	if !in.Prune && tookOver(in.Operation, in.Label) {
		return ofFirstRound(marks)
	}
	return marks
}

// table shows progress in the Web UI. (Fprintf to a builder would do, but workflowcheck holds every Fprintf
// to be output.)
func (p OperationProgress) table() string {
	var b strings.Builder
	b.WriteString(fmt.Sprintf("**%s**\n\n| app | clusters done | not answering | resources |\n|---|---|---|---|\n", p.Status)) //nolint:staticcheck // see above
	for _, a := range p.Apps {
		b.WriteString(fmt.Sprintf("| %s | %d of %d | %d | %s |\n", a.App, a.Done, a.Clusters, a.Retrying, a.Counts)) //nolint:staticcheck // see above
	}
	for _, a := range p.Apps {
		if a.Reason != "" {
			b.WriteString(fmt.Sprintf("\n%s: %s\n", a.App, a.Reason)) //nolint:staticcheck // see above
		}
	}
	return b.String()
}

// watchRows is how many clusters the table of a watch has.
const watchRows = 100

// cell makes text fit into a table.
var cell = strings.NewReplacer("|", "\\|", "\n", " ")

// watchTable shows a watch in the Web UI: how many clusters there are and are heard, those first that are not.
func watchTable(watched []Watched, heard activities.Heard) string {
	lost := map[domain.ClusterName]string{}
	for _, u := range heard.Reasons {
		lost[u.Cluster] = u.Reason
	}
	var b strings.Builder
	b.WriteString("| clusters | heard | not heard | just begun |\n|---|---|---|---|\n")
	begun := max(len(watched)-heard.Clusters-heard.Lost, 0)
	b.WriteString(fmt.Sprintf("| %d | %d | %d | %d |\n", len(watched), heard.Clusters, heard.Lost, begun)) //nolint:staticcheck // see above
	b.WriteString("\n| cluster | app contexts | not heard because |\n|---|---|---|\n")
	rows := 0
	for _, unheard := range []bool{true, false} {
		for _, w := range watched {
			reason, known := lost[w.Cluster]
			if known != unheard || rows == watchRows {
				continue
			}
			rows++
			b.WriteString(fmt.Sprintf("| %s | %d | %s |\n", w.Cluster, len(w.Contexts), cell.Replace(reason))) //nolint:staticcheck // see above
		}
	}
	if more := len(watched) - rows; more > 0 {
		b.WriteString(fmt.Sprintf("\nand %d more\n", more)) //nolint:staticcheck // see above
	}
	return b.String()
}
