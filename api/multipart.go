package api

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// sentForm is a multipart form as it was sent. A part that is missing is nil.
type sentForm struct {
	metadata, file []byte
	files          []domain.Upload // the parts files
	others         []string        // the names of further parts, which nobody reads
}

// strays are the names of the parts that a document of a noun does not have, and own is the one that has its file. EMCO's client sends the file of
// any noun as the part file, also where EMCO reads files alone.
func (f sentForm) strays(n *domain.Noun) (names []string, own string) {
	own, names = "file", f.others
	switch {
	case n.Files:
		own = "files"
		if f.file != nil {
			names = append(names, "file")
		}
	case len(f.files) > 0:
		names = append(names, "files")
	}
	return names[:min(len(names), maxWarnings)], own
}

// form reads a multipart form with the parts metadata, file and files. It reads in passing, so that nothing is written to disk.
// Of other parts it keeps the names: a file that is in one of them would be missed later.
func form(r *http.Request) (f sentForm, err error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return f, fail.Wrap(err, fail.Malformed, "request Content-Type isn't multipart/form-data")
	}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return f, nil
		}
		if err != nil {
			return f, unreadable(err)
		}
		switch name := part.FormName(); name {
		case "metadata":
			if f.metadata != nil {
				return f, several(name)
			}
			f.metadata, err = readAll(part, limits.JSON)
		case "file": // the request as a whole is bounded
			if f.file != nil {
				return f, several(name)
			}
			f.file, err = whole(part)
		case "files":
			one := domain.Upload{Name: part.FileName()}
			if one.Name == "" {
				return f, fail.New(fail.Malformed, "a part \"files\" has no filename, or is not a file field")
			}
			if len(f.files) == maxFiles {
				return f, fail.New(fail.Malformed, "there are more than %d files", maxFiles)
			}
			one.Data, err = whole(part)
			f.files = append(f.files, one)
		default:
			if len(f.others) < maxWarnings && !slices.Contains(f.others, name) {
				f.others = append(f.others, name)
			}
		}
		if err != nil {
			return f, err
		}
	}
}

// several refuses a part that is there again: one of the two would be taken in silence.
func several(name string) error {
	return fail.New(fail.Malformed, "the part %q is there several times; one is meant", name)
}

// maxFiles bounds the files of a form.
const maxFiles = 1000

func whole(part io.Reader) ([]byte, error) {
	data, err := io.ReadAll(part)
	if err != nil {
		return nil, unreadable(err)
	}
	return data, nil
}

// writeForm answers with a document and its file as EMCO does, which gives some files no name.
func writeForm(c echo.Context, document string, metadata []byte, files []domain.Upload) error {
	w := multipart.NewWriter(c.Response())
	c.Response().Header().Set(echo.HeaderContentType, w.FormDataContentType())
	c.Response().WriteHeader(http.StatusOK)
	type part struct {
		disposition, contentType string
		data                     []byte
	}
	parts := []part{{`form-data; name="` + document + `"`, echo.MIMEApplicationJSON, metadata}}
	for _, f := range files {
		disposition := map[string]string{"name": "file"}
		if len(files) > 1 {
			disposition["name"] = "files"
		}
		if f.Name != "" {
			disposition["filename"] = f.Name
		}
		parts = append(parts, part{mime.FormatMediaType("form-data", disposition), echo.MIMEOctetStream, f.Data})
	}
	for _, p := range parts {
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
