package panics

import "testing"

func TestFirst(t *testing.T)    {}
func TestParallel(t *testing.T) { t.Parallel() }
func TestPanics(t *testing.T)   { var m map[string]int; m["a"] = 1 }
func TestLater(t *testing.T)    {}
