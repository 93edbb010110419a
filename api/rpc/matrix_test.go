package rpc_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/drover-io/drover/api/rpc"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/rights/rightstest"
	"github.com/drover-io/drover/internal/statusnotify"
	"github.com/drover-io/drover/internal/storetest"
	"github.com/drover-io/drover/internal/tenantcert"
	"github.com/drover-io/drover/internal/token"
	"github.com/drover-io/drover/internal/universe"
)

const grpcLegend = `Who may call which gRPC method: rows are methods, with what they are about; columns are callers.
✓ the call goes on, 401 nobody knows who calls (UNAUTHENTICATED), 403 the caller may know of it and may not do it (PERMISSION_DENIED), 404 it is as
if the thing were not there (NOT_FOUND). Health and reflection ask nobody.

--grpc-listen. Callers are those of the routes, by where they have a role and which.
`

const tenantsLegend = `
--tenant-listen, for the tenant a. Callers: none shows nothing; cert and tokn have the tenant's certificate and a token of it; othc and otht those of another
tenant; expi and revo a token of it that has expired, and one that is revoked; acct a token of the service account that is admin of the
fleet; user a token of an OpenID provider.

`

// about are the requests of a method, by what they are about.
func about(method string) map[string]proto.Message {
	const ready, summary = statusnotify.StatusValue_READY, statusnotify.OutputType_SUMMARY
	switch method {
	case statusnotify.StatusNotify_StatusRegister_FullMethodName:
		group, cloud, cluster := registration("g", ready, summary), registration("l", ready, summary), registration("c", ready, summary)
		group.GetDigKey().Project = rightstest.Project
		cloud.Key = &statusnotify.StatusRegistration_LcKey{LcKey: &statusnotify.LcKey{Project: rightstest.Project, LogicalCloud: "lc"}}
		cluster.Key = &statusnotify.StatusRegistration_ClusterKey{ClusterKey: &statusnotify.ClusterKey{ClusterProvider: rightstest.Provider, Cluster: "c"}}
		return map[string]proto.Message{"of a group": group, "of a logical cloud": cloud, "of a cluster": cluster}
	case statusnotify.StatusNotify_StatusDeregister_FullMethodName:
		return map[string]proto.Message{"of a client": &statusnotify.StatusDeregistration{ClientId: "c"}}
	case universe.WorkloadRuleService_Create_FullMethodName, universe.WorkloadRuleService_Update_FullMethodName, universe.WorkloadRuleService_Delete_FullMethodName,
		universe.WorkloadRuleService_Get_FullMethodName, universe.WorkloadRuleService_List_FullMethodName, universe.WorkloadService_WorkloadStream_FullMethodName:
		return map[string]proto.Message{"": &emptypb.Empty{}}
	}
	if strings.HasPrefix(method, "/grpc.health.") || strings.HasPrefix(method, "/grpc.reflection.") {
		return map[string]proto.Message{"": &emptypb.Empty{}}
	}
	return nil
}

// called is what comes of a call of any method: its first answer, or that it has ended.
func called(ctx context.Context, t *testing.T, to *grpc.ClientConn, method string, in proto.Message) codes.Code {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	s, err := to.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	require.NoError(t, err)
	_ = s.SendMsg(in) // the answer says what is wrong
	_ = s.CloseSend()
	return grpcstatus.Code(s.RecvMsg(&emptypb.Empty{}))
}

