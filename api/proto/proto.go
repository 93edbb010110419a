// Package proto has the protocol files of gRPC services that others wrote, for those who call them without our code.
package proto

import "embed"

// Files are the protocol files by the paths by which they import each other.
//
//go:embed universe
var Files embed.FS
