package api_test

import "testing"

// What is allocatable goes into a container: neither is taken without the other.
func TestRequirementsAndTheirContainers(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	consumers := theHPAIntent + "/hpa-resource-consumers"
	amount := `{"metadata":{"name":"x"},"spec":{"allocatable":true,"resource":{"name":"cpu","requests":1}}}`
	label := `{"metadata":{"name":"x"},"spec":{"allocatable":false,"resource":{"key":"a/b","value":"c"}}}`
	check(t, w.router, []call{
		{method: "POST", url: consumers, body: `{"metadata":{"name":"bare"},"spec":{"name":"r1-web"}}`, status: 201},
		{method: "POST", url: consumers + "/bare/resource-requirements", body: amount, status: 400, contains: []string{`spec.allocatable: resource requirement "x" is allocatable, and hpa resource consumer "bare" has no spec.container`}},
		{method: "GET", url: consumers + "/bare/resource-requirements", status: 200, is: "[]"},
		{method: "PUT", url: consumers + "/bare/resource-requirements/x", body: label, status: 200},
		{method: "PUT", url: consumers + "/bare/resource-requirements/x", body: amount, status: 400, contains: []string{"spec.allocatable"}},
		{method: "PUT", url: consumers + "/bare", body: `{"metadata":{"name":"bare"},"spec":{"name":"r1-web","kind":"StatefulSet"}}`, status: 200},
		{method: "PUT", url: theHPAConsumer, body: `{"metadata":{"name":"c"},"spec":{"name":"r1-web"}}`, status: 400, contains: []string{`spec.container: resource requirement "cpu" is allocatable`}},
		{method: "GET", url: theHPAConsumer, status: 200, contains: []string{`"container":"web"`}},
		{
			name: "units that say otherwise", method: "POST", url: theHPAConsumer + "/resource-requirements", status: 201,
			body:    `{"metadata":{"name":"mem"},"spec":{"allocatable":true,"resource":{"name":"memory","requests":1,"units":"GB"}}}`,
			answers: map[string]string{"Warning": `299 - "spec.resource.units: \"GB\" is not acted on: a number is megabytes of memory (10^6 bytes), and units of all else; for other units send a quantity such as \"500m\" or \"1Gi\""`},
		},
		{
			name: "units that say the same", method: "PUT", url: theHPAConsumer + "/resource-requirements/mem", status: 200,
			body:    `{"metadata":{"name":"mem"},"spec":{"allocatable":true,"resource":{"name":"memory","requests":1,"units":"MB"}}}`,
			answers: map[string]string{"Warning": ""},
		},
		{
			name: "a weight of what is mandatory", method: "PUT", url: theHPAConsumer + "/resource-requirements/mem", status: 200,
			body:    `{"metadata":{"name":"mem"},"spec":{"allocatable":true,"weight":10,"resource":{"name":"memory","requests":1}}}`,
			answers: map[string]string{"Warning": `299 - "spec.weight: nothing is done with 10, since the resource is mandatory; send mandatory false for one that is preferred"`},
		},
		{
			name: "the weight that is meant when none is said", method: "PUT", url: theHPAConsumer + "/resource-requirements/mem", status: 200,
			body:    `{"metadata":{"name":"mem"},"spec":{"allocatable":true,"mandatory":true,"weight":1,"resource":{"name":"memory","requests":1}}}`,
			answers: map[string]string{"Warning": ""},
		},
		{
			name: "a weight of what is preferred", method: "PUT", url: theHPAConsumer + "/resource-requirements/mem", status: 200,
			body:    `{"metadata":{"name":"mem"},"spec":{"allocatable":true,"mandatory":false,"weight":10,"resource":{"name":"memory","requests":1}}}`,
			answers: map[string]string{"Warning": ""},
		},
		{
			name: "an app that is still to come", method: "POST", url: theGroup + "/hpa-intents", body: `{"metadata":{"name":"later"},"spec":{"app":"later"}}`, status: 201,
			answers: map[string]string{"Warning": `299 - "spec.app: composite app \"ca/v1\" has no app \"later\" now"`},
		},
	})
}
