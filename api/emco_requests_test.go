package api_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// missing are the paths of EMCO that there are not here: certificates, service function chains and their clients, Temporal workflows of others, and
// intents of its policy controller
// (docs/how-to/migrate-from-emco.md has them). EMCO's document lacks a slash in some.
var missing = regexp.MustCompile(`/(ca-certs|network-chains|sfc-clients|temporal-action-controller|temporal-workflow-intents|policy-intents)([/?{]|$)`)

// TestRequestsOfEMCO: each request of its documents finds a route here, with each of its parameters; and what is missing is so as a whole. What a
// request does is the other tests' to say.
func TestRequestsOfEMCO(t *testing.T) {
	w := newWorld(t)
	text, err := os.ReadFile("testdata/emco-requests.txt")
	require.NoError(t, err)
	placeholder := regexp.MustCompile(`\{[^}]*\}`)
	asked := map[bool]int{} // whether they are missing
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		method, url, found := strings.Cut(line, " ")
		require.True(t, found, line)
		lacking := missing.MatchString(url)
		asked[lacking]++
		t.Run(line, func(t *testing.T) {
			answer := do(t, w.router, call{method: method, url: placeholder.ReplaceAllString(url, "x"), body: "{}"})
			said := answer.Body.String()
			if lacking {
				require.Equal(t, http.StatusNotFound, answer.Code, said)
				require.Contains(t, said, "404 page not found")
				return
			}
			for _, refusal := range []string{"404 page not found", "is no parameter of this request", "is given several times", "Invalid query"} {
				require.NotContains(t, said, refusal)
			}
			require.NotEqual(t, http.StatusMethodNotAllowed, answer.Code, said)
			require.Less(t, answer.Code, http.StatusInternalServerError, said)
		})
	}
	require.Greater(t, asked[false], 200)
	require.Greater(t, asked[true], 50)
}
