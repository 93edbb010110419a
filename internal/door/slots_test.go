package door_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
)

// TestRefusedComeBackOneAfterTheOther: of many requests at once those that find no slot are told different times, as many in
// 2 s as there are slots; who comes when nobody else is to come is told 2 s again.
func TestRefusedComeBackOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places = 4
		d := door.New(door.Parts{}, door.Slots(places))
		end := make(chan struct{})
		var working sync.WaitGroup
		ask := func() error {
			return d.Pass(t.Context(), &door.Request{Verb: door.Terminate, Noun: domain.LogicalClouds}, func(context.Context, door.Service) error {
				<-end
				return nil
			})
		}
		for range places {
			working.Go(func() { require.NoError(t, ask()) })
		}
		synctest.Wait()
		refused := func(n int) map[time.Duration]int {
			var mu sync.Mutex
			var asking sync.WaitGroup
			told := map[time.Duration]int{}
			for range n {
				asking.Go(func() {
					err := ask()
					require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
					mu.Lock()
					defer mu.Unlock()
					told[fail.RetryAfterOf(err)]++
				})
			}
			asking.Wait()
			return told
		}
		const each = 2 * time.Second / places
		told := refused(3 * places)
		require.Len(t, told, 3*places, "no two are told the same")
		for i := range time.Duration(3 * places) {
			require.Equal(t, 1, told[2*time.Second+i*each], "%v", told)
		}
		require.Equal(t, 30*time.Second, largest(refused(100)), "nobody is sent away for longer")
		<-time.After(time.Minute) // of the bubble: nobody waits
		require.Equal(t, map[time.Duration]int{2 * time.Second: 1}, refused(1))
		close(end)
		working.Wait()
	})
}

func largest(told map[time.Duration]int) (most time.Duration) {
	for after := range told {
		most = max(most, after)
	}
	return most
}
