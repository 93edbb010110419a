package store

import (
	"fmt"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// describe names a document for people, with what it belongs to: `app "sink" of composite app "ca/v1"`.
func describe(n *domain.Noun, key domain.Key) string {
	rest, name := cut(n, key)
	if n.Parent == nil {
		return fmt.Sprintf("%s %q", n.Title, name)
	}
	_, parent := cut(n.Parent, domain.Key(strings.TrimSuffix(rest, "/"+n.Collection)))
	return fmt.Sprintf("%s %q of %s %q", n.Title, name, n.Parent.Title, parent)
}

// cut splits the local name off a key. It has as many segments as that of an empty object.
func cut(n *domain.Noun, key domain.Key) (rest, name string) {
	segments := key.Segments()
	local := max(0, len(segments)-1-strings.Count(n.New().LocalName(), "/"))
	return strings.Join(segments[:local], "/"), strings.Join(segments[local:], "/")
}

func notFound(n *domain.Noun, key domain.Key) error {
	return fail.New(fail.NotFound, "%s not found", describe(n, key))
}
