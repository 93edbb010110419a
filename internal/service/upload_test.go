package service_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

func newUploads(t *testing.T) (*service.Service, *asked) {
	t.Helper()
	db := &asked{Store: storetest.Open(t, store.Config{})}
	sealer, err := secret.Parse("test:" + fmt.Sprintf("%043d", 0) + "=")
	require.NoError(t, err)
	s := service.New(service.Deps{
		Store: db, Sealer: sealer, Instances: &allKnowing{}, Now: time.Now,
		Checks: service.Checks{
			Chart:   func(context.Context, string, []byte) error { return nil },
			Profile: func(context.Context, []byte) ([]string, error) { return nil, nil },
		},
	})
	for _, o := range []domain.Object{project("proj"), compositeApp("ca"), app("sink"), profiles("cp"), profile("first")} {
		require.NoError(t, db.Create(t.Context(), o), domain.KeyOf(o))
	}
	return s, db
}

// TestNoFileIsKeptOfWhatIsRefused: it would stay for a day, and count for nobody.
func TestNoFileIsKeptOfWhatIsRefused(t *testing.T) {
	s, db := newUploads(t)
	orphan, of := app("new"), profile("new")
	orphan.Parent, of.Spec.App = "projects/proj/composite-apps/none/v1", "none"
	full := service.BeforeCreate(t.Context(), func() error { return fail.New(fail.Exhausted, "full") })
	for name, c := range map[string]struct {
		ctx  context.Context
		o    domain.Object
		kind fail.Kind
	}{
		"one that is there, to be created": {service.OnlyCreate(t.Context()), app("sink"), fail.Conflict},
		"below what is not there":          {t.Context(), orphan, fail.Conflict},
		"of what is not there":             {t.Context(), of, fail.NotFound},
		"of an app that has one":           {t.Context(), profile("second"), fail.Conflict},
		"of a project that is full":        {full, app("new"), fail.Exhausted},
	} {
		t.Run(name, func(t *testing.T) {
			err := s.Attach(c.ctx, c.o, []byte("a file"))
			require.True(t, fail.Is(err, c.kind), "%v", err)
			require.Zero(t, db.files)
		})
	}
	require.NoError(t, s.Attach(full, app("sink"), []byte("a file")), "what is there may be put")
	require.Equal(t, 1, db.files)
}

// TestAFileThatIsReplacedCountsAsItIs: a project has the file that came last, of which the size is, and keeps that where none comes.
func TestAFileThatIsReplacedCountsAsItIs(t *testing.T) {
	s, db := newUploads(t)
	for _, c := range []struct {
		file string
		want int64
	}{{"small", 5}, {"a larger one", 12}, {"", 12}, {"x", 1}} {
		o := profile("first")
		var file []byte
		if c.file != "" {
			file = []byte(c.file)
		}
		require.NoError(t, s.Attach(t.Context(), o, file))
		created, err := s.Put(t.Context(), o)
		require.NoError(t, err)
		require.False(t, created)
		stored, err := db.Get(t.Context(), domain.Profiles, domain.KeyOf(o))
		require.NoError(t, err)
		require.Equal(t, c.want, stored.Base().Uploaded, c.file)
	}
}
