package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/operations"
)

// getOperations lists operations, or shows those that are named by their ids.
func (s *session) getOperations(ctx context.Context, f *getFlags, p *printer, ids []string) error {
	if len(ids) > 0 && f.cluster+f.state+f.since+f.kind+f.owner != "" {
		return usage("--cluster, --state, --since, --kind and --owner choose among all operations, and %s is named", ids[0])
	}
	api, err := s.api()
	if err != nil {
		return err
	}
	cluster := strings.Replace(f.cluster, "/", "+", 1)
	if cluster != "" && !strings.Contains(cluster, "+") { // a name, where only one provider has it
		key, err := s.pick(ctx, api, domain.ClustersNoun, cluster, &where{})
		if err != nil {
			return err
		}
		provider, name := domain.Cut(domain.ClustersNoun, key)
		cluster = domain.ClusterName{Provider: provider.Name(), Name: name}.String()
	}
	filter := url.Values{}
	for name, value := range map[string]string{
		"cluster": cluster, "state": f.state, "since": f.since, "kind": f.kind,
		"owner": strings.Trim(f.owner, "/"),
	} {
		if value != "" {
			filter.Set(name, value)
		}
	}
	switch c, err := s.current(); { // a cluster's are looked for in all projects, unless one is asked for
	case f.all || f.owner != "" || err != nil:
	case s.flags.project != "":
		filter.Set("project", s.flags.project)
	case f.cluster == "" && c.Project != "":
		filter.Set("project", c.Project)
	}
	read := func() (found []operations.Operation, err error) {
		for _, id := range ids {
			o, err := api.Operation(ctx, id)
			if err != nil {
				return nil, err
			}
			found = append(found, *o)
		}
		if len(ids) > 0 {
			return found, nil
		}
		for o, err := range api.Operations(ctx, filter) {
			if err != nil {
				return nil, err
			}
			found = append(found, o)
		}
		return found, nil
	}
	if f.watch {
		return s.watchOperations(ctx, p, read)
	}
	found, err := read()
	if err != nil {
		return err
	}
	return s.printOperations(p, found, len(ids) == 1)
}

// watchOperations prints the operations that there are, the oldest first, and then those that have begun or stand otherwise than before.
func (s *session) watchOperations(ctx context.Context, p *printer, read func() ([]operations.Operation, error)) error {
	t, before := operationsTable(s.Out, p), map[string]string{}
	return s.again(ctx, func() error {
		found, err := read()
		if err != nil {
			return err
		}
		last := before
		before = map[string]string{}
		for _, o := range slices.Backward(found) {
			state, err := json.Marshal(o)
			if err != nil {
				return fmt.Errorf("encode: %w", err)
			}
			run := o.ID
			if o.Workflow != nil {
				run = o.Workflow.RunID
			}
			before[run] = string(state)
			if last[run] == string(state) {
				continue
			}
			switch {
			case p.people():
				t.row(operationsRow(p, o, time.Now())...)
			case p.form == "name":
				fmt.Fprintln(s.Out, "operations/"+o.ID)
			default:
				if p.form == "yaml" {
					fmt.Fprintln(s.Out, "---")
				}
				if err := p.value(s.Out, o); err != nil {
					return err
				}
			}
		}
		if p.people() && (len(t.rows) > 0 || !t.begun) {
			return t.flush()
		}
		return nil
	})
}

func (s *session) printOperations(p *printer, found []operations.Operation, single bool) error {
	switch {
	case p.form == "name":
		for _, o := range found {
			if _, err := s.Out.Write([]byte("operations/" + o.ID + "\n")); err != nil {
				return err
			}
		}
		return nil
	case !p.people() && single:
		return p.value(s.Out, found[0])
	case !p.people():
		if found == nil {
			found = []operations.Operation{}
		}
		return p.value(s.Out, map[string]any{"items": found})
	case len(found) == 0:
		s.note("There is no operation.")
		return nil
	}
	t, now := operationsTable(s.Out, p), time.Now()
	for _, o := range found {
		t.row(operationsRow(p, o, now)...)
	}
	return t.flush()
}

func operationsTable(out io.Writer, p *printer) *table {
	heads := []string{"ID", "OPERATION", "OF", "STATE", "BY", "STARTED", "TOOK"}
	if p.form == "wide" {
		heads = append(heads, "REASON")
	}
	return newTable(out, heads...)
}

func operationsRow(p *printer, o operations.Operation, now time.Time) []string {
	took := age(now, o.Started)
	if o.Ended != nil {
		took = age(*o.Ended, o.Started)
	}
	row := []string{o.ID, or(o.Detail, o.Operation), string(o.Resource), string(o.State), dash(o.By), age(now, o.Started) + " ago", took}
	if p.form == "wide" {
		row = append(row, o.Reason)
	}
	return row
}
