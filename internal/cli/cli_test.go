package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// TestWrongCommandLines: what cannot be understood is said with what would do, nothing is asked, and the exit code is 2.
func TestWrongCommandLines(t *testing.T) {
	w := newWorld(t)
	for want, args := range map[string][]string{
		`drover has no command "fly"`:                                     {"fly"},
		`did you mean "deploy"?`:                                          {"depoly", "./chart"},
		`cluster has no command "chek"; did you mean "check"?`:            {"cluster", "chek", "edge01"},
		`completion has no command "bsh"; did you mean "bash"?`:           {"completion", "bsh"},
		`drover has no command "delpoy"; did you mean "deploy"?`:          {"help", "delpoy"},
		`drover cluster has no command "chek"`:                            {"help", "cluster", "chek"},
		`"clutsers" is no noun; did you mean "clusters"?`:                 {"get", "clutsers"},
		"unknown flag: --fly":                                             {"get", "projects", "--fly"},
		"get needs a noun":                                                {"get"},
		`"things" is no noun`:                                             {"get", "things"},
		"-o xml is none of":                                               {"get", "projects", "-o", "xml"},
		"-o jsonpath= needs a template":                                   {"get", "projects", "-o", "jsonpath="},
		"delete needs the name of an app\n":                               {"delete", "app"},
		`--app-version "v 1": Does not match pattern`:                     {"deploy", "web", "--name", "web", "--clusters", "edge01", "--app-version", "v 1"},
		`--cloud "a/b": Does not match pattern`:                           {"deploy", "web", "--name", "web", "--clusters", "edge01", "--cloud", "a/b"},
		`--project "ü": Does not match pattern`:                           {"deploy", "web", "--name", "web", "--clusters", "edge01", "-p", "ü"},
		"the kubeconfig has no context that is current":                   {"cluster", "add", "p/c", "--kubeconfig", "/dev/null"},
		"-f is needed":                                                    {"apply"},
		`apply takes no argument such as "a.yaml"; files are named by -f`: {"apply", "a.yaml"},
		`top takes no argument such as "web"`:                             {"top", "web"},
		`takes the name of a tenant, and nothing more: "b" is too much`:   {"tenants", "a", "b"},
		"--watch shows a line for each app, and no --tree":                {"status", "web", "--watch", "--tree"},
		"--watch shows words, and no -o json":                             {"status", "web", "--watch", "-o", "json"},
		"--tree shows words, and no -o yaml":                              {"status", "web", "--tree", "-o", "yaml"},
		"no such file":                                                    {"apply", "-f", "/nowhere/file.yaml"},
		`there is no context "none"`:                                      {"get", "projects", "--context", "none"},
		`"ftp://x" is not the URL of an API`:                              {"get", "projects", "--server", "ftp://x"},
		`"http://127.0.0.1:1/#x" is not the URL of an API`:                {"get", "projects", "--server", "http://127.0.0.1:1/#x"},
		`"http://127.0.0.1:1?" is not the URL of an API`:                  {"get", "projects", "--server", "http://127.0.0.1:1?"},
		"--client-certificate and --client-key":                           {"get", "projects", "--client-key", "k"},
		"has more parts than the name of a project":                       {"get", "project", "a/b"},
		`"a b" is no name of a project`:                                   {"get", "project", "a b"},
		"--reapply is of an update":                                       {"diff", "web", "--reapply", "--group", "x"},
		"leave out --to, --version":                                       {"diff", "web", "--reapply", "--to", "0"},
		"--group goes with --version":                                     {"diff", "web", "--to", "2", "--group", "x"},
		`"label=" names no cluster`:                                       {"deploy", "./chart", "--name", "web", "--clusters", "label="},
		`"/edge01" names no cluster`:                                      {"deploy", "./chart", "--name", "web", "--clusters", "/edge01"},
		`"site/" names no cluster`:                                        {"deploy", "./chart", "--name", "web", "--any-of", "site/"},
		"--to is needed":                                                  {"rollback", "web"},
		"is another machine":                                              {"get", "projects", "--server", "http://drover.example", "--token", "t"},
		"--in says nothing of projects":                                   {"get", "projects", "--in", "x"},
		"choose operations":                                               {"get", "projects", "--cluster", "p+c"},
		"--in says nothing of operations":                                 {"get", "operations", "--in", "web"},
		"choose among all operations, and 7-update is named":              {"get", "operations", "7-update", "--state", "Running"},
		"-o name is none of table, json, yaml and jsonpath":               {"audit", "-o", "name"},
		"-o wide is none of table, json, yaml and jsonpath":               {"audit", "-o", "wide"},
		"--account is about the account in the cluster":                   {"cluster", "check", "edge01", "--account", "a"},
		"--account-namespace is about the account in the cluster":         {"cluster", "remove", "edge01", "--account-namespace", "a"},
		"--force is about the account in the cluster":                     {"cluster", "remove", "edge01", "--force"},
		"[narrow use-own-credentials] were all set":                       {"cluster", "add", "p/c", "--use-own-credentials", "--narrow"},
		"[groups use-own-credentials] were all set":                       {"cluster", "add", "p/c", "--use-own-credentials", "--groups", "x"},
		"[logical-cloud-users use-own-credentials] were all set":          {"cluster", "add", "p/c", "--use-own-credentials", "--logical-cloud-users"},
		"[account use-own-credentials] were all set":                      {"cluster", "add", "p/c", "--use-own-credentials", "--account", "x"},
		"[account-namespace use-own-credentials] were all set":            {"cluster", "add", "p/c", "--use-own-credentials", "--account-namespace", "x"},
		"[expires-after use-own-credentials] were all set":                {"cluster", "add", "p/c", "--use-own-credentials", "--expires-after", "1h"},
		"--limit -1 is less than none":                                    {"audit", "--limit", "-1"},
		"--watch shows what goes on, and --quiet":                         {"status", "web", "--watch", "-q"},
		"--timeout says how long --wait waits":                            {"update", "web", "--timeout", "1m"},
		"--timeout says how long --terminate waits":                       {"delete", "group", "web", "--timeout", "1m"},
		"--in and --all-projects go with names":                           {"delete", "-f", "x", "--in", "web"},
		"--values, --recursive and --validate":                            {"delete", "group", "web", "--validate", "strict"},
		"the URL of the server is empty":                                  {"login", ""},
		"the name of a context is empty":                                  {"context", "set", "", "--server", "http://127.0.0.1:1"},
		"-o wide is none of json":                                         {"status", "web", "-o", "wide"},
		"-o table is none of json":                                        {"version", "-o", "table"},
		"either names or -f":                                              {"delete", "project", "p", "-f", "x"},
		`"kv-pairs" may be any of`:                                        {"get", "kv-pairs"},
	} {
		r := w.run(args...)
		require.Equal(t, 2, r.code, "%v: %s", args, r.err)
		require.Contains(t, r.err, want, "%v", args)
		require.Empty(t, r.out, "%v", args)
	}
	require.Zero(t, w.requests.Load())
}

