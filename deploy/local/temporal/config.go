package temporal

import (
	"net"
	"strconv"
	"time"

	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/primitives"
)

const (
	clusterName = "active"

	// How many history shards there are is written into a database when it is
	// created and cannot be changed for it afterwards. A shard has one write
	// under way at a time: SQLite has no more anyhow, PostgreSQL writes them
	// to disk together, which makes 28 ms for a child workflow 22.
	fileShards     = 4
	postgresShards = 32
)

// internalServices are those that only the server itself talks to.
var internalServices = []primitives.ServiceName{
	primitives.HistoryService,
	primitives.MatchingService,
	primitives.WorkerService,
}

// config is what a Temporal configuration file would say. internal holds a port
// per internal service.
func (s *Server) config(c Config, internal []int) *config.Config {
	shards := int32(fileShards)
	if c.Postgres != "" {
		shards = postgresShards
	}
	cfg := &config.Config{
		Global: config.Global{
			Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: c.IP},
		},
		Persistence: config.Persistence{
			DefaultStore:     "store",
			VisibilityStore:  "visibility",
			NumHistoryShards: shards,
			DataStores: map[string]config.DataStore{
				"store":      {SQL: s.store.config},
				"visibility": {SQL: s.visibility.config},
			},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: s.addr},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services: map[string]config.Service{
			string(primitives.FrontendService): service(c.IP, c.FrontendPort),
		},
		PublicClient: config.PublicClient{HostPort: s.addr},
	}
	for i, name := range internalServices {
		cfg.Services[string(name)] = service(c.IP, internal[i])
	}
	cfg.Archival.History.State = "disabled"
	cfg.Archival.Visibility.State = "disabled"
	cfg.NamespaceDefaults.Archival.History.State = "disabled"
	cfg.NamespaceDefaults.Archival.Visibility.State = "disabled"
	return cfg
}

func service(ip string, port int) config.Service {
	return config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: ip}}
}

// staticHosts replaces the membership protocol, and its ports, by a list.
func staticHosts(c Config, internal []int) map[primitives.ServiceName]static.Hosts {
	host := func(port int) static.Hosts {
		return static.SingleLocalHost(net.JoinHostPort(c.IP, strconv.Itoa(port)))
	}
	hosts := map[primitives.ServiceName]static.Hosts{primitives.FrontendService: host(c.FrontendPort)}
	for i, name := range internalServices {
		hosts[name] = host(internal[i])
	}
	return hosts
}
