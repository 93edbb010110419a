package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/drover-io/drover/internal/codec"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/secret"
)

// TestPayloadsAreOpenedForViewersOfTheFleet: for a page of the Web UI, which sends a token, and for nobody else.
func TestPayloadsAreOpenedForViewersOfTheFleet(t *testing.T) {
	root, err := secret.NewRoot()
	require.NoError(t, err)
	c := codec.New(func() (secret.Root, error) { return root, nil })
	sealed, err := c.Data().ToPayloads("xyzzy")
	require.NoError(t, err)
	body, err := protojson.Marshal(sealed)
	require.NoError(t, err)
	plain, err := converter.GetDefaultDataConverter().ToPayloads("xyzzy")
	require.NoError(t, err)
	open, err := protojson.Marshal(plain)
	require.NoError(t, err)
	require.Contains(t, string(open), "Inh5enp5", "the word in base64")

	w := newCallersWith(t, func(d *deps) {
		d.Histories, d.WebUIs = c.Handler(), []string{"http://127.0.0.1:8233"}
	})
	furnish(t, w.world)
	w.as(t, "", bind(theProject, "v", "project-admin", "vera"), bind("/v2", "ops", "viewer", "otto"))
	ask := func(status int, origin string) call {
		asked := call{method: "POST", url: "/codec/decode", body: string(body), status: status, lacks: []string{"Inh5enp5"}}
		if origin != "" {
			asked.header = map[string]string{"Origin": origin, "Sec-Fetch-Site": "cross-site"}
		}
		return asked
	}
	ui := ask(200, "http://127.0.0.1:8233")
	ui.is, ui.lacks, ui.answers = string(open), nil, map[string]string{"Access-Control-Allow-Origin": "http://127.0.0.1:8233", "Access-Control-Allow-Credentials": ""}
	w.as(t, "otto", ui, ask(403, "https://evil.example"),
		call{name: "nothing is sealed", method: "POST", url: "/codec/encode", body: string(body), status: 404},
		call{name: "what is damaged", method: "POST", url: "/codec/decode", body: `{"payloads":[{"metadata":{"encoding":"YmluYXJ5L2Ryb3Zlci1zZWFsZWQ="},"data":"AQ=="}]}`, status: 400},
		call{
			name: "more than histories have at a time", method: "POST", url: "/codec/decode", status: 422,
			body: `{"payloads":[{"data":"` + strings.Repeat("A", limits.Payloads) + `"}]}`,
		},
		call{
			name: "the page asks first", method: "OPTIONS", url: "/codec/decode", status: 204,
			header:  map[string]string{"Origin": "http://127.0.0.1:8233", "Access-Control-Request-Method": "POST"},
			answers: map[string]string{"Access-Control-Allow-Origin": "http://127.0.0.1:8233", "Access-Control-Allow-Methods": "POST"},
		},
		call{
			name: "for the rest of the API it is a page like others", method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"x"}}`, status: 403,
			header: map[string]string{"Origin": "http://127.0.0.1:8233", "Sec-Fetch-Site": "cross-site"}, answers: map[string]string{"Access-Control-Allow-Origin": ""},
		},
	)
	w.as(t, "vera", ask(404, ""), ask(404, "http://127.0.0.1:8233"))
	w.as(t, "nobody", ask(404, ""))
}
