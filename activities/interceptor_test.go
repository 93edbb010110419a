package activities_test

import (
	"context"

	"go.temporal.io/sdk/interceptor"
)

// errorsOf keeps the error of an activity as the activity returned it.
type errorsOf struct {
	interceptor.WorkerInterceptorBase
	interceptor.ActivityInboundInterceptorBase
	err *error
}

func (e *errorsOf) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &errorsOf{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, err: e.err}
}

func (e *errorsOf) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	out, err := e.Next.ExecuteActivity(ctx, in)
	*e.err = err
	return out, err
}
