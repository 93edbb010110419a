package readiness_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/readiness"
)

func TestHook(t *testing.T) {
	t.Parallel()
	job := schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	deployment := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	for name, c := range map[string]struct {
		kind   schema.GroupVersionKind
		object string
		want   readiness.End
	}{
		"a job that runs":         {job, `{"status":{"active":1}}`, readiness.End{Lacks: "the Job has not completed"}},
		"a job that is suspended": {job, `{"spec":{"suspend":true}}`, readiness.End{Lacks: "the Job is suspended"}},
		"a job that is completed": {job, `{"status":{"conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}}`, readiness.End{Done: true}},
		"a job that has failed": {
			job, `{"status":{"conditions":[{"type":"Failed","status":"True","reason":"BackoffLimitExceeded","message":"Job has reached the specified backoff limit"}]}}`,
			readiness.End{Failure: "the Job has failed: BackoffLimitExceeded: Job has reached the specified backoff limit"},
		},
		"a condition that does not hold": {job, `{"status":{"conditions":[{"type":"Failed","status":"False"}]}}`, readiness.End{Lacks: "the Job has not completed"}},
		"a job with odd members":         {job, `{"status":{"conditions":[7]}}`, readiness.End{Lacks: "the Job has not completed"}},
		"a pod that is new":              {pod, `{}`, readiness.End{Lacks: "the Pod is not started"}},
		"a pod that runs":                {pod, `{"status":{"phase":"Running"}}`, readiness.End{Lacks: "the Pod is Running"}},
		"a pod that has succeeded":       {pod, `{"status":{"phase":"Succeeded"}}`, readiness.End{Done: true}},
		"a pod that was evicted":         {pod, `{"status":{"phase":"Failed","reason":"Evicted"}}`, readiness.End{Failure: "the Pod has failed: Evicted"}},
		"a pod whose container has failed": {
			pod, `{"status":{"phase":"Failed","containerStatuses":[{"state":{"terminated":{"exitCode":0}}},{"state":{"terminated":{"exitCode":1,"reason":"Error","message":"no database"}}}]}}`,
			readiness.End{Failure: "the Pod has failed: Error: no database"},
		},
		"a deployment that is not ready": {deployment, `{"metadata":{"generation":1},"spec":{"replicas":1},"status":{"observedGeneration":1,"replicas":0}}`, readiness.End{Lacks: "replicas: 0/1"}},
		"what is no object":              {job, `[]`, readiness.End{Lacks: "it cannot be read: json: cannot unmarshal array into Go value of type map[string]interface {}"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.True(t, readiness.Awaited(c.kind))
			got := readiness.Hook(c.kind, json.RawMessage(c.object))
			if c.kind == deployment {
				require.Contains(t, got.Lacks, "0")
				got.Lacks = c.want.Lacks
			}
			require.Equal(t, c.want, got)
		})
	}
	require.False(t, readiness.Awaited(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}))
	require.False(t, readiness.Awaited(schema.GroupVersionKind{Group: "serving.example.com", Version: "v1", Kind: "Job"}), "another group's")
}
