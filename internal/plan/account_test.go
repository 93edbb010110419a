package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/plan"
)

func TestDropAccount(t *testing.T) {
	t.Parallel()
	deployment := plan.ResourceID{Group: "apps", Version: "v1", Kind: "Deployment", Name: "a"}
	cron := plan.ResourceID{Group: "batch", Version: "v1", Kind: "CronJob", Name: "a"}
	for name, c := range map[string]struct {
		id             plan.ResourceID
		manifest, want string
	}{
		"names no account":                  {deployment, `{"spec":{"template":{"spec":{"n":10000000000000001}}}}`, `{"spec":{"template":{"spec":{"n":10000000000000001,"serviceAccount":""}}}}`},
		"names one":                         {deployment, `{"spec":{"template":{"spec":{"serviceAccountName":"a"}}}}`, ""},
		"names one by the old name":         {deployment, `{"spec":{"template":{"spec":{"serviceAccount":"a"}}}}`, ""},
		"has no Pods":                       {deployment, `{"spec":{"template":1}}`, ""},
		"makes Jobs":                        {cron, `{"spec":{"jobTemplate":{"spec":{"template":{"spec":{}}}}}}`, `{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"serviceAccount":""}}}}}}`},
		"is a Job, which never gets others": {plan.ResourceID{Group: "batch", Version: "v1", Kind: "Job", Name: "a"}, `{"spec":{"template":{"spec":{}}}}`, ""},
		"is of a kind of somebody's":        {plan.ResourceID{Group: "example.com", Version: "v1", Kind: "Deployment", Name: "a"}, `{"spec":{"template":{"spec":{}}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := plan.DropAccount(c.id, []byte(c.manifest))
			require.NoError(t, err)
			if c.want == "" {
				c.want = c.manifest
			}
			require.Equal(t, c.want, string(got))
		})
	}
}
