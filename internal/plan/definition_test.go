package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/plan"
)

func TestBeyond(t *testing.T) {
	t.Parallel()
	definition := func(schema string) plan.Definition {
		return plan.DefinitionIn([]byte(`{"spec":{"versions":[{"name":"v1","served":true,"schema":{"openAPIV3Schema":` + schema + `}},
			{"name":"v0","served":false,"schema":{"openAPIV3Schema":{"properties":{"a":{}}}}}]}}`))
	}
	for name, c := range map[string]struct {
		has, other string
		want       []string
	}{
		"the same":             {has: `{"properties":{"a":{"type":"string"}}}`, other: `{"properties":{"a":{"type":"integer"}}}`},
		"less":                 {has: `{"properties":{"a":{}}}`, other: `{"properties":{"a":{},"b":{}}}`},
		"more":                 {has: `{"properties":{"b":{"properties":{"c":{}}},"a":{}}}`, other: `{}`, want: []string{"v1 a", "v1 b"}},
		"below":                {has: `{"properties":{"a":{"properties":{"b":{},"c":{}}}}}`, other: `{"properties":{"a":{"properties":{"b":{}}}}}`, want: []string{"v1 a.c"}},
		"in a list":            {has: `{"properties":{"a":{"items":{"properties":{"b":{}}}}}}`, other: `{"properties":{"a":{"items":{}}}}`, want: []string{"v1 a[].b"}},
		"under any name":       {has: `{"properties":{"a":{"additionalProperties":{"properties":{"b":{}}}}}}`, other: `{"properties":{"a":{"additionalProperties":{}}}}`, want: []string{"v1 a.*.b"}},
		"under any name or so": {has: `{"additionalProperties":true}`, other: `{"additionalProperties":{"properties":{"b":{}}}}`},
		"the other takes all":  {has: `{"properties":{"a":{}}}`, other: `{"x-kubernetes-preserve-unknown-fields":true}`},
		"it takes all":         {has: `{"x-kubernetes-preserve-unknown-fields":true}`, other: `{"properties":{"a":{}}}`, want: []string{"v1 *"}},
		"null":                 {has: `null`, other: `{"properties":{"a":null}}`},
		"of nothing":           {has: `{"properties":{"a":{}}}`, other: `null`, want: []string{"v1 a"}},
		"nothing to be read":   {has: `{"properties":[]}`, other: `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, definition(c.has).Beyond(definition(c.other)))
		})
	}
	require.Empty(t, definition(`{"properties":{"a":{}}}`).Beyond(plan.Definition{}), "of a version that only one serves nothing is said")
}
