package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
)

// TestAnAccountIsLookedAtWithoutAPace: by client-go's own, five requests a second, a namespace in a cluster of 200 kinds is looked at for 38 s.
func TestAnAccountIsLookedAtWithoutAPace(t *testing.T) {
	t.Parallel()
	o, err := kube.Own(kubetest.Kubeconfig(t), kube.Account{Name: "any", Namespace: "any"}, kube.Holder{})
	require.NoError(t, err)
	require.False(t, o.Paced())
}
