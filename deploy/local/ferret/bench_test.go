package ferret_test

import (
	"bytes"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// BenchmarkOperations shows what single calls cost in collections of different
// sizes: by _id the same in each, by anything else in proportion.
func BenchmarkOperations(b *testing.B) {
	for _, size := range []int{100, 1_000, 10_000} {
		c := collection(b)
		insert(b, c, size)
		ctx := b.Context()
		n := 0
		next := func() string { n++; return id(n * 37 % size) }

		for _, op := range []struct {
			name string
			do   func() error
		}{
			{"find by _id", func() error { return c.FindOne(ctx, bson.M{"_id": next()}).Err() }},
			{"find 100 by range of _id", func() error {
				cursor, err := c.Find(ctx, below("/p/0000"))
				if err != nil {
					return err
				}
				var found []bson.Raw
				return cursor.All(ctx, &found)
			}},
			{"update by _id", func() error {
				_, err := c.UpdateOne(ctx, bson.M{"_id": next()}, bson.M{"$inc": bson.M{"n": 1}})
				return err
			}},
			{"update by _id and revision", func() error {
				_, err := c.UpdateOne(ctx, bson.M{"_id": next(), "revision": 1}, bson.M{"$inc": bson.M{"n": 1}})
				return err
			}},
			{"upsert by _id", func() error { return replace(ctx, c, next()) }},
			{"50 upserts by _id", func() error {
				models := make([]mongo.WriteModel, 50)
				for i := range models {
					models[i] = mongo.NewReplaceOneModel().SetFilter(bson.M{"_id": next()}).SetReplacement(bson.M{"n": i}).SetUpsert(true)
				}
				_, err := c.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
				return err
			}},
		} {
			b.Run(fmt.Sprintf("%s/of=%d", op.name, size), func(b *testing.B) {
				for b.Loop() {
					if err := op.do(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkInserts shows what new documents cost.
func BenchmarkInserts(b *testing.B) {
	for _, size := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("documents=%d", size), func(b *testing.B) {
			c := collection(b)
			n := 0
			for b.Loop() {
				documents := make([]bson.M, size)
				for i := range documents {
					documents[i] = bson.M{"_id": n, "spec": bson.M{"n": i}}
					n++
				}
				if _, err := c.InsertMany(b.Context(), documents); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n), "µs/document")
		})
	}
}

// BenchmarkBlob writes and reads a document of a mebibyte of binary data.
func BenchmarkBlob(b *testing.B) {
	c := collection(b)
	data := bytes.Repeat([]byte{1, 2, 3, 4}, 1<<18)
	n := 0
	for b.Loop() {
		n++
		if _, err := c.InsertOne(b.Context(), bson.M{"_id": id(n), "data": data}); err != nil {
			b.Fatal(err)
		}
		if err := c.FindOne(b.Context(), bson.M{"_id": id(n)}).Err(); err != nil {
			b.Fatal(err)
		}
	}
}
