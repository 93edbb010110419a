package store_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// noise cannot be compressed.
func noise(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(data)
	return data
}

// shared is a database that several stores of a test are connected to.
func shared(t testing.TB) store.Config {
	return storetest.Config(t)
}

func TestBlobsComeBackAsTheyWere(t *testing.T) {
	c := shared(t)
	for name, data := range map[string][]byte{
		"nothing":                 {},
		"a byte":                  {7},
		"text":                    []byte("kind: ConfigMap"),
		"one chunk":               noise(8<<20 - 4096),
		"larger than a document":  noise(17 << 20),
		"large but very regular":  bytes.Repeat([]byte("kind: ConfigMap\n"), 2<<20),
		"larger than the cache's": noise(100 << 10),
	} {
		t.Run(name, func(t *testing.T) {
			c := c
			c.Cache = 150 << 10
			writer, reader := storetest.Open(t, c), storetest.Open(t, c)
			digest, err := writer.PutBlob(t.Context(), data)
			require.NoError(t, err)
			again, err := writer.PutBlob(t.Context(), data)
			require.NoError(t, err)
			require.Equal(t, digest, again)
			for _, from := range []string{"the database", "memory, where it fits"} {
				got, err := reader.Blob(t.Context(), digest)
				require.NoError(t, err, from)
				require.True(t, bytes.Equal(data, got), from)
			}
		})
	}
}

// Many blobs are stored in a few requests, whatever of them is there, is large, is given twice or comes from somebody else at
// the same time.
func TestManyBlobs(t *testing.T) {
	c := shared(t)
	s := storetest.Open(t, c)
	var data [][]byte
	for i := range 300 {
		data = append(data, fmt.Appendf(nil, "overlay %d", i))
	}
	data = append(data, data[7], noise(9<<20), nil)
	first, err := s.PutBlob(t.Context(), data[3])
	require.NoError(t, err)
	var wg sync.WaitGroup
	digests, errs := make([][]domain.Digest, 3), make([]error, 3)
	for i := range digests {
		wg.Go(func() { digests[i], errs[i] = s.PutBlobs(t.Context(), data) })
	}
	wg.Wait()
	for i := range digests {
		require.NoError(t, errs[i])
		require.Equal(t, digests[0], digests[i])
	}
	require.Equal(t, first, digests[0][3])
	reader := storetest.Open(t, c)
	for i, digest := range digests[0] {
		got, err := reader.Blob(t.Context(), digest)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data[i], got))
	}
	none, err := s.PutBlobs(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestABlobThatIsNotThere(t *testing.T) {
	_, err := open(t).Blob(t.Context(), domain.Digest("00"))
	requireKind(t, err, fail.NotFound)
}

func TestBlobsThatArePutTogetherAreOne(t *testing.T) {
	c := shared(t)
	s, raw := storetest.Open(t, c), rawDatabase(t, c)
	data := noise(9 << 20)
	var wg sync.WaitGroup
	digests, errs := make([]domain.Digest, 4), make([]error, 4)
	for i := range digests {
		wg.Go(func() { digests[i], errs[i] = s.PutBlob(t.Context(), data) })
	}
	wg.Wait()
	for i := range digests {
		require.NoError(t, errs[i])
		require.Equal(t, digests[0], digests[i])
	}
	got, err := s.Blob(t.Context(), digests[0])
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
	require.EqualValues(t, 2, count(t, raw, "blob-chunks"), "the slower ones take theirs back")
}

func TestDamageIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		size   int
		damage func(t *testing.T, db *mongo.Database)
	}{
		"a chunk is missing": {9 << 20, func(t *testing.T, db *mongo.Database) {
			remove(t, db, "blob-chunks")
		}},
		"other data": {10, func(t *testing.T, db *mongo.Database) {
			for _, c := range parts(t, db, "blobs") {
				_, err := c.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "data", Value: []byte("x")}}}})
				require.NoError(t, err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			config := shared(t)
			digest, err := storetest.Open(t, config).PutBlob(t.Context(), noise(c.size))
			require.NoError(t, err)
			c.damage(t, rawDatabase(t, config))
			_, err = storetest.Open(t, config).Blob(t.Context(), digest)
			requireKind(t, err, fail.Internal)
			require.Contains(t, fail.TextOf(err), string(digest))
		})
	}
}

