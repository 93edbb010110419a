package test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/statusnotify"
	"github.com/drover-io/drover/test/harness"
)

// flooded is an API process with two callers, of whom one may have the other wait.
type flooded struct {
	*harness.Replica
	t      *testing.T
	tokens map[string]string // by caller
	group  *client.Deployment
}

func newFlooded(ctx context.Context, t *testing.T, env ...string) *flooded {
	t.Helper()
	s, file := harness.SharedStack(t), filepath.Join(t.TempDir(), "admin-token")
	f := &flooded{t: t, tokens: map[string]string{}}
	f.Replica = s.AddAPI(t, append(env, "DROVER_AUTH=on", "DROVER_ADMIN_TOKEN_FILE="+file, "DROVER_MONGO_DATABASE=flood_"+strings.ToLower(rand.Text()[:8]))...)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	c := client.New(f.URL+"/v2", client.WithToken(strings.TrimSpace(string(text))))
	t.Cleanup(c.Close)
	admin := c.API()
	for _, name := range []string{"loud", "quiet"} {
		account := &domain.ServiceAccount{Metadata: domain.Metadata{Name: name}}
		token := &domain.ServiceAccountToken{Identity: domain.Identity{Parent: domain.KeyOf(account)}, Metadata: domain.Metadata{Name: "t"}}
		binding := domain.RoleBindings.New().(*domain.RoleBinding)
		binding.Metadata = domain.Metadata{Name: name}
		binding.Spec = domain.RoleBindingSpec{Role: "viewer", Subjects: []domain.RightSubject{{Kind: domain.SubjectServiceAccount, Name: string(domain.KeyOf(account))}}}
		for _, o := range []domain.Object{account, token, binding} {
			_, err := admin.Create(ctx, o, nil)
			require.NoError(t, err)
		}
		f.tokens[name] = token.Status.Token
	}
	f.group = &client.Deployment{API: admin, Project: "p", CompositeApp: "composite", Version: "v1", Profile: "profile", LogicalCloud: "admin", Group: "group", Release: "r"}
	require.NoError(t, admin.Run(ctx, append(f.group.CloudSteps()[:2], f.group.GroupSteps()...), nil))
	return f
}

// from has connections begin at an address of this machine.
func from(address string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: harness.Patience}
}

// peer is an HTTP client at an address of this machine.
func (f *flooded) peer(address string) *http.Client {
	transport := &http.Transport{DialContext: from(address).DialContext, MaxIdleConnsPerHost: 64}
	f.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (f *flooded) ask(ctx context.Context, c *http.Client, who, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL+"/v2"+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+f.tokens[who])
	return c.Do(r)
}

// watch opens a stream.
func (f *flooded) watch(ctx context.Context, c *http.Client) (*http.Response, error) {
	return f.ask(ctx, c, "loud", "/deployment-intent-groups?watch=true")
}

