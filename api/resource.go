package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// resource is one noun's HTTP surface: POST and GET on path, GET, PUT and DELETE on path+item.
type resource struct {
	noun *domain.Noun
	path string   // template of the collection
	item string   // template of the local name below it
	put  putCodes // zero: there is no PUT
	// mismatch is the kind of the refusal of a PUT whose body has another name than the URL; Invalid
	// when missing.
	mismatch fail.Kind
	// upload says that a file comes with the document; fileName is the name under which a form gives it back, "" for none.
	// keeps says that a PUT may come without the file, as JSON too: the one that is stored stays.
	upload, keeps bool
	fileName      string
	file          string // what the file is, in words
	// secret says that the file is given back only where that is allowed.
	secret bool
	// list and get stand in for the plain handlers; listed is what list answers with, as openapi shows
	// it, when that is not a list of documents.
	list, get        echo.HandlerFunc
	listed           any
	query, itemQuery []parameter
}

type putCodes struct{ created, replaced int }

// endpoints are the plain verbs.
func (r resource) endpoints(e *edge) []endpoint {
	title, one := r.noun.Title, r.noun.New()
	limit, writes := plainTime, anyRoom
	if r.upload {
		limit, writes = uploadTime, uploading
	}
	list, get, listed := r.list, r.get, r.listed
	if list == nil {
		list = e.list(r)
	}
	if get == nil {
		get = e.get(r)
	}
	if listed == nil {
		listed = listOf(one)
	}
	all := []endpoint{
		{method: http.MethodPost, path: r.path, summary: "Create a " + title, in: one, upload: r.upload, file: r.file, out: map[int]any{http.StatusCreated: one}, limit: limit, room: writes, handle: e.create(r)},
		{method: http.MethodGet, path: r.path, summary: "List each " + title, out: map[int]any{http.StatusOK: listed}, query: r.query, limit: limit, handle: list},
		{method: http.MethodGet, path: r.path + r.item, summary: "Show a " + title, out: map[int]any{http.StatusOK: one}, query: r.itemQuery, download: r.upload, file: r.file, limit: limit, handle: get},
		{method: http.MethodDelete, path: r.path + r.item, summary: "Delete a " + title, out: map[int]any{http.StatusNoContent: nil}, handle: e.delete(r)},
	}
	if r.put != (putCodes{}) {
		out := map[int]any{r.put.created: one, r.put.replaced: one}
		all = append(all, endpoint{method: http.MethodPut, path: r.path + r.item, summary: "Replace a " + title + ", or create it", in: one, upload: r.upload, file: r.file, keeps: r.keeps, out: out, limit: limit, room: writes, handle: e.replace(r)})
	}
	for i := range all {
		all[i].about = aboutNoun(r.noun) + " " + r.about(all[i].method)
	}
	return all
}

// about says what a method does.
func (r resource) about(method string) string {
	var text string
	switch method {
	case http.MethodPost:
		text = "One that is there already is a conflict (409), and what the body refers to must be there."
	case http.MethodPut:
		text = "The body replaces the whole document; its name is that of the path."
	case http.MethodDelete:
		return "What others still refer to, or what has something below it, cannot be deleted (409)."
	default:
		return "What was written comes back with every member."
	}
	switch {
	case r.upload && r.keeps && method == http.MethodPut:
		text += " Without the file, the one that is stored stays."
	case r.upload:
		text += " The document is the part metadata of the form, and the part file comes with it."
	}
	return text
}

func (e *edge) create(r resource) echo.HandlerFunc {
	return func(c echo.Context) error {
		o, file, err := e.receive(c, r)
		if err != nil {
			return err
		}
		if r.upload {
			if err := e.service.Attach(c.Request().Context(), o, file); err != nil {
				return err
			}
		}
		if err := e.service.Create(c.Request().Context(), o); err != nil {
			return err
		}
		warnAll(c, e.service.Remarks(c.Request().Context(), o))
		return c.JSON(http.StatusCreated, o)
	}
}

