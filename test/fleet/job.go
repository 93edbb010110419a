package fleet

import (
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// JobEnds is the annotation of a Job that ends: with which condition, and how long after it was made. A Job without it never does.
// Examples: "Complete 200ms", "Failed 2s".
const JobEnds = "fleet/ends"

// ends reads JobEnds.
func ends(content map[string]any) (condition string, after time.Duration, err error) {
	said := text(member(member(content, "metadata"), "annotations"), JobEnds)
	if said == "" {
		return "", 0, nil
	}
	condition, wait, _ := strings.Cut(said, " ")
	if after, err = time.ParseDuration(wait); err != nil || condition != "Complete" && condition != "Failed" {
		return "", 0, apierrors.NewBadRequest("the annotation " + JobEnds + ` is "Complete" or "Failed" and a duration, not "` + said + `"`)
	}
	return condition, after, nil
}

// errOtherJob says that the Job that was to end has gone, and another one has its name.
var errOtherJob = errors.New("it is another Job")

// run has a Job that was just made end when it says so.
func (c *cluster) run(o *object, condition string, after time.Duration) {
	if condition == "" {
		return
	}
	time.AfterFunc(after, func() {
		// A Job that is gone needs no end.
		_, _ = c.change(o.id, true, "fleet", func(content map[string]any) (map[string]any, error) {
			if text(member(content, "metadata"), "uid") != string(o.uid) {
				return nil, errOtherJob
			}
			content["status"] = map[string]any{"conditions": []any{map[string]any{
				"type": condition, "status": string(metav1.ConditionTrue), "reason": "Ended", "lastTransitionTime": now(),
			}}}
			return content, nil
		})
	})
}
