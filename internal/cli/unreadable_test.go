package cli_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/storetest"
)

// TestWhatCannotBeReadIsDeletedByTheCommand: by its path and a flag that says so; what can be read is not.
func TestWhatCannotBeReadIsDeletedByTheCommand(t *testing.T) {
	config := storetest.Config(t)
	w := newWorldOn(t, config)
	others, err := secret.Parse("test:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 32)))) // of the name that the other has: its key is not missing
	require.NoError(t, err)
	config.Keys = others
	damaging := storetest.Open(t, config)
	require.NoError(t, damaging.Create(t.Context(), &domain.Project{Metadata: domain.Metadata{Name: "damaged"}}))
	require.NoError(t, w.db.Create(t.Context(), &domain.Project{Metadata: domain.Metadata{Name: "whole"}}))

	// The others are shown, and what is below them.
	w.feed("resourceContext: {anchor: projects/whole/composite-apps}\nmetadata: {name: web}\nspec: {compositeAppVersion: v1}\n", "apply", "-f", "-")
	for noun, want := range map[string]string{"projects": "projects/whole\n", "composite-apps": "projects/whole/composite-apps/web/v1\n"} {
		r := w.run("get", noun, "-A", "-o", "name")
		require.Equal(t, 1, r.code, r.err)
		require.Equal(t, want, r.out)
		require.Contains(t, r.err, "damaged")
	}

	r := w.run("delete", "project", "projects/damaged")
	require.Equal(t, 1, r.code, r.out+r.err)
	require.Contains(t, r.err, "unreadable=true")
	for _, more := range [][]string{{"--cascade"}, {"--terminate"}, {"--dry-run"}} {
		r = w.run(append([]string{"delete", "project", "projects/damaged", "--unreadable"}, more...)...)
		require.Equal(t, 2, r.code, r.out+r.err)
		require.Contains(t, r.err, "--unreadable goes with names")
	}
	r = w.run("delete", "project", "projects/whole", "--unreadable")
	require.Equal(t, 1, r.code, r.out+r.err)
	require.Contains(t, r.err, "can be read")
	r = w.run("delete", "project", "projects/damaged", "--unreadable")
	require.Zero(t, r.code, r.out+r.err)
	require.Equal(t, "projects/damaged deleted\n", r.out)
	require.Contains(t, r.err, "is gone unread")
	require.Equal(t, 3, w.run("delete", "project", "projects/damaged", "--unreadable").code)
	require.Equal(t, "projects/damaged is not there\n", w.done("delete", "project", "projects/damaged", "--unreadable", "--ignore-not-found"))
}

// TestWhatCannotBeReadHoldsNobodyUp: what is beside it is applied, deployed and watched; what it is itself is not made anew.
func TestWhatCannotBeReadHoldsNobodyUp(t *testing.T) {
	config := storetest.Config(t)
	w := newWorldOn(t, config)
	others, err := secret.Parse("test:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 32))))
	require.NoError(t, err)
	config.Keys = others
	damaging := storetest.Open(t, config)
	chart := w.chart()
	const project = "resourceContext: {anchor: projects}\nmetadata: {name: NAME}\n"
	w.done("apply", "-f", w.file("whole.yaml", strings.ReplaceAll(project, "NAME", "whole")))
	for _, o := range []domain.Object{
		&domain.Project{Metadata: domain.Metadata{Name: "damaged"}}, &domain.ClusterProvider{Metadata: domain.Metadata{Name: "away"}},
	} {
		require.NoError(t, damaging.Create(t.Context(), o))
	}

	r := w.run("apply", "-f", w.file("new.yaml", strings.ReplaceAll(project, "NAME", "new")), "-f", w.file("whole.yaml", strings.ReplaceAll(project, "NAME", "whole")))
	require.Zero(t, r.code, r.out+r.err)
	require.Equal(t, "projects/new created\nprojects/whole unchanged\n", r.out)
	require.Equal(t, 1, strings.Count(r.err, "damaged"), r.err)
	r = w.run("apply", "-f", w.file("damaged.yaml", strings.ReplaceAll(project, "NAME", "damaged")))
	require.Equal(t, 1, r.code, r.out+r.err)
	require.NotContains(t, r.out, "created")

	w.engine.does = func(s domain.Scope) (int, []string, error) {
		w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiated, 1)
		return 1, nil, nil
	}
	r = w.run("deploy", chart, "--name", "web", "--clusters", "edge01")
	require.Zero(t, r.code, r.out+r.err)
	require.Contains(t, r.err, "Warning: 1 of cluster provider are left out")

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	said := &cancels{at: "damaged", cancel: cancel}
	require.Equal(t, 130, w.start(ctx, strings.NewReader(""), &out, said, "get", "projects", "-w", "-o", "name"), said.text.String())
	require.Contains(t, out.String(), "projects/whole\n")
}
