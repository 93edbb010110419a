package vary

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
)

// Generic is a resource of a generic k8s intent, with its customizations: an object that is added, or one that is patched. The
// rules are EMCO's gac; what it skips or loses without a word is done here, or refused.
type Generic struct {
	Of             string // the generic k8s intent
	Name           string // the generic resource
	Spec           domain.GenericResourceSpec
	Template       []byte
	Customizations []Customized // in the order of their creation
	// Values are those that come from elsewhere, by URL. All that Needs says must be there.
	Values map[string]Value

	made      map[made]outcome
	madeBytes int
	parsed    map[string]json.RawMessage // the template and the patches, each read once
}

// Customized is a customization.
type Customized struct {
	Name  string
	Spec  domain.CustomizationSpec
	Files []domain.Upload

	external map[int]string  // by step of the JSON patch: the URL of its value, as templates says; read once
	patch    jsonpatch.Patch // the JSON patch, read once
}

// Value is one from elsewhere, or why there is none.
type Value struct {
	JSON json.RawMessage
	Err  error
}

// made is what decides what an object comes to: the word of its clusters, and what it was before.
type made struct {
	word string
	was  *byte
}

// outcome is what it has come to, and which object that is.
type outcome struct {
	manifest json.RawMessage
	id       plan.ResourceID
}

func (g *Generic) by() string {
	return fmt.Sprintf("%s intent %s, resource %s", domain.ActorGAC, g.Of, g.Name)
}

func (g *Generic) byOf(c *Customized) string { return g.by() + ", customization " + c.Name }

// refuse says what cannot be done; c is nil for what is about the resource.
func (g *Generic) refuse(c *Customized, format string, args ...any) error {
	by := fmt.Sprintf("%s intent %s, resource %q", domain.ActorGAC, g.Of, g.Name)
	if c != nil {
		by += fmt.Sprintf(", customization %q", c.Name)
	}
	return fail.New(fail.Malformed, "%s: app %q: %s %q: %s", by, g.Spec.App, g.Spec.ResourceGVK.Kind, g.Spec.ResourceGVK.Name, fmt.Sprintf(format, args...))
}

// Concerns says whether anything is done with the app.
func (g *Generic) Concerns(app string) bool { return g.Spec.App == app }

// Apps refuses a resource of an app that the composite app does not have.
func (g *Generic) Apps(apps []string) error {
	if slices.Contains(apps, g.Spec.App) {
		return nil
	}
	return g.refuse(nil, "the composite app has no such app (it has: %s)", strings.Join(apps, ", "))
}

// On says whether a customization is for a cluster.
func (c *Customized) On(cluster *Cluster) bool {
	return c.Spec.ClusterSpecific != domain.True || c.selects(cluster) != c.denies()
}

// selects says whether clusterInfo means a cluster, be it to allow or to deny it.
func (c *Customized) selects(cluster *Cluster) bool {
	of := &c.Spec.ClusterInfo
	if of.Scope == domain.ScopeLabel {
		return cluster.Provider == of.ClusterProvider && cluster.Labels[of.ClusterLabel]
	}
	return cluster.Provider == of.ClusterProvider && cluster.Name == of.Cluster
}

// denies says whether it is for all clusters but those that it selects.
func (c *Customized) denies() bool {
	return c.Spec.ClusterSpecific == domain.True && c.Spec.ClusterInfo.Mode == domain.ModeDeny
}

// of are the customizations for a cluster.
func (g *Generic) of(cluster *Cluster) (found []*Customized) {
	for i := range g.Customizations {
		if c := &g.Customizations[i]; c.On(cluster) {
			found = append(found, c)
		}
	}
	return found
}

// URLs are where the values of a customization come from on a cluster, by step of its patch: {clusterProvider} and {cluster} are
// what the customization says, unless that is what it denies, or else the cluster's own. A cluster that nobody knows yet has none.
func (c *Customized) URLs(cluster *Cluster) map[int]string {
	if cluster.Name == "" || c.Spec.PatchType != domain.PatchJSON {
		return nil
	}
	templates := c.templates()
	if len(templates) == 0 {
		return nil
	}
	urls := make(map[int]string, len(templates))
	names := cluster.ClusterName
	switch of := &c.Spec.ClusterInfo; {
	case c.denies(): // it says where the customization is not
	case of.ClusterProvider != "" && of.Cluster != "":
		names = domain.ClusterName{Provider: of.ClusterProvider, Name: of.Cluster}
	case of.ClusterProvider != "":
		names.Provider = of.ClusterProvider
	}
	insert := strings.NewReplacer("{clusterProvider}", names.Provider, "{cluster}", names.Name)
	for i, at := range templates {
		urls[i] = insert.Replace(at)
	}
	return urls
}

