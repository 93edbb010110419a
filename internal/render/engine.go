package render

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// engine runs a chart's templates by Helm's rules (helm.sh/helm/v4/pkg/engine, with which a test compares
// it), but under control: Helm's engine cannot be stopped, and values that call tpl on themselves overflow
// its stack, which ends the whole process. Here every loop, every template and every write passes a brake.
type engine struct {
	ctx    context.Context // only for its end
	limits Limits
	braked map[*parse.Tree]bool
	writes int
	ahead  time.Duration   // how far the clock of the templates is ahead
	varies bool            // a function was called that gives something else each time
	missed map[string]bool // API versions that templates have asked for, and that clusters need not have

	inNotes  bool     // what is rendered is text for people
	sought   []sought // what templates have looked for in the cluster, see lookup
	released []string // the members of .Release that templates have asked for, of sameReleases
}

// render gives the text of each template file by its path; partials are left out.
func (e *engine) render(ch *chart.Chart, scope common.Values) (map[string]string, error) {
	sources, err := templatesOf(ch, scope)
	if err != nil {
		return nil, err
	}
	t, err := e.parse(sources)
	if err != nil {
		return nil, err
	}
	files := make(map[string]string, len(sources))
	left := e.limits.Output
	for _, name := range parseOrder(sources) {
		if isPartial(name) {
			continue
		}
		s := sources[name]
		s.scope["Template"] = common.Values{"Name": name, "BasePath": s.basePath}
		e.inNotes = strings.HasSuffix(name, notesFile)
		at(e.ctx, "%s: rendering it", name)
		text, err := e.include(t, name, s.scope)
		if err != nil {
			return nil, e.explain(err)
		}
		if left -= len(text); left < 0 {
			return nil, e.explain(errTooBig)
		}
		files[name] = noValue.Replace(text)
	}
	return files, nil
}

// parse reads all templates into one set, in which each can use what others define.
func (e *engine) parse(sources map[string]source) (*template.Template, error) {
	e.braked = map[*parse.Tree]bool{}
	t := template.New("gotpl").Option("missingkey=zero")
	t.Funcs(functions())
	t.Funcs(watched(&e.varies, e.ahead))
	t.Funcs(template.FuncMap{hasVersion: e.hasVersion, ofRelease: e.release, "lookup": e.lookup})
	e.bind(t)
	for _, name := range parseOrder(sources) {
		text := sources[name].text
		if err := checkTemplate(name, text); err != nil {
			return nil, err
		}
		at(e.ctx, "%s: parsing it", name)
		if _, err := t.New(name).Parse(text); err != nil {
			return nil, cut(err)
		}
	}
	e.brake(t)
	return t, nil
}

// bind gives t the functions that run templates of its own set.
func (e *engine) bind(t *template.Template) {
	t.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) { return e.include(t, name, data) },
		"tpl":     func(text string, data any) (string, error) { return e.tpl(t, text, data) },
	})
}

// include runs the template of t's set that has the name.
func (e *engine) include(t *template.Template, name string, data any) (string, error) {
	named := t.Lookup(name)
	if named == nil {
		return "", fmt.Errorf("template: no template %q associated with template %q", name, t.Name())
	}
	return e.execute(named, data)
}

// tpl runs text as a template that sees what t's set defines; what it defines itself stays inside.
func (e *engine) tpl(t *template.Template, text string, data any) (string, error) {
	if err := checkTemplate("text given to tpl", text); err != nil {
		return "", err
	}
	inner, err := t.Clone()
	if err != nil {
		return "", fmt.Errorf("cannot clone template: %w", err)
	}
	inner.Option("missingkey=zero") // a clone forgets it: golang.org/issue/43022
	e.bind(inner)
	// A new template, and that one is executed, not what its set has under the name: where text is nothing but
	// definitions, that is still the template which called tpl.
	inner, err = inner.New(t.Name()).Parse(text)
	if err != nil {
		return "", fmt.Errorf("cannot parse template %q: %w", text, err)
	}
	e.brake(inner)
	out, err := e.execute(inner, data)
	switch {
	case err == nil:
	case isLimit(err):
		return "", err // as it is: it has come through a thousand levels
	default:
		return "", fmt.Errorf("error during tpl function execution for %q: %w", text, err)
	}
	return noValue.Replace(out), nil
}

// noValue drops what text/template writes for a missing value of unknown type, missingkey=zero or not.
var noValue = strings.NewReplacer("<no value>", "")

func (e *engine) execute(t *template.Template, data any) (string, error) {
	w := writer{engine: e}
	err := t.Execute(&w, data)
	return w.text.String(), err
}

// refusal is what a template says with fail or required.
type refusal struct{ text string }

func (r refusal) Error() string { return r.text }

// explain cuts an execution error down to what its reader needs: our limits and a template's own words
// without the stack of templates around them, anything else as text/template says it.
func (e *engine) explain(err error) error {
	var said refusal
	switch {
	case errors.Is(err, errTooLong):
		return errTooLong
	case errors.Is(err, errTooBig):
		return fmt.Errorf("%w than %d bytes", errTooBig, e.limits.Output)
	case errors.Is(err, errTooDeep):
		return fmt.Errorf("%s%w", location(err), errTooDeep)
	case errors.As(err, &said):
		return fmt.Errorf("%s%w", location(err), said)
	default:
		return cut(err)
	}
}

// cut leaves file, line and complaint of what text/template says.
func cut(err error) error { return errors.New(strings.TrimPrefix(err.Error(), "template: ")) }

// location is "<file>:<line>:<column>: " of the outermost template of an execution error.
func location(err error) string {
	parts := strings.SplitN(err.Error(), ": ", 3)
	if len(parts) < 3 || parts[0] != "template" {
		return ""
	}
	return parts[1] + ": "
}
