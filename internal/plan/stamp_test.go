package plan_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

func TestStamp(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason    string
		manifest  string
		namespace string
		want      string
		wantErr   fail.Kind
	}{
		"labels an object that has none": {
			manifest: `{"kind":"ConfigMap","metadata":{"name":"a"}}`,
			want:     `{"kind":"ConfigMap","metadata":{"labels":{"id":"7-sink"},"name":"a"}}`,
		},
		"keeps the labels there are": {
			manifest: `{"kind":"ConfigMap","metadata":{"labels":{"app":"a","id":"old"},"name":"a"}}`,
			want:     `{"kind":"ConfigMap","metadata":{"labels":{"app":"a","id":"7-sink"},"name":"a"}}`,
		},
		"takes null for nothing": {
			reason:   "charts write \"labels:\" with nothing behind it",
			manifest: `{"kind":"ConfigMap","metadata":{"labels":null,"name":"a"}}`,
			want:     `{"kind":"ConfigMap","metadata":{"labels":{"id":"7-sink"},"name":"a"}}`,
		},
		"labels the pods of a workload": {
			reason:   "the agent reports pods by the label",
			manifest: `{"kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"metadata":{"labels":{"app":"a"}},"spec":{}}}}`,
			want: `{"kind":"Deployment","metadata":{"labels":{"id":"7-sink"},"name":"a"},
				"spec":{"template":{"metadata":{"labels":{"app":"a","id":"7-sink"}},"spec":{}}}}`,
		},
		"labels a template without metadata": {
			manifest: `{"kind":"Job","metadata":{"name":"a"},"spec":{"template":{"spec":{}}}}`,
			want: `{"kind":"Job","metadata":{"labels":{"id":"7-sink"},"name":"a"},
				"spec":{"template":{"metadata":{"labels":{"id":"7-sink"}},"spec":{}}}}`,
		},
		"labels the jobs and pods of a cron job": {
			manifest: `{"kind":"CronJob","metadata":{"name":"a"},"spec":{"jobTemplate":{"spec":{"template":{"spec":{}}}}}}`,
			want: `{"kind":"CronJob","metadata":{"labels":{"id":"7-sink"},"name":"a"},"spec":{"jobTemplate":{
				"metadata":{"labels":{"id":"7-sink"}},
				"spec":{"template":{"metadata":{"labels":{"id":"7-sink"}},"spec":{}}}}}}`,
		},
		"leaves another kind's jobTemplate alone": {
			manifest: `{"kind":"Widget","metadata":{"name":"a"},"spec":{"jobTemplate":{"spec":{}}}}`,
			want:     `{"kind":"Widget","metadata":{"labels":{"id":"7-sink"},"name":"a"},"spec":{"jobTemplate":{"spec":{}}}}`,
		},
		"leaves a template that is a text alone": {
			reason:   "custom resources use the name for other things",
			manifest: `{"kind":"Widget","metadata":{"name":"a"},"spec":{"template":"hello"}}`,
			want:     `{"kind":"Widget","metadata":{"labels":{"id":"7-sink"},"name":"a"},"spec":{"template":"hello"}}`,
		},
		"leaves a template of something else alone": {
			reason:   "a KafkaNodePool of Strimzi has no metadata there",
			manifest: `{"kind":"KafkaNodePool","metadata":{"name":"a"},"spec":{"template":{"pod":{"metadata":{}}}}}`,
			want:     `{"kind":"KafkaNodePool","metadata":{"labels":{"id":"7-sink"},"name":"a"},"spec":{"template":{"pod":{"metadata":{}}}}}`,
		},
		"leaves a template that is a map of texts alone": {
			manifest: `{"kind":"Widget","metadata":{"name":"a"},"spec":{"template":{"metadata":"x","spec":"y"}}}`,
			want:     `{"kind":"Widget","metadata":{"labels":{"id":"7-sink"},"name":"a"},"spec":{"template":{"metadata":"x","spec":"y"}}}`,
		},
		"labels a template of objects without a spec": {
			reason:   "the Secret that is made of a SealedSecret",
			manifest: `{"kind":"SealedSecret","metadata":{"name":"a"},"spec":{"template":{"metadata":{"name":"a"},"type":"Opaque"}}}`,
			want: `{"kind":"SealedSecret","metadata":{"labels":{"id":"7-sink"},"name":"a"},
				"spec":{"template":{"metadata":{"labels":{"id":"7-sink"},"name":"a"},"type":"Opaque"}}}`,
		},
		"sets the namespace where there is none": {
			manifest:  `{"kind":"ConfigMap","metadata":{"name":"a"}}`,
			namespace: "prod",
			want:      `{"kind":"ConfigMap","metadata":{"labels":{"id":"7-sink"},"name":"a","namespace":"prod"}}`,
		},
		"keeps the manifest's own namespace": {
			manifest:  `{"kind":"ConfigMap","metadata":{"name":"a","namespace":"kube-system"}}`,
			namespace: "prod",
			want:      `{"kind":"ConfigMap","metadata":{"labels":{"id":"7-sink"},"name":"a","namespace":"kube-system"}}`,
		},
		"keeps numbers to the digit": {
			reason:   "a float64 would round them",
			manifest: `{"kind":"Widget","metadata":{"name":"a"},"spec":{"big":9223372036854775807,"tiny":0.10}}`,
			want:     `{"kind":"Widget","metadata":{"labels":{"id":"7-sink"},"name":"a"},"spec":{"big":9223372036854775807,"tiny":0.10}}`,
		},
		"refuses what is not an object": {manifest: `[]`, wantErr: fail.Invalid},
		"refuses null":                  {manifest: `null`, wantErr: fail.Invalid},
		"refuses labels that are a list": {
			manifest: `{"kind":"ConfigMap","metadata":{"labels":["a"]}}`, wantErr: fail.Invalid,
		},
		"refuses template metadata that is a text": {
			manifest: `{"kind":"Job","metadata":{"name":"a"},"spec":{"template":{"metadata":"x","spec":{}}}}`, wantErr: fail.Invalid,
		},
		"refuses labels of a job's pods that are a list": {
			manifest: `{"kind":"CronJob","metadata":{"name":"a"},"spec":{"jobTemplate":{"spec":{"template":{"metadata":{"labels":[]}}}}}}`, wantErr: fail.Invalid,
		},
		"refuses job metadata that is a text": {
			manifest: `{"kind":"CronJob","metadata":{"name":"a"},"spec":{"jobTemplate":{"metadata":"x"}}}`, wantErr: fail.Invalid,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := plan.Stamp([]byte(c.manifest), c.namespace, map[string]string{"id": "7-sink"})
			var object map[string]any
			if json.Unmarshal([]byte(c.manifest), &object) == nil && object != nil {
				said := plan.Stampable(object)
				require.Equal(t, err == nil, said == nil, "%v", said)
				if err != nil {
					require.Equal(t, fail.TextOf(err), fail.TextOf(said))
				}
			}
			if c.wantErr != "" {
				require.True(t, fail.Is(err, c.wantErr), "got %v", err)
				return
			}
			require.NoError(t, err, c.reason)
			want := regexp.MustCompile(`\s+`).ReplaceAllString(c.want, "")
			require.Empty(t, cmp.Diff(want, string(got)), c.reason)
		})
	}
}

