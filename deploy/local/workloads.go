package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	chart "github.com/drover-io/drover/deploy/helm/tenant-agent"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/tenantagent"
	"github.com/drover-io/drover/internal/tenantcert"
)

// What the story of workloads calls things.
const (
	shop           = "shop"           // the tenant
	shopProvider   = "infrastructure" // of its infrastructure cluster
	agentNamespace = "drover"         // in the tenant's cluster
	agentName      = "drover-tenant-agent"
	shopPod        = "cart"
)

// shopRule makes a Pod beside each Pod of the tenant that has the label app.
const shopRule = `
apiVersion: drover.io/v1alpha1
kind: WorkloadRule
metadata: {name: proxy, namespace: default}
spec:
  orchestratorType: kubernetes
  resourceType: v1/Pod
  dpuSelectionPolicy: Any
  workloadTerms:
    - matchExpressions:
        - {key: state.extra.labels.app, operation: Exists}
  workloadInfoInject:
    - {key: "@", asAnnotation: {name: full-workload-info}}
  ruleTemplate:
    apiVersion: v1
    kind: Pod
    metadata: {name: proxy}
    spec:
      automountServiceAccountToken: false
      containers: [{name: proxy, image: nginx}]
`

// runWorkloads tells how a Pod of a tenant's cluster makes a resource in the tenant's infrastructure cluster: by the tenant's agent
// and a WorkloadRule.
func runWorkloads(ctx context.Context, args []string, stdout io.Writer) error {
	return runStory(ctx, "demo-workloads", args, stdout, func(d *demo, ctx context.Context, k *stack) error {
		if len(k.names()) < 2 {
			return errors.New("two clusters are needed: --clusters names them, the infrastructure's first")
		}
		w := &workloads{demo: d, infrastructure: k.names()[0], own: k.names()[1]}
		return w.tell(ctx, k)
	})
}

// workloads is the story while it is told.
type workloads struct {
	*demo
	infrastructure, own string // the names of the clusters
	config              *rest.Config
	kube, infra         kubernetes.Interface
	objects             dynamic.Interface // of the tenant's cluster
}

func (w *workloads) tell(ctx context.Context, k *stack) (err error) {
	if err := w.connect(k); err != nil {
		return err
	}
	if err := w.onboardTenant(ctx, k); err != nil {
		return err
	}
	stop, err := w.startAgent(ctx, k)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, step := range []func(context.Context) error{w.writeRule, w.runPod, w.endPod, w.removeRule} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// connect makes clients of both clusters.
func (w *workloads) connect(k *stack) (err error) {
	if w.config, err = clientcmd.BuildConfigFromFlags("", k.kubeconfig(w.own)); err != nil {
		return err
	}
	if w.kube, err = kubernetes.NewForConfig(w.config); err != nil {
		return err
	}
	if w.objects, err = dynamic.NewForConfig(w.config); err != nil {
		return err
	}
	infra, err := clientcmd.BuildConfigFromFlags("", k.kubeconfig(w.infrastructure))
	if err != nil {
		return err
	}
	w.infra, err = kubernetes.NewForConfig(infra)
	return err
}

func (w *workloads) onboardTenant(ctx context.Context, k *stack) error {
	w.chapter("Onboarding the tenant %s, whose infrastructure cluster is %s", shop, w.infrastructure)
	kubeconfig, err := os.ReadFile(k.kubeconfig(w.infrastructure))
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	if err := w.vfw.API.Register(ctx, shopProvider, map[string][]byte{w.infrastructure: kubeconfig}, []string{w.infrastructure}, nil, w.step); err != nil {
		return err
	}
	cluster := domain.ClusterName{Provider: shopProvider, Name: w.infrastructure}
	tenant := &domain.Tenant{Metadata: domain.Metadata{Name: shop}, Spec: domain.TenantSpec{Cluster: cluster.String(), Nodes: domain.NodesAll}}
	if _, err := w.vfw.API.Create(ctx, tenant, nil); err != nil {
		return err
	}
	w.step("tenants " + shop)
	return tenantcert.Tenant(k.tenants(), shop)
}

// startAgent installs the agent's chart into the tenant's cluster, and runs the agent with the rights of its account. Nothing
// runs its image there.
func (w *workloads) startAgent(ctx context.Context, k *stack) (stop func() error, err error) {
	w.chapter("Installing the tenant's agent into %s", w.own)
	server := net.JoinHostPort(loopback, strconv.Itoa(k.tenantPort))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: agentNamespace}}
	if _, err := w.kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	manifests, err := chart.Manifests(chart.Options{Namespace: agentNamespace, Tenant: shop, Server: server, Namespaces: []string{metav1.NamespaceDefault}})
	if err != nil {
		return nil, err
	}
	for _, m := range manifests {
		if m.Kind == "Deployment" {
			continue
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(m.Manifest); err != nil {
			return nil, err
		}
		resource := schema.GroupVersionResource{Group: m.Group, Version: m.Version, Resource: strings.ToLower(m.Kind) + "s"}
		if _, err := w.objects.Resource(resource).Namespace(m.Namespace).Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
		w.say("%s %s", m.Kind, m.Name)
	}
	w.say("The agent itself runs in this process, as that ServiceAccount: no images run in these clusters")
	token, err := w.kube.CoreV1().ServiceAccounts(agentNamespace).CreateToken(ctx, agentName, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	account := rest.AnonymousClientConfig(w.config)
	account.BearerToken = token.Status.Token
	klog.SetSlogLogger(slog.Default()) // where what libraries do is no warning
	run, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- tenantagent.Run(run, tenantagent.Config{
			Cluster: account, Tenant: shop, Namespace: agentNamespace, ConfigMap: agentName, Identity: "demo", Rules: true, Log: slog.Default(),
			Server: tenantagent.Server{
				Address: server, Name: tenantcert.ServerName, CA: filepath.Join(k.tenants(), "ca.crt"),
				Cert: filepath.Join(k.tenants(), shop+".crt"), Key: filepath.Join(k.tenants(), shop+".key"),
			},
		})
	}()
	return func() error {
		cancel()
		return <-ended
	}, nil
}

