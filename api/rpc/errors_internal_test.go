package rpc

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
)

// inHeader is how many bytes a text has in the header of an answer: gRPC's protocol has each byte that is not in 0x20 to 0x7e, and each percent
// sign, as a percent sign and two digits.
func inHeader(s string) (size int) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			size += 2
		}
		size++
	}
	return size
}

// TestTextsAreCutByWhatTheyTake in the header, whatever they are written in.
func TestTextsAreCutByWhatTheyTake(t *testing.T) {
	for name, letter := range map[string]string{"ASCII": "x", "accents": "é", "another script": "字", "percent": "%", "a control character": "\n", "no text": "\xff"} {
		t.Run(name, func(t *testing.T) {
			said := toStatus(fail.New(fail.Invalid, "%s", "spec: "+strings.Repeat(letter, 2*maxText))).Message()
			require.LessOrEqual(t, inHeader(said), maxText+inHeader("…"))
			require.True(t, strings.HasPrefix(said, "spec: "))
			if letter != "\xff" { // which is one that is none, however many there are
				require.Greater(t, inHeader(said), maxText-12, "no more is cut than has to be")
				require.True(t, strings.HasSuffix(said, letter+"…"))
			}
		})
	}
	short := "tenant \"é%\" not found"
	require.Equal(t, short, toStatus(fail.New(fail.NotFound, "%s", short)).Message())
}