func TestEncodeStrings(t *testing.T) {
	t.Parallel()
	for manifest, want := range map[string]string{
		`{"data":{"p":"eA==","q":"eA=="},"stringData":{"p":"other"}}`: `{"data":{"p":"b3RoZXI=","q":"eA=="}}`,
		`{"data":null,"stringData":{"p":"x","n":5}}`:                  `{"data":{"p":"eA=="},"stringData":{"n":5}}`,
		`{"data":[],"stringData":{"p":"x"}}`:                          `{"data":[],"stringData":{"p":"x"}}`,
		`{"immutable":true}`:                                          `{"immutable":true}`,
		`{"data":{"p":"eA=="},"stringData":{}}`:                       `{"data":{"p":"eA=="}}`,
		`{"data":{"p":"eA=="},"stringData":null}`:                     `{"data":{"p":"eA=="}}`,
		`{"data":{"p":"eA=="},"stringData":"q: x"}`:                   `{"data":{"p":"eA=="},"stringData":"q: x"}`,
		`{"stringData":[{"p":"x"}]}`:                                  `{"stringData":[{"p":"x"}]}`,
	} {
		got, err := plan.EncodeStrings([]byte(manifest))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	_, err := plan.EncodeStrings([]byte(`[]`))
	require.True(t, fail.Is(err, fail.Invalid), "%v", err)
}

func TestDeploymentID(t *testing.T) {
	t.Parallel()
	const id = "2621114006130701074"
	// What Kubernetes accepts as the value of a label.
	label := regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	longest := strings.Repeat("a", 128)
	cases := map[string]struct{ app, want string }{
		"is the context and the app":    {app: "sink", want: id + "-sink"},
		"fits to the last character":    {app: strings.Repeat("a", 43), want: id + "-" + strings.Repeat("a", 43)},
		"is shortened beyond":           {app: strings.Repeat("a", 44), want: id + "-" + strings.Repeat("a", 32) + "-f526fe8873"},
		"is shortened inside of a sign": {app: strings.Repeat("a.", 63) + "a", want: id + "-" + strings.Repeat("a.", 16) + "-92545fb4a6"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := plan.DeploymentID(id, c.app)
			require.Equal(t, c.want, got)
			require.Regexp(t, label, got)
		})
	}
	t.Run("keeps long names apart that begin alike", func(t *testing.T) {
		t.Parallel()
		require.NotEqual(t, plan.DeploymentID(id, longest), plan.DeploymentID(id, longest[1:]))
	})
}

func BenchmarkStamp(b *testing.B) {
	manifest := []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","labels":{"app":"a"}},
		"spec":{"replicas":3,"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},
		"spec":{"containers":[{"name":"a","image":"a:1","env":[{"name":"X","value":"y"}],"ports":[{"containerPort":80}]}]}}}}`)
	labels := map[string]string{plan.DeploymentLabel: plan.DeploymentID("2621114006130701074", "sink")}
	for b.Loop() {
		if _, err := plan.Stamp(manifest, "default", labels); err != nil {
			b.Fatal(err)
		}
	}
}

func TestSameContext(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 70)
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"two apps":                {plan.DeploymentID("9223372036854775807", "web"), plan.DeploymentID("9223372036854775807", "log"), true},
		"with names that are cut": {plan.DeploymentID("9223372036854775807", long), plan.DeploymentID("9223372036854775807", long+"b"), true},
		"two contexts":            {plan.DeploymentID("12", "web"), plan.DeploymentID("123", "web"), false},
		"and the other way":       {plan.DeploymentID("123", "web"), plan.DeploymentID("12", "web"), false},
		"of nobody":               {plan.DeploymentID("12", "web"), "", false},
		"of no context":           {"drover-monitor", "drover-other", false},
		"the same":                {"drover-monitor", "drover-monitor", true},
		"a number alone":          {"12", "12-web", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.same, plan.SameContext(c.a, c.b))
		})
	}
}
