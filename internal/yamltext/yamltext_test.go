package yamltext_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/drover-io/drover/internal/yamltext"
)

func TestKeep(t *testing.T) {
	const object = "{day: 2024-01-15, at: [2024-01-15 10:00:00, {2024-01-16: 1}], tagged: !!timestamp 2024-01-15, quoted: '2024-01-15', number: 0x10, yes: true, none: ~, absent: }"
	for want, c := range map[string]struct {
		text string
		keep func(*yaml.Node)
	}{
		`{"absent":null,"at":["2024-01-15 10:00:00",{"2024-01-16":1}],"day":"2024-01-15","none":null,"number":16,"quoted":"2024-01-15","tagged":"2024-01-15T00:00:00Z","yes":true}`: {
			object, yamltext.KeepDates,
		},
		`{"absent":null,"day":"2024-01-15","deep":{"a":1},"list":[1],"none":null,"number":"0x10","same":"5","yes":"true"}`: {
			"{day: 2024-01-15, number: 0x10, yes: true, none: ~, absent: , same: &s 5, deep: {a: 1}, list: [1]}", yamltext.Keep,
		},
		`"007"`: {"007", yamltext.Keep},
		`[1]`:   {"[1]", yamltext.Keep},
	} {
		var document yaml.Node
		require.NoError(t, yaml.Unmarshal([]byte(c.text), &document))
		c.keep(document.Content[0])
		var v any
		require.NoError(t, document.Decode(&v))
		got, err := json.Marshal(v)
		require.NoError(t, err)
		require.JSONEq(t, want, string(got))
	}
}
