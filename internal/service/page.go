package service

import (
	"net/url"
	"strconv"

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
		return 0, fail.New(fail.Invalid, "Invalid query limit: %q; use a number from 1 to %d", v.Get("limit"), maxLimit)
	}
	return n, nil
}

func badContinue(token string) error {
	return fail.New(fail.Invalid, "Invalid query continue: %q; use what the page before has in continue", token)
}
