package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/atomicfile"
)

// settings is the file of contexts.
type settings struct {
	Current  string    `json:"currentContext,omitempty"`
	Contexts []Context `json:"contexts"`
}

// Context says which API is asked, and as whom. Files are read when they are needed.
type Context struct {
	Name              string `json:"name"`
	Server            string `json:"server"`                      // such as https://drover.example:9015
	CA                string `json:"ca,omitempty"`                // a file
	Token             string `json:"token,omitempty"`             // the bearer token itself
	TokenFile         string `json:"tokenFile,omitempty"`         // or a file with it
	Issuer            string `json:"issuer,omitempty"`            // the OpenID provider that has given the token
	IssuerCA          string `json:"issuerCA,omitempty"`          // a file with the certificates that the provider's is checked by
	ClientID          string `json:"clientID,omitempty"`          // as whom the provider knows this command
	RefreshToken      string `json:"refreshToken,omitempty"`      // by which it gives another token
	ClientCertificate string `json:"clientCertificate,omitempty"` // a file
	ClientKey         string `json:"clientKey,omitempty"`         // a file
	Plaintext         bool   `json:"plaintext,omitempty"`         // the token may go to another machine without TLS
	Project           string `json:"project,omitempty"`           // that of commands that name none
}

// forget takes away what proves who somebody is, but a certificate.
func (x *Context) forget() {
	x.Token, x.TokenFile, x.Issuer, x.IssuerCA, x.ClientID, x.RefreshToken = "", "", "", "", "", ""
}

// settingsPath is where the file is, also where a link leads to it: written in the link's place, what was there would keep its tokens.
func (s *session) settingsPath() (string, error) {
	path, err := s.namedSettings()
	if err != nil {
		return "", err
	}
	for range mostLinks { // the last of which may lead to what is not there yet
		to, is := linked(path)
		if !is {
			break
		}
		path = to
	}
	return path, nil
}

// linked is where a link leads to; false when path is none.
func linked(path string) (to string, is bool) {
	to, err := os.Readlink(path)
	if err != nil || filepath.IsAbs(to) {
		return to, err == nil
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(folder, to), err == nil
}

// mostLinks bounds how many links are gone after: they may lead in a circle, which opening the file says.
const mostLinks = 40

// errNoFolder says that nobody has said where the file is, nor the system where such files are, as to a service or in a container.
var errNoFolder = errors.New("the user's config folder is not known")

// namedSettings is where the user says that the file is, or where it is when nobody says.
func (s *session) namedSettings() (string, error) {
	if path := or(s.flags.config, s.Getenv("DROVER_CONFIG")); path != "" {
		return path, nil
	}
	folder := s.Getenv("XDG_CONFIG_HOME")
	if folder == "" {
		var err error
		if folder, err = os.UserConfigDir(); err != nil {
			return "", errUsage{fmt.Errorf("%w: %w; give --config", errNoFolder, err)}
		}
	}
	return filepath.Join(folder, "drover", "config.yaml"), nil
}

// load reads the file; one that is not there is empty, but where --config names it: what is misspelt there would be asked of the API of this machine. The
// commands that begin a file may name a new one.
func (s *session) load() (*settings, error) {
	found := &settings{}
	path, err := s.settingsPath()
	var used errUsage
	switch {
	case errors.As(err, &used) && errors.Is(used.error, errNoFolder) && !s.begins:
		return found, nil
	case err != nil:
		return nil, err
	}
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.flags.config != "" && !s.begins:
		return nil, usage("%s is not there: --config names a file of contexts, which 'drover login' and 'drover context set' begin", s.flags.config)
	case errors.Is(err, fs.ErrNotExist):
		return found, nil
	case err != nil:
		return nil, errUsage{err}
	}
	if err := yaml.UnmarshalStrict(data, found); err != nil {
		return nil, usage("%s is no file of contexts: %w", path, err)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		s.warned.Do(func() { // a command reads the file several times
			s.warn([]string{fmt.Sprintf("others can read %s, which may have tokens: chmod 600 it", path)})
		})
	}
	return found, nil
}

// save writes the file, whole or not at all. Its owner alone can read it.
func (s *session) save(c *settings) error {
	path, err := s.settingsPath()
	if err != nil {
		return err
	}
	data, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode contexts: %w", err)
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return errUsage{err}
	}
	if err := atomicfile.Write(path, data, atomicfile.How{}); err != nil {
		return errUsage{err}
	}
	return nil
}

// update changes the file, and has no other command change it meanwhile: what one has renewed would be lost by another one.
func (s *session) update(ctx context.Context, change func(*settings) error) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := s.load()
	if err != nil {
		return err
	}
	if err := change(c); err != nil {
		return err
	}
	return s.save(c)
}

// find is the context of a name, nil when there is none.
func (c *settings) find(name string) *Context {
	if i := slices.IndexFunc(c.Contexts, func(x Context) bool { return x.Name == name }); i >= 0 {
		return &c.Contexts[i]
	}
	return nil
}

// put adds a context or replaces the one of its name.
func (c *settings) put(x Context) {
	if old := c.find(x.Name); old != nil {
		*old = x
		return
	}
	c.Contexts = append(c.Contexts, x)
}

func or(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
