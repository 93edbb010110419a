// Package door is the one way to the commands and queries of the product. Every edge, be it HTTP or gRPC, has a Door and nothing
// else of the service. It passes the door with a Request: a verb, a noun and what it is about, "instantiate the deployment
// intent group web". What has to stand around every command and query, such as traces and limits, is a Step. No handler knows
// of it (decision 0026).
package door

import (
	"context"
	"maps"
	"slices"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/service"
)

// Verb is what is done, in the word in which rights and audit speak of it. The operations of owners are verbs by their own
// names.
type Verb string

// The verbs.
const (
	Create   Verb = "create"
	List     Verb = "list"
	Get      Verb = "get"
	Put      Verb = "put" // replace, or create
	Delete   Verb = "delete"
	Status   Verb = "status"   // of an owner
	Watch    Verb = "watch"    // the same, or a list, as a stream
	Query    Verb = "query"    // what somebody brings with the request: of an owner, or what it would bring about; nothing is stored
	Explain  Verb = "explain"  // an owner
	Download Verb = "download" // a credential
	Report   Verb = "report"   // what runs in a cluster, as a stream
	Release  Verb = "release"  // what was held back

	Approve     = Verb(domain.OpApprove)
	Instantiate = Verb(domain.OpInstantiate)
	Terminate   = Verb(domain.OpTerminate)
	Stop        = Verb(domain.OpStop)
	Update      = Verb(domain.OpUpdate)
	Rollback    = Verb(domain.OpRollback)
	Migrate     = Verb(domain.OpMigrate)
)

// verbs says of each verb what there is to know of it.
var verbs = map[Verb]struct {
	command bool // it may change something
	gives   bool // it changes nothing, and hands out what lets its owner in elsewhere: it is recorded as a command is
	streams bool // it lasts as long as the caller wants
	room    room // where it has its slot
}{
	Create: {command: true}, Put: {command: true}, Delete: {command: true},
	List: {}, Get: {}, Status: {}, Query: {}, Explain: {},
	Download:    {gives: true},
	Watch:       {streams: true},
	Report:      {command: true, streams: true},
	Release:     {command: true},
	Approve:     {command: true, room: approving},
	Instantiate: {command: true, room: beginning}, Update: {command: true, room: beginning},
	Rollback: {command: true, room: beginning}, Migrate: {command: true, room: beginning},
	Terminate: {command: true, room: terminating}, Stop: {command: true, room: stopping},
}

// Verbs are all there are, sorted.
func Verbs() []Verb { return slices.Sorted(maps.Keys(verbs)) }

// Command says whether it may change something; what may not is a query.
func (v Verb) Command() bool { return verbs[v].command }

// Recorded says whether the audit log has it when it goes well, too.
func (v Verb) Recorded() bool { return verbs[v].command || verbs[v].gives }

// Streams says whether it lasts as long as the caller wants.
func (v Verb) Streams() bool { return verbs[v].streams }

// Request is what somebody asks for.
type Request struct {
	Verb Verb
	Noun *domain.Noun
	// Parent is what the documents of the noun are below, "" at the top. Of a list it may be further above.
	Parent domain.Key
	// Name is the local name of the one that it is about: "" for all of a list, and of one that is created until Named says it.
	Name string
	// Called is the name that the document has which is created, as far as its body was received and nobody has looked at it yet: for the record that
	// it begins, which is all that there is when the process dies.
	Called string
	// Renders says that charts are rendered for it, as for approve, among which it has its slot.
	Renders bool
	// Bytes is how much came with it to be stored, as far as it was received.
	Bytes int64
	// Receive takes in what is still to come of the request, its body; nil where there is none, or where the work does that.
	Receive func(ctx context.Context) error
}

// uploads says whether a file comes with it.
func (r *Request) uploads() bool { return r.Noun.File && (r.Verb == Create || r.Verb == Put) }

// Key is that of the document that it is about; of what is about none, the parent's.
func (r *Request) Key() domain.Key {
	if r.Name == "" {
		return r.Parent
	}
	return r.Parent.Child(r.Noun.Collection, r.Name)
}

