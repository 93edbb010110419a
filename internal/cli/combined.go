package cli

import (
	"context"
	"fmt"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
)

// showCombined shows the tables, and fails when some could not be made, of which forms for programs have the first on stderr. A value that could not be told
// fails nothing: it is one of what clusters report.
func (s *session) showCombined(p *printer, list *combined.List) error {
	show := s.printCombined
	if !p.people() {
		show = func(list *combined.List) error { return p.value(s.Out, list) }
	}
	if err := show(list); err != nil {
		return err
	}
	var missing []*combine.Result
	for _, one := range list.Items {
		for _, r := range one.Results {
			if len(r.Errors) > 0 {
				missing = append(missing, r)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if !p.people() { // who reads a path of the document, or pipes it, sees no errors in it
		first := missing[0]
		fmt.Fprintf(s.Err, "%s could not be made; %s: %s\n", counted(len(missing), "table"), printable(first.Name), printable(first.Errors[0]))
	}
	return errSaid{exitFailed}
}

// printCombined prints the tables of each object.
func (s *session) printCombined(list *combined.List) error {
	for _, one := range list.Items {
		fmt.Fprintf(s.Out, "%s (reported by %d of %s, %d of them not heard now)\n",
			printable(titleOf(&one.Metadata)), one.Inputs.Reported, clustersOf(one.Inputs.Clusters), one.Inputs.Stale)
		for _, r := range one.Results {
			if err := s.printResult(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// whyNoTables says why a group has none; filtered says that some were asked for.
func whyNoTables(ctx context.Context, api *client.API, group domain.Key, filtered bool) string {
	if d, err := api.Status(ctx, group, summary); err == nil && (d.Status == "" || d.Status.Over()) {
		return "The group has nothing in clusters, so that there are no tables."
	}
	if filtered {
		return "No object and collector that are asked for have a table."
	}
	return "No status intent of the group names a status collector for an object that it has."
}

// titleOf is such as "web/deployments.apps/default/web", and "web/apps/web" of all objects of an app together.
func titleOf(m *combined.Metadata) string {
	label := func(name string) string { // where that is cut, the annotation is whole
		name = "status.kubestellar.io/" + name
		return or(m.Annotations[name], m.Labels[name])
	}
	resource := label("resource")
	if group := label("api-group"); group != "" && group != combined.TogetherGroup {
		resource += "." + group
	}
	title := m.Annotations["drover.io/app"]
	for _, part := range []string{resource, label("namespace"), label("name")} {
		if part != "" {
			title += "/" + part
		}
	}
	return title
}

func (s *session) printResult(r *combine.Result) error {
	fmt.Fprintf(s.Out, "\n%s\n", printable(r.Name))
	s.warn(r.Warnings)
	for _, e := range r.Errors {
		fmt.Fprintf(s.Out, "  %s\n", printable(e))
	}
	if len(r.Errors) > 0 {
		return nil
	}
	heads := make([]string, len(r.ColumnNames))
	for i, name := range r.ColumnNames {
		heads[i] = printable(name)
	}
	t := newTable(s.Out, heads...)
	for _, row := range r.Rows {
		cells := make([]string, len(row.Columns))
		for i, c := range row.Columns {
			cells[i] = cellText(c)
		}
		t.row(cells...)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if r.Truncated {
		fmt.Fprintf(s.Out, "and %s\n", counted(r.TotalRows-len(r.Rows), "more row"))
	}
	for _, e := range r.AggregationErrors {
		fmt.Fprintf(s.Out, "%s: %s\n", printable(e.ColumnName), printable(e.Error))
	}
	s.printRowErrors(r)
	fmt.Fprintln(s.Out)
	return nil
}

// printRowErrors says which values a table lacks, and why: the API lists some of each column.
func (s *session) printRowErrors(r *combine.Result) {
	if r.TotalRowErrors == 0 {
		return
	}
	fmt.Fprintf(s.Out, "%s could not be told:\n", counted(r.TotalRowErrors, "value"))
	for _, e := range r.RowErrors {
		row := e.WEC.ClusterID
		if e.Object != "" { // in a table of several
			row = e.Object + " on " + row
		}
		fmt.Fprintf(s.Out, "  %s, %s: %s\n", printable(row), printable(or(e.ColumnName, "the filter")), printable(e.Error))
	}
	if more := r.TotalRowErrors - len(r.RowErrors); more > 0 {
		fmt.Fprintf(s.Out, "  and %d more\n", more)
	}
}

// cellText is a cell for people.
func cellText(c combine.Cell) string {
	switch {
	case c.String != nil:
		return *c.String
	case c.Float != nil:
		return *c.Float
	case c.Bool != nil:
		return fmt.Sprint(*c.Bool)
	case c.Object != nil:
		return string(c.Object)
	case c.Array != nil:
		return string(c.Array)
	default:
		return "-"
	}
}
