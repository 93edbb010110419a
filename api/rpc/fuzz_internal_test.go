package rpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/drover-io/drover/internal/convey"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/statusnotify"
	"github.com/drover-io/drover/internal/universe"
)

// encoded are messages as they come over the wire.
func encoded(f *testing.F, messages ...proto.Message) {
	f.Helper()
	for _, m := range messages {
		data, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(data)
	}
}

// FuzzStream: whatever a stream brings is refused as Invalid, or says something of workloads that all have ids.
func FuzzStream(f *testing.F) {
	pod := &universe.WorkloadUpdate{
		WorkloadMetadata: &universe.WorkloadMetadata{Id: "a", Orchestrator: 1, ResourceType: "v1/Pod", ResourceNamespace: "default", ResourceName: "a"},
		WorkloadState:    &universe.WorkloadState{NodeName: "n", Ready: true, Extra: map[string]*universe.WorkloadState_ExtraData{"labels": {Data: map[string]string{"a": ""}}, "x": nil}},
	}
	encoded(f, &universe.WorkloadStreamRequest{},
		&universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadUpdate{WorkloadUpdate: pod}},
		&universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadDelete{WorkloadDelete: &universe.WorkloadDelete{}}},
		&universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadSync{WorkloadSync: &universe.WorkloadSync{WorkloadUpdates: []*universe.WorkloadUpdate{pod, {}, pod}}}})
	f.Fuzz(func(t *testing.T, data []byte) {
		in := &universe.WorkloadStreamRequest{}
		if proto.Unmarshal(data, in) != nil {
			return
		}
		said, err := saidBy(in)
		if err != nil {
			require.Equal(t, fail.Invalid, fail.KindOf(err))
			return
		}
		for _, w := range said.Put {
			require.NotEmpty(t, w.ID)
		}
		for _, id := range said.Delete {
			require.NotEmpty(t, id)
		}
	})
}

// FuzzRegistration: whatever is registered for is an owner's status, or refused as Invalid.
func FuzzRegistration(f *testing.F) {
	encoded(f, &statusnotify.StatusRegistration{},
		&statusnotify.StatusRegistration{
			ClientId: "c", StatusType: statusnotify.StatusValue_READY, Output: statusnotify.OutputType_ALL, Apps: []string{"a"}, Clusters: []string{"p+c", "", "+"}, Resources: []string{"r"},
			Key: &statusnotify.StatusRegistration_DigKey{DigKey: &statusnotify.DigKey{Project: "p", CompositeApp: "ca", CompositeAppVersion: "v1", DeploymentIntentGroup: "g"}},
		},
		&statusnotify.StatusRegistration{Key: &statusnotify.StatusRegistration_LcKey{LcKey: &statusnotify.LcKey{Project: "../p", LogicalCloud: "a/b"}}, StatusType: 7})
	f.Fuzz(func(t *testing.T, data []byte) {
		in := &statusnotify.StatusRegistration{}
		if proto.Unmarshal(data, in) != nil {
			return
		}
		owner, _, err := target(in)
		if err != nil {
			require.Equal(t, fail.Invalid, fail.KindOf(err))
			return
		}
		noun := domain.OwnerNoun(owner)
		require.NotNil(t, noun, "%q", owner)
		_, ok := noun.Split(owner)
		require.True(t, ok, "%q", owner)
	})
}

