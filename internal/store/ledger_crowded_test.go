package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhenALedgerIsCrowded(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		book    known
		crowded bool
	}{
		"a new one":                         {known{later: 3, since: 900}, false},
		"a first sync":                      {known{later: 2, since: 20 * mib}, true},
		"few changes of a small one":        {known{whole: 10 << 10, later: wholeAfter - 1, since: 60 << 10}, false},
		"as many of it as may be":           {known{whole: 10 << 10, later: wholeAfter, since: 60 << 10}, true},
		"small changes of a large one":      {known{whole: 20 * mib, later: wholeAfter, since: 60 << 10}, false},
		"so many that it takes long":        {known{whole: 20 * mib, later: wholeMost, since: 400 << 10}, true},
		"so many that they have a part":     {known{whole: 20 * mib, later: wholeAfter, since: 20 * mib / wholePart}, true},
		"few large changes of a large one":  {known{whole: 20 * mib, later: 10, since: 10 * mib}, false},
		"as many bytes as the whole one":    {known{whole: 20 * mib, later: 10, since: 20*mib + 1}, true},
		"one that was emptied, and changes": {known{whole: 80, later: wholeAfter, since: 9 << 10}, true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.crowded, c.book.crowded()) })
	}
}
