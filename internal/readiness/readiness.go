// Package readiness says of an object that a cluster reported whether it is ready: by the rules of kstatus
// for every kind, and by expressions of users for kinds of their own. It decides from the object alone, as
// it was received; it does no I/O.
package readiness

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strconv"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8sjson "k8s.io/apimachinery/pkg/util/json"
)

// Status is where an object stands. The words are stored with what clusters report.
type Status string

// The statuses. What kstatus calls Current is Ready; InProgress, Failed and Terminating are NotReady.
const (
	Ready      Status = "Ready"
	NotReady   Status = "NotReady"
	NotPresent Status = "NotPresent"
)

// State is the status of one object and, when it is not ready, why: one line for a person to read.
type State struct {
	Status  Status
	Message string
}

// Of judges an object of a kind by the rules of kstatus; a nil one is NotPresent. The object need not
// carry apiVersion and kind itself: objects in a ResourceBundleState mostly do not. It is not changed.
//
// What a CronJob has run is Ready, whatever came of it: its own CronJob is what is to be there, and the next run may succeed. In some cases
// kstatus is content with less than users mean by ready, and strict has the last word.
func Of(gvk schema.GroupVersionKind, object map[string]any) State {
	if object == nil {
		return State{Status: NotPresent}
	}
	u := observed(typed(gvk, object))
	if ofCronJob(gvk.GroupKind(), u) {
		return State{Status: Ready}
	}
	if lacking := outdated(u); lacking != "" {
		return notReady(lacking)
	}
	result, err := compute(replaced(gvk.GroupKind(), u))
	if err != nil && status.GetLegacyConditionsFn(u) == nil {
		result, err = compute(unconditioned(u))
	}
	if err != nil {
		return notReady("status cannot be read: " + err.Error())
	}
	if result.Status != status.CurrentStatus {
		return notReady(halted(gvk.GroupKind(), u.Object) + result.Message)
	}
	if check := strict[gvk.GroupKind()]; check != nil {
		if lacking := check(u.Object); lacking != "" {
			return notReady(lacking)
		}
	}
	return State{Status: Ready}
}

// Decode reads an object from JSON as Of and Rules.Of need it: whole numbers as int64. No bytes, and the
// JSON null, are a nil object.
func Decode(data json.RawMessage) (map[string]any, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var object map[string]any
	err := k8sjson.Unmarshal(data, &object)
	return object, err
}

// compute is kstatus, which panics on members of unexpected types in a Pod's container statuses: what a
// cluster sends must not bring a process down.
func compute(u *unstructured.Unstructured) (result *status.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return status.Compute(u)
}

func notReady(message string) State { return State{Status: NotReady, Message: message} }

// typed is the object with its apiVersion and kind.
func typed(gvk schema.GroupVersionKind, object map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: object}
	if u.GroupVersionKind() == gvk {
		return u
	}
	u.Object = maps.Clone(object)
	u.SetGroupVersionKind(gvk)
	return u
}

// observed is the object with status.observedGeneration as a number, as kstatus needs it: Istio and Argo Rollouts have a text there. What is no number in
// such a text (Argo Rollouts had a hash) says nothing of the generation, and is left out.
func observed(u *unstructured.Unstructured) *unstructured.Unstructured {
	status, _ := u.Object["status"].(map[string]any)
	text, ok := status["observedGeneration"].(string)
	if !ok {
		return u
	}
	status = maps.Clone(status)
	if n, ok := generation(text); ok {
		status["observedGeneration"] = n
	} else {
		delete(status, "observedGeneration")
	}
	return withStatus(u, status)
}

// withStatus is the object with another status.
func withStatus(u *unstructured.Unstructured, status map[string]any) *unstructured.Unstructured {
	u = &unstructured.Unstructured{Object: maps.Clone(u.Object)}
	u.Object["status"] = status
	return u
}

// unconditioned is a custom resource without what it has in the place of conditions, such as a map, which kstatus cannot read: it says nothing that kstatus knows.
func unconditioned(u *unstructured.Unstructured) *unstructured.Unstructured {
	status, _ := u.Object["status"].(map[string]any)
	status = maps.Clone(status)
	delete(status, "conditions")
	return withStatus(u, status)
}

// halted begins the reason why an object is not ready with that somebody holds it up, "" for nobody: what kstatus says then is about Pods.
func halted(kind schema.GroupKind, object map[string]any) string {
	switch kind {
	case deploymentKind:
		if paused, _, _ := unstructured.NestedBool(object, "spec", "paused"); paused {
			return "the Deployment is paused: "
		}
	case jobKind:
		if suspended, _, _ := unstructured.NestedBool(object, "spec", "suspend"); suspended {
			return "the Job is suspended: "
		}
	}
	return ""
}

