// Package client speaks Drover's REST API in the types of the product: API has every operation, Deployment says all that a
// deployment intent group needs. It is what the demo and the end-to-end tests use, so that they see what any REST client sees.
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/policy"
)

// Client is the connections to one API.
type Client struct {
	base  string                                        // http://host:port/v2
	token func(context.Context) (string, error)         // "" for none
	renew func(context.Context, string) (string, error) // nil where a token that is refused stays so
	agent string                                        // how it is called in logs, "" for as Go calls it
	told  func(error)                                   // that something is asked for again, nil where nothing is
	http  *http.Client
}

// Option is more than where the API is.
type Option func(*Client)

// WithToken has the client show a bearer token, "" for none.
func WithToken(text string) Option {
	return WithTokens(func(context.Context) (string, error) { return text, nil })
}

// WithTokens has the client ask for the token that a request shows, since one that expires is replaced meanwhile.
func WithTokens(of func(context.Context) (string, error)) Option {
	return func(c *Client) { c.token = of }
}

// WithRenewal has the client ask another time for the token where the API refuses the one that it has shown, and send the request once more: by the
// API's clock it may have expired, or its issuer has other keys. Where there is no other one, the refusal stands.
func WithRenewal(another func(ctx context.Context, refused string) (string, error)) Option {
	return func(c *Client) { c.renew = another }
}

// WithAgent has the client say what it is (User-Agent).
func WithAgent(name string) Option { return func(c *Client) { c.agent = name } }

// WithPatience has the client ask again, when the API says, for what it has refused for now: where that says that nothing was done, and of what only
// reads. told is told of each refusal before it is waited; it may be called by several at once.
func WithPatience(told func(refusal error)) Option { return func(c *Client) { c.told = told } }

// WithTransport has the client make its connections so: with which certificates, and over which proxy.
func WithTransport(t *http.Transport) Option { return func(c *Client) { c.http.Transport = t } }

// New makes a client of the API at base, such as "http://127.0.0.1:9015/v2".
func New(base string, options ...Option) *Client {
	c := &Client{base: base, token: func(context.Context) (string, error) { return "", nil }, http: &http.Client{
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     30 * time.Second,
		},
		// The API redirects nothing. What follows would carry the token, or a kubeconfig, to where nobody has meant it to go.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, set := range options {
		set(c)
	}
	return c
}

// request makes a request with what every request of the client has.
func (c *Client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	token, err := c.token(ctx)
	if err != nil {
		return nil, err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if c.agent != "" {
		r.Header.Set("User-Agent", c.agent)
	}
	return r, nil
}

// send sends a request, and once more where there is another token in place of one that is refused: then nothing was done.
func (c *Client) send(r *http.Request) (*http.Response, error) {
	res, err := c.http.Do(r)
	shown := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if err != nil || res.StatusCode != http.StatusUnauthorized || c.renew == nil || shown == "" {
		return res, err
	}
	token, err := c.renew(r.Context(), shown)
	if err != nil || token == shown {
		return res, nil //nolint:nilerr // the answer says what is wrong with the token
	}
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return res, nil //nolint:nilerr // it is there, in memory
		}
	}
	_ = res.Body.Close()
	again.Header.Set("Authorization", "Bearer "+token)
	return c.http.Do(again)
}

