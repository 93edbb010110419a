// Package universe has the messages and services of universe.workload.v1, by which tenants say what runs in their clusters and
// what is to be made of it. They are generated from its two protocol files in api/proto, which are NVIDIA's, word for word
// but for go_package. Only the gRPC edge and the tenants' agent see it.
package universe

//go:generate go -C ../../deploy/tools/protogen run . -out ../../../internal/universe ../../../api/proto universe/workload/v1/workload.proto universe/workload/v1/workload_rule.proto
