package api_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// certified gives the reference of a cloud a certificate as v0.1.0 has stored it, which is noted nowhere.
func (c *callers) certified(t *testing.T, reference, user string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: user}, NotAfter: now.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	require.NoError(t, err)
	o, err := c.store.Get(t.Context(), domain.ClusterReferences, domain.Key(strings.TrimPrefix(reference, "/v2/")))
	require.NoError(t, err)
	o.(*domain.ClusterReference).Spec.Certificate = base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	require.NoError(t, c.store.Replace(t.Context(), o))
}

// TestCertificatesOfEarlierReleasesAreNoted: they are when nobody would know of them any more.
func TestCertificatesOfEarlierReleasesAreNoted(t *testing.T) {
	for name, goes := range map[string]call{
		"the reference goes":       {method: "DELETE", url: theProject + "/logical-clouds/own/cluster-references/ref", status: 204},
		"the cloud's user changes": {method: "PUT", url: theProject + "/logical-clouds/own", status: 201, body: `{"metadata":{"name":"own"},"spec":{"namespace":"ours","user":{"userName":"bob"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCallers(t)
			furnish(t, w.world)
			const theirs = "/v2/projects/theirs"
			w.as(t, "", call{method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"theirs"}}`, status: 201},
				bind(theirs, "b", "project-admin", "bert"), bind(theProvider, "b", "cluster-user", "bert"))
			cloud := func(project, name string) call {
				return call{name: "cloud " + name, method: "POST", url: project + "/logical-clouds", status: 201,
					body: `{"metadata":{"name":"` + name + `"},"spec":{"namespace":"ours","user":{"userName":"alice"}}}`}
			}
			reference := func(project, cloud string, status int) call {
				return call{name: "reference of " + cloud, method: "POST", url: project + "/logical-clouds/" + cloud + "/cluster-references", status: status,
					body: `{"metadata":{"name":"ref"},"spec":{"clusterProvider":"p1","cluster":"c1"}}`}
			}
			w.as(t, "", cloud(theProject, "own"), reference(theProject, "own", 201))
			w.certified(t, theProject+"/logical-clouds/own/cluster-references/ref", "alice")
			w.as(t, "", goes)
			refused := reference(theirs, "late", 403)
			refused.contains = []string{`has spec.user.userName "alice", of which a logical cloud of another project had a certificate there that is good until`}
			w.as(t, "bert", cloud(theirs, "late"), refused)
		})
	}
}
