package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/service"
)

// TestHealth: what is not known is not said, and what nobody confirms is not good.
func TestHealth(t *testing.T) {
	for _, c := range []struct {
		health *service.GroupHealth
		text   string
		ill    bool
	}{
		{nil, "-", false},
		{&service.GroupHealth{Ready: true, Counts: map[string]int{"Ready": 6}}, "6/6", false},
		{&service.GroupHealth{Counts: map[string]int{"Ready": 6}}, "6/6, not heard", false},
		{&service.GroupHealth{Counts: map[string]int{"Ready": 4, "NotReady": 2}}, "4/6", true},
		{&service.GroupHealth{Counts: map[string]int{"NotPresent": 1}}, "0/1", true},
	} {
		require.Equal(t, c.text, healthText(c.health))
		require.Equal(t, c.ill, ill(c.health), c.text)
	}
}
