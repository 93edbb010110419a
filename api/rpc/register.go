package rpc

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	called "github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/statusnotify"
)

// maxClientID is the longest id of a client, in bytes.
const maxClientID = 256

// register has the clients of this process that are registered.
type register struct {
	statusnotify.UnimplementedStatusNotifyServer
	door *door.Door

	mu      sync.Mutex
	clients map[client]*registered
}

// client is one of a caller, by the id that the caller has given it: callers neither take nor learn each other's ids.
type client struct{ who, id string }

// registered is a client that is registered; end ends its stream.
type registered struct{ end context.CancelCauseFunc }

// clientOf is the caller's client with an id.
func clientOf(ctx context.Context, id string) client {
	who, _ := called.IdentityOf(ctx) // which is proven before a call is read
	return client{who: who.String(), id: id}
}

func newRegister(d *door.Door) *register {
	return &register{door: d, clients: map[client]*registered{}}
}

var (
	// errDeregistered ends a stream in order.
	errDeregistered = fail.New(fail.Conflict, "the client has deregistered")
	// errSlow ends that of a client that does not read.
	errSlow = fail.New(fail.Unavailable, "the client reads too slowly: more notifications are not kept for it; register again, and then ask for the status, as what changed meanwhile is not told")
)

// sendTime is how long a client may take for a small notification: the connection keeps a few for it, and no more.
var sendTime = policy.StreamWrite

// StatusRegister tells a client the status after each change that makes it another one. A client that reads slowly is
// told less often, one that does not read is dropped. The header is sent when it is registered: of what changes after
// that it is told.
func (r *register) StatusRegister(in *statusnotify.StatusRegistration, stream grpc.ServerStreamingServer[statusnotify.StatusNotification]) error {
	owner, q, err := target(in)
	if err != nil {
		return err
	}
	asked := &door.Request{Verb: door.Watch, Noun: domain.OwnerNoun(owner)}
	asked.Parent, asked.Name = domain.Cut(asked.Noun, owner)
	return ours(stream.Context(), r.door.Pass(stream.Context(), asked, func(ctx context.Context, service door.Service) error {
		ctx, leave, err := r.enter(ctx, in.GetClientId())
		if err != nil {
			return err
		}
		defer leave()
		s, err := service.SubscribeTo(ctx, owner, question{q}, "")
		if err == nil {
			defer s.Close()
			err = notifications(ctx, s, stream)
			if errors.Is(err, errSlow) {
				s.TooSlow()
			}
		}
		if errors.Is(context.Cause(ctx), errDeregistered) {
			return nil
		}
		return err
	}))
}

// notifications sends what is new until the stream ends. The first answer is what the first change is compared with.
func notifications(ctx context.Context, s *notify.Subscription, stream grpc.ServerStreamingServer[statusnotify.StatusNotification]) error {
	var before *statusnotify.StatusNotification
	for {
		latest, err := s.Latest(ctx)
		if err != nil {
			return err
		}
		now := latest.(*answer).StatusNotification
		switch {
		case before == nil:
			err = stream.SendHeader(nil)
		case !proto.Equal(before, now):
			err = send(ctx, stream, now)
		}
		if err != nil {
			return err
		}
		before = now
	}
}

// send sends a notification, for as long as the client may take for it and ctx lasts: a large one goes on as long as its pieces do (bounded.SendMsg). When it
// gives up the stream has to be ended: what is on its way then goes with it.
func send(ctx context.Context, stream grpc.ServerStreamingServer[statusnotify.StatusNotification], n *statusnotify.StatusNotification) error {
	var late <-chan time.Time
	if proto.Size(n) <= smallBytes {
		timer := time.NewTimer(sendTime)
		defer timer.Stop()
		late = timer.C
	}
	sent := make(chan error, 1)
	go func() { sent <- panics.Do(ctx, func() error { return stream.Send(n) }) }()
	select {
	case err := <-sent:
		if fail.Is(err, fail.Timeout) {
			return errSlow
		}
		return err
	case <-late:
		return errSlow
	case <-ctx.Done():
		if late == nil && errors.Is(context.Cause(ctx), errDeregistered) {
			if err := <-sent; err != nil { // which the pieces bound: to a client half a message is an error of the server, and no end in order
				return err
			}
		}
		return context.Cause(ctx)
	}
}

// StatusDeregister ends the stream of a client that the caller has registered with this process. Its id is free at once. Of others'
// clients it says and does nothing, as of those that there are not: that is no command, else anybody who is known could fill the audit log with names
// of his own.
func (r *register) StatusDeregister(ctx context.Context, in *statusnotify.StatusDeregistration) (*statusnotify.StatusDeregistrationResponse, error) {
	if err := checkClientID(in.GetClientId()); err != nil {
		return nil, err
	}
	asked := &door.Request{Verb: door.Get, Noun: domain.Registrations, Name: in.GetClientId()}
	if r.has(clientOf(ctx, in.GetClientId())) {
		asked.Verb = door.Delete
	}
	return &statusnotify.StatusDeregistrationResponse{}, ours(ctx, r.door.Pass(ctx, asked, func(ctx context.Context, _ door.Service) error {
		if !asked.Verb.Command() {
			return nil
		}
		c := clientOf(ctx, in.GetClientId())
		r.mu.Lock()
		there := r.clients[c]
		delete(r.clients, c)
		r.mu.Unlock()
		if there != nil {
			there.end(errDeregistered)
		}
		return nil
	}))
}

