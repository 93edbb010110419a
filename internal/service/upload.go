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
	return rules[o.Noun()].attach(s, ctx, o, file)
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
	return rules[o.Noun()].attachAll(s, ctx, o, files)
}

// Files reads the files that were uploaded with o. It must only be called for nouns that have any number of them.
func (s *Service) Files(ctx context.Context, o domain.Object) ([]domain.Upload, error) {
	return rules[o.Noun()].files(s, ctx, o)
}

// errNoFile is EMCO's sentence, with what is missing.
func errNoFile(what string) error {
	return fail.New(fail.Malformed, "Unable to process file: the part \"file\" with %s is missing", what)
}

func (s *Service) attachChart(ctx context.Context, o domain.Object, file []byte) (err error) {
	if file == nil {
		return errNoFile("the chart, a .tgz,")
	}
	app := o.(*domain.App)
	if err := s.checks.Chart(ctx, app.Name, file); err != nil {
		return err
	}
	app.Chart, err = s.store.PutBlob(ctx, file)
	return err
}

func (s *Service) chart(ctx context.Context, o domain.Object) ([]byte, error) {
	return s.store.Blob(ctx, o.(*domain.App).Chart)
}

// attachProfile takes a profile without an archive, which changes nothing of the chart.
func (s *Service) attachProfile(ctx context.Context, o domain.Object, file []byte) (err error) {
	if file == nil {
		return nil
	}
	profile := o.(*domain.Profile)
	if profile.Remarks, err = s.checks.Profile(ctx, file); err != nil {
		return err
	}
	profile.Archive, err = s.store.PutBlob(ctx, file)
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
func (s *Service) attachKubeconfig(_ context.Context, o domain.Object, file []byte) (err error) {
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
