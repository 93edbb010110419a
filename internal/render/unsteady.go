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

// unsteadyFunctions give something else each time, at random. Those that go by the clock are of clockFunctions.
var unsteadyFunctions = []string{
	"bcrypt", "encryptAES", "genCA", "genCAWithKey", "genPrivateKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert",
	"genSignedCertWithKey", "htpasswd", "randAlpha", "randAlphaNum", "randAscii", "randBytes", "randInt", "randNumeric", "shuffle", "uuidv4",
}

// watched are the unsteady functions; one that is called notes it. Those that go by the clock have one that is ahead.
func watched(called *bool, ahead time.Duration) template.FuncMap {
	all, out := functions(), clockFunctions(called, ahead)
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

// clockFunctions are those that go by the clock, with one that is ahead; one that does notes it. Most do it only with some arguments: sprig writes the
// time of now for what is no date, such as the number of a values file.
func clockFunctions(called *bool, ahead time.Duration) template.FuncMap {
	all := functions()
	date := all["date"].(func(string, any) string)
	dateInZone := all["dateInZone"].(func(string, any, string) string)
	htmlDate := all["htmlDate"].(func(any) string)
	htmlDateInZone := all["htmlDateInZone"].(func(any, string) string)
	ago, durationRound := all["ago"].(func(any) string), all["durationRound"].(func(any) string)
	now := func() time.Time {
		*called = true
		return time.Now().Add(ahead)
	}
	dated := func(v any) any {
		switch v.(type) {
		case time.Time, *time.Time, int64, int, int32:
			return v
		default:
			return now()
		}
	}
	inZone := func(layout string, v any, zone string) string { return dateInZone(layout, dated(v), zone) }
	// since has a function that tells how long ago a date was see it as long ago as it is by the clock that is ahead.
	since := func(v any) any {
		switch date := v.(type) {
		case time.Time:
			*called = true
			return date.Add(-ahead)
		case int64:
			*called = true
			return date - int64(ahead.Seconds())
		case int:
			*called = true
			return date - int(ahead.Seconds())
		default:
			return v // which is just now
		}
	}
	return template.FuncMap{
		"now":            now,
		"date":           func(layout string, v any) string { return date(layout, dated(v)) },
		"dateInZone":     inZone,
		"date_in_zone":   inZone,
		"htmlDate":       func(v any) string { return htmlDate(dated(v)) },
		"htmlDateInZone": func(v any, zone string) string { return htmlDateInZone(dated(v), zone) },
		"ago":            func(v any) string { return ago(since(v)) },
		"durationRound": func(v any) string {
			if _, ok := v.(time.Time); !ok {
				return durationRound(v) // a duration
			}
			return durationRound(since(v))
		},
	}
}

// later is how far the clock of the second rendering is ahead, which comes within milliseconds of the first one: each part of a date is another one
// then, the year as well as the second.
const later = 400*24*time.Hour + 2*time.Hour + time.Minute + time.Second

// Bounds of what is rendered once more for a warning: it is in the time and the memory of the first rendering.
const (
	quick = 8       // the part of the time that the first one has at most taken
	small = 8 << 20 // bytes of its manifests
)

// unsteady are the resources of a bundle, as "KIND NAME", that are different when the chart is rendered again at another time, which every update does:
// passwords, certificates, dates, and what has sums of these.
func unsteady(ctx context.Context, l Limits, in Input, begun time.Time, first *plan.Bundle) []string {
	bytes := 0
	for i := range first.Resources {
		bytes += len(first.Resources[i].Manifest)
	}
	if bytes > small || time.Since(begun) > l.Time/quick {
		return nil
	}
	second, _, err := renderOnce(ctx, l, in, later)
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
	known := map[string]bool{}
	for i := range first.Resources {
		r := &first.Resources[i]
		name := r.Kind + " " + r.Name
		switch {
		case r.Hook != nil && !plan.HasHooks(r.Hook.Events, "update"): // no update sends it
		case again[manifest{r.ResourceID, string(r.Manifest)}] || known[name]: // a hook may be there twice
		default:
			names = append(names, name)
			known[name] = true
		}
	}
	return names
}

// asUnsteady warns of such resources.
func asUnsteady(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("updates change %s, in which the chart has something random, or the time: give it as a value", firstOf(names))}
}

// firstOf are the first ones of many names, and how many there are beside.
func firstOf(names []string) string {
	if more := len(names) - maxWarnings; more > 0 {
		names = append(slices.Clone(names[:maxWarnings]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
