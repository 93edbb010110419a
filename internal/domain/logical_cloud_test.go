package domain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

func cloudIn(level string, s domain.State) *domain.LogicalCloud {
	c := &domain.LogicalCloud{Metadata: domain.Metadata{Name: "lc"}, Spec: domain.LogicalCloudSpec{Level: level}}
	c.History.Append(s, "", 3, time.Time{})
	return c
}

// TestDecideCloud is the table of reference 2.6 for level 1: by the status of the context where nothing else is
// said. What a cell does not name is refused.
func TestDecideCloud(t *testing.T) {
	const none = domain.State("")
	type cell struct {
		in []string // statuses of the context, by the short names of TestDecide
		to domain.State
	}
	for op, c := range map[domain.Operation]cell{
		domain.OpInstantiate: {[]string{"-", "T"}, domain.Instantiated},
		domain.OpTerminate:   {[]string{"i", "I", "IF", "TF"}, domain.Terminated},
		domain.OpChange:      {[]string{"-", "I", "T"}, none},
		domain.OpDelete:      {[]string{"-", "T", "TF"}, none},
	} {
		for short, status := range contexts {
			if status == domain.ContextUpdated { // never a cloud's last one
				continue
			}
			t.Run(fmt.Sprintf("%s %s", op, short), func(t *testing.T) {
				cloud := cloudIn(domain.LevelStandard, domain.Instantiated)
				got, err := cloud.Decide(status, op)
				if !slices.Contains(c.in, short) {
					require.Equal(t, fail.Conflict, fail.KindOf(err), "%v", err)
					require.Contains(t, fail.TextOf(err), `"lc"`)
					require.Contains(t, fail.TextOf(err), string(domain.Instantiated))
					require.Contains(t, fail.TextOf(err), string(status))
					return
				}
				require.NoError(t, err)
				require.Equal(t, c.to == none, got.Same)
				if c.to != none {
					require.Equal(t, domain.Transition{To: c.to, Revision: 4}, got)
				}
			})
		}
	}
	_, err := cloudIn(domain.LevelStandard, domain.Created).Decide(domain.ContextNone, "dance")
	require.Equal(t, fail.Internal, fail.KindOf(err))
}

func TestDecideUpdateOfACloud(t *testing.T) {
	for short, want := range map[string]domain.State{"I": domain.Updated, "IF": domain.Updated} {
		got, err := cloudIn(domain.LevelStandard, domain.Instantiated).Decide(contexts[short], domain.OpUpdate)
		require.NoError(t, err)
		require.Equal(t, domain.Transition{To: want, Revision: 4}, got)
	}
	for short, why := range map[string]string{
		"-": `in state Instantiated; instantiate it`, "i": `(Instantiating); update it again when that has ended`,
		"t": `(Terminating); instantiate it when that has ended`, "T": `(Terminated); instantiate it`,
		"TF": `(TerminateFailed); terminate it again, then instantiate it`,
	} {
		got, err := cloudIn(domain.LevelStandard, domain.Instantiated).Decide(contexts[short], domain.OpUpdate)
		require.NoError(t, err)
		require.True(t, got.Same, "EMCO accepts it and does nothing: %s", short)
		require.Contains(t, got.Why, `nothing is done: logical cloud "lc" is in state `)
		require.Contains(t, got.Why, why)
	}
}

