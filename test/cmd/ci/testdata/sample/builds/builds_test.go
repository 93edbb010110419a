package builds

import "testing"

func TestFirst(t *testing.T) { missing() }
