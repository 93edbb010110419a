package tenantagent_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/tenantagent"
)

// TestAClusterThatWasRestored from a backup has not the Pods that it had: the agent ends, and gives its Lease back, so that one that is started anew
// tells what there is.
func TestAClusterThatWasRestored(t *testing.T) {
	for name, alone := range map[string]bool{"with a Lease": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.configure("namespaces: [" + w.namespace + "]")
			w.pod(w.namespace, "a")
			through, restore := kubetest.Ahead(t, w.config)
			ended := make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				ended <- tenantagent.Run(ctx, w.agentConfig(func(c *tenantagent.Config) {
					c.Cluster = through
					if alone {
						c.Namespace = ""
					}
				}))
			}()
			require.Eventually(t, func() bool { return len(w.server.last().messages) > 0 }, deadline, tick)
			restore()
			select {
			case err := <-ended:
				require.ErrorContains(t, err, "it was restored from a backup")
				require.True(t, fail.Is(err, fail.Unavailable))
			case <-time.After(deadline):
				require.Fail(t, "the agent goes on")
			}
			w.agent(nil)
			w.awaitWords("sync [a]")
			require.NotContains(t, w.log.String(), "has lost its Lease")
		})
	}
}