func TestDecideStopOfACloud(t *testing.T) {
	for name, c := range map[string]struct {
		level   string
		state   domain.State
		context string
		to      domain.State
		same    bool
		refused fail.Kind
	}{
		"never instantiated":           {level: "1", state: domain.Created, context: "-", refused: fail.Conflict},
		"instantiating":                {level: "1", state: domain.Instantiated, context: "i", to: domain.InstantiateStopped},
		"updating":                     {level: "1", state: domain.Updated, context: "i", to: domain.InstantiateStopped},
		"instantiated":                 {level: "1", state: domain.Instantiated, context: "I", refused: fail.Invalid},
		"failed":                       {level: "1", state: domain.Instantiated, context: "IF", refused: fail.Invalid},
		"being stopped":                {level: "1", state: domain.InstantiateStopped, context: "i", to: domain.InstantiateStopped, same: true},
		"stopped":                      {level: "1", state: domain.InstantiateStopped, context: "IF", refused: fail.Conflict},
		"terminating":                  {level: "1", state: domain.Terminated, context: "t", to: domain.TerminateStopped},
		"terminated":                   {level: "1", state: domain.Terminated, context: "T", refused: fail.Invalid},
		"a termination that stopped":   {level: "1", state: domain.TerminateStopped, context: "TF", refused: fail.Conflict},
		"an admin cloud":               {level: "0", state: domain.Instantiated, context: "I", to: domain.InstantiateStopped},
		"an admin cloud, updated":      {level: "0", state: domain.Updated, context: "I", to: domain.InstantiateStopped},
		"an admin cloud, terminated":   {level: "0", state: domain.Terminated, context: "T", to: domain.TerminateStopped},
		"an admin cloud that is ended": {level: "0", state: domain.TerminateStopped, context: "T", refused: fail.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := cloudIn(c.level, c.state).Decide(contexts[c.context], domain.OpStop)
			if c.refused != "" {
				require.Equal(t, c.refused, fail.KindOf(err), "%v", err)
				require.Contains(t, fail.TextOf(err), "lc")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.to, got.To)
			require.Equal(t, c.same, got.Same)
		})
	}
}

func TestAStoppedAdminCloudCanBeInstantiatedAndNotChanged(t *testing.T) {
	cloud := cloudIn(domain.LevelAdmin, domain.InstantiateStopped)
	got, err := cloud.Decide(cloud.AdminStatus(), domain.OpInstantiate)
	require.NoError(t, err)
	require.Equal(t, domain.Transition{To: domain.Instantiated, Revision: 4}, got)
	_, err = cloud.Decide(cloud.AdminStatus(), domain.OpChange)
	require.Equal(t, fail.Conflict, fail.KindOf(err))
}

// TestReferencesLeaveACloudThatCouldNotBeTerminated: EMCO lets them go then, not come.
func TestReferencesLeaveACloudThatCouldNotBeTerminated(t *testing.T) {
	for short, status := range contexts {
		cloud := cloudIn(domain.LevelStandard, domain.Terminated)
		_, refused := cloud.Decide(status, domain.OpChange)
		require.Equal(t, refused == nil, cloud.MayRefer(status, false) == nil, short)
		require.Equal(t, refused == nil || short == "TF", cloud.MayRefer(status, true) == nil, short)
	}
}

func TestAdminStatus(t *testing.T) {
	for state, want := range map[domain.State]domain.ContextStatus{
		domain.Created: domain.ContextNone, domain.Instantiated: domain.ContextInstantiated, domain.Updated: domain.ContextInstantiated,
		domain.InstantiateStopped: domain.ContextInstantiated, domain.Terminated: domain.ContextTerminated, domain.TerminateStopped: domain.ContextTerminated,
	} {
		require.Equal(t, want, cloudIn(domain.LevelAdmin, state).AdminStatus(), state)
	}
}

func TestOwnerNouns(t *testing.T) {
	for key, want := range map[domain.Key]*domain.Noun{
		"projects/p/logical-clouds/lc":                               domain.LogicalClouds,
		"projects/p/composite-apps/ca/v1/deployment-intent-groups/d": domain.DeploymentIntentGroups,
		"projects/p/logical-clouds/lc/cluster-references/r":          nil,
		"projects": nil,
	} {
		require.Same(t, want, domain.OwnerNoun(key), key)
	}
	for _, n := range domain.Owners {
		require.Implements(t, (*domain.Owner)(nil), n.New(), n.Kind)
	}
}

