package kube

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

const (
	// maxMessage bounds what is kept of a server's message, in bytes.
	maxMessage = 1024
	// maxRetryAfter bounds how long a server can make its work wait, in seconds.
	maxRetryAfter = 300
)

// LacksKind says of an error that it came of a kind that the cluster does not have.
func LacksKind(err error) bool { return meta.IsNoMatchError(err) }

// kindOf turns what a cluster, or the way to it, said into the product's errors. Retryable is what may pass
// by itself: no connection, no answer in time, 429, 5xx, a conflict of versions, a namespace or a CRD that is being
// terminated, admission that is not ready yet, and credentials that are refused (they can be replaced). The rest is about the resource, and
// is for its user to mend. The end of a context and errors of the product's pass through.
func kindOf(err error) error {
	var known *fail.Error
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	var connecting *net.OpError
	if errors.As(err, &connecting) && fail.Is(err, fail.Forbidden) { // package address; a name may lead elsewhere later
		return fail.Wrap(err, fail.Unavailable, "the cluster is not connected to: %s", fail.TextOf(err))
	}
	if errors.As(err, &known) {
		return err
	}
	var status *apierrors.StatusError
	var network net.Error
	switch {
	case errors.As(err, &status):
		return kindOfStatus(err, status)
	case meta.IsNoMatchError(err):
		return fail.Wrap(err, fail.NotFound, "%s", clip(err.Error()))
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fail.Wrap(err, fail.Timeout, "the cluster does not answer in time")
	case isGarbage(err):
		return notAnAPIServer(err)
	default:
		return fail.Wrap(err, fail.Unavailable, "the cluster cannot be reached: %s", clip(passing.ReplaceAllString(withoutURL(err).Error(), "")))
	}
}

// passing is what the same failure says differently each time, as of a webhook that an API server cannot reach: the local address of a connection, with its port,
// and numbers of streams. Who is told of
// a failure only when it is another one would be told of each attempt.
var passing = regexp.MustCompile(`\S+:\d+->|LastStreamID=\d+, |stream ID \d+; `)

// garbage is what net/http says of an answer that it cannot read, with a piece of it in quotes.
var garbage = regexp.MustCompile(`malformed |bad Content-Length|Location header|unsupported transfer encoding|invalid header`)

// isGarbage says whether err is about an answer that is no HTTP, or no JSON, and repeats some of it: what that is says
// somebody who is no API server.
func isGarbage(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax) || garbage.MatchString(err.Error())
}

func kindOfStatus(err error, answer *apierrors.StatusError) error {
	s := answer.ErrStatus
	kind, message := statusKind(answer), s.Message
	switch {
	case s.Code == http.StatusUnauthorized && kind.Retryable():
		message = "the cluster does not accept the credentials: " + message
	case message == "":
		message = "the cluster answered " + http.StatusText(int(s.Code))
	case s.Code == http.StatusInternalServerError && advice(answer) != "":
		message = advice(answer) + ": " + message
	}
	e := fail.Wrap(err, kind, "%s", clip(passing.ReplaceAllString(message, "")))
	if s.Details != nil && kind.Retryable() {
		e.RetryAfter = time.Duration(min(s.Details.RetryAfterSeconds, maxRetryAfter)) * time.Second
	}
	return e
}

// statusKind is the kind of an answer.
func statusKind(err *apierrors.StatusError) fail.Kind {
	switch code := err.ErrStatus.Code; {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), isEarly(err):
		return fail.Unavailable
	case isDenied(err) && (code == http.StatusUnauthorized || code == http.StatusNotFound || code == http.StatusConflict || code == http.StatusGone):
		return fail.Conflict
	case code == http.StatusUnauthorized:
		return fail.Unavailable
	case (code == http.StatusForbidden || code == http.StatusGone) && isForeign(err): // a page of something in between
		return fail.Unavailable
	case code == http.StatusForbidden:
		return fail.Forbidden
	case code == http.StatusNotFound, code == http.StatusGone:
		return fail.NotFound
	case code == http.StatusConflict:
		if isStale(err) {
			return fail.Unavailable
		}
		return fail.Conflict
	case code == http.StatusRequestTimeout, code == http.StatusGatewayTimeout:
		return fail.Timeout
	case code == http.StatusTooManyRequests:
		return fail.Unavailable
	case code >= http.StatusInternalServerError:
		if isSchemaError(err) || isTooLarge(err) || advice(err) != "" && !isStoredInGone(err) { // of that one an apply alone is refused: see unread
			return fail.Invalid
		}
		return fail.Unavailable
	case code >= http.StatusBadRequest:
		return fail.Invalid
	default: // a redirect: not an API server's answer
		return fail.Unavailable
	}
}

