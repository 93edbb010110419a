// Package page has the page for people that the API serves under /: plain modules and one style sheet, as they are in static/,
// without a build step (decision 0061). It asks for nothing but what the REST API answers, by the rights of who looks at it.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed static
var static embed.FS

// Folder is where the parts of the page are, below a name that changes with them.
const Folder = "/page/"

// here stands in index.html for that name.
const here = "PAGE"

// policy lets the page load its own parts and ask its own server, and nothing else: no script or style in the text of the page, no
// text that becomes markup, no frame around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Page serves the page.
type Page struct {
	index file
	parts map[string]file // by path
}

// file is a part of the page, as it is and compressed.
type file struct {
	media        string
	plain, small []byte
	tag          string // of plain; that of small has a suffix
}

// New reads what is embedded. It fails only where the program was built wrong.
func New() (*Page, error) {
	content, err := fs.Sub(static, "static")
	if err != nil {
		return nil, err
	}
	var names []string
	sum := sha256.New()
	texts := map[string][]byte{}
	err = fs.WalkDir(content, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(content, name)
		if err != nil {
			return err
		}
		names, texts[name] = append(names, name), text
		fmt.Fprintf(sum, "%s %d\n", name, len(text))
		sum.Write(text)
		return nil
	})
	if err != nil {
		return nil, err
	}
	version := hex.EncodeToString(sum.Sum(nil))[:16]
	p := &Page{parts: map[string]file{}}
	for _, name := range names {
		if name == "index.html" {
			p.index, err = fileOf(name, bytes.ReplaceAll(texts[name], []byte(here), []byte(strings.TrimPrefix(Folder, "/")+version)))
		} else {
			p.parts[Folder+version+"/"+name], err = fileOf(name, texts[name])
		}
		if err != nil {
			return nil, fmt.Errorf("page: %s: %w", name, err)
		}
	}
	return p, nil
}

// medias are those of the names' ends: what the machine thinks of them must not matter.
var medias = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".webmanifest": "application/manifest+json",
}

func fileOf(name string, text []byte) (file, error) {
	media := medias[path.Ext(name)]
	if media == "" {
		return file{}, fmt.Errorf("nobody has said what is in a %q", path.Ext(name))
	}
	var small bytes.Buffer
	w, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
	if err != nil {
		return file{}, err
	}
	if _, err := w.Write(text); err != nil {
		return file{}, err
	}
	if err := w.Close(); err != nil {
		return file{}, err
	}
	sum := sha256.Sum256(text)
	return file{media: media, plain: text, small: small.Bytes(), tag: hex.EncodeToString(sum[:8])}, nil
}

// ServeIndex answers with the page itself. It is asked for anew each time, and is sent only where it is another one.
func (p *Page) ServeIndex(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	h.Add("Vary", "Accept")
	p.index.serve(w, r, "no-cache")
}

// ServePart answers with a part of the page, and says whether there is one of that path. A part never becomes another one: its path
// does.
func (p *Page) ServePart(w http.ResponseWriter, r *http.Request) bool {
	f, ok := p.parts[r.URL.Path]
	if ok {
		f.serve(w, r, "public, max-age=31536000, immutable")
	}
	return ok
}

// Weight is what the page and all its parts have, compressed, in bytes.
func (p *Page) Weight() (bytes int) {
	bytes = len(p.index.small)
	for _, f := range p.parts {
		bytes += len(f.small)
	}
	return bytes
}

func (f *file) serve(w http.ResponseWriter, r *http.Request, cache string) {
	h := w.Header()
	h.Set("Content-Type", f.media)
	h.Set("Cache-Control", cache)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Add("Vary", "Accept-Encoding")
	body, tag := f.plain, `"`+f.tag+`"`
	if takesGzip(r) {
		body, tag = f.small, `"`+f.tag+`-gzip"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", tag)
	if known(r.Header.Get("If-None-Match"), tag) {
		h.Del("Content-Type")
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a reader that has left has left
	}
}

// takesGzip says whether the client reads it.
func takesGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, parameters, err := mime.ParseMediaType(strings.TrimSpace(coding))
		if err == nil && (name == "gzip" || name == "*") {
			q, err := strconv.ParseFloat(parameters["q"], 64)
			return parameters["q"] == "" || err == nil && q > 0
		}
	}
	return false
}

// known says whether a client has what the tag names.
func known(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
			return true
		}
	}
	return false
}