// FuzzRules: whatever comes as a rule is refused as Invalid, each member by the name that the protocol has for it, or comes back as
// it was. What is taken can be asked of any workload.
func FuzzRules(f *testing.F) {
	rule := func(change func(*universe.RuleData)) *universe.Rule {
		d := &universe.RuleData{
			OrchestratorType: 1, ResourceType: "v1/Pod", DpuSelectionPolicy: "Any", RuleTemplate: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"n"},"spec":{"containers":[{"name":"n","image":"i"}]}}`),
			WorkloadTerms:      []*universe.RuleWorkloadTerm{{MatchExpressions: []*universe.RuleMatchExpression{{Key: "metadata['id']", Operation: 1, Values: []string{"a"}}}}},
			WorkloadInfoInject: []*universe.WorkloadInfoInject{{Key: "@", Message: &universe.WorkloadInfoInject_AsAnnotation{AsAnnotation: &universe.WorkloadInfoInjectConfigAsAnnotation{Name: "x"}}}},
		}
		change(d)
		return &universe.Rule{Id: "r", Data: d}
	}
	encoded(f, &universe.Rule{}, rule(func(*universe.RuleData) {}),
		rule(func(d *universe.RuleData) {
			d.OrchestratorType, d.WorkloadTerms[0].MatchExpressions[0].Operation = -1, 99
		}),
		rule(func(d *universe.RuleData) { d.WorkloadInfoInject[0].Message, d.WorkloadTerms = nil, nil }),
		rule(func(d *universe.RuleData) {
			d.WorkloadTerms[0].MatchExpressions[0].Operation, d.WorkloadTerms[0].MatchExpressions[0].Values = 5, []string{"-9223372036854775808"}
		}))
	tenant := &domain.Tenant{Metadata: domain.Metadata{Name: "t"}}
	tenant.Default()
	tenant.Spec.Cluster, tenant.Spec.Nodes = "p+c", domain.NodesAll
	w := &domain.Workload{Tenant: "t", ID: "a", Orchestrator: domain.Kubernetes, ResourceType: domain.KindPod, NodeName: "n"}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := &universe.Rule{}
		if proto.Unmarshal(data, in) != nil {
			return
		}
		rule, err := convey.RuleOf(in, domain.TenantKey("t"))
		if err != nil {
			require.Equal(t, fail.Invalid, fail.KindOf(err))
			return
		}
		compiled, err := match.Compile(tenant, rule)
		if err != nil {
			require.Equal(t, fail.Invalid, fail.KindOf(err))
			for _, field := range fail.FieldsOf(inProto(err)) {
				require.Regexp(t, `^rule\.(id|data\.[a-z_]+)`, field.Path)
			}
			return
		}
		require.Equal(t, compiled.Matches(w), compiled.Explain(w).Matches)
		object, reason := compiled.Resource(tenant, nil, w)
		require.NotEqual(t, object == nil, reason == nil)
		back, err := convey.RuleOf(convey.Rule(rule), domain.TenantKey("t"))
		require.NoError(t, err)
		require.NoError(t, match.ValidateRule(tenant, back))
	})
}

// wire is a stream of gRPC as it comes over a connection that then ends.
type wire struct{ *bytes.Reader }

// ReadMessageHeader implements rawStream.
func (w wire) ReadMessageHeader(header []byte) error {
	_, err := io.ReadFull(w.Reader, header)
	return err
}

// Read implements rawStream.
func (w wire) Read(n int) (mem.BufferSlice, error) {
	data := make([]byte, min(n, w.Len()+1))
	if _, err := io.ReadFull(w.Reader, data); err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(data)}, nil
}

// RecvCompress implements rawStream.
func (w wire) RecvCompress() string { return gzip.Name }

// FuzzFraming: whatever comes over a connection, messages come out of it, none larger than may be, until it ends or an error says what is wrong.
func FuzzFraming(f *testing.F) {
	const most = 1 << 16
	framed := func(compressed byte, length int, data []byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{compressed}, uint32(length)), data...)
	}
	message, err := proto.Marshal(&universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadDelete{WorkloadDelete: &universe.WorkloadDelete{
		WorkloadMetadata: &universe.WorkloadMetadata{Id: "a"},
	}}})
	require.NoError(f, err)
	var small, bomb bytes.Buffer
	for to, data := range map[*bytes.Buffer][]byte{&small: message, &bomb: make([]byte, 2*most)} {
		w, err := encoding.GetCompressor(gzip.Name).Compress(to)
		require.NoError(f, err)
		_, err = w.Write(data)
		require.NoError(f, err)
		require.NoError(f, w.Close())
	}
	for _, seed := range [][]byte{
		{}, {0}, framed(0, 0, nil), append(framed(0, len(message), message), framed(1, small.Len(), small.Bytes())...), framed(0, most+1, message), framed(0, 1<<32-1, nil),
		framed(0, len(message)+1, message), framed(1, bomb.Len(), bomb.Bytes()), framed(1, len(message), message), framed(255, 1, []byte{8}),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, single := range []bool{false, true} {
			s := &bounded{ctx: t.Context(), raw: wire{bytes.NewReader(data)}, most: most, single: single, stopping: make(chan struct{})}
			var err error
			came := 0
			for err == nil {
				in := &universe.WorkloadStreamRequest{}
				if err = s.RecvMsg(in); err == nil {
					came++
					require.LessOrEqual(t, proto.Size(in), most)
				}
				if single {
					break
				}
			}
			require.LessOrEqual(t, 5*came, len(data))
			if err == nil || errors.Is(err, io.EOF) {
				continue
			}
			require.Contains(t, []codes.Code{codes.Internal, codes.InvalidArgument, codes.ResourceExhausted}, toStatus(err).Code(), "%v", err)
			require.False(t, errors.As(err, new(*panics.Error)), "%v", err)
		}
	})
}

// FuzzMembers: a message that is read has no more members than were counted of its bytes, by which room for it was taken.
func FuzzMembers(f *testing.F) {
	workload := &universe.WorkloadUpdate{
		WorkloadMetadata: &universe.WorkloadMetadata{Id: "a"},
		WorkloadState:    &universe.WorkloadState{Extra: map[string]*universe.WorkloadState_ExtraData{"labels": {Data: map[string]string{"a": "", "b": ""}}, "x": nil}},
	}
	encoded(f, &universe.WorkloadStreamRequest{},
		&universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadUpdate{WorkloadUpdate: workload}},
		&universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadSync{WorkloadSync: &universe.WorkloadSync{WorkloadUpdates: []*universe.WorkloadUpdate{workload, {}, workload}}}})
	f.Add([]byte{0x0b, 0x0b, 0x0c, 0x0c})
	f.Add([]byte{0x1a, 0x04, 0x0a, 0x00, 0x0a, 0x00})
	f.Fuzz(func(t *testing.T, data []byte) {
		in := &universe.WorkloadStreamRequest{}
		counted, err := countMembers(in.ProtoReflect().Descriptor(), data)
		if err != nil {
			require.True(t, fail.Is(err, fail.Exhausted), "%v", err)
			return
		}
		if (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, in) == nil {
			require.LessOrEqual(t, membersOf(in.ProtoReflect()), counted)
		}
	})
}

// membersOf are the parts of a message as it is in memory.
func membersOf(m protoreflect.Message) (n int) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				n++
				if f.MapValue().Message() != nil {
					n += membersOf(v.Message())
				}
				return true
			})
		case f.IsList():
			for i := range v.List().Len() {
				n++
				if f.Message() != nil {
					n += membersOf(v.List().Get(i).Message())
				}
			}
		case f.Message() != nil:
			n += 1 + membersOf(v.Message())
		}
		return true
	})
	return n
}