// TestEmptyNames: a name that is empty, as that of a variable that is not set, is not what is there alone.
func TestEmptyNames(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	before := w.requests.Load()
	for want, all := range map[string][][]string{
		"the name of a deployment intent group is empty": {
			{"terminate", ""}, {"instantiate", "group", ""}, {"approve", "group/"}, {"wait", ""}, {"status", ""}, {"explain", "group", ""}, {"diff", ""},
			{"get", "group", "web", ""}, {"describe", "groups", ""}, {"edit", "group", ""},
		},
		"the name of a project is empty":    {{"delete", "project", "", "--cascade", "--terminate"}, {"delete", "project", "demo", ""}, {"export", "project", ""}},
		"the name of a cluster is empty":    {{"cluster", "remove", ""}, {"cluster", "check", ""}, {"delete", "cluster", "", "--abandon"}},
		"the name of an operation is empty": {{"get", "operations", ""}},
	} {
		for _, args := range all {
			r := w.run(args...)
			require.Equal(t, 2, r.code, "%v: %s%s", args, r.out, r.err)
			require.Contains(t, r.err, want, "%v", args)
		}
	}
	require.Equal(t, before, w.requests.Load())
}

// TestTheAPIThatIsNotThere is said so with its address, and the exit code is 5.
func TestTheAPIThatIsNotThere(t *testing.T) {
	w := newWorld(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	url := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	r := w.run("get", "projects", "--server", url)
	require.Equal(t, 5, r.code, r.err)
	require.Contains(t, r.err, "the API cannot be reached ("+url+")")
	require.Contains(t, r.err, "connection refused")
}

// TestWhatIsWaitedForMustBeThere, and the API: a path is taken as it is, so that nothing was asked before. What goes meanwhile is terminated.
func TestWhatIsWaitedForMustBeThere(t *testing.T) {
	w := newWorld(t)
	const group = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	for _, args := range [][]string{{"events", "--follow"}, {"status", group, "--watch"}, {"wait", group}, {"wait", group, "--for=terminated"}} {
		r := w.run(append(args, "--server", "http://127.0.0.1:1")...)
		require.Equal(t, 5, r.code, "%v: %s%s", args, r.out, r.err)
		require.Contains(t, r.err, "127.0.0.1:1")
	}
	for _, name := range []string{"web", group} {
		require.Equal(t, 3, w.run("wait", name, "--for=terminated").code)
	}
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	w.stand(group, domain.Terminated, domain.ContextTerminating, 1)
	goes := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		response, err := http.Get(w.url + r.URL.RequestURI())
		if err != nil {
			t.Error(err)
			return
		}
		defer response.Body.Close()
		for _, name := range []string{"Content-Type", "X-Request-Id"} {
			out.Header().Set(name, response.Header.Get(name))
		}
		out.WriteHeader(response.StatusCode)
		_, _ = io.Copy(out, response.Body)
		object, err := w.db.Get(t.Context(), domain.DeploymentIntentGroups, group)
		if err == nil {
			err = w.db.Delete(t.Context(), domain.DeploymentIntentGroups, group, object.Base().Revision)
		}
		if err != nil && !fail.Is(err, fail.NotFound) {
			t.Error(err)
		}
	}))
	t.Cleanup(goes.Close)
	require.Zero(t, w.run("wait", group, "--for=terminated", "--server", goes.URL).code)
}

