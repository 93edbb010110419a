package combine

import (
	"encoding/json"
	"time"
)

// TableTime is how long a whole table may take.
const TableTime = 10 * time.Second

// Decode reads an object from JSON as rows need it: whole numbers as int64, those that do not fit as uint64 or json.Number, others
// as float64. No bytes, and the JSON null, are a nil object.
func Decode(data json.RawMessage) (map[string]any, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var object map[string]any
	err := json.Unmarshal(data, &object)
	return object, err
}
