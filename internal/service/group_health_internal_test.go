package service

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/policy"
)

// judging is a health of groups a, b and c, which are judged by a test.
type judging struct {
	*health
	mu     sync.Mutex
	at     time.Time
	wrong  map[domain.Key]error
	looked map[domain.Key]int
	gate   chan struct{} // each look takes one
}

func newJudging(t *testing.T) *judging {
	t.Helper()
	j := &judging{at: time.Unix(0, 0), wrong: map[domain.Key]error{}, looked: map[domain.Key]int{}, gate: make(chan struct{}, 100)}
	now := func() time.Time { j.mu.Lock(); defer j.mu.Unlock(); return j.at }
	j.health = newHealth(now, func(context.Context, due) (string, error) { return "sign", nil }, j.look)
	t.Cleanup(func() { j.stop(); j.busy.Wait() })
	return j
}

// ask lists groups whose signs are the same.
func (j *judging) ask(names ...domain.Key) {
	wanted := map[string]due{}
	for _, name := range names {
		if known, ok := j.last(string(name)); !ok || !known.holds("sign", j.now()) {
			wanted[string(name)] = due{key: name}
		}
	}
	j.begin(wanted)
}

// look judges a group when the test lets one pass.
func (j *judging) look(ctx context.Context, key domain.Key) (*GroupHealth, error) {
	select {
	case <-j.gate:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.looked[key]++
	return &GroupHealth{Ready: true, Counts: map[string]int{"Ready": j.looked[key]}}, j.wrong[key]
}

// rest lets so many looks pass and waits for the end of all.
func (j *judging) rest(looks int) {
	for range looks {
		j.gate <- struct{}{}
	}
	j.busy.Wait()
}

func (j *judging) after(d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.at = j.at.Add(d)
}

func (j *judging) ready(name domain.Key) int {
	known, _ := j.last(string(name))
	if known.says == nil {
		return 0
	}
	return known.says.Counts["Ready"]
}

// TestWhoAsksWhileOthersAreJudged has its groups judged, too: the second page of a list, say.
func TestWhoAsksWhileOthersAreJudged(t *testing.T) {
	j := newJudging(t)
	j.ask("a")
	j.ask("b", "c")
	j.rest(3)
	require.Equal(t, []int{1, 1, 1}, []int{j.ready("a"), j.ready("b"), j.ready("c")})
}

// TestWhatCannotBeJudged keeps what was known, and is tried again after a while. What is judged is so anew, later.
func TestWhatCannotBeJudged(t *testing.T) {
	j := newJudging(t)
	j.ask("a")
	j.rest(1)
	j.after(policy.JudgeAnew)
	j.wrong["a"] = errors.New("the store is away")
	j.ask("a")
	j.rest(1)
	require.Equal(t, 1, j.ready("a"), "as it was known")
	delete(j.wrong, "a")
	j.ask("a")
	j.rest(0)
	require.Equal(t, 2, j.looked["a"], "not at once")
	j.after(policy.JudgeAgain)
	j.ask("a")
	j.rest(1)
	require.Equal(t, 3, j.ready("a"))
	j.ask("a")
	j.rest(0)
	require.Equal(t, 3, j.looked["a"], "nothing has changed")
}