// TestAUserWhoHasEnough: a command that is interrupted ends with 130.
func TestAUserWhoHasEnough(t *testing.T) {
	w := newWorld(t)
	for noun, shown := range map[string]string{"projects": "NAME", "operations": "7-update   update"} {
		ctx, cancel := context.WithCancel(t.Context())
		out := &signals{seen: cancel}
		var stderr bytes.Buffer
		require.Equal(t, 130, w.start(ctx, nil, out, &stderr, "get", noun, "--watch"), stderr.String())
		require.Contains(t, out.text.String(), shown)
	}
}

// signals says when something was written, and keeps it.
type signals struct {
	seen func()
	text bytes.Buffer
}

func (s *signals) Write(p []byte) (int, error) { s.seen(); return s.text.Write(p) }

// TestLogin: without a login the API says how to; a token that it does not know is not kept; one that it knows is kept where nobody
// else can read it, and proves who asks from then on, to that server alone.
func TestLogin(t *testing.T) {
	w := newWorldWith(t, knows)
	url := w.env["DROVER_SERVER"]
	delete(w.env, "DROVER_SERVER")
	r := w.run("get", "projects", "--server", url)
	require.Equal(t, 4, r.code)
	require.Contains(t, r.err, "Log in with: drover login http://API --token-file FILE")

	r = w.feed("bad\n", "login", url)
	require.Equal(t, 4, r.code, r.err)
	require.Contains(t, r.err, "does not accept the token")
	require.NoFileExists(t, filepath.Join(w.env["XDG_CONFIG_HOME"], "drover", "config.yaml"))

	w.env["DROVER_PROJECT"] = "of-this-shell"
	r = w.feed("good\n", "login", url, "--name", "here", "-q")
	require.Zero(t, r.code, r.err)
	require.Empty(t, r.out+r.err)
	require.NotContains(t, w.done("context", "list"), "of-this-shell")
	delete(w.env, "DROVER_PROJECT")
	info, err := os.Stat(filepath.Join(w.env["XDG_CONFIG_HOME"], "drover", "config.yaml"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NotContains(t, w.run("get", "projects").err, "Log in")

	elsewhere := newWorldWith(t, knows)
	w.env["DROVER_SERVER"] = elsewhere.url
	require.Contains(t, w.run("get", "projects").err, "Log in with")
	w.env["DROVER_TOKEN"] = "good"
	require.NotContains(t, w.run("get", "projects").err, "Log in with")
}

// TestATokenAsItWasCopied: what stands around it is none of it, wherever it is given; one of several lines is refused by where it is from, and never sent.
func TestATokenAsItWasCopied(t *testing.T) {
	w := newWorldWith(t, knows)
	const copied, broken = " good\r\n\r\n", "go\r\nod"
	ways := map[string]func(token string) result{
		"--token": func(token string) result { return w.run("get", "projects", "--token", token) },
		"DROVER_TOKEN": func(token string) result {
			w.env["DROVER_TOKEN"] = token
			defer delete(w.env, "DROVER_TOKEN")
			return w.run("get", "projects")
		},
		"CONFIG/file":        func(token string) result { return w.run("get", "projects", "--token-file", w.file("file", token)) },
		"the standard input": func(token string) result { return w.feed(token, "login", w.url) },
		"--token ":           func(token string) result { return w.run("login", w.url, "--token", token) },
		"--token  ":          func(token string) result { return w.run("context", "set", "x", "--server", w.url, "--token", token) },
	}
	for from, way := range ways {
		r := way(copied)
		require.Zero(t, r.code, "%s: %s", from, r.err)
		before := w.requests.Load()
		for _, token := range []string{broken, " \n"} {
			r = way(token)
			require.Equal(t, 2, r.code, "%s: %s", from, r.err)
			require.Contains(t, r.err, strings.TrimSpace(from)+" has no token, or more than one word")
		}
		if from != "the standard input" { // where it is asked first how one logs in
			require.Equal(t, before, w.requests.Load(), from)
		}
	}
	require.Contains(t, w.settings(), "token: good\n")
}

// TestWhatStandsAboveALogin is named to who logs in or uses a context, and where it is refused: to log in once more helps nobody.
func TestWhatStandsAboveALogin(t *testing.T) {
	w := newWorldWith(t, knows)
	file, bad := w.file("token", "good\n"), w.file("bad", "bad\n")
	login := []string{"login", w.url, "--token-file", file, "--name", "here", "-q"}
	require.Empty(t, w.run(login...).err)
	for variable, value := range map[string]string{"DROVER_TOKEN": "bad", "DROVER_TOKEN_FILE": bad} {
		w.env[variable] = value
		for _, args := range [][]string{login, {"context", "use", "here"}} {
			r := w.run(args...)
			require.Zero(t, r.code, r.err)
			require.Equal(t, "Warning: "+variable+" is set, and stands above context here: commands show its token until it is unset\n", r.err, "%v", args)
		}
		r := w.run("get", "projects")
		require.Equal(t, 4, r.code, r.out)
		require.Contains(t, r.err, "The token is that of "+variable+", which stands above every login\n")
		require.NotContains(t, r.err, "Log in with")
		r = w.run("get", "projects", "--token", "worse")
		require.Contains(t, r.err, "Log in with", "it is not that of the variable")
		delete(w.env, variable)
	}
	w.done("context", "set", "there", "--server", "https://drover.example")
	w.env["DROVER_CONTEXT"] = "there"
	require.Contains(t, w.run("context", "use", "here").err, "Warning: DROVER_CONTEXT is set, and stands above context here: commands use there until")
	require.Equal(t, "Warning: DROVER_SERVER is set, and stands above context there: commands ask http://API until it is unset\n", w.run("context", "use", "there").err)
}

// TestLoginAtASecondServer: the context of the first one stays as it is.
func TestLoginAtASecondServer(t *testing.T) {
	w, other := newWorldWith(t, knows), newWorldWith(t, knows)
	delete(w.env, "DROVER_SERVER")
	require.Zero(t, w.feed("good\n", "login", w.url, "--name", "prod").code)
	require.Zero(t, w.feed("good\n", "login", w.url).code) // of the same server, again
	require.Equal(t, 1, strings.Count(w.settings(), "server:"))
	r := w.feed("good\n", "login", other.url)
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.out, "as context 127.0.0.1\n")
	require.Contains(t, w.settings(), "- name: prod\n  server: "+w.url+"\n  token: good\n")

	// Two of one host.
	w.done("context", "use", "prod")
	third, before := newWorldWith(t, knows), w.settings()
	r = w.feed("good\n", "login", third.url)
	require.Equal(t, 2, r.code, r.out)
	require.Contains(t, r.err, "context 127.0.0.1 is of "+other.url+", and would be lost: --name")
	require.Equal(t, before, w.settings())
	require.Zero(t, w.feed("good\n", "login", third.url, "--name", "third").code)
}

// TestSettingsBehindALink: the file that a link leads to is written, and the link stays: else its tokens would stay there.
func TestSettingsBehindALink(t *testing.T) {
	w := newWorld(t)
	home := w.env["XDG_CONFIG_HOME"]
	require.NoError(t, os.MkdirAll(filepath.Join(home, "drover"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(home, "dots"), 0o700))
	link, file := filepath.Join(home, "drover", "config.yaml"), filepath.Join(home, "dots", "drover.yaml")
	require.NoError(t, os.Symlink("../dots/drover.yaml", link))
	for _, token := range []string{"first", "second"} { // the link leads to nothing at first
		w.done("context", "set", "here", "--server", w.url, "--token", token)
		info, err := os.Lstat(link)
		require.NoError(t, err)
		require.Equal(t, os.ModeSymlink, info.Mode().Type())
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(data), "token: "+token)
	}
	require.NoFileExists(t, filepath.Join(home, "drover", ".login.lock"))
	require.FileExists(t, filepath.Join(home, "dots", ".login.lock"))
}

// TestContexts: contexts are listed, changed, used and forgotten, and what a flag says is before the environment and the file.
func TestContexts(t *testing.T) {
	w := newWorld(t)
	delete(w.env, "DROVER_SERVER")
	token := w.file("token", "sesame\n")
	w.done("context", "set", "here", "--server", w.url, "--token-file", token)
	w.done("context", "set", "there", "--server", "https://drover.example/v2/", "--project", "demo")
	list := w.done("context", "list")
	require.Regexp(t, `^CURRENT +NAME +SERVER +LOGIN +PROJECT\n\* +here +http://API +token\n +there +https://drover.example +- +demo\n$`, list)
	require.JSONEq(t, `{"items": [
		{"name": "here", "current": true, "server": "http://API", "login": "token"},
		{"name": "there", "current": false, "server": "https://drover.example", "project": "demo"}
	]}`, w.done("context", "list", "-o", "json"))
	w.done("context", "use", "there")
	w.env["DROVER_CONTEXT"] = "here"
	require.Zero(t, w.run("get", "projects").code)
	delete(w.env, "DROVER_CONTEXT")
	require.Zero(t, w.run("get", "projects", "--context", "here").code)
	w.done("context", "set", "there", "--server", "http://drover.example", "--plaintext", "--token", "sesame")
	require.Contains(t, w.run("get", "projects", "--context", "there", "--plaintext=false").err, "is another machine")
	require.Equal(t, 2, w.run("context", "set", "there", "--plaintext=false").code, "as of its token")
	w.done("context", "set", "there", "--server", "https://drover.example", "--plaintext=false", "--project", "")
	require.NotContains(t, w.settings(), "plaintext")
	require.NotContains(t, w.settings(), "demo")
	w.done("context", "delete", "there")
	require.Equal(t, 2, w.run("context", "use", "there").code)
	require.Contains(t, w.run("context", "set", "x", "--server", w.url, "--ca", token).err, "has no certificates")
	require.Equal(t, 2, w.run("context", "set", "x", "--server", w.url, "--token-file", "/nowhere").code)
	require.NoError(t, os.Chmod(filepath.Join(w.env["XDG_CONFIG_HOME"], "drover", "config.yaml"), 0o644))
	require.Equal(t, 1, strings.Count(w.run("get", "projects", "-q").err, "Warning: others can read"), "a warning, which is not hidden, once")
}

// TestWhichContextIsMeant: a login is not forgotten for another server's, a file of contexts that is misspelt is not taken for an empty one, and who deletes
// the current context learns that there is none.
func TestWhichContextIsMeant(t *testing.T) {
	w := newWorldWith(t, knows)
	delete(w.env, "DROVER_SERVER")
	r := w.run("logout")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "no context is current, so that there is no login to forget")
	w.done("login", w.url, "--name", "here", "--token", "good")
	r = w.run("logout", "--server", "https://other.example")
	require.Equal(t, 2, r.code, r.out)
	require.Contains(t, r.err, "context here is of http://API, and not of https://other.example")
	require.Zero(t, w.run("get", "projects").code, "the login is still there")

	file := filepath.Join(t.TempDir(), "config.yaml")
	for _, args := range [][]string{{"get", "projects", "--server", w.url}, {"context", "list"}, {"context", "use", "here"}, {"logout"}} {
		r = w.run(append(args, "--config", file)...)
		require.Equal(t, 2, r.code, "%v: %s", args, r.out)
		require.Contains(t, r.err, file+" is not there: --config names a file of contexts")
	}
	w.done("login", w.url, "--token", "good", "--config", file)
	require.Zero(t, w.run("get", "projects", "--config", file).code)
	w.done("context", "set", "x", "--server", w.url, "--config", file+".other")
	require.FileExists(t, file+".other")

	w.done("context", "set", "there", "--server", "https://drover.example")
	require.Empty(t, w.run("context", "delete", "there").err)
	require.Contains(t, w.run("context", "delete", "here").err, "No context is current now: commands ask http://127.0.0.1:9015, unless")
	require.Zero(t, w.run("login", w.url, "--name", "here", "--token", "good").code)
	require.Zero(t, w.run("logout", "--server", w.url+"/v2").code)
}

