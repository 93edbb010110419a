package tenantagent_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDefinitionIsTheOriginal(t *testing.T) {
	copied, err := os.ReadFile("crds/workloadrules.yaml")
	require.NoError(t, err)
	original, err := os.ReadFile("../../crd/workloadrules.yaml")
	require.NoError(t, err)
	require.Equal(t, string(original), string(copied))
}
