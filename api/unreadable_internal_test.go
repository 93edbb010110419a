package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
)

// damagedList is a service with a list of which some cannot be read.
type damagedList struct {
	door.Service
	err error
}

func (s damagedList) List(context.Context, *domain.Noun, domain.Key) ([]domain.Object, error) {
	return []domain.Object{&domain.Project{Metadata: domain.Metadata{Name: "a"}}}, s.err
}

// TestListsNameWhatCannotBeRead in Warning headers, some of many, and serve the rest. What deletes all of a list does not take the rest for
// all there is.
func TestListsNameWhatCannotBeRead(t *testing.T) {
	var ids []string
	for n := range maxWarnings + 3 {
		ids = append(ids, fmt.Sprintf("projects/p%d", n))
	}
	asked := &door.Request{Verb: door.List, Noun: domain.Projects}
	ask := func(err error, handle handler) (*httptest.ResponseRecorder, error) {
		w := httptest.NewRecorder()
		c := echo.New().NewContext(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/projects", nil), w)
		answer, err := handle(c, damagedList{err: err}, asked)
		if err == nil {
			err = answer(c)
		}
		return w, err
	}
	damage := fail.Wrap(errors.New("a secret"), fail.Internal, "a document of projects cannot be read")
	w, err := ask(&domain.Unreadable{IDs: ids, Cause: damage}, listAll)
	require.NoError(t, err)
	require.Contains(t, w.Body.String(), `"name":"a"`)
	require.Equal(t, "19", w.Result().Header.Get("Drover-Left-Out"))
	warnings := w.Result().Header.Values("Warning")
	require.Len(t, warnings, maxWarnings+1)
	require.Contains(t, warnings[0], "projects/p0 cannot be read")
	require.Contains(t, warnings[maxWarnings], "3 more")
	require.NotContains(t, fmt.Sprint(warnings), "a secret")

	_, err = ask(&domain.Unreadable{IDs: ids, Cause: damage}, removeAll)
	require.True(t, fail.Is(err, fail.Internal))
	_, err = ask(fail.New(fail.Unavailable, "no database"), listAll)
	require.True(t, fail.Is(err, fail.Unavailable))
}

// TestManyWarnings: those that are not named are counted.
func TestManyWarnings(t *testing.T) {
	for n, last := range map[int]string{maxWarnings: `299 - "warning"`, maxWarnings + 2: `299 - "and 2 more"`} {
		w := httptest.NewRecorder()
		warnAll(echo.New().NewContext(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/projects", nil), w), slices.Repeat([]string{"warning"}, n))
		said := w.Result().Header.Values("Warning")
		require.Equal(t, last, said[len(said)-1])
		require.Equal(t, `299 - "warning"`, said[maxWarnings-1])
		require.LessOrEqual(t, len(said), maxWarnings+1)
	}
}
