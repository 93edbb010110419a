package combined

import "github.com/drover-io/drover/internal/combine"

// Size is what the set takes in memory: between half and twice of it.
func (s *Set) Size() (n int64) {
	const perObject, perByte, perTarget, perPrint, perInput, perRow = 1 << 10, 4, 100, 90, 170, 60
	for _, e := range s.objects {
		n += perObject + perByte*e.size + perPrint*int64(len(e.prints)) + e.bytes
	}
	for _, a := range s.apps {
		n += perTarget * int64(len(a.goes))
	}
	for _, i := range s.items {
		n += perInput*int64(len(i.inputs.clusters)) + perRow*int64(i.inputs.rows)
		for t := range i.tables {
			if rows := i.tables[t].rows; rows != nil {
				n += rows.Size()
			}
			if again := i.tables[t].again; again != nil {
				n += again.Size()
			}
		}
	}
	return n
}

// state is what a cluster says of an object whose status is asked for.
type state struct {
	combine.Reported
	bytes int64 // that it takes in memory
}

// stateOf is that of a row. It keeps no more of the object than combine.Aggregate looks at.
func stateOf(in *Input) state {
	const perState = 250
	p := &in.Propagation
	s := state{bytes: perState, Reported: combine.Reported{
		Cluster: in.Cluster, Stale: p.Stale, Summarised: p.Summarised, Gone: p.Reported && !p.Present && !p.Stale,
	}}
	if in.Returned == nil {
		return s
	}
	if s.Status, _ = in.Returned["status"].(map[string]any); s.Status == nil {
		s.Status = map[string]any{}
	}
	if spec, ok := in.Returned["spec"].(map[string]any); ok {
		s.Spec = map[string]any{"replicas": spec["replicas"]}
	}
	metadata, _ := in.Returned["metadata"].(map[string]any)
	s.Generation, _ = metadata["generation"].(int64)
	s.bytes += sizeOf(s.Status) + sizeOf(s.Spec)
	return s
}

// sizeOf is what a value of combine.Decode takes in memory, about.
func sizeOf(v any) (n int64) {
	const word, perMap, few, perEntry = 8, 360, 8, 60
	switch v := v.(type) {
	case map[string]any:
		switch {
		case len(v) == 0:
			return few * word
		case len(v) <= few:
			n = perMap
		default:
			n = perEntry * int64(len(v))
		}
		for name, member := range v {
			n += word + int64(len(name)) + sizeOf(member)
		}
		return n
	case []any:
		n = 3 * word
		for _, item := range v {
			n += 2*word + sizeOf(item)
		}
		return n
	case string:
		return 2*word + int64(len(v))
	default:
		return word
	}
}
