package service

import (
	"context"
	"fmt"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// changeInbound seals the private key of an inbound intent: the store never sees it open.
func (s *Service) changeInbound(ctx context.Context, c change) error {
	if to, ok := c.to.(*domain.InboundServerIntent); ok {
		if err := s.sealInbound(c, to); err != nil {
			return err
		}
	}
	return s.unapprove(ctx, c)
}

func (s *Service) sealInbound(c change, to *domain.InboundServerIntent) error {
	var was domain.Sealed
	if c.from != nil {
		was = c.from.(*domain.InboundServerIntent).PrivateKey
	}
	aad := string(domain.KeyOf(to))
	switch sent := to.Spec.External.Certificates.ServicePrivateKey; {
	case sent == "":
		to.PrivateKey = domain.Sealed{}
	case sent != domain.MaskedKey:
		// What is sealed anew looks like another key, and would be one to be applied.
		if len(was.Data) > 0 {
			if plain, err := s.sealer.Open(aad, was); err == nil && string(plain) == sent {
				to.PrivateKey = was
				return nil
			}
		}
		var err error
		to.PrivateKey, err = s.sealer.Seal(aad, []byte(sent))
		return err
	case len(was.Data) == 0:
		return fail.New(fail.Invalid, "Invalid Input: spec.external.externalCerts.servicePrivateKey: %s stands for the key that is stored, and none is", domain.MaskedKey)
	default:
		to.PrivateKey = was
	}
	return nil
}

// showInbound masks the private key.
func showInbound(o domain.Object) {
	i := o.(*domain.InboundServerIntent)
	key := &i.Spec.External.Certificates.ServicePrivateKey
	if *key = ""; len(i.PrivateKey.Data) > 0 {
		*key = domain.MaskedKey
	}
}

// remarkInbound says what of an inbound intent is not acted on, and whether its app is missing.
func (s *Service) remarkInbound(ctx context.Context, o domain.Object) (warnings []string, err error) {
	spec := &o.(*domain.InboundServerIntent).Spec
	if m := spec.ServiceMesh; m != "" && m != domain.MeshNone && m != domain.MeshIstio {
		warnings = append(warnings, fmt.Sprintf("spec.serviceMesh: nothing is done for %q; use %s or %s", m, domain.MeshIstio, domain.MeshNone))
	}
	if spec.EdgeCNF != "" {
		warnings = append(warnings, fmt.Sprintf("spec.edgeCNF: nothing is done for %q", spec.EdgeCNF))
	}
	warnings = append(warnings, idleOutside(o.(*domain.InboundServerIntent))...)
	unknown, err := s.unknownApp(ctx, o)
	return append(warnings, unknown...), err
}

// idleOutside says which members of an inbound intent are about the way from outside, where there is none.
func idleOutside(o *domain.InboundServerIntent) (warnings []string) {
	spec := &o.Spec
	const mesh = "spec.serviceMesh is " + domain.MeshIstio + " and spec.externalSupport is true"
	sidecar := spec.Management.SidecarProxy == domain.SidecarProxy
	if spec.ServiceMesh == domain.MeshIstio && spec.ExternalSupport {
		if sidecar {
			return nil
		}
	} else if sidecar {
		warnings = append(warnings, fmt.Sprintf("spec.management.sidecarProxy: nothing is done for %q unless %s", domain.SidecarProxy, mesh))
	}
	c := &spec.External.Certificates
	for _, m := range []struct {
		member string
		set    bool
	}{
		{"spec.externalName", spec.ExternalName != ""},
		{"spec.management.tlsType", spec.Management.TLSType != "" && spec.Management.TLSType != domain.TLSNone},
		{"spec.external.externalCerts", c.ServiceCertificate != "" || c.CACertificate != "" || len(o.PrivateKey.Data) > 0},
	} {
		if m.set {
			warnings = append(warnings, fmt.Sprintf("%s: nothing is done with it unless %s and spec.management.sidecarProxy is %s", m.member, mesh, domain.SidecarProxy))
		}
	}
	return warnings
}