// isEarly recognizes the admission that has nothing against the object: while an API server starts it knows too little to say so, while a CRD is
// being deleted it lets in no more objects of its, and a Pod has to wait until a controller, which may be away for a while, has given its new namespace the
// default ServiceAccount. All answer 403 without a cause, in words that have not changed for years (apiserver, admission/plugin; apiextensions-apiserver,
// crdHandler; kubernetes, plugin/pkg/admission/serviceaccount).
func isEarly(err *apierrors.StatusError) bool {
	s := err.ErrStatus
	return s.Code == http.StatusForbidden && (strings.HasSuffix(s.Message, ": not yet ready to handle request") ||
		strings.HasSuffix(s.Message, ": create not allowed while custom resource definition is terminating") ||
		strings.Contains(s.Message, ": error looking up service account ") && strings.HasSuffix(s.Message, `/default: serviceaccount "default" not found`))
}

// isDenied says whether the answer is a webhook's word, who may say it with any code, as that of an error which it has had itself: 404 is no missing object
// then, 409 no conflict of versions, and 401 says nothing of credentials (apiserver, admission/plugin/webhook/errors/statuserror.go). What passes by itself is
// none: a webhook that fails, is busy, or was overtaken in a write of its own.
func isDenied(a *apierrors.StatusError) bool {
	if a == nil || a.ErrStatus.Code >= http.StatusInternalServerError || a.ErrStatus.Code == http.StatusTooManyRequests {
		return false
	}
	m := a.ErrStatus.Message
	return strings.HasPrefix(m, "admission webhook ") && strings.Contains(m, " denied the request") && !strings.Contains(m, "; please apply your changes to the latest version")
}

