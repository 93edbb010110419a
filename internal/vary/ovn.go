package vary

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// OVN is a network controller intent: pods of workloads get interfaces in networks of the cluster's plugin ovn4nfv (Nodus),
// by annotations of their template. The rules are EMCO's ovnaction; what it skips without a word is refused here.
type OVN struct {
	Name      string
	Workloads []Workload // in the order of their creation
}

// Workload is a workload intent and its interfaces, in the order of their creation.
type Workload struct {
	Name       string
	Spec       domain.WorkloadIntentSpec
	Interfaces []domain.InterfaceIntent
}

const (
	nfnAnnotation     = "k8s.plugin.opnfv.org/nfn-network"
	networkAnnotation = "k8s.v1.cni.cncf.io/networks"
	nfnType           = "ovn4nfv"
	// The NetworkAttachmentDefinition by which the multi-network plugin calls Nodus; it is installed with Nodus.
	attachment, attachmentNamespace = "ovn-networkobj", "default"
)

// The keys of a cluster's key-value pairs that say how its pods get further interfaces.
const (
	nodusKey   = "CNI-Networking-Nodus-CNI-For-all-interfaces" // true: Nodus makes all of them, and none is attached
	wrapperKey = "CNI-Networking-Multi-CNI-Wrapper"            // the multi-network plugin; only multus attaches networks
	multus     = "multus"
)

func (o *OVN) by() string { return fmt.Sprintf("%s intent %s", domain.ActorOVN, o.Name) }

// refuse says what a workload intent asks for that cannot be done.
func (o *OVN) refuse(w *Workload, format string, args ...any) error {
	return fail.New(fail.Malformed, "%s, workload intent %q: app %q: %s", o.by(), w.Name, w.Spec.App, fmt.Sprintf(format, args...))
}

// Apps refuses a workload of an app that the composite app does not have. Of workload intents that do nothing it warns.
func (o *OVN) Apps(apps []string) (warnings []string, err error) {
	for i := range o.Workloads {
		w := &o.Workloads[i]
		if len(w.Interfaces) == 0 {
			warnings = append(warnings, fmt.Sprintf("%s, workload intent %q has no interfaces: nothing is done with %s %q",
				o.by(), w.Name, w.Spec.Type, w.Spec.WorkloadResource))
			continue
		}
		if !slices.Contains(apps, w.Spec.App) {
			return nil, o.refuse(w, "the composite app has no such app (it has: %s)", strings.Join(apps, ", "))
		}
	}
	return warnings, nil
}

// of are the workload intents that have anything to do with an app.
func (o *OVN) of(app string) (found []*Workload) {
	for i := range o.Workloads {
		if w := &o.Workloads[i]; w.Spec.App == app && len(w.Interfaces) > 0 {
			found = append(found, w)
		}
	}
	return found
}

// Concerns says whether a workload of the app gets interfaces.
func (o *OVN) Concerns(app string) bool { return len(o.of(app)) > 0 }

// Sort is whether networks are attached.
func (o *OVN) Sort(_ string, c *Cluster) string { return strconv.FormatBool(attaches(c)) }

// attaches says whether a cluster's pods need the annotation of the multi-network plugin.
func attaches(c *Cluster) bool {
	if value, ok := c.pair(nodusKey); ok {
		if all, err := strconv.ParseBool(value); err == nil && all {
			return false
		}
	}
	wrapper, ok := c.pair(wrapperKey)
	return !ok || strings.EqualFold(wrapper, multus)
}

// maxNamed bounds how many workloads a refusal names.
const maxNamed = 20

// Check warns of clusters of the app that do not have a network: nobody has described it, or what is described is not applied.
func (o *OVN) Check(app *App) (warnings []string, err error) {
	for _, workload := range o.of(app.Name) {
		for _, i := range workload.Interfaces {
			var without, waiting []string
			for _, c := range app.Clusters {
				switch {
				case !c.Networks[i.Spec.Name]:
					without = append(without, c.String())
				case !c.Applied:
					waiting = append(waiting, c.String())
				}
			}
			by := fmt.Sprintf("%s, workload intent %q, interface %q", o.by(), workload.Name, i.Name)
			switch n := len(without); {
			case n == 0:
			case n == len(app.Clusters):
				warnings = append(warnings, fmt.Sprintf("%s: no cluster of app %q has a network %q", by, app.Name, i.Spec.Name))
			default:
				warnings = append(warnings, fmt.Sprintf("%s: %d of %d clusters of app %q have no network %q: %s",
					by, n, len(app.Clusters), app.Name, i.Spec.Name, fewOf(without)))
			}
			if n := len(waiting); n > 0 {
				warnings = append(warnings, fmt.Sprintf("%s: network %q is not applied on %d of %d clusters of app %q: %s",
					by, i.Spec.Name, n, len(app.Clusters), app.Name, fewOf(waiting)))
			}
		}
	}
	return warnings, nil
}

