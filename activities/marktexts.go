package activities

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
)

// MarkTexts are the marks of many clusters, encoded. An update of which resources change here and there has long ones, most of them the same: those of 250
// clusters may have more than a payload of Temporal. As JSON they are a list, or, where that is large, the list compressed. A worker of v0.1.0
// cannot read that one, and fails the app: it would take clusters without marks for new ones.
type MarkTexts []string

// largeMarks is from how many bytes on marks are compressed.
const largeMarks = 512 << 10

// MarshalJSON implements json.Marshaler.
func (m MarkTexts) MarshalJSON() ([]byte, error) {
	size := 0
	for _, text := range m {
		size += len(text)
	}
	plain, err := json.Marshal([]string(m))
	if err != nil || size < largeMarks {
		return plain, err
	}
	var small bytes.Buffer
	w, err := flate.NewWriter(&small, flate.DefaultCompression)
	if err != nil {
		return nil, fmt.Errorf("compress marks: %w", err)
	}
	if _, err := w.Write(plain); err != nil {
		return nil, fmt.Errorf("compress marks: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress marks: %w", err)
	}
	return json.Marshal(small.Bytes())
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *MarkTexts) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte{'"'}) {
		var small []byte
		if err := json.Unmarshal(data, &small); err != nil {
			return fmt.Errorf("read marks: %w", err)
		}
		var err error
		if data, err = io.ReadAll(flate.NewReader(bytes.NewReader(small))); err != nil {
			return fmt.Errorf("decompress marks: %w", err)
		}
	}
	return json.Unmarshal(data, (*[]string)(m))
}
