// Package integration tests the binary as its users run it.
package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/deploy/local/kube/internal/cluster"
)

const (
	clusterName    = "edge01"
	deploymentName = "web"
)

func TestUp(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Kubernetes cluster, and builds Kubernetes if it has to")
	}
	t.Parallel()
	binary := buildBinary(t)
	dataDir := t.TempDir()
	portBase := freePorts(t)
	kubeconfig := filepath.Join(dataDir, clusterName, "kubeconfig")

	up := startUp(t, binary, dataDir, portBase)
	kube := newClient(t, kubeconfig)
	createDeployment(t, kube)
	waitPodReady(t, kube)

	first := readState(t, dataDir)
	if err := syscall.Kill(first.Components[cluster.APIServer].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitRestarted(t, dataDir, cluster.APIServer)
	waitPodReady(t, kube)

	restarted := readState(t, dataDir)
	if code := up.stop(t); code != 0 {
		t.Errorf("stopped with exit code %d", code)
	}
	for _, state := range []cluster.State{first, restarted} {
		if pids := alive(state); len(pids) > 0 {
			t.Errorf("components have outlived their supervisor: %v", pids)
		}
	}
	if _, err := os.Stat(filepath.Join(dataDir, clusterName, "state.json")); err == nil {
		t.Error("the state file of a stopped cluster is still there")
	}

	// The client still has the certificates and the port of the first start.
	up = startUp(t, binary, dataDir, 0)
	waitPodReady(t, kube)

	if runtime.GOOS != "linux" {
		return // nothing else kills the children of a killed process
	}
	last := readState(t, dataDir)
	up.kill(t)
	startUp(t, binary, dataDir, 0)
	if pids := alive(last); len(pids) > 0 {
		t.Errorf("components have outlived a killed supervisor: %v", pids)
	}
	replacePod(t, kube)
}

// TestNodeThatWasNotHeard freezes the kubelet until the controllers take its node for lost, which takes them 50 seconds. When it
// goes on, the pod that has run all the time is ready again.
func TestNodeThatWasNotHeard(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Kubernetes cluster, and builds Kubernetes if it has to")
	}
	t.Parallel()
	dataDir := t.TempDir()
	startUp(t, buildBinary(t), dataDir, freePorts(t))
	kube := newClient(t, filepath.Join(dataDir, clusterName, "kubeconfig"))
	createDeployment(t, kube)
	uid := waitPodReady(t, kube)

	kubelet := readState(t, dataDir).Components[cluster.Kwok].PID
	if err := syscall.Kill(kubelet, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(kubelet, syscall.SIGCONT) })
	eventually(t, "the pod is not ready", func() error {
		pods, err := kube.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 || running(pods.Items[0]) {
			return fmt.Errorf("pods: %+v", pods.Items)
		}
		return nil
	})
	if err := syscall.Kill(kubelet, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if again := waitPodReady(t, kube); again != uid {
		t.Errorf("another pod is ready: %s, not %s", again, uid)
	}
}

func newClient(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

func createDeployment(t *testing.T, kube kubernetes.Interface) {
	t.Helper()
	labels := map[string]string{"app": deploymentName}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: deploymentName},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			},
		},
	}
	_, err := kube.AppsV1().Deployments(metav1.NamespaceDefault).Create(t.Context(), deployment, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// waitPodReady waits until the Deployment is available, by its own account and
// by that of its only pod, and returns the pod's UID.
func waitPodReady(t *testing.T, kube kubernetes.Interface) (uid types.UID) {
	t.Helper()
	eventually(t, "the Deployment has a running pod", func() error {
		deployment, err := kube.AppsV1().Deployments(metav1.NamespaceDefault).Get(t.Context(), deploymentName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pods, err := kube.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + deploymentName})
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 || !running(pods.Items[0]) {
			return fmt.Errorf("pods: %+v", pods.Items)
		}
		if deployment.Status.AvailableReplicas != 1 {
			return fmt.Errorf("status of the Deployment: %+v", deployment.Status)
		}
		uid = pods.Items[0].UID
		return nil
	})
	return uid
}

// replacePod deletes the Deployment's pod and waits for another one, which takes
// every component.
func replacePod(t *testing.T, kube kubernetes.Interface) {
	t.Helper()
	old := waitPodReady(t, kube)
	err := kube.CoreV1().Pods(metav1.NamespaceDefault).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is replaced", func() error {
		if waitPodReady(t, kube) == old {
			return errors.New("it is still there")
		}
		return nil
	})
}

func running(pod corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.Status.Phase == corev1.PodRunning
		}
	}
	return false
}

func waitRestarted(t *testing.T, dataDir, component string) {
	t.Helper()
	eventually(t, component+" is restarted", func() error {
		state := readState(t, dataDir).Components[component]
		if state.Restarts == 0 || state.PID == 0 {
			return errors.New("not yet restarted")
		}
		return nil
	})
}