// Offers say how one may log in. Nobody needs to be known for that.
func (c *Client) Offers(ctx context.Context) (*authn.Offers, error) {
	beside := &Client{base: strings.TrimSuffix(c.base, "/v2"), agent: c.agent, told: c.told, http: c.http, token: func(context.Context) (string, error) { return "", nil }}
	o := &authn.Offers{}
	return o, beside.API().read(ctx, "/login/providers", nil, o)
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// answer is a 2xx answer.
type answer struct {
	header http.Header
	body   []byte
}

// warnings are what the answer warns of.
func (a *answer) warnings() (texts []string) {
	for _, w := range a.header.Values("Warning") {
		quoted := strings.TrimPrefix(w, "299 - ")
		if text, err := strconv.Unquote(quoted); err == nil {
			quoted = text
		}
		texts = append(texts, quoted)
	}
	return texts
}

// do sends body (nil for none) as it is, and again where the client is patient.
func (c *Client) do(ctx context.Context, method, path, accept, contentType string, body []byte) (a *answer, err error) {
	err = c.patiently(ctx, method, func() error {
		a, err = c.once(ctx, method, path, accept, contentType, body)
		return err
	})
	return a, err
}

// patiently asks for something, and again as long as it is refused for now.
func (c *Client) patiently(ctx context.Context, method string, ask func() error) error {
	until := time.Now().Add(policy.Patience)
	if end, ok := ctx.Deadline(); ok && end.Before(until) {
		until = end
	}
	for n := 0; ; n++ {
		err := ask()
		after := laterOf(method, err)
		if c.told == nil || after == 0 || n == policy.MostAgain || time.Now().Add(after).After(until) {
			return err
		}
		c.told(err)
		if err := pause.For(ctx, after); err != nil {
			return err
		}
	}
}

// laterOf is when something may be asked for again after an error, 0 for never. Of 429 nothing was done. 503 is also the answer where an operation may have
// begun, so that it is asked again for what only reads, and for what changes something where the API says that nothing was done.
func laterOf(method string, err error) time.Duration {
	var answered *Error
	var foreign *Unanswered
	code := 0
	switch {
	case errors.As(err, &answered):
		code = answered.Code
	case errors.As(err, &foreign):
		code = foreign.code
	}
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable && (method == http.MethodGet || fail.IsUndone(err)) {
		return fail.RetryAfterOf(err)
	}
	return 0
}

// once sends a request. It may take as long as it takes while something goes or comes; while nothing does, as long as the server may take for an answer,
// or an upload, at the most.
func (c *Client) once(ctx context.Context, method, path, accept, contentType string, body []byte) (*answer, error) {
	limit := policy.Client
	if strings.HasPrefix(contentType, "multipart/") {
		limit = policy.Upload
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	quiet := silentAfter(limit, func() { end(context.DeadlineExceeded) })
	defer quiet.Stop()
	late := func(err error) error { // else it is that of a caller who has cancelled
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			err = fmt.Errorf("%s %s: %w", method, path, context.DeadlineExceeded)
		}
		return err
	}
	var sent io.Reader
	if body != nil {
		sent = bytes.NewReader(body)
	}
	req, err := c.request(ctx, method, path, sent)
	if err != nil {
		return nil, err
	}
	quiet.hear(req)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	res, err := c.send(req)
	if err != nil {
		return nil, late(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(noted{res.Body, quiet})
	if err != nil {
		return nil, fmt.Errorf("read answer of %s %s: %w", method, path, late(err))
	}
	if res.StatusCode/100 != 2 {
		return nil, refused(res, data, method, path)
	}
	if kind := res.Header.Get("Content-Type"); strings.HasPrefix(kind, "text/html") {
		return nil, notOurs(res, data, method, path)
	}
	return &answer{header: res.Header, body: data}, nil
}

// quiet is a timer for how long nothing goes or comes.
type quiet struct {
	*time.Timer
	limit time.Duration
}

// silentAfter has end called when nothing has come for so long.
func silentAfter(limit time.Duration, end func()) *quiet {
	return &quiet{time.AfterFunc(limit, end), limit}
}

// hear notes what is sent of a request's body.
func (q *quiet) hear(r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	again := r.GetBody
	r.Body = noted{r.Body, q}
	r.GetBody = func() (io.ReadCloser, error) {
		body, err := again()
		return noted{body, q}, err
	}
}

// noted is a body of which each part that is read sets the timer anew.
type noted struct {
	io.ReadCloser
	quiet *quiet
}

func (n noted) Read(p []byte) (int, error) {
	read, err := n.ReadCloser.Read(p)
	if read > 0 {
		n.quiet.Reset(n.quiet.limit)
	}
	return read, err
}
