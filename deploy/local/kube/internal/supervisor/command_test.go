package supervisor

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-io/drover/deploy/local/kube/internal/cluster"
)

func TestOptionsAreChecked(t *testing.T) {
	all := cluster.Components()
	for _, test := range []struct {
		name string
		opts options
		want string // part of the error
	}{
		{"name", options{clusters: []string{"Edge_01"}, components: all}, `cluster name "Edge_01"`},
		{"path", options{clusters: []string{"../edge01"}, components: all}, `cluster name "../edge01"`},
		{"twice", options{clusters: []string{"edge01", "edge01"}, components: all}, "named twice"},
		{"unknown component", options{components: append(all, "kubelet")}, `unknown component "kubelet"`},
		{"no etcd", options{components: []string{cluster.APIServer}}, "cannot do without etcd"},
		{"no API server", options{components: []string{cluster.Etcd}}, "cannot do without kube-apiserver"},
		{"nodes", options{components: all, nodes: -1}, "--nodes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.opts.complete()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestNoNodesLeavesOutKwok(t *testing.T) {
	opts := options{clusters: []string{"edge01"}, components: cluster.Components(), nodes: 1, noNodes: true}
	if err := opts.complete(); err != nil {
		t.Fatal(err)
	}
	if opts.nodes != 0 || slices.Contains(opts.components, cluster.Kwok) {
		t.Errorf("%d nodes, components %v", opts.nodes, opts.components)
	}
}

func TestUpNeedsDataDirAndCluster(t *testing.T) {
	command := NewCommand(nil)
	command.SetArgs([]string{"up"})
	err := command.Execute()
	if err == nil || !strings.Contains(err.Error(), `"cluster", "data-dir"`) {
		t.Errorf("got %v, want an error about the required flags", err)
	}
}
