package combined

import "embed"

// Source has the declarations of what the API answers with: its document takes descriptions from their comments.
//
//go:embed document.go
var Source embed.FS
