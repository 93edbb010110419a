package combine

import "embed"

// Source has the declarations of what the API answers with: its document takes descriptions from their comments.
//
//go:embed result.go
var Source embed.FS
