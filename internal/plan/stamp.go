package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/drover-io/drover/internal/fail"
)

// DeploymentLabel marks everything in a cluster that belongs to one app of one app context (the seeds'
// resource lifecycle, "Cluster resource status"); agents and status queries select by it.
const DeploymentLabel = "emco/deployment-id"

// InstallationAnnotation names the installation of Drover that has an object (decision 0078).
const InstallationAnnotation = "drover.io/installation"

// maxLabel is the longest value of a Kubernetes label.
const maxLabel = 63

// DeploymentID is the value of DeploymentLabel: "<context id>-<app>". Where that is longer than a label may
// be, the end is replaced by a hash of the whole, so that two long names stay apart. The result is a valid
// label value as long as the parts are names (domain.NamePattern).
func DeploymentID(contextID, app string) string {
	id := contextID + "-" + app
	if len(id) <= maxLabel {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	suffix := "-" + hex.EncodeToString(sum[:5])
	return id[:maxLabel-len(suffix)] + suffix
}

// SameContext says whether two values of DeploymentLabel are of one app context, be it of two apps: the id of a context is a number, and is never cut.
// What is of none, such as Drover's own, has no other.
func SameContext(a, b string) bool {
	of, _, found := strings.Cut(a, "-")
	return a == b || found && of != "" && strings.Trim(of, "0123456789") == "" && strings.HasPrefix(b, of+"-")
}

// Stamp returns the manifest as it is applied: with the labels on the object, on the template of its pods
// (spec.template) and, for a CronJob, on its jobs and their pods; what the manifest says of those labels
// itself is overwritten. A namespace that is not "" is set where the manifest names none.
// Numbers are kept to the digit. An error is Invalid: the manifest is not an object, or a member that has
// to carry labels is not one.
func Stamp(manifest []byte, namespace string, labels map[string]string) ([]byte, error) {
	object, err := DecodeObject(manifest)
	if err != nil {
		return nil, err
	}
	if err := label(object, "", labels); err != nil {
		return nil, err
	}
	if metadata := object["metadata"].(map[string]any); namespace != "" && isEmpty(metadata["namespace"]) {
		metadata["namespace"] = namespace
	}
	spec, _ := object["spec"].(map[string]any)
	if template := objectTemplate(spec); template != nil {
		if err := label(template, "spec.template.", labels); err != nil {
			return nil, err
		}
	}
	if jobs, ok := spec["jobTemplate"].(map[string]any); ok && object["kind"] == "CronJob" {
		if err := label(jobs, "spec.jobTemplate.", labels); err != nil {
			return nil, err
		}
		jobSpec, _ := jobs["spec"].(map[string]any)
		if pods, ok := jobSpec["template"].(map[string]any); ok {
			if err := label(pods, "spec.jobTemplate.spec.template.", labels); err != nil {
				return nil, err
			}
		}
	}
	return json.Marshal(object)
}

// Annotate returns the manifest with the annotations, whatever it says of those itself. Errors are as of Stamp.
func Annotate(manifest []byte, annotations map[string]string) ([]byte, error) {
	object, err := DecodeObject(manifest)
	if err != nil {
		return nil, err
	}
	if err := annotate(object, annotations); err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

func annotate(object map[string]any, annotations map[string]string) error {
	metadata, err := child(object, "metadata", "")
	if err != nil {
		return err
	}
	have, err := child(metadata, "annotations", "metadata.")
	if err != nil {
		return err
	}
	for k, v := range annotations {
		have[k] = v
	}
	return nil
}

// EncodeStrings returns the manifest of a Secret with its stringData in its data, as a cluster has it. It is for server-side apply: a cluster knows
// the owners of data alone, so that a key of stringData which a later manifest does not have would stay in it for ever
// (kubernetes/kubernetes#108008). What is no text stays where it is, for the cluster to refuse. Errors are as of Stamp.
func EncodeStrings(manifest []byte) ([]byte, error) {
	secret, err := DecodeObject(manifest)
	if err != nil {
		return nil, err
	}
	texts, isMap := secret["stringData"].(map[string]any)
	if !isMap && secret["stringData"] != nil {
		return manifest, nil
	}
	data, isMap := secret["data"].(map[string]any)
	if !isMap && secret["data"] != nil {
		return manifest, nil
	}
	for key, value := range texts {
		if text, ok := value.(string); ok {
			if data == nil {
				data = map[string]any{}
				secret["data"] = data
			}
			data[key] = base64.StdEncoding.EncodeToString([]byte(text))
			delete(texts, key)
		}
	}
	if len(texts) == 0 {
		delete(secret, "stringData")
	}
	return json.Marshal(secret)
}

// DecodeObject is the object of a manifest. Numbers are json.Number, to the digit. An error is Invalid.
func DecodeObject(manifest []byte) (object map[string]any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(manifest))
	decoder.UseNumber()
	if err := decoder.Decode(&object); err != nil || object == nil {
		return nil, fail.Wrap(err, fail.Invalid, "the manifest is not a JSON object")
	}
	return object, nil
}

// Stampable is the error of Stamp for an object as JSON decodes it, which it leaves as it is.
func Stampable(object map[string]any) error {
	spec, _ := object["spec"].(map[string]any)
	parts := []struct {
		path string
		of   any
	}{{"", object}, {"spec.template.", objectTemplate(spec)}}
	if jobs, ok := spec["jobTemplate"].(map[string]any); ok && object["kind"] == "CronJob" {
		jobSpec, _ := jobs["spec"].(map[string]any)
		parts = append(parts, parts[0], parts[0])
		parts[2].path, parts[2].of = "spec.jobTemplate.", jobs
		parts[3].path, parts[3].of = "spec.jobTemplate.spec.template.", jobSpec["template"]
	}
	for _, part := range parts {
		o, ok := part.of.(map[string]any)
		if !ok {
			continue
		}
		metadata, ok := o["metadata"].(map[string]any)
		if !ok && o["metadata"] != nil {
			return fail.New(fail.Invalid, "%smetadata is not an object", part.path)
		}
		if _, ok := metadata["labels"].(map[string]any); !ok && metadata["labels"] != nil {
			return fail.New(fail.Invalid, "%smetadata.labels is not an object", part.path)
		}
	}
	return nil
}

// objectTemplate is the template in a spec if it is one of objects, which have a spec or metadata; nil otherwise. A custom resource may use the name for
// something else, which has no room for labels: KafkaNodePools of Strimzi have parts of several objects there, WorkloadGroups of Istio an address.
func objectTemplate(spec map[string]any) map[string]any {
	template, _ := spec["template"].(map[string]any)
	for _, member := range []string{"spec", "metadata"} {
		if _, ok := template[member].(map[string]any); ok {
			return template
		}
	}
	return nil
}

// label sets metadata.labels of object, which stands at path.
func label(object map[string]any, path string, labels map[string]string) error {
	metadata, err := child(object, "metadata", path)
	if err != nil {
		return err
	}
	have, err := child(metadata, "labels", path+"metadata.")
	if err != nil {
		return err
	}
	for k, v := range labels {
		have[k] = v
	}
	return nil
}

// child finds the object at key, or makes it where there is nothing or null.
func child(object map[string]any, key, path string) (map[string]any, error) {
	switch v := object[key].(type) {
	case map[string]any:
		return v, nil
	case nil:
		made := map[string]any{}
		object[key] = made
		return made, nil
	default:
		return nil, fail.New(fail.Invalid, "%s%s is not an object", path, key)
	}
}

func isEmpty(v any) bool { return v == nil || v == "" }
