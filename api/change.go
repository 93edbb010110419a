package api

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
)

// update answers with a body or, where that is nil, with the revision that the instance has then.
func update(body any) handler {
	return func(c echo.Context, s door.Service, on *door.Request) (reply, error) {
		again, err := truth(c, reapplyQuery.name)
		if err != nil {
			return nil, err
		}
		revision, warnings, err := s.Update(c.Request().Context(), on.Key(), service.UpdateOptions{Reapply: again})
		warnAll(c, warnings)
		return asJSON(http.StatusAccepted, cmp.Or(body, any(revision))), err
	}
}

func rollback(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	var body service.RollbackRequest
	if err := receiveChange(c, &body); err != nil {
		return nil, err
	}
	var p fail.Problems
	checkRemark(c, &p, body.Metadata)
	domain.CheckName(&p, "spec.revision", body.Spec.Revision)
	revision, wrong := strconv.Atoi(body.Spec.Revision)
	if p.Err() == nil && wrong != nil {
		p.Add("spec.revision", "%q is not the number of a revision", body.Spec.Revision)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	warnings, err := s.Rollback(c.Request().Context(), on.Key(), revision)
	warnAll(c, warnings)
	return noContent(http.StatusAccepted), err
}

func migrate(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	var body service.MigrateRequest
	if err := receiveChange(c, &body); err != nil {
		return nil, err
	}
	var p fail.Problems
	checkRemark(c, &p, body.Metadata)
	domain.CheckName(&p, "spec.targetCompositeAppVersion", body.Spec.TargetCompositeAppVersion)
	domain.CheckName(&p, "spec.targetDeploymentIntentGroup", body.Spec.TargetDeploymentIntentGroup)
	if err := p.Err(); err != nil {
		return nil, err
	}
	warnings, err := s.Migrate(c.Request().Context(), on.Key(), body.Spec.TargetCompositeAppVersion, body.Spec.TargetDeploymentIntentGroup)
	warnAll(c, warnings)
	return noContent(http.StatusAccepted), err
}

// checkRemark checks what users say of a change, as of a document, and says that it is not kept: a change is none.
func checkRemark(c echo.Context, p *fail.Problems, m service.RequestMetadata) {
	domain.CheckLength(p, "metadata.description", m.Description, domain.DescriptionLength)
	if m.Description != "" {
		warn(c, "metadata.description: nothing is done with it; the audit log and the history say who has asked for what")
	}
}

// receiveChange reads a body that is no document.
func receiveChange(c echo.Context, body any) error {
	data, err := bodyOf(c)
	if err != nil {
		return err
	}
	unknown, err := read(c, data, body)
	if err != nil {
		return err
	}
	return judge(c, straysOf(unknown))
}

// warnAll names maxWarnings of the warnings, and says how many more there are.
func warnAll(c echo.Context, warnings []string) {
	for _, text := range warnings[:min(len(warnings), maxWarnings)] {
		warn(c, "%s", text)
	}
	if more := len(warnings) - maxWarnings; more > 0 {
		warn(c, "and %d more", more)
	}
}
