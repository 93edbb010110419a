package kube

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math"
	"strings"
	"time"
)

// Expiry is when the first of the credentials in a kubeconfig's current context expires, as far as these say: its client certificate
// and a bearer token that is a JWT. Zero when none does.
func Expiry(kubeconfig []byte) (first time.Time) {
	file, err := loadAny(kubeconfig)
	if err != nil {
		return time.Time{}
	}
	user := file.AuthInfos[file.Contexts[file.CurrentContext].AuthInfo]
	if user == nil {
		return time.Time{}
	}
	for _, at := range []time.Time{certificateExpiry(user.ClientCertificateData), tokenExpiry(user.Token)} {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// certificateExpiry is that of the first certificate, which is the client's; those after it are of authorities.
func certificateExpiry(data []byte) time.Time {
	for {
		block, rest := pem.Decode(data)
		switch {
		case block == nil:
			return time.Time{}
		case block.Type != "CERTIFICATE": // a file may have the key, too, which TLS passes over as well
			data = rest
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return time.Time{}
		}
		return c.NotAfter.UTC()
	}
}

// tokenExpiry reads exp of a JWT, whose signature is the cluster's matter.
func tokenExpiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expires float64 `json:"exp"`
	}
	if json.Unmarshal(data, &claims) != nil || claims.Expires <= 0 || claims.Expires > math.MaxInt32*100 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expires), 0).UTC()
}