// The namespace of a cloud enforces what all do at least, whatever the cloud's labels say; who changes the labels is told so.
func TestNamespacesEnforceAtLeast(t *testing.T) {
	const enforce, version = "pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/enforce-version"
	for name, c := range map[string]struct {
		least  domain.PodSecurity
		labels map[string]string
		want   map[string]string // the same as labels when nil
		weaker []string
	}{
		"nothing is enforced":       {labels: map[string]string{enforce: "privileged", version: "v1.20"}},
		"no labels":                 {least: "baseline", want: map[string]string{enforce: "baseline"}},
		"other labels":              {least: "restricted", labels: map[string]string{"a": "b"}, want: map[string]string{"a": "b", enforce: "restricted"}},
		"the same":                  {least: "baseline", labels: map[string]string{enforce: "baseline"}},
		"a stricter one":            {least: "baseline", labels: map[string]string{enforce: "restricted", version: "latest"}},
		"a weaker one":              {least: "restricted", labels: map[string]string{enforce: "baseline"}, want: map[string]string{enforce: "restricted"}, weaker: []string{enforce}},
		"one that there is not":     {least: "baseline", labels: map[string]string{enforce: "none"}, want: map[string]string{enforce: "baseline"}, weaker: []string{enforce}},
		"an older version":          {least: "baseline", labels: map[string]string{version: "v1.20"}, want: map[string]string{enforce: "baseline"}, weaker: []string{version}},
		"what only warns is anyone": {least: "baseline", labels: map[string]string{enforce: "baseline", "pod-security.kubernetes.io/warn": "privileged"}},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := cloudIn(domain.LevelStandard, domain.Created)
			cloud.Spec.Labels = c.labels
			if c.want == nil {
				c.want = c.labels
			}
			require.Equal(t, c.want, cloud.NamespaceLabels(c.least))
			require.Len(t, cloud.RemarkPodSecurity(c.least), len(c.weaker))
			var p, again fail.Problems
			cloud.CheckPodSecurity(&p, nil, c.least)
			var fields []string
			for _, f := range p.Fields() {
				fields = append(fields, strings.TrimSuffix(strings.TrimPrefix(f.Path, "spec.labels["), "]"))
				require.Contains(t, f.Message, "--cloud-pod-security")
			}
			require.Equal(t, c.weaker, fields)
			cloud.CheckPodSecurity(&again, cloud, c.least)
			require.NoError(t, again.Err(), "what was so stays")
			was := cloudIn(domain.LevelAdmin, domain.Created)
			was.Spec.Labels = c.labels
			var turned fail.Problems
			cloud.CheckPodSecurity(&turned, was, c.least)
			require.Len(t, turned.Fields(), len(c.weaker), "at level 0 they meant nothing")
			was.CheckPodSecurity(&again, nil, c.least)
			require.NoError(t, again.Err(), "at level 0 they mean nothing")
		})
	}
}

func TestPermissionsThatRelabel(t *testing.T) {
	for name, c := range map[string]struct {
		groups, resources, verbs string
		relabels                 bool
	}{
		"all":                        {"*", "*", "*", true},
		"namespaces":                 {"", "pods namespaces", "get patch", true},
		"namespaces, by an update":   {"*", "namespaces", "update", true},
		"their status":               {"", "namespaces/status", "*", true},
		"the status of all":          {"", "*/status", "patch", true},
		"to look at namespaces":      {"", "namespaces", "get list watch delete", false},
		"another group":              {"apps", "namespaces", "*", false},
		"what is in it":              {"", "pods configmaps", "*", false},
		"any right":                  {"rbac.authorization.k8s.io", "roles", "create escalate", true},
		"any role":                   {"rbac.authorization.k8s.io", "clusterroles", "bind", true},
		"roles of what he may do":    {"rbac.authorization.k8s.io", "roles rolebindings", "create update patch", false},
		"bindings of what he may do": {"rbac.authorization.k8s.io", "rolebindings", "*", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := domain.UserPermissionSpec{Namespace: "ns", APIGroups: strings.Split(c.groups, " "), Resources: strings.Split(c.resources, " "), Verbs: strings.Split(c.verbs, " ")}
			require.Equal(t, c.relabels, p.Relabels())
		})
	}
}
