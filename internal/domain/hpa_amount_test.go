package domain

import (
	"testing"

	"github.com/drover-io/drover/internal/fail"
)

// Kubernetes refuses a pod that wants a part of a device.
func TestAmountsOfDevicesAreWhole(t *testing.T) {
	for _, c := range []struct {
		resource, amount string
		refused          bool
	}{
		{"intel.com/qat", `"500m"`, true},
		{"intel.com/qat", `"2"`, false},
		{"intel.com/qat", `"1k"`, false},
		{"cpu", `"500m"`, false},
	} {
		var p fail.Problems
		Amount(c.amount).check(&p, "spec.resource.requests", c.resource)
		if (p.Err() != nil) != c.refused {
			t.Errorf("%s of %s: %v, refused should be %v", c.amount, c.resource, p.Err(), c.refused)
		}
	}
}
