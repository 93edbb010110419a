package fleet_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/test/fleet"
)

// BenchmarkApply applies small ConfigMaps as Drover does, client and server in one process: some that no
// cluster has seen, and one that changes nothing.
func BenchmarkApply(b *testing.B) {
	f := start(b, fleet.Config{Clusters: 2})
	config, err := clientcmd.RESTConfigFromKubeConfig(f.Kubeconfig(fleet.Name(1)))
	require.NoError(b, err)
	client, err := rest.HTTPClientFor(config)
	require.NoError(b, err)
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, applyConfigMap(client, config.Host, kubetest.Name("new"), http.StatusCreated))
		}
	})
	b.Run("again", func(b *testing.B) {
		name := kubetest.Name("again")
		require.NoError(b, applyConfigMap(client, config.Host, name, http.StatusCreated))
		for b.Loop() {
			require.NoError(b, applyConfigMap(client, config.Host, name, http.StatusOK))
		}
	})
}

func applyConfigMap(client *http.Client, host, name string, code int) error {
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `","namespace":"default","labels":{"emco/deployment-id":"1-a"}},"data":{"key":"value"}}`
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPatch,
		host+"/api/v1/namespaces/default/configmaps/"+name+"?fieldManager=drover&force=true", strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/apply-patch+yaml")
	r.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json")
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != code {
		return fmt.Errorf("apply %s: %s", name, answer.Status)
	}
	return nil
}
