//go:build race

package sandbox

// memoryFactor makes room for what the race detector notes of memory.
const memoryFactor = 10
