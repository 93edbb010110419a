package fail

import "embed"

// Source has the declarations of what the API answers with: its document takes descriptions from their comments.
//
//go:embed fail.go problem.go
var Source embed.FS
