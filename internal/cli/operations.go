package cli

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/operations"
)

// getOperations lists operations, or shows those that are named by their ids.
func (s *session) getOperations(ctx context.Context, f *getFlags, p *printer, ids []string) error {
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
	if c, err := s.current(); err == nil && c.Project != "" && !f.all && f.owner == "" && f.cluster == "" {
		filter.Set("project", c.Project)
	}
	var found []operations.Operation
	if len(ids) > 0 {
		for _, id := range ids {
			o, err := api.Operation(ctx, id)
			if err != nil {
				return err
			}
			found = append(found, *o)
		}
	} else {
		for o, err := range api.Operations(ctx, filter) {
			if err != nil {
				return err
			}
			found = append(found, o)
		}
	}
	return s.printOperations(p, found, len(ids) == 1)
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
	heads := []string{"ID", "OPERATION", "OF", "STATE", "BY", "STARTED", "TOOK"}
	if p.form == "wide" {
		heads = append(heads, "REASON")
	}
	t, now := newTable(s.Out, heads...), time.Now()
	for _, o := range found {
		took := age(now, o.Started)
		if o.Ended != nil {
			took = age(*o.Ended, o.Started)
		}
		row := []string{o.ID, or(o.Detail, o.Operation), string(o.Resource), string(o.State), dash(o.By), age(now, o.Started) + " ago", took}
		if p.form == "wide" {
			row = append(row, o.Reason)
		}
		t.row(row...)
	}
	return t.flush()
}
