package rpc_test

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/drover-io/drover/internal/universe"
)

// distance is a way to a server on which everything takes a time.
type distance struct {
	takes time.Duration
	// onTheWay is how much goes to the server at this moment, and most how much did at once.
	onTheWay, most atomic.Int64
}

// to is the address of the way to another one.
func (d *distance) to(t *testing.T, address string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", address)
			if err != nil {
				near.Close()
				return
			}
			t.Cleanup(func() { near.Close(); far.Close() })
			go d.carry(near, far, func(n int) {
				if now := d.onTheWay.Add(int64(n)); now > d.most.Load() {
					d.most.Store(now)
				}
			})
			go d.carry(far, near, func(int) {})
		}
	}()
	return l.Addr().String()
}

// carry takes bytes from one side to the other, each after its time.
func (d *distance) carry(from, to net.Conn, count func(n int)) {
	type parcel struct {
		data []byte
		due  time.Time
	}
	parcels := make(chan parcel, 10_000)
	go func() {
		defer to.Close()
		for p := range parcels {
			<-time.After(time.Until(p.due))
			count(-len(p.data))
			if _, err := to.Write(p.data); err != nil {
				return
			}
		}
	}()
	defer close(parcels)
	for {
		data := make([]byte, 32<<10)
		n, err := from.Read(data)
		if err != nil {
			return
		}
		count(n)
		parcels <- parcel{data[:n], time.Now().Add(d.takes)}
	}
}

// TestALargeSyncComesFromAfar: it does not wait for a round after each 64 KiB, with which it would take longer than a message may.
func TestALargeSyncComesFromAfar(t *testing.T) {
	t.Parallel()
	w := newStreams(t)
	way := &distance{takes: 50 * time.Millisecond}
	connection, err := grpc.NewClient(way.to(t, w.address), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	w.client = universe.NewWorkloadServiceClient(connection)
	var all []*universe.WorkloadUpdate
	var ids []string
	for i := range 200 {
		ids = append(ids, fmt.Sprintf("pod-%03d", i))
		all = append(all, podOf(ids[i], func(u *universe.WorkloadUpdate) {
			u.WorkloadState.Extra["annotations"] = &universe.WorkloadState_ExtraData{Data: map[string]string{"a": strings.Repeat("x", 20<<10)}}
		}))
	}
	s := w.begin("tenant1")
	require.NoError(t, s.Send(syncOf(all...)))
	w.eventually(ids...)
	require.Greater(t, way.most.Load(), int64(512<<10), "that much of 4 MiB is on its way at once")
}
