package goroutine

import "testing"

func TestFirst(t *testing.T) {}
func TestOther(t *testing.T) { go func() { panic("in nobody's hands") }(); select {} }
func TestLater(t *testing.T) {}
