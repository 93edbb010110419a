package status

// EMCO's words, as documents that tests read back have them.
type ClusterState = clusterState

const (
	ClusterPresent    = clusterPresent
	ClusterNotPresent = clusterNotPresent
	ClusterUnknown    = clusterUnknown
	ClusterReady      = clusterReady
	ClusterNotReady   = clusterNotReady
)
