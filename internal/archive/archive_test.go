package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/archive"
	"github.com/drover-io/drover/internal/fail"
)

func tgz(t testing.TB, entries ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range entries {
		require.NoError(t, w.WriteHeader(h))
		_, err := w.Write(bytes.Repeat([]byte{'x'}, int(h.Size)))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return b.Bytes()
}

func file(name string, size int64) *tar.Header {
	return &tar.Header{Name: name, Typeflag: tar.TypeReg, Size: size, Mode: 0o644}
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		data    []byte
		limits  archive.Limits
		want    []string
		refused string
	}{
		"files and folders":          {data: tgz(t, &tar.Header{Name: "./a/", Typeflag: tar.TypeDir}, file("./a/b", 3), file("c", 0)), want: []string{"a/b", "c"}},
		"nothing":                    {refused: "the file is empty"},
		"no entries":                 {data: tgz(t), refused: "the archive is empty"},
		"not gzipped":                {data: []byte("PK\x03\x04"), refused: "not gzipped"},
		"gzipped, but not a tar":     {data: gz(t, strings.Repeat("no", 600)), refused: "not a tar archive"},
		"cut off":                    {data: tgz(t, file("a", 4000))[:60], refused: "Error in file format"},
		"an absolute path":           {data: tgz(t, file("/etc/passwd", 1)), refused: "absolute"},
		"a path that leads out":      {data: tgz(t, file("a/../../b", 1)), refused: "leads out"},
		"a backslash":                {data: tgz(t, file(`a\..\b`, 1)), refused: "not allowed"},
		"a link":                     {data: tgz(t, &tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/etc"}), refused: "neither"},
		"a device":                   {data: tgz(t, &tar.Header{Name: "a", Typeflag: tar.TypeChar}), refused: "neither"},
		"the same file twice":        {data: tgz(t, file("a", 1), file("./a", 1)), refused: "twice"},
		"too many entries":           {data: tgz(t, file("a", 1), file("b", 1)), limits: archive.Limits{Files: 1}, refused: "more than 1 entries"},
		"too large":                  {data: tgz(t, file("a", 100)), limits: archive.Limits{Expanded: 99}, refused: "larger than 99"},
		"too much expansion":         {data: tgz(t, file("a", 8<<20)), limits: archive.Limits{Ratio: 100}, refused: "expanded"},
		"a small file that deflates": {data: tgz(t, file("a", 512<<10)), want: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := archive.Read(c.data, c.limits)
			if c.refused != "" {
				require.True(t, fail.Is(err, fail.Malformed), "%v", err)
				require.Contains(t, fail.TextOf(err), c.refused)
				return
			}
			require.NoError(t, err)
			var names []string
			for _, f := range files {
				names = append(names, f.Name)
			}
			require.Equal(t, c.want, names)
		})
	}
}

func gz(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func FuzzRead(f *testing.F) {
	f.Add(tgz(f, file("a/b", 10)))
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := archive.Read(data, archive.Limits{Files: 10, Expanded: 1 << 16})
		if err != nil {
			require.True(t, fail.Is(err, fail.Malformed))
			return
		}
		total := 0
		for _, file := range files {
			require.NotContains(t, strings.Split(file.Name, "/"), "..")
			require.False(t, strings.HasPrefix(file.Name, "/"))
			total += len(file.Data)
		}
		require.LessOrEqual(t, total, 1<<16)
	})
}
