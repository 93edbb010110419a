// Package when reads times as somebody writes them.
package when

import "time"

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
