package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
)

// brokenOff is a service with a list, which does not answer any more at one of it.
type brokenOff struct {
	door.Service
	names []string
	at    string
	err   error
}

func (s brokenOff) List(context.Context, *domain.Noun, domain.Key) (list []domain.Object, err error) {
	for _, name := range s.names {
		list = append(list, &domain.Project{Metadata: domain.Metadata{Name: name}})
	}
	return list, nil
}

func (s brokenOff) Delete(ctx context.Context, _ *domain.Noun, key domain.Key) error {
	if key.Name() == s.at {
		return s.err
	}
	caller.RequestOf(ctx).Changed([]byte(key.Name()), nil)
	return nil
}

// TestWhatIsClearedHalfIsNoted: those that went, and the one of which nobody knows whether it did. One that had gone before is none of them.
func TestWhatIsClearedHalfIsNoted(t *testing.T) {
	slow, missing := fail.New(fail.Timeout, "the database does not answer in time"), fail.New(fail.NotFound, "project not found")
	removed := func(name string, err error) caller.Removed {
		r := caller.Removed{Noun: domain.Projects.Kind, Key: "projects/" + name, Err: err}
		if err == nil {
			r.Before = []byte(name)
		}
		return r
	}
	for _, c := range []struct {
		err, answer error
		want        []caller.Removed
	}{
		{slow, slow, []caller.Removed{removed("a", nil), removed("b", slow)}},
		{missing, nil, []caller.Removed{removed("a", nil), removed("c", nil)}},
	} {
		request := &caller.Request{}
		r := httptest.NewRequestWithContext(caller.WithRequest(t.Context(), request), http.MethodDelete, "/v2/projects", nil)
		_, err := removeAll(echo.New().NewContext(r, httptest.NewRecorder()), brokenOff{names: []string{"a", "b", "c"}, at: "b", err: c.err}, &door.Request{Verb: door.Delete, Noun: domain.Projects})
		require.ErrorIs(t, err, c.answer)
		require.Equal(t, c.want, request.Removed())
		before, _ := request.Change()
		require.Nil(t, before, "it is of none that the request's record names")
	}
}
