package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
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

// TestSearchAttributesThatCannotBeHad: who reads the log knows which, and what to do.
func TestSearchAttributesThatCannotBeHad(t *testing.T) {
	some := attributes(enumspb.INDEXED_VALUE_TYPE_KEYWORD)
	delete(some, "DroverApp")
	delete(some, "DroverTenant")
	for name, c := range map[string]struct {
		operator operator
		kind     fail.Kind
		text     string
	}{
		"of another type": {
			operator{have: attributes(enumspb.INDEXED_VALUE_TYPE_TEXT)}, fail.Precondition,
			"the search attribute DroverApp of Temporal's namespace drover is of the type Text, and Drover needs a Keyword: remove it by `temporal operator search-attribute remove --namespace drover --name DroverApp`, and start Drover again, or name another namespace",
		},
		"no room": {
			operator{have: some, err: serviceerror.NewInvalidArgument("cannot have more than 10 search attributes of type Keyword")}, fail.Precondition,
			"Temporal's namespace drover lacks the search attributes DroverApp, DroverTenant, and Temporal does not take them: cannot have more than 10 search attributes of type Keyword",
		},
		"no right": {
			operator{have: some, err: serviceerror.NewPermissionDenied("Request unauthorized.", "")}, fail.Unavailable,
			"Temporal's namespace drover lacks the search attributes DroverApp, DroverTenant, and Drover may not add them: add them by `temporal operator search-attribute create --namespace drover --name DroverApp --type Keyword --name DroverTenant --type Keyword`, or make Drover an admin of the namespace",
		},
		"away": {
			operator{err: serviceerror.NewUnavailable("x")}, fail.Unavailable, "search attributes of namespace drover: the workflow engine is not available; try again later",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := engine.New(furnished{&server{}, &c.operator}).EnsureSearchAttributes(t.Context(), "drover", nil)
			require.True(t, fail.Is(err, c.kind), "%v", err)
			require.Equal(t, c.text, fail.TextOf(err))
		})
	}
	faster := &operator{have: some, err: serviceerror.NewAlreadyExists("x")}
	require.NoError(t, engine.New(furnished{&server{}, faster}).EnsureSearchAttributes(t.Context(), "drover", nil))
}

// aged is a server that tells its version.
type aged struct {
	*server
	info info
}

func (a aged) WorkflowService() workflowservice.WorkflowServiceClient { return a.info }

type info struct {
	workflowservice.WorkflowServiceClient
	version string
	err     error
}

func (a info) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest, ...grpc.CallOption) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{ServerVersion: a.version}, a.err
}

func TestOutdated(t *testing.T) {
	for version, want := range map[string]string{"1.27.4": "1.27.4", "0.30.0": "0.30.0", "1.28.0": "", "1.28.0-148.2": "", "1.32.0": "", "2.0.0": "", "": "", "cloud": ""} {
		got, least, err := engine.New(aged{&server{}, info{version: version}}).Outdated(t.Context())
		require.NoError(t, err)
		require.Equal(t, "1.28", least)
		require.Equal(t, want, got, version)
	}
	_, _, err := engine.New(aged{&server{}, info{err: serviceerror.NewUnavailable("x")}}).Outdated(t.Context())
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
}
