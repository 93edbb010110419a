package api

import (
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// form reads a multipart form with the parts metadata and file; a part that is missing is nil. It reads
// in passing, so that nothing is written to disk. Other parts are ignored.
func form(r *http.Request) (metadata, file []byte, err error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, nil, fail.Wrap(err, fail.Malformed, "request Content-Type isn't multipart/form-data")
	}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return metadata, file, nil
		}
		if err != nil {
			return nil, nil, unreadable(err)
		}
		switch part.FormName() {
		case "metadata":
			metadata, err = readAll(part, limits.JSON)
		case "file":
			// The request as a whole is bounded.
			if file, err = io.ReadAll(part); err != nil {
				err = unreadable(err)
			}
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

// writeForm answers with a document and its file as EMCO does, which gives some files no name.
func writeForm(c echo.Context, metadata []byte, name string, file []byte) error {
	disposition := `form-data; name="file"`
	if name != "" {
		disposition += `; filename="` + name + `"`
	}
	w := multipart.NewWriter(c.Response())
	c.Response().Header().Set(echo.HeaderContentType, w.FormDataContentType())
	c.Response().WriteHeader(http.StatusOK)
	for _, p := range []struct {
		disposition, contentType string
		data                     []byte
	}{
		{`form-data; name="metadata"`, echo.MIMEApplicationJSON, metadata},
		{disposition, echo.MIMEOctetStream, file},
	} {
		part, err := w.CreatePart(textproto.MIMEHeader{
			echo.HeaderContentDisposition: {p.disposition}, echo.HeaderContentType: {p.contentType},
		})
		if err != nil {
			return err
		}
		if _, err := part.Write(p.data); err != nil {
			return err
		}
	}
	return w.Close()
}
