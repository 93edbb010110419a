package rpc

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/statusnotify"
)

// reader takes so long for a notification, which ends so then.
type reader struct {
	grpc.ServerStreamingServer[statusnotify.StatusNotification]
	takes time.Duration
	ends  error
}

func (r reader) Send(*statusnotify.StatusNotification) error {
	time.Sleep(r.takes) //nolint:forbidigo // of the bubble's time
	return r.ends
}

// TestASlowReaderIsToldLessOften: one of a large notification, whose pieces go in time, is not one that takes none.
func TestASlowReaderIsToldLessOften(t *testing.T) {
	small := &statusnotify.StatusNotification{}
	large := &statusnotify.StatusNotification{Details: []*statusnotify.StatusDetail{{StatusDetail: &statusnotify.StatusDetail_App{
		App: &statusnotify.AppStatus{App: strings.Repeat("x", 2*smallBytes)},
	}}}}
	for name, c := range map[string]struct {
		n          *statusnotify.StatusNotification
		takes      time.Duration
		ends, want error
	}{
		"a small one":                          {small, time.Second, nil, nil},
		"a small one, for ever":                {small, time.Minute, nil, errSlow},
		"a large one":                          {large, time.Minute, nil, nil},
		"a large one that has gone too slowly": {large, time.Minute, fail.New(fail.Timeout, "late"), errSlow},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				require.ErrorIs(t, send(t.Context(), reader{takes: c.takes, ends: c.ends}, c.n), c.want)
				time.Sleep(c.takes) //nolint:forbidigo // of the bubble's time, in which the reader ends
			})
		})
	}
}
