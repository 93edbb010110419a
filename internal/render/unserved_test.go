package render

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a chart leaves out as clusters need not have it is warned of, where it has asked: not of what Kubernetes itself has no more, nor where a
// value decides before.
func TestUnserved(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`.Capabilities.APIVersions.Has "monitoring.coreos.com/v1"`:                                      "monitoring.coreos.com/v1",
		`$.Capabilities.APIVersions.Has "monitoring.coreos.com/v1/ServiceMonitor"`:                      "monitoring.coreos.com/v1/ServiceMonitor",
		`not (or (.Capabilities.APIVersions.Has "b.io/v1") ($.Capabilities.APIVersions.Has "a.io/v1"))`: "a.io/v1, b.io/v1",
		`.Capabilities.APIVersions.Has "gateway.networking.k8s.io/v1"`:                                  "gateway.networking.k8s.io/v1",
		`eq (include "asks" .) "true"`:                                                                  "cert-manager.io/v1",
		`tpl .Values.asks . | eq "true"`:                                                                "tpl.example.com/v1",
		`and .Values.on (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")`:                     "",
		`.Capabilities.APIVersions.Has "own.example.com/v1/Thing"`:                                      "",
		`.Capabilities.APIVersions.Has "networking.k8s.io/v1beta1/Ingress"`:                             "",
		`.Capabilities.APIVersions.Has "extensions/v1beta1"`:                                            "",
		`.Capabilities.APIVersions.Has "security.openshift.io/v1"`:                                      "",
		`has "monitoring.coreos.com/v1" .Capabilities.APIVersions`:                                      "",
		`.Capabilities.APIVersions.Has "apps/v1"`:                                                       "",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			bundle, err := Render(Input{App: "web", Release: "r1", Namespace: "default", Chart: pack(t, map[string]string{
				"web/Chart.yaml":            chartYAML,
				"web/values.yaml":           "on: false\nasks: '{{ .Capabilities.APIVersions.Has \"tpl.example.com/v1\" }}'\n",
				"web/templates/_asks.tpl":   `{{ define "asks" }}{{ .Capabilities.APIVersions.Has "cert-manager.io/v1" }}{{ end }}`,
				"web/crds/thing.yaml":       `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.own.example.com}, spec: {group: own.example.com, scope: Namespaced, names: {kind: Thing, plural: things}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`,
				"web/templates/a.yaml":      "{{ if " + text + " }}{apiVersion: v1, kind: ConfigMap, metadata: {name: there}}{{ end }}",
				"web/templates/steady.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: steady}}",
			})})
			require.NoError(t, err)
			if want == "" {
				require.Empty(t, bundle.Warnings)
				return
			}
			require.Equal(t, []string{"the chart asks whether clusters have " + want + ", and is told no, whatever they have: what it makes only with that is left out, unless it has a value for it"}, bundle.Warnings)
		})
	}
}
