package service

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/drover-io/drover/internal/fail"
)

// How many a page has: as many as are asked for, up to the most.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

// limitOf reads the parameter limit.
func limitOf(v url.Values) (int, error) {
	if !v.Has("limit") {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(v.Get("limit"))
	if err != nil || n < 1 || n > maxLimit {
		return 0, fail.Query("limit", "%q; use a number from 1 to %d", v.Get("limit"), maxLimit)
	}
	return n, nil
}

// Truth reads a parameter that is true or false, false when missing.
func Truth(name, said string) (bool, error) {
	switch said {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, fail.Query(name, "%q; use true or false", said)
	}
}

// pageAsked is the page that the parameters ask for: so many at most, from behind a place on; "" is before all. is says whether a place may be one of
// the list: what is behind one of another list would be a page that nobody has asked for.
func pageAsked(v url.Values, is func(place string) bool) (limit int, after string, err error) {
	if limit, err = limitOf(v); err != nil {
		return 0, "", err
	}
	place, err := base64.RawURLEncoding.DecodeString(v.Get("continue"))
	if err != nil || goOn(string(place)) != v.Get("continue") || !utf8.Valid(place) { // a store looks for text
		return 0, "", fail.Query("continue", "%q; use what the page before has in continue", v.Get("continue"))
	}
	if len(place) > 0 && !is(string(place)) {
		return 0, "", fail.Query("continue", "%q is of another list; use what the page before has in continue", v.Get("continue"))
	}
	return limit, string(place), nil
}

// goOn is the parameter continue that asks for what is behind a place.
func goOn(place string) string { return base64.RawURLEncoding.EncodeToString([]byte(place)) }

// placeOf is a place that has several parts, and partsOf are those.
func placeOf(parts ...string) string { return strings.Join(parts, "\x00") }

func partsOf(place string) []string { return strings.Split(place, "\x00") }

// ofParts is for a list whose places have so many parts.
func ofParts(n int) func(place string) bool {
	return func(place string) bool { return len(partsOf(place)) == n }
}

// pageOf is the page of a sorted list that the parameters ask for; is and id are about its places.
func pageOf[T any](all []T, parameters url.Values, is func(place string) bool, id func(T) string) (page []T, next string, err error) {
	limit, after, err := pageAsked(parameters, is)
	if err != nil {
		return nil, "", err
	}
	if after != "" {
		all = slices.DeleteFunc(all, func(one T) bool { return id(one) <= after })
	}
	if len(all) <= limit {
		return append([]T{}, all...), "", nil
	}
	return all[:limit], goOn(id(all[limit-1])), nil
}
