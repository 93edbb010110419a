package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc"

	"github.com/drover-io/drover/internal/engine"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/workflows"
)

// operator stands for the part of Temporal that has search attributes.
type operator struct {
	operatorservice.OperatorServiceClient
	have map[string]enumspb.IndexedValueType
	err  error // of an addition
}

func (o *operator) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest, ...grpc.CallOption) (*operatorservice.ListSearchAttributesResponse, error) {
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: o.have}, nil
}

func (o *operator) AddSearchAttributes(context.Context, *operatorservice.AddSearchAttributesRequest, ...grpc.CallOption) (*operatorservice.AddSearchAttributesResponse, error) {
	return &operatorservice.AddSearchAttributesResponse{}, o.err
}

// furnished is a server with search attributes.
type furnished struct {
	*server
	operator *operator
}

func (f furnished) OperatorService() operatorservice.OperatorServiceClient { return f.operator }

// attributes are all that Drover needs, as a type.
func attributes(t enumspb.IndexedValueType) map[string]enumspb.IndexedValueType {
	all := map[string]enumspb.IndexedValueType{}
	for _, name := range workflows.SearchAttributes() {
		all[name] = t
	}
	return all
}

// TestVisibilityThatIsAway keeps no process from beginning where all search attributes are there, unless they may have been added just now.
func TestVisibilityThatIsAway(t *testing.T) {
	there := attributes(enumspb.INDEXED_VALUE_TYPE_KEYWORD)
	for name, c := range map[string]struct {
		have map[string]enumspb.IndexedValueType
		err  error
		told fail.Kind // "" for nothing
		kind fail.Kind // "" for none
	}{
		"it answers":                  {have: there},
		"it is away":                  {have: there, err: serviceerror.NewUnavailable("no Elasticsearch node available"), told: fail.Unavailable},
		"it is asked too much":        {have: there, err: serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "x"), told: fail.Unavailable},
		"it is late":                  {have: there, err: serviceerror.NewDeadlineExceeded("x"), told: fail.Timeout},
		"it may not be asked":         {have: there, err: serviceerror.NewPermissionDenied("x", "y"), told: fail.Unavailable},
		"it does not know them yet":   {have: there, err: serviceerror.NewInvalidArgument("invalid search attribute: DroverApp"), kind: fail.Unavailable},
		"they were added, it is away": {err: serviceerror.NewUnavailable("x"), kind: fail.Unavailable},
		"they were added":             {},
	} {
		t.Run(name, func(t *testing.T) {
			var told fail.Kind
			err := engine.New(furnished{&server{blind: c.err}, &operator{have: c.have}}).EnsureSearchAttributes(t.Context(), "drover", func(err error) { told = fail.KindOf(err) })
			require.Equal(t, c.told, told)
			if c.kind == "" {
				require.NoError(t, err)
			} else {
				require.True(t, fail.Is(err, c.kind), "%v", err)
			}
		})
	}
}
