package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/deploy/local/kube/internal/cluster"
)

const (
	pollInterval = 50 * time.Millisecond
	probeTimeout = 5 * time.Second
)

// probe returns nil once something is the case, and until then why it is not.
type probe func(context.Context) error

// poll repeats a probe until it succeeds. It gives up when ctx is done or when
// failed returns an error.
func poll(ctx context.Context, probe probe, failed func() error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var last error
	for {
		attempt, cancel := context.WithTimeout(ctx, probeTimeout)
		err := probe(attempt)
		cancel()
		if err == nil {
			return nil
		}
		// A probe that ctx cut short tells nothing new.
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if err := failed(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last seen: %w)", context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}

func etcdHealthy(url string) probe {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}
}

// client asks a cluster about its readiness.
type client struct {
	kube kubernetes.Interface
}

func newClient(kubeconfig string) (*client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", kubeconfig, err)
	}
	config.WarningHandler = rest.NoWarnings{}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client from %s: %w", kubeconfig, err)
	}
	return &client{kube: kube}, nil
}

func (c *client) serverReady(ctx context.Context) error {
	return c.kube.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

func (c *client) defaultNamespace(ctx context.Context) error {
	_, err := c.kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
	return err
}

func (c *client) defaultServiceAccount(ctx context.Context) error {
	_, err := c.kube.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

// ensureStorageClass makes the default storage class. An existing one is left
// alone.
func (c *client) ensureStorageClass(ctx context.Context) error {
	_, err := c.kube.StorageV1().StorageClasses().Create(ctx, cluster.StorageClass(), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the default storage class: %w", err)
	}
	return nil
}

// ensureNodes makes the first nodes of a cluster. Existing nodes are left alone.
func (c *client) ensureNodes(ctx context.Context, clusterName string, count int) error {
	for i := range count {
		_, err := c.kube.CoreV1().Nodes().Create(ctx, cluster.Node(clusterName, i), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create a node: %w", err)
		}
	}
	return nil
}

func (c *client) nodesReady(clusterName string, count int) probe {
	return func(ctx context.Context) error {
		for i := range count {
			name := cluster.NodeName(clusterName, i)
			node, err := c.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if !isReady(node) {
				return fmt.Errorf("node %s is not ready", name)
			}
		}
		return nil
	}
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
