package access

import "time"

// Seen is what a cluster is like with a credential.
type Seen struct {
	Version string        // of its Kubernetes, such as v1.34.1, "" where it does not tell
	Latency time.Duration // of a small request, the middle one of three
	Needed  int           // how many rights there were to be
	// Lacks are those of them that the credential does not have, such as "delete apps/*". Unknown says why that cannot be told, "" where
	// it can.
	Lacks   []string
	Unknown string
}
