package test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/statusnotify"
)

// heard is what something has said so far.
type heard struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.data.Write(p)
}

func (h *heard) all() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return bytes.Clone(h.data.Bytes())
}

// listen hears a stream of events until ctx ends.
func listen(ctx context.Context, t *testing.T, url string) *heard {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, url)
	h := &heard{}
	go func() {
		defer answer.Body.Close()
		_, _ = io.Copy(h, answer.Body)
	}()
	return h
}

// listenToNotifications hears what StatusNotify says of a group, with all that it can be asked to say, until ctx ends.
func listenToNotifications(ctx context.Context, t *testing.T, address string, d *client.Deployment) *heard {
	t.Helper()
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	stream, err := statusnotify.NewStatusNotifyClient(connection).StatusRegister(ctx, &statusnotify.StatusRegistration{
		ClientId: d.Group, StatusType: statusnotify.StatusValue_READY, Output: statusnotify.OutputType_ALL,
		Key: &statusnotify.StatusRegistration_DigKey{DigKey: &statusnotify.DigKey{
			Project: d.Project, CompositeApp: d.CompositeApp, CompositeAppVersion: d.Version, DeploymentIntentGroup: d.Group,
		}},
	}, grpc.WaitForReady(true))
	require.NoError(t, err)
	_, err = stream.Header()
	require.NoError(t, err)
	h := &heard{}
	go func() {
		for {
			n, err := stream.Recv()
			if err != nil {
				return
			}
			fmt.Fprintln(h, protojson.Format(n))
		}
	}()
	return h
}

// spy looks all the time at what others of the machine may see of processes: the command lines and environments of those, and of all that
// they start, and the files of a temporary folder.
type spy struct {
	folder string
	pids   []int

	seen  map[string][]byte
	ended chan struct{}
	end   context.CancelFunc
}

func spyOn(ctx context.Context, folder string, pids ...int) *spy {
	ctx, end := context.WithCancel(ctx)
	s := &spy{folder: folder, pids: pids, seen: map[string][]byte{}, ended: make(chan struct{}), end: end}
	go func() {
		defer close(s.ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			for _, pid := range s.pids {
				s.process(fmt.Sprint(pid))
			}
			s.files()
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	return s
}

// places is what was seen, once it has stopped looking.
func (s *spy) places() map[string][]byte {
	s.end()
	<-s.ended
	return s.seen
}

func (s *spy) process(pid string) {
	for _, of := range []string{"cmdline", "environ"} {
		if data, err := os.ReadFile(filepath.Join("/proc", pid, of)); err == nil && len(data) > 0 {
			s.seen[of+" "+pid+" "+string(data)] = data
		}
	}
	children, _ := filepath.Glob(filepath.Join("/proc", pid, "task", "*", "children"))
	for _, file := range children {
		data, _ := os.ReadFile(file)
		for _, child := range strings.Fields(string(data)) {
			s.process(child)
		}
	}
}

func (s *spy) files() {
	_ = filepath.WalkDir(s.folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil //nolint:nilerr // files come and go
		}
		if data, err := os.ReadFile(path); err == nil && len(data) > 0 {
			s.seen["temporary file "+path+" "+string(data)] = data
		}
		return nil
	})
}

// decoded has the codec server open payloads.
func decoded(ctx context.Context, t *testing.T, url string, of []*commonpb.Payload) []byte {
	t.Helper()
	body, err := protojson.Marshal(&commonpb.Payloads{Payloads: of})
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/codec/decode", bytes.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s", data)
	var opened commonpb.Payloads
	require.NoError(t, protojson.Unmarshal(data, &opened))
	var all []byte
	for _, p := range opened.GetPayloads() {
		all = append(append(all, p.GetData()...), '\n')
	}
	return all
}
