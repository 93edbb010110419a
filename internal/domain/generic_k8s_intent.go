package domain

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// GenericK8sIntent is a set of resources that are added or changed, which a deployment intent binds to its group under the key
// gac.
type GenericK8sIntent struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
}

// GenericK8sIntents is the noun.
var GenericK8sIntents = &Noun{
	Kind: "generic-k8s-intents", Title: "generic k8s intent", Collection: "generic-k8s-intents", Names: []string{"genericK8sIntent"},
	Parent: DeploymentIntentGroups, New: func() Object { return &GenericK8sIntent{} },
}

// Noun is GenericK8sIntents.
func (*GenericK8sIntent) Noun() *Noun { return GenericK8sIntents }

// Upload is a file that comes with a document beside others, or goes.
type Upload struct {
	Name string // as it was sent, without folders
	Data []byte
}

// EmptyFiles are those of a write, which are not kept.
type EmptyFiles struct {
	Empty []string // their names
	Stay  bool     // those that were stored before stay, as none has come in their place
}

// GenericResource is a Kubernetes object that customizations below it add to an app, or change.
type GenericResource struct {
	Identity   `bson:",inline"`
	Metadata   `json:"metadata" api:"required"`
	Spec       GenericResourceSpec `json:"spec" api:"required"`
	Template   Digest              `json:"-" bson:"template"` // blob: the object as it was sent, in YAML or JSON; "" for none
	EmptyFiles `json:"-" bson:"-"`
}

// GenericResourceSpec names the object.
type GenericResourceSpec struct {
	App string `json:"app" api:"required"` // the app of the composite app
	// true: the object comes beside those of the app, from the template; false: it is one that the rendered app has
	NewObject   Truth       `json:"newObject" api:"required,enum=true;false"`
	ResourceGVK ResourceGVK `json:"resourceGVK" api:"required"`
}

// ResourceGVK names an object as it is when the app is rendered.
type ResourceGVK struct {
	APIVersion string `json:"apiVersion" api:"required"` // such as apps/v1
	Kind       string `json:"kind" api:"required"`       // such as StatefulSet, exactly as in the manifest of an object that is there
	Name       string `json:"name" api:"required"`       // metadata.name, with what the release name adds to it
}

// GenericResources is the noun. The app need not be there yet.
var GenericResources = &Noun{
	Kind: "generic-resources", Title: "generic resource", Collection: "resources", Names: []string{"genericResource"},
	Parent: GenericK8sIntents, New: func() Object { return &GenericResource{} }, File: true, Ahead: true, Ordered: true,
}

// Noun is GenericResources.
func (*GenericResource) Noun() *Noun { return GenericResources }

// Adds says whether the object is a new one.
func (s *GenericResourceSpec) Adds() bool { return s.NewObject == True }

// Holds says whether the object is a ConfigMap or a Secret, which take the files of customizations as their data. The kind may
// be in any case where it is made anew, as in EMCO.
func (g ResourceGVK) Holds() (kind string, holds bool) {
	for _, kind := range []string{KindConfigMap, KindSecret} {
		if g.APIVersion == "v1" && strings.EqualFold(g.Kind, kind) {
			return kind, true
		}
	}
	return g.Kind, false
}

// The kinds that take files.
const (
	KindConfigMap = "ConfigMap"
	KindSecret    = "Secret"
)

// Validate checks the body.
func (o *GenericResource) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	for _, m := range []struct{ path, value string }{
		{"app", o.Spec.App}, {"newObject", string(o.Spec.NewObject)},
		{"resourceGVK.apiVersion", o.Spec.ResourceGVK.APIVersion}, {"resourceGVK.kind", o.Spec.ResourceGVK.Kind}, {"resourceGVK.name", o.Spec.ResourceGVK.Name},
	} {
		notEmpty(p, "spec."+m.path, m.value)
		CheckLength(p, "spec."+m.path, m.value, MaxName)
	}
	checkWord(p, "spec.newObject", string(o.Spec.NewObject), string(True), string(False))
}

// notEmpty says what is missing in the words of EMCO's gac.
func notEmpty(p *fail.Problems, path, value string) {
	if value == "" {
		p.Add(path, "%s may not be empty", path[strings.LastIndexByte(path, '.')+1:])
	}
}

// checkWord adds a problem when a value is neither missing nor one of the words.
func checkWord(p *fail.Problems, path, value string, words ...string) {
	for _, w := range words {
		if value == w {
			return
		}
	}
	if value != "" {
		p.Add(path, "%q is none of %s", value, strings.Join(words, ", "))
	}
}

// References are the app.
func (o *GenericResource) References() []Reference {
	return []Reference{{"spec.app", Apps, compositeAppOf(o.Parent).Child(Apps.Collection, o.Spec.App)}}
}

