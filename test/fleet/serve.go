package fleet

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// Verbs, as they are counted and as faults name them.
const (
	verbGet    = "get"
	verbList   = "list"
	verbWatch  = "watch"
	verbCreate = "create"
	verbUpdate = "update"
	verbPatch  = "patch"
	verbApply  = "apply"
	verbDelete = "delete"
	verbOther  = "other"
)

var verbs = []string{verbGet, verbList, verbWatch, verbCreate, verbUpdate, verbPatch, verbApply, verbDelete, verbOther}

// counts counts requests by verb.
type counts [9]atomic.Int64

func (c *counts) add(verb string) { c[slices.Index(verbs, verb)].Add(1) }

func (c *counts) addTo(sum map[string]int64) {
	for i, verb := range verbs {
		sum[verb] += c[i].Load()
	}
}

// contentApply is the type of an apply's body.
const contentApply = "application/apply-patch+yaml"

// target is what a request is about.
type target struct {
	cluster *cluster
	kind    *kind // nil when it is not about objects
	id
	status   bool
	approval bool // of a request for a certificate; status is true then, too
	verb     string
	path     string // below the cluster's
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// hangUp closes the request's connection.
func hangUp(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*tls.Conn); ok {
		c.NetConn().Close()
	}
	panic(http.ErrAbortHandler)
}

func (f *Fleet) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/clusters/{cluster}/", f.serve)
	f.control(mux)
	return mux
}

