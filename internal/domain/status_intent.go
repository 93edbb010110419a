package domain

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// StatusIntent says of which objects of a deployment intent group what clusters report is wanted, and how it is combined. It
// is the downsync clause of KubeStellar's BindingPolicy, without the clusters, which placements say. Intents may be written at
// any time: no approval is lost, and no update is needed.
type StatusIntent struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     StatusIntentSpec `json:"spec" api:"required"`
}

// StatusIntentSpec has the tests of objects, and what is wanted of those that pass all of them. A list passes an object
// that one of its entries fits; one that is missing or empty, or has "*", passes every object.
type StatusIntentSpec struct {
	ObjectTest `bson:",inline"`

	// status collectors that are evaluated of each object: the name of one of the project's, or fleet/ and the name of one of the fleet's
	StatusCollectors []string `json:"statusCollectors,omitempty"`
	// show the status of an object that goes to one cluster as that cluster reports it
	WantSingletonReportedState bool `json:"wantSingletonReportedState,omitempty"`
	// show the status of an object that goes to several clusters as the worst of them would have it
	WantMultiWECReportedState bool `json:"wantMultiWECReportedState,omitempty"`
	// evaluate the collectors of all these objects of an app together too, with a row for each object on each cluster
	Together bool `json:"together,omitempty"`
}

// ObjectTest tells objects of a deployment intent group apart.
type ObjectTest struct {
	Apps        []string `json:"apps,omitempty"`        // names of apps
	APIGroup    *string  `json:"apiGroup,omitempty"`    // the API group; the empty word is the core group
	Resources   []string `json:"resources,omitempty"`   // lowercase plurals such as deployments
	Kinds       []string `json:"kinds,omitempty"`       // kinds such as Deployment
	Namespaces  []string `json:"namespaces,omitempty"`  // where the object is; what is in no namespace passes with "*" alone
	ObjectNames []string `json:"objectNames,omitempty"` // names of objects
	// selectors of labels, one of which must match those of the object's manifest
	ObjectSelectors []LabelSelector `json:"objectSelectors,omitempty"`
	// must be left out, or empty: the labels of namespaces are not known here
	NamespaceSelectors []LabelSelector `json:"namespaceSelectors,omitempty"`
}

// LabelSelector is Kubernetes': all of its members must hold.
type LabelSelector struct {
	MatchLabels      map[string]string  `json:"matchLabels,omitempty"`      // labels with their values
	MatchExpressions []LabelRequirement `json:"matchExpressions,omitempty"` // what else is required of labels
}

// LabelRequirement is one expression of a selector.
type LabelRequirement struct {
	Key      string        `json:"key" api:"required"`      // of the label
	Operator LabelOperator `json:"operator" api:"required"` // In or NotIn, with values, or Exists or DoesNotExist
	Values   []string      `json:"values,omitempty"`        // of In and NotIn
}

// LabelOperator says what a selector requires of a label.
type LabelOperator string

// The operators.
const (
	LabelIn           LabelOperator = "In"
	LabelNotIn        LabelOperator = "NotIn"
	LabelExists       LabelOperator = "Exists"
	LabelDoesNotExist LabelOperator = "DoesNotExist"
)

// StatusIntents is the noun.
var StatusIntents = &Noun{
	Kind: "status-intents", Title: "status intent", Collection: "status-intents", Names: []string{"statusIntent"},
	Parent: DeploymentIntentGroups, New: func() Object { return &StatusIntent{} },
}

// Noun is StatusIntents.
func (*StatusIntent) Noun() *Noun { return StatusIntents }

// Anything is the entry of a list that every object passes.
const Anything = "*"

// MaxTests is how many entries a list of an intent may have.
const MaxTests = 256

var resourcePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// Validate checks the body.
func (o *StatusIntent) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	o.Spec.Check(p, "spec")
	o.Spec.checkCollectors(p)
	if len(o.Spec.StatusCollectors) == 0 && !o.Spec.WantSingletonReportedState && !o.Spec.WantMultiWECReportedState {
		p.Add("spec", "wants nothing: name statusCollectors, or set wantSingletonReportedState or wantMultiWECReportedState")
	}
	if o.Spec.Together && len(o.Spec.StatusCollectors) == 0 {
		p.Add("spec.together", "needs statusCollectors, which are evaluated together")
	}
}

