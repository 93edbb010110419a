package cluster

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/deploy/local/kube/internal/atomicfile"
	"github.com/drover-io/drover/deploy/local/kube/internal/pki"
)

// writeKubeconfig writes a kubeconfig that needs no other file: what it refers
// to is embedded.
func (l Layout) writeKubeconfig(path string, ports Ports, user pki.Pair) error {
	authority, err := os.ReadFile(l.authority().Cert)
	if err != nil {
		return err
	}
	cert, err := os.ReadFile(user.Cert)
	if err != nil {
		return err
	}
	key, err := os.ReadFile(user.Key)
	if err != nil {
		return err
	}
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			l.Name: {Server: ports.ServerURL(), CertificateAuthorityData: authority},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			l.Name: {ClientCertificateData: cert, ClientKeyData: key},
		},
		Contexts: map[string]*clientcmdapi.Context{
			l.Name: {Cluster: l.Name, AuthInfo: l.Name},
		},
		CurrentContext: l.Name,
	})
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return atomicfile.Write(path, content, 0o600)
}