// has names the app's workloads, for who has misspelt one.
func has(w *Work) string {
	return w.names("nothing with pods", func(i int) bool {
		object, err := w.object(i)
		return err == nil && template(object) != nil
	})
}

// several says of how many pods a workload may have more than one; "" when it has one.
func several(object map[string]any) string {
	if object["kind"] == "DaemonSet" {
		return "a pod on each node"
	}
	spec, _ := object["spec"].(map[string]any)
	if jobs, ok := spec["jobTemplate"].(map[string]any); ok {
		spec, _ = jobs["spec"].(map[string]any)
	}
	for _, of := range [][2]string{{"replicas", "replicas"}, {"parallelism", "pods at a time"}} {
		n, _ := spec[of[0]].(json.Number)
		if pods, err := n.Int64(); err == nil && pods > 1 {
			return fmt.Sprintf("%d %s", pods, of[1])
		}
	}
	return ""
}

// template is what has the metadata of the object's pods: a pod itself, or the template of any other kind, known or not; nil
// for none.
func template(object map[string]any) map[string]any {
	spec, _ := object["spec"].(map[string]any)
	version, _ := object["apiVersion"].(string)
	switch {
	case object["kind"] == "Pod" && version == "v1":
		return object
	case object["kind"] == "CronJob" && strings.HasPrefix(version, "batch/"):
		jobs, _ := spec["jobTemplate"].(map[string]any)
		spec, _ = jobs["spec"].(map[string]any)
	}
	found, _ := spec["template"].(map[string]any)
	return found
}

// Vary sets the annotations. It refuses workloads that are not there, and those without pods, and warns of an address that several
// pods would have.
func (o *OVN) Vary(w *Work) error {
	for _, workload := range o.of(w.App) {
		indices := w.Find(workload.Spec.Type, workload.Spec.WorkloadResource)
		id := o.by() + "/" + workload.Name
		if len(indices) == 0 {
			w.Lacks(id, o.refuse(workload, "there is no %s %q (it has: %s)", workload.Spec.Type, workload.Spec.WorkloadResource, has(w)))
			continue
		}
		w.Met(id)
		for _, index := range indices {
			if err := o.look(w, workload, index); err != nil {
				return err
			}
			if err := o.annotate(w, workload, index); err != nil {
				return err
			}
		}
	}
	return nil
}

// look finds what is wrong or odd with a workload.
func (o *OVN) look(w *Work, workload *Workload, index int) error {
	object, err := w.object(index)
	if err != nil {
		return err
	}
	if template(object) == nil {
		return o.refuse(workload, "%s %q has no pods, so that it can have no interfaces", workload.Spec.Type, workload.Spec.WorkloadResource)
	}
	pods := several(object)
	for _, i := range workload.Interfaces {
		if pods != "" && i.Spec.IPAddress != "" {
			w.Warn("%s, workload intent %q, interface %q: %s %q has %s, which all get the address %s",
				o.by(), workload.Name, i.Name, workload.Spec.Type, workload.Spec.WorkloadResource, pods, i.Spec.IPAddress)
		}
	}
	return nil
}

func (o *OVN) annotate(w *Work, workload *Workload, index int) error {
	attach := attaches(w.Cluster)
	err := w.Edit(index, func(object map[string]any) error {
		annotations, err := annotationsOf(template(object))
		if err != nil {
			return o.refuse(workload, "%s %q: %s", workload.Spec.Type, workload.Spec.WorkloadResource, err)
		}
		set := func(name string, merge func(was string) (string, error)) error {
			was, isText := annotations[name].(string)
			if !isText && annotations[name] != nil { // a list in YAML, which was to be text
				return o.refuse(workload, "%s %q: the annotation %s of its pods is no string", workload.Spec.Type, workload.Spec.WorkloadResource, name)
			}
			value, err := merge(was)
			if err != nil {
				return o.refuse(workload, "%s %q: the annotation %s of its pods is not one that can be added to: %s",
					workload.Spec.Type, workload.Spec.WorkloadResource, name, err)
			}
			annotations[name] = value
			return nil
		}
		if err := set(nfnAnnotation, func(was string) (string, error) { return addInterfaces(was, workload.Interfaces) }); err != nil || !attach {
			return err
		}
		return set(networkAnnotation, addAttachment)
	})
	if err != nil {
		return err
	}
	w.Effect(index, "annotation "+nfnAnnotation, o.by())
	if attach {
		w.Effect(index, "annotation "+networkAnnotation, o.by())
	}
	return nil
}

