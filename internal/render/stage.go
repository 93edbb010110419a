package render

import (
	"math"

	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
)

var installOrder = func() map[string]int {
	m := map[string]int{}
	for i, kind := range releaseutil.InstallOrder {
		m[kind] = i
	}
	return m
}()

// rank is the place of a kind in Helm's InstallOrder; unknown kinds are last.
func rank(kind string) int {
	if r, ok := installOrder[kind]; ok {
		return r
	}
	return math.MaxInt
}
