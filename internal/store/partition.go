package store

import (
	"fmt"
	"hash/fnv"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/internal/domain"
)

// partitions is into how many collections leaves and blobs are divided. The embedded database reads a
// whole collection for every query but an insert or one by _id, so that without it the status of one context would cost
// as much as all contexts there ever were. To MongoDB, which has the index on _id, it makes no difference.
// The number decides where stored data is looked for: whoever changes it, or the one below, moves what is stored (decision 0053).
const partitions = 64

// fewPartitions is the same for what is mostly asked for by _id. The embedded database goes over the names of all collections for
// each query, so that more of them cost all.
const fewPartitions = 16

// divided are the collections that are divided, with the number of their parts.
var divided = map[string]uint32{
	leavesName: partitions, headsName: partitions, chunksName: partitions,
	observationsName: fewPartitions, observedChunksName: fewPartitions, changesName: fewPartitions,
	workloadsName: fewPartitions, matchesName: fewPartitions,
}

// partition is the part of a divided collection that holds everything with the key.
func (s *Store) partition(collection, key string) *mongo.Collection {
	h := fnv.New32a()
	h.Write([]byte(key))
	return s.part(collection, h.Sum32()%divided[collection])
}

func (s *Store) part(collection string, n uint32) *mongo.Collection {
	return s.db.Collection(partName(collection, n))
}

func partName(collection string, n uint32) string { return fmt.Sprintf("%s-%02d", collection, n) }

// undivided is the name of what a collection is a part of, its own when it is none.
func undivided(name string) string {
	if n := len(name) - len("-00"); n > 0 && divided[name[:n]] > 0 {
		return name[:n]
	}
	return name
}

// leaves are divided by context: all of a context's are in one collection.
func (s *Store) leaves(contextID string) *mongo.Collection { return s.partition(leavesName, contextID) }

// heads and chunks of blobs are divided by digest.
func (s *Store) heads(d domain.Digest) *mongo.Collection  { return s.partition(headsName, string(d)) }
func (s *Store) chunks(d domain.Digest) *mongo.Collection { return s.partition(chunksName, string(d)) }

const (
	leavesName = "leaves"
	headsName  = "blobs"
	chunksName = "blob-chunks"
)
