package status

import "github.com/drover-io/drover/internal/domain"

// EMCO's words, as documents that tests read back have them.
type ClusterState = clusterState

const (
	ClusterPresent    = clusterPresent
	ClusterNotPresent = clusterNotPresent
	ClusterUnknown    = clusterUnknown
	ClusterReady      = clusterReady
	ClusterNotReady   = clusterNotReady
)

// HasSubject says whether the documents of an owner have a form.
func HasSubject(n *domain.Noun) bool {
	_, ok := subjects[Subject(n.Owner.Document)]
	return ok
}
