package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/drover-io/drover/deploy/local/kube/internal/atomicfile"
)

const (
	// DefaultPortBase is where the ports of a data directory start if nobody
	// chose another place.
	DefaultPortBase = 16443

	// blockSize is the distance between the ports of two clusters: a round
	// number, so that a port number tells the cluster at a glance.
	blockSize = 10
	maxPort   = 65535
	loopback  = "127.0.0.1"
)

// Ports are the ports one cluster listens on, all of them on the loopback
// interface. Components that are not named here do not listen at all.
type Ports struct {
	APIServer  int `json:"kube-apiserver"`
	EtcdClient int `json:"etcd-client"`
	EtcdPeer   int `json:"etcd-peer"`
}

// ServerURL is the address of the cluster's API server.
func (p Ports) ServerURL() string { return "https://" + hostPort(p.APIServer) }

// EtcdURL is the address of the cluster's etcd for its clients.
func (p Ports) EtcdURL() string { return "http://" + hostPort(p.EtcdClient) }

func (p Ports) etcdPeerURL() string { return "http://" + hostPort(p.EtcdPeer) }

// CheckFree fails if something else listens on one of the ports of the named
// cluster. The error names the port, what wanted it, and the flag that moves it.
func (p Ports) CheckFree(clusterName string) error {
	for _, use := range []struct {
		port int
		what string
	}{
		{p.APIServer, APIServer},
		{p.EtcdClient, Etcd + " (clients)"},
		{p.EtcdPeer, Etcd + " (peers)"},
	} {
		listener, err := net.Listen("tcp", hostPort(use.port))
		if err != nil {
			return fmt.Errorf("port %d for %s of cluster %s is not free, choose other ports with --port-base: %w",
				use.port, use.what, clusterName, err)
		}
		if err := listener.Close(); err != nil {
			return fmt.Errorf("release port %d: %w", use.port, err)
		}
	}
	return nil
}

// PortMap assigns a block of ports to every cluster of a data directory. It is
// kept in the directory, so that a cluster has the same ports at every start,
// whichever other clusters are started with it and in whatever order.
type PortMap struct {
	// Base is the first port of block 0.
	Base int `json:"portBase"`
	// Blocks is the number of each cluster's block.
	Blocks map[string]int `json:"blocks"`
}

// AssignPorts loads the port map of a data directory, gives a block to each
// named cluster that has none, and stores the result. A base of 0 stands for the
// one used before, or for DefaultPortBase.
func AssignPorts(dataDir string, base int, clusters []string) (map[string]Ports, error) {
	path := filepath.Join(dataDir, "ports.json")
	portMap, err := loadPortMap(path)
	if err != nil {
		return nil, err
	}
	if base != 0 {
		portMap.Base = base
	}
	assigned, err := portMap.assign(clusters)
	if err != nil {
		return nil, err
	}
	content, err := json.MarshalIndent(portMap, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", path, err)
	}
	return assigned, atomicfile.Write(path, append(content, '\n'), 0o600)
}

func loadPortMap(path string) (*PortMap, error) {
	portMap := &PortMap{Base: DefaultPortBase, Blocks: map[string]int{}}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return portMap, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, portMap); err != nil {
		return nil, fmt.Errorf("parse %s: %w", path, err)
	}
	return portMap, nil
}

func (m *PortMap) assign(clusters []string) (map[string]Ports, error) {
	used := make(map[int]bool, len(m.Blocks))
	for _, block := range m.Blocks {
		used[block] = true
	}
	next := 0
	assigned := make(map[string]Ports, len(clusters))
	for _, name := range clusters {
		block, known := m.Blocks[name]
		if !known {
			for used[next] {
				next++
			}
			block = next
			used[block] = true
			m.Blocks[name] = block
		}
		first := m.Base + block*blockSize
		ports := Ports{APIServer: first, EtcdClient: first + 1, EtcdPeer: first + 2}
		if first < 1 || ports.EtcdPeer > maxPort {
			return nil, fmt.Errorf("cluster %s would need ports %d to %d, choose other ports with --port-base",
				name, first, ports.EtcdPeer)
		}
		assigned[name] = ports
	}
	return assigned, nil
}

func hostPort(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
