package rpc

import (
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/door"
)

// SetSendTime sets how long a client may take for a notification, or for a piece of a large one, for the time of a test.
func SetSendTime(t *testing.T, d time.Duration) {
	small, large := sendTime, pieceTime
	t.Cleanup(func() { sendTime, pieceTime = small, large })
	sendTime, pieceTime = d, func() time.Duration { return d }
}

// Methods are all that Serve and ServeTenants have.
func Methods() (ofAPI, ofTenants []string) {
	o, stopping := Options{Door: door.New(door.Parts{}), Log: slog.New(slog.DiscardHandler)}, make(chan struct{})
	names := func(by asStreams) (all []string) {
		grpc_health_v1.RegisterHealthServer(by, health.NewServer()) // as serve does
		for service, info := range by.GetServiceInfo() {
			for _, m := range info.Methods {
				all = append(all, "/"+service+"/"+m.Name)
			}
		}
		return all
	}
	return names(apiServer(authn.Off, o, stopping)), names(tenantsServer(TenantOptions{Options: o}, stopping))
}
