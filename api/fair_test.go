package api_test

import (
	"context"
	"testing"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/service"
)

// uncounted is what projects have where nothing can be counted, so that what comes is all that is known.
type uncounted struct{}

func (uncounted) CountRunning(context.Context, string) (int, error) {
	return 0, fail.New(fail.Unavailable, "away")
}

func (uncounted) Usage(context.Context, domain.Key) (int, int64, error) {
	return 0, 0, fail.New(fail.Unavailable, "away")
}

// TestAProjectThatIsFullIsPutNothingNew: a put that would create a document meets the limit of documents as a create does, also one that says by
// a condition that it creates. What is there is replaced.
func TestAProjectThatIsFullIsPutNothingNew(t *testing.T) {
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) {
		d.steps = append(d.steps, door.NewShares(limits.Fair{ProjectDocuments: 3}, uncounted{}, time.Now).Fair)
	})
	const clouds = "/v2/projects/full/logical-clouds/"
	body := func(name string) string { return `{"metadata":{"name":"` + name + `"},"spec":{"level":"0"}}` }
	full := []string{"project full has 3 documents, and may have 3 (--project-documents): delete some"}
	check(t, w.router, []call{
		{method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"full"}}`, status: 201},
		{name: "a name that does not fit", method: "PUT", url: clouds + "a", body: body("other"), status: 409},
		{method: "PUT", url: clouds + "a", body: body("a"), status: 201},
		{method: "PUT", url: clouds + "b", body: body("b"), status: 201},
		{name: "replaced", method: "PUT", url: clouds + "a", body: body("a"), status: 201},
		{method: "PUT", url: clouds + "c", body: body("c"), header: map[string]string{"If-None-Match": "*"}, status: 201},
		{name: "a new one", method: "PUT", url: clouds + "d", body: body("d"), status: 429, contains: full},
		{name: "a new one by a condition", method: "PUT", url: clouds + "d", body: body("d"), header: map[string]string{"If-None-Match": "*"}, status: 429, contains: full},
		{name: "a new one by a create", method: "POST", url: "/v2/projects/full/logical-clouds", body: body("d"), status: 429, contains: full},
		{name: "nothing came of it", method: "GET", url: clouds + "d", status: 404},
		{name: "replaced at the limit", method: "PUT", url: clouds + "b", body: body("b"), status: 201},
		{name: "replaced by a condition", method: "PUT", url: clouds + "b", body: body("b"), header: map[string]string{"If-Match": "*"}, status: 201},
	})
}
