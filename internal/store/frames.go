package store

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/drover-io/drover/internal/domain"
)

// frames find single objects in the bodies of an observation. Only frames that are asked for are read and decoded.
type frames struct {
	ctx     context.Context // of who reads the observation
	store   *Store
	of      *observation
	offsets []int // of the objects in the whole, not compressed, and of what follows the last one

	mu      sync.Mutex
	decoded map[int][]byte
}

// framesOf is nil where it is not known which object is where.
func (s *Store) framesOf(ctx context.Context, o *observation, resources []domain.ObservedResource) *frames {
	if len(o.Bodies.Frames) == 0 {
		return nil
	}
	f := &frames{ctx: ctx, store: s, of: o, offsets: make([]int, len(resources)+1), decoded: map[int][]byte{}}
	at := 1 // after the bracket
	for i := range resources {
		f.offsets[i] = at
		at += resources[i].Size + 1 // the comma, or the bracket at the end
	}
	f.offsets[len(resources)] = at
	return f
}

// object is the JSON of one; false when it is not there: the observation was replaced meanwhile, or is damaged.
func (f *frames) object(index int) (json.RawMessage, bool) {
	from, to := f.offsets[index], f.offsets[index+1]-1
	begins := 0
	for n, frame := range f.of.Bodies.Frames {
		if from >= begins+frame.Raw {
			begins += frame.Raw
			continue
		}
		data, ok := f.frame(n)
		from, to = from-begins, to-begins
		if !ok || from > to || to > len(data) {
			return nil, false
		}
		return data[from:to:to], true
	}
	return nil, false
}

func (f *frames) frame(n int) ([]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if data, ok := f.decoded[n]; ok {
		return data, true
	}
	all := f.of.Bodies.Frames
	from := 0
	for _, before := range all[:n] {
		from += before.Packed
	}
	packed, ok := f.packed(from, from+all[n].Packed)
	if !ok {
		return nil, false
	}
	parts, _, err := f.store.keys.PartsOf(f.of.Names.Data)
	if err != nil {
		return nil, false
	}
	compressed, err := parts.Open(observedPlace(f.of, bodiesPart, n), packed)
	if err != nil {
		return nil, false
	}
	data, err := decoder.DecodeAll(compressed, nil)
	if err != nil || len(data) != all[n].Raw {
		return nil, false
	}
	f.decoded[n] = data
	return data, true
}

// packed is a part of the compressed whole: of its place, or of the chunks that have it.
func (f *frames) packed(from, to int) ([]byte, bool) {
	p := &f.of.Bodies
	if p.Chunks == 0 {
		if to > len(p.Data) {
			return nil, false
		}
		return p.Data[from:to], true
	}
	deployment, _, _ := strings.Cut(f.of.ID, "/")
	var found []byte
	for i := from / observedChunk; i*observedChunk < to; i++ {
		var chunk observedChunkDoc
		if err := f.store.findOne(f.ctx, f.store.observedChunks(deployment), chunkOf(f.of.ID, f.of.Upload, bodiesPart, i), &chunk); err != nil {
			return nil, false // who reads the whole is told why
		}
		first := i * observedChunk
		begin, end := max(from-first, 0), min(to-first, len(chunk.Data))
		if begin > end {
			return nil, false
		}
		found = append(found, chunk.Data[begin:end]...)
	}
	return found, true
}
