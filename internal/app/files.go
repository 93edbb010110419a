package app

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/sink"
)

// CheckFiles reads the files that settings name, and says all that is wrong with them at once, each by its setting: before anything is listened at or
// waited for. What is read is read again by who needs it. Of a file that is not there, and of what is missing of a pair, settings say so themselves,
// also beside what is said here.
func CheckFiles(c *config.Config) error {
	silent := slog.New(slog.DiscardHandler)
	var wrong []error
	look := func(setting string, err error) {
		switch {
		case err == nil || errors.Is(err, fs.ErrNotExist):
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
		if l.files.Key != "" {
			_, err := config.ServerTLS{Cert: l.files.Cert, Key: l.files.Key}.Config(silent)
			look(l.cert, err)
		}
		_, err := l.files.Trust(silent)
		look(l.ca, err)
	}
	temporal := c.Temporal
	if temporal.TLSKey == "" {
		temporal.TLSCert = ""
	}
	_, err := temporal.TLS(silent)
	look("", err)
	_, err = c.Temporal.Token(silent)
	look("temporal-token-file", err)
	if c.AuditFile != "" {
		look("audit-file", sink.CheckFile(c.AuditFile)) // it makes none: something else may be wrong, so that nothing starts
	}
	look("audit-syslog-ca", rooted(c.AuditSyslogCA))
	look("server-ca", rooted(c.TenantAgent.CA))
	look("client-cert", paired(c.TenantAgent.Cert, c.TenantAgent.Key))
	look("token-file", filled(c.TenantAgent.Token))
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

// rooted, paired and filled say what is wrong with a file of a CA, of a certificate and its key, and of a token; nil where there is none.
func rooted(ca string) error {
	if ca == "" {
		return nil
	}
	_, err := config.Roots(ca)
	return err
}

func paired(cert, key string) error {
	if cert == "" || key == "" {
		return nil
	}
	_, err := tls.LoadX509KeyPair(cert, key)
	return err
}

func filled(file string) error {
	if file == "" {
		return nil
	}
	data, err := os.ReadFile(file) // #nosec G304 -- of a setting
	if err == nil && len(bytes.TrimSpace(data)) == 0 {
		err = fmt.Errorf("%s is empty", file)
	}
	return err
}
