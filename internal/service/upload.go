package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// Attach checks a file that was uploaded with o, and keeps it; o is still to be created or put. The body
// is validated first, since the checks and the sealing depend on its names. nil stands for no file. It
// must only be called for nouns that have files. Errors: Invalid and Malformed.
func (s *Service) Attach(ctx context.Context, o domain.Object, file []byte) error {
	if err := validate(o); err != nil {
		return err
	}
	o.Base().Uploaded = int64(len(file))
	return rules[o.Noun()].attach(s, ctx, o, file, s.storing(o))
}

// File reads the file that was uploaded with o. It must only be called for nouns that have files.
func (s *Service) File(ctx context.Context, o domain.Object) ([]byte, error) {
	return rules[o.Noun()].file(s, ctx, o)
}

// AttachAll is Attach for nouns with any number of files.
func (s *Service) AttachAll(ctx context.Context, o domain.Object, files []domain.Upload) error {
	if err := validate(o); err != nil {
		return err
	}
	for _, f := range files {
		o.Base().Uploaded += int64(len(f.Data))
	}
	return rules[o.Noun()].attachAll(s, ctx, o, files, s.storing(o))
}

// Files reads the files that were uploaded with o. It must only be called for nouns that have any number of them.
func (s *Service) Files(ctx context.Context, o domain.Object) ([]domain.Upload, error) {
	return rules[o.Noun()].files(s, ctx, o)
}

type onlyCreateKey struct{}

// OnlyCreate has Attach and AttachAll refuse, with Conflict, a document that is there already.
func OnlyCreate(ctx context.Context) context.Context {
	return context.WithValue(ctx, onlyCreateKey{}, true)
}

// storing stores a file that came with a document.
type storing func(ctx context.Context, file []byte) (domain.Digest, error)

// storing stores the files of o, which is looked at before the first.
func (s *Service) storing(o domain.Object) storing {
	worth := false
	return func(ctx context.Context, file []byte) (domain.Digest, error) {
		if !worth {
			if err := s.worthKeeping(ctx, o); err != nil {
				return "", err
			}
			worth = true
		}
		return s.store.PutBlob(ctx, file)
	}
}

// worthKeeping refuses o as Create does for what is there and what is not, before its files are stored: those of a document that is refused stay until
// the sweep, a day and longer, and count for no project. Create and Put look again.
func (s *Service) worthKeeping(ctx context.Context, o domain.Object) error {
	if err := s.parent(ctx, o); err != nil {
		return err
	}
	if err := s.references(ctx, o); err != nil {
		return err
	}
	exists, err := s.store.Exists(ctx, o.Noun(), domain.KeyOf(o))
	if err != nil {
		return err
	}
	if !exists {
		return askBeforeCreate(ctx)
	}
	if only, _ := ctx.Value(onlyCreateKey{}).(bool); only {
		return fail.New(fail.Conflict, "%s already exists", describe(o.Noun(), domain.KeyOf(o)))
	}
	return nil
}

// errNoFile is EMCO's sentence, with what is missing.
func errNoFile(what string) error {
	return fail.New(fail.Malformed, "Unable to process file: the part \"file\" with %s is missing", what)
}

func (s *Service) attachChart(ctx context.Context, o domain.Object, file []byte, keep storing) (err error) {
	if file == nil {
		return errNoFile("the chart, a .tgz,")
	}
	app := o.(*domain.App)
	if err := s.checks.Chart(ctx, app.Name, file); err != nil {
		return err
	}
	app.Chart, err = keep(ctx, file)
	return err
}

func (s *Service) chart(ctx context.Context, o domain.Object) ([]byte, error) {
	return s.store.Blob(ctx, o.(*domain.App).Chart)
}

// attachProfile takes a profile without an archive, which changes nothing of the chart.
func (s *Service) attachProfile(ctx context.Context, o domain.Object, file []byte, keep storing) (err error) {
	if file == nil {
		return nil
	}
	profile := o.(*domain.Profile)
	if profile.Remarks, err = s.checks.Profile(ctx, file); err != nil {
		return err
	}
	if err := s.oneProfilePerApp(ctx, change{to: profile}); err != nil {
		return err
	}
	profile.Archive, err = keep(ctx, file)
	return err
}

func (s *Service) profile(ctx context.Context, o domain.Object) ([]byte, error) {
	digest := o.(*domain.Profile).Archive
	if digest == "" {
		return []byte{}, nil
	}
	return s.store.Blob(ctx, digest)
}

// attachKubeconfig seals the file: the store never sees it open. Whether it may be missing depends on what is stored.
func (s *Service) attachKubeconfig(_ context.Context, o domain.Object, file []byte, _ storing) (err error) {
	cluster := o.(*domain.Cluster)
	switch {
	case file == nil:
		cluster.KeepKubeconfig = true
		return nil
	case len(file) == 0:
		return fail.New(fail.Malformed, "Unable to process file: the kubeconfig is empty")
	}
	if err := s.checks.Kubeconfig(file); err != nil {
		return err
	}
	sum := sha256.Sum256(file)
	cluster.KubeconfigDigest = domain.Digest(hex.EncodeToString(sum[:]))
	if s.checks.Expiry != nil {
		cluster.Expires = s.checks.Expiry(file)
	}
	cluster.Kubeconfig, err = s.sealer.Seal(string(domain.KeyOf(o)), file)
	return err
}

func (s *Service) kubeconfig(_ context.Context, o domain.Object) ([]byte, error) {
	cluster := o.(*domain.Cluster)
	if len(cluster.Kubeconfig.Data) == 0 {
		return []byte{}, nil
	}
	return s.sealer.Open(string(domain.KeyOf(o)), cluster.Kubeconfig)
}