// generation is the number of one, which may be in a text; ok is false for anything else.
func generation(value any) (n int64, ok bool) {
	switch value := value.(type) {
	case int64:
		return value, true
	case string:
		n, err := strconv.ParseInt(value, 10, 64)
		return n, err == nil
	default:
		return 0, false
	}
}

// outdated says which of the conditions by which kstatus goes is of an earlier generation, "" for none: each condition may have a generation
// of its own, at which kstatus does not look. Kinds that it judges by more than Ready are left to it.
func outdated(u *unstructured.Unstructured) string {
	if u.GetGeneration() == 0 || u.GetDeletionTimestamp() != nil || status.GetLegacyConditionsFn(u) != nil {
		return ""
	}
	for _, kind := range []status.ConditionType{"Ready", status.ConditionReconciling, status.ConditionStalled} {
		c := condition(u.Object, string(kind))
		if kind != "Ready" && c["status"] != "True" { // which says nothing
			continue
		}
		if lacking := behind(u, c); lacking != "" {
			return lacking
		}
	}
	return ""
}

// behind says of a condition that it is of an earlier generation, "" when it is not, or does not say.
func behind(u *unstructured.Unstructured, c map[string]any) string {
	if of, ok := generation(c["observedGeneration"]); ok && of > 0 && of < u.GetGeneration() { // 0 is none
		return fmt.Sprintf("generation is %d, condition %v is of %d", u.GetGeneration(), c["type"], of)
	}
	return ""
}

// strict says of what is Current what it still lacks to be ready, "" for nothing.
var strict = map[schema.GroupKind]func(map[string]any) string{
	podKind:                              podLacks,
	{Kind: "Service"}:                    serviceLacks,
	jobKind:                              jobLacks,
	{Group: "apps", Kind: "StatefulSet"}: statefulSetLacks,
	{Kind: "ReplicationController"}:      replicationLacks,
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: autoscalerLacks,
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:   apiServiceLacks,
	{Group: gatewayAPI, Kind: "Gateway"}:                    gatewayLacks,
	{Group: gatewayAPI, Kind: "GatewayClass"}:               gatewayClassLacks,
	{Group: gatewayAPI, Kind: "HTTPRoute"}:                  routeLacks,
	{Group: gatewayAPI, Kind: "GRPCRoute"}:                  routeLacks,
	{Group: gatewayAPI, Kind: "TLSRoute"}:                   routeLacks,
	{Group: gatewayAPI, Kind: "TCPRoute"}:                   routeLacks,
	{Group: gatewayAPI, Kind: "UDPRoute"}:                   routeLacks,
}

var (
	podKind       = schema.GroupKind{Kind: "Pod"}
	jobKind       = schema.GroupKind{Group: "batch", Kind: "Job"}
	daemonSetKind = schema.GroupKind{Group: "apps", Kind: "DaemonSet"}

	deploymentKind = schema.GroupKind{Group: "apps", Kind: "Deployment"}
)

// ofCronJob says whether an object is a Job that a CronJob has made, or the Pod of one. A Pod names its Job alone: such a Job is called after the
// minute for which it was due, since 1970 (getJobName of Kubernetes' cronjob controller), of which there were 29 million in 2025. A date, by which people
// call Jobs, is less: 20261128.
func ofCronJob(kind schema.GroupKind, u *unstructured.Unstructured) bool {
	if kind != jobKind && kind != podKind {
		return false
	}
	controller := metav1.GetControllerOfNoCopy(u)
	switch {
	case controller == nil:
		return false
	case kind == jobKind:
		return controller.Kind == "CronJob"
	default:
		return controller.Kind == "Job" && minute.MatchString(controller.Name)
	}
}

var minute = regexp.MustCompile(`-(2[6-9]|[3-9]\d)\d{6}$`)

// replaced is an object as kstatus is to see it. Of a DaemonSet whose Pods people replace themselves it would ask that they have, which it does not
// of a StatefulSet.
func replaced(kind schema.GroupKind, u *unstructured.Unstructured) *unstructured.Unstructured {
	if kind != daemonSetKind {
		return u
	}
	if strategy, _, _ := unstructured.NestedString(u.Object, "spec", "updateStrategy", "type"); strategy != "OnDelete" {
		return u
	}
	status, _, _ := unstructured.NestedMap(u.Object, "status") // a copy
	if desired, ok := status["desiredNumberScheduled"]; ok {
		status["updatedNumberScheduled"] = desired
		return withStatus(u, status)
	}
	return u
}

