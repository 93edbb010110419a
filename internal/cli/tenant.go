package cli

import (
	"context"
	"fmt"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/service"
)

// listTenants prints tenants with where each of them stands.
func (s *session) listTenants(ctx context.Context, api *client.API, p *printer, list []domain.Object) error {
	type tenant struct {
		Name   string                `json:"name"`
		Status *service.TenantStatus `json:"status"`
	}
	all := []tenant{}
	for _, o := range list {
		status, err := api.TenantStatus(ctx, domain.KeyOf(o))
		if err != nil {
			return err
		}
		all = append(all, tenant{o.LocalName(), status})
	}
	if !p.people() {
		return p.value(s.Out, map[string]any{"items": all})
	}
	if len(all) == 0 {
		s.note("There is no tenant.")
		return nil
	}
	t := newTable(s.Out, "NAME", "CONNECTED", "WORKLOADS", "HELD", "MATCHES", "DUE")
	for _, one := range all {
		t.row(one.Name, fmt.Sprint(one.Status.Connected), fmt.Sprint(one.Status.Workloads), fmt.Sprint(one.Status.Held),
			dash(tally(one.Status.Matches)), fmt.Sprint(one.Status.Due))
	}
	return t.flush()
}
