package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/hosts"
)

// With --auth=off whoever reaches the API may do everything, and a certificate is shown by the browser whatever page asks. A page
// in a browser on the same machine reaches the API too. These are the checks that a page of somebody else does not pass, and that no other client notices:
//
//   - the Host is a name of ours: a page may let its own name lead to this address (DNS rebinding), and then counts as
//     one of ours, but the browser still says the name;
//   - what a browser says of a write's page (Sec-Fetch-Site, Origin) is that it is ours or trusted;
//   - a body is JSON or a form with files: other types are those that a page may send anywhere without being asked first.

// bodyTypes are the types of a body. yamlTypes are other names of the second one.
var (
	bodyTypes = []string{echo.MIMEApplicationJSON, mimeYAML, echo.MIMEMultipartForm}
	yamlTypes = []string{mimeYAML, "application/x-yaml", "text/yaml", "text/x-yaml"}
)

const mimeYAML = "application/yaml"

// guard refuses what pages of others send. more are names beside loopback's and that of the listen address, origins
// those of pages that are trusted, as https://gui.example.com, webUIs those that are trusted with codecPath alone.
func guard(listen string, more, origins, webUIs []string) (echo.MiddlewareFunc, error) {
	names := hosts.New(listen, more...)
	pages, codecs := http.NewCrossOriginProtection(), http.NewCrossOriginProtection()
	for _, origin := range origins {
		if err := pages.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("--allowed-origins: %w", err)
		}
	}
	for _, origin := range webUIs {
		if err := codecs.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("--codec-origins: %w", err)
		}
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			if !names.Ours(r) {
				return fail.New(fail.Forbidden, "%q is not a name of this API; --allowed-hosts adds names to it", r.Host)
			}
			trusted := pages
			if r.URL.Path == codecPath {
				trusted = codecs
			}
			if err := trusted.Check(r); err != nil {
				return fail.Wrap(err, fail.Forbidden, "a page of another site asks for this; --allowed-origins says which may, and --codec-origins for the payloads of histories")
			}
			return next(c)
		}
	}, nil
}

// typed refuses bodies of other types than bodyTypes, and those that are packed, and reads none. A body without a type is read as what the operation
// takes: EMCO's GUI sends such, and of pages Origin tells. What curl sends when nobody tells it the type is taken for what it is, once the door lets
// it be read.
func typed(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		text := r.Header.Get(echo.HeaderContentType)
		if _, err := door.Who(r.Context()); err != nil {
			return next(c) // of who proves nothing no body is read: the door refuses him, and nothing beside it takes one
		}
		if packed := r.Header.Get(echo.HeaderContentEncoding); packed != "" && !strings.EqualFold(packed, "identity") {
			return unsupported(c, "the Content-Encoding is %q, and bodies are read as they are; send %s without it", packed)
		}
		if text == "" || r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
			return next(c)
		}
		media, _, err := mime.ParseMediaType(text)
		switch {
		case err == nil && media == echo.MIMEMultipartForm:
			return next(c)
		case err == nil && slices.Contains(bodyTypes, media): // whatever its case, and without parameters
			r.Header.Set(echo.HeaderContentType, media)
			return next(c)
		case err == nil && slices.Contains(yamlTypes, media):
			r.Header.Set(echo.HeaderContentType, mimeYAML)
			return next(c)
		case err == nil && media == echo.MIMEApplicationForm && !fromPage(r):
			c.Set(contextUntold, true)
			return next(c)
		default:
			return unsupported(c, "the Content-Type is %q; send %s", text)
		}
	}
}

// contextUntold is set for a body of which nobody has said what it is.
const contextUntold = "untold"

// told finds out what such a body is, and says so where it matters.
func told(c echo.Context, body []byte) error {
	if untold, _ := c.Get(contextUntold).(bool); !untold {
		return nil
	}
	header := c.Request().Header
	switch text := bytes.TrimSpace(bytes.TrimPrefix(body, byteOrderMark)); {
	case bytes.HasPrefix(text, []byte("{")) && json.Valid(withoutBraces(text)):
		header.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	case isManifest(fromYAMLOnce(c, text)):
		header.Set(echo.HeaderContentType, mimeYAML)
	default:
		return unsupported(c, "the Content-Type is %q, and the body is no JSON object; send %s", echo.MIMEApplicationForm)
	}
	return nil
}

// fromPage says whether a browser sends the request, by the headers that a page can neither set nor leave out (decision 0024).
func fromPage(r *http.Request) bool {
	return len(r.Header.Values(echo.HeaderOrigin))+len(r.Header.Values("Sec-Fetch-Site")) > 0
}

// unsupported refuses a type of body; format takes it and those that are read.
func unsupported(c echo.Context, format, media string) error {
	c.Response().Header().Set("Accept-Post", strings.Join(bodyTypes, ", "))
	return &coded{fail.New(fail.Malformed, format, media, strings.Join(bodyTypes, " or ")), http.StatusUnsupportedMediaType}
}
