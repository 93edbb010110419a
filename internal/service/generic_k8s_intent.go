package service

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/vary"
)

// attachTemplate keeps the object of a generic resource, which must be the one that the body names.
func (s *Service) attachTemplate(ctx context.Context, o domain.Object, file []byte, keep storing) (err error) {
	resource := o.(*domain.GenericResource)
	if len(file) == 0 { // EMCO drops empty files
		if file != nil {
			resource.Empty = []string{"of the template"}
		}
		return nil
	}
	if err := fits(resource, file); err != nil {
		return err
	}
	resource.Template, err = keep(ctx, file)
	return err
}

// fits refuses a template of another object than the body names. Of an object that is there it need not be the same one: EMCO's
// client sends no resource without a file, which then is not used.
func fits(o *domain.GenericResource, file []byte) error {
	apiVersion, kind, name, err := vary.Template(file)
	if err != nil {
		return fail.Wrap(err, fail.Invalid, "failed to validate the resource template file: %s", fail.TextOf(err))
	}
	if !o.Spec.Adds() {
		return nil
	}
	var p fail.Problems
	gvk := o.Spec.ResourceGVK
	for _, m := range []struct{ path, says, is string }{
		{"apiVersion", gvk.APIVersion, apiVersion}, {"name", gvk.Name, name},
	} {
		if m.says != m.is {
			p.Add("spec.resourceGVK."+m.path, "%q is not that of the template, %q", m.says, m.is)
		}
	}
	if built, holds := (domain.ResourceGVK{APIVersion: apiVersion, Kind: kind}).Holds(); holds && kind != built {
		p.Add("file", "its kind is %q, and that of Kubernetes is %q", kind, built)
	}
	if !strings.EqualFold(gvk.Kind, kind) {
		p.Add("spec.resourceGVK.kind", "%q is not that of the template, %q", gvk.Kind, kind)
	}
	return p.Err()
}

func (s *Service) template(ctx context.Context, o domain.Object) ([]byte, error) {
	return s.blobOf(ctx, o.(*domain.GenericResource).Template)
}

// blobOf is a file, an empty one where there is none.
func (s *Service) blobOf(ctx context.Context, digest domain.Digest) ([]byte, error) {
	if digest == "" {
		return []byte{}, nil
	}
	return s.store.Blob(ctx, digest)
}

// changeResource keeps the template of a resource that comes without one. Malformed when a new object has none, as in EMCO.
func (s *Service) changeResource(ctx context.Context, c change) error {
	if o, ok := c.to.(*domain.GenericResource); ok {
		if err := s.keepTemplate(ctx, c, o); err != nil {
			return err
		}
	}
	return s.unapprove(ctx, c)
}

func (s *Service) keepTemplate(ctx context.Context, c change, o *domain.GenericResource) error {
	if o.Stay { // by a try before, which another write has overtaken
		o.Template, o.Stay = "", false
	}
	if from, ok := c.from.(*domain.GenericResource); ok && o.Template == "" && from.Template != "" {
		file, err := s.store.Blob(ctx, from.Template)
		if err != nil {
			return err
		}
		if err := fits(o, file); err != nil {
			return err
		}
		o.Template, o.Stay = from.Template, true
	}
	if _, holds := o.Spec.ResourceGVK.Holds(); o.Spec.Adds() && !holds && o.Template == "" {
		return fail.New(fail.Malformed, "the provided file field name is not present in the request or not a file field: a new %s needs the part \"file\" with its template", o.Spec.ResourceGVK.Kind)
	}
	return nil
}

// maxFileName is the longest name of a file, in bytes, as that of a key of a ConfigMap's or a Secret's data.
const maxFileName = 253

