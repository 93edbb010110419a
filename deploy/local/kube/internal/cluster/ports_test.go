package cluster

import (
	"maps"
	"net"
	"strconv"
	"strings"
	"testing"
)

func TestPortsFollowTheOrderOfTheFirstStart(t *testing.T) {
	ports := assign(t, t.TempDir(), 0, "edge01", "edge02")
	want := map[string]Ports{
		"edge01": {APIServer: 16443, EtcdClient: 16444, EtcdPeer: 16445},
		"edge02": {APIServer: 16453, EtcdClient: 16454, EtcdPeer: 16455},
	}
	if !maps.Equal(ports, want) {
		t.Errorf("got %v, want %v", ports, want)
	}
}

func TestPortsStayWithTheirCluster(t *testing.T) {
	dir := t.TempDir()
	first := assign(t, dir, 20000, "edge01", "edge02")
	second := assign(t, dir, 0, "hub", "edge02")
	if second["edge02"] != first["edge02"] {
		t.Errorf("edge02 moved from %v to %v", first["edge02"], second["edge02"])
	}
	if got := second["hub"].APIServer; got != 20020 {
		t.Errorf("a new cluster got port %d, want the next block", got)
	}
}

func TestPortBaseMovesAllClusters(t *testing.T) {
	dir := t.TempDir()
	assign(t, dir, 0, "edge01", "edge02")
	if got := assign(t, dir, 30000, "edge02")["edge02"].APIServer; got != 30010 {
		t.Errorf("got port %d, want 30010", got)
	}
}

func TestPortsBeyondTheLastAreRefused(t *testing.T) {
	_, err := AssignPorts(t.TempDir(), 65530, []string{"edge01", "edge02"})
	if err == nil || !strings.Contains(err.Error(), "cluster edge02") || !strings.Contains(err.Error(), "--port-base") {
		t.Errorf("got %v, want an error that names the cluster and the flag", err)
	}
}

func TestCheckFreeNamesPortComponentAndFlag(t *testing.T) {
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port

	err = Ports{APIServer: port}.CheckFree("edge01")
	if err == nil {
		t.Fatal("a port in use was accepted")
	}
	for _, part := range []string{strconv.Itoa(port), APIServer, "edge01", "--port-base"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not mention %q", err, part)
		}
	}
}

func assign(t *testing.T, dir string, base int, clusters ...string) map[string]Ports {
	t.Helper()
	ports, err := AssignPorts(dir, base, clusters)
	if err != nil {
		t.Fatal(err)
	}
	return ports
}
