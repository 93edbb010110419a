package kubetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// anything is the schema of a version, in a definition.
const anything = "schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}"

// Widgets defines the kind Widget of a group in two versions, v1, which is stored and returned, and v2, which clusters
// prefer. Where it is broken, nothing can be listed as v2: who converts does not answer.
func Widgets(t testing.TB, client dynamic.Interface, group string, broken bool) schema.GroupVersionResource {
	t.Helper()
	conversion := "{strategy: None}"
	if broken {
		conversion = `{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:1/"}}}`
	}
	manifest, err := yaml.YAMLToJSON([]byte(fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  conversion: %[2]s
  versions:
    - {name: v1, served: true, storage: true, %[3]s}
    - {name: v2, served: true, storage: false, %[3]s}
`, group, conversion, anything)))
	require.NoError(t, err)
	return Define(t, client, manifest)
}

// OneVersion defines a kind of a group in one version, with anything in its objects. Its plural has an s.
func OneVersion(t testing.TB, client dynamic.Interface, group, version, kind string) schema.GroupVersionResource {
	t.Helper()
	manifest, err := yaml.YAMLToJSON([]byte(fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[4]ss.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: %[3]s, listKind: %[3]sList, plural: %[4]ss, singular: %[4]s}
  versions: [{name: %[2]s, served: true, storage: true, %[5]s}]
`, group, version, kind, strings.ToLower(kind), anything)))
	require.NoError(t, err)
	return Define(t, client, manifest)
}
