package kube

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/fail"
)

// KeepRights adds to the role the rights that the account has in the cluster, so that Make takes none away that something may need that runs
// there. It says which, such as "get example.com/*".
func (o *Owned) KeepRights(ctx context.Context) ([]string, error) {
	there, err := o.client.RbacV1().ClusterRoles().Get(ctx, o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, o.failed(err, "look at the ClusterRole %s", o.Name)
	}
	if !o.has(there) {
		return nil, nil // none of the account's: Make says whose it is
	}
	wanted := &rbacv1.ClusterRole{}
	if err := yaml.Unmarshal(o.Role, wanted); err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the ClusterRole cannot be read")
	}
	rules, kept := widened(wanted.Rules, there.Rules)
	if len(kept) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "ClusterRole", "metadata": map[string]any{"name": wanted.Name}, "rules": rules,
	})
	if err == nil {
		o.Role, err = yaml.JSONToYAML(data)
	}
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the ClusterRole cannot be written")
	}
	return kept, nil
}

// Rules are further rules of a ClusterRole.
type Rules []rbacv1.PolicyRule

// ReadRules reads rules from YAML or JSON: a list of them, or a ClusterRole, of which the rest says nothing here. Invalid names what is wrong.
func ReadRules(text []byte) (Rules, error) {
	invalid := func(format string, args ...any) (Rules, error) { return nil, fail.New(fail.Invalid, format, args...) }
	const what = "it is a list of rules, such as {apiGroups: [\"\"], resources: [events], verbs: [create, patch]}, or a ClusterRole"
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var document []byte
	for {
		one, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return invalid("%s: %s", what, err)
		}
		var value any
		if err := yaml.Unmarshal(one, &value); err == nil && value == nil { // as before the first ---
			continue
		}
		if document != nil {
			return invalid("it has several documents, and may have one: all rules in one list")
		}
		document = one
	}
	var rules Rules
	var value any
	if err := yaml.Unmarshal(document, &value); err != nil {
		return invalid("%s: %s", what, err)
	}
	switch value.(type) {
	case []any:
		if err := yaml.UnmarshalStrict(document, &rules); err != nil {
			return invalid("%s: %s", what, err)
		}
	case map[string]any:
		var role rbacv1.ClusterRole
		err := yaml.UnmarshalStrict(document, &role)
		switch {
		case role.Kind != "ClusterRole" || role.APIVersion != rbacv1.SchemeGroupVersion.String():
			return invalid("%s of %s; it says kind %q of %q", what, rbacv1.SchemeGroupVersion, role.Kind, role.APIVersion)
		case err != nil:
			return invalid("%s: %s", what, err)
		case role.AggregationRule != nil:
			return invalid("aggregationRule: the rules of other ClusterRoles are not looked up; list them")
		}
		rules = role.Rules
	default:
		return invalid("%s", what)
	}
	if len(rules) == 0 {
		return invalid("it has no rules")
	}
	for i := range rules {
		if wrong := wrongIn(&rules[i]); wrong != "" {
			return invalid("rule %d: %s", i+1, wrong)
		}
	}
	return rules, nil
}

// wrongIn says why a cluster would not take a rule, "" for nothing.
func wrongIn(rule *rbacv1.PolicyRule) string {
	urls := len(rule.NonResourceURLs) > 0
	switch {
	case len(rule.Verbs) == 0:
		return "verbs: it needs at least one, such as get"
	case urls && len(rule.APIGroups)+len(rule.Resources)+len(rule.ResourceNames) > 0:
		return "nonResourceURLs: a rule has either these or apiGroups and resources"
	case urls:
		return ""
	case len(rule.APIGroups) == 0:
		return `apiGroups: it needs at least one; "" is that of Pods, Secrets and so on`
	case len(rule.Resources) == 0:
		return "resources: it needs at least one, such as pods"
	}
	return ""
}

// On is the manifest of a ClusterRole, in YAML and with its rules at its end, with these rules behind them.
func (r Rules) On(role []byte) ([]byte, error) {
	if len(r) == 0 {
		return role, nil
	}
	text, err := yaml.Marshal(r)
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the ClusterRole cannot be written")
	}
	all := bytes.Clone(role)
	all = append(all, "  # What else is asked for.\n"...)
	for line := range bytes.Lines(text) {
		all = append(append(all, "  "...), line...)
	}
	return all, nil
}

// widened are the rules that are wanted, and those of what there is that allow something else. kept is what they allow.
func widened(wanted, there []rbacv1.PolicyRule) (rules []rbacv1.PolicyRule, kept []string) {
	rules = slices.Clone(wanted)
	for i := range there {
		if more := beyond(&there[i], wanted); len(more) > 0 {
			rules, kept = append(rules, there[i]), append(kept, more...)
		}
	}
	slices.Sort(kept)
	return rules, slices.Compact(kept)
}

// beyond are the rights of a rule that rules do not give.
func beyond(rule *rbacv1.PolicyRule, rules []rbacv1.PolicyRule) (rights []string) {
	for _, verb := range rule.Verbs {
		for _, url := range rule.NonResourceURLs {
			if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return listed(r.Verbs, verb) && listed(r.NonResourceURLs, url) }) {
				rights = append(rights, verb+" "+url)
			}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if !allow(rules, verb, group, resource, rule.ResourceNames) {
					rights = append(rights, right(verb, group, resource, rule.ResourceNames))
				}
			}
		}
	}
	return rights
}

// allow says whether one of the rules gives a right: to all objects of a resource, or where there are names to those of them.
func allow(rules []rbacv1.PolicyRule, verb, group, resource string, names []string) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		named := len(r.ResourceNames) == 0 ||
			len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(r.ResourceNames, n) })
		return named && listed(r.Verbs, verb) && listed(r.APIGroups, group) && listed(r.Resources, resource)
	})
}

// listed says whether a list of a rule has one, or all that there are.
func listed(list []string, one string) bool {
	return slices.Contains(list, one) || slices.Contains(list, rbacv1.VerbAll)
}

// right is what people are told of a right.
func right(verb, group, resource string, names []string) string {
	text := verb + " " + resource
	if group != "" {
		text = verb + " " + group + "/" + resource
	}
	if len(names) > 0 {
		text += fmt.Sprintf(" %v", names)
	}
	return text
}
