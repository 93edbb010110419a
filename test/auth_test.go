package test

import (
	"crypto/rand"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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

// TestCallersProveWhoTheyAre: the first start writes the administrator's token; with it service accounts are made, whose tokens
// call REST and gRPC until they are revoked, which ends open streams, too. A process that was killed starts again with what there is.
func TestCallersProveWhoTheyAre(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	file := filepath.Join(t.TempDir(), "admin-token")
	r := s.AddAPI(t, "DROVER_AUTH=on", "DROVER_ADMIN_TOKEN_FILE="+file, "DROVER_MONGO_DATABASE=authn_"+strings.ToLower(rand.Text()[:8]))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, r.Log(), strings.TrimSpace(string(text)))
	by := func(token string) *client.API {
		c := client.New(r.URL+"/v2", client.WithToken(strings.TrimSpace(token)))
		t.Cleanup(c.Close)
		return c.API()
	}
	_, err = r.Client.API().List(ctx, domain.Projects, "")
	require.Equal(t, 401, code(t, err), "%v", err)
	require.Equal(t, 401, s.Send(ctx, http.MethodGet, r.URL+"/metrics", nil, "").Code)
	require.Equal(t, 200, s.Send(ctx, http.MethodGet, r.URL+"/readyz", nil, "").Code)

	admin := by(string(text))
	account := &domain.ServiceAccount{Metadata: domain.Metadata{Name: "ci"}}
	_, err = admin.Create(ctx, account, nil)
	require.NoError(t, err)
	token := &domain.ServiceAccountToken{Identity: domain.Identity{Parent: domain.KeyOf(account)}, Metadata: domain.Metadata{Name: "t"}}
	_, err = admin.Create(ctx, token, nil)
	require.NoError(t, err)
	require.NotEmpty(t, token.Status.Token)
	_, err = by(token.Status.Token).List(ctx, domain.Projects, "")
	require.NoError(t, err)
	binding := domain.RoleBindings.New().(*domain.RoleBinding)
	binding.Metadata = domain.Metadata{Name: "ci"}
	binding.Spec = domain.RoleBindingSpec{Role: "admin", Subjects: []domain.RightSubject{{Kind: domain.SubjectServiceAccount, Name: "service-accounts/ci"}}}
	_, err = admin.Create(ctx, binding, nil)
	require.NoError(t, err)
	project := &domain.Project{Metadata: domain.Metadata{Name: "p"}}
	_, err = by(token.Status.Token).Create(ctx, project, nil)
	require.NoError(t, err)
	harness.Until(ctx, t, "the log says who", func() bool { return strings.Contains(r.Log(), `requestedBy="service-account service-accounts/ci"`) })

	r.Kill()
	r.Start(t)
	again, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))

	connection, err := grpc.NewClient(r.RPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer connection.Close()
	notifications := statusnotify.NewStatusNotifyClient(connection)
	gone := &statusnotify.StatusDeregistration{ClientId: "nobody"}
	_, err = notifications.StatusDeregister(ctx, gone, grpc.WaitForReady(true))
	require.Equal(t, codes.Unauthenticated, status.Code(err), "%v", err)
	_, err = notifications.StatusDeregister(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token.Status.Token), gone)
	require.NoError(t, err)

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+"/v2/deployment-intent-groups?watch=true", nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+token.Status.Token)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, 200, answer.StatusCode)
	require.NoError(t, admin.Delete(ctx, domain.KeyOf(token)))
	withdrawn := time.Now()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, answer.Body)
	}()
	select {
	case <-ended:
		t.Logf("the stream has ended %s after its token was revoked", time.Since(withdrawn))
	case <-ctx.Done():
		t.Fatal("the stream goes on after its token was revoked")
	}
	_, err = by(token.Status.Token).List(ctx, domain.Projects, "")
	require.Equal(t, 401, code(t, err), "%v", err)
	require.NoError(t, admin.Delete(ctx, domain.KeyOf(binding)))
	require.NoError(t, admin.Delete(ctx, domain.KeyOf(account)))
	require.NoError(t, admin.Delete(ctx, domain.KeyOf(project)))
}
