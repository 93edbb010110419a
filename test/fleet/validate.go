package fleet

import (
	"cmp"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validate checks the little that clients run into most: names, labels, ports, and what may not change. API
// servers check far more. was is nil for a new object.
func validate(at id, was, content map[string]any) error {
	problems := validateMetadata(at, member(content, "metadata"))
	switch {
	case at.kind.Group == "" && at.kind.Kind == "Service":
		problems = append(problems, validatePorts(member(content, "spec"))...)
	case at.kind.Group == "" && (at.kind.Kind == "ConfigMap" || at.kind.Kind == "Secret"):
		problems = append(problems, validateImmutable(was, content)...)
	case at.kind.Group == "apps" || at.kind.Group == "batch" && at.kind.Kind == "Job":
		problems = append(problems, validateSelector(was, content)...)
	}
	if len(problems) == 0 {
		return nil
	}
	return apierrors.NewInvalid(at.kind.GroupKind(), at.name, problems)
}

func validateMetadata(at id, metadata map[string]any) field.ErrorList {
	var problems field.ErrorList
	at0 := field.NewPath("metadata")
	check := validation.NameIsDNSSubdomain
	switch {
	case at.name == "":
		problems = append(problems, field.Required(at0.Child("name"), "name or generateName is required"))
		return problems
	case at.kind == namespaceKind:
		check = validation.NameIsDNSLabel
	case at.kind.Group == "" && at.kind.Kind == "Service":
		check = validation.NameIsDNS1035Label
	case at.kind.Group == "rbac.authorization.k8s.io":
		check = anySegment
	}
	for _, problem := range check(at.name, false) {
		problems = append(problems, field.Invalid(at0.Child("name"), at.name, problem))
	}
	labels := map[string]string{}
	for name := range member(metadata, "labels") {
		labels[name] = text(member(metadata, "labels"), name)
	}
	return append(problems, metavalidation.ValidateLabels(labels, at0.Child("labels"))...)
}

// anySegment is the rule for names that only have to fit into a URL.
func anySegment(name string, _ bool) []string {
	if name == "." || name == ".." || strings.ContainsAny(name, "/%") {
		return []string{`may not be "." or "..", or contain "/" or "%"`}
	}
	return nil
}

func validatePorts(spec map[string]any) field.ErrorList {
	const highest = 65535
	var problems field.ErrorList
	seen := map[string]bool{}
	for i, p := range list(spec, "ports") {
		port, _ := p.(map[string]any)
		protocol, _ := port["protocol"].(string)
		if key := fmt.Sprint(cmp.Or(protocol, "TCP"), port["port"]); seen[key] {
			problems = append(problems, field.Duplicate(field.NewPath("spec", "ports").Index(i), port))
		} else {
			seen[key] = true
		}
		if number, ok := port["port"].(int64); !ok || number < 1 || number > highest {
			problems = append(problems, field.Invalid(field.NewPath("spec", "ports").Index(i).Child("port"), port["port"],
				fmt.Sprintf("must be between 1 and %d, inclusive", highest)))
		}
	}
	return problems
}

func validateImmutable(was, content map[string]any) field.ErrorList {
	if was["immutable"] != true {
		return nil
	}
	var problems field.ErrorList
	for _, name := range []string{"immutable", "data", "binaryData"} {
		if !equal(map[string]any{name: was[name]}, map[string]any{name: content[name]}) {
			problems = append(problems, field.Forbidden(field.NewPath(name), "field is immutable when `immutable` is set"))
		}
	}
	return problems
}

func validateSelector(was, content map[string]any) field.ErrorList {
	before, after := member(member(was, "spec"), "selector"), member(member(content, "spec"), "selector")
	if was == nil || equal(before, after) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "selector"), after, validation.FieldImmutableErrorMsg)}
}
