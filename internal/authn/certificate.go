package authn

import (
	"cmp"
	"context"
	"crypto/x509"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/fail"
)

// Subjects say which parts of a client certificate are the user and the groups, and what stands before their names. An empty part is its
// default: the common name and the organizations, as in Kubernetes.
type Subjects struct{ User, Groups, Prefix string }

// The parts of a certificate that may be the user, and those that may be the groups.
const (
	CommonName          = "cn"
	FirstURI            = "uri" // such as a SPIFFE id
	FirstEmail          = "email"
	FirstDNS            = "dns"
	Organizations       = "o"
	OrganizationalUnits = "ou"
	NoGroups            = "none"
)

// UserParts and GroupParts are all of them, the default first.
var (
	UserParts  = []string{CommonName, FirstURI, FirstEmail, FirstDNS}
	GroupParts = []string{Organizations, OrganizationalUnits, NoGroups}
)

// user is the part that is the user, "" when the certificate has none, and what that part is called.
func (s Subjects) user(c *x509.Certificate) (name, part string) {
	first := func(all []string) string {
		if len(all) == 0 {
			return ""
		}
		return all[0]
	}
	switch s.User {
	case FirstURI:
		if len(c.URIs) > 0 {
			name = c.URIs[0].String()
		}
		return name, "URI among its alternative names"
	case FirstEmail:
		return first(c.EmailAddresses), "email address among its alternative names"
	case FirstDNS:
		return first(c.DNSNames), "DNS name among its alternative names"
	default:
		return c.Subject.CommonName, "common name"
	}
}

// groups are those of a certificate.
func (s Subjects) groups(c *x509.Certificate) (names []string) {
	from := c.Subject.Organization
	switch s.Groups {
	case OrganizationalUnits:
		from = c.Subject.OrganizationalUnit
	case NoGroups:
		from = nil
	}
	for _, name := range from {
		names = append(names, s.Prefix+name)
	}
	return names
}

// Trust says whether a chain is still one of a CA that clients may come by; nil where that never changes.
type Trust func(chain []*x509.Certificate) bool

// Holds refuses a chain whose CA was taken away since its connection was made.
func (t Trust) Holds(chain []*x509.Certificate) error {
	if t != nil && !t(chain) {
		return fail.New(fail.Unauthorized, "the client certificate of %q is not of a CA that is trusted any more", chain[0].Subject.CommonName)
	}
	return nil
}

// look is Holds as what an identity stands on.
func (t Trust) look(chain []*x509.Certificate) caller.Look {
	if t == nil {
		return nil
	}
	return func(context.Context) error { return t.Holds(chain) }
}

// Certificates tells callers by their client certificates, of which subjects says what is who. A certificate whose common name is one of proxies
// speaks for whom the proxy names in X-Forwarded-User, and for nobody when it names nobody. From others that header says nothing.
func Certificates(subjects Subjects, proxies []string, now func() time.Time, trust Trust) Prover {
	return func(_ context.Context, s *Shown) (*Proof, error) {
		if len(s.Chain) == 0 {
			return nil, nil
		}
		until, common := Expires(s.Chain), s.Chain[0].Subject.CommonName
		name, part := subjects.user(s.Chain[0])
		proxy := slices.Contains(proxies, common)
		if err := trust.Holds(s.Chain); err != nil {
			return nil, err
		}
		switch {
		case !now().Before(until): // it was good when the connection was made
			return nil, fail.New(fail.Unauthorized, "the client certificate of %q has expired", cmp.Or(name, common))
		case !proxy && name == "":
			return nil, fail.New(fail.Unauthorized, "the client certificate has no %s, which is the user's", part)
		case !proxy:
			return &Proof{Identity: caller.Identity{
				Kind: caller.User, Name: subjects.Prefix + name, Groups: subjects.groups(s.Chain[0]), By: "certificate of " + name, Expires: until,
			}, Still: trust.look(s.Chain)}, nil
		}
		user, groups, err := forwarded(s)
		if err != nil || user == "" {
			return nil, err
		}
		return &Proof{Identity: caller.Identity{Kind: caller.User, Name: user, Groups: groups, By: "proxy " + common, Expires: until}, Still: trust.look(s.Chain)}, nil
	}
}

// Lasting is the chain that lasts longest of those by which a client has come, nil where it has come by none. There are two where a CA was issued
// anew with its key, and both its certificates are trusted: the client goes on by the newer one when the older one has expired.
func Lasting(chains [][]*x509.Certificate) []*x509.Certificate {
	if len(chains) == 0 {
		return nil
	}
	return slices.MaxFunc(chains, func(a, b []*x509.Certificate) int { return Expires(a).Compare(Expires(b)) })
}

// Expires is when the first certificate of a chain does.
func Expires(chain []*x509.Certificate) time.Time {
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