// Customization says what is made of a resource, and on which clusters.
type Customization struct {
	Identity   `bson:",inline"`
	Metadata   `json:"metadata" api:"required"`
	Spec       CustomizationSpec   `json:"spec" api:"required"`
	Files      []CustomizationFile `json:"-" bson:"files"` // in the order in which they were sent; none is empty
	EmptyFiles `json:"-" bson:"-"`
}

// CustomizationFile is a file of a customization.
type CustomizationFile struct {
	Name    string `bson:"name"`
	Content Digest `bson:"content"` // blob
}

// CustomizationSpec is what is made.
type CustomizationSpec struct {
	// true: on the clusters of clusterInfo alone; false: on all clusters of the app
	ClusterSpecific Truth       `json:"clusterSpecific" api:"required,enum=true;false"`
	ClusterInfo     ClusterInfo `json:"clusterInfo" api:"required"` // EMCO wants it where it has no meaning, too
	// json: by patchJson; merge: by the files, which are strategic merge patches, or JSON merge patches for custom resources; no
	// patch when missing
	PatchType        PatchType   `json:"patchType,omitempty" bson:"patchType,omitempty" api:"enum=json;merge"`
	PatchJSON        []PatchStep `json:"patchJson,omitempty" bson:"patchJson,omitempty"` // the steps of the JSON patch (RFC 6902), in order
	ConfigMapOptions DataOptions `json:"configMapOptions"`                               // of a ConfigMap
	SecretOptions    DataOptions `json:"secretOptions"`                                  // of a Secret
}

// PatchType is a way to patch.
type PatchType string

// The ways.
const (
	PatchJSON  PatchType = "json"
	PatchMerge PatchType = "merge"
)

// ClusterInfo selects clusters.
type ClusterInfo struct {
	Scope           string `json:"scope" api:"required,enum=label;name"` // by what they are selected
	ClusterProvider string `json:"clusterProvider" api:"required"`       // the provider of the clusters
	Cluster         string `json:"cluster"`                              // the name of the one, where the scope is name
	ClusterLabel    string `json:"clusterLabel"`                         // a label of them, where the scope is label; else nothing is done with it
	Mode            string `json:"mode" api:"required,enum=allow;deny"`  // allow: on those; deny: on all others of the app
}

// The words of ClusterInfo.
const (
	ScopeLabel = "label"
	ScopeName  = "name"
	ModeAllow  = "allow"
	ModeDeny   = "deny"
)

// PatchStep is a step of a JSON patch.
type PatchStep struct {
	Op   string `json:"op" api:"required,enum=add;remove;replace;move;copy;test"` // what is done
	Path string `json:"path" api:"required"`                                      // where, as a JSON pointer: /spec/replicas; at most 128 characters
	From string `json:"from,omitempty" bson:"from,omitempty"`                     // of move and copy: where it is now
	// any JSON; a string such as $(http://drover/v2/cluster-providers/{clusterProvider}/clusters/{cluster}/kv-pairs/kv?key=k)$ is
	// replaced by the value that is found there
	Value json.RawMessage `json:"value,omitempty" bson:"value,omitempty"`
}

// DataOptions say what becomes of files.
type DataOptions struct {
	DataKeyOptions []DataKeyOption `json:"dataKeyOptions,omitempty" bson:"dataKeyOptions,omitempty"` // by file; others have their name as key
}

// DataKeyOption is one for a file.
type DataKeyOption struct {
	FileName   string `json:"fileName" api:"required"`                                                // the name of the file, which has one option at the most
	KeyName    string `json:"keyName" api:"required"`                                                 // the key of the data that has its content
	MergePatch Truth  `json:"mergePatch,omitempty" bson:"mergePatch,omitempty" api:"enum=true;false"` // true: the file is a patch, and no data
}

// Customizations is the noun. What clusterInfo names need not be there yet.
var Customizations = &Noun{
	Kind: "customizations", Title: "customization", Collection: "customizations", Names: []string{"customization"},
	Parent: GenericResources, New: func() Object { return &Customization{} }, File: true, Files: true, Ahead: true, Ordered: true,
}

// Noun is Customizations.
func (*Customization) Noun() *Noun { return Customizations }

// dataKey is what Kubernetes takes as a key of a ConfigMap's or a Secret's data.
var dataKey = regexp.MustCompile(`^[-._a-zA-Z0-9]{1,253}$`)

// DataKey says whether a name is one of data.
func DataKey(name string) bool {
	return dataKey.MatchString(name) && name != "." && !strings.HasPrefix(name, "..")
}

