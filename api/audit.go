package api

import (
	"bufio"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/service"
)

// mimeNDJSON is the form of an export: a record a line, as it was written.
const mimeNDJSON = "application/x-ndjson"

var auditOffers = []string{echo.MIMEApplicationJSON, mimeNDJSON}

// audits are the endpoints of audit records.
func (e *edge) audits() []endpoint {
	const about = "In pages, the newest first. With Accept: application/x-ndjson all of them, the oldest first, a line each as it was " +
		"written, for drover audit verify."
	return []endpoint{
		{
			method: http.MethodGet, path: manyPath(domain.AuditRecords), verb: door.List, noun: domain.AuditRecords,
			summary: "List who has asked for what, and what came of it", about: about,
			out: map[int]any{http.StatusOK: service.AuditList{}}, also: []string{mimeNDJSON}, query: append([]parameter{
				{name: "project", about: "only what is about this project, or what is in it", filled: true},
			}, auditQuery...), handle: e.listAudit,
		},
		{
			method: http.MethodGet, path: onePath(domain.Projects) + manyPath(domain.AuditRecords), verb: door.List, noun: domain.AuditRecords,
			summary: "List who has asked for what of a project, and what came of it", about: about,
			out: map[int]any{http.StatusOK: service.AuditList{}}, also: []string{mimeNDJSON}, query: auditQuery, handle: e.listAudit,
		},
		{
			method: http.MethodGet, path: manyPath(domain.AuditRecords) + "/keys", verb: door.Get, noun: domain.AuditRecords,
			summary: "Show the public keys that sign audit records", about: "For drover audit verify --keys, which takes the answer as a file.",
			out: map[int]any{http.StatusOK: audit.Keys{}}, handle: auditKeys,
		},
	}
}

var auditQuery = []parameter{
	{name: "who", about: "only what this one has asked for: a name, or a kind and a name, such as user alice@example.org", filled: true},
	{name: "noun", about: "only what is about this noun, such as apps", enum: auditedNouns()},
	{name: "verb", about: "only this verb, such as create or instantiate; of what was refused before anybody knew what it was about, its method", enum: auditedVerbs()},
	{name: "outcome", about: "only what had this outcome: done, or a kind of failure such as Forbidden", filled: true},
	{name: "event", about: "only records of this event; unanswered asks for what has begun and of which nothing says what came of it", enum: words(audit.Events)},
	{name: "resource", about: "only what is about this resource, or what is below it, by its path below /v2", filled: true},
	{name: "operation", about: "only what is about this operation, by the id of its run", filled: true},
	{name: "from", about: "leave out what was before: a time such as 2026-11-21T05:29:07Z, or how long ago, such as 2h30m", filled: true},
	{name: "to", about: "leave out what was then or later: a time, or how long ago", filled: true},
	limitQuery, continueQuery,
}

// auditedNouns are those that a record may have.
func auditedNouns() (kinds []string) {
	for _, n := range rights.Nouns() {
		kinds = append(kinds, n.Kind)
	}
	return kinds
}

// auditedVerbs are those that a record may have, methods among them.
func auditedVerbs() []string {
	return slices.Concat(words(door.Verbs()), methods, []string{door.Calling})
}

// listAudit answers with a page of records, or as an export.
func (e *edge) listAudit(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	offer, ok := negotiate(c.Request().Header.Values(echo.HeaderAccept), auditOffers)
	switch {
	case !ok:
		return nil, echo.NewHTTPError(http.StatusNotAcceptable, "set Accept: application/json or application/x-ndjson")
	case offer == mimeNDJSON:
		return sent, exportAudit(c, s, on)
	}
	list, err := s.AuditRecords(c.Request().Context(), on.Parent, c.QueryParams())
	return asJSON(http.StatusOK, list), err
}

// exportAudit writes the records as they are read. For a HEAD none is: net/http throws its lines away, so that nothing would slow the reading of all.
func exportAudit(c echo.Context, s door.Service, on *door.Request) error {
	ctx := c.Request().Context()
	c.Response().Header().Set(echo.HeaderContentType, mimeNDJSON)
	if c.Request().Method == http.MethodHead {
		return s.AuditExport(ctx, on.Parent, c.QueryParams(), nil)
	}
	to := bufio.NewWriter(c.Response())
	err := s.AuditExport(ctx, on.Parent, c.QueryParams(), func(line []byte) error {
		if _, err := to.Write(line); err != nil {
			return err
		}
		return to.WriteByte('\n')
	})
	if err != nil {
		return err
	}
	return to.Flush()
}

func auditKeys(c echo.Context, s door.Service, _ *door.Request) (reply, error) {
	keys, err := s.AuditKeys(c.Request().Context())
	return asJSON(http.StatusOK, keys), err
}