// isServed asks for the status of the group as the quiet caller, on a new connection, and says how long that took.
func (f *flooded) isServed(ctx context.Context) time.Duration {
	f.t.Helper()
	began, c := time.Now(), f.peer("127.0.0.2")
	defer c.CloseIdleConnections()
	answer, err := f.ask(ctx, c, "quiet", client.At(f.group.Key())+"/status?status=deployed")
	require.NoError(f.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(f.t, err)
	require.Equal(f.t, http.StatusOK, answer.StatusCode, string(text))
	return time.Since(began)
}

// TestNobodyTakesAllStreams: a caller has as many as he may have, over REST and gRPC together, and is told so; another one is served while he goes on
// asking.
func TestNobodyTakesAllStreams(t *testing.T) {
	t.Parallel()
	const streams = 5
	ctx := within(t)
	f := newFlooded(ctx, t, fmt.Sprintf("DROVER_CALLER_STREAMS=%d", streams))
	loud := f.peer("127.0.0.1")
	var open []*http.Response
	for range streams {
		answer, err := f.watch(ctx, loud)
		require.NoError(t, err)
		defer answer.Body.Close()
		require.Equal(t, http.StatusOK, answer.StatusCode)
		open = append(open, answer)
	}
	const says = "5 streams are open for service-account service-accounts/loud, and more there may not be (--caller-streams); nothing was done, try again later"
	over, err := f.watch(ctx, loud)
	require.NoError(t, err)
	defer over.Body.Close()
	text, err := io.ReadAll(over.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, over.StatusCode)
	require.Contains(t, string(text), says)
	later, err := strconv.Atoi(over.Header.Get("Retry-After"))
	require.NoError(t, err)
	require.Positive(t, later)

	connection, err := grpc.NewClient(f.RPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer connection.Close()
	in := &statusnotify.StatusRegistration{ClientId: "loud", StatusType: statusnotify.StatusValue_DEPLOYED, Key: &statusnotify.StatusRegistration_DigKey{DigKey: &statusnotify.DigKey{
		Project: f.group.Project, CompositeApp: f.group.CompositeApp, CompositeAppVersion: f.group.Version, DeploymentIntentGroup: f.group.Group,
	}}}
	stream, err := statusnotify.NewStatusNotifyClient(connection).StatusRegister(
		metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+f.tokens["loud"]), in, grpc.WaitForReady(true))
	require.NoError(t, err)
	_, err = stream.Recv()
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
	require.Contains(t, status.Convert(err).Message(), says)

	flooding, end := context.WithCancel(ctx)
	defer end()
	var refused, others atomic.Int64
	var flood sync.WaitGroup
	for range 8 {
		flood.Go(func() {
			for flooding.Err() == nil {
				answer, err := f.watch(flooding, loud)
				if err != nil {
					continue
				}
				_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 4<<10))
				answer.Body.Close()
				if answer.StatusCode == http.StatusTooManyRequests {
					refused.Add(1)
				} else {
					others.Add(1)
				}
			}
		})
	}
	harness.Until(ctx, t, "it is refused", func() bool { return refused.Load() > 100 })
	var longest time.Duration
	for range 20 {
		longest = max(longest, f.isServed(ctx))
	}
	end()
	flood.Wait()
	require.Zero(t, others.Load())
	t.Logf("the status took %s at the most, while %d streams were refused", longest, refused.Load())

	open[0].Body.Close()
	harness.Until(ctx, t, "there is room again", func() bool {
		answer, err := f.watch(ctx, loud)
		require.NoError(t, err)
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

// closed opens connections that say nothing, more than there may be, waits until the other side has closed what is beyond, and counts what it has
// closed then. Those that it takes it closes, too, but only when they have said nothing for policy.Header, or policy.Setup.
func (f *flooded) closed(ctx context.Context, address, to string, most, more int) (over int, end func()) {
	f.t.Helper()
	var open []net.Conn
	end = func() {
		for _, c := range open {
			c.Close()
		}
	}
	f.t.Cleanup(end)
	var read sync.WaitGroup
	var n atomic.Int64
	for range most + more {
		c, err := from(address).DialContext(ctx, "tcp", to)
		require.NoError(f.t, err)
		open = append(open, c)
		read.Go(func() {
			if _, err := c.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				n.Add(1)
			}
		})
	}
	harness.Until(ctx, f.t, "closed what is beyond", func() bool { return int(n.Load()) >= more })
	for _, c := range open {
		require.NoError(f.t, c.SetReadDeadline(time.Now())) // those that are taken are not waited for
	}
	read.Wait()
	return int(n.Load()), end
}

// TestNobodyTakesAllConnections: those of one address beyond what it may have are closed at once, on the ports of REST and of gRPC. Another address is
// served meanwhile, and so is the first one when it has fewer.
func TestNobodyTakesAllConnections(t *testing.T) {
	t.Parallel()
	const most, mostOfRPC, more = 40, 1_000, 20
	ctx := within(t)
	f := newFlooded(ctx, t, fmt.Sprintf("DROVER_ADDRESS_CONNECTIONS=%d", most))
	over, end := f.closed(ctx, "127.0.0.3", strings.TrimPrefix(f.URL, "http://"), most, more)
	defer end()
	require.Equal(t, more, over)
	_, err := f.watch(ctx, f.peer("127.0.0.3"))
	require.Error(t, err)
	require.NoError(t, ctx.Err())
	t.Logf("the status took %s meanwhile", f.isServed(ctx))
	harness.Until(ctx, t, "the log names the address", func() bool {
		return strings.Contains(f.Log(), "connections are refused: there are too many") && strings.Contains(f.Log(), "127.0.0.3")
	})
	end()
	harness.Until(ctx, t, "there is room again", func() bool {
		answer, err := f.watch(ctx, f.peer("127.0.0.3"))
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})

	over, end = f.closed(ctx, "127.0.0.3", f.RPC, mostOfRPC, more)
	defer end()
	require.Equal(t, more, over)
	connection, err := grpc.NewClient("passthrough:///"+f.RPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			return from("127.0.0.2").DialContext(ctx, "tcp", to)
		}))
	require.NoError(t, err)
	defer connection.Close()
	_, err = statusnotify.NewStatusNotifyClient(connection).StatusDeregister(
		metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+f.tokens["quiet"]), &statusnotify.StatusDeregistration{ClientId: "nobody"}, grpc.WaitForReady(true))
	require.NoError(t, err)
}

