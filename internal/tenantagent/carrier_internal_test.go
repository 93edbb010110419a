package tenantagent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/internal/universe"
)

// taken is a server that gets a rule between a look and a Create.
type taken struct {
	universe.WorkloadRuleServiceClient
	rule *universe.Rule
}

func (s taken) Create(context.Context, *universe.CreateRequest, ...grpc.CallOption) (*universe.CreateResponse, error) {
	return nil, status.Error(codes.AlreadyExists, "it is there")
}

func (s taken) Get(context.Context, *universe.GetRequest, ...grpc.CallOption) (*universe.GetResponse, error) {
	return &universe.GetResponse{Rule: s.rule}, nil
}

// TestACreateThatArrivesLate: the one before had no answer, and makes the rule while it is looked for. That is no conflict.
func TestACreateThatArrivesLate(t *testing.T) {
	r := &workloadRule{}
	r.Namespace, r.Name = "shop", "web"
	want := r.want()
	other := &universe.Rule{Id: want.GetId(), Data: &universe.RuleData{DpuSelectionPolicy: "Any"}}
	for name, c := range map[string]struct {
		status ruleStatus
		there  *universe.Rule
		ours   bool
		making string
	}{
		"the create was said before":           {ruleStatus{Making: hashOf(want)}, want, true, ""},
		"it was, and this is another rule":     {ruleStatus{Making: hashOf(want)}, other, false, hashOf(want)},
		"it was made before":                   {ruleStatus{Made: true, Making: hashOf(want)}, other, true, ""},
		"an earlier create was of other words": {ruleStatus{Making: hashOf(other) + " " + hashOf(want)}, other, true, ""},
	} {
		k := &carriage{carrier: newCarrier(&agent{}, taken{rule: c.there}), rule: r, status: c.status}
		err := k.step(t.Context(), create, want, nil)
		require.Equal(t, c.ours, k.status.Made, name)
		require.Equal(t, c.making, k.status.Making, name)
		if c.ours {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, errConflict, name)
		}
	}
}

// TestWhatIsOnItsWayIsNotForgotten: a rule of somebody else is there, while an earlier request of ours may arrive when that has gone.
func TestWhatIsOnItsWayIsNotForgotten(t *testing.T) {
	r := &workloadRule{}
	r.Namespace, r.Name = "shop", "web"
	want := r.want()
	k := &carriage{carrier: newCarrier(&agent{}, taken{}), rule: r, status: ruleStatus{Making: hashOf(want)}}
	other := &universe.Rule{Id: want.GetId(), Data: &universe.RuleData{DpuSelectionPolicy: "Any"}}
	require.ErrorIs(t, k.step(t.Context(), decide(want, other, &k.status), want, other), errConflict)
	require.Equal(t, nothing, decide(want, want, &k.status), "it is ours when it comes")
}

// TestWhatIsSeenToGoIsForgotten when it has gone, whoever let it go.
func TestWhatIsSeenToGoIsForgotten(t *testing.T) {
	c := newCarrier(&agent{objects: fake.NewSimpleDynamicClient(runtime.NewScheme())}, taken{})
	r := &workloadRule{}
	r.Namespace, r.Name, r.UID = "shop", "web", "1"
	k := &carriage{carrier: c, rule: r, status: ruleStatus{Making: "hash"}}
	require.Positive(t, k.late())
	c.now = func() time.Time { return time.Now().Add(time.Hour) }
	require.Negative(t, k.late())
	r.UID = "2"
	require.Positive(t, k.late(), "another one of the name")
	require.NoError(t, c.carry(t.Context(), "shop/web"))
	require.Empty(t, c.since)
}

