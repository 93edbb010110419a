package timesout

import "testing"

func TestFirst(t *testing.T)    {}
func TestParallel(t *testing.T) { t.Parallel() }
func TestHangs(t *testing.T)    { select {} }
func TestLater(t *testing.T)    {}
