package cluster

import (
	_ "embed"
	"strings"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodeheartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

var (
	//go:embed stages/pods.yaml
	podStages string
	//go:embed stages/volumes.yaml
	volumeStages string
)

// kwokStages is the content of the file that tells kwok through which stages it
// takes objects: nodes become and stay Ready; pods become and stay Ready,
// those of Jobs succeed, and deleted ones vanish; claims get volumes. All without delay.
func kwokStages() []byte {
	return []byte(strings.Join([]string{
		nodefast.DefaultNodeInit,
		nodeheartbeat.DefaultNodeHeartbeat,
		podfast.DefaultPodReady,
		podfast.DefaultPodComplete,
		podfast.DefaultPodDelete,
		podStages,
		volumeStages,
	}, "---\n"))
}
