package fleet

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/fail"
)

// Ready is where a fleet is. A fleet of its own process writes it to its output, as a line of JSON.
type Ready struct {
	URL      string `json:"url"`
	CA       []byte `json:"ca"` // PEM
	Clusters int    `json:"clusters"`
}

// control serves what Fleet's methods do, for other processes. Who reaches it may use it.
func (f *Fleet) control(mux *http.ServeMux) {
	handle := func(pattern string, do func(r *http.Request, cluster string) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			answer, err := do(r, r.PathValue("cluster"))
			if err == nil {
				writeJSON(w, http.StatusOK, answer)
				return
			}
			code := http.StatusBadRequest
			if fail.Is(err, fail.NotFound) {
				code = http.StatusNotFound
			}
			http.Error(w, err.Error(), code)
		})
	}
	handle("GET /control/objects/{cluster}", func(r *http.Request, cluster string) (any, error) {
		return f.Objects(cluster, r.URL.Query().Get("labelSelector"))
	})
	handle("GET /control/held/{cluster}", func(r *http.Request, cluster string) (any, error) {
		return f.Held(cluster, r.URL.Query().Get("labelSelector"))
	})
	handle("GET /control/requests/{cluster}", func(_ *http.Request, cluster string) (any, error) {
		return f.Requests(cluster)
	})
	handle("POST /control/revoke/{cluster}", func(_ *http.Request, cluster string) (any, error) {
		return f.Revoke(cluster)
	})
	handle("GET /control/faults/{cluster}", func(_ *http.Request, cluster string) (any, error) {
		clusters, err := f.named(cluster)
		if err != nil {
			return nil, err
		}
		return clusters[0].faults.list(), nil
	})
	handle("PUT /control/faults/{cluster}", func(r *http.Request, cluster string) (any, error) {
		faults := []Fault{}
		decoder := json.NewDecoder(io.LimitReader(r.Body, maxBody))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&faults); err != nil {
			return nil, fail.Wrap(err, fail.Malformed, "the faults are not a list in JSON: %s", err)
		}
		return faults, f.Inject(cluster, faults...)
	})
	handle("DELETE /control/faults/{cluster}", func(_ *http.Request, cluster string) (any, error) {
		return []Fault{}, f.Inject(cluster)
	})
}

// controlTime bounds a request of a Remote.
const controlTime = 10 * time.Second

// Remote does what Fleet's methods of the same names do, from another process.
type Remote struct {
	url    string
	client *http.Client
}

// NewRemote makes the client of a fleet, which Close ends.
func NewRemote(r Ready) (*Remote, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(r.CA) {
		return nil, errors.New("the fleet's certificate cannot be read")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	return &Remote{url: r.URL + "/control/", client: &http.Client{Transport: transport, Timeout: controlTime}}, nil
}

// Close ends the client's connection.
func (r *Remote) Close() { r.client.CloseIdleConnections() }

// Objects counts objects.
func (r *Remote) Objects(ctx context.Context, cluster, selector string) (n int, err error) {
	err = r.do(ctx, http.MethodGet, "objects/"+cluster+"?labelSelector="+url.QueryEscape(selector), nil, &n)
	return n, err
}

// Held lists objects.
func (r *Remote) Held(ctx context.Context, cluster, selector string) (list []Held, err error) {
	err = r.do(ctx, http.MethodGet, "held/"+cluster+"?labelSelector="+url.QueryEscape(selector), nil, &list)
	return list, err
}

// Requests counts requests by verb.
func (r *Remote) Requests(ctx context.Context, cluster string) (counts map[string]int64, err error) {
	err = r.do(ctx, http.MethodGet, "requests/"+cluster, nil, &counts)
	return counts, err
}

// Revoke ends the credential of a cluster, and gives the kubeconfig with the next one.
func (r *Remote) Revoke(ctx context.Context, cluster string) (kubeconfig []byte, err error) {
	err = r.do(ctx, http.MethodPost, "revoke/"+cluster, nil, &kubeconfig)
	return kubeconfig, err
}

// Inject puts faults into a cluster, or All, in place of those that are there.
func (r *Remote) Inject(ctx context.Context, cluster string, faults ...Fault) error {
	return r.do(ctx, http.MethodPut, "faults/"+cluster, append([]Fault{}, faults...), nil)
}

func (r *Remote) do(ctx context.Context, method, path string, send, into any) error {
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(send); err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, r.url+path, &body)
	if err != nil {
		return err
	}
	answer, err := r.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, maxBody))
	switch {
	case err != nil:
		return err
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("the fleet answered %s: %s", answer.Status, strings.TrimSpace(string(said)))
	case into == nil:
		return nil
	default:
		return json.Unmarshal(said, into)
	}
}
