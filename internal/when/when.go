// Package when reads times as somebody writes them, and as another clock has told them.
package when

import (
	"context"
	"time"
)

// Read reads a time in the form of RFC 3339, or how long ago it is, such as 2h30m. It is not ok where the text is neither, or where the year has not
// four digits in UTC, which a zone may make: neither Temporal nor the order of the audit log knows such a time.
func Read(text string, now time.Time) (at time.Time, ok bool) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), true
	}
	at, err := time.Parse(time.RFC3339, text)
	year := at.UTC().Year()
	return at, err == nil && year >= 1 && year <= 9999
}

// Past is a time that something was noted at, as it counts now: what another clock, or this one before it was set back, has noted as later is of now.
// The zero time stays.
func Past(noted, now time.Time) time.Time {
	if noted.After(now) {
		return now
	}
	return noted
}

// Clock is another clock than that of the process, such as the database's; zero when it does not say.
type Clock func(ctx context.Context) (time.Time, error)

// Ahead is by how much a time of this process's clock is ahead of another clock, negative where it is behind; 0 where that does not say, or is nil. The
// errors are the other clock's.
func Ahead(ctx context.Context, now time.Time, of Clock) (time.Duration, error) {
	if of == nil {
		return 0, nil
	}
	other, err := of(ctx)
	if err != nil || other.IsZero() {
		return 0, err
	}
	return now.Sub(other), nil
}
