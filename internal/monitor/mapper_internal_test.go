package monitor

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// refusing is a cluster that notes whether requests have a time to end.
type refusing struct{ timed, untimed int }

func (r *refusing) RoundTrip(q *http.Request) (*http.Response, error) {
	if _, ok := q.Context().Deadline(); ok {
		r.timed++
	} else {
		r.untimed++
	}
	return nil, errors.New("refused")
}

// TestKindsAreAskedForWithATime: a cluster that takes a request and never answers would hold up the agent for ever.
func TestKindsAreAskedForWithATime(t *testing.T) {
	t.Parallel()
	r := &refusing{}
	client := &http.Client{Transport: r}
	m, err := mapper(&rest.Config{Host: "https://cluster"}, client)
	require.NoError(t, err)
	_, err = m.RESTMapping(schema.GroupKind{Kind: "ConfigMap"}, "v1")
	require.Error(t, err)
	require.Positive(t, r.timed)
	require.Zero(t, r.untimed)
	require.Zero(t, client.Timeout, "watches have none")
}
