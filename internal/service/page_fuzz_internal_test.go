package service

import (
	"net/url"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
)

// FuzzContinue: whatever says where to go on, it is a place as a page before has said it, or the refusal names the parameter.
func FuzzContinue(f *testing.F) {
	for _, seed := range []string{"", "YQ", "YQ==", "YR", "Y\nQ", "_w", "AAAA", "!"} {
		f.Add(seed, "10")
	}
	f.Add("YQ", "0")
	f.Add("YQ", "1e3")
	f.Fuzz(func(t *testing.T, at, most string) {
		v := url.Values{"continue": {at}, "limit": {most}}
		limit, place, err := pageAsked(v, ofParts(1))
		if err != nil {
			require.True(t, fail.Is(err, fail.Invalid), "%v", err)
			require.Regexp(t, "Invalid query (continue|limit)", fail.TextOf(err))
			return
		}
		require.True(t, limit >= 1 && limit <= maxLimit)
		require.True(t, utf8.ValidString(place))
		require.Equal(t, at, goOn(place))
		page, next, err := pageOf([]string{"", "a", "b", "c"}, v, ofParts(1), func(s string) string { return s })
		require.NoError(t, err)
		require.True(t, len(page) <= limit)
		for _, one := range page {
			require.True(t, place == "" || one > place)
		}
		if next != "" {
			require.Equal(t, goOn(page[len(page)-1]), next)
		}
	})
}
