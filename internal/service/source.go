package service

import "embed"

// Source has the declarations of what the API answers with: its document takes descriptions from their comments.
//
//go:embed audit.go cluster.go cluster_check.go combined.go fleet.go tenancy.go preview.go group_preview.go whoami.go group_diff.go group_health.go change_request.go
var Source embed.FS
