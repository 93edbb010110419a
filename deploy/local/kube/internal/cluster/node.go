package cluster

import (
	"fmt"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/version"
)

// NodeName is the name of a cluster's node; nodes are counted from 0. It begins
// with the cluster's name, so that nobody mistakes one cluster's node for
// another's.
func NodeName(clusterName string, index int) string {
	return fmt.Sprintf("%s-node-%d", clusterName, index+1)
}

// Node returns a simulated node that is big enough to never be what a test runs
// out of. kwok adds what the kubelet would report.
func Node(clusterName string, index int) *corev1.Node {
	name := NodeName(clusterName, index)
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("64"),
		corev1.ResourceMemory:           resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             resource.MustParse("5000"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname:   name,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: runtime.GOARCH,
			},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity,
			NodeInfo: corev1.NodeSystemInfo{
				OperatingSystem: "linux",
				Architecture:    runtime.GOARCH,
				KubeletVersion:  version.Get().GitVersion,
			},
		},
	}
}
