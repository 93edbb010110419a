// Package mongo stands in for the package of this name: see the README two folders up.
package mongo

// WriteError says why a write of several was refused. It is all that FerretDB takes from the first driver.
type WriteError struct {
	Index   int
	Code    int
	Message string
}

// Error is the message.
func (e WriteError) Error() string { return e.Message }
