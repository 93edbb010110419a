package cluster

import (
	"fmt"
	"slices"
)

const (
	serviceCIDR = "10.96.0.0/16"
	podCIDR     = "10.244.0.0/16"

	// unroutedAddress satisfies the API server, which refuses to advertise a
	// loopback address, and serves as the address of simulated nodes. Nothing
	// connects to it: pods do not really run, and the endpoints of the kubernetes
	// service are not published. It is from the range that is reserved for
	// documentation (RFC 5737).
	unroutedAddress = "192.0.2.1"

	// Client limits protect big production clusters. Here they would only hide
	// how fast the cluster, or whatever is tested against it, really is.
	clientQPS   = 500
	clientBurst = 1000
)

// Args returns the command line of a component, without its name. The set of
// components that run in the cluster matters to some of them.
func (l Layout) Args(name string, ports Ports, running []string) ([]string, error) {
	switch name {
	case Etcd:
		return l.etcdArgs(ports), nil
	case APIServer:
		return l.apiServerArgs(ports, running), nil
	case ControllerManager:
		return l.controllerManagerArgs(), nil
	case Scheduler:
		return l.schedulerArgs(), nil
	case Kwok:
		return l.kwokArgs(), nil
	}
	return nil, fmt.Errorf("a cluster has no component %q", name)
}

func (l Layout) etcdArgs(ports Ports) []string {
	return []string{
		"--name=" + l.Name,
		"--data-dir=" + l.etcdData(),
		"--listen-client-urls=" + ports.EtcdURL(),
		"--advertise-client-urls=" + ports.EtcdURL(),
		"--listen-peer-urls=" + ports.etcdPeerURL(),
		"--initial-advertise-peer-urls=" + ports.etcdPeerURL(),
		"--initial-cluster=" + l.Name + "=" + ports.etcdPeerURL(),
		// What was written survives the death of any process, and a machine that
		// loses power may lose a test cluster.
		"--unsafe-no-fsync",
		// A lone member has no followers to keep old entries in memory for.
		"--snapshot-count=5000",
		"--snapshot-catchup-entries=100",
		"--quota-backend-bytes=8589934592",
		"--log-level=warn",
	}
}

func (l Layout) apiServerArgs(ports Ports, running []string) []string {
	authority, serving := l.authority(), l.serving()
	args := []string{
		"--etcd-servers=" + ports.EtcdURL(),
		"--bind-address=" + loopback,
		fmt.Sprintf("--secure-port=%d", ports.APIServer),
		"--advertise-address=" + unroutedAddress,
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + serving.Cert,
		"--tls-private-key-file=" + serving.Key,
		"--client-ca-file=" + authority.Cert,
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + l.serviceAccountKey(),
		"--service-account-signing-key-file=" + l.serviceAccountKey(),
		"--service-cluster-ip-range=" + serviceCIDR,
		"--event-ttl=10m",
		// As in every cluster that is installed with kubeadm: agents of nodes run privileged.
		"--allow-privileged",
	}
	if !slices.Contains(running, ControllerManager) {
		// Nobody makes service accounts, so pods must do without.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	return args
}

func (l Layout) controllerManagerArgs() []string {
	authority := l.authority()
	return []string{
		"--kubeconfig=" + l.componentKubeconfig(ControllerManager),
		"--leader-elect=false",
		"--secure-port=0",
		// The controllers' own identities, as in any real cluster: admission
		// rules and audit tell them apart by it.
		"--use-service-account-credentials",
		"--root-ca-file=" + authority.Cert,
		"--service-account-private-key-file=" + l.serviceAccountKey(),
		"--cluster-signing-cert-file=" + authority.Cert,
		"--cluster-signing-key-file=" + authority.Key,
		fmt.Sprintf("--kube-api-qps=%d", clientQPS),
		fmt.Sprintf("--kube-api-burst=%d", clientBurst),
	}
}

func (l Layout) schedulerArgs() []string {
	return []string{
		"--kubeconfig=" + l.componentKubeconfig(Scheduler),
		"--leader-elect=false",
		"--secure-port=0",
		fmt.Sprintf("--kube-api-qps=%d", clientQPS),
		fmt.Sprintf("--kube-api-burst=%d", clientBurst),
	}
}

func (l Layout) kwokArgs() []string {
	return []string{
		"--kubeconfig=" + l.componentKubeconfig(Kwok),
		"--config=" + l.kwokStages(),
		// Nodes that tests create come to life as well as those made here.
		"--manage-all-nodes",
		// Without leases, heartbeats in the node's status keep it Ready. With
		// them, a restarted kwok, which has a new identity, would leave its nodes
		// and their pods alone until the lease of its predecessor has expired.
		"--node-lease-duration-seconds=0",
		"--node-ip=" + unroutedAddress,
		"--cidr=" + podCIDR,
	}
}