// TestRightsMatrixOfCalls: every method of both gRPC servers, about each sort of thing, as each sort of caller. testdata/rights.txt says what each is
// answered. A method that is new has no row there; DROVER_UPDATE=1 writes the file anew, and its difference is to be read.
func TestRightsMatrixOfCalls(t *testing.T) {
	ofAPI, ofTenants := rpc.Methods()
	stored := storetest.Open(t, storetest.Config(t))
	callers := rightstest.Callers(t, stored)
	book := rightstest.Book(callers)
	w := newWorldBy(t, rightstest.Prover(stored), 1, door.Identified, door.NewRights(func(context.Context) (*rights.Book, error) { return book, nil }, lease.Now).Authorised,
		func(context.Context, *door.Request, door.Next) error { return fail.New(fail.Exhausted, "it goes on") })
	rows := map[string]string{}
	for _, method := range ofAPI {
		require.NotEmpty(t, about(method), "%s has no row", method)
		for what, in := range about(method) {
			var cells []string
			for _, c := range callers {
				ctx := w.ctx
				if c.Shows != "" {
					ctx = metadata.AppendToOutgoingContext(ctx, "authorization", c.Shows)
				}
				cell, code := "", called(ctx, t, w.to, method, in)
				switch code {
				case codes.OK, codes.ResourceExhausted:
					cell = "✓"
				case codes.Unauthenticated:
					cell = "401"
				case codes.PermissionDenied:
					cell = "403"
				case codes.NotFound:
					cell = "404"
				default:
					t.Errorf("%s %s as %s %s: %s", method, what, c.Where, c.Role, code)
				}
				cells = append(cells, rightstest.Cell(cell))
			}
			rows[method+what] = strings.TrimRight(strings.Join(cells, " ")+"  "+method+" "+what, " ")
		}
	}
	rightstest.Compare(t, "testdata/rights.txt", grpcLegend+rightstest.Legend+"\n"+rightstest.Matrix(callers, rows)+tenantsLegend+tenantsMatrix(t, ofTenants))
}

// tenantsMatrix are the rows of the tenants' server. What is not there is said by what is behind the door, and is no refusal.
func tenantsMatrix(t *testing.T, methods []string) string {
	w := newSecured(t)
	for _, tenant := range []string{"a", "b"} {
		require.NoError(t, tenantcert.Tenant(w.folder, tenant))
	}
	bearer := func(text string) string { return "Bearer " + text }
	revoked := bearer(w.token("a", "revoked", "1h"))
	require.NoError(t, w.documents.Delete(t.Context(), domain.TenantTokens, "tenants/a/tokens/revoked"))
	expired, hash := token.New("tenants/a/tokens/expired")
	require.NoError(t, w.second.Create(t.Context(), &domain.TenantToken{
		Identity: domain.Identity{Parent: "tenants/a"}, Metadata: domain.Metadata{Name: "expired"}, Credential: domain.Credential{Hash: hash, Expires: time.Now().Add(-time.Hour)},
	}))
	admin, hash := token.New(string(domain.FirstAdmin) + "/tokens/good")
	require.NoError(t, w.second.Create(t.Context(), &domain.ServiceAccountToken{
		Identity: domain.Identity{Parent: domain.FirstAdmin}, Metadata: domain.Metadata{Name: "good"}, Credential: domain.Credential{Hash: hash, Expires: time.Now().Add(time.Hour)},
	}))
	callers := []struct{ name, certificate, shows string }{
		{"none", "", ""}, {"cert", "a", ""}, {"tokn", "", bearer(w.token("a", "good", "1h"))}, {"othc", "b", ""}, {"otht", "", bearer(w.token("b", "good", "1h"))},
		{"expi", "", bearer(expired)}, {"revo", "", revoked}, {"acct", "", bearer(admin)}, {"user", "", "Bearer eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2kifQ.c2ln"},
	}
	to, heads := map[string]*grpc.ClientConn{}, []string{}
	for _, c := range callers {
		if to[c.certificate] == nil {
			to[c.certificate] = w.dial(w.addresses[0], c.certificate)
		}
		heads = append(heads, rightstest.Cell(c.name))
	}
	rows := map[string]string{}
	for _, method := range methods {
		require.NotEmpty(t, about(method), "%s has no row", method)
		for what, in := range about(method) {
			var cells []string
			for _, c := range callers {
				ctx := metadata.AppendToOutgoingContext(t.Context(), "tenant-id", "a")
				if c.shows != "" {
					ctx = metadata.AppendToOutgoingContext(ctx, "authorization", c.shows)
				}
				cell := "✓"
				switch called(ctx, t, to[c.certificate], method, in) {
				case codes.Unauthenticated:
					cell = "401"
				case codes.PermissionDenied:
					cell = "403"
				case codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown, codes.Unimplemented:
					t.Errorf("%s as %s", method, c.name)
				default: // it was let in
				}
				cells = append(cells, rightstest.Cell(cell))
			}
			rows[method+what] = strings.Join(cells, " ") + "  " + method
		}
	}
	return fmt.Sprintln(strings.Join(heads, " ")) + rightstest.Rows(rows)
}
