package authn

import (
	"context"
	"crypto/x509"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/fail"
)

// Certificates tells callers by their client certificates: the common name is the user, the organizations are the groups, as in
// Kubernetes. A certificate whose common name is one of proxies speaks for whom the proxy names in X-Forwarded-User, and for nobody
// when it names nobody. From others that header says nothing.
func Certificates(proxies []string, now func() time.Time) Prover {
	return func(_ context.Context, s *Shown) (*Proof, error) {
		if len(s.Chain) == 0 {
			return nil, nil
		}
		subject, until := s.Chain[0].Subject, expires(s.Chain)
		name := subject.CommonName
		switch {
		case !now().Before(until): // it was good when the connection was made
			return nil, fail.New(fail.Unauthorized, "the client certificate of %q has expired", name)
		case name == "":
			return nil, fail.New(fail.Unauthorized, "the client certificate has no common name, which is the user's")
		case !slices.Contains(proxies, name):
			return &Proof{Identity: caller.Identity{
				Kind: caller.User, Name: name, Groups: subject.Organization, By: "certificate of " + name, Expires: until,
			}}, nil
		}
		user, groups, err := forwarded(s)
		if err != nil || user == "" {
			return nil, err
		}
		return &Proof{Identity: caller.Identity{Kind: caller.User, Name: user, Groups: groups, By: "proxy " + name, Expires: until}}, nil
	}
}

// expires is when the first certificate of a chain does.
func expires(chain []*x509.Certificate) time.Time {
	until := chain[0].NotAfter
	for _, c := range chain {
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	return until
}

// forwarded is whom a proxy names. A header that is there twice may be the caller's own beside the proxy's.
func forwarded(s *Shown) (user string, groups []string, err error) {
	if len(s.User) > 1 || len(s.Groups) > 1 {
		return "", nil, fail.New(fail.Unauthorized, "X-Forwarded-User and X-Forwarded-Groups may be there once; the proxy has to take away what others send")
	}
	for _, list := range s.Groups {
		for group := range strings.SplitSeq(list, ",") {
			if group = strings.TrimSpace(group); group != "" {
				groups = append(groups, group)
			}
		}
	}
	if len(s.User) == 1 {
		user = strings.TrimSpace(s.User[0])
	}
	return user, groups, nil
}