// annotationsOf are those of a template, which is made to have some.
func annotationsOf(template map[string]any) (map[string]any, error) {
	metadata, err := member(template, "metadata")
	if err != nil {
		return nil, err
	}
	return member(metadata, "annotations")
}

func member(of map[string]any, name string) (map[string]any, error) {
	if of[name] == nil {
		of[name] = map[string]any{}
	}
	m, ok := of[name].(map[string]any)
	if !ok {
		return nil, fail.New(fail.Malformed, "%s of its pods is not an object", name)
	}
	return m, nil
}

// nfnNetwork is what Nodus reads. Its members have EMCO's order.
type nfnNetwork struct {
	Type       string            `json:"type"`
	Interfaces []json.RawMessage `json:"interface"`
}

// addInterfaces adds interfaces to what an annotation has. One of the same name in the same network is replaced.
func addInterfaces(was string, interfaces []domain.InterfaceIntent) (string, error) {
	n := nfnNetwork{Interfaces: []json.RawMessage{}}
	if strings.TrimSpace(was) != "" {
		if err := json.Unmarshal([]byte(was), &n); err != nil {
			return "", err
		}
	}
	n.Type = nfnType
	for _, i := range interfaces {
		ours, err := encode(i.Spec)
		if err != nil {
			return "", err
		}
		at := slices.IndexFunc(n.Interfaces, func(theirs json.RawMessage) bool {
			var is struct{ Interface, Name string }
			return json.Unmarshal(theirs, &is) == nil && is.Interface == i.Spec.Interface && is.Name == i.Spec.Name
		})
		if at >= 0 {
			n.Interfaces[at] = ours
		} else {
			n.Interfaces = append(n.Interfaces, ours)
		}
	}
	value, err := encode(n)
	return string(value), err
}

// selection is an element of the annotation of the multi-network plugin. "cni-args" is part of the text, also when it is null.
type selection struct {
	Name      string          `json:"name"`
	Namespace string          `json:"namespace,omitempty"`
	Interface string          `json:"interface,omitempty"`
	Args      json.RawMessage `json:"cni-args"`
}

// addAttachment adds Nodus to the networks that an annotation has, in JSON or as a list of namespace/name@interface, unless
// one of that name is there.
func addAttachment(was string) (string, error) {
	elements, err := selections(strings.TrimSpace(was))
	if err != nil {
		return "", err
	}
	there := slices.ContainsFunc(elements, func(e json.RawMessage) bool {
		var s selection
		return json.Unmarshal(e, &s) == nil && s.Name == attachment
	})
	if !there {
		ours, err := encode(selection{Name: attachment, Namespace: attachmentNamespace})
		if err != nil {
			return "", err
		}
		elements = append(elements, ours)
	}
	value, err := encode(elements)
	return string(value), err
}

func selections(was string) (elements []json.RawMessage, err error) {
	switch {
	case was == "":
		return nil, nil
	case strings.HasPrefix(was, "["):
		err := json.Unmarshal([]byte(was), &elements)
		return elements, err
	}
	for item := range strings.SplitSeq(was, ",") {
		s := selection{Name: strings.TrimSpace(item)}
		if namespace, name, found := strings.Cut(s.Name, "/"); found {
			s.Namespace, s.Name = namespace, name
		}
		s.Name, s.Interface, _ = strings.Cut(s.Name, "@")
		if s.Name == "" || strings.ContainsAny(s.Namespace+s.Name+s.Interface, "/@{}[]\" ") {
			return nil, fail.New(fail.Malformed, "%q is neither JSON nor a list of namespace/name@interface", was)
		}
		element, err := encode(s)
		if err != nil {
			return nil, err
		}
		elements = append(elements, element)
	}
	return elements, nil
}

var _ Intent = (*OVN)(nil)