// templates are the URLs of values by step, with {clusterProvider} and {cluster}.
func (c *Customized) templates() map[int]string {
	if c.external == nil {
		c.external = map[int]string{}
		for i := range c.Spec.PatchJSON {
			if at, ok := c.Spec.PatchJSON[i].External(); ok {
				c.external[i] = at
			}
		}
	}
	return c.external
}

// Keys are those of key-value pairs that URLs of values name. One with the name of the cluster in it is not among them.
func (g *Generic) Keys() []string {
	all := map[string]bool{}
	for i := range g.Customizations {
		for _, at := range g.Customizations[i].templates() {
			u, err := url.Parse(at)
			if err == nil && u.Query().Has("key") {
				all[u.Query().Get("key")] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Needs are the URLs from which values must come for these clusters, sorted.
func (g *Generic) Needs(clusters []*Cluster) []string {
	all := map[string]bool{}
	for _, cluster := range clusters {
		for _, c := range g.of(cluster) {
			for _, at := range c.URLs(cluster) {
				all[at] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Check refuses what can be done nowhere, and warns of what does nothing.
func (g *Generic) Check(app *App) (warnings []string, err error) {
	if len(g.Customizations) == 0 {
		return []string{fmt.Sprintf("%s has no customizations: nothing is done with %s %q", g.by(), g.Spec.ResourceGVK.Kind, g.Spec.ResourceGVK.Name)}, nil
	}
	if _, holds := g.Spec.ResourceGVK.Holds(); g.Spec.Adds() && !holds && len(g.Template) == 0 {
		return nil, g.refuse(nil, "it is to be a new object, and has no template")
	}
	for i := range g.Customizations {
		c := &g.Customizations[i]
		switch {
		case !g.Spec.Adds() && c.Spec.PatchType == "":
			return nil, g.refuse(c, "it has no patchType, and an object that is there can only be patched")
		case c.Spec.PatchType == domain.PatchJSON && len(c.Spec.PatchJSON) == 0:
			return nil, g.refuse(c, "patchJson has no steps")
		case c.Spec.PatchType == domain.PatchMerge && len(g.Patches(c)) == 0:
			return nil, g.refuse(c, "it has no file that is a patch")
		case len(app.Clusters) > 0 && !slices.ContainsFunc(app.Clusters, c.On):
			warnings = append(warnings, fmt.Sprintf("%s: it is for no cluster of app %q", g.byOf(c), app.Name))
		case len(app.Clusters) > 0 && c.denies() && !slices.ContainsFunc(app.Clusters, c.selects):
			warnings = append(warnings, fmt.Sprintf("%s: it denies no cluster of app %q, and is for all of them", g.byOf(c), app.Name))
		}
		for _, idle := range g.idle(c) {
			warnings = append(warnings, g.byOf(c)+": "+idle)
		}
	}
	return warnings, nil
}

// idle are the members and files of a customization that do nothing. EMCO's client sends no customization without a file, so one
// that could be no patch is not spoken of.
func (g *Generic) idle(c *Customized) (idle []string) {
	if c.Spec.PatchType != domain.PatchJSON && len(c.Spec.PatchJSON) > 0 {
		idle = append(idle, fmt.Sprintf("its patchJson does nothing, since patchType is %q", c.Spec.PatchType))
	}
	kind, holds := g.Spec.ResourceGVK.Holds()
	for _, o := range []struct {
		member, kind string
		options      domain.DataOptions
	}{{"configMapOptions", domain.KindConfigMap, c.Spec.ConfigMapOptions}, {"secretOptions", domain.KindSecret, c.Spec.SecretOptions}} {
		for _, option := range o.options.DataKeyOptions {
			switch {
			case !holds || kind != o.kind:
				idle = append(idle, fmt.Sprintf("its %s do nothing, since the object is no %s", o.member, o.kind))
			case !slices.ContainsFunc(c.Files, func(f domain.Upload) bool { return f.Name == option.FileName }):
				idle = append(idle, fmt.Sprintf("its %s name the file %s, which it does not have", o.member, option.FileName))
			case !g.Spec.Adds() && option.MergePatch != domain.True:
				idle = append(idle, fmt.Sprintf("its %s for the file %s do nothing: files are data of new objects alone (newObject)", o.member, option.FileName))
			}
		}
	}
	for _, f := range c.Files {
		option, _ := g.option(c, f.Name)
		if holds && g.Spec.Adds() && option.MergePatch != domain.True {
			continue // it is data
		}
		if c.Spec.PatchType == domain.PatchMerge && (!holds || option.MergePatch == domain.True) {
			continue
		}
		if _, err := Object(f.Data); err == nil {
			idle = append(idle, fmt.Sprintf("its file %s does nothing: a merge patch needs the patchType merge%s", f.Name, map[bool]string{true: ", and of a ConfigMap or a Secret the option mergePatch"}[holds]))
		}
	}
	return slices.Compact(idle)
}

// Sort is which customizations a cluster gets, and with which values.
func (g *Generic) Sort(_ string, cluster *Cluster) string {
	var word strings.Builder
	for i := range g.Customizations {
		c := &g.Customizations[i]
		if !c.On(cluster) {
			continue
		}
		fmt.Fprintf(&word, "%d", i)
		urls := c.URLs(cluster)
		for _, step := range slices.Sorted(maps.Keys(urls)) {
			v := g.Values[urls[step]]
			sum := sha256.Sum256(append([]byte(fmt.Sprint(v.Err, " ")), v.JSON...))
			word.WriteString("=" + hex.EncodeToString(sum[:]))
		}
		word.WriteByte(' ')
	}
	return word.String()
}

// Vary adds the object, or patches it.
func (g *Generic) Vary(w *Work) error {
	chosen := g.of(w.Cluster)
	if len(chosen) == 0 {
		return nil
	}
	if g.Spec.Adds() {
		return g.add(w, chosen)
	}
	named := w.Find(g.Spec.ResourceGVK.Kind, g.Spec.ResourceGVK.Name)
	indices := slices.DeleteFunc(slices.Clone(named), func(i int) bool {
		return version(w.union.resource(i).ResourceID) != g.Spec.ResourceGVK.APIVersion
	})
	id := g.by()
	switch {
	case len(indices) > 0:
	case len(named) > 0:
		w.Lacks(id, g.refuse(nil, "spec.resourceGVK.apiVersion is %q, and it is rendered as %s", g.Spec.ResourceGVK.APIVersion, version(w.union.resource(named[0]).ResourceID)))
		return nil
	default:
		w.Lacks(id, g.refuse(nil, "there is none of %s (the app has: %s)", g.Spec.ResourceGVK.APIVersion, all(w)))
		return nil
	}
	w.Met(id)
	for _, i := range indices {
		was := w.manifest(i)
		is, err := g.make(w, chosen, &was[0], func() (map[string]any, error) { return w.object(i) })
		if err != nil {
			return err
		}
		if err := w.remains(i, is.id); err != nil {
			return g.refuse(nil, "%s", fail.TextOf(err))
		}
		w.Set(i, is.manifest)
		g.note(w, i, chosen)
	}
	return nil
}

// add puts a new object beside those that there are.
func (g *Generic) add(w *Work, chosen []*Customized) error {
	is, err := g.make(w, chosen, nil, g.fresh)
	if err != nil {
		return err
	}
	id := is.id
	if gvk := g.Spec.ResourceGVK; version(id) != gvk.APIVersion || !strings.EqualFold(id.Kind, gvk.Kind) || id.Name != gvk.Name {
		return g.refuse(nil, "it would become another object (%s)", name(id))
	}
	replaced := w.replaced(id, is.manifest, g.by())
	index, err := w.AddManifest(id, is.manifest)
	if err != nil {
		return g.refuse(nil, "%s", fail.TextOf(err))
	}
	if replaced != "" {
		w.Warn("%s", fail.TextOf(g.refuse(nil, "it is to be a new object, and takes the place of the one %s", replaced)))
	}
	w.Effect(index, objectEffect, g.by())
	g.note(w, index, chosen)
	return nil
}

// make makes the object, or takes what was made of the same for clusters of the same word.
func (g *Generic) make(w *Work, chosen []*Customized, was *byte, begin func() (map[string]any, error)) (is outcome, err error) {
	key := made{g.Sort(w.App, w.Cluster), was}
	if is, known := g.made[key]; known {
		return is, nil
	}
	object, err := begin()
	if err != nil {
		return is, err
	}
	first, err := identify(object)
	if err != nil {
		return is, g.refuse(nil, "%s", fail.TextOf(err))
	}
	own := map[string]bool{} // keys of the data that earlier customizations have set
	for _, c := range chosen {
		if object, err = g.customize(w, c, object, own); err != nil {
			return is, err
		}
	}
	if is.id, err = identify(object); err != nil {
		return is, g.refuse(nil, "%s", fail.TextOf(err))
	}
	if was == nil && !w.isOne(is.id, first) { // Vary says it of those that are there
		return is, g.refuse(nil, "it would become another object (%s)", name(is.id))
	}
	if is.manifest, err = encode(object); err != nil {
		return is, err
	}
	if len(is.manifest) > limits.Etcd {
		return is, g.refuse(nil, "it would have %d bytes, and no object in a cluster has more than %d", len(is.manifest), limits.Etcd)
	}
	if g.made == nil {
		g.made = map[made]outcome{}
	}
	if g.madeBytes+len(is.manifest) <= maxMade {
		g.made[key] = is
		g.madeBytes += len(is.manifest)
	}
	return is, nil
}

// maxMade bounds what results of a resource are at hand, in bytes: one of the largest objects, or some thousand small ones.
const maxMade = 2 * limits.Etcd

// fresh is the object of the template, or an empty one that takes files.
func (g *Generic) fresh() (map[string]any, error) {
	gvk := g.Spec.ResourceGVK
	kind, _ := gvk.Holds()
	if len(g.Template) == 0 {
		return map[string]any{"apiVersion": gvk.APIVersion, "kind": kind, "metadata": map[string]any{"name": gvk.Name}}, nil
	}
	object, err := g.read("", g.Template)
	if err != nil {
		return nil, g.refuse(nil, "its template: %s", fail.TextOf(err))
	}
	return object, nil
}

// read is Object for a file of the resource, which is parsed once: there may be as many sorts of clusters as clusters. The id is
// the file's.
func (g *Generic) read(id string, file []byte) (map[string]any, error) {
	if g.parsed == nil {
		g.parsed = map[string]json.RawMessage{}
	}
	if text, known := g.parsed[id]; known {
		return decode(text)
	}
	object, err := Object(file)
	if err != nil {
		return nil, err
	}
	g.parsed[id], err = encode(object)
	return object, err
}

// customize carries a customization out.
func (g *Generic) customize(w *Work, c *Customized, object map[string]any, own map[string]bool) (map[string]any, error) {
	if g.Spec.Adds() {
		if kind, holds := g.Spec.ResourceGVK.Holds(); holds {
			if err := g.fill(c, object, kind, own); err != nil {
				return nil, err
			}
		}
	}
	switch c.Spec.PatchType {
	case domain.PatchJSON:
		patch, err := g.patch(w, c)
		if err != nil {
			return nil, err
		}
		if object, err = patchJSON(object, patch); err != nil {
			return nil, g.refuse(c, "%s", fail.TextOf(err))
		}
	case domain.PatchMerge:
		for i, f := range g.Patches(c) {
			patch, err := g.read(fmt.Sprint(c.Name, "/", i), f.Data) // files may have one name
			if err != nil {
				return nil, g.refuse(c, "file %s: %s", f.Name, fail.TextOf(err))
			}
			if object, err = merge(object, patch); err != nil {
				return nil, g.refuse(c, "file %s: %s", f.Name, fail.TextOf(err))
			}
		}
	}
	return object, nil
}

// patch is a customization's, with the values that come from elsewhere.
func (g *Generic) patch(w *Work, c *Customized) (jsonpatch.Patch, error) {
	urls := c.URLs(w.Cluster)
	values := make(map[int]json.RawMessage, len(urls))
	for _, i := range slices.Sorted(maps.Keys(urls)) {
		v, known := g.Values[urls[i]]
		if !known {
			v.Err = fail.New(fail.Internal, "it was not asked for")
		}
		if v.Err != nil {
			return nil, fail.Wrap(v.Err, fail.KindOf(v.Err), "%s", fail.TextOf(g.refuse(c, "patchJson[%d]: the value of %s: %s", i, Redacted(urls[i]), fail.TextOf(v.Err))))
		}
		values[i] = v.JSON
	}
	if c.patch == nil {
		var err error
		if c.patch, err = readPatch(c.Spec.PatchJSON); err != nil {
			return nil, g.refuse(c, "%s", fail.TextOf(err))
		}
	}
	return withValues(c.patch, values)
}

// Redacted is a URL as users and logs may read it, without what may be secret: a password, and the query of other hosts. Of key-value pairs, which are
// looked up, it says which one.
func Redacted(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return "a URL that cannot be read"
	}
	if u.RawQuery != "" {
		key, hidden := u.Query().Get("key"), "…"
		if key != "" && strings.HasPrefix(u.Path, "/v2/cluster-providers/") {
			hidden = "key=" + url.QueryEscape(key)
		}
		u.RawQuery = hidden
	}
	u.Fragment, u.RawFragment = "", ""
	return u.Redacted()
}

// option is what a customization says of a file.
func (g *Generic) option(c *Customized, file string) (option domain.DataKeyOption, found bool) {
	of := c.Spec.ConfigMapOptions
	switch kind, _ := g.Spec.ResourceGVK.Holds(); kind {
	case domain.KindSecret:
		of = c.Spec.SecretOptions
	}
	for _, o := range of.DataKeyOptions {
		if o.FileName == file {
			return o, true
		}
	}
	return option, false
}

// Patches are the files that are merge patches: all of them, but of what takes files as data those that are said to be.
func (g *Generic) Patches(c *Customized) (files []domain.Upload) {
	_, holds := g.Spec.ResourceGVK.Holds()
	for _, f := range c.Files {
		if o, _ := g.option(c, f.Name); !holds || o.MergePatch == domain.True {
			files = append(files, f)
		}
	}
	return files
}

// Twice is a name that two of the files have that are to be data, where it would be a key; "" for none.
func (g *Generic) Twice(c *Customized) string {
	if _, holds := g.Spec.ResourceGVK.Holds(); !holds {
		return ""
	}
	names := map[string]bool{}
	for _, f := range c.Files {
		if o, _ := g.option(c, f.Name); o.MergePatch == domain.True {
			continue
		}
		if names[f.Name] {
			return f.Name
		}
		names[f.Name] = true
	}
	return ""
}

// fill puts files into the data of a ConfigMap or a Secret. What an earlier customization has put there is replaced.
func (g *Generic) fill(c *Customized, object map[string]any, kind string, own map[string]bool) error {
	here := map[string]bool{}
	for _, f := range c.Files {
		o, found := g.option(c, f.Name)
		if o.MergePatch == domain.True {
			continue
		}
		key := f.Name
		if found {
			key = o.KeyName
		}
		if here[key] {
			return g.refuse(c, "two of its files have the key %s", key)
		}
		here[key] = true
		if !domain.DataKey(key) {
			return g.refuse(c, "%s is not a valid key name for a ConfigMap or Secret", key)
		}
		for _, in := range []string{"data", "binaryData", "stringData"} {
			has, ok := object[in].(map[string]any)
			if !ok && object[in] != nil {
				return g.refuse(c, "its %s is not an object", in)
			}
			if _, taken := has[key]; taken && !own[key] {
				return g.refuse(c, "a key with the name %s already exists in Data for %s %s", key, kind, g.Spec.ResourceGVK.Name)
			}
			delete(has, key)
		}
		own[key] = true
		in, value := "data", string(f.Data)
		switch {
		case kind == domain.KindSecret:
			value = base64.StdEncoding.EncodeToString(f.Data)
		case !utf8.Valid(f.Data):
			in, value = "binaryData", base64.StdEncoding.EncodeToString(f.Data)
		}
		if object[in] == nil {
			object[in] = map[string]any{}
		}
		object[in].(map[string]any)[key] = value
	}
	return nil
}

// maxEffects bounds how many steps of a patch are told one by one.
const maxEffects = 20

// note records the effects that the chosen customizations have on the object with the index.
func (g *Generic) note(w *Work, index int, chosen []*Customized) {
	for _, c := range chosen {
		by := g.byOf(c)
		if _, holds := g.Spec.ResourceGVK.Holds(); holds && g.Spec.Adds() {
			for _, key := range g.addedKeys(c) {
				w.Effect(index, "key "+key, by)
			}
		}
		switch steps := c.Spec.PatchJSON; {
		case c.Spec.PatchType == domain.PatchMerge:
			for _, f := range g.Patches(c) {
				w.Effect(index, "merge of "+f.Name, by)
			}
		case c.Spec.PatchType == domain.PatchJSON && len(steps) > maxEffects:
			w.Effect(index, fmt.Sprintf("patch of %d steps", len(steps)), by)
		case c.Spec.PatchType == domain.PatchJSON:
			for _, s := range steps {
				w.Effect(index, s.Op+" "+s.Path, by)
			}
		}
	}
}

// addedKeys are the keys of a ConfigMap or Secret that the files of a customization become: all but those that are merged into it.
func (g *Generic) addedKeys(c *Customized) (keys []string) {
	for _, f := range c.Files {
		switch o, found := g.option(c, f.Name); {
		case o.MergePatch == domain.True:
		case found:
			keys = append(keys, o.KeyName)
		default:
			keys = append(keys, f.Name)
		}
	}
	return keys
}

// all names what the app has, for who has misspelt one.
func all(w *Work) string { return w.names("nothing", func(int) bool { return true }) }

var _ Intent = (*Generic)(nil)
