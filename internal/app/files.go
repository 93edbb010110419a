package app

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/drover-io/drover/internal/config"
)

// CheckFiles reads the files that settings name, and says all that is wrong with them at once, each by its setting: before anything is listened at or
// waited for. What is read is read again by who needs it.
func CheckFiles(c *config.Config) error {
	silent := slog.New(slog.DiscardHandler)
	var wrong []error
	look := func(setting string, err error) {
		switch {
		case err == nil:
		case setting == "":
			wrong = append(wrong, err) // it names it
		default:
			wrong = append(wrong, fmt.Errorf("--%s (%s): %w", setting, config.Variable(setting), err))
		}
	}
	for _, l := range []struct {
		cert, ca string
		files    config.ServerTLS
	}{{"tls-cert", "client-ca", c.TLS}, {"tenant-tls-cert", "tenant-tls-ca", c.TenantTLS}} {
		_, err := config.ServerTLS{Cert: l.files.Cert, Key: l.files.Key}.Config(silent)
		look(l.cert, err)
		_, err = l.files.Trust(silent)
		look(l.ca, err)
	}
	_, err := c.Temporal.TLS()
	look("", err)
	if c.SecretKeys != "" || c.SecretKeysFile != "" {
		setting := "secret-keys"
		if c.SecretKeysFile != "" {
			setting = "secret-keys-file"
		}
		keys, err := sealer(c)
		look(setting, err)
		if err == nil {
			keys.Close()
		}
	}
	_, err = issuersOf(c)
	look("", err)
	return errors.Join(wrong...)
}
