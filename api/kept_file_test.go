package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestNoFileIsStoredOfARefusedWrite: whoever sends a chart for what is there already, again and again, fills no disk.
func TestNoFileIsStoredOfARefusedWrite(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	files := func() (n int) {
		w.stored = time.Now().Add(24 * time.Hour)
		defer func() { w.stored = time.Time{} }()
		_, err := w.store.SweepBlobs(t.Context(), func(domain.Digest) bool { n++; return true }, 0)
		require.NoError(t, err)
		return n
	}
	apps := theComposite + "/apps"
	before := files()
	require.Positive(t, before)
	another := tgz(t, "sink/Chart.yaml", "apiVersion: v2\nname: sink\nversion: 0.2.0\n", "sink/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: another}\n")
	none := "/v2/projects/proj/composite-apps/none/v1/apps"
	check(t, w.router, []call{
		{name: "one that is there", method: "POST", url: apps, body: `{"metadata":{"name":"sink"}}`, file: another, status: 409, contains: []string{"already exists"}},
		{name: "below what is not there", method: "POST", url: none, body: `{"metadata":{"name":"sink"}}`, file: another, status: 409, contains: []string{"Parent resource not found"}},
		{name: "the same, put", method: "PUT", url: none + "/sink", body: `{"metadata":{"name":"sink"}}`, file: another, status: 409, contains: []string{"Parent resource not found"}},
		{name: "put if it is not there", method: "PUT", url: apps + "/sink", body: `{"metadata":{"name":"sink"}}`, file: another, header: map[string]string{"If-None-Match": "*"}, status: 412},
	})
	require.Equal(t, before, files())
	check(t, w.router, []call{{name: "put", method: "PUT", url: apps + "/sink", body: `{"metadata":{"name":"sink"}}`, file: another, status: 201}})
	require.Equal(t, before+1, files())
}