// TestOutputThatIsLost: who takes what was printed for the whole learns that it is not.
func TestOutputThatIsLost(t *testing.T) {
	w := newWorld(t)
	w.feed("resourceContext: {anchor: projects}\nmetadata: {name: p}\n", "apply", "-f", "-")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, full.Close()) }()
	for _, form := range []string{"name", "yaml", "json", "wide"} {
		var stderr bytes.Buffer
		require.Equal(t, 1, w.start(t.Context(), nil, full, &stderr, "get", "projects", "-o", form), form)
		require.Contains(t, stderr.String(), "no space left on device", form)
	}
	require.Equal(t, 1, w.start(t.Context(), nil, full, io.Discard, "get", "--help"), "the command line was not wrong")
}

// TestAUserWithoutAFolder, as a service or a container: all may be said by variables and flags, and only what is to be kept has no place.
func TestAUserWithoutAFolder(t *testing.T) {
	w := newWorldWith(t, knows)
	delete(w.env, "XDG_CONFIG_HOME")
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", "")
	w.env["DROVER_TOKEN"] = "good"
	w.done("get", "projects")
	for _, args := range [][]string{{"login", w.url, "--token", "good"}, {"context", "set", "x", "--server", w.url}} {
		before := w.requests.Load()
		r := w.run(args...)
		require.Equal(t, 2, r.code, r.err)
		require.Contains(t, r.err, "the user's config folder is not known")
		require.Equal(t, before, w.requests.Load(), "it would be for nothing")
	}
}

