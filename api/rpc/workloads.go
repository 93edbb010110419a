package rpc

import (
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/universe"
)

// workloads is WorkloadService.
type workloads struct {
	universe.UnimplementedWorkloadServiceServer
	door     *door.Door
	stopping <-chan struct{} // closed when the server is to stop, and streams are to end
}
