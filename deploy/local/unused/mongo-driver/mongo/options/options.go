// Package options is named by a test of FerretDB, which go mod tidy looks at.
package options