// isStale says whether a conflict is with another write at the same time, rather than about the fields of
// another manager or a name that is taken.
func isStale(err *apierrors.StatusError) bool {
	return err.ErrStatus.Reason != metav1.StatusReasonAlreadyExists &&
		!apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// isSchemaError recognizes the manifest that does not fit its kind's schema: an unknown field, a wrong type,
// an entry that is there twice. API servers answer that with 500 and no reason (they do so up to v1.36;
// apimachinery, managedfields/internal/structuredmerge.go), and trying again would never help.
func isSchemaError(err *apierrors.StatusError) bool {
	return err.ErrStatus.Reason == metav1.StatusReasonUnknown &&
		strings.HasPrefix(err.ErrStatus.Message, "failed to create typed patch object")
}

// isTwice recognizes the refusal of entries that are there twice in a list that server-side apply knows by keys: variables, ports, imagePullSecrets
// (structured-merge-diff, typed/validate.go). A create takes most of them, and so charts have them.
func isTwice(err error) bool {
	a := answerOf(err)
	return a != nil && isSchemaError(a) && strings.Contains(a.ErrStatus.Message, ": duplicate entries for key ")
}

// isOutgrown recognizes the object in the cluster, not the manifest, that does not fit its kind's schema: its CRD has another one since it was
// written. Server-side apply reads it as well, and fails with 500 and no reason (as in isSchemaError).
func isOutgrown(err *apierrors.StatusError) bool {
	m := err.ErrStatus.Message
	return err.ErrStatus.Reason == metav1.StatusReasonUnknown && (strings.HasPrefix(m, "failed to create typed live object") ||
		strings.HasPrefix(m, "failed to create manager for existing fields: ") && strings.Contains(m, " to smd typed: ")) // of one without any managedFields
}

// namesGone recognizes the object whose managedFields name a version that its CRD has no more. Server-side apply converts the
// object to each version that is named there, and fails with 500 and no reason where one is gone (apiextensions-apiserver,
// conversion/converter.go); built-in kinds forget such fields.
func namesGone(err *apierrors.StatusError) bool {
	return strings.Contains(err.ErrStatus.Message, "request to convert CR to an invalid group/version: ")
}

// isStoredInGone recognizes the object that is stored in a version which its CRD has no more, as somebody has taken that out of status.storedVersions. API
// servers fail with 500 whatever is asked of it (see namesGone), and of a list that has it. So does one, for a moment, that has not heard of a new version.
func isStoredInGone(err error) bool {
	a := answerOf(err)
	return a != nil && a.ErrStatus.Code == http.StatusInternalServerError &&
		strings.Contains(a.ErrStatus.Message, "request to convert CR from an invalid group/version: ")
}

// isTakenPort recognizes the health check's port of a Service that another Service has, or that nobody can have: API servers answer 500, where they answer
// 422 of any other port (kubernetes, registry/core/service/storage/alloc.go).
func isTakenPort(err *apierrors.StatusError) bool {
	m := err.ErrStatus.Message
	return strings.Contains(m, "failed to allocate requested HealthCheck NodePort ") &&
		(strings.HasSuffix(m, ": provided port is already allocated") || strings.Contains(m, ": provided port is not in the valid range"))
}

// advice is what to do about an answer of 500 that no time alone changes and whose words do not say it, "" for any other.
func advice(err *apierrors.StatusError) string {
	switch {
	case namesGone(err):
		return "the object's managedFields in the cluster name a version that its CRD has no more; set them to [{}] by hand"
	case isOutgrown(err):
		return "the object in the cluster does not fit the schema of its kind any more; mend it by hand, or delete it and update with reapply"
	case isStoredInGone(err):
		return "the cluster has stored the object in a version that its CRD has no more; give the CRD that version back, with served: false, until the object is written anew"
	case isTakenPort(err):
		return "choose another spec.healthCheckNodePort, or none, so that the cluster does"
	default:
		return ""
	}
}

// isTooLarge recognizes the object that does not fit the cluster's database: an API server answers what etcd says of it, with 500
// (kubernetes#112152), and trying again would never help.
func isTooLarge(err *apierrors.StatusError) bool {
	return strings.Contains(err.ErrStatus.Message, "etcdserver: request is too large") ||
		strings.Contains(err.ErrStatus.Message, "trying to send message larger than max")
}

// answerOf is the API server's own answer, or that of something before it; nil when there was none, and
// when it was judged already.
func answerOf(err error) *apierrors.StatusError {
	var known *fail.Error
	var status *apierrors.StatusError
	if errors.As(err, &known) || !errors.As(err, &status) {
		return nil
	}
	return status
}

// isAbsent says whether the answer is that there is no such object, of a kind that the cluster has.
func isAbsent(err error) bool {
	a := answerOf(err)
	return a != nil && !isUnserved(err) && !isForeign(err) && !isDenied(a) &&
		(a.ErrStatus.Code == http.StatusNotFound || a.ErrStatus.Code == http.StatusGone)
}

// isUnserved says whether the answer is that nothing is served at the path: API servers name the object
// when it is the object that is missing.
func isUnserved(err error) bool {
	a := answerOf(err)
	return a != nil && a.ErrStatus.Code == http.StatusNotFound && !isDenied(a) &&
		(a.ErrStatus.Details == nil || a.ErrStatus.Details.Name == "")
}

// isForeign says whether the answer is no Status of an API server: a proxy's page, or what API servers themselves say of a path at
// which they serve nothing.
func isForeign(err error) bool {
	a := answerOf(err)
	return a != nil && apierrors.HasStatusCause(a, metav1.CauseTypeUnexpectedServerResponse)
}

// missingNamespace finds the namespace whose absence is the reason of the answer, "" when it is another.
func missingNamespace(err error) string {
	if !isAbsent(err) {
		return ""
	}
	if d := answerOf(err).ErrStatus.Details; d != nil && d.Kind == "namespaces" {
		return d.Name
	}
	return ""
}

// isSlow says whether the request was under way when its deadline passed: the resource, or a webhook for
// it, may be the reason, or the cluster.
func isSlow(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && !isDial(err)
}

// isNoWay says whether err is that there is no way to the cluster.
func isNoWay(err error) bool {
	var known *fail.Error
	return err != nil && !errors.As(err, &known) && answerOf(err) == nil && !isSlow(err)
}

// isOfCluster says whether err is about the cluster as a whole, so that to go on with other resources is
// of no use now: no way to it, credentials refused, or the wish to be left alone for a while.
func isOfCluster(err error) bool {
	if errors.Is(err, ErrReplaced) {
		return true
	}
	if a := answerOf(err); a != nil {
		s := a.ErrStatus
		return s.Code == http.StatusUnauthorized && !isDenied(a) || s.Code == http.StatusTooManyRequests ||
			s.Details != nil && s.Details.RetryAfterSeconds > 0
	}
	return isNoWay(err)
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// withoutURL is the error without method and URL, which Go puts before it.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// clip abridges a message to maxMessage. Of one that says what rights are missing those are kept, rather than the groups of who lacks them.
func clip(m string) string {
	m = strings.TrimSpace(m)
	if len(m) <= maxMessage {
		return m
	}
	const tail = 256
	if at := strings.Index(m, domain.BeyondHeld); at > 0 {
		who, _, _ := strings.Cut(m[:at], " (groups=")
		m = strings.ToValidUTF8(who[:min(len(who), tail)], "") + "…" + m[at:]
	}
	return domain.Abridged(m, maxMessage, tail)
}
