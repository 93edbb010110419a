package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/workflows"
)

// EnsureSearchAttributes adds the product's search attributes to the namespace where they are missing. What keeps nobody from beginning is told: where all are
// there, and Temporal's visibility does not answer, operations go on, and only lists of them are missing.
func (e *Engine) EnsureSearchAttributes(ctx context.Context, namespace string, tell func(error)) error {
	about := "search attributes of namespace " + namespace
	return e.call(ctx, about, func(ctx context.Context) error {
		added, err := ensureSearchAttributes(ctx, e.temporal, namespace)
		if err != nil {
			return err
		}
		err = knowsSearchAttributes(ctx, e.temporal)
		if err == nil || added || ctx.Err() != nil || errors.Is(err, errNotKnownYet) { // another process may have added them just now
			return err
		}
		tell(kindOf(err, about))
		return nil
	})
}

// ensureSearchAttributes says whether there was one to add. Precondition, which no time puts right, where one has another type or Temporal has no room for one.
func ensureSearchAttributes(ctx context.Context, c client.Client, namespace string) (added bool, err error) {
	have, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return false, err
	}
	wanted := map[string]enumspb.IndexedValueType{}
	var missing, create []string
	for _, name := range workflows.SearchAttributes() {
		switch of, ok := have.GetCustomAttributes()[name]; {
		case !ok:
			wanted[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
			missing, create = append(missing, name), append(create, "--name "+name+" --type Keyword")
		case of != enumspb.INDEXED_VALUE_TYPE_KEYWORD:
			return false, fail.New(fail.Precondition, "the search attribute %s of Temporal's namespace %s is of the type %s, and Drover needs a Keyword: "+
				"remove it by `temporal operator search-attribute remove --namespace %s --name %s`, and start Drover again, or name another namespace", name, namespace, of, namespace, name)
		}
	}
	if len(missing) == 0 {
		return false, nil
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: wanted})
	lacks := fmt.Sprintf("Temporal's namespace %s lacks the search attributes %s", namespace, strings.Join(missing, ", "))
	var (
		exists  *serviceerror.AlreadyExists
		refused *serviceerror.InvalidArgument
		denied  *serviceerror.PermissionDenied
		unknown *serviceerror.Unimplemented
	)
	switch {
	case err == nil, errors.As(err, &exists): // another process may have been faster
		return true, nil
	case errors.As(err, &refused):
		return true, fail.Wrap(err, fail.Precondition, "%s, and Temporal does not take them: %s", lacks, refused.Message)
	case errors.As(err, &denied), errors.As(err, &unknown):
		return true, fail.Wrap(err, fail.Unavailable, "%s, and Drover may not add them: add them by `temporal operator search-attribute create --namespace %s %s`, or make Drover an admin of the namespace",
			lacks, namespace, strings.Join(create, " "))
	default:
		return true, err
	}
}

// errNotKnownYet is that Temporal knows search attributes by name, and does not take them yet.
var errNotKnownYet = errors.New("search attributes are not known yet")

// knowsSearchAttributes makes sure that the attributes can be used: servers learn of new ones with a delay,
// and refuse workflows that have them until then.
func knowsSearchAttributes(ctx context.Context, c client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, policy.Describe)
	defer cancel()
	terms := []string{}
	for _, name := range workflows.SearchAttributes() {
		terms = append(terms, name+" = 'none'")
	}
	_, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: strings.Join(terms, " AND ")})
	var unknown *serviceerror.InvalidArgument
	if errors.As(err, &unknown) {
		return fail.Wrap(fmt.Errorf("%w: %w", errNotKnownYet, err), fail.Unavailable, "the workflow engine does not know its search attributes yet")
	}
	return err
}
