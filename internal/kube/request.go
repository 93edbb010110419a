package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
)

// What is sent and asked for. Metadata alone is the smallest answer that servers offer for every kind.
const (
	contentJSON  = "application/json"
	contentApply = "application/apply-patch+yaml" // JSON is YAML
	contentMerge = "application/merge-patch+json"
	metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

// userAgent is what clusters see in their audit logs.
const userAgent = "drover"

// request is one HTTP request to a cluster.
type request struct {
	method      string
	path        string // escaped
	query       string
	contentType string
	accept      string
	body        []byte
	most        int64     // that is read of the answer; 0 is the client's
	discard     bool      // the answer's body is of no interest
	writes      bool      // webhooks of the cluster may be asked first: it has Config.Write
	warnings    *[]string // takes the Warning headers of the answer, when not nil
}

// do sends the request within Config.Request, or Config.Write, and returns the body of a successful answer. An error is a
// *apierrors.StatusError when there was an answer, else the context's or the transport's. The connection
// is free for the next request in any case.
func (c *Cluster) do(ctx context.Context, r request) ([]byte, error) {
	while, leave := c.While(ctx)
	defer leave()
	limit := c.config.Request
	if r.writes {
		limit = c.config.Write
	}
	while, cancel := context.WithTimeout(while, limit)
	defer cancel()
	body, err := c.exchange(while, r)
	return body, c.said(ctx, err)
}

func (c *Cluster) exchange(ctx context.Context, r request) ([]byte, error) {
	answer, err := c.open(ctx, c.client, r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	limited := io.LimitReader(answer.Body, c.bound(r))
	if r.discard {
		_, _ = io.Copy(io.Discard, limited) // what the server did, it has said already
		return nil, nil
	}
	return io.ReadAll(limited)
}

// bound is how much is read of an answer.
func (c *Cluster) bound(r request) int64 {
	if r.most > 0 {
		return min(r.most, c.most)
	}
	return c.most
}

// open sends the request and returns a successful answer, with a body that is JSON and has to be closed. Errors
// are as do has them.
func (c *Cluster) open(ctx context.Context, client *http.Client, r request) (*http.Response, error) {
	h, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	h.URL.RawQuery = r.query
	h.Header.Set("User-Agent", userAgent)
	h.Header.Set("Accept", r.accept)
	if r.contentType != "" {
		h.Header.Set("Content-Type", r.contentType)
	}
	answer, err := client.Do(h)
	if err != nil {
		return nil, err
	}
	c.answers.Add(1)
	if r.warnings != nil {
		*r.warnings = answer.Header.Values("Warning")
	}
	if err := c.check(ctx, r, answer); err != nil {
		answer.Body.Close()
		return nil, err
	}
	return answer, nil
}

// check makes an error of an answer that is not a success, or not an API server's. Who may not do something may be one whose credentials others
// have come in place of, in a cloud or a registration that was made anew: that is ErrReplaced, and no word of the cluster on what was asked.
func (c *Cluster) check(ctx context.Context, r request, answer *http.Response) error {
	if answer.StatusCode >= http.StatusOK && answer.StatusCode < http.StatusMultipleChoices {
		if t := answer.Header.Get("Content-Type"); !strings.HasPrefix(t, contentJSON) {
			return notAnAPIServer(fmt.Errorf("the answer is of type %q", t))
		}
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, c.bound(r)))
	if err != nil {
		return err
	}
	said := statusError(r.method, answer, body)
	switch {
	case isDenied(said):
	case answer.StatusCode == http.StatusUnauthorized:
		c.recheck()
		c.transport.certificate.refused()
	case answer.StatusCode == http.StatusForbidden && c.replaced(ctx):
		return ErrReplaced
	}
	if answer.StatusCode == http.StatusForbidden && strings.Contains(said.ErrStatus.Message, " cannot ") && r.path != readyPath && c.starts(ctx) {
		return fail.New(fail.Unavailable, "the cluster's API server is starting, and forbids what it does not know the rights to: %s", clip(said.ErrStatus.Message))
	}
	return said
}

// readyPath is where an API server says whether it is ready: to anybody, who may what is not asked.
const readyPath = "/readyz"

// starts says whether an API server that forbids something says that it is not ready. It forbids everything to most until it has read who may what.
// What something in between says counts for nothing, and one that has been ready a moment ago is not asked again.
func (c *Cluster) starts(ctx context.Context) bool {
	if since := time.Since(time.Unix(0, c.ready.Load())); since >= 0 && since < policy.ReadyAgain {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, policy.Credentials)
	defer cancel()
	_, err := c.do(ctx, request{method: http.MethodGet, path: readyPath, accept: "*/*", most: limits.ClusterWord})
	if a := answerOf(err); a != nil && a.ErrStatus.Code == http.StatusInternalServerError {
		return true
	}
	c.ready.Store(time.Now().UnixNano())
	return false
}

// read gets a document of the API server.
func (c *Cluster) read(ctx context.Context, path string) ([]byte, error) {
	return c.do(ctx, request{method: http.MethodGet, path: path, accept: contentJSON})
}

// statusError makes an error of an answer that is not a success. What is not a Status of the API server
// (a proxy's page, say) becomes one with the cause UnexpectedServerResponse. Of such a body nothing is kept: whoever may
// register a cluster could read by it what is behind any address that the worker reaches.
func statusError(method string, answer *http.Response, body []byte) *apierrors.StatusError {
	var status metav1.Status
	e := &apierrors.StatusError{}
	if err := json.Unmarshal(body, &status); err == nil && status.Kind == "Status" {
		e.ErrStatus = status
	} else {
		e = apierrors.NewGenericServerResponse(answer.StatusCode, method, schema.GroupResource{}, "", "", 0, true)
		e.ErrStatus.Message = fmt.Sprintf("what is in its place answered %d %s, and not as an API server does", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	e.ErrStatus.Code = int32(answer.StatusCode) // #nosec G115 -- an HTTP status has three digits
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		if e.ErrStatus.Details == nil {
			e.ErrStatus.Details = &metav1.StatusDetails{}
		}
		e.ErrStatus.Details.RetryAfterSeconds = int32(min(seconds, maxRetryAfter)) // #nosec G115 -- bounded
	}
	return e
}

// escape makes a URL path of its segments.
func escape(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}
