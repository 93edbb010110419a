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
	// Token is Stream.Token, which is stored beside it.
	Token string `bson:"-"`
}

// LeftOut is a workload that was said and not taken.
type LeftOut struct {
	ID     string `json:"id" bson:"id"`         // the workload's, cut when it is long
	Pod    string `json:"pod" bson:"pod"`       // namespace/name, as far as it was said
	Reason string `json:"reason" bson:"reason"` // why it was left out
}

// Stream is a stream of a tenant that has begun.
type Stream struct {
	Tenant string
	Token  string // no other stream has it
	// Begun is what the ledger of workloads knows of it, see WorkloadWrite.
	Begun int64
	// LeftOut and LeftOutCount are those of TenantStream of the one before, which stand until this one says otherwise.
	LeftOut      []LeftOut
	LeftOutCount int
	// Unsettled says that the one before was not settled: what follows from what it said may not be stored, and nobody but this
	// one sees to that.
	Unsettled bool
}

// WorkloadWrite is what a stream says of a tenant's workloads, to be stored all at once.
type WorkloadWrite struct {
	Begun  int64       // of the stream that says it
	Put    []*Workload // new ones, and new states of those there are; of one that is there twice the last one counts
	Delete []string    // the ids of those that are gone
	// Whole says that Put and Keep are all that there are: others go.
	Whole bool
	Keep  []string // ids that are there as well: they stay as they are stored, but that they are not held or gone any more
	// Guard holds the deletions of a Whole that would take more than so many percent of what is there; 0 holds none.
	Guard int
	// Gone is what those that go are marked with, to be removed later; zero removes them now.
	Gone time.Time
	// Count and Bytes bound what a tenant may have: what is put beyond them is left out.
	Count int
	Bytes int64
}

// WorkloadsWritten is what came of a WorkloadWrite.
type WorkloadsWritten struct {
	Changed []string        // the ids of those that are not as before, sorted
	Over    []string        // the ids of those that were left out since there are too many, or they are too large; sorted
	Held    []string        // the ids of those that stay since Guard holds their deletion, sorted
	Count   int             // how many there are now
	Lacks   map[string]Room // what there was not for those of Over
}

// Room is what a workload takes of what a tenant may have.
type Room struct {
	Count int   // 0 for one that is there, in another state
	Bytes int64 // more than it has
}
