package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

// Signing is what a cluster says of a certificate request.
type Signing struct {
	Present     bool   // the request is in the cluster, which removes it by itself an hour after it was signed
	Certificate []byte // PEM; nil as long as none is issued
	Refusal     string // why none will be; "" otherwise
}

// Signing says what became of the certificate request that a manifest asks for. A request of the same name that asks
// for something else is a refusal. Errors are as Apply's Outcome.Retry has them.
func (c *Cluster) Signing(ctx context.Context, manifest plan.Resource) (Signing, error) {
	s, _, err := c.signing(ctx, manifest)
	return s, err
}

// Approve approves the certificate request that a manifest asks for, unless it is answered already, and says what
// became of it, as Signing does.
func (c *Cluster) Approve(ctx context.Context, manifest plan.Resource, reason, message string) (Signing, error) {
	s, unanswered, err := c.signing(ctx, manifest)
	if err != nil || unanswered == nil {
		return s, err
	}
	unanswered.Status.Conditions = append(unanswered.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: reason, Message: message,
		LastUpdateTime: metav1.Now(),
	})
	return c.approve(ctx, unanswered)
}

// signing is Signing with the request itself as long as nobody has approved or refused it.
func (c *Cluster) signing(ctx context.Context, manifest plan.Resource) (s Signing, unanswered *certificatesv1.CertificateSigningRequest, err error) {
	var wanted, found certificatesv1.CertificateSigningRequest
	if err := json.Unmarshal(manifest.Manifest, &wanted); err != nil {
		return Signing{}, nil, fail.Wrap(err, fail.Internal, "the certificate request cannot be read")
	}
	data, err := c.Object(ctx, manifest.ResourceID)
	if err != nil || data == nil {
		return Signing{}, nil, err
	}
	if err := json.Unmarshal(data, &found); err != nil {
		return Signing{}, nil, notAnAPIServer(err)
	}
	if !bytes.Equal(wanted.Spec.Request, found.Spec.Request) || wanted.Spec.SignerName != found.Spec.SignerName {
		return Signing{Present: true, Refusal: "the certificate request in the cluster is another one; delete it there"}, nil, nil
	}
	approved := false
	for _, condition := range found.Status.Conditions {
		switch condition.Type {
		case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			return Signing{Present: true, Refusal: clip(string(condition.Type) + ": " + condition.Reason + ": " + condition.Message)}, nil, nil
		case certificatesv1.CertificateApproved:
			approved = true
		}
	}
	if approved {
		return Signing{Present: true, Certificate: found.Status.Certificate}, nil, nil
	}
	return Signing{Present: true}, &found, nil
}

func (c *Cluster) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (Signing, error) {
	gv := certificatesv1.SchemeGroupVersion
	csr.TypeMeta = metav1.TypeMeta{APIVersion: gv.String(), Kind: "CertificateSigningRequest"}
	body, err := json.Marshal(csr)
	if err != nil {
		return Signing{}, fail.Wrap(err, fail.Internal, "encode an approval")
	}
	release, err := c.slot(ctx)
	if err != nil {
		return Signing{}, err
	}
	defer release()
	_, err = c.do(ctx, request{
		method:      http.MethodPut,
		path:        groupVersionPath(gv) + escape("certificatesigningrequests", csr.Name, "approval"),
		contentType: contentJSON, accept: metadataOnly, body: body, discard: true,
	})
	switch {
	case isAbsent(err):
		return Signing{}, nil
	case err != nil:
		return Signing{}, kindOf(err)
	default:
		return Signing{Present: true}, nil
	}
}
