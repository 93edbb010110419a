package readiness

import (
	"cmp"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What of the kinds of hooks is waited for: EMCO's kinds, of which Helm waits for those that run once. Any other
// hook is done when it is applied.
var (
	runsOnce = map[schema.GroupKind]bool{
		{Kind: "Pod"}:                 true,
		{Group: "batch", Kind: "Job"}: true,
	}
	getsReady = map[schema.GroupKind]bool{
		{Group: "apps", Kind: "Deployment"}:  true,
		{Group: "apps", Kind: "DaemonSet"}:   true,
		{Group: "apps", Kind: "StatefulSet"}: true,
	}
)

// RunsOnce says whether an object of the kind runs to an end.
func RunsOnce(gvk schema.GroupVersionKind) bool { return runsOnce[gvk.GroupKind()] }

// Awaited says whether a hook of the kind is waited for.
func Awaited(gvk schema.GroupVersionKind) bool { return RunsOnce(gvk) || getsReady[gvk.GroupKind()] }

// End is where a hook stands.
type End struct {
	Done    bool
	Failure string // why it has failed, "" when it has not
	Lacks   string // why it is not done
}

// Hook judges the object of a hook, as a cluster gave it: a Job or Pod that was to run has succeeded or failed,
// anything else is done when it is Ready.
func Hook(gvk schema.GroupVersionKind, data json.RawMessage) End {
	object, err := Decode(data)
	if err != nil {
		return End{Lacks: "it cannot be read: " + err.Error()}
	}
	switch gvk.GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		return podEnd(object)
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return jobEnd(object)
	default:
		state := Of(gvk, object)
		return End{Done: state.Status == Ready, Lacks: state.Message}
	}
}

func jobEnd(job map[string]any) End {
	conditions, _, _ := unstructured.NestedSlice(job, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["status"] != "True" {
			continue
		}
		switch condition["type"] {
		case "Complete":
			return End{Done: true}
		case "Failed":
			return End{Failure: "the Job has failed" + because(condition["reason"], condition["message"])}
		}
	}
	if suspended, _, _ := unstructured.NestedBool(job, "spec", "suspend"); suspended {
		return End{Lacks: "the Job is suspended"}
	}
	return End{Lacks: "the Job has not completed"}
}

func podEnd(pod map[string]any) End {
	phase, _, _ := unstructured.NestedString(pod, "status", "phase")
	switch phase {
	case "Succeeded":
		return End{Done: true}
	case "Failed":
		status, _, _ := unstructured.NestedMap(pod, "status")
		return End{Failure: "the Pod has failed" + cmp.Or(because(status["reason"], status["message"]), terminated(status))}
	default:
		return End{Lacks: "the Pod is " + cmp.Or(phase, "not started")}
	}
}

// terminated is what the first container that has failed left behind.
func terminated(status map[string]any) string {
	containers, _, _ := unstructured.NestedSlice(status, "containerStatuses")
	for _, c := range containers {
		container, _ := c.(map[string]any)
		end, _, _ := unstructured.NestedMap(container, "state", "terminated")
		if code, _, _ := unstructured.NestedInt64(end, "exitCode"); code != 0 {
			return because(end["reason"], end["message"])
		}
	}
	return ""
}

// because puts a reason and a message, each of which may be missing, behind a statement.
func because(reason, message any) string {
	text := ""
	for _, part := range []any{reason, message} {
		if s, _ := part.(string); s != "" {
			text += ": " + s
		}
	}
	return text
}
