package api

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNegotiate(t *testing.T) {
	t.Parallel()
	const html, plain, object = "text/html", "text/plain", "application/json"
	for name, c := range map[string]struct {
		accept, offers []string
		want           string
	}{
		"no header takes the first":                        {nil, []string{object, html}, object},
		"a wildcard takes the first":                       {[]string{"*/*"}, []string{object, html}, object},
		"the greatest weight wins":                         {[]string{"application/json;q=0.5, text/html"}, []string{object, html}, html},
		"the header's order decides between equal weights": {[]string{"text/html, application/json"}, []string{object, html}, html},
		"so it does over a wildcard":                       {[]string{"text/html", "*/*"}, []string{object, html}, html},
		"what is refused by name is not taken by */*":      {[]string{"text/html;q=0, */*"}, []string{html}, ""},
		"nor where */* comes first":                        {[]string{"*/*, text/html;q=0"}, []string{html, object}, object},
		"nor by its group":                                 {[]string{"text/html;q=0, text/*"}, []string{html, plain}, plain},
		"a group is refused but for what is named":         {[]string{"text/*;q=0, text/plain;q=0.1"}, []string{html, plain}, plain},
		"a wildcard has less weight than its words":        {[]string{"*/*;q=0.9, text/html;q=0.1"}, []string{html, object}, object},
		"what is there twice has its greater weight":       {[]string{"text/html;q=0, text/html;q=0.5"}, []string{html}, html},
		"a range that cannot be read is skipped":           {[]string{"text/html;q=x, */*;q=0.2"}, []string{html}, html},
		"nothing is accepted":                              {[]string{"image/png"}, []string{html, object}, ""},
	} {
		got, ok := negotiate(c.accept, c.offers)
		require.Equal(t, c.want, got, name)
		require.Equal(t, c.want != "", ok, name)
	}
}
