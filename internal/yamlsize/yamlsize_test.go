package yamlsize_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/yamlsize"
)

func TestCheck(t *testing.T) {
	doubled := "a0: &a0 [x, x]\n"
	for i := range 40 {
		doubled += strings.NewReplacer("N", string(rune('a'+i%26))+strings.Repeat("z", i/26), "P", map[bool]string{true: "a0", false: string(rune('a'+(i+25)%26)) + strings.Repeat("z", max(i-1, 0)/26)}[i == 0]).
			Replace("N: &N [*P, *P]\n")
	}
	for name, c := range map[string]struct {
		text string
		ok   bool
	}{
		"nothing":             {"", true},
		"an object":           {"a: 1\nb: [1, 2]\n", true},
		"JSON":                {`{"a": {"b": "c"}}`, true},
		"a few aliases":       {"a: &x {b: c}\nd: *x\ne: {<<: *x}\n", true},
		"no YAML":             {"a: [", true},
		"text of that size":   {"a: " + strings.Repeat("x", 990), true},
		"larger text":         {"a: " + strings.Repeat("x", 1000), false},
		"two documents":       {"a: " + strings.Repeat("x", 600) + "\n---\nb: " + strings.Repeat("x", 600), false},
		"one text many times": {"a: &a " + strings.Repeat("x", 100) + "\nb: [" + strings.Repeat("*a, ", 20) + "]\n", false},
		"doubled":             {doubled, false},
		"itself":              {"a: &a [*a]\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := yamlsize.Check([]byte(c.text), 1000)
			if c.ok {
				require.NoError(t, err)
				return
			}
			require.Equal(t, fail.Invalid, fail.KindOf(err), "%v", err)
		})
	}
}

func TestMarks(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "a-b c#d?e": 0, "a: 1\nb: [1, 2]\n": 4, "-\n- - x\n": 3, `{"a":1,"b":{}}`: 5, "# x\na: b # y\n": 3, "? a\n-": 2, "---\n---\n": 2,
	} {
		require.Equal(t, want, yamlsize.Marks([]byte(text)), text)
	}
}
