//go:build !race

package sandbox

const memoryFactor = 1
