// Package access says what Drover has to be allowed in a member cluster, and no more.
package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// core are the kinds of the core group that charts have. Nodes are none of them, and no subresources are: who may create pods/exec or
// serviceaccounts/token has more than who deploys.
var core = []string{
	"configmaps", "endpoints", "limitranges", "namespaces", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates",
	"replicationcontrollers", "resourcequotas", "secrets", "serviceaccounts", "services",
}

// groups are those of Kubernetes of which charts have kinds.
var groups = []string{
	"admissionregistration.k8s.io", "apiextensions.k8s.io", "apps", "autoscaling", "batch", "coordination.k8s.io", "discovery.k8s.io",
	"flowcontrol.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
}

// ClusterRole is the manifest, in YAML, of the least ClusterRole by which Drover works on a cluster that reports in a way: what charts
// have is read, written and deleted. It may not escalate: of Roles that charts have, and of those of logical clouds, the API server
// refuses rights that this ClusterRole has not. Kinds of other API groups are added by naming the groups, "*" for any. Invalid for a way
// that there is not, or for what is no group. With users it may have certificates of the users of logical clouds signed, which are those of
// any user: who has it is whoever it likes. An account without what this is for ReportNone counts as one that Drover has not made (kube.Owned.Make): if that
// ever grows, it has to be said there what it was.
func ClusterRole(name string, report domain.Report, users bool, more ...string) ([]byte, error) {
	verbs := []string{"get", "list", "create", "update", "patch", "delete"}
	switch report {
	case domain.ReportAgent, domain.ReportNone:
	case domain.ReportAgentless, domain.ReportAuto, domain.ReportInstall: // all kinds are heard, or the agent is given that
		verbs = append(verbs, "watch")
	default:
		return nil, fail.New(fail.Invalid, "report: %q is no way in which a cluster reports", report)
	}
	for _, g := range more {
		if g == "" || g != "*" && strings.Trim(g, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
			return nil, fail.New(fail.Invalid, "groups: %q is no API group", g)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: %q\nrules:\n", name)
	rule := func(about string, groups, resources, verbs []string, names ...string) {
		fmt.Fprintf(&b, "  # %s\n  - apiGroups: [%s]\n    resources: [%s]\n    verbs: [%s]\n", about, quoted(groups), quoted(resources), quoted(verbs))
		if len(names) > 0 {
			fmt.Fprintf(&b, "    resourceNames: [%s]\n", quoted(names))
		}
	}
	rule("What charts have.", []string{""}, core, verbs)
	rule("What charts have.", slices.Concat(groups, more), []string{"*"}, verbs)
	rule("What hpa intents look at.", []string{""}, []string{"nodes"}, []string{"get", "list"})
	if users {
		const about = "Certificates of the users of logical clouds. Who has this may have one of any user signed."
		rule(about, []string{"certificates.k8s.io"}, []string{"certificatesigningrequests"}, []string{"get", "create", "patch", "delete"})
		rule(about, []string{"certificates.k8s.io"}, []string{"certificatesigningrequests/approval"}, []string{"update"})
		rule(about, []string{"certificates.k8s.io"}, []string{"signers"}, []string{"approve"}, "kubernetes.io/kube-apiserver-client")
	}
	if report != domain.ReportNone {
		rule("What the agent writes.", []string{"k8splugin.io"}, []string{"resourcebundlestates"}, []string{"get", "list", "watch", "create", "patch", "delete"})
		rule("Whether there is an agent, and it lives.", []string{"coordination.k8s.io"}, []string{"leases"}, []string{"get", "list", "watch"})
		rule("Whether there is an agent, and it lives.", []string{"apiextensions.k8s.io"}, []string{"customresourcedefinitions"}, []string{"get", "list", "watch"})
	}
	if report == domain.ReportInstall {
		rule("What the agent has to be given.", []string{"k8splugin.io"}, []string{"resourcebundlestates/status"}, []string{"patch"})
		rule("What the agent has to be given.", []string{"*"}, []string{"*"}, []string{"list", "watch"})
	}
	return []byte(b.String()), nil
}

func quoted(words []string) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(all, ", ")
}
