package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

const (
	group   = domain.Key("projects/p/composite-apps/c/v1/deployment-intent-groups/g")
	inbound = group + "/traffic-group-intents/t/inbound-intents/in"
)

// opened gives back what is sealed, which for the test is open.
func opened(document string, s domain.Sealed) ([]byte, error) {
	if document != string(inbound) || s.KeyID != "k" {
		return nil, fail.New(fail.Internal, "no")
	}
	return s.Data, nil
}

func TestSealedValuesAreOpened(t *testing.T) {
	value := plan.SealedValue(inbound, domain.Sealed{KeyID: "k", Data: []byte("a2V5")})
	require.NotContains(t, value, "a2V5")
	require.Empty(t, plan.SealedValue(inbound, domain.Sealed{}))
	others := plan.SealedValue("cluster-providers/p/clusters/c", domain.Sealed{KeyID: "k", Data: []byte("a2V5")})
	foreign := plan.SealedValue(domain.Key(strings.Replace(string(inbound), "projects/", "projects/other-", 1)), domain.Sealed{KeyID: "k", Data: []byte("a2V5")})
	of := func(kind, value string) string {
		return `{"apiVersion":"v1","kind":"` + kind + `","metadata":{"name":"s","n":12345678901234567890},"data":{"tls.key":"` + value + `","ca.crt":"Y2E="}}`
	}
	for name, c := range map[string]struct{ manifest, want string }{
		"a Secret":                   {of("Secret", value), of("Secret", "a2V5")},
		"what is no Secret":          {of("ConfigMap", value), of("ConfigMap", value)},
		"another document's":         {of("Secret", others), of("Secret", others)},
		"another project's":          {of("Secret", foreign), of("Secret", foreign)},
		"nothing that we have made":  {of("Secret", "drover.sealed:e30"), of("Secret", "drover.sealed:e30")},
		"nothing that anybody reads": {of("Secret", "drover.sealed:!"), of("Secret", "drover.sealed:!")},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := plan.Open(group, json.RawMessage(c.manifest), opened)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(got))
		})
	}
	_, err := plan.Open(group, json.RawMessage(of("Secret", plan.SealedValue(inbound, domain.Sealed{KeyID: "lost", Data: []byte("x")}))), opened)
	require.True(t, fail.Is(err, fail.Internal), "%v", err)
}

// FuzzOpen: what charts have in their Secrets is anything.
func FuzzOpen(f *testing.F) {
	f.Add(`{"apiVersion":"v1","kind":"Secret","data":{"a":"drover.sealed:e30"}}`)
	f.Add(`{"kind":"Secret","data":{"a":"drover.sealed:` + strings.Repeat("A", 9) + `"}}`)
	f.Add(`{"apiVersion":"v1","kind":"Secret","data":["drover.sealed:"]}`)
	f.Add(`{"apiVersion":"v1","kind":"Secret","data":{"a":"` + plan.SealedValue(inbound, domain.Sealed{KeyID: "k", Data: []byte("x")}) + `"}}`)
	f.Fuzz(func(t *testing.T, manifest string) {
		got, err := plan.Open(group, json.RawMessage(manifest), opened)
		if err != nil {
			return
		}
		if json.Valid([]byte(manifest)) {
			require.True(t, json.Valid(got))
		} else {
			require.Equal(t, manifest, string(got))
		}
	})
}
