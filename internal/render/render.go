// Package render turns an app's chart, its profile and override values into the resources that are applied:
// bytes in, a plan.Bundle out, without a cluster, a network or a file. It does what `helm install
// --dry-run=client` does, in the way EMCO uses Helm's library; charts, values, dependencies and hooks are
// Helm's own code. The template engine is this package's, after Helm's, because Helm's cannot be stopped.
//
// Charts of strangers are rendered and checked by Processes, in child processes: a chart that finds a way around the
// limits ends no more than one of them.
//
// The same input gives the same bundle, save for what templates draw from sprig's clock and random
// functions (now, randAlphaNum, genCA and their like).
package render

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

// Input is all that a bundle depends on.
type Input struct {
	App     string
	Chart   []byte // tgz with the chart in a directory named like the app
	Profile []byte // tgz with manifest.yaml at its root; nil when the app has none
	// OverrideValues are set as with Helm's --set, in the order of their keys: dots nest, types are
	// inferred, commas and backslashes need Helm's escapes.
	OverrideValues map[string]string
	Release        string // Helm release name: the deployment intent group's spec.version
	Namespace      string // the logical cloud's; objects that name none are not given it here
	Limits         Limits
}

// Limits bound one rendering; a member that is 0 has its value of DefaultLimits.
//
// Loops, recursion and output of templates stop at the limits. What one call of a function takes does not
// ("until 1000000000", values that are made to contain themselves): that ends the process, see Processes.
type Limits struct {
	Time   time.Duration // of one Render, all steps together
	Output int           // bytes of text that all templates write
}

// DefaultLimits are generous: charts with thousands of resources render in a second or two.
var DefaultLimits = Limits{Time: policy.Render, Output: limits.Written}

// Render makes the bundle of one app. Resources are in the order in which they are applied: by stage
// (plan.StageOf), kind (Helm's InstallOrder), name. Hooks follow them, ordered by weight, kind and
// name; test hooks are dropped. Manifests are compact JSON with sorted keys, as rendered, without namespace or labels of ours.
//
// An error is Invalid, or Malformed for an archive that cannot be read. Its message names the app, the file
// and what Helm, the template or YAML says. Exceeding a limit is Invalid too: trying again does not help.
func Render(in Input) (*plan.Bundle, error) { return renderIn(context.Background(), in) }

func renderIn(ctx context.Context, in Input) (*plan.Bundle, error) {
	return guarded(ctx, in.App, in.Limits, func(ctx context.Context, l Limits) (*plan.Bundle, error) {
		return render(ctx, l, in)
	})
}

func render(ctx context.Context, l Limits, in Input) (*plan.Bundle, error) {
	begun := time.Now()
	b, e, err := renderOnce(ctx, l, in, 0)
	if err != nil {
		return nil, err
	}
	var differ []string
	if e.varies {
		differ = unsteady(ctx, l, in, begun, b)
		b.Warnings = append(b.Warnings, asUnsteady(differ)...)
	}
	b.Warnings = append(b.Warnings, e.unfound(b, differ)...)
	return b, nil
}

// renderOnce renders by a clock that is ahead; the engine knows what the templates have asked for.
func renderOnce(ctx context.Context, l Limits, in Input, ahead time.Duration) (*plan.Bundle, *engine, error) {
	if err := chartutil.ValidateReleaseName(in.Release); err != nil {
		return nil, nil, fmt.Errorf("release name %q: %w", in.Release, err)
	}
	at(ctx, "profile: reading it")
	p, err := readProfile(in.Profile)
	if err != nil {
		return nil, nil, err
	}
	at(ctx, "chart: unpacking it")
	ch, err := loadChart(in.App, in.Chart, p.resources)
	if err != nil {
		return nil, nil, err
	}
	values := p.values
	for _, key := range slices.Sorted(maps.Keys(in.OverrideValues)) {
		if err := set(values, key, in.OverrideValues[key]); err != nil {
			return nil, nil, err
		}
	}
	scope, definitions, err := prepare(ctx, ch, values, in.Release, in.Namespace)
	if err != nil {
		return nil, nil, err
	}
	e := &engine{ctx: ctx, limits: l, ahead: ahead}
	files, err := e.render(ch, scope)
	if err != nil {
		return nil, nil, err
	}
	b, err := bundle(ctx, in, definitions, files)
	if err != nil {
		return nil, nil, err
	}
	b.Warnings = append(append(b.Warnings, e.unserved()...), e.sameReleased()...)
	return b, e, nil
}

// prepare resolves the dependencies of the chart and makes what its templates see as their root. The definitions are the objects of
// the crds directories.
func prepare(ctx context.Context, ch *chart.Chart, values map[string]any, release, namespace string) (scope common.Values, definitions []object, err error) {
	at(ctx, "values: joining them")
	if err := chartutil.ProcessDependencies(ch, values); err != nil {
		return nil, nil, err
	}
	if definitions, err = crds(ctx, ch); err != nil {
		return nil, nil, err
	}
	known, err := capabilities()
	if err != nil {
		return nil, nil, fail.Wrap(err, fail.Internal, "the API versions of Kubernetes cannot be listed")
	}
	at(ctx, "values: joining them")
	options := common.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}
	scope, err = commonutil.ToRenderValuesWithSchemaValidation(ch, values, options, defining(known, definitions), true)
	if err != nil {
		return nil, nil, err
	}
	final, err := scope.Table("Values")
	if err != nil {
		return nil, nil, err
	}
	return scope, definitions, checkSchemas(ctx, ch, final)
}

// guarded runs f under the limits and makes its error one that may be shown. A panic of the libraries below is an error
// of the chart that caused it.
func guarded[T any](ctx context.Context, app string, l Limits, f func(context.Context, Limits) (T, error)) (value T, err error) {
	if l.Time == 0 {
		l.Time = DefaultLimits.Time
	}
	if l.Output == 0 {
		l.Output = DefaultLimits.Output
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.Time, errTooLong)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the chart cannot be processed: %v", p)
		}
		if errors.Is(err, errTooLong) {
			err = fmt.Errorf("%w than %s", errTooLong, l.Time)
		}
		if err != nil {
			var none T
			value, err = none, classify(app, err)
		}
	}()
	return f(ctx, l)
}

// noteKey is where a context has the function that is told what goes on.
type noteKey struct{}

// at says what is done next, for the message that is needed if it ends the process: "web/templates/a.yaml: rendering it".
func at(ctx context.Context, format string, args ...any) {
	if note, ok := ctx.Value(noteKey{}).(func(string)); ok {
		note(fmt.Sprintf(format, args...))
	}
}

// classify makes err an Invalid error about the app, unless something below knew better.
func classify(app string, err error) error {
	e := fail.New(fail.Invalid, "%s", strings.TrimSpace(err.Error()))
	var known *fail.Error
	if errors.As(err, &known) {
		e = fail.Wrap(known.Cause, known.Kind, "%s", known.Text())
	}
	if app != "" {
		e.Message = "app " + app + ": " + e.Message
	}
	return e
}
