package kube

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/access"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
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
	if _, err := one.preferred(ctx); err != nil { // by which work begins; what may not ask that can do nothing
		return nil, kindOf(err)
	}
	s := &access.Seen{Version: one.version(ctx)}
	var took []time.Duration
	for range 3 {
		begun := time.Now()
		if _, err := one.asked(ctx); err != nil {
			return nil, kindOf(err)
		}
		took = append(took, time.Since(begun))
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

// held is a right: a verb of a resource, of one object where it has a name.
type held struct{ verb, group, resource, name string }

// String is what people are told of it.
func (h held) String() string {
	if h.name == "" {
		return right(h.verb, h.group, h.resource, nil)
	}
	return right(h.verb, h.group, h.resource, []string{h.name})
}

// rightsOf are those that rules give.
func rightsOf(rules []rbacv1.PolicyRule) (all []held) {
	for i := range rules {
		names := rules[i].ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rules[i].APIGroups {
			for _, resource := range rules[i].Resources {
				for _, verb := range rules[i].Verbs {
					for _, name := range names {
						if h := (held{verb, group, resource, name}); !slices.Contains(all, h) {
							all = append(all, h)
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
func (c *Cluster) lacking(ctx context.Context, all []held) ([]held, error) {
	rules := authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: nowhere}}
	if err := c.review(ctx, "selfsubjectrulesreviews", "SelfSubjectRulesReview", &rules); err != nil {
		return nil, err
	}
	has := make([]rbacv1.PolicyRule, len(rules.Status.ResourceRules))
	for i, r := range rules.Status.ResourceRules {
		has[i] = rbacv1.PolicyRule{APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames, Verbs: r.Verbs}
	}
	var missing []held
	for _, h := range all {
		var names []string
		if h.name != "" {
			names = []string{h.name}
		}
		if !allow(has, h.verb, h.group, h.resource, names) {
			missing = append(missing, h)
		}
	}
	lacks := make([]bool, len(missing))
	g, within := errgroup.WithContext(ctx)
	g.SetLimit(c.config.Parallel)
	for i, h := range missing {
		g.Go(func() error {
			resource, below, _ := strings.Cut(h.resource, "/")
			asked := authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: h.verb, Group: h.group, Resource: resource, Subresource: below, Name: h.name,
			}}}
			err := c.review(within, "selfsubjectaccessreviews", "SelfSubjectAccessReview", &asked)
			lacks[i] = !asked.Status.Allowed
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	at := -1
	return slices.DeleteFunc(missing, func(held) bool { at++; return !lacks[at] }), nil
}

// review asks the cluster what it lets the credential do.
func (c *Cluster) review(ctx context.Context, resource, kind string, about any) error {
	body, err := json.Marshal(about)
	if err != nil {
		return fail.Wrap(err, fail.Internal, "a %s cannot be written", kind)
	}
	var typed map[string]any
	if err = json.Unmarshal(body, &typed); err == nil {
		typed["apiVersion"], typed["kind"] = authorizationv1.SchemeGroupVersion.String(), kind
		body, err = json.Marshal(typed)
	}
	if err != nil {
		return fail.Wrap(err, fail.Internal, "a %s cannot be written", kind)
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
