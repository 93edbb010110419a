package kube_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
)

func TestKindOf(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	pod := schema.GroupKind{Kind: "Pod"}
	terminating := apierrors.NewForbidden(pods, "a", errors.New("unable to create new content in namespace n because it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	noReason := func(message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: message}}
	}
	healthCheck := func(why string) error {
		return apierrors.NewInternalError(errors.New("failed to allocate requested HealthCheck NodePort 30081: " + why))
	}
	foreign := func(code int) error {
		return apierrors.NewGenericServerResponse(code, "PATCH", schema.GroupResource{}, "", "a page", 0, true)
	}
	denied := func(code int32, why string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: code, Message: `admission webhook "w" denied the request: ` + why, Details: &metav1.StatusDetails{Name: "parent"},
		}}
	}
	through := func(err error) error { return &url.Error{Op: "Patch", URL: "https://c/api/v1", Err: err} }
	dial := func(err error) error { return through(&net.OpError{Op: "dial", Net: "tcp", Err: err}) }
	cases := map[string]struct {
		err   error
		want  fail.Kind
		after time.Duration
	}{
		"bad request":                    {err: apierrors.NewBadRequest("no"), want: fail.Invalid},
		"invalid":                        {err: apierrors.NewInvalid(pod, "a", field.ErrorList{field.Required(field.NewPath("spec"), "")}), want: fail.Invalid},
		"method not supported":           {err: apierrors.NewMethodNotSupported(pods, "patch"), want: fail.Invalid},
		"too large":                      {err: apierrors.NewRequestEntityTooLargeError("no"), want: fail.Invalid},
		"unsupported media type":         {err: foreign(http.StatusUnsupportedMediaType), want: fail.Invalid},
		"does not fit the schema":        {err: noReason("failed to create typed patch object (n/a; /v1, Kind=Pod): .x: field not declared in schema"), want: fail.Invalid},
		"live of nobody does not fit":    {err: noReason("failed to create manager for existing fields: failed to convert new object (n/a; example.com/v1, Kind=Widget) to smd typed: .spec.parts: expected string, got &{a}"), want: fail.Invalid},
		"live of nobody is not read":     {err: noReason("failed to create manager for existing fields: failed to convert new object (n/a; example.com/v1, Kind=Widget) to proper version (example.com/v1): x"), want: fail.Unavailable},
		"live does not fit the schema":   {err: noReason("failed to create typed live object (n/a; example.com/v1, Kind=Widget): .spec.parts: expected list, got &{a}"), want: fail.Invalid},
		"a version that is gone":         {err: noReason("request to convert CR to an invalid group/version: example.com/v1beta1"), want: fail.Invalid},
		"a version that is not there":    {err: noReason("request to convert CR from an invalid group/version: example.com/v1beta1"), want: fail.Unavailable},
		"health check's port is taken":   {err: healthCheck("provided port is already allocated"), want: fail.Invalid},
		"health check's port is none":    {err: healthCheck("provided port is not in the valid range. The range of valid ports is 30000-32767"), want: fail.Invalid},
		"health check's port in etcd":    {err: healthCheck("etcdserver: request timed out"), want: fail.Unavailable},
		"does not fit etcd":              {err: apierrors.NewInternalError(errors.New("etcdserver: request is too large")), want: fail.Invalid},
		"does not fit a message":         {err: noReason("rpc error: code = ResourceExhausted desc = trying to send message larger than max (3000000 vs. 2097152)"), want: fail.Invalid},
		"credentials not accepted":       {err: apierrors.NewUnauthorized("no"), want: fail.Unavailable},
		"forbidden":                      {err: apierrors.NewForbidden(pods, "a", errors.New("no")), want: fail.Forbidden},
		"namespace is being terminated":  {err: terminating, want: fail.Unavailable},
		"CRD is being terminated":        {err: apierrors.NewForbidden(pods, "a", errors.New("create not allowed while custom resource definition is terminating")), want: fail.Unavailable},
		"admission is not ready":         {err: apierrors.NewForbidden(pods, "", errors.New("not yet ready to handle request")), want: fail.Unavailable},
		"namespace has no account yet":   {err: apierrors.NewForbidden(pods, "a", errors.New(`error looking up service account n/default: serviceaccount "default" not found`)), want: fail.Unavailable},
		"account of the user's own":      {err: apierrors.NewForbidden(pods, "a", errors.New(`error looking up service account n/mine: serviceaccount "mine" not found`)), want: fail.Forbidden},
		"a policy that says nearly so":   {err: apierrors.NewForbidden(pods, "a", errors.New("not yet ready to handle request of yours")), want: fail.Forbidden},
		"not found":                      {err: apierrors.NewNotFound(pods, "a"), want: fail.NotFound},
		"gone":                           {err: apierrors.NewResourceExpired("no"), want: fail.NotFound},
		"no match":                       {err: &meta.NoKindMatchError{GroupKind: pod, SearchedVersions: []string{"v9"}}, want: fail.NotFound},
		"conflict of versions":           {err: apierrors.NewConflict(pods, "a", errors.New("the object has been modified")), want: fail.Unavailable},
		"conflict of managers":           {err: apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict}}, "no"), want: fail.Conflict},
		"already exists":                 {err: apierrors.NewAlreadyExists(pods, "a"), want: fail.Conflict},
		"request timeout":                {err: foreign(http.StatusRequestTimeout), want: fail.Timeout},
		"timeout":                        {err: apierrors.NewTimeoutError("no", 3), want: fail.Timeout, after: 3 * time.Second},
		"too many requests":              {err: apierrors.NewTooManyRequests("no", 5), want: fail.Unavailable, after: 5 * time.Second},
		"too many requests for a day":    {err: apierrors.NewTooManyRequests("no", 86400), want: fail.Unavailable, after: 5 * time.Minute},
		"internal error of a webhook":    {err: apierrors.NewInternalError(errors.New("failed calling webhook")), want: fail.Unavailable},
		"unclassified error of etcd":     {err: noReason("etcdserver: request timed out"), want: fail.Unavailable},
		"server timeout":                 {err: apierrors.NewServerTimeout(pods, "patch", 2), want: fail.Unavailable, after: 2 * time.Second},
		"service unavailable":            {err: apierrors.NewServiceUnavailable("no"), want: fail.Unavailable},
		"a gateway's bad gateway":        {err: foreign(http.StatusBadGateway), want: fail.Unavailable},
		"a gateway's timeout":            {err: foreign(http.StatusGatewayTimeout), want: fail.Timeout},
		"redirect":                       {err: foreign(http.StatusFound), want: fail.Unavailable},
		"a proxy that lets nobody in":    {err: foreign(http.StatusForbidden), want: fail.Unavailable},
		"a webhook's 401":                {err: denied(401, "no"), want: fail.Conflict},
		"a webhook's 404":                {err: denied(404, "no parent"), want: fail.Conflict},
		"a webhook's 409":                {err: denied(409, "it is there"), want: fail.Conflict},
		"a webhook's 422":                {err: denied(422, "no"), want: fail.Invalid},
		"a webhook's 500":                {err: denied(500, "no database"), want: fail.Unavailable},
		"a webhook that was overtaken":   {err: denied(409, "the object has been modified; please apply your changes to the latest version and try again"), want: fail.Unavailable},
		"wrapped":                        {err: fmt.Errorf("apply: %w", apierrors.NewBadRequest("no")), want: fail.Invalid},
		"connection refused":             {err: dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), want: fail.Unavailable},
		"no route":                       {err: dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), want: fail.Unavailable},
		"no such host":                   {err: dial(&net.DNSError{Err: "no such host", Name: "c", IsNotFound: true}), want: fail.Unavailable},
		"no connection in time":          {err: dial(os.ErrDeadlineExceeded), want: fail.Timeout},
		"connection reset":               {err: through(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), want: fail.Unavailable},
		"end of connection":              {err: through(io.EOF), want: fail.Unavailable},
		"end of connection in an answer": {err: io.ErrUnexpectedEOF, want: fail.Unavailable},
		"unknown authority":              {err: through(x509.UnknownAuthorityError{}), want: fail.Unavailable},
		"deadline":                       {err: through(context.DeadlineExceeded), want: fail.Timeout},
		"judged already":                 {err: fmt.Errorf("apply: %w", fail.New(fail.Precondition, "no")), want: fail.Precondition},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := kube.KindOf(tc.err)
			require.Equal(t, tc.want, fail.KindOf(err))
			require.Equal(t, tc.after, fail.RetryAfterOf(err))
			require.NotEmpty(t, fail.TextOf(err))
			require.NotContains(t, fail.TextOf(err), "https://", "a user does not read URLs")
			require.ErrorIs(t, err, tc.err, "logs have the cause")
		})
	}
	t.Run("the same failure is told alike", func(t *testing.T) {
		t.Parallel()
		from := func(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: port} }
		for want, fails := range map[string]func(n int) error{
			"read tcp 10.1.1.1:6443: read: connection reset by peer": func(n int) error {
				to := &net.TCPAddr{IP: net.IPv4(10, 1, 1, 1), Port: 6443}
				return &net.OpError{Op: "read", Net: "tcp", Source: from(n), Addr: to, Err: os.NewSyscallError("read", syscall.ECONNRESET)}
			},
			"write tcp [::1]:6443: write: broken pipe": func(n int) error {
				source, to := &net.TCPAddr{IP: net.IPv6loopback, Port: n}, &net.TCPAddr{IP: net.IPv6loopback, Port: 6443}
				return &net.OpError{Op: "write", Net: "tcp", Source: source, Addr: to, Err: os.NewSyscallError("write", syscall.EPIPE)}
			},
			"http2: server sent GOAWAY and closed the connection; ErrCode=NO_ERROR, debug=\"\"": func(n int) error {
				return fmt.Errorf("http2: server sent GOAWAY and closed the connection; LastStreamID=%d, ErrCode=NO_ERROR, debug=%q", n, "")
			},
			"stream error: INTERNAL_ERROR; received from peer": func(n int) error {
				return fmt.Errorf("stream error: stream ID %d; INTERNAL_ERROR; received from peer", n)
			},
		} {
			for n := range 2 {
				require.Equal(t, "the cluster cannot be reached: "+want, fail.TextOf(kube.KindOf(through(fails(50_001+2*n)))))
			}
		}
	})
	t.Run("nil stays nil", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, kube.KindOf(nil))
	})
	t.Run("cancellation is untouched", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, context.Canceled, kube.KindOf(context.Canceled))
	})
}