// TestVersion: the client says what it was built from, and what the API was.
func TestVersion(t *testing.T) {
	w := newWorld(t)
	lines := strings.Split(strings.TrimSpace(w.done("version")), "\n")
	require.Len(t, lines, 3)
	require.Regexp(t, "^Installation: [0-9a-f]{16}$", lines[2])
	require.Regexp(t, `^Client: \S+ .*go1`, lines[0])
	require.Equal(t, strings.TrimPrefix(lines[0], "Client: "), strings.TrimPrefix(lines[1], "Server: "))
	require.Contains(t, w.done("version", "-o", "json"), `"server": {`)
	w.env["DROVER_SERVER"] = "http://127.0.0.1:1"
	require.NotContains(t, w.done("version", "--client"), "Server")
	r := w.run("version")
	require.Equal(t, 5, r.code)
	require.Contains(t, r.out, "Client: ")
}

// TestTwoVersions: where the API was built from something else, that is said.
func TestTwoVersions(t *testing.T) {
	w := newWorld(t)
	api, err := url.Parse(w.url)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(api)
	older := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			_, _ = io.WriteString(out, `{"version":"v0.0.1","go":"go1.1"}`)
			return
		}
		proxy.ServeHTTP(out, r)
	}))
	t.Cleanup(older.Close)
	const skew = "Warning: they were not built from the same sources: what one of them knows the other may not\n"
	r := w.run("version", "--server", older.URL)
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.out, "Server: v0.0.1 go1.1\n")
	require.Equal(t, skew, r.err)
	require.Empty(t, w.run("version").err, "of one source")
	require.Equal(t, "true\n", w.done("version", "-o", "jsonpath={.differ}", "--server", older.URL))
	require.Equal(t, "false\n", w.done("version", "-o", "jsonpath={.differ}"))
	require.NotContains(t, w.done("version", "--client", "-o", "json"), "differ")
}