// podLacks: to kstatus a Pod that failed has come to its end. Where a controller has made it that is the controller's affair: another
// Pod may have succeeded, or run, in its place.
func podLacks(pod map[string]any) string {
	phase, _, _ := unstructured.NestedString(pod, "status", "phase")
	labels, _, _ := unstructured.NestedMap(pod, "metadata", "labels")
	_, ofJob := labels["job-name"]
	_, ofBatchJob := labels["batch.kubernetes.io/job-name"]
	if phase == "Failed" && !ofJob && !ofBatchJob && metav1.GetControllerOfNoCopy(&unstructured.Unstructured{Object: pod}) == nil {
		return "Pod has failed"
	}
	return ""
}

// apiServiceLacks: kstatus does not know the condition by which an API server says that it reaches what serves the API.
func apiServiceLacks(service map[string]any) string {
	switch available := condition(service, "Available"); {
	case available == nil:
		return "API is not available yet"
	case available["status"] != "True":
		return fmt.Sprintf("API is not available: %v", available["message"])
	default:
		return ""
	}
}

// serviceLacks: to kstatus a load balancer's Service needs no address to be reached at.
func serviceLacks(service map[string]any) string {
	kind, _, _ := unstructured.NestedString(service, "spec", "type")
	if kind != "LoadBalancer" {
		return ""
	}
	addresses, _, _ := unstructured.NestedSlice(service, "spec", "externalIPs")
	ingress, _, _ := unstructured.NestedSlice(service, "status", "loadBalancer", "ingress")
	if len(addresses)+len(ingress) == 0 {
		return "load balancer has no address"
	}
	return ""
}

// statefulSetLacks: kstatus does not look at one whose Pods people replace themselves, to have the update's. They are to be ready all
// the same.
func statefulSetLacks(set map[string]any) string {
	strategy, _, _ := unstructured.NestedString(set, "spec", "updateStrategy", "type")
	wanted, found, _ := unstructured.NestedInt64(set, "spec", "replicas")
	if !found {
		wanted = 1
	}
	ready, _, _ := unstructured.NestedInt64(set, "status", "readyReplicas")
	if strategy == "OnDelete" && ready < wanted {
		return fmt.Sprintf("Ready: %d/%d", ready, wanted)
	}
	return ""
}

// replicationLacks: to kstatus a ReplicationController is Current whatever its Pods are.
func replicationLacks(controller map[string]any) string {
	wanted, found, _ := unstructured.NestedInt64(controller, "spec", "replicas")
	if !found {
		wanted = 1
	}
	if ready, _, _ := unstructured.NestedInt64(controller, "status", "readyReplicas"); ready < wanted {
		return fmt.Sprintf("Ready: %d/%d", ready, wanted)
	}
	return ""
}

// conditionsV1 is the annotation with the conditions of a HorizontalPodAutoscaler of autoscaling/v1, which up to Kubernetes 1.23 is the version that is preferred.
const conditionsV1 = "autoscaling.alpha.kubernetes.io/conditions"

// autoscalerLacks: to kstatus a HorizontalPodAutoscaler is Current though it cannot scale. One whose target has been scaled to none is switched off on
// purpose.
func autoscalerLacks(autoscaler map[string]any) string {
	conditions, found, _ := unstructured.NestedSlice(autoscaler, "status", "conditions")
	if !found {
		text, _, _ := unstructured.NestedString(autoscaler, "metadata", "annotations", conditionsV1)
		if err := json.Unmarshal([]byte(text), &conditions); err != nil { // there are none yet, or somebody else has written it
			conditions = nil
		}
	}
	for _, kind := range []string{"AbleToScale", "ScalingActive"} {
		c := conditionIn(conditions, kind)
		if c["status"] == "False" && c["reason"] != "ScalingDisabled" {
			return fmt.Sprintf("%s: %v", kind, c["message"])
		}
	}
	return ""
}

// jobLacks: to kstatus a Job that has started is Current.
func jobLacks(job map[string]any) string {
	if condition(job, "Complete")["status"] != "True" {
		return "Job has not completed"
	}
	return ""
}

// condition is the one of a type that an object has, nil for none.
func condition(object map[string]any, kind string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(object, "status", "conditions")
	return conditionIn(conditions, kind)
}

// conditionIn is the one of a type among some, nil for none.
func conditionIn(conditions []any, kind string) map[string]any {
	for _, c := range conditions {
		if found, _ := c.(map[string]any); found["type"] == kind {
			return found
		}
	}
	return nil
}
