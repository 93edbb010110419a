package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
)

// resource is one noun's HTTP surface: POST and GET on the path of all of them, GET, PUT and DELETE on that of one.
type resource struct {
	noun *domain.Noun
	put  putCodes // of a noun that is not Fixed
	// mismatch is the kind of the refusal of a PUT whose body has another name than the URL; Invalid
	// when missing.
	mismatch fail.Kind
	// keeps says that a PUT may come without the file, as JSON too: the one that is stored stays.
	keeps bool
	// fileName is the name under which a form gives back the file that comes with a document, "" for none; file says in words
	// what that is.
	fileName, file string
	// part is the name of the part of such a form that has the document; metadata when missing.
	part string
	// secret says that the file is given back only where that is allowed.
	secret bool
	// list and get stand in for the plain handlers; listed is what list answers with, as openapi shows
	// it, when that is not a list of documents.
	list, get        handler
	listed           any
	query, itemQuery []parameter
	// clears says that DELETE on the path of all of them deletes each.
	clears bool
}

type putCodes struct{ created, replaced int }

// endpoints are the plain verbs.
func (r resource) endpoints(e *edge) []endpoint {
	title, one := r.noun.Title, r.noun.New()
	list, get, listed := r.list, r.get, r.listed
	if list == nil {
		list = listAll
	}
	if get == nil {
		get = e.get(r)
	}
	if listed == nil {
		listed = listOf(one)
	}
	many, only := manyPath(r.noun), onePath(r.noun)
	all := []endpoint{
		{method: http.MethodPost, path: many, verb: door.Create, summary: "Create a " + title, in: one, upload: r.noun.File, file: r.file, out: map[int]any{http.StatusCreated: one}, handle: create(r)},
		{method: http.MethodGet, path: many, verb: door.List, summary: "List each " + title, out: map[int]any{http.StatusOK: listed}, query: r.query, handle: list},
		{method: http.MethodGet, path: only, verb: door.Get, summary: "Show a " + title, out: map[int]any{http.StatusOK: one}, query: r.itemQuery, download: r.noun.File, secret: r.secret, part: r.part, file: r.file, handle: get},
		{method: http.MethodDelete, path: only, verb: door.Delete, summary: "Delete a " + title, out: map[int]any{http.StatusNoContent: nil}, query: r.deleteQuery(), handle: remove},
	}
	if !r.noun.Fixed {
		out := map[int]any{r.put.created: one, r.put.replaced: one}
		all = append(all, endpoint{method: http.MethodPut, path: only, verb: door.Put, summary: "Replace a " + title + ", or create it", in: one, upload: r.noun.File, file: r.file, keeps: r.keeps, out: out, query: r.putQuery(), handle: replace(r)})
	}
	if r.clears {
		all = append(all, endpoint{method: http.MethodDelete, path: many, verb: door.Delete, summary: "Delete each " + title, out: map[int]any{http.StatusNoContent: nil}, handle: removeAll})
	}
	for i := range all {
		all[i].noun = r.noun
		all[i].about = aboutNoun(r.noun) + " " + r.about(all[i].method)
	}
	return all
}

func (r resource) deleteQuery() []parameter {
	query := []parameter{{
		name: "unreadable", enum: truths,
		about: "for who is admin of the fleet: delete it although it, or what is recorded of its app contexts, cannot be read, as somebody has changed that in the database: what it says is lost, and warnings in the answer " +
			"say what that means; refused (409) where all can be read, or a key is not configured",
	}}
	switch {
	case r.noun.Abandons:
		query = append(query, parameter{
			name: "abandon", enum: truths,
			about: "delete it although a cluster that does not come back may have something that was made for tenants; warnings in the answer say what",
		})
	default:
		query = append(query, parameter{
			name: "abandon", enum: truths,
			about: "with unreadable=true: delete it although it may have something in clusters, which stays there, or nobody can judge what depends on it; warnings in the answer say what",
		})
	}
	if r.noun == domain.ClustersNoun {
		query = append(query, parameter{name: "labels", enum: truths, about: "delete its labels with it, which keep it from being deleted otherwise"})
	}
	return query
}

