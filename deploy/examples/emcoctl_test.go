package examples_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/deploy/examples"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// document is one call in emcoctl's input files.
type document struct {
	Version         string `json:"version"`
	ResourceContext struct {
		Anchor string `json:"anchor"`
	} `json:"resourceContext"`
	Metadata     json.RawMessage `json:"metadata,omitempty"`
	Spec         json.RawMessage `json:"spec,omitempty"`
	ClusterLabel string          `json:"clusterLabel,omitempty"`
	File         string          `json:"file,omitempty"`
	Files        []string        `json:"files,omitempty"`
}

// The files are applied in order, so each document may only use what stands before it; DIG intents are the
// exception that EMCO makes, and they refer to nothing here.
func TestEmcoctlFilesBuildOnEachOther(t *testing.T) {
	t.Parallel()
	operations, uploads := build(t, "vfw")
	require.Equal(t, []string{
		"edge01 apply", "edge02 apply",
		"lcadmin instantiate", "vfw_deployment_intent_group approve", "vfw_deployment_intent_group instantiate",
	}, operations)
	for _, app := range examples.Apps {
		require.Contains(t, uploads, app+".tgz")
		require.Contains(t, uploads, app+"-profile.tgz")
	}
	operations, uploads = build(t, "dtc")
	require.Equal(t, []string{
		"lcadmin instantiate", "dtc_deployment_intent_group approve", "dtc_deployment_intent_group instantiate",
	}, operations)
	for _, app := range examples.TrafficApps {
		require.Contains(t, uploads, app+".tgz")
		require.Contains(t, uploads, app+"-profile.tgz")
	}
	operations, uploads = build(t, "hpa")
	require.Equal(t, []string{
		"lcadmin instantiate", "hpa_deployment_intent_group approve", "hpa_deployment_intent_group instantiate",
	}, operations)
	require.Contains(t, uploads, examples.HardwareApp+".tgz")
	require.Contains(t, uploads, examples.HardwareApp+"-profile.tgz")
}

// The 24 documents of EMCO's gac, one of them a replacement, name files that are there.
func TestGenericDocumentsHaveTheirFiles(t *testing.T) {
	t.Parallel()
	operations, uploads := build(t, "gac")
	require.Equal(t, []string{
		"lcadmin instantiate", "gac_deployment_intent_group approve", "gac_deployment_intent_group instantiate",
		"gac_deployment_intent_group update", "gac_deployment_intent_group rollback",
	}, operations)
	generic := 0
	for _, d := range documents(t, "gac") {
		if strings.Contains(d.ResourceContext.Anchor, "/"+domain.GenericK8sIntents.Collection) {
			generic++
		}
	}
	require.Equal(t, 24, generic)
	there, err := filepath.Glob("gac/files/*")
	require.NoError(t, err)
	for _, name := range there {
		require.Contains(t, uploads, strings.TrimPrefix(name, "gac/"))
		delete(uploads, strings.TrimPrefix(name, "gac/"))
	}
	require.Equal(t, map[string]bool{"edge01.kubeconfig": true, "edge02.kubeconfig": true, "operator.tgz": true, "operator-profile.tgz": true}, uploads)
}

// build goes through the files of an example, and says which operations they ask for, and what is uploaded.
func build(t *testing.T, example string) (operations []string, uploads map[string]bool) {
	t.Helper()
	made := map[domain.Key]bool{}
	uploads = map[string]bool{}
	for _, d := range documents(t, example) {
		key := domain.Key(d.ResourceContext.Anchor)
		parent := domain.Join(key.Segments()[:len(key.Segments())-1]...)
		if parent != "" {
			require.Contains(t, made, parent, "the parent of %s", key)
		}
		if slices.Contains([]string{"approve", "instantiate", "apply", "update", "rollback"}, key.Name()) {
			operations = append(operations, parent.Name()+" "+key.Name())
			continue
		}
		o := decode(t, d, parent)
		made[domain.KeyOf(o)] = true
		if r, ok := o.(domain.Referrer); ok {
			for _, ref := range r.References() {
				if !ref.Noun.Late {
					require.Contains(t, made, ref.Key, "%s of %s", ref.Field, domain.KeyOf(o))
				}
			}
		}
		for _, name := range append(d.Files, d.File) {
			if name != "" {
				uploads[name] = true
			}
		}
	}
	return operations, uploads
}

// decode reads the body that emcoctl sends for the document.
func decode(t *testing.T, d document, parent domain.Key) domain.Object {
	t.Helper()
	noun := nounAt(t, d.ResourceContext.Anchor)
	body, err := json.Marshal(struct {
		Metadata     json.RawMessage `json:"metadata,omitempty"`
		Spec         json.RawMessage `json:"spec,omitempty"`
		ClusterLabel string          `json:"clusterLabel,omitempty"`
	}{d.Metadata, d.Spec, d.ClusterLabel})
	require.NoError(t, err)
	o := noun.New()
	strict := json.NewDecoder(bytes.NewReader(body))
	strict.DisallowUnknownFields()
	require.NoError(t, strict.Decode(o), "%s", body)
	o.Base().Parent = parent
	var p fail.Problems
	o.Validate(&p)
	require.NoError(t, p.Err(), "%s", body)
	return o
}

func nounAt(t *testing.T, anchor string) *domain.Noun {
	t.Helper()
	collection := domain.Key(anchor).Name()
	at := slices.IndexFunc(domain.Nouns, func(n *domain.Noun) bool { return n.Collection == collection })
	require.NotEqual(t, -1, at, "no noun is collected at %s", anchor)
	return domain.Nouns[at]
}

// documents reads the input files as emcoctl does: a template over the values, then YAML.
func documents(t *testing.T, example string) []document {
	t.Helper()
	text, err := os.ReadFile(example + "/emcoctl/values.yaml")
	require.NoError(t, err)
	var values map[string]string
	require.NoError(t, yaml.UnmarshalStrict(text, &values))
	names, err := filepath.Glob(example + "/emcoctl/[0-9]-*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	var all []document
	for _, name := range names {
		input, err := template.ParseFiles(name)
		require.NoError(t, err)
		var filled strings.Builder
		require.NoError(t, input.Option("missingkey=error").Execute(&filled, values))
		for text := range strings.SplitSeq(filled.String(), "\n---\n") {
			var d document
			require.NoError(t, yaml.UnmarshalStrict([]byte(text), &d), "%s: %s", name, text)
			all = append(all, d)
		}
	}
	return all
}
