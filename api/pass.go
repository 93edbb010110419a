package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
)

// handler does what a request asks for, behind the door, where the service is. A command answers with a reply, which is sent
// when the door has closed: a step at the door may still take its word back. A query may write its answer itself, as it
// reads it, and then has no reply.
type handler func(c echo.Context, s door.Service, r *door.Request) (reply, error)

// reply sends an answer.
type reply func(c echo.Context) error

// sent is the reply of who has answered already.
var sent reply

func asJSON(code int, v any) reply {
	return func(c echo.Context) error { return c.JSON(code, v) }
}

func noContent(code int) reply {
	return func(c echo.Context) error { return c.NoContent(code) }
}

// pass takes the requests of an endpoint through the door.
func (e *edge) pass(p endpoint) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, err := p.request(c)
		if err != nil {
			return err
		}
		if err := p.checkQuery(c.Request().URL); err != nil {
			return err
		}
		if err := p.precondition(c.Request()); err != nil {
			return err
		}
		for _, name := range p.overruled(c.Request().URL) {
			warn(c, "%s is given several times; the last one counts", name)
		}
		if flags := p.flags(c.Request().URL); len(flags) > 1 {
			warn(c, "%s are given; only %s counts", strings.Join(flags, " and "), flags[0])
		}
		warnAll(c, p.idle(c.Request().URL))
		r.Renders = p.renders
		if p.secret && e.kubeconfigs && takesFile(c.Request()) {
			r.Verb = door.Download
		}
		handle := p.handle
		if watch, err := wantsWatch(c); err == nil && watch && p.watch != nil { // checkQuery has refused what is neither true nor false
			r.Verb, handle = door.Watch, p.watch
		}
		if untold, _ := c.Get(contextUntold).(bool); (p.in != nil || untold) && !p.upload {
			r.Receive = func(ctx context.Context) (err error) {
				while(ctx, c)
				if r.Bytes, err = receiveBody(c); err == nil && r.Verb == door.Create {
					r.Called = nameIn(c, r.Noun)
				}
				return err
			}
		}
		var answer reply
		outside := c.Request()
		c.Set(contextPassed, true)
		err = e.door.Pass(outside.Context(), r, func(ctx context.Context, s door.Service) (err error) {
			while(ctx, c)
			c.SetRequest(outside.WithContext(ctx))
			defer c.SetRequest(outside)
			answer, err = handle(c, s, r)
			return err
		})
		if err != nil || answer == nil {
			return err
		}
		return answer(c)
	}
}

// named are the members of which the local names of documents are made.
type named struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version string `json:"compositeAppVersion,omitempty"`
	} `json:"spec,omitzero"`
	Label string `json:"clusterLabel,omitempty"`
}

// nameIn is the local name of the document in a body that was received; "" where it has none, or cannot be read: then it is refused later.
func nameIn(c echo.Context, n *domain.Noun) string {
	body, err := bodyOf(c)
	if err != nil || n.New == nil {
		return ""
	}
	// The rest of the document may be large, and nothing is made of it. A member of another type is one that the noun may not have.
	var of named
	if err := json.Unmarshal(bytes.TrimPrefix(body, byteOrderMark), &of); err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return ""
	}
	o := n.New()
	small, err := json.Marshal(of)
	if err != nil || json.Unmarshal(small, o) != nil {
		return ""
	}
	name := o.LocalName()
	if strings.Trim(name, "/") == "" {
		return ""
	}
	return name
}

// Conditions of a write (RFC 9110, 13.1). What is stored has no entity tags, so that those conditions alone can hold that are about whether something
// is there.
const (
	ifMatch, ifNoneMatch = "If-Match", "If-None-Match"
	whatever             = "*"
)

