// Package version knows what the running binary was built from.
package version

import (
	"crypto/sha256"
	_ "embed" // for the file VERSION
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/drover-io/drover/internal/fail"
)

// Info is what a binary was built from, as far as it knows.
type Info struct {
	Version  string `json:"version"`            // such as v0.1.0, and v0.2.0-dev on the way to v0.2.0
	Revision string `json:"revision,omitempty"` // the commit
	Modified bool   `json:"modified,omitempty"` // the sources were not those of the commit
	Go       string `json:"go"`                 // the compiler

	at      time.Time // of the commit
	content string    // the digest of the binary, where no commit says what is in it
}

// number is what VERSION in the root of the repository, a link to this file, says: 0.1.0 in the commit of that release alone, and 0.2.0-dev
// in those between it and the next one.
//
//go:embed VERSION
var number string

// Of is that of the running binary.
func Of() Info {
	i := Info{Version: "v" + strings.TrimSpace(number)}
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return i
	}
	i.Go = b.GoVersion
	for _, s := range b.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Revision = s.Value
		case "vcs.modified":
			i.Modified = s.Value == "true"
		case "vcs.time":
			i.at, _ = time.Parse(time.RFC3339, s.Value) // else it stays zero, the time of what knows none
		}
	}
	return i
}

// shortRevision is how much of a commit's hash is in an id.
const shortRevision = 12

// BuildID names a build among all that work on the same data, in the order of Newer: 0.1.0 of a release,
// 0.2.0-dev.20261123113903.g63b9931abcde of a commit after it, and with .changed.h0123456789ab behind it of sources that are no commit's. Of
// two such builds of one commit neither is the later one: their digests have an order all the same, as only one of them may do the work.
func (i Info) BuildID() string {
	id := strings.TrimPrefix(i.Version, "v")
	development := strings.Contains(id, "-")
	if development && i.Revision != "" {
		id += "." + i.at.UTC().Format("20060102150405") + ".g" + i.Revision[:min(len(i.Revision), shortRevision)]
	}
	var more []string
	if i.Modified {
		more = append(more, "changed")
	}
	if i.content != "" {
		more = append(more, "h"+i.content)
	}
	switch {
	case len(more) == 0:
		return id
	case development:
		return id + "." + strings.Join(more, ".")
	default:
		return id + "+" + strings.Join(more, ".")
	}
}

// Build is the BuildID of the running binary.
func Build() (string, error) {
	i := Of()
	if i.Modified || i.Revision == "" { // then only what is in it says what it is
		var err error
		if i.content, err = content(); err != nil {
			return "", fmt.Errorf("tell this build from others: %w", err)
		}
	}
	return i.BuildID(), nil
}

// content is the digest of the running binary, which takes some tenths of a second.
var content = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil))[:shortRevision], nil
})

// Newer says whether the build of one id comes after that of another. An id that is none of ours comes before all.
func Newer(id, other string) bool {
	a, err := semver.NewVersion(id)
	if err != nil {
		return false
	}
	b, err := semver.NewVersion(other)
	return err != nil || a.GreaterThan(b) || a.Equal(b) && id > other // what is behind a plus is nothing to semver
}

// Older says whether a version of another program is before one that is given as major.minor. One that is none is not.
func Older(of, than string) bool {
	a, err := semver.NewVersion(of)
	if err != nil {
		return false
	}
	b := semver.MustParse(than)
	return a.Major() < b.Major() || a.Major() == b.Major() && a.Minor() < b.Minor() // a build on the way to a release has what it needs
}

// ErrNewer says of something that is stored that a newer build has written it, and that this one does not know what it means.
var ErrNewer = errors.New("a newer build has written it")

// Refuse is an error for what has a version that is newer than the newest one that is known. The error is Unavailable: a newer process can do
// what this one cannot.
func Refuse(what string, has, known int64) error {
	if has <= known {
		return nil
	}
	return fail.Wrap(ErrNewer, fail.Unavailable, "%s has version %d, as a newer Drover has written it; this one, %s, knows versions up to %d: replace it by the newer one", what, has, Of().Version, known)
}
