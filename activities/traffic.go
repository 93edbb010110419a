package activities

import (
	"context"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/vary"
)

// Opener opens what was sealed for the document with the key aad.
type Opener interface {
	Open(aad string, s domain.Sealed) ([]byte, error)
}

// readDTC reads a traffic group intent.
func (l *Control) readDTC(ctx context.Context, w *wanted, intent string) ([]vary.Intent, error) {
	key := domain.KeyOf(w.group).Child(domain.TrafficGroupIntents.Collection, intent)
	if _, err := l.Store.Get(ctx, domain.TrafficGroupIntents, key); err != nil {
		return nil, err
	}
	servers, err := made[*domain.InboundServerIntent](l.Store.List(ctx, domain.InboundServerIntents, key))
	if err != nil {
		return nil, err
	}
	clients, err := made[*domain.InboundClientsIntent](l.Store.ListUnder(ctx, domain.InboundClientsIntents, key))
	if err != nil {
		return nil, err
	}
	points, err := made[*domain.InboundClientsAccessIntent](l.Store.ListUnder(ctx, domain.InboundClientsAccessIntents, key))
	if err != nil {
		return nil, err
	}
	access := map[domain.Key][]vary.Access{}
	for _, a := range points {
		access[a.Parent] = append(access[a.Parent], vary.Access{Name: a.Name, Spec: a.Spec})
	}
	below := map[domain.Key][]vary.Client{}
	for _, c := range clients {
		below[c.Parent] = append(below[c.Parent], vary.Client{Name: c.Name, Spec: c.Spec, Access: access[domain.KeyOf(c)]})
	}
	dtc := &vary.DTC{Name: intent, Foreign: w.cloud != nil && !w.cloud.Admin()}
	for _, s := range servers {
		own := domain.KeyOf(s)
		dtc.Inbound = append(dtc.Inbound, vary.Inbound{Name: s.Name, Spec: s.Spec, Key: plan.SealedValue(own, s.PrivateKey), Clients: below[own]})
	}
	apps := make([]string, 0, len(w.apps))
	for _, a := range w.apps {
		apps = append(apps, a.Name)
	}
	if len(apps) == 0 { // in a rehearsal they may still come
		return []vary.Intent{dtc}, nil
	}
	warnings, err := dtc.Apps(apps)
	w.warnings = append(w.warnings, warnings...)
	return []vary.Intent{dtc}, err
}