func (s *StatusIntentSpec) checkCollectors(p *fail.Problems) {
	if !checkMost(p, "spec.statusCollectors", len(s.StatusCollectors)) {
		return
	}
	named := map[string]bool{}
	for i, c := range s.StatusCollectors {
		at := fmt.Sprintf("spec.statusCollectors[%d]", i)
		name, _ := strings.CutPrefix(c, FleetCollector)
		checkName(p, at, name, MaxSubdomain)
		if named[c] {
			p.Add(at, "%q is named twice", c)
		}
		named[c] = true
	}
}

// Check adds the problems of tests that stand at a path of a body. Of a list that is too long, that is the only one.
func (t *ObjectTest) Check(p *fail.Problems, path string) {
	each := func(member string, values []string, check func(at, v string)) {
		if !checkMost(p, path+"."+member, len(values)) {
			return
		}
		for i, v := range values {
			if v != Anything {
				check(fmt.Sprintf("%s.%s[%d]", path, member, i), v)
			}
		}
	}
	pattern := func(r *regexp.Regexp, longest int) func(at, v string) {
		return func(at, v string) {
			if v == "" || !r.MatchString(v) {
				p.Add(at, "%q does not match pattern '%s'", v, r)
			}
			CheckLength(p, at, v, longest)
		}
	}
	each("apps", t.Apps, func(at, v string) { CheckName(p, at, v) })
	if t.APIGroup != nil && *t.APIGroup != Anything {
		if !groupPattern.MatchString(*t.APIGroup) {
			p.Add(path+".apiGroup", "Does not match pattern '%s'", groupPattern)
		}
		CheckLength(p, path+".apiGroup", *t.APIGroup, 253)
	}
	each("resources", t.Resources, pattern(resourcePattern, 63))
	each("kinds", t.Kinds, pattern(kindPattern, 63))
	each("namespaces", t.Namespaces, func(at, v string) {
		if v == "" {
			p.Add(at, "is required")
		}
		checkNamespace(p, at, v)
	})
	each("objectNames", t.ObjectNames, func(at, v string) {
		if v == "" {
			p.Add(at, "is required")
		}
		CheckLength(p, at, v, 253)
	})
	if t.checkSelectors(p, path+".objectSelectors") {
		for i := range t.ObjectSelectors {
			t.ObjectSelectors[i].validate(p, fmt.Sprintf("%s.objectSelectors[%d]", path, i))
		}
	}
	if len(t.NamespaceSelectors) > 0 {
		p.Add(path+".namespaceSelectors", "cannot be evaluated: the labels of namespaces are not known here; name the namespaces")
	}
}

// checkSelectors adds a problem, and is false, where there is too much to ask of each object.
func (t *ObjectTest) checkSelectors(p *fail.Problems, path string) bool {
	if !checkMost(p, path, len(t.ObjectSelectors)) {
		return false
	}
	var expressions, values int
	for i := range t.ObjectSelectors {
		s := &t.ObjectSelectors[i]
		expressions += len(s.MatchLabels) + len(s.MatchExpressions)
		for j := range s.MatchExpressions {
			values += len(s.MatchExpressions[j].Values)
		}
	}
	few := true
	if expressions > limits.TestExpressions {
		p.Add(path, "have %d matchLabels and matchExpressions, of %d at most", expressions, limits.TestExpressions)
		few = false
	}
	if values > limits.TestValues {
		p.Add(path, "have %d values, of %d at most", values, limits.TestValues)
		few = false
	}
	return few
}

// checkMost adds a problem, and is false, where a list has too many entries.
func checkMost(p *fail.Problems, path string, n int) bool {
	if n > MaxTests {
		p.Add(path, "Array must have at most %d items", MaxTests)
	}
	return n <= MaxTests
}

