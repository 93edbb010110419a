// Package nearest finds what somebody has written that is not there, and what he may have meant; and what is there twice, so that nobody knows
// which of both was meant.
package nearest

import (
	"strings"
	"unicode"
)

// Name is the name among those there are that is closest to a wrong one, "" when none is close: a third of its
// letters may be wrong. Case, dashes and underscores do not count, so that cluster-provider is clusterProvider.
func Name(wrong string, names []string) string {
	best, least := "", max(1, len(wrong)/3)+1
	for _, name := range names {
		if d := misspelt(plain(wrong), plain(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// maxNear bounds a name, and a path, in bytes, for which a near one is looked for.
const maxNear = 512

func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' {
			return -1
		}
		return unicode.ToLower(r)
	}, name[:min(len(name), maxNear)])
}

// Path is the template that takes the fewest changes to fit a path.
func Path(path string, templates []string) string {
	if len(path) > maxNear {
		return ""
	}
	segments := strings.Split(path, "/")
	best, least := "", another*(len(segments)-1)
	for _, t := range templates {
		d := distance(strings.Split(t, "/"), segments, missing, changeSegment)
		if d < least || d == least && best != "" && len(t) > len(best) { // rather something is missing than too much
			best, least = t, d
		}
	}
	return best
}

// What it costs to take a segment of a path for another one altogether, and for one that is missing or too much.
const (
	another = 10
	missing = 6
)

// changeSegment is what it costs to take one segment of a path for that of a template.
func changeSegment(template, segment string) int {
	if strings.HasPrefix(template, ":") && segment != "" || template == segment {
		return 0
	}
	longest := max(len(template), len(segment))
	return max(1, another*misspelt(plain(template), plain(segment))/longest)
}

// misspelt is by how many letters words differ.
func misspelt(x, y string) int {
	return distance([]rune(x), []rune(y), 1, func(x, y rune) int {
		if x == y {
			return 0
		}
		return 1
	})
}

// distance is what it costs at least to make y of x: by gap, to put an element in or leave one out, and by change
// (Levenshtein).
func distance[T any](x, y []T, gap int, change func(x, y T) int) int {
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j * gap
	}
	for i := range x {
		before := row[0]
		row[0] += gap
		for j := range y {
			cost := min(before+change(x[i], y[j]), row[j]+gap, row[j+1]+gap)
			before, row[j+1] = row[j+1], cost
		}
	}
	return row[len(y)]
}
