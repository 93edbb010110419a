package domain

import (
	"regexp"
	"strings"

	"github.com/drover-io/drover/internal/fail"
)

// ReadinessRule says when the objects of a kind are ready, in place of the rules of kstatus. There is one for a
// kind at most; it is about every deployment.
type ReadinessRule struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     ReadinessRuleSpec `json:"spec" api:"required"`
}

// ReadinessRuleSpec names a kind and has the expressions, which must compile.
type ReadinessRuleSpec struct {
	Group   string `json:"group"`                // the API group; empty for the core group
	Version string `json:"version,omitempty"`    // empty for every version that has no rule of its own
	Kind    string `json:"kind" api:"required"`  // the kind
	Ready   string `json:"ready" api:"required"` // an expression (CEL) of type bool over object
	Message string `json:"message,omitempty"`    // an expression (CEL) of type string that says what is missing
}

// ReadinessRules is the noun.
var ReadinessRules = &Noun{
	Kind: "readiness-rules", Title: "readiness rule", Collection: "readiness-rules", Names: []string{"readinessRule"},
	New: func() Object { return &ReadinessRule{} },
}

// Noun is ReadinessRules.
func (*ReadinessRule) Noun() *Noun { return ReadinessRules }

// What Kubernetes takes as the name of a group, a version and a kind.
var (
	groupPattern   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`)
	versionPattern = regexp.MustCompile(`^([a-z]([-a-z0-9]*[a-z0-9])?)?$`)
	kindPattern    = regexp.MustCompile(`^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$`)
)

// Validate checks the body, but for the expressions.
func (r *ReadinessRule) Validate(p *fail.Problems) {
	r.Metadata.Validate(p)
	check := func(path, value string, pattern *regexp.Regexp, longest int) {
		if !pattern.MatchString(value) {
			p.Add(path, "Does not match pattern '%s'", pattern)
		}
		CheckLength(p, path, value, longest)
	}
	check("spec.group", r.Spec.Group, groupPattern, 253)
	check("spec.version", r.Spec.Version, versionPattern, 63)
	if r.Spec.Kind == "" {
		p.Add("spec.kind", "is required")
	} else {
		check("spec.kind", r.Spec.Kind, kindPattern, 63)
	}
	if strings.TrimSpace(r.Spec.Ready) == "" {
		p.Add("spec.ready", "is required")
	}
}

// Subject is what a rule is about.
type Subject struct{ Group, Version, Kind string }

// String is such as "Database.v1.example.com" or, for every version, "Database.example.com".
func (s Subject) String() string {
	name := s.Kind
	for _, part := range []string{s.Version, s.Group} {
		if part != "" {
			name += "." + part
		}
	}
	return name
}

// About is what the rule is about.
func (s *ReadinessRuleSpec) About() Subject { return Subject{s.Group, s.Version, s.Kind} }