// Scope is the project or the cluster provider that it is about or that it is in; "" for the fleet. To make a project, or to
// list all of them, is the fleet's matter.
func (r *Request) Scope() domain.Key { return domain.ScopeOf(r.Key()) }

// project is the project that it is about or that it is in; "" for none.
func (r *Request) project() domain.Key {
	scope := r.Scope()
	if _, ok := domain.Projects.Split(scope); !ok {
		return ""
	}
	return scope
}

// check refuses what rights and audit could not speak of.
func (r *Request) check() error {
	_, known := verbs[r.Verb]
	if !known || r.Noun == nil || !slices.Contains(domain.Nouns, r.Noun) && !slices.Contains(domain.Computed, r.Noun) {
		return fail.New(fail.Internal, "a request came to the door without a verb or a noun: %q %v", r.Verb, r.Noun)
	}
	return nil
}

// Next goes on with what is asked for.
type Next func(ctx context.Context) error

// Step stands around every command and query. It goes on by next, once, with a context of its own if it likes, or answers
// with an error in its place. When next returns nil a command is done and its answer has not been sent: an error then is
// the answer. A query may have sent its answer.
type Step func(ctx context.Context, r *Request, next Next) error

// Door lets requests in to a service.
type Door struct {
	service Service
	steps   []Step
	trail   Trail // of what does not come this far; nil for none
}

// New makes a door; the first step is the outermost.
func New(s Service, steps ...Step) *Door { return &Door{service: s, steps: steps} }

// Record has the trail take what edges refuse themselves (Refused). It is for who makes the door.
func (d *Door) Record(t Trail) { d.trail = t }

// Calling is the method of a call of gRPC, for Refused.
const Calling = "CALL"

// Refused records what an edge has refused before it came to the door, as it was asked for: a method and a path. Nobody waits for that,
// and of too many at a time the trail counts the rest.
func (d *Door) Refused(ctx context.Context, method, path string, kind fail.Kind) {
	if d.trail == nil {
		return
	}
	record := audit.Record{Event: audit.Answered, Verb: method, Key: path, Result: string(kind)}
	describe(ctx, &record)
	if d.trail.Admits(record) {
		d.trail.Later(record)
	}
}

// arrival is a request whose edge knows who asks, and has not done with it yet.
type arrival struct{ passed bool }

type arrivalKey struct{}

// Arriving goes on with a request of a known caller, which comes to the door in the context that it gives, or does not. passed says, when the
// edge has done with it, whether it came: then its record is a matter of the steps, and of the edge (Refused) where it did not.
func Arriving(ctx context.Context) (arriving context.Context, passed func() bool) {
	a := &arrival{}
	return context.WithValue(ctx, arrivalKey{}, a), func() bool { return a.passed }
}

// SpeakerBy says who speaks for a tenant by a bearer token. An edge asks before it reads what else comes with a request, which passes
// after that.
func (d *Door) SpeakerBy(ctx context.Context, tenant, bearer string) (*service.Speaker, error) {
	return d.service.SpeakerBy(ctx, tenant, bearer)
}

// Pass takes a request through all steps; work then does what is asked for with the service, which it has only as long as
// it runs. Work is what one request is about: one command or query, and what is read to answer it.
func (d *Door) Pass(ctx context.Context, r *Request, work func(ctx context.Context, s Service) error) error {
	if err := r.check(); err != nil {
		return err
	}
	if a, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		a.passed = true
	}
	// What panics has failed, as far as all steps know: it is recorded, and gives back what it has.
	next := func(ctx context.Context) error {
		return panics.Do(ctx, func() error { return work(ctx, d.service) })
	}
	for _, step := range slices.Backward(d.steps) {
		inner := next
		next = func(ctx context.Context) error { return step(ctx, r, inner) }
	}
	return next(context.WithValue(ctx, requestKey{}, r))
}

type requestKey struct{}

// Named tells the steps around the request of a context what name the document has that it creates.
func Named(ctx context.Context, name string) {
	if r, ok := ctx.Value(requestKey{}).(*Request); ok {
		r.Name = name
	}
}
