package logicalcloud_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/logicalcloud"
	"github.com/drover-io/drover/internal/plan"
)

var update = flag.Bool("update", false, "rewrite the bundles of testdata")

// input is a cloud as its user sends it.
type input struct {
	Cloud       domain.LogicalCloud
	Permissions []*domain.UserPermission
	Quotas      []*domain.ClusterQuota
	Lifetime    int32
}

func (in *input) cloud() logicalcloud.Cloud {
	in.Cloud.Request = []byte("request")
	return logicalcloud.Cloud{LogicalCloud: &in.Cloud, Permissions: in.Permissions, Quotas: in.Quotas, Lifetime: in.Lifetime}
}

func TestRender(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			require.NoError(t, err)
			var in input
			require.NoError(t, json.Unmarshal(a.Files[0].Data, &in))
			require.NoError(t, in.cloud().Check())
			bundle, err := logicalcloud.Render(in.cloud())
			require.NoError(t, err)
			var got bytes.Buffer
			encoder := json.NewEncoder(&got)
			encoder.SetIndent("", "  ")
			require.NoError(t, encoder.Encode(bundle))
			if *update {
				a.Files = append(a.Files[:1], txtar.File{Name: "bundle.json", Data: got.Bytes()})
				require.NoError(t, os.WriteFile(path, txtar.Format(a), 0o644))
			}
			require.Empty(t, cmp.Diff(string(a.Files[1].Data), got.String()))
		})
	}
}

func TestRenderTwice(t *testing.T) {
	in := standard()
	one, err := logicalcloud.Render(in.cloud())
	require.NoError(t, err)
	two, err := logicalcloud.Render(in.cloud())
	require.NoError(t, err)
	require.Equal(t, one, two, "a bundle is stored by its digest")
}

func standard() *input {
	in := &input{Permissions: []*domain.UserPermission{{Spec: domain.UserPermissionSpec{Namespace: "ns"}}}}
	in.Cloud.Name, in.Cloud.Spec.Namespace, in.Cloud.Spec.User.UserName = "lc", "ns", "bob"
	return in
}

func TestCheck(t *testing.T) {
	require.NoError(t, standard().cloud().Check())
	for name, c := range map[string]struct {
		change func(*input)
		kind   fail.Kind
		text   string
	}{
		"no namespace":               {func(in *input) { in.Cloud.Spec.Namespace = "" }, fail.Invalid, "spec.namespace"},
		"no user":                    {func(in *input) { in.Cloud.Spec.User.UserName = "" }, fail.Invalid, "spec.user.userName"},
		"no permission":              {func(in *input) { in.Permissions = nil }, fail.Conflict, "Level-1 Logical Clouds require a User Permission assigned to its primary namespace"},
		"permissions in another one": {func(in *input) { in.Permissions[0].Spec.Namespace = "kube-system" }, fail.Conflict, "Level-1 Logical Clouds require"},
	} {
		t.Run(name, func(t *testing.T) {
			in := standard()
			c.change(in)
			err := in.cloud().Check()
			require.Equal(t, c.kind, fail.KindOf(err), "%v", err)
			require.Contains(t, fail.TextOf(err), c.text)
			require.Contains(t, fail.TextOf(err), `"lc"`)
		})
	}
}

func TestRequestName(t *testing.T) {
	require.Equal(t, "lc1-ns1-user-csr", logicalcloud.RequestName("lc1", "ns1"))
	upper, lower := logicalcloud.RequestName("LC_1", "ns1"), logicalcloud.RequestName("lc_1", "ns1")
	require.NotEqual(t, upper, lower)
	require.Regexp(t, `^cloud-[0-9a-f]{20}-ns1-user-csr$`, upper)
}

func TestStagesAreInOrder(t *testing.T) {
	b, err := logicalcloud.Render(standard().cloud())
	require.NoError(t, err)
	kinds := []string{}
	for _, r := range b.Resources {
		kinds = append(kinds, r.Kind)
	}
	require.Equal(t, []string{"Namespace", "CertificateSigningRequest", "Role", "RoleBinding"}, kinds)
	require.Equal(t, plan.ResourceID{Version: "v1", Kind: "Namespace", Name: "ns"}, b.Resources[0].ResourceID)
}

// TestCloudsWithOneNamespaceCollide: of two in one cluster the later one is not instantiated, whatever else they have there.
func TestCloudsWithOneNamespaceCollide(t *testing.T) {
	planned := func(project, name, namespace string) *plan.Plan {
		bundle, err := logicalcloud.Render(logicalcloud.Cloud{LogicalCloud: &domain.LogicalCloud{
			Metadata: domain.Metadata{Name: name}, Spec: domain.LogicalCloudSpec{Namespace: namespace, User: domain.CloudUser{UserName: name}},
		}})
		require.NoError(t, err)
		app := plan.App{Name: logicalcloud.App, Targets: []plan.Target{{ClusterName: domain.ClusterName{Provider: "p", Name: "c"}}}}
		for _, r := range bundle.Resources {
			app.Resources = append(app.Resources, r.ResourceID)
		}
		return &plan.Plan{ContextID: project, Owner: domain.Join("projects", project, "logical-clouds", name), Namespace: "default", Apps: []plan.App{app}}
	}
	c, collide := plan.CollideNow(planned("p", "a", "ns"), planned("q", "b", "ns"), nil, nil, nil)
	require.True(t, collide)
	require.Equal(t, "Namespace", c.Resource.Kind)
	_, collide = plan.CollideNow(planned("p", "a", "ns"), planned("q", "b", "other"), nil, nil, nil)
	require.False(t, collide)
}