func (r resource) putQuery() []parameter {
	if r.noun != domain.ClustersNoun {
		return nil
	}
	return []parameter{{
		name: "reachable", enum: truths,
		about: "refuse it (412), and change nothing, where the cluster cannot be used with the kubeconfig now; else a warning says so",
	}}
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
		text = "What others still refer to, or what has something below it, cannot be deleted (409)."
		if r.noun.Owner != nil {
			text += " Where a terminate was stopped or has failed, a warning says what stays in clusters: nothing deletes that any more."
		}
		return text
	default:
		return "What was written comes back with every member."
	}
	switch {
	case r.noun.Files && method == http.MethodPut:
		text += " Without files, those that are stored stay."
	case r.noun.Files && method == http.MethodPost:
		text += " The document is the part metadata of the form, and the parts files come with it, each with a filename."
	case r.noun.File && r.keeps && method == http.MethodPut:
		text += " Without the file, the one that is stored stays."
	case r.noun.File:
		text += " The document is the part metadata of the form, and the part file comes with it."
	}
	return text
}

func create(r resource) handler {
	return func(c echo.Context, s door.Service, on *door.Request) (reply, error) {
		o, sent, err := receive(c, r, on.Parent)
		if err != nil {
			return nil, err
		}
		ctx := c.Request().Context()
		door.Named(ctx, o.LocalName())
		if err := attach(service.OnlyCreate(ctx), s, o, sent); err != nil {
			return nil, err
		}
		on.Bytes += o.Base().Uploaded + int64(len(sent.metadata))
		if err := s.Create(ctx, o); err != nil {
			return nil, err
		}
		warnAll(c, s.Remarks(ctx, o))
		return asJSON(http.StatusCreated, o), nil
	}
}

func replace(r resource) handler {
	return func(c echo.Context, s door.Service, on *door.Request) (reply, error) {
		o, sent, err := receive(c, r, on.Parent)
		if err != nil {
			return nil, err
		}
		if err := sameName(r, o, on.Name); err != nil {
			return nil, err
		}
		if cluster, ok := o.(*domain.Cluster); ok {
			if cluster.MustAnswer, err = truth(c, "reachable"); err != nil {
				return nil, err
			}
		}
		ctx := c.Request().Context()
		if r.noun.File { // it is not to be stored for nothing
			if _, err := conditions(ctx, c.Request(), s, o); err != nil {
				return nil, err
			}
		}
		if err := attach(ctx, s, o, sent); err != nil {
			return nil, err
		}
		on.Bytes += o.Base().Uploaded + int64(len(sent.metadata))
		created, err := write(ctx, c.Request(), s, o)
		if err != nil {
			return nil, err
		}
		warnAll(c, s.Remarks(ctx, o))
		if created {
			return asJSON(r.put.created, o), nil
		}
		if cluster, ok := o.(*domain.Cluster); ok && cluster.SameKubeconfig { // which nobody can read to compare it
			c.Response().Header().Set(headerFile, "unchanged")
		}
		return asJSON(r.put.replaced, o), nil
	}
}

// attach keeps the files that came with a document.
func attach(ctx context.Context, s door.Service, o domain.Object, sent sentForm) error {
	switch {
	case o.Noun().Files:
		return s.AttachAll(ctx, o, sent.files)
	case o.Noun().File:
		return s.Attach(ctx, o, sent.file)
	default:
		return nil
	}
}

// sameName refuses a body that has another name than the URL.
func sameName(r resource, o domain.Object, inURL string) error {
	inBody := o.LocalName()
	switch {
	case inURL == inBody:
		return nil
	case strings.Trim(inBody, "/") == "":
		return fail.New(fail.Invalid, "Missing name in PUT request: the body does not name %s %q", r.noun.Title, inURL)
	case r.mismatch != "":
		return fail.New(r.mismatch, "%s name mismatch: %q in the body, %q in the URL", r.noun.Title, inBody, inURL)
	default:
		return fail.New(fail.Invalid, "Mismatched name in PUT request: %s %q in the body, %q in the URL", r.noun.Title, inBody, inURL)
	}
}

func listAll(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	list := written{}
	err := s.Each(c.Request().Context(), on.Noun, on.Parent, list.add)
	return list.answer, warnUnreadable(c, err)
}

// written are the documents of a list as they are answered. They are written as soon as they are read: a document may take forty times as much memory as its
// text, and all of a list would be there at once.
type written [][]byte

