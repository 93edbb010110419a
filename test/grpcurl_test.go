package test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/api/proto"
	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// session is the seed's, to the letter but for the address and the tenant, which it leaves open.
const session = `
grpcurl -cacert=ca.crt -cert=admin.crt -key=admin.key -servername api-gateway.local \
-H tenant-id:$TENANT_ID \
-proto universe/workload/v1/workload_rule.proto $API_GW_ADDRESS \
universe.workload.v1.WorkloadRuleService.List
RULE_TEMPLATE=$(cat << EOM | base64 -w0
{
"apiVersion": "v1",
"kind": "Pod",
"metadata": {
"name": "nginx"
},
"spec": {
"containers": [
{
"name": "nginx",
"image": "nginx:1.14.2",
"ports": [
{
"containerPort": 80
}
]
}
]
}
}
EOM
)
grpcurl -cacert=ca.crt -cert=admin.crt -key=admin.key -servername api-gateway.local \
-H tenant-id:$TENANT_ID \
-d @ -proto universe/workload/v1/workload_rule.proto $API_GW_ADDRESS \
universe.workload.v1.WorkloadRuleService.Create << EOM
{
"rule": {
"id": "tenantrule1",
"data": {
"orchestrator_type": 1,
"resource_type": "v1/Pod",
"dpu_selection_policy": "Any",
"workload_terms": [
{
"match_expressions": [
{
"key": "metadata.resourceNamespace",
"operation": 1,
"values": [
"default"
]
}
]
}
],
"workload_info_inject": [
{
"key": "@",
"as_annotation": {
"name": "full-workload-info"
}
}
],
"rule_template": "$RULE_TEMPLATE"
}
}
}
EOM
grpcurl -cacert=ca.crt -cert=admin.crt -key=admin.key -servername api-gateway.local \
-H tenant-id:$TENANT_ID \
-d '{"id": "tenantrule1"}' \
-proto universe/workload/v1/workload_rule.proto $API_GW_ADDRESS \
universe.workload.v1.WorkloadRuleService.Get
[ "$(grpcurl -cacert=ca.crt -cert=admin.crt -key=admin.key -servername api-gateway.local \
-H tenant-id:$TENANT_ID -d '{"id": "tenantrule1"}' $API_GW_ADDRESS \
universe.workload.v1.WorkloadRuleService.Get | grep ruleTemplate | cut -d'"' -f4)" = "$RULE_TEMPLATE" ] && echo THE TEMPLATE IS AS IT WAS, BY REFLECTION
grpcurl -cacert=ca.crt -cert=admin.crt -key=admin.key -servername api-gateway.local $API_GW_ADDRESS list
grpcurl -cacert=ca.crt -cert=admin.crt -key=admin.key -servername api-gateway.local \
-H tenant-id:$TENANT_ID \
-d '{"id": "tenantrule1"}' \
-proto universe/workload/v1/workload_rule.proto $API_GW_ADDRESS \
universe.workload.v1.WorkloadRuleService.Delete
if grpcurl -cacert=ca.crt -servername api-gateway.local -H tenant-id:$TENANT_ID $API_GW_ADDRESS \
universe.workload.v1.WorkloadRuleService.List; then echo NOBODY MAY LIST; fi
`

// TestTheSeedsSession is the session of seed 003 with grpcurl, by the protocol files and by reflection, in a folder as
// `make run` leaves it.
func TestTheSeedsSession(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	s := harness.SharedStack(t)
	bin, folder := t.TempDir(), s.Certificates()
	build := exec.CommandContext(ctx, "go", "build", "-o", bin, "github.com/fullstorydev/grpcurl/cmd/grpcurl")
	build.Dir = filepath.Join(built.Root(t), "deploy", "tools", "grpcurl")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	if _, err := os.Stat(filepath.Join(folder, "universe")); err != nil {
		require.NoError(t, os.CopyFS(folder, proto.Files))
	}
	cluster := s.Register(ctx, "infra", []byte(unreachable))
	tenant := &domain.Tenant{Metadata: domain.Metadata{Name: "grpcurl"}, Spec: domain.TenantSpec{Cluster: cluster.String()}}
	_, err = s.Client.API().Create(ctx, tenant, nil)
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, "bash", "-eu", "-c", session)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TENANT_ID=grpcurl", "API_GW_ADDRESS="+s.TenantAddress())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "%s\n%s", &stdout, &stderr)
	for _, text := range []string{
		`"id": "tenantrule1"`, `"resourceType": "v1/Pod"`, "THE TEMPLATE IS AS IT WAS, BY REFLECTION",
		"grpc.health.v1.Health", "universe.workload.v1.WorkloadRuleService", "universe.workload.v1.WorkloadService",
	} {
		require.Contains(t, stdout.String(), text)
	}
	require.NotContains(t, stdout.String(), "NOBODY")
	require.NotContains(t, stdout.String(), "StatusNotify", "the tenants' listener has nothing else")
	require.Contains(t, stderr.String(), "Unauthenticated")
	require.NoError(t, s.Client.API().Delete(ctx, domain.KeyOf(tenant)), "the rule is gone")
}
