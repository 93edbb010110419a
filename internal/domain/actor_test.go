package domain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// EMCO's examples call the controllers of hpa hpa-placement-controller-1 and hpa-action-controller-1.
func TestActorsOfHPA(t *testing.T) {
	registered := func(kind, host string, port int) *domain.Controller {
		return &domain.Controller{Spec: domain.ControllerSpec{Type: kind, Host: host, Port: port}}
	}
	for _, c := range []struct {
		name string
		as   *domain.Controller
		want domain.Actor
	}{
		{"hpa-placement-controller-1", nil, domain.ActorHPAPlacement},
		{"hpa-action-controller-1", nil, domain.ActorHPA},
		{"hpa", nil, domain.ActorHPABoth},
		{"hpaplc", nil, domain.ActorHPAPlacement},
		{"my-hpa", nil, ""},
		{"my-hpa", registered("action", "h", 1), domain.ActorHPA},
		{"hpa-action-controller-1", registered("placement", "h", 1), domain.ActorHPAPlacement},
		{"mine", registered("placement", "hpaplc.emco", 1), domain.ActorHPAPlacement},
		{"mine", registered("action", "h", 9042), domain.ActorHPA},
		{"mine", registered("placement", "h", 1), ""},
		{"rsync", nil, ""},
	} {
		require.Equal(t, c.want, domain.ActorOf(c.name, c.as), "%s %v", c.name, c.as)
	}
}
