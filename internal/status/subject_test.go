package status_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
)

// TestEveryOwnerHasASubject: the Document of an owner names a subject that there is.
func TestEveryOwnerHasASubject(t *testing.T) {
	for _, n := range domain.Owners {
		require.True(t, status.HasSubject(n), "%s: there is no subject %q in subject.go", n.Title, n.Owner.Document)
	}
	require.False(t, status.HasSubject(&domain.Noun{Owner: &domain.OwnerKind{Document: "none"}}))
}
