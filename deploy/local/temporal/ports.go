package temporal

import (
	"context"
	"fmt"
	"net"
	"strconv"
)

// claimPorts checks that the ports asked for can be bound, and replaces a
// frontend port of 0 by a free one.
//
// The server and the UI open their listeners themselves and end the process
// when they cannot, so the port has to be tried beforehand. What another
// process grabs in the moment between still ends in an error from Start, only
// a less friendly one.
func (c *Config) claimPorts(ctx context.Context) error {
	if c.FrontendPort == 0 {
		ports, err := freePorts(ctx, c.IP, 1)
		if err != nil {
			return fmt.Errorf("find a port for the temporal API: %w", err)
		}
		c.FrontendPort = ports[0]
	} else if err := tryPort(ctx, c.IP, c.FrontendPort); err != nil {
		return fmt.Errorf("temporal API (gRPC) port %d: %w", c.FrontendPort, err)
	}
	if c.UIPort != 0 {
		if err := tryPort(ctx, c.IP, c.UIPort); err != nil {
			return fmt.Errorf("temporal Web UI port %d: %w", c.UIPort, err)
		}
	}
	return nil
}

func tryPort(ctx context.Context, ip string, port int) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}

// freePorts finds n different ports that nobody uses and that the kernel will
// not hand to anybody else for a while: each has seen one connection, closed
// first by the listening side, and stays in TIME_WAIT. That keeps it from
// being chosen for somebody's port 0 or as an outgoing port, and does not keep
// us from binding it.
func freePorts(ctx context.Context, ip string, n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(ip, "0"))
		if err != nil {
			return nil, err
		}
		defer l.Close() // only when all are found, so that all differ
		if err := touch(ctx, l); err != nil {
			return nil, err
		}
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func touch(ctx context.Context, l net.Listener) error {
	out, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		return err
	}
	defer out.Close()
	in, err := l.Accept()
	if err != nil {
		return err
	}
	return in.Close()
}
