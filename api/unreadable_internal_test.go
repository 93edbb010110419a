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

func (s damagedList) Each(_ context.Context, _ *domain.Noun, _ domain.Key, take func(domain.Object) error) error {
	if err := take(&domain.Project{Metadata: domain.Metadata{Name: "a"}}); err != nil {
		return err
	}
	return s.err
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

// heavy is a service with lists of documents that do not fit into memory together, but as they are answered.
type heavy struct {
	door.Service
	names []string
}

func (h heavy) Each(_ context.Context, _ *domain.Noun, _ domain.Key, take func(domain.Object) error) error {
	var one domain.Project // the only one that is there
	for _, name := range h.names {
		one.Name = name
		if err := take(&one); err != nil {
			return err
		}
	}
	return nil
}

// TestListsAreWrittenAsTheyAreRead, and look as any JSON that is written at once.
func TestListsAreWrittenAsTheyAreRead(t *testing.T) {
	for _, names := range [][]string{{}, {"a"}, {"a", "<b>", "c"}} {
		w := httptest.NewRecorder()
		c := echo.New().NewContext(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/projects", nil), w)
		answer, err := listAll(c, heavy{names: names}, &door.Request{Verb: door.List, Noun: domain.Projects})
		require.NoError(t, err)
		require.NoError(t, answer(c))
		whole := httptest.NewRecorder()
		all := []domain.Object{}
		for _, name := range names {
			all = append(all, &domain.Project{Metadata: domain.Metadata{Name: name}})
		}
		require.NoError(t, asJSON(http.StatusOK, all)(echo.New().NewContext(c.Request(), whole)))
		require.Equal(t, whole.Body.String(), w.Body.String())
		require.Equal(t, whole.Header(), w.Header())
		require.Equal(t, whole.Code, w.Code)
	}
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