// TestAProjectThatIsFull is refused another document by each API, also by one that was killed, and is told what it may have. What it has may be changed
// and deleted.
func TestAProjectThatIsFull(t *testing.T) {
	t.Parallel()
	const most = 30
	ctx, s := within(t), harness.SharedStack(t)
	env := []string{"DROVER_MONGO_DATABASE=full_" + strings.ToLower(rand.Text()[:8]), fmt.Sprintf("DROVER_PROJECT_DOCUMENTS=%d", most)}
	one, other := s.AddAPI(t, env...), s.AddAPI(t, env...)
	project := &domain.Project{Metadata: domain.Metadata{Name: "p"}}
	_, err := one.Client.API().Create(ctx, project, nil)
	require.NoError(t, err)
	stored := 0
	app := func(n int) *domain.CompositeApp {
		o := &domain.CompositeApp{Identity: domain.Identity{Parent: domain.KeyOf(project)}, Metadata: domain.Metadata{Name: fmt.Sprint("ca", n)}}
		o.Spec.Version = "v1"
		return o
	}
	full := func(r *harness.Replica) bool {
		t.Helper()
		_, err := r.Client.API().Create(ctx, app(stored), nil)
		if err == nil {
			stored++
			return false
		}
		require.Equal(t, http.StatusTooManyRequests, code(t, err), "%v", err)
		require.ErrorContains(t, err, "documents, and may have 30 (--project-documents): delete some")
		return true
	}
	harness.Until(ctx, t, "one refuses", func() bool { return full(one) })
	require.LessOrEqual(t, stored, most)
	require.Greater(t, stored, most/2, "what comes while it is counted may be counted twice")
	before := stored
	harness.Until(ctx, t, "the other one refuses", func() bool { return full(other) })
	require.Less(t, stored, before+most/2, "some may come beyond while it is counted")
	one.Kill()
	one.Start(t)
	before = stored
	harness.Until(ctx, t, "one refuses that has begun anew", func() bool { return full(one) })
	require.Less(t, stored, before+most/2)

	changed := app(0)
	changed.Description = "changed"
	_, err = one.Client.API().Put(ctx, changed, nil)
	require.NoError(t, err)
	require.NoError(t, one.Client.API().Delete(ctx, domain.KeyOf(changed)))
}