// has says whether a client is registered.
func (r *register) has(c client) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clients[c] != nil
}

// checkClientID refuses an id that no client has.
func checkClientID(id string) error {
	if id == "" || len(id) > maxClientID {
		return fail.New(fail.Invalid, "Invalid client ID: it needs 1 to %d bytes", maxClientID)
	}
	return nil
}

// enter takes a client of the caller in under its id, until leave is called. The context ends when it deregisters.
func (r *register) enter(ctx context.Context, id string) (entered context.Context, leave func(), err error) {
	if err := checkClientID(id); err != nil {
		return nil, nil, err
	}
	c := clientOf(ctx, id)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clients[c] != nil {
		return nil, nil, fail.New(fail.Conflict, "Duplicate client ID: %s is registered; deregister it or use another one", id)
	}
	ctx, end := context.WithCancelCause(ctx)
	in := &registered{end}
	r.clients[c] = in
	return ctx, func() { r.leave(c, in) }, nil
}

// leave takes a client out, unless that has been done and another one has its id.
func (r *register) leave(c client, in *registered) {
	in.end(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clients[c] == in {
		delete(r.clients, c)
	}
}

// target is what a registration is about: the owner and the status query that tells what it asks for.
func target(in *statusnotify.StatusRegistration) (owner domain.Key, q status.Query, err error) {
	v := url.Values{}
	switch in.GetStatusType() {
	case statusnotify.StatusValue_READY:
		v.Set("status", string(status.TypeReady))
	case statusnotify.StatusValue_DEPLOYED:
		v.Set("status", string(status.TypeDeployed))
	default:
		return "", q, fail.New(fail.Invalid, "Invalid status type: %s; use READY or DEPLOYED", in.GetStatusType())
	}
	switch in.GetOutput() {
	case statusnotify.OutputType_SUMMARY:
		v.Set("output", string(status.OutputSummary))
	case statusnotify.OutputType_ALL:
		v.Set("output", string(status.OutputAll))
	default:
		return "", q, fail.New(fail.Invalid, "Invalid output type: %s; use SUMMARY or ALL", in.GetOutput())
	}
	for name, filter := range map[string][]string{"app": in.GetApps(), "cluster": in.GetClusters(), "resource": in.GetResources()} {
		if len(filter) > 0 {
			v[name] = filter
		}
	}
	if owner, err = ownerOf(in); err != nil {
		return "", q, err
	}
	if len(in.GetApps()) > 0 && domain.OwnerNoun(owner) == domain.LogicalClouds {
		return "", q, fail.New(fail.Invalid, "Invalid apps: a logical cloud has none; leave them out")
	}
	q, err = status.ParseQuery(v)
	return owner, q.For(status.SubjectOf(owner)), err
}

func ownerOf(in *statusnotify.StatusRegistration) (domain.Key, error) {
	var p fail.Problems
	switch key := in.GetKey().(type) {
	case *statusnotify.StatusRegistration_DigKey:
		k := key.DigKey
		domain.CheckName(&p, "digKey.project", k.GetProject())
		domain.CheckName(&p, "digKey.compositeApp", k.GetCompositeApp())
		domain.CheckName(&p, "digKey.compositeAppVersion", k.GetCompositeAppVersion())
		domain.CheckName(&p, "digKey.deploymentIntentGroup", k.GetDeploymentIntentGroup())
		return domain.Join("projects", k.GetProject(), "composite-apps", k.GetCompositeApp(), k.GetCompositeAppVersion(),
			domain.DeploymentIntentGroups.Collection, k.GetDeploymentIntentGroup()), p.Err()
	case *statusnotify.StatusRegistration_LcKey:
		k := key.LcKey
		domain.CheckName(&p, "lcKey.project", k.GetProject())
		domain.CheckName(&p, "lcKey.logicalCloud", k.GetLogicalCloud())
		return domain.Join("projects", k.GetProject(), domain.LogicalClouds.Collection, k.GetLogicalCloud()), p.Err()
	case *statusnotify.StatusRegistration_ClusterKey:
		c := domain.ClusterName{Provider: key.ClusterKey.GetClusterProvider(), Name: key.ClusterKey.GetCluster()}
		domain.CheckName(&p, "clusterKey.clusterProvider", c.Provider)
		domain.CheckName(&p, "clusterKey.cluster", c.Name)
		return c.Key(), p.Err()
	default:
		return "", fail.New(fail.Invalid, "Invalid key: name a deployment intent group (digKey), a logical cloud (lcKey) or a cluster (clusterKey)")
	}
}
