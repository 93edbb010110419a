package service_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/service"
)

// stalled is a store that does not answer about a tenant, and notes what it is asked about the others.
type stalled struct {
	service.TenantStore
	tenant string
	all    bool // nor who looks for settings that were being changed

	mu     sync.Mutex
	pulses []time.Time
	asked  []string
}

func (s *stalled) about(ctx context.Context, tenant, what string) error {
	if tenant == s.tenant {
		<-ctx.Done()
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, tenant+" "+what)
	return fail.New(fail.Internal, "that will do")
}

func (s *stalled) Pulse(_ context.Context, _ string, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulses = append(s.pulses, at)
	return nil
}

func (s *stalled) EndPulse(ctx context.Context, process string) error {
	return s.Pulse(ctx, process, time.Now())
}

func (s *stalled) UnfinishedSettings(ctx context.Context, _ time.Duration) (map[string][]string, error) {
	if s.all {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return map[string][]string{s.tenant: {"1"}, "light": {"2"}, "": {"3"}}, nil
}

func (s *stalled) LostStreams(context.Context) ([]*domain.Stream, error) {
	return []*domain.Stream{{Tenant: s.tenant}, {Tenant: "light"}}, nil
}

func (s *stalled) StreamsOf(context.Context, string) ([]*domain.Stream, error) { return nil, nil }
func (s *stalled) StandingStreams(context.Context) (map[string]string, error)  { return nil, nil }

func (s *stalled) List(context.Context, *domain.Noun, domain.Key) (found []domain.Object, err error) {
	for _, name := range []string{s.tenant, "light"} {
		t := tenantIn(name, "p+c")
		t.Spec.DeleteAfter = "30s"
		found = append(found, t)
	}
	return found, nil
}

func (s *stalled) SettingsVersion(ctx context.Context, tenant string) (string, bool, error) {
	return "", false, s.about(ctx, tenant, "is looked at")
}

func (s *stalled) LookBytes(context.Context, string) (int64, error) { return 0, nil }

func (s *stalled) CutStream(ctx context.Context, lost *domain.Stream) error {
	return s.about(ctx, lost.Tenant, "is cut")
}

func (s *stalled) AnyGone(ctx context.Context, tenant string, _ time.Time) (bool, error) {
	return false, s.about(ctx, tenant, "is let go")
}

// TestPulsesDoNotWaitForASweep: else others would take the streams of a process for lost that looks for what they have left.
func TestPulsesDoNotWaitForASweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stalled{all: true}
		m := service.NewMatcher(s, nil, time.Now, "process")
		ctx, cancel := context.WithTimeout(t.Context(), 10*domain.PulseLife)
		defer cancel()
		begun := time.Now()
		m.Run(ctx)
		require.Equal(t, 10*domain.PulseLife, time.Since(begun))
		require.NotEmpty(t, s.pulses)
		require.Equal(t, begun, s.pulses[0])
		for i, at := range s.pulses[1:] { // the last one is its end
			require.Less(t, at.Sub(s.pulses[i]), domain.PulseLife)
		}
	})
}

// TestATenantThatTakesLongKeepsNobodyWaiting when a process looks for what others have left: it has its time, and comes the next time again.
func TestATenantThatTakesLongKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stalled{tenant: "heavy"}
		m := service.NewMatcher(s, nil, time.Now, "process")
		begun := time.Now()
		require.ErrorIs(t, m.Sweep(t.Context()), context.DeadlineExceeded)
		require.Equal(t, 4*policy.SweepTenant, time.Since(begun), "once for each thing that it is looked for")
		slices.Sort(s.asked)
		require.Equal(t, []string{"light is cut", "light is let go", "light is looked at", "light is looked at"}, s.asked)
	})
}
