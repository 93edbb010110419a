package kube

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/access"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/panics"
)

// See asks a cluster with a credential what it is like; whoever runs this does so with a kubeconfig of his own, wherever it leads.
func See(ctx context.Context, kubeconfig, role []byte) (*access.Seen, error) {
	all, _ := Allow(AllowedWords)
	return Config{Allowed: all, Networks: anywhere}.See(ctx, kubeconfig, role)
}

// See asks a cluster with a credential what it is like. The role is the manifest, in YAML, of what it is to be allowed. Errors are those of
// Reach. What is known of a cluster that answers, and does not say which rights there are, is given all the same.
func (c Config) See(ctx context.Context, kubeconfig, role []byte) (*access.Seen, error) {
	var wanted rbacv1.ClusterRole
	if err := yaml.Unmarshal(role, &wanted); err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the ClusterRole cannot be read")
	}
	c.Parallel = seeing
	one, leave, err := c.lookAt(kubeconfig)
	if err != nil {
		return nil, err
	}
	defer leave()
	if _, err := one.groups(ctx); err != nil { // by which work begins; what may not ask that can do nothing
		return nil, kindOf(err)
	}
	s := &access.Seen{}
	var took []time.Duration
	for range 3 {
		begun := time.Now()
		said, err := one.asked(ctx)
		if err != nil {
			return nil, kindOf(err)
		}
		s.Version, took = versionOf(said), append(took, time.Since(begun))
	}
	slices.Sort(took)
	s.Latency = took[1]
	all := rightsOf(wanted.Rules)
	s.Needed = len(all)
	lacks, err := one.lacking(ctx, all)
	if err != nil {
		s.Unknown = fail.TextOf(kindOf(err))
		return s, nil
	}
	for i := range lacks {
		s.Lacks = append(s.Lacks, lacks[i].String())
	}
	return s, nil
}

// power is a right: a verb of a resource, of one object where it has a name.
type power struct{ verb, group, resource, name string }

// String is what people are told of it.
func (p power) String() string {
	if p.name == "" {
		return right(p.verb, p.group, p.resource, nil)
	}
	return right(p.verb, p.group, p.resource, []string{p.name})
}

// rightsOf are those that rules give.
func rightsOf(rules []rbacv1.PolicyRule) (all []power) {
	for i := range rules {
		names := rules[i].ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rules[i].APIGroups {
			for _, resource := range rules[i].Resources {
				for _, verb := range rules[i].Verbs {
					for _, name := range names {
						if p := (power{verb, group, resource, name}); !slices.Contains(all, p) {
							all = append(all, p)
						}
					}
				}
			}
		}
	}
	return all
}

// nowhere is a namespace that is not there: what rules say of it holds in all. What somebody may do in one namespace is no help.
const nowhere = "drover-nowhere"

// seeing is how many questions a cluster has at a time.
const seeing = 4

const reviews = "/apis/authorization.k8s.io/v1/"

// lacking are the rights that the cluster does not give, in the order in which they are asked about. What it says of all rules at once may
// leave some out, where a webhook decides for example; so each that is missing there is asked about by itself.
func (c *Cluster) lacking(ctx context.Context, all []power) ([]power, error) {
	rules := authorizationv1.SelfSubjectRulesReview{
		TypeMeta: reviewed("SelfSubjectRulesReview"), Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: nowhere},
	}
	if err := c.review(ctx, "selfsubjectrulesreviews", &rules); err != nil {
		return nil, err
	}
	has := make([]rbacv1.PolicyRule, len(rules.Status.ResourceRules))
	for i, r := range rules.Status.ResourceRules {
		has[i] = rbacv1.PolicyRule{APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames, Verbs: r.Verbs}
	}
	var missing []power
	for _, p := range all {
		var names []string
		if p.name != "" {
			names = []string{p.name}
		}
		if !allow(has, p.verb, p.group, p.resource, names) {
			missing = append(missing, p)
		}
	}
	lacks := make([]bool, len(missing))
	g, within := panics.WithContext(ctx)
	g.SetLimit(c.config.Parallel)
	for i, p := range missing {
		g.Go(func() error {
			resource, below, _ := strings.Cut(p.resource, "/")
			asked := authorizationv1.SelfSubjectAccessReview{TypeMeta: reviewed("SelfSubjectAccessReview")}
			asked.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
				Verb: p.verb, Group: p.group, Resource: resource, Subresource: below, Name: p.name,
			}
			err := c.review(within, "selfsubjectaccessreviews", &asked)
			lacks[i] = !asked.Status.Allowed
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	at := -1
	return slices.DeleteFunc(missing, func(power) bool { at++; return !lacks[at] }), nil
}

// reviewed is what a review says it is: the cluster asks for it, and client-go leaves it out.
func reviewed(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: kind}
}

// review asks the cluster what it lets the credential do; the answer is in what it was asked with.
func (c *Cluster) review(ctx context.Context, resource string, about any) error {
	body, err := json.Marshal(about)
	if err != nil {
		return fail.Wrap(err, fail.Internal, "a review of rights cannot be written")
	}
	answer, err := c.do(ctx, request{method: http.MethodPost, path: reviews + resource, contentType: contentJSON, accept: contentJSON, body: body, most: limits.ClusterWord})
	if err != nil {
		return err
	}
	if json.Unmarshal(answer, about) != nil {
		return notAnAPIServer(nil)
	}
	return nil
}
