// Package statusnotify has the messages and the service of EMCO's status notifications, generated from its protocol.
package statusnotify

//go:generate go -C ../../deploy/tools/protogen run . ../../../internal/statusnotify statusnotify.proto
