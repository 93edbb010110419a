package tenantagent

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/fail"
)

// configKey is the member of the ConfigMap that is read.
const configKey = "config"

// namespacesOf reads a ConfigMap: which namespaces' Pods are told of, sorted; none for all.
//
//	data:
//	  config: |
//	    namespaces: [shop, backoffice]
func namespacesOf(m *corev1.ConfigMap) ([]string, error) {
	text, ok := m.Data[configKey]
	if !ok {
		return nil, fail.New(fail.Invalid, "the ConfigMap %s/%s has no member %s", m.Namespace, m.Name, configKey)
	}
	var config struct {
		Namespaces *[]string `json:"namespaces"`
	}
	if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
		return nil, fail.Wrap(err, fail.Invalid, "%s of the ConfigMap %s/%s cannot be read: %v", configKey, m.Namespace, m.Name, err)
	}
	if config.Namespaces == nil {
		return nil, fail.New(fail.Invalid, "%s of the ConfigMap %s/%s does not say namespaces; [] is all of them", configKey, m.Namespace, m.Name)
	}
	names := slices.Compact(slices.Sorted(slices.Values(*config.Namespaces)))
	for _, name := range names {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return nil, fail.New(fail.Invalid, "%s of the ConfigMap %s/%s: %q is not the name of a namespace: %s", configKey, m.Namespace, m.Name, name, problems[0])
		}
	}
	return names, nil
}

// wanted is which namespaces are to be told of, as the ConfigMap last said it in words that can be read.
type wanted struct {
	changed chan struct{}

	mu      sync.Mutex
	names   []string
	known   bool
	problem error // why what the ConfigMap says now does not count; nil when it does
}

// follow follows the ConfigMap until ctx ends.
func (w *wanted) follow(ctx context.Context, health *watches, client kubernetes.Interface, namespace, name string) error {
	w.missing(namespace, name) // until it is found
	one, configs := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(), client.CoreV1().ConfigMaps(namespace)
	informer, err := follow(health, "the ConfigMap "+namespace+"/"+name, client, &corev1.ConfigMap{},
		func(ctx context.Context, o metav1.ListOptions) (*corev1.ConfigMapList, error) {
			o.FieldSelector = one
			return configs.List(ctx, o)
		},
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = one
			return configs.Watch(ctx, o)
		})
	if err != nil {
		return err
	}
	take := func(o any) {
		if m, ok := o.(*corev1.ConfigMap); ok {
			w.set(namespacesOf(m))
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: take, UpdateFunc: func(_, o any) { take(o) }, DeleteFunc: func(any) { w.missing(namespace, name) },
	}); err != nil {
		return err
	}
	informer.RunWithContext(ctx)
	return nil
}

func (w *wanted) missing(namespace, name string) {
	w.set(nil, fail.New(fail.NotFound, "there is no ConfigMap %s/%s, which says whose Pods are told of", namespace, name))
}

// set takes what is wanted now. With an error what was wanted before stays: a slip of the pen must not take everything away.
func (w *wanted) set(names []string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.problem = err; err == nil {
		w.names, w.known = names, true
	}
	signal(w.changed)
}

// now is what is wanted; known is false as long as nobody has said.
func (w *wanted) now() (names []string, known bool, problem error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.names, w.known, w.problem
}