func (e *edge) replace(r resource) echo.HandlerFunc {
	return func(c echo.Context) error {
		o, file, err := e.receive(c, r)
		if err != nil {
			return err
		}
		if err := sameName(c, r, o); err != nil {
			return err
		}
		if r.upload {
			if err := e.service.Attach(c.Request().Context(), o, file); err != nil {
				return err
			}
		}
		created, err := e.service.Put(c.Request().Context(), o)
		if err != nil {
			return err
		}
		warnAll(c, e.service.Remarks(c.Request().Context(), o))
		if created {
			return c.JSON(r.put.created, o)
		}
		return c.JSON(r.put.replaced, o)
	}
}

// sameName refuses a body that has another name than the URL.
func sameName(c echo.Context, r resource, o domain.Object) error {
	inURL := strings.TrimPrefix(expand(c, r.item), "/")
	inBody := o.LocalName()
	switch {
	case inURL == inBody:
		return nil
	case strings.Trim(inBody, "/") == "":
		return fail.New(fail.Invalid, "Missing name in PUT request")
	case r.mismatch != "":
		return fail.New(r.mismatch, "%s name mismatch: %q in the body, %q in the URL", r.noun.Title, inBody, inURL)
	default:
		return fail.New(fail.Invalid, "Mismatched name in PUT request: %q in the body, %q in the URL", inBody, inURL)
	}
}

func (e *edge) list(r resource) echo.HandlerFunc {
	return func(c echo.Context) error {
		parent, err := keyOf(c, parentOf(r.path))
		if err != nil {
			return err
		}
		list, err := e.service.List(c.Request().Context(), r.noun, parent)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, list)
	}
}

func (e *edge) get(r resource) echo.HandlerFunc {
	return func(c echo.Context) error {
		key, err := keyOf(c, r.path+r.item)
		if err != nil {
			return err
		}
		o, err := e.service.Get(c.Request().Context(), r.noun, key)
		if err != nil {
			return err
		}
		if r.upload {
			return e.answer(c, o, r)
		}
		return c.JSON(http.StatusOK, o)
	}
}

func (e *edge) delete(r resource) echo.HandlerFunc {
	return func(c echo.Context) error {
		key, err := keyOf(c, r.path+r.item)
		if err != nil {
			return err
		}
		if err := e.service.Delete(c.Request().Context(), r.noun, key); err != nil {
			return err
		}
		return c.NoContent(http.StatusNoContent)
	}
}

// parentOf cuts the collection off a template; "" at the top.
func parentOf(template string) string { return template[:strings.LastIndexByte(template, '/')] }

// expand fills the parameters of the request into a template.
func expand(c echo.Context, template string) string {
	segments := strings.Split(template, "/")
	for i, s := range segments {
		if name, ok := strings.CutPrefix(s, ":"); ok {
			segments[i] = param(c, name)
		}
	}
	return strings.Join(segments, "/")
}

// param is a parameter of the path. The router leaves it escaped when the client escaped more than it must.
func param(c echo.Context, name string) string {
	value := c.Param(name)
	if c.Request().URL.RawPath == "" {
		return value
	}
	plain, err := url.PathUnescape(value)
	if err != nil {
		return value // as it is, it is not a name
	}
	return plain
}

// keyOf is the key that the request's URL names by a template. What cannot be a name names nothing; it
// must not reach a key, where an escaped slash would become a real one.
func keyOf(c echo.Context, template string) (domain.Key, error) {
	for s := range strings.SplitSeq(template, "/") {
		name, ok := strings.CutPrefix(s, ":")
		if !ok {
			continue
		}
		var p fail.Problems
		value := param(c, name)
		domain.CheckName(&p, name, value)
		if p.Err() != nil {
			return "", fail.New(fail.NotFound, "%q is not a name: there is no such %s", value, name)
		}
	}
	return domain.Key(strings.TrimPrefix(expand(c, template), "/")), nil
}

// cut shortens a text to a number of bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// maxWarning bounds a warning, in bytes: clients and proxies do not take headers of any size.
const maxWarning = 256

// warn names something in a Warning header (RFC 7234, 5.5), as kube-apiserver does.
func warn(c echo.Context, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	text = cut(text, maxWarning)
	c.Response().Header().Add("Warning", fmt.Sprintf("299 - %+q", text))
}