// attachFiles keeps the files of a customization.
func (s *Service) attachFiles(ctx context.Context, o domain.Object, files []domain.Upload, keep storing) error {
	customization := o.(*domain.Customization)
	for _, f := range files {
		if f.Name == "." || f.Name == ".." || len(f.Name) > maxFileName || strings.ContainsAny(f.Name, "/\x00") {
			return fail.New(fail.Invalid, "file %.64q: the name is none for a file: it has at most %d bytes and no /, and is neither . nor ..", f.Name, maxFileName)
		}
		if len(f.Data) > limits.Etcd {
			return fail.New(fail.Invalid, "file %s: it has %d bytes, and no object in a cluster has more than %d", f.Name, len(f.Data), limits.Etcd)
		}
	}
	for _, f := range files {
		if len(f.Data) == 0 {
			customization.Empty = append(customization.Empty, f.Name)
		}
	}
	files = slices.DeleteFunc(slices.Clone(files), func(f domain.Upload) bool { return len(f.Data) == 0 }) // as EMCO does
	if err := s.fitting(ctx, customization, files); err != nil {
		return err
	}
	for _, f := range files {
		digest, err := keep(ctx, f.Data)
		if err != nil {
			return err
		}
		customization.Files = append(customization.Files, domain.CustomizationFile{Name: f.Name, Content: digest})
	}
	return nil
}

// fitting refuses files that are to be merge patches, and are none, and two files of one name where that becomes a key of data. Of merge patches
// each is applied, whatever it is called, as in EMCO.
func (s *Service) fitting(ctx context.Context, o *domain.Customization, files []domain.Upload) error {
	if len(files) == 0 {
		return nil
	}
	resource, err := s.store.Get(ctx, domain.GenericResources, o.Parent)
	if fail.Is(err, fail.NotFound) {
		return nil // which is said when it is stored
	}
	if err != nil {
		return err
	}
	of := &vary.Generic{Spec: resource.(*domain.GenericResource).Spec}
	customized := &vary.Customized{Name: o.Name, Spec: o.Spec, Files: files}
	if name := of.Twice(customized); name != "" {
		return fail.New(fail.Invalid, "there are two files of the name %s", name)
	}
	if o.Spec.PatchType != domain.PatchMerge {
		return nil
	}
	for _, f := range of.Patches(customized) {
		if _, err := vary.Object(f.Data); err != nil {
			return fail.Wrap(err, fail.Invalid, "file %s: as a merge patch %s", f.Name, fail.TextOf(err))
		}
	}
	return nil
}

func (s *Service) filesOf(ctx context.Context, o domain.Object) (files []domain.Upload, err error) {
	for _, f := range o.(*domain.Customization).Files {
		data, err := s.store.Blob(ctx, f.Content)
		if err != nil {
			return nil, err
		}
		files = append(files, domain.Upload{Name: f.Name, Data: data})
	}
	return files, nil
}

// changeCustomization keeps the files of a customization that comes without any.
func (s *Service) changeCustomization(ctx context.Context, c change) error {
	to, ok := c.to.(*domain.Customization)
	if ok && to.Stay { // by a try before, which another write has overtaken
		to.Files, to.Stay = nil, false
	}
	if ok && len(to.Files) == 0 {
		if from, ok := c.from.(*domain.Customization); ok && len(from.Files) > 0 {
			to.Files, to.Stay = from.Files, true
			files, err := s.filesOf(ctx, to)
			if err == nil {
				err = s.fitting(ctx, to, files)
			}
			if err != nil {
				return err
			}
		}
	}
	return s.unapprove(ctx, c)
}

// remarkResource says that a template was empty, and whether the app is missing.
func (s *Service) remarkResource(ctx context.Context, o domain.Object) (warnings []string, err error) {
	unknown, err := s.unknownApp(ctx, o)
	return append(empty(&o.(*domain.GenericResource).EmptyFiles), unknown...), err
}

// remarkCustomization says what of a customization is not acted on.
func (s *Service) remarkCustomization(_ context.Context, o domain.Object) (warnings []string, _ error) {
	c := o.(*domain.Customization)
	warnings = empty(&c.EmptyFiles)
	if of := c.Spec.ClusterInfo; c.Spec.ClusterSpecific == domain.True && of.Scope == domain.ScopeName && of.ClusterLabel != "" {
		warnings = append(warnings, fmt.Sprintf("spec.clusterInfo.clusterLabel: nothing is done with %q, since scope is %s", of.ClusterLabel, domain.ScopeName))
	}
	return warnings, nil
}

// empty says which files are not kept.
func empty(of *domain.EmptyFiles) (warnings []string) {
	for _, name := range of.Empty {
		text := fmt.Sprintf("file %s is empty, and is left out", name)
		if of.Stay {
			text += "; what is stored stays"
		}
		warnings = append(warnings, text)
	}
	return warnings
}
