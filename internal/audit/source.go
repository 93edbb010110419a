package audit

import "embed"

// Source has the sources of the package, whose comments the API's document shows.
//
//go:embed *.go
var Source embed.FS
