package api

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

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
// Of other parts it keeps the names: a file that is in one of them would be missed later. What ends before its last boundary is Malformed: package multipart
// takes the end of the bytes between the headers of a part for the end of the form.
func form(r *http.Request) (f sentForm, err error) {
	contentType := r.Header.Get(echo.HeaderContentType)
	_, of, _ := mime.ParseMediaType(contentType)
	end := &seeker{Reader: r.Body, text: []byte("--" + of["boundary"] + "--")}
	r.Body = io.NopCloser(end) // net/http closes its own
	parts, err := r.MultipartReader()
	switch {
	case errors.Is(err, http.ErrMissingBoundary), err == nil && of["boundary"] == "":
		return f, fail.Wrap(err, fail.Malformed, "the Content-Type %q has no boundary, which separates the parts of the form", cut(contentType, maxWarning))
	case err != nil:
		return f, fail.Wrap(err, fail.Malformed, "request Content-Type isn't multipart/form-data")
	}
	where := ""
	for {
		part, err := parts.NextPart()
		switch {
		case errors.Is(err, io.EOF) && (end.found || len(end.last) == 0): // what is empty has no part that somebody could miss
			return f, nil
		case err != nil:
			return f, unreadableForm(err, where)
		}
		name := fmt.Sprintf("the part %q", cut(part.FormName(), maxWarning))
		if err := f.take(part); err != nil {
			return f, unreadableForm(err, "in "+name)
		}
		where = "behind " + name
	}
}

// take reads a part of a form.
func (f *sentForm) take(part *multipart.Part) (err error) {
	name := part.FormName()
	switch how := part.Header.Get("Content-Transfer-Encoding"); strings.ToLower(how) {
	case "", "7bit", "8bit", "binary": // quoted-printable is read as what it stands for
	default:
		return fail.New(fail.Malformed, "the part %q has the Content-Transfer-Encoding %q, and is read as it is; send it without", cut(name, maxWarning), cut(how, maxWarning))
	}
	switch name {
	case "metadata":
		if f.metadata != nil {
			return several(name)
		}
		f.metadata, err = readAll(part, limits.JSON)
	case "file": // the request as a whole is bounded
		if f.file != nil {
			return several(name)
		}
		f.file, err = whole(part)
	case "files":
		one := domain.Upload{Name: part.FileName()}
		if one.Name == "" {
			return fail.New(fail.Malformed, "a part \"files\" has no filename, or is not a file field")
		}
		if len(f.files) == maxFiles {
			return fail.New(fail.Malformed, "there are more than %d files", maxFiles)
		}
		one.Data, err = whole(part)
		f.files = append(f.files, one)
	default:
		if len(f.others) < maxWarnings && !slices.Contains(f.others, name) {
			f.others = append(f.others, name)
		}
	}
	return err
}

// unreadableForm is unreadable of a form; where is the place, such as "in the part "file"", and "" before the first one.
func unreadableForm(err error, where string) error {
	ends := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	switch {
	case errors.As(err, new(*echo.HTTPError)): // of the bytes of a part that do not come: unreadable has said so
		return err
	case errors.As(err, new(*http.MaxBytesError)), tooSlow(err), !ends && errors.As(err, new(*fail.Error)):
		return unreadable(err)
	case where == "" && (ends || errors.Is(err, bufio.ErrBufferFull)):
		return fail.Wrap(err, fail.Malformed, "the form has no part: the boundary that its Content-Type names does not come")
	case ends:
		return fail.Wrap(err, fail.Malformed, "the form ends %s, and without its last boundary: it is not whole", where)
	default:
		return fail.Wrap(err, fail.Malformed, "the form cannot be read %s", cmp.Or(where, "at its beginning"))
	}
}

// seeker is a reader that says whether a text was in what has passed.
type seeker struct {
	io.Reader
	text, last []byte // last is what passed last, in which the text may have begun
	found      bool
}

func (s *seeker) Read(p []byte) (n int, err error) {
	n, err = s.Reader.Read(p)
	s.last = append(s.last, p[:n]...)
	s.found = s.found || bytes.Contains(s.last, s.text)
	s.last = append(s.last[:0], s.last[max(0, len(s.last)-len(s.text)):]...)
	return n, err
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
