package readiness_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/readiness"
)

func inJSON(t *testing.T, text string) json.RawMessage {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	return data
}

func TestUnusedClaim(t *testing.T) {
	claim := schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
	for name, c := range map[string]struct{ object, class string }{
		"of a class":           {`{spec: {storageClassName: fast}, status: {phase: Pending}}`, "fast"},
		"of a class by a note": {`{metadata: {annotations: {volume.beta.kubernetes.io/storage-class: slow}}, status: {phase: Pending}}`, "slow"},
		"of none":              {`{spec: {storageClassName: ""}, status: {phase: Pending}}`, ""},
		"of the default":       {`{spec: {}, status: {phase: Pending}}`, ""},
		"bound":                {`{spec: {storageClassName: fast, volumeName: v}, status: {phase: Bound}}`, ""},
		"of a certain volume":  {`{spec: {storageClassName: fast, volumeName: v}, status: {phase: Pending}}`, ""},
		"that has lost it":     {`{spec: {storageClassName: fast}, status: {phase: Lost}}`, ""},
		"that a Pod uses":      {`{metadata: {annotations: {volume.kubernetes.io/selected-node: edge01}}, spec: {storageClassName: fast}, status: {phase: Pending}}`, ""},
		"that is being deleted": {
			`{metadata: {deletionTimestamp: "2020-08-21T05:39:34Z"}, spec: {storageClassName: fast}, status: {phase: Pending}}`, "",
		},
		"that is not there": {`null`, ""},
		"that is none":      {`{spec: 3}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			class, ok := readiness.UnusedClaim(claim, inJSON(t, c.object))
			require.Equal(t, c.class != "", ok)
			if ok {
				require.Equal(t, c.class, class)
			}
		})
	}
	_, ok := readiness.UnusedClaim(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "PersistentVolumeClaim"},
		inJSON(t, `{spec: {storageClassName: fast}, status: {phase: Pending}}`))
	require.False(t, ok, "of another group")
}

func TestBindsLate(t *testing.T) {
	require.True(t, readiness.BindsLate(inJSON(t, `{volumeBindingMode: WaitForFirstConsumer}`)))
	for _, object := range []string{`{volumeBindingMode: Immediate}`, `{}`, `null`, `{volumeBindingMode: 3}`} {
		require.False(t, readiness.BindsLate(inJSON(t, object)), object)
	}
	require.False(t, readiness.BindsLate(nil))
}
