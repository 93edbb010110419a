package door_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
)

// TestSteps: the first step is the outermost, one may answer in place of those behind it, and has the last word.
func TestSteps(t *testing.T) {
	var log []string
	step := func(name string) door.Step {
		return func(ctx context.Context, r *door.Request, next door.Next) error {
			log = append(log, name)
			err := next(ctx)
			log = append(log, "after "+name+": "+string(r.Key()))
			return err
		}
	}
	shut := false
	d := door.New(door.Parts{}, step("outer"), func(ctx context.Context, _ *door.Request, next door.Next) error {
		if shut {
			return fail.New(fail.Forbidden, "shut")
		}
		return next(ctx)
	}, step("inner"))
	pass := func() error {
		log = nil
		return d.Pass(t.Context(), &door.Request{Verb: door.Create, Noun: domain.Projects}, func(ctx context.Context, _ door.Service) error {
			log = append(log, "work")
			door.Named(ctx, "p")
			return nil
		})
	}
	require.NoError(t, pass())
	require.Equal(t, []string{"outer", "inner", "work", "after inner: projects/p", "after outer: projects/p"}, log)
	shut = true
	require.True(t, fail.Is(pass(), fail.Forbidden))
	require.Equal(t, []string{"outer", "after outer: "}, log)
}

// TestRequestsSayWhatTheyWant: without a verb and a noun that are known nobody passes.
func TestRequestsSayWhatTheyWant(t *testing.T) {
	d := door.New(door.Parts{})
	for name, r := range map[string]door.Request{
		"no verb": {Noun: domain.Projects}, "no noun": {Verb: door.Get}, "a word that is none": {Verb: "frobnicate", Noun: domain.Projects},
		"a noun of somebody's own": {Verb: door.Get, Noun: &domain.Noun{Kind: "projects"}},
	} {
		err := d.Pass(t.Context(), &r, func(context.Context, door.Service) error {
			t.Error(name, "has passed")
			return nil
		})
		require.True(t, fail.Is(err, fail.Internal), name)
	}
}

func TestScope(t *testing.T) {
	for want, requests := range map[domain.Key][]door.Request{
		"": {
			{Noun: domain.Projects}, {Noun: domain.Controllers, Name: "c"}, {Noun: domain.Operations, Name: "projects/p"},
			{Noun: domain.DeploymentIntentGroups},
		},
		"projects/p": {
			{Noun: domain.Projects, Name: "p"}, {Noun: domain.CompositeApps, Parent: "projects/p", Name: "ca/v1"},
			{Noun: domain.LogicalClouds, Parent: "projects/p"}, {Noun: domain.DeploymentIntentGroups, Parent: "projects/p"},
		},
		"cluster-providers/p": {
			{Noun: domain.ClusterProviders, Name: "p"}, {Noun: domain.ClusterLabels, Parent: "cluster-providers/p/clusters/c", Name: "l"},
		},
	} {
		for _, r := range requests {
			require.Equal(t, want, r.Scope(), "%s %q %q", r.Noun.Kind, r.Parent, r.Name)
		}
	}
}
