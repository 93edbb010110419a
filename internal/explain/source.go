package explain

import "embed"

// Source has the declarations of what the API answers with: its document takes descriptions from their comments.
//
//go:embed cluster.go explain.go match.go
var Source embed.FS
