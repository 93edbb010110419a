package helm_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/deploy/helm"
)

// TestMetricsOfAgents: with a Secret they are served, and probed, by TLS; without it the agent is told that this is meant.
func TestMetricsOfAgents(t *testing.T) {
	for _, chart := range []string{"monitor", "tenant-agent"} {
		for _, secret := range []string{"", "certificate"} {
			t.Run(chart+" "+secret, func(t *testing.T) {
				values := map[string]string{"tenant": "t", "server": "drover.example:9017"}
				if secret != "" {
					values["metrics.tlsSecret"] = secret
				}
				pod := podOf(t, chart, values)
				agent := pod.Containers[0]
				env, mounts, volumes := map[string]string{}, map[string]string{}, map[string]string{}
				for _, e := range agent.Env {
					env[e.Name] = e.Value
				}
				for _, m := range agent.VolumeMounts {
					mounts[m.Name] = m.MountPath
				}
				for _, v := range pod.Volumes {
					if v.Secret != nil {
						volumes[v.Name] = v.Secret.SecretName
					}
				}
				scheme := corev1.URISchemeHTTP
				if secret == "" {
					require.Equal(t, "true", env["DROVER_INSECURE"])
					require.NotContains(t, env, "DROVER_TLS_CERT")
					require.NotContains(t, mounts, "metrics")
				} else {
					scheme = corev1.URISchemeHTTPS
					require.NotContains(t, env, "DROVER_INSECURE")
					require.Equal(t, secret, volumes["metrics"])
					require.Equal(t, mounts["metrics"]+"/tls.crt", env["DROVER_TLS_CERT"])
					require.Equal(t, mounts["metrics"]+"/tls.key", env["DROVER_TLS_KEY"])
				}
				require.Equal(t, scheme, agent.LivenessProbe.HTTPGet.Scheme)
				require.Equal(t, scheme, agent.ReadinessProbe.HTTPGet.Scheme)
			})
		}
	}
}

// podOf is what the chart's agent runs as.
func podOf(t *testing.T, chart string, values map[string]string) *corev1.PodSpec {
	t.Helper()
	resources, err := helm.Render(os.DirFS(chart), chart, "drover-"+chart, "agents", values)
	require.NoError(t, err)
	var pod *corev1.PodSpec
	for _, r := range resources {
		if r.Kind == "Deployment" {
			var d appsv1.Deployment
			require.NoError(t, json.Unmarshal(r.Manifest, &d))
			pod = &d.Spec.Template.Spec
		}
	}
	require.NotNil(t, pod)
	return pod
}

// TestUsersOfAgents: OpenShift refuses a Pod that names a user or a group which is not of the range of its namespace.
func TestUsersOfAgents(t *testing.T) {
	id, nonRoot := int64(65532), true
	for _, chart := range []string{"monitor", "tenant-agent"} {
		t.Run(chart, func(t *testing.T) {
			values := map[string]string{"tenant": "t", "server": "drover.example:9017"}
			seccomp := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
			require.Equal(t, &corev1.PodSecurityContext{RunAsNonRoot: &nonRoot, RunAsUser: &id, FSGroup: &id, SeccompProfile: seccomp}, podOf(t, chart, values).SecurityContext)
			values["podSecurityContext.runAsUser"], values["podSecurityContext.fsGroup"] = "null", "null"
			require.Equal(t, &corev1.PodSecurityContext{RunAsNonRoot: &nonRoot, SeccompProfile: seccomp}, podOf(t, chart, values).SecurityContext)
		})
	}
}