func (s *LabelSelector) validate(p *fail.Problems, path string) {
	for _, k := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		if v := s.MatchLabels[k]; !isLabelKey(k) || !isLabelValue(v) {
			p.Add(path+".matchLabels["+k+"]", "%q is not a label of a Kubernetes object", k+"="+v)
		}
	}
	if !checkMost(p, path+".matchExpressions", len(s.MatchExpressions)) {
		return
	}
	for i, r := range s.MatchExpressions {
		at := fmt.Sprintf("%s.matchExpressions[%d]", path, i)
		if !isLabelKey(r.Key) {
			p.Add(at+".key", "%q is not the key of a label", r.Key)
		}
		switch r.Operator {
		case LabelIn, LabelNotIn:
			if len(r.Values) == 0 {
				p.Add(at+".values", "is required for %s", r.Operator)
			}
		case LabelExists, LabelDoesNotExist:
			if len(r.Values) > 0 {
				p.Add(at+".values", "must be left out for %s", r.Operator)
			}
		default:
			p.Add(at+".operator", "%q is not In, NotIn, Exists or DoesNotExist", r.Operator)
		}
		if !checkMost(p, at+".values", len(r.Values)) {
			continue
		}
		for j, v := range r.Values {
			if !isLabelValue(v) {
				p.Add(fmt.Sprintf("%s.values[%d]", at, j), "%q is not the value of a label", v)
			}
		}
	}
}

// Tested is an object as tests look at it.
type Tested struct {
	App             string
	Group, Kind     string
	Resource        string // the lowercase plural of the kind
	Namespace, Name string // Namespace is "" where the kind has none
	Labels          map[string]string
}

// Passes says whether an object passes all tests.
func (t *ObjectTest) Passes(o *Tested) bool {
	return fits(t.Apps, o.App) && (t.APIGroup == nil || *t.APIGroup == Anything || *t.APIGroup == o.Group) &&
		fits(t.Resources, o.Resource) && fits(t.Kinds, o.Kind) && fits(t.Namespaces, o.Namespace) && fits(t.ObjectNames, o.Name) &&
		(len(t.ObjectSelectors) == 0 || slices.ContainsFunc(t.ObjectSelectors, func(s LabelSelector) bool { return s.Matches(o.Labels) }))
}

func fits(entries []string, value string) bool {
	return len(entries) == 0 || slices.Contains(entries, Anything) || slices.Contains(entries, value)
}

// Matches says whether labels are as the selector wants them; an empty one wants nothing. NotIn holds of a label that is
// not there, as in Kubernetes.
func (s *LabelSelector) Matches(labels map[string]string) bool {
	for k, v := range s.MatchLabels {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	for _, r := range s.MatchExpressions {
		got, there := labels[r.Key]
		var holds bool
		switch r.Operator {
		case LabelIn:
			holds = there && slices.Contains(r.Values, got)
		case LabelNotIn:
			holds = !there || !slices.Contains(r.Values, got)
		case LabelExists:
			holds = there
		default:
			holds = !there
		}
		if !holds {
			return false
		}
	}
	return true
}

// References are the collectors.
func (o *StatusIntent) References() []Reference {
	var refs []Reference
	for i, c := range o.Spec.StatusCollectors {
		noun, key := CollectorNamed(o.Parent, c)
		refs = append(refs, Reference{fmt.Sprintf("spec.statusCollectors[%d]", i), noun, key})
	}
	return refs
}

// StatusWanted is what intents together want of an object. Collectors are united, sorted as intents name them; what any of them
// wants is wanted.
type StatusWanted struct {
	Collectors       []string
	Together         []string // of Collectors, those that are to be evaluated of all such objects of the app together
	Singleton, Multi bool
}

// Any says whether anything is.
func (w *StatusWanted) Any() bool { return len(w.Collectors) > 0 || w.Singleton || w.Multi }

// StatusWantedOf finds what intents want of an object.
func StatusWantedOf(intents []*StatusIntent, o *Tested) StatusWanted {
	var w StatusWanted
	for _, i := range intents {
		s := &i.Spec
		if !s.Passes(o) {
			continue
		}
		w.Collectors = append(w.Collectors, s.StatusCollectors...)
		if s.Together {
			w.Together = append(w.Together, s.StatusCollectors...)
		}
		w.Singleton, w.Multi = w.Singleton || s.WantSingletonReportedState, w.Multi || s.WantMultiWECReportedState
	}
	slices.Sort(w.Collectors)
	slices.Sort(w.Together)
	w.Collectors, w.Together = slices.Compact(w.Collectors), slices.Compact(w.Together)
	return w
}