// serve answers in a cluster's place.
func (f *Fleet) serve(w http.ResponseWriter, r *http.Request) {
	c, ok := f.clusters[r.PathValue("cluster")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	t, served := locate(c, r)
	c.counts.add(t.verb)
	latency, fault, gone := c.faults.strike(t.verb, t.resource())
	if !wait(r.Context(), latency) {
		return
	}
	switch {
	case fault == nil:
	case fault.Refuse:
		hangUp(r)
	case fault.Cut:
		f.answer(&muted{header: http.Header{}}, r, t, served)
		hangUp(r)
	case fault.Status != 0:
		fault.answer(w, t)
		return
	case fault.Hang:
		select {
		case <-r.Context().Done():
			return
		case <-gone:
		}
	}
	f.answer(w, r, t, served)
}

// muted is a ResponseWriter that nobody hears.
type muted struct{ header http.Header }

// Header is not sent.
func (m *muted) Header() http.Header { return m.header }

// Write throws away.
func (m *muted) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader does nothing.
func (m *muted) WriteHeader(int) {}

// answer writes the fault's Status.
func (f *Fault) answer(w http.ResponseWriter, t target) {
	var group schema.GroupResource
	if t.kind != nil {
		group = t.kind.groupResource()
	}
	if f.Status == http.StatusForbidden {
		writeError(w, apierrors.NewForbidden(group, t.name, errors.New("a fault of the fleet forbids it")))
		return
	}
	e := apierrors.NewGenericServerResponse(f.Status, t.verb, group, t.name, "a fault of the fleet", f.RetryAfter, true)
	writeError(w, e)
}

// locate finds what the request is about; served is false when nothing is served at its path.
func locate(c *cluster, r *http.Request) (t target, served bool) {
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/clusters/"), "/")
	t = target{cluster: c, verb: verbOther, path: "/" + path}
	var segments []string
	for _, escaped := range strings.Split(strings.Trim(path, "/"), "/") {
		segment, err := url.PathUnescape(escaped)
		if err != nil {
			return t, false
		}
		segments = append(segments, segment)
	}
	var gv schema.GroupVersion
	var rest []string
	switch {
	case len(segments) > 2 && segments[0] == "api":
		gv, rest = schema.GroupVersion{Version: segments[1]}, segments[2:]
	case len(segments) > 3 && segments[0] == "apis":
		gv, rest = schema.GroupVersion{Group: segments[1], Version: segments[2]}, segments[3:]
	default:
		return t, true
	}
	served = t.find(gv, rest)
	if t.kind != nil {
		t.verb = verbOf(r, t.name != "")
	}
	return t, served
}

// find reads the segments after the group version.
func (t *target) find(gv schema.GroupVersion, rest []string) bool {
	const inNamespace, withSubresource = 3, 3
	if rest[0] == namespaceKind.resource && len(rest) >= inNamespace && rest[2] != "status" {
		t.namespace, rest = rest[1], rest[2:]
	}
	k := t.cluster.kind(gv.WithResource(rest[0]))
	if k == nil || !k.namespaced && t.namespace != "" {
		return false
	}
	t.kind, t.id.kind = k, k
	if len(rest) > 1 {
		t.name = rest[1]
	}
	if len(rest) >= withSubresource {
		t.approval = rest[2] == "approval" && k.Kind == "CertificateSigningRequest"
		t.status = t.approval || rest[2] == "status" && k.status
		return len(rest) == withSubresource && t.status
	}
	return t.name == "" || k.namespaced == (t.namespace != "")
}

func (t *target) resource() string {
	if t.kind == nil {
		return ""
	}
	return t.kind.resource
}

// verbOf is what the request does, to an object or, without a name, to all of a kind.
func verbOf(r *http.Request, named bool) string {
	switch {
	case r.Method == http.MethodGet && named:
		return verbGet
	case r.Method == http.MethodGet && isTrue(r.URL.Query(), "watch"):
		return verbWatch
	case r.Method == http.MethodGet:
		return verbList
	case r.Method == http.MethodPost && !named:
		return verbCreate
	case r.Method == http.MethodPut && named:
		return verbUpdate
	case r.Method == http.MethodPatch && named && strings.HasPrefix(r.Header.Get("Content-Type"), contentApply):
		return verbApply
	case r.Method == http.MethodPatch && named:
		return verbPatch
	case r.Method == http.MethodDelete && named:
		return verbDelete
	default:
		return verbOther
	}
}

func isTrue(query url.Values, name string) bool {
	is, err := strconv.ParseBool(query.Get(name))
	return err == nil && is
}

// answer answers a request that no fault struck.
func (f *Fleet) answer(w http.ResponseWriter, r *http.Request, t target, served bool) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	// Who has a certificate that was signed here may do everything: the fleet knows no rights.
	if subtle.ConstantTimeCompare([]byte(token), []byte(t.cluster.token.Load().(string))) == 0 && len(r.TLS.PeerCertificates) == 0 {
		writeError(w, apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	if t.kind == nil && served {
		t.cluster.discover(w, t.path)
		return
	}
	if user := r.Header.Get("Impersonate-User"); user != "" && t.kind != nil {
		writeError(w, apierrors.NewForbidden(t.kind.groupResource(), t.name, fmt.Errorf("%s %q cannot %s resource %q in API group %q in the namespace %q",
			"User", user, t.verb, t.kind.resource, t.kind.Group, t.namespace)))
		return
	}
	if !served {
		notServed(w)
		return
	}
	if err := f.handle(w, r, t); err != nil {
		writeError(w, err)
	}
}

func (f *Fleet) handle(w http.ResponseWriter, r *http.Request, t target) error {
	if r.URL.Query().Has("dryRun") {
		return apierrors.NewBadRequest("the fleet has no dry run")
	}
	switch t.verb {
	case verbGet:
		return t.get(w, r)
	case verbList:
		return t.list(w, r)
	case verbWatch:
		return t.watch(w, r, f.config.Bookmark)
	case verbCreate:
		return t.create(w, r)
	case verbUpdate:
		return t.update(w, r, f.signer)
	case verbApply:
		return t.apply(w, r)
	case verbPatch:
		return t.merge(w, r)
	case verbDelete:
		return t.delete(w, r)
	default:
		return apierrors.NewMethodNotSupported(t.kind.groupResource(), strings.ToLower(r.Method))
	}
}

// itsVersion is what the fleet says of its version.
var itsVersion = version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.0-fleet", Platform: "linux/amd64"}

// discover answers what is not about objects.
func (c *cluster) discover(w http.ResponseWriter, path string) {
	switch path = strings.TrimSuffix(path, "/"); path {
	case "/version":
		writeJSON(w, http.StatusOK, itsVersion)
	case "/healthz", "/livez", "/readyz":
		_, _ = io.WriteString(w, "ok") // a client that is gone has no use for it
	case "/api":
		writeJSON(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case "/apis":
		writeJSON(w, http.StatusOK, groupList(c.kinds()))
	default:
		c.discoverGroup(w, path)
	}
}

func (c *cluster) discoverGroup(w http.ResponseWriter, path string) {
	name, grouped := strings.CutPrefix(path, "/apis/")
	if !grouped {
		name = strings.TrimPrefix(path, "/api/")
	}
	gv, err := schema.ParseGroupVersion(name)
	if err != nil {
		notServed(w)
		return
	}
	if list := resourceList(c.kinds(), gv); list != nil && grouped == (gv.Group != "") {
		writeJSON(w, http.StatusOK, list)
		return
	}
	for _, group := range groupList(c.kinds()).Groups {
		if grouped && group.Name == name {
			group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			writeJSON(w, http.StatusOK, group)
			return
		}
	}
	notServed(w)
}

// notServed answers as API servers do where nothing is served.
func notServed(w http.ResponseWriter) { http.Error(w, "404 page not found", http.StatusNotFound) }

// writeError writes err as a Status: its own, else that of an internal error without a reason, as API servers
// do with errors that are not theirs.
func writeError(w http.ResponseWriter, err error) {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status = known.Status()
	}
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	writeJSON(w, int(status.Code), status)
}

func writeJSON(w http.ResponseWriter, code int, document any) {
	body, err := json.Marshal(document)
	if err != nil {
		panic(err) // documents are made here
	}
	writeBody(w, code, body)
}

func writeBody(w http.ResponseWriter, code int, body []byte) {
	maps.Copy(w.Header(), http.Header{"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(body))}})
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that is gone has no use for it
}
