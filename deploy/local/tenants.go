package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/drover-io/drover/api/proto"
	"github.com/drover-io/drover/internal/tenantcert"
)

// tenants is the folder in which a person calls the tenants' services: ca.crt, admin.crt, admin.key, and the protocol files
// by the paths by which they import each other.
func (s *settings) tenants() string { return filepath.Join(s.data, "tenants") }

// prepareTenants fills that folder.
func (s *settings) prepareTenants() error {
	if err := tenantcert.Make(s.tenants()); err != nil {
		return err
	}
	return fs.WalkDir(proto.Files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".proto" {
			return err
		}
		data, err := fs.ReadFile(proto.Files, path)
		if err != nil {
			return err
		}
		to := filepath.Join(s.tenants(), path)
		return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, 0o600))
	})
}