// rules are the WorkloadRules of the tenant's cluster.
func (w *workloads) rules() dynamic.ResourceInterface {
	return w.objects.Resource(schema.GroupVersionResource{Group: "drover.io", Version: "v1alpha1", Resource: "workloadrules"}).Namespace(metav1.NamespaceDefault)
}

func (w *workloads) writeRule(ctx context.Context) error {
	w.chapter("Writing a WorkloadRule in %s", w.own)
	w.say("%s", strings.ReplaceAll(strings.TrimSpace(shopRule), "\n", "\n  "))
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(shopRule), &o.Object); err != nil {
		return err
	}
	// A kind that was just defined may not be served yet.
	if err := until(ctx, "the WorkloadRule is taken", func() (bool, error) {
		_, err := w.rules().Create(ctx, o, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil || apierrors.IsAlreadyExists(err), err
	}); err != nil {
		return err
	}
	id := ""
	err := until(ctx, "the rule is carried over", func() (bool, error) {
		now, err := w.rules().Get(ctx, o.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		synced, _, err := unstructured.NestedBool(now.Object, "status", "synced")
		id, _, _ = unstructured.NestedString(now.Object, "status", "ruleID")
		return synced, err
	})
	if err == nil {
		w.say("Synced: it is the rule %s of tenant %s", id, shop)
	}
	return err
}

func (w *workloads) runPod(ctx context.Context) error {
	w.chapter("Running the Pod %s in %s", shopPod, w.own)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: shopPod, Labels: map[string]string{"app": shopPod}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/cart"}}},
	}
	if err := until(ctx, "the Pod is taken", func() (bool, error) {
		_, err := w.kube.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) { // the account of the namespace is not there yet
			return false, nil
		}
		return err == nil || apierrors.IsAlreadyExists(err), err
	}); err != nil {
		return err
	}
	begun := time.Now()
	return until(ctx, "the resource is made", func() (bool, error) {
		made, err := w.made(ctx)
		if err != nil || len(made) == 0 || made[0].Annotations["full-workload-info"] == "" || !strings.Contains(made[0].Annotations["full-workload-info"], `"ready":true`) {
			return false, err
		}
		w.say("%s has the Pod %s/%s, %s later, with the annotation", w.infrastructure, made[0].Namespace, made[0].Name, time.Since(begun).Round(10*time.Millisecond))
		w.say("full-workload-info: %s", made[0].Annotations["full-workload-info"])
		return true, nil
	})
}

// made are the Pods of the tenant in its infrastructure cluster.
func (w *workloads) made(ctx context.Context) ([]corev1.Pod, error) {
	list, err := w.infra.CoreV1().Pods("tenant-"+shop).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (w *workloads) endPod(ctx context.Context) error {
	w.chapter("Removing the Pod %s from %s", shopPod, w.own)
	if err := w.kube.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, shopPod, metav1.DeleteOptions{}); err != nil {
		return err
	}
	err := until(ctx, "the resource is gone", func() (bool, error) {
		made, err := w.made(ctx)
		return len(made) == 0, err
	})
	if err == nil {
		w.say("%s has no Pod of the tenant any more", w.infrastructure)
	}
	return err
}

func (w *workloads) removeRule(ctx context.Context) error {
	w.chapter("Removing the WorkloadRule")
	if err := w.rules().Delete(ctx, "proxy", metav1.DeleteOptions{}); err != nil {
		return err
	}
	err := until(ctx, "the rule is gone", func() (bool, error) {
		_, err := w.rules().Get(ctx, "proxy", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	if err == nil {
		w.say("Gone, and the rule of the tenant before it")
	}
	return err
}

// lookEvery is how often the story looks whether it may go on.
const lookEvery = 100 * time.Millisecond

// until looks until something is so.
func until(ctx context.Context, what string, is func() (bool, error)) error {
	for {
		so, err := is()
		if so || err != nil && ctx.Err() == nil {
			return err
		}
		if err := pause.For(ctx, lookEvery); err != nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
	}
}
