package api_test

import "testing"

func TestReadinessRules(t *testing.T) {
	w := newWorld(t)
	const rules, db = "/v2/readiness-rules", "/v2/readiness-rules/db"
	rule := func(name, rest string) string { return `{"metadata":{"name":"` + name + `"},"spec":{` + rest + `}}` }
	const of = `"group":"example.com","kind":"Database"`
	check(t, w.router, []call{
		{method: "POST", url: rules, body: rule("db", of+`,"ready":"object.status.phase == 'Up'","message":"'phase is ' + string(object.status.phase)"`), status: 201},
		{
			name: "where the faults of both expressions are", method: "POST", url: rules, status: 400,
			body:     rule("x", `"kind":"Other","ready":"objekt.a == 1","message":"1 +"`),
			contains: []string{"spec.ready: line 1, column 1: undeclared reference to 'objekt'", "spec.message: line 1, column 4: Syntax error"},
		},
		{
			name: "a second one for the kind", method: "POST", url: rules, body: rule("again", of+`,"ready":"true"`),
			status: 409, contains: []string{`Database.example.com has a readiness rule already: "db"`},
		},
		{name: "one for a version", method: "POST", url: rules, body: rule("v2", of+`,"version":"v2","ready":"true"`), status: 201},
		{name: "which may not become one for all", method: "PUT", url: rules + "/v2", body: rule("v2", of+`,"ready":"true"`), status: 409, contains: []string{`"db`}},
		{name: "a new expression", method: "PUT", url: db, body: rule("db", of+`,"ready":"true"`), status: 200},
		{name: "a bad one", method: "PUT", url: db, body: rule("db", of+`,"ready":"maybe"`), status: 400, contains: []string{"spec.ready"}},
		{name: "leaves what was there", method: "GET", url: db, status: 200, contains: []string{`"ready":"true"`}},
		{method: "DELETE", url: db, status: 204},
		{name: "the kind is free again", method: "PUT", url: rules + "/v2", body: rule("v2", of+`,"ready":"true"`), status: 200},
	})
}
