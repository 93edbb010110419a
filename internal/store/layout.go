package store

import (
	"context"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// Layout is the number of what documents look like and in which collections they are. Whoever changes that so that a build before
// cannot work with it, or this one not with what is stored, counts on, and says in docs/decisions how a database gets there.
const Layout = 3

// layoutDoc is the only document of its collection.
type layoutDoc struct {
	ID     string `bson:"_id"`
	Layout int    `bson:"layout"`
}

const layoutID = "layout"

// EnsureLayout sees to it that the database has the Layout of this build: one that is empty has it from then on. Precondition when
// it has another one, or has documents from before there were layouts. It comes before anything is written.
func (s *Store) EnsureLayout(ctx context.Context) error {
	has, err := s.layout(ctx)
	if err != nil {
		return err
	}
	if has == 0 {
		if has, err = s.beginLayout(ctx); err != nil {
			return err
		}
	}
	return fits(has)
}

// RequireLayout is EnsureLayout for who changes nothing in a database that nobody has used yet: Precondition when it has no layout.
func (s *Store) RequireLayout(ctx context.Context) error {
	has, err := s.layout(ctx)
	if err == nil && has == 0 {
		return fail.New(fail.Precondition, "the database has no layout: it is empty, or a Drover from before there were layouts has made it")
	}
	if err != nil {
		return err
	}
	return fits(has)
}

// fits says whether this build works with a layout.
func fits(has int) error {
	switch {
	case has == Layout:
		return nil
	case has > Layout:
		return fail.New(fail.Precondition, "the database has layout %d, that of a newer Drover; this one works with layout %d: use the newer one, or another database", has, Layout)
	default:
		return fail.New(fail.Precondition, "the database has layout %d, that of an older Drover; this one works with layout %d: use the older one, or another database", has, Layout)
	}
}

// layout is that of the database, 0 when it has none.
func (s *Store) layout(ctx context.Context) (int, error) {
	var d layoutDoc
	err := s.findOne(ctx, s.db.Collection(layouts), layoutID, &d)
	if fail.Is(err, fail.NotFound) {
		return 0, nil
	}
	return d.Layout, err
}

// beginLayout gives a database that is empty its layout. Processes that start at the same time do so together: who finds something
// that another one has stored meanwhile finds its layout, too.
func (s *Store) beginLayout(ctx context.Context) (int, error) {
	used, err := s.used(ctx)
	if err != nil {
		return 0, err
	}
	if !used {
		if _, err := s.insertOnce(ctx, s.db.Collection(layouts), layoutDoc{layoutID, Layout}); err != nil {
			return 0, err
		}
	}
	has, err := s.layout(ctx)
	if err == nil && has == 0 {
		err = fail.New(fail.Precondition, "the database has documents and no layout: a Drover from before there were layouts has made it; use another database")
	}
	return has, err
}

// used says whether somebody has described something, or has called the API.
func (s *Store) used(ctx context.Context) (bool, error) {
	names := []string{auditWriters}
	for _, n := range domain.Nouns {
		if n.Parent == nil {
			names = append(names, n.Kind)
		}
	}
	for _, name := range names {
		ctx, cancel := s.deadline(ctx)
		n, err := s.db.Collection(name).EstimatedDocumentCount(ctx)
		cancel()
		if err != nil {
			return false, kindOf(err)
		}
		if n > 0 {
			return true, nil
		}
	}
	return false, nil
}
