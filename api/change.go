package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// Changes are the operations by which the instance of a deployment intent group becomes another one.
// service.Lifecycle implements it.
type Changes interface {
	Update(ctx context.Context, group domain.Key) (revision int, warnings []string, err error)
	Rollback(ctx context.Context, group domain.Key, revision int) (warnings []string, err error)
	Migrate(ctx context.Context, group domain.Key, version, target string) (warnings []string, err error)
}

// rollbackBody is what a rollback is asked with, in EMCO's form: the revision is a string.
type rollbackBody struct {
	Metadata described    `json:"metadata" api:"required"`
	Spec     rollbackSpec `json:"spec" api:"required"`
}

// rollbackSpec names the revision.
type rollbackSpec struct {
	Revision string `json:"revision" api:"required"` // the number of the revision, as a string
}

// migrateBody is what a migrate is asked with.
type migrateBody struct {
	Metadata described   `json:"metadata" api:"required"`
	Spec     migrateSpec `json:"spec" api:"required"`
}

// migrateSpec names the group that takes over.
type migrateSpec struct {
	TargetCompositeAppVersion   string `json:"targetCompositeAppVersion" api:"required"`   // of the composite app, with the other group
	TargetDeploymentIntentGroup string `json:"targetDeploymentIntentGroup" api:"required"` // the other group; it must be approved
}

// described is the metadata of a request that has no name; EMCO's command sends an empty one.
type described struct {
	Name        string `json:"name,omitempty"`        // may be left out
	Description string `json:"description,omitempty"` // for people
}

// update answers with the revision that the instance has then.
func (e *edge) update(c echo.Context) error {
	key, err := keyOf(c, group)
	if err != nil {
		return err
	}
	revision, warnings, err := e.lifecycle.Update(c.Request().Context(), key)
	warnAll(c, warnings)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusAccepted, revision)
}

func (e *edge) rollback(c echo.Context) error {
	var body rollbackBody
	key, err := receiveChange(c, &body)
	if err != nil {
		return err
	}
	var p fail.Problems
	domain.CheckName(&p, "spec.revision", body.Spec.Revision)
	revision, wrong := strconv.Atoi(body.Spec.Revision)
	if p.Err() == nil && wrong != nil {
		p.Add("spec.revision", "%q is not the number of a revision", body.Spec.Revision)
	}
	if err := p.Err(); err != nil {
		return err
	}
	warnings, err := e.lifecycle.Rollback(c.Request().Context(), key, revision)
	return accepted(c, warnings, err)
}

func (e *edge) migrate(c echo.Context) error {
	var body migrateBody
	key, err := receiveChange(c, &body)
	if err != nil {
		return err
	}
	var p fail.Problems
	domain.CheckName(&p, "spec.targetCompositeAppVersion", body.Spec.TargetCompositeAppVersion)
	domain.CheckName(&p, "spec.targetDeploymentIntentGroup", body.Spec.TargetDeploymentIntentGroup)
	if err := p.Err(); err != nil {
		return err
	}
	warnings, err := e.lifecycle.Migrate(c.Request().Context(), key, body.Spec.TargetCompositeAppVersion, body.Spec.TargetDeploymentIntentGroup)
	return accepted(c, warnings, err)
}

// receiveChange reads a body that is no document.
func receiveChange(c echo.Context, body any) (domain.Key, error) {
	key, err := keyOf(c, group)
	if err != nil {
		return "", err
	}
	data, err := bodyOf(c)
	if err != nil {
		return "", err
	}
	unknown, err := decode(data, body)
	if err != nil {
		return "", err
	}
	return key, judge(c, unknown)
}

// accepted answers an operation without a body.
func accepted(c echo.Context, warnings []string, err error) error {
	warnAll(c, warnings)
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusAccepted)
}

func warnAll(c echo.Context, warnings []string) {
	for _, text := range warnings[:min(len(warnings), maxWarnings)] {
		warn(c, "%s", text)
	}
}
