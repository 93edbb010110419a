package api

import "embed"

// source has the declarations of the edge's own bodies, as Source of the other packages has theirs.
//
//go:embed change.go errors.go query.go
var source embed.FS
