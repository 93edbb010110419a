package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// folders measures how long `drover apply` takes for a folder of 1,000 documents over the bare requests that make as many, one after the
// other: in turns, on one API. The second apply changes nothing.
func folders(ctx context.Context, p *trial) {
	p.Helper()
	const rounds = 3
	documents := sizedDown(1000, 150)
	s := harness.NewStack(p)
	var bare, first, again []time.Duration
	p.finally(func() []figure {
		return []figure{
			measured("apply_requests_ms", fmt.Sprintf("bare requests that create %d documents", documents), bare),
			ratio("apply_over_requests", fmt.Sprintf("drover apply of a folder of %d documents over the bare requests", documents), first, bare, "≤ 1.5",
				func(v float64) bool { return v <= 1.5 }),
			ratio("apply_again_over_requests", "the same again, which changes nothing, over the bare requests", again, bare, "", nil),
		}
	})
	for round := range p.rounds(ctx, rounds, 1) {
		provider := &domain.ClusterProvider{Metadata: domain.Metadata{Name: fmt.Sprintf("bare%d", round)}}
		began := time.Now()
		created(ctx, p, s, provider)
		for n := range documents - 1 {
			o := &domain.ClusterSyncObject{Identity: domain.Identity{Parent: domain.KeyOf(provider)}}
			o.Name, o.Spec.KV = fmt.Sprintf("n%d", n), []map[string]string{{"a": "b"}}
			created(ctx, p, s, o)
		}
		bare = append(bare, time.Since(began))
		folder := folderOf(p, fmt.Sprintf("p%d", round), documents)
		first = append(first, applied(ctx, p, s, folder))
		again = append(again, applied(ctx, p, s, folder))
	}
}

func created(ctx context.Context, t testing.TB, s *harness.Stack, o domain.Object) {
	t.Helper()
	_, err := s.Client.API().Create(ctx, o, nil)
	require.NoError(t, err)
}

// folderOf writes documents into files of a hundred each.
func folderOf(t testing.TB, provider string, documents int) string {
	t.Helper()
	folder := t.TempDir()
	text := fmt.Sprintf("resourceContext: {anchor: cluster-providers}\nmetadata: {name: %s}\n", provider)
	for n := range documents - 1 {
		text += fmt.Sprintf("---\nresourceContext: {anchor: cluster-providers/%s/cluster-sync-objects}\nmetadata: {name: n%d}\nspec: {kv: [{a: b}]}\n", provider, n)
	}
	all := strings.Split(text, "---\n")
	for n := 0; n < len(all); n += 100 {
		part := strings.Join(all[n:min(n+100, len(all))], "---\n")
		require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("%03d.yaml", n)), []byte(part), 0o600))
	}
	return folder
}

// applied is how long the command takes, from its start to its end.
func applied(ctx context.Context, t testing.TB, s *harness.Stack, folder string) time.Duration {
	t.Helper()
	cmd := exec.CommandContext(ctx, built.Binary(t, "drover"), "apply", "-f", folder, "-q", "--server", s.URL())
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	began := time.Now()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return time.Since(began)
}
