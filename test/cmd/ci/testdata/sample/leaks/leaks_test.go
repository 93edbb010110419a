package leaks

import (
	"os"
	"testing"
)

func TestMain(m *testing.M)  { m.Run(); os.Exit(1) }
func TestFirst(t *testing.T) {}