// Validate checks the body.
func (o *Customization) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	s := &o.Spec
	notEmpty(p, "spec.clusterSpecific", string(s.ClusterSpecific))
	checkWord(p, "spec.clusterSpecific", string(s.ClusterSpecific), string(True), string(False))
	s.ClusterInfo.validate(p, s.ClusterSpecific == True)
	checkWord(p, "spec.patchType", string(s.PatchType), string(PatchJSON), string(PatchMerge))
	if text := TooManySteps(s.PatchJSON); text != "" {
		p.Add("spec.patchJson", "%s", text)
	} else {
		for i := range s.PatchJSON {
			s.PatchJSON[i].validate(p, fmt.Sprintf("spec.patchJson[%d]", i))
		}
	}
	s.ConfigMapOptions.validate(p, "spec.configMapOptions.dataKeyOptions")
	s.SecretOptions.validate(p, "spec.secretOptions.dataKeyOptions")
}

// TooManySteps says that a JSON patch has more steps than one may have, "" where it has not.
func TooManySteps(patch []PatchStep) string {
	if len(patch) <= limits.PatchSteps {
		return ""
	}
	return fmt.Sprintf("has %d steps, of %d at most", len(patch), limits.PatchSteps)
}

func (c *ClusterInfo) validate(p *fail.Problems, counts bool) {
	const at = "spec.clusterInfo."
	notEmpty(p, at+"scope", c.Scope)
	notEmpty(p, at+"clusterProvider", c.ClusterProvider)
	notEmpty(p, at+"mode", c.Mode)
	checkWord(p, at+"scope", c.Scope, ScopeLabel, ScopeName)
	checkWord(p, at+"mode", c.Mode, ModeAllow, ModeDeny)
	CheckLength(p, at+"clusterProvider", c.ClusterProvider, MaxName)
	CheckLength(p, at+"cluster", c.Cluster, MaxName)
	CheckLength(p, at+"clusterLabel", c.ClusterLabel, MaxName)
	switch {
	case counts && c.Scope == ScopeLabel && c.ClusterLabel == "":
		p.Add(at+"clusterLabel", "clusterLabel is missing")
	case counts && c.Scope == ScopeName && c.Cluster == "":
		p.Add(at+"cluster", "clusterName is missing")
	}
}

func (s *PatchStep) validate(p *fail.Problems, at string) {
	notEmpty(p, at+".op", s.Op)
	checkWord(p, at+".op", s.Op, "add", "remove", "replace", "move", "copy", "test")
	CheckLength(p, at+".path", s.Path, MaxName)
	if s.Path != "" && !strings.HasPrefix(s.Path, "/") {
		p.Add(at+".path", "%q is no JSON pointer: it begins with /", s.Path)
	}
	moves := s.Op == "move" || s.Op == "copy"
	switch {
	case moves && !strings.HasPrefix(s.From, "/"):
		p.Add(at+".from", "%q is no JSON pointer: it begins with /", s.From)
	case (s.Op == "add" || s.Op == "replace" || s.Op == "test") && len(s.Value) == 0: // EMCO wants one for the others, too
		p.Add(at+".value", "%s needs a value", s.Op)
	}
	if where, ok := s.External(); ok {
		if u, err := url.Parse(where); err != nil || u.Host == "" {
			p.Add(at+".value", "%q is no URL", where)
		}
	}
}

// External is the URL from which a value is to come.
func (s *PatchStep) External() (url string, ok bool) {
	var text string
	if json.Unmarshal(s.Value, &text) != nil {
		return "", false
	}
	inner, begins := strings.CutPrefix(text, "$(http")
	inner, ends := strings.CutSuffix(inner, ")$")
	return "http" + inner, begins && ends
}

func (o *DataOptions) validate(p *fail.Problems, at string) {
	keys, files := map[string]bool{}, map[string]bool{}
	for i, d := range o.DataKeyOptions {
		path := fmt.Sprintf("%s[%d]", at, i)
		notEmpty(p, path+".fileName", d.FileName)
		notEmpty(p, path+".keyName", d.KeyName)
		CheckLength(p, path+".fileName", d.FileName, MaxName)
		CheckLength(p, path+".keyName", d.KeyName, MaxName)
		checkWord(p, path+".mergePatch", string(d.MergePatch), string(True), string(False))
		if d.FileName != "" && files[d.FileName] {
			p.Add(path+".fileName", "the file %s has an option already", d.FileName)
		}
		files[d.FileName] = true
		switch {
		case d.KeyName == "":
		case !DataKey(d.KeyName):
			p.Add(path+".keyName", "%s is not a valid key name for a ConfigMap or Secret", d.KeyName)
		case keys[d.KeyName] && d.MergePatch != True:
			p.Add(path+".keyName", "a key with the name %s already exists in Data", d.KeyName)
		}
		keys[d.KeyName] = keys[d.KeyName] || d.MergePatch != True
	}
}

// References are the cluster that is named.
func (o *Customization) References() []Reference {
	c := o.Spec.ClusterInfo
	if o.Spec.ClusterSpecific != True || c.Scope != ScopeName || c.Cluster == "" {
		return nil
	}
	return []Reference{{"spec.clusterInfo.cluster", ClustersNoun, ClusterName{Provider: c.ClusterProvider, Name: c.Cluster}.Key()}}
}