// TestNothingIsColoured, whatever NO_COLOR says.
func TestNothingIsColoured(t *testing.T) {
	w := newWorld(t)
	w.terminal = true
	w.feed("resourceContext: {anchor: projects}\nmetadata: {name: p}\n", "apply", "-f", "-")
	for _, args := range [][]string{{"get", "projects"}, {"top"}, {"--help"}, {"context", "list"}} {
		require.NotContains(t, w.done(args...), "\x1b[", "%v", args)
	}
}

// TestProblems: each field that the server finds fault with is in a line, also of several.
func TestProblems(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", fail.ProblemJSON)
		out.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(out).Encode(fail.Problem{
			Kind: fail.Invalid, Detail: "Invalid Input:\nspec.level: is no level\nmetadata.name: is too long",
			Errors: []fail.Field{{Path: "spec.level", Message: "is no level"}, {Path: "metadata.name", Message: "is too long"}},
		})
	}))
	t.Cleanup(server.Close)
	r := w.run("get", "projects", "--server", server.URL)
	require.Equal(t, 1, r.code, r.out)
	require.Equal(t, "drover: Invalid Input:\n  spec.level: is no level\n  metadata.name: is too long\n", r.err)
}

// TestHelp: every command has an example, and the help names the exit codes.
func TestHelp(t *testing.T) {
	w := newWorld(t)
	text := w.done("--help")
	for _, word := range []string{"Connect:", "Describe:", "Operate:", "Exit codes:", "130"} {
		require.Contains(t, text, word)
	}
	require.Equal(t, w.done("cluster", "add", "--help"), w.done("help", "cluster", "add"))
	require.Contains(t, w.done("completion"), "powershell")
	folder := t.TempDir()
	w.done("man", folder)
	pages, err := filepath.Glob(folder + "/drover-*.1")
	require.NoError(t, err)
	require.Greater(t, len(pages), 40)
	for _, page := range pages {
		if strings.HasPrefix(filepath.Base(page), "drover-completion") { // which cobra writes
			continue
		}
		data, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Contains(t, string(data), ".SH EXAMPLES", filepath.Base(page))
	}
}

// TestRedirects are not followed: neither the token nor a body goes to where a server sends them.
func TestRedirects(t *testing.T) {
	w := newWorld(t)
	for _, code := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		server := httptest.NewServer(http.RedirectHandler(w.url+"/v2/projects", code))
		t.Cleanup(server.Close)
		r := w.run("get", "projects", "--server", server.URL, "--token", "secret")
		require.Equal(t, 1, r.code, r.err)
		require.Contains(t, r.err, `the API redirects to "http://API/v2/projects", which is not followed`)
		r = w.feed("resourceContext: {anchor: projects}\nmetadata: {name: p}\n---\nresourceContext: {anchor: projects}\nmetadata: {name: q}\n", "apply", "-f", "-", "--server", server.URL)
		require.Equal(t, 1, r.code, r.err)
		require.Equal(t, 1, strings.Count(r.err, "redirects"))
		r = w.run("events", "--follow", "--server", server.URL)
		require.Equal(t, 1, r.code, r.err)
	}
	require.Zero(t, w.requests.Load())
}
