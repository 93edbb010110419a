package span

import (
	"net/http"
	"strconv"
)

// Request sends a request to a cluster as a span of who it is done for, if that is to have one more.
func Request(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	if !Allowed(r.Context()) {
		return send(r)
	}
	// The path has names of resources. What stands behind it and in bodies is not told.
	_, end := Begin(r.Context(), "cluster "+r.Method, Client, String("http.request.method", r.Method), String("url.path", r.URL.Path))
	answer, err := send(r)
	outcome := "failed"
	if answer != nil {
		outcome = strconv.Itoa(answer.StatusCode)
	}
	end(outcome, answer == nil || answer.StatusCode >= http.StatusInternalServerError)
	return answer, err
}

// Requests has requests through a transport be spans, see Request.
func Requests(through http.RoundTripper) http.RoundTripper { return requests{through} }

type requests struct{ through http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t requests) RoundTrip(r *http.Request) (*http.Response, error) {
	return Request(r, t.through.RoundTrip)
}

// WrappedRoundTripper says what is wrapped, for client-go.
func (t requests) WrappedRoundTripper() http.RoundTripper { return t.through }
