package kube

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// panicking is a transport with a fault.
type panicking struct{}

func (panicking) RoundTrip(*http.Request) (*http.Response, error) { panic("a fault") }

// TestAWatchThatPanicsKeepsNothing: neither its place nor the slot of its request.
func TestAWatchThatPanicsKeepsNothing(t *testing.T) {
	t.Parallel()
	c := &Cluster{
		config: Config{Request: time.Minute}, base: "https://cluster", client: &http.Client{Transport: panicking{}}, slots: make(chan struct{}, 1),
		transport: &transport{seats: make(chan struct{}, 1), opening: make(chan struct{}, 1)},
	}
	c.life, c.end = context.WithCancel(t.Context())
	defer c.end()
	for range 3 {
		require.Panics(t, func() { _, _ = c.stream(t.Context(), time.Minute, request{method: http.MethodGet}) })
		require.Empty(t, c.transport.seats)
		require.Empty(t, c.slots)
	}
}