func (w *written) add(o domain.Object) error {
	text, err := json.Marshal(o)
	*w = append(*w, text)
	return err
}

func (w written) answer(c echo.Context) error {
	c.Response().Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	c.Response().WriteHeader(http.StatusOK)
	out := bufio.NewWriterSize(c.Response(), piece) // it keeps its first error
	_ = out.WriteByte('[')
	for i, text := range w {
		if i > 0 {
			_ = out.WriteByte(',')
		}
		_, _ = out.Write(text)
	}
	_, _ = out.WriteString("]\n")
	return out.Flush()
}

// warnUnreadable names what is missing in a list since it cannot be read, and is what else is wrong. For programs, Drover-Left-Out has how
// many there are.
func warnUnreadable(c echo.Context, err error) error {
	unreadable, err := domain.UnreadableOf(err)
	if len(unreadable) > 0 {
		c.Response().Header().Set(headerLeftOut, strconv.Itoa(len(unreadable)))
	}
	for _, id := range unreadable[:min(len(unreadable), maxWarnings)] {
		warn(c, "%s cannot be read: who changed it was not the product, or its key is missing; it is left out", id)
	}
	if more := len(unreadable) - maxWarnings; more > 0 {
		warn(c, "%d more cannot be read, and are left out", more)
	}
	return err
}

func (e *edge) get(r resource) handler {
	return func(c echo.Context, s door.Service, on *door.Request) (reply, error) {
		o, err := s.Get(c.Request().Context(), on.Noun, on.Key())
		if err != nil {
			return nil, err
		}
		if r.noun.File {
			return sent, e.answer(c, s, o, r)
		}
		return asJSON(http.StatusOK, o), nil
	}
}

func remove(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	ctx := c.Request().Context()
	abandon, err := truth(c, "abandon")
	if err != nil {
		return nil, err
	}
	labels, err := truth(c, "labels")
	if err != nil {
		return nil, err
	}
	unreadable, err := truth(c, "unreadable")
	if err != nil {
		return nil, err
	}
	var left []string
	switch {
	case unreadable && labels:
		return nil, fail.New(fail.Invalid, "unreadable and labels cannot be together: delete the labels first")
	case unreadable:
		left, err = s.Discard(ctx, on.Noun, on.Key(), abandon)
	case abandon && !on.Noun.Abandons:
		return nil, fail.New(fail.Invalid, "abandon is for what cannot be read (unreadable=true); leave it out")
	case labels && on.Noun == domain.ClustersNoun:
		left, err = s.RemoveCluster(ctx, on.Key(), abandon)
	case abandon:
		left, err = s.Abandon(ctx, on.Noun, on.Key())
	default:
		left, err = s.Remove(ctx, on.Noun, on.Key())
	}
	if err == nil {
		warnAll(c, left)
	}
	return noContent(http.StatusNoContent), err
}

// truth reads a parameter that is true or false, false when missing.
func truth(c echo.Context, name string) (bool, error) {
	return service.Truth(name, c.QueryParam(name))
}

// removeAll deletes one after the other, in the order of their names, and stops at the first that cannot be deleted: those
// before it are gone. The audit log has each of them, and that one, which may be gone, too, where it is not known what came of it: the
// request's own record names none.
func removeAll(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	ctx := c.Request().Context()
	list, err := s.List(ctx, on.Noun, on.Parent)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 { // a name that is mistyped has none either
		if _, err := s.Get(ctx, on.Noun.Parent, on.Parent); err != nil {
			return nil, err
		}
	}
	request := caller.RequestOf(ctx)
	for _, o := range list {
		err := s.Delete(ctx, on.Noun, domain.KeyOf(o))
		if fail.Is(err, fail.NotFound) {
			continue
		}
		before, _ := request.Change()
		request.Removes(caller.Removed{Noun: on.Noun.Kind, Key: string(domain.KeyOf(o)), Before: before, Err: err})
		request.Changed(nil, nil) // that is of this one, and not of what the request's record names
		if err != nil {
			return nil, err
		}
	}
	return noContent(http.StatusNoContent), nil
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
		domain.CheckCalled(&p, name, value)
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
	c.Response().Header().Add(headerWarning, fmt.Sprintf("299 - %+q", text))
}
