package cluster

import (
	"github.com/drover-io/drover/deploy/local/kube/internal/atomicfile"
	"github.com/drover-io/drover/deploy/local/kube/internal/pki"
)

const (
	// superusers is the group that RBAC grants everything.
	superusers = "system:masters"
	adminUser  = "drover-kube-admin"
)

// identity is a user of the cluster that has a kubeconfig.
type identity struct {
	name       string
	user       string
	groups     []string
	kubeconfig string
}

func (l Layout) identities() []identity {
	return []identity{
		{"admin", adminUser, []string{superusers}, l.Kubeconfig()},
		{ControllerManager, "system:kube-controller-manager", nil, l.componentKubeconfig(ControllerManager)},
		{Scheduler, "system:kube-scheduler", nil, l.componentKubeconfig(Scheduler)},
		// kwok acts for every node, which no role of a real cluster allows.
		{Kwok, Kwok, []string{superusers}, l.componentKubeconfig(Kwok)},
	}
}

// Prepare writes every file the components read. Certificates and keys are made
// only once; the rest follows from them and from the ports, and is written
// anew.
func (l Layout) Prepare(ports Ports) error {
	if err := l.makeDirs(); err != nil {
		return err
	}
	authority, err := pki.EnsureAuthority(l.authority(), l.Name)
	if err != nil {
		return err
	}
	if err := pki.EnsureKey(l.serviceAccountKey()); err != nil {
		return err
	}
	hosts := []string{loopback, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	if err := authority.EnsureServing(l.serving(), APIServer, hosts); err != nil {
		return err
	}
	for _, id := range l.identities() {
		files := l.pair(id.name)
		if err := authority.EnsureClient(files, id.user, id.groups...); err != nil {
			return err
		}
		if err := l.writeKubeconfig(id.kubeconfig, ports, files); err != nil {
			return err
		}
	}
	return atomicfile.Write(l.kwokStages(), kwokStages(), 0o600)
}
