package render

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/drover-io/drover/internal/plan"
)

// unsteadyFunctions give something else each time: at random, or by the clock.
var unsteadyFunctions = []string{
	"ago", "now", "bcrypt", "encryptAES", "genCA", "genCAWithKey", "genPrivateKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert",
	"genSignedCertWithKey", "htpasswd", "randAlpha", "randAlphaNum", "randAscii", "randBytes", "randInt", "randNumeric", "shuffle", "uuidv4",
}

// watched are the unsteady functions; one that is called notes it.
func watched(called *bool) template.FuncMap {
	all, out := functions(), template.FuncMap{}
	for _, name := range unsteadyFunctions {
		f := reflect.ValueOf(all[name])
		out[name] = reflect.MakeFunc(f.Type(), func(args []reflect.Value) []reflect.Value {
			*called = true
			if f.Type().IsVariadic() {
				return f.CallSlice(args)
			}
			return f.Call(args)
		}).Interface()
	}
	return out
}

// Bounds of what is rendered once more for a warning: it is in the time and the memory of the first rendering.
const (
	quick = 8       // the part of the time that the first one has at most taken
	small = 8 << 20 // bytes of its manifests
)

// unsteady warns of the resources of a bundle that are different when the chart is rendered again, which every update does: passwords,
// certificates, and what has sums of these.
func unsteady(ctx context.Context, l Limits, in Input, begun time.Time, first *plan.Bundle) []string {
	bytes := 0
	for i := range first.Resources {
		bytes += len(first.Resources[i].Manifest)
	}
	if bytes > small || time.Since(begun) > l.Time/quick {
		return nil
	}
	second, _, err := renderOnce(ctx, l, in)
	if err != nil {
		return nil // the first one counts
	}
	type manifest struct {
		id   plan.ResourceID
		text string
	}
	again := map[manifest]bool{}
	for i := range second.Resources {
		again[manifest{second.Resources[i].ResourceID, string(second.Resources[i].Manifest)}] = true
	}
	var names []string
	more := 0
	for i := range first.Resources {
		r := &first.Resources[i]
		name := r.Kind + " " + r.Name
		switch {
		case r.Hook != nil && !plan.HasHooks(r.Hook.Events, "update"): // no update sends it
		case again[manifest{r.ResourceID, string(r.Manifest)}] || slices.Contains(names, name): // a hook may be there twice
		case len(names) == maxWarnings:
			more++
		default:
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return []string{fmt.Sprintf("each update changes %s, in which the chart has something random, or the time: give it as a value", strings.Join(names, ", "))}
}
