package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// TestNothingIsMadeOfWhatNobodyKnows: a large body with members that nobody knows is gone through, and the first of them are named.
func TestNothingIsMadeOfWhatNobodyKnows(t *testing.T) {
	const most = 16 * limits.JSON >> 20
	list := `{"metadata":{"name":"p"},"z":[` + strings.Repeat(`{"a":0},`, limits.JSON/8-10) + `{"a":0}]}`
	var many bytes.Buffer
	many.WriteString(`{"metadata":{"name":"p"}`)
	for i := range limits.JSON/11 - 10 {
		fmt.Fprintf(&many, `,"a%05x":0`, i)
	}
	many.WriteString(`}`)
	for name, c := range map[string]struct {
		body  []byte
		first string
		n     int
	}{
		"a list of objects": {[]byte(list), "z", 1},
		"many members":      {many.Bytes(), "a00000", maxWarnings},
	} {
		t.Run(name, func(t *testing.T) {
			took := allocated(func() {
				unknown, err := decode(c.body, domain.Projects.New(), maxWarnings)
				require.NoError(t, err)
				require.Len(t, unknown, c.n)
				require.Equal(t, c.first, unknown[0].Path)
			})
			require.Less(t, took, uint64(most))
			t.Logf("%d MiB", took)
		})
	}
	unknown, err := decode([]byte(`{"metadata":{"name":"p"},"z":1}`), domain.Projects.New(), 0)
	require.NoError(t, err)
	require.Empty(t, unknown, "who does not ask for them is told none")
}

// TestANameIsReadAlone: the rest of a body is not made for it.
func TestANameIsReadAlone(t *testing.T) {
	pairs := `{"metadata":{"name":"p"},"spec":{"kv":[` + strings.Repeat(`{"":""},`, limits.JSON/8-10) + `{"":""}]}}`
	c := echo.New().NewContext(nil, nil)
	name := ""
	c.Set(contextBody, []byte(pairs))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/", nil)
	require.NoError(t, err)
	c.SetRequest(r)
	took := allocated(func() { name = nameIn(c, domain.ClusterKVs) })
	require.Equal(t, "p", name)
	require.Less(t, took, uint64(2))
	for _, n := range domain.Nouns {
		if n.New == nil {
			continue
		}
		o := n.New()
		populate(t, reflect.ValueOf(o).Elem())
		body, err := json.Marshal(o)
		require.NoError(t, err)
		c.Set(contextBody, body)
		require.Equal(t, o.LocalName(), nameIn(c, n), n.Kind)
	}
}

// TestWhatADocumentBecomesHasRoom: of parts more is made than they have bytes, which is counted to the body, until the request ends.
func TestWhatADocumentBecomesHasRoom(t *testing.T) {
	require.Equal(t, 6, marks([]byte(`{"a{[,\",":[1,"\\",{"b":0}],"c":2}`)))

	const most = 4 << 20
	taken := int64(0)
	c := echo.New().NewContext(nil, nil)
	c.Set(contextSteady, &steadyBody{most: most, taken: 1 << 20, room: func(n int64) error {
		if taken += n; taken > most {
			return fail.New(fail.Unavailable, "no memory")
		}
		return nil
	}})
	body := func(n int) []byte { return []byte(`[` + strings.Repeat(`{},`, n-1) + `{}]`) }
	require.NoError(t, room(c, body(1000)))
	require.Equal(t, int64(2000*limits.JSONMark), taken)
	require.NoError(t, room(c, body(10_000)), "one alone has what there is")
	require.Equal(t, int64(most-1<<20), taken)
	err := room(c, body(limits.JSONMarks/2+1))
	require.True(t, fail.Is(err, fail.Malformed), "%v", err)
}

// TestManyPairsAreTaken: a document of 100,000 pairs, as docs/limits.md promises it, has fewer parts than there may be.
func TestManyPairsAreTaken(t *testing.T) {
	var pairs strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&pairs, `{"key-%06d":"a value that has %06d of some length"},`, i, i)
	}
	body := []byte(`{"metadata":{"name":"p"},"spec":{"kv":[` + pairs.String() + `{"a":"b"}]}}`)
	require.NoError(t, room(echo.New().NewContext(nil, nil), body))
	kv := domain.ClusterKVs.New()
	_, err := decode(body, kv, maxWarnings)
	require.NoError(t, err)
	took := allocated(func() { _, _ = decode(body, domain.ClusterKVs.New(), 0) })
	t.Logf("%d MiB, %d bytes for each part", took, took<<20/uint64(marks(body)))
}
