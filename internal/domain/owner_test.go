package domain_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestOwners: what is registered of owners is whole, tells them from each other, and leads back to them.
func TestOwners(t *testing.T) {
	known := map[domain.Operation]bool{
		domain.OpApprove: true, domain.OpInstantiate: true, domain.OpTerminate: true, domain.OpStop: true,
		domain.OpUpdate: true, domain.OpRollback: true, domain.OpMigrate: true,
	}
	ids := map[string]*domain.Noun{}
	for _, n := range domain.Nouns {
		_, isOwner := n.New().(domain.Owner)
		require.Equal(t, isOwner, n.Owner != nil, n.Kind)
		require.Equal(t, isOwner, domain.OwnerNoun(keyOf(n)) == n, n.Kind)
		if !isOwner {
			continue
		}
		key := keyOf(n)
		require.True(t, domain.IsOwner(key), key)
		for what, text := range map[string]string{"ID": n.Owner.ID, "Label": n.Owner.Label, "Name": n.Owner.Name} {
			filled, ok := n.Fill(text, key)
			require.True(t, ok && filled != "" && !strings.ContainsAny(filled, "{}"), "%s of %s: %q", what, n.Kind, filled)
		}
		id, _ := n.Fill(n.Owner.ID, key)
		require.Nil(t, ids[id], "%s and %s have the same ids", n.Kind, ids[id])
		ids[id] = n
		attributes := map[string]string{}
		for _, a := range n.Owner.Attributes {
			attributes[a.Name], _ = n.Fill(a.Value, key)
		}
		require.Equal(t, key, domain.OwnerOf(func(name string) string { return attributes[name] }))
		require.NotEmpty(t, n.Owner.Operations, n.Kind)
		words := map[string]bool{}
		for _, o := range n.Owner.Operations {
			require.True(t, known[o.Operation], "%s of %s", o.Operation, n.Kind)
			require.NotEmpty(t, o.Summary, "%s of %s", o.Operation, n.Kind)
			require.False(t, words[o.Called()], "%s of %s twice", o.Called(), n.Kind)
			words[o.Called()] = true
			require.Equal(t, o.Called(), n.Owner.Word(o.Operation))
		}
	}
	require.Empty(t, domain.OwnerOf(func(string) string { return "" }))
	for key, name := range map[domain.Key]string{
		"projects/p/composite-apps/ca/v1/deployment-intent-groups/g": `deployment intent group "p/ca/v1/g"`,
		"projects/p/logical-clouds/lc":                               `logical cloud "p/lc"`,
		"cluster-providers/cp/clusters/c":                            `cluster "cp/c"`,
		"clusters/c":                                                 `cluster "clusters/c"`,
		"projects/p":                                                 `"projects/p"`,
	} {
		require.Equal(t, name, domain.NameOwner(key))
	}
	// The work of a group on a cluster is the group's.
	all := map[string]string{"DroverProject": "p", "DroverCompositeApp": "ca/v1", "DroverGroup": "g", "DroverCluster": "cp+c"}
	require.Equal(t, domain.Key("projects/p/composite-apps/ca/v1/deployment-intent-groups/g"), domain.OwnerOf(func(name string) string { return all[name] }))
	delete(all, "DroverGroup")
	require.Equal(t, domain.Key("cluster-providers/cp/clusters/c"), domain.OwnerOf(func(name string) string { return all[name] }))
}

// keyOf is a key of the noun, in which everything is called as it is in paths.
func keyOf(n *domain.Noun) domain.Key {
	names := map[string]string{}
	for _, level := range n.Lineage() {
		for _, called := range level.Names {
			names[called] = called
		}
	}
	key, _ := n.Key(names)
	return key
}

func TestKeysAndNames(t *testing.T) {
	for _, n := range domain.Nouns {
		key := keyOf(n)
		names, ok := n.Split(key)
		require.True(t, ok, key)
		again, ok := n.Key(names)
		require.True(t, ok)
		require.Equal(t, key, again)
		parent, local := domain.Cut(n, key)
		require.Equal(t, key, parent.Child(n.Collection, local))
		require.Equal(t, strings.Count(n.New().LocalName(), "/"), len(n.Names)-1, "%s: Names are the parts of a local name", n.Kind)
		above, ok := n.Above(key.Child("more", "of-it"))
		require.True(t, ok)
		require.Equal(t, key, above)
		_, ok = n.Split(key.Child("more"))
		require.False(t, ok)
		_, ok = n.Split(key + "!")
		require.False(t, ok)
	}
	_, ok := domain.Projects.Key(nil)
	require.False(t, ok)
}