// precondition refuses a write that is to be done to one version alone: nobody can say which one is stored, and whoever sends a tag relies on it.
func (p endpoint) precondition(r *http.Request) error {
	if p.method == http.MethodGet {
		return nil
	}
	for _, tag := range r.Header.Values(ifMatch) {
		if tag != whatever {
			return fail.New(fail.Precondition, "%s is %s, and what is stored here has no entity tags; send %s (it is there), or leave it out", ifMatch, cut(tag, maxWarning), whatever)
		}
	}
	if slices.Contains(r.Header.Values(ifNoneMatch), `"`+whatever+`"`) { // a tag that no document has; who sends it means something else
		return fail.New(fail.Precondition, "%s is \"%s\", a tag, and what is stored here has no entity tags; send %[2]s without quotes (it is not there), or leave it out", ifNoneMatch, whatever)
	}
	return nil
}

// write puts a document, or does only one of the two as the request's conditions say: create it, or replace it.
func write(ctx context.Context, r *http.Request, s door.Service, o domain.Object) (created bool, err error) {
	only, err := conditions(ctx, r, s, o)
	switch {
	case err != nil:
		return false, err
	case only == door.Create:
		return true, s.Create(ctx, o)
	case only == door.Put:
		return false, s.Replace(ctx, o)
	default:
		return s.Put(ctx, o)
	}
}

// conditions looks whether those of a request hold for a document, and says which of the two may be done alone: door.Create to create it, door.Put to
// replace it, and nothing for either.
func conditions(ctx context.Context, r *http.Request, s door.Service, o domain.Object) (only door.Verb, err error) {
	create, replace := r.Header.Get(ifNoneMatch) == whatever, r.Header.Get(ifMatch) == whatever
	if !create && !replace {
		return "", nil
	}
	_, err = s.Get(ctx, o.Noun(), domain.KeyOf(o))
	there := err == nil
	switch {
	case err != nil && !fail.Is(err, fail.NotFound):
		return "", err
	case create && there:
		return "", fail.New(fail.Precondition, "%s is %s, and the %s %q is there already", ifNoneMatch, whatever, o.Noun().Title, o.LocalName())
	case replace && !there:
		return "", fail.New(fail.Precondition, "%s is %s, and there is no %s %q", ifMatch, whatever, o.Noun().Title, o.LocalName())
	case create:
		return door.Create, nil
	default:
		return door.Put, nil
	}
}

// request is what a request to the endpoint asks for. NotFound when a name in the path is none.
func (p endpoint) request(c echo.Context) (*door.Request, error) {
	r := &door.Request{Verb: p.verb, Noun: p.noun}
	if p.noun.New == nil { // no document: its id may be anything
		above := parentOf(p.path)
		name := p.noun.Names[0]
		if all, _, one := strings.Cut(p.path+"/", "/:"+name+"/"); one {
			above = parentOf(all)
			if r.Name = param(c, name); !utf8.ValidString(r.Name) {
				return nil, fail.New(fail.NotFound, "%q is not a name: there is no such %s", r.Name, name)
			}
		}
		parent, err := keyOf(c, above)
		r.Parent = parent
		return r, err
	}
	one, many := onePath(p.noun), manyPath(p.noun)
	if !strings.HasPrefix(p.path+"/", one+"/") && strings.HasPrefix(p.path, many+"/") { // of all of them, such as a preview
		parent, err := keyOf(c, parentOf(many))
		return &door.Request{Verb: p.verb, Noun: p.noun, Parent: parent}, err
	}
	if !strings.HasPrefix(p.path+"/", one+"/") {
		parent, err := keyOf(c, parentOf(p.path))
		r.Parent = parent
		return r, err
	}
	key, err := keyOf(c, one)
	if err == nil {
		r.Parent, r.Name = domain.Cut(p.noun, key)
	}
	return r, err
}

// manyPath is the template of the path, below /v2, of all documents of a noun that have one parent, and onePath that of one.
func manyPath(n *domain.Noun) string {
	if n == nil {
		return ""
	}
	return onePath(n.Parent) + "/" + n.Collection
}

func onePath(n *domain.Noun) string {
	if n == nil {
		return ""
	}
	return manyPath(n) + itemPath(n)
}

// itemPath is what onePath has more than manyPath.
func itemPath(n *domain.Noun) string {
	var b strings.Builder
	for _, name := range n.Names {
		b.WriteString("/:" + name)
	}
	return b.String()
}
