package activities

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// generics is a store of generic k8s intents, each of which has the same below it.
type generics struct {
	Store
	resource       domain.GenericResource
	customization  domain.Customization
	customizations int
	blob           []byte
	handed         int // customizations
}

func (g *generics) Get(context.Context, *domain.Noun, domain.Key) (domain.Object, error) {
	return &domain.GenericK8sIntent{}, nil
}

func (g *generics) List(_ context.Context, _ *domain.Noun, parent domain.Key) ([]domain.Object, error) {
	r := g.resource
	r.Parent, r.Name = parent, "r"
	return []domain.Object{&r}, nil
}

func (g *generics) Each(_ context.Context, _ *domain.Noun, prefix domain.Key, take func(domain.Object) error) error {
	for n := range g.customizations {
		c := g.customization
		c.Parent, c.Name = prefix.Child(domain.GenericResources.Collection, "r"), fmt.Sprint("c", n)
		g.handed++
		if err := take(&c); err != nil {
			return err
		}
	}
	return nil
}

func (g *generics) Blob(context.Context, domain.Digest) ([]byte, error) { return g.blob, nil }

// TestWhatGenericIntentsHaveIsBounded, of a group: patches, of which each customization may have as large a one as a document may be, are not read to their end.
func TestWhatGenericIntentsHaveIsBounded(t *testing.T) {
	many := bytes.Repeat([]byte("1"), 8<<20)
	patched := domain.CustomizationSpec{PatchType: domain.PatchJSON, PatchJSON: []domain.PatchStep{{Op: "add", Path: "/a", Value: many}}}
	for name, c := range map[string]struct {
		store   generics
		refused bool
		handed  int
	}{
		"patches":           {generics{customization: domain.Customization{Spec: patched}, customizations: 1000}, true, 8},
		"patches that fit":  {generics{customization: domain.Customization{Spec: patched}, customizations: 3}, false, 6},
		"patches of both":   {generics{customization: domain.Customization{Spec: patched}, customizations: 4}, true, 8},
		"files":             {generics{customization: domain.Customization{Files: []domain.CustomizationFile{{Name: "f"}}}, customizations: 5, blob: many}, true, 10},
		"files that fit":    {generics{customization: domain.Customization{Files: []domain.CustomizationFile{{Name: "f"}}}, customizations: 4, blob: many}, false, 8},
		"a template":        {generics{resource: domain.GenericResource{Template: "t", Spec: domain.GenericResourceSpec{NewObject: domain.True}}, blob: make([]byte, limits.Varied/2+1)}, true, 0},
		"one that is small": {generics{resource: domain.GenericResource{Template: "t", Spec: domain.GenericResourceSpec{NewObject: domain.True}}, blob: make([]byte, limits.Varied/2)}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l, w := &Control{Store: &c.store}, &wanted{group: &domain.DeploymentIntentGroup{}}
			_, err := l.readGAC(t.Context(), w, "first")
			if err == nil {
				_, err = l.readGAC(t.Context(), w, "second")
			}
			require.Equal(t, c.handed, c.store.handed)
			if !c.refused {
				require.NoError(t, err)
				return
			}
			require.True(t, fail.Is(err, fail.Malformed), "%v", err)
			require.ErrorContains(t, err, "the templates, patches and files of the group's intents have more than 67108864 bytes together")
		})
	}
}
