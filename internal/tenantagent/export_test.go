package tenantagent

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/universe"
)

// SetLook sets how often rules are compared for the time of a test.
func SetLook(t *testing.T, d time.Duration) {
	before := lookEvery
	t.Cleanup(func() { lookEvery = before })
	lookEvery = d
}

// SetLate sets after how long requests without an answer arrive no more, for the time of a test.
func SetLate(t *testing.T, d time.Duration) {
	before := lateAfter
	t.Cleanup(func() { lateAfter = before })
	lateAfter = d
}

// HashOf is what a WorkloadRule notes of a rule that is about to be made.
func HashOf(r *universe.Rule) string { return hashOf(r) }

// NamespacesOf reads a ConfigMap.
func NamespacesOf(m *corev1.ConfigMap) ([]string, error) { return namespacesOf(m) }