func TestSweepRemovesWhatNobodyWants(t *testing.T) {
	c := shared(t)
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	c.Now = func() time.Time { return now }
	s, raw := storetest.Open(t, c), rawDatabase(t, c)
	put := func(data []byte) domain.Digest {
		digest, err := s.PutBlob(t.Context(), data)
		require.NoError(t, err)
		return digest
	}
	kept, unwanted, again, large := put([]byte("kept")), put([]byte("unwanted")), put([]byte("again")), put(noise(9<<20))
	headless := put(noise(9<<20 + 1)) // as a crash before the head would leave it
	for _, c := range parts(t, raw, "blobs") {
		_, err := c.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: headless}})
		require.NoError(t, err)
	}
	sweep := func() int {
		removed, err := s.SweepBlobs(t.Context(), func(d domain.Digest) bool { return d == kept }, 3*time.Hour)
		require.NoError(t, err)
		return removed
	}
	require.Zero(t, sweep(), "all are young")
	require.EqualValues(t, 4, count(t, raw, "blob-chunks"))

	now = now.Add(3*time.Hour + time.Minute)
	put([]byte("again"))
	fresh := put([]byte("fresh"))
	require.Equal(t, 2, sweep())
	require.Zero(t, count(t, raw, "blob-chunks"))
	for digest, there := range map[domain.Digest]bool{kept: true, again: true, fresh: true, unwanted: false, large: false} {
		_, err := s.Blob(t.Context(), digest)
		if there {
			require.NoError(t, err)
		} else {
			requireKind(t, err, fail.NotFound)
		}
	}
	require.Equal(t, unwanted, put([]byte("unwanted")), "it can come back")
	_, err := s.Blob(t.Context(), unwanted)
	require.NoError(t, err)
}

// rawDatabase is a connection without the store, to do and see what no store does.
func rawDatabase(t testing.TB, c store.Config) *mongo.Database {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(c.URI))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Disconnect(context.WithoutCancel(t.Context()))) })
	return client.Database(c.Database)
}

// parts are the collections that a collection is divided into.
func parts(t testing.TB, db *mongo.Database, name string) []*mongo.Collection {
	t.Helper()
	names, err := db.ListCollectionNames(t.Context(), bson.D{})
	require.NoError(t, err)
	var found []*mongo.Collection
	for _, n := range names {
		if len(n) == len(name)+3 && n[:len(name)+1] == name+"-" {
			found = append(found, db.Collection(n))
		}
	}
	return found
}

func count(t testing.TB, db *mongo.Database, name string) (n int64) {
	t.Helper()
	for _, c := range parts(t, db, name) {
		k, err := c.CountDocuments(t.Context(), bson.D{})
		require.NoError(t, err)
		n += k
	}
	return n
}

func remove(t testing.TB, db *mongo.Database, name string) {
	t.Helper()
	for _, c := range parts(t, db, name) {
		_, err := c.DeleteMany(t.Context(), bson.D{})
		require.NoError(t, err)
	}
}

func BenchmarkBlobs(b *testing.B) {
	for _, size := range []int{4 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("put and read %d KiB", size>>10), func(b *testing.B) {
			c := shared(b)
			c.Cache = 1 // nothing stays
			s, data := storetest.Open(b, c), noise(size)
			b.SetBytes(int64(size))
			for n := 0; b.Loop(); n++ {
				data[0], data[1], data[2] = byte(n), byte(n>>8), byte(n>>16)
				digest, err := s.PutBlob(b.Context(), data)
				require.NoError(b, err)
				_, err = s.Blob(b.Context(), digest)
				require.NoError(b, err)
			}
		})
	}
}
