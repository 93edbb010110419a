package domain

import "time"

// TenantStream is what is known of the last stream by which a tenant's cluster told of its workloads.
type TenantStream struct {
	Since time.Time `bson:"since"`           // when it began
	Ended time.Time `bson:"ended,omitempty"` // zero as long as it goes on
	// Settled says that all that was received is stored, and all that follows from it.
	Settled bool `bson:"settled"`
	// LeftOut are workloads that were said and not taken, the first of LeftOutCount.
	LeftOut      []LeftOut `bson:"leftOut"`
	LeftOutCount int       `bson:"leftOutCount"`
	// Connected says that it goes on, by the pulse of the process that reads it. It is not stored.
	Connected bool `bson:"-"`
}

// LeftOut is a workload that was said and not taken.
type LeftOut struct {
	ID     string `json:"id" bson:"id"`         // the workload's, cut when it is long
	Name   string `json:"name" bson:"name"`     // namespace/name, as far as it was said
	Reason string `json:"reason" bson:"reason"` // why it was left out
}