// TestARefusalIsLoggedOnce, as long as its reason is the same: the rule is looked at every half minute, and as soon as a second later where a call had no answer.
func TestARefusalIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	c := newCarrier(&agent{config: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, objects: fake.NewSimpleDynamicClient(runtime.NewScheme())}, taken{})
	const refusedSo, held, waiting, over = "a rule is refused", "a rule cannot be carried over now", "a rule is not carried over\"", "a rule is neither refused nor held up any more"
	for _, s := range []struct {
		err  error
		want string // the message, "" for none
	}{
		{nil, ""},
		{status.Error(codes.InvalidArgument, "no such member"), refusedSo},
		{status.Error(codes.InvalidArgument, "no such member"), ""},
		{status.Error(codes.InvalidArgument, "another one"), refusedSo},
		{apierrors.NewConflict(schema.GroupResource{}, "web", errors.New("it has changed")), ""},
		{status.Error(codes.InvalidArgument, "another one"), ""},
		{status.Error(codes.Unavailable, "dial 1"), held},
		{status.Error(codes.Unavailable, "dial 2"), ""},
		{apierrors.NewInternalError(errors.New("the cluster")), held},
		{status.Error(codes.InvalidArgument, "another one"), refusedSo},
		{errConflict, waiting},
		{errConflict, ""},
		{errors.Join(errConflict, apierrors.NewConflict(schema.GroupResource{}, "web", errors.New("it has changed"))), ""},
		{status.Error(codes.Unavailable, "dial 1"), held},
		{errOnItsWay, waiting},
		{nil, over},
		{nil, ""},
	} {
		log.Reset()
		c.tell(t.Context(), "shop/web", s.err)
		if s.want == "" {
			require.Empty(t, log.String(), "%v", s.err)
			continue
		}
		require.Equal(t, 1, strings.Count(log.String(), "\n"), "%v", s.err)
		require.Contains(t, log.String(), s.want)
		require.Contains(t, log.String(), "rule=shop/web")
	}
	c.tell(t.Context(), "shop/web", status.Error(codes.InvalidArgument, "no such member"))
	require.NoError(t, c.carry(t.Context(), "shop/web"))
	require.Empty(t, c.troubles, "it has gone")
}

// TestWhatWaitsIsNotOver: a conflict is in the status, and is told of as something that is in the way; and it is not tried again at once.
func TestWhatWaitsIsNotOver(t *testing.T) {
	r := &workloadRule{}
	r.Namespace, r.Name = "shop", "web"
	for _, err := range []error{errConflict, errOnItsWay} {
		k := &carriage{carrier: newCarrier(&agent{}, taken{}), rule: r}
		k.status.say(r, reasonSynced, "", k.now())
		k.objects = patched{}
		require.Equal(t, err, k.answer(t.Context(), err))
		require.False(t, k.status.Synced)
		require.True(t, pending(err))
	}
	require.False(t, pending(errors.Join(errConflict, errors.New("the status cannot be written"))))
}

// patched is a cluster that takes each patch.
type patched struct{ dynamic.ResourceInterface }

func (patched) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*unstructured.Unstructured, error) {
	return &unstructured.Unstructured{Object: map[string]any{}}, nil
}

// slowly lists rules, and knows until when it may.
type slowly struct {
	universe.WorkloadRuleServiceClient
	until time.Time
	asked func()
}

func (s *slowly) List(ctx context.Context, _ *universe.ListRequest, _ ...grpc.CallOption) (*universe.ListResponse, error) {
	s.until, _ = ctx.Deadline()
	s.asked()
	return &universe.ListResponse{}, nil
}

// TestAllRulesMayBeLongOnTheirWay: 16 MiB of them need more than a minute over 2 Mbit/s, and a list that is cut off is asked for again for ever.
func TestAllRulesMayBeLongOnTheirWay(t *testing.T) {
	var c *carrier
	queued := -1
	by := &slowly{asked: func() { queued = c.queue.Len() }}
	c = newCarrier(&agent{state: newState(nil), scopes: newScopes(), objects: fake.NewSimpleDynamicClient(runtime.NewScheme())}, by)
	c.known = toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	waiting := &unstructured.Unstructured{Object: map[string]any{}}
	waiting.SetNamespace("shop")
	waiting.SetName("web")
	require.NoError(t, c.known.Add(waiting))
	c.look(t.Context())
	require.Equal(t, 1, queued, "what is not synced does not wait for the list")
	require.Greater(t, time.Until(by.until), 2*time.Minute)
}
