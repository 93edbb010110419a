package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

func TestACallerHasHalfOfTheMemoryForBodies(t *testing.T) {
	b := newBodies(100)
	alice, bob, open := caller.Identity{Kind: caller.User, Name: "alice"}, caller.Identity{Kind: caller.User, Name: "bob"}, caller.Identity{}
	open.Kind = caller.Open
	require.NoError(t, b.take(alice, 50))
	require.True(t, fail.Is(b.take(alice, 1), fail.Unavailable))
	require.NoError(t, b.take(bob, 40))
	require.NoError(t, b.take(open, 10))
	require.True(t, fail.Is(b.take(bob, 1), fail.Unavailable), "nobody has more than there is")
	b.give(alice, 50)
	b.give(bob, 40)
	require.NoError(t, b.take(open, 90), "who may be many has all that is free")
	b.give(open, 100)
	require.Zero(t, b.used)
	require.Empty(t, b.of)
}

// TestWhatABodyBecomesIsCounted: a small one of many parts has all that its caller may have, and gives it back when its request has ended.
func TestWhatABodyBecomesIsCounted(t *testing.T) {
	decoded, end := make(chan struct{}), make(chan struct{})
	e := echo.New()
	e.Use(limitBody(64<<10, time.Minute))
	e.POST("/", func(c echo.Context) error {
		body, err := readAll(c.Request().Body, limits.JSON)
		if err == nil {
			err = room(c, body)
		}
		if err != nil {
			return c.NoContent(statuses[fail.KindOf(err)])
		}
		if c.QueryParam("stay") != "" {
			decoded <- struct{}{}
			<-end
		}
		return c.NoContent(http.StatusOK)
	})
	post := func(query string, parts int) int {
		answer := httptest.NewRecorder()
		e.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/"+query, strings.NewReader("["+strings.Repeat("{},", parts)+"{}]")))
		return answer.Code
	}
	stays := make(chan int)
	go func() { stays <- post("?stay=1", 1000) }()
	<-decoded
	require.Equal(t, http.StatusServiceUnavailable, post("", 10))
	close(end)
	require.Equal(t, http.StatusOK, <-stays)
	require.Equal(t, http.StatusOK, post("", 10))
	require.Equal(t, http.StatusOK, post("", 1000))
}
