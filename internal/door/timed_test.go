package door_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/policy"
)

func TestTimed(t *testing.T) {
	for what, c := range map[string]struct {
		verb    door.Verb
		noun    *domain.Noun
		want    time.Duration // 0 for no limit
		renders bool
	}{
		"a document alone":                {door.Create, domain.Projects, policy.Plain, false},
		"with its file":                   {door.Put, domain.Apps, policy.Upload, false},
		"a file that is read":             {door.Get, domain.Apps, policy.Upload, false},
		"documents without their files":   {door.List, domain.Apps, policy.Plain, false},
		"what is deleted with its file":   {door.Delete, domain.Apps, policy.Plain, false},
		"what is rendered and placed":     {door.Approve, domain.DeploymentIntentGroups, policy.Answer, false},
		"what is rendered to be shown":    {door.Query, domain.DeploymentIntentGroups, policy.Answer, true},
		"an operation that begins":        {door.Instantiate, domain.ClustersNoun, policy.Answer, false},
		"an operation that ends things":   {door.Terminate, domain.LogicalClouds, policy.Answer, false},
		"a stop, which renders nothing":   {door.Stop, domain.DeploymentIntentGroups, policy.Plain, false},
		"a status":                        {door.Status, domain.DeploymentIntentGroups, policy.Plain, false},
		"a stream, as long as one likes":  {door.Watch, domain.DeploymentIntentGroups, 0, false},
		"the status of a noun with files": {door.Status, domain.ClustersNoun, policy.Plain, false},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := door.New(door.Parts{}, door.Timed)
				require.NoError(t, d.Pass(t.Context(), &door.Request{Verb: c.verb, Noun: c.noun, Renders: c.renders}, func(ctx context.Context, _ door.Service) error {
					end, limited := ctx.Deadline()
					require.Equal(t, c.want != 0, limited)
					if limited {
						require.Equal(t, c.want, time.Until(end))
					}
					return nil
				}))
			})
		})
	}
}
