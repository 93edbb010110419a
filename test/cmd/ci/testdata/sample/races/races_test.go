package races

import (
	"sync"
	"testing"
)

func TestRaces(*testing.T) {
	n := 0
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { n++ })
	}
	wg.Wait()
}
