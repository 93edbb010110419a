// Package iterator stands in for the package of this name: see the README two folders up.
package iterator

import "errors"

// Done says that there is no more.
var Done = errors.New("no more items in iterator")
