package twice

import "testing"

func TestFailsTwice(t *testing.T) { t.Error("as ever") }
func TestKnown(t *testing.T)      { t.Error("as is known") }
