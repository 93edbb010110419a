package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/fail"
)

// Account is a ServiceAccount with a ClusterRole, and for how long its token is to be good.
type Account struct {
	Namespace, Name string
	Role            []byte // the ClusterRole's manifest, in YAML
	Life            time.Duration
}

// Credential makes an account in the cluster of an administrator's kubeconfig, or changes it, and returns a kubeconfig with a token of
// it, and when that expires, which the cluster may have sooner than asked for. Errors are those of CheckKubeconfig, and the cluster's.
func Credential(ctx context.Context, admin []byte, a Account) (kubeconfig []byte, expires time.Time, err error) {
	// Whoever runs this does so with a kubeconfig of his own, wherever it leads.
	file, err := Config{Allowed: Allowed{Insecure: true, Proxy: true}, Networks: anywhere}.load(admin)
	if err != nil {
		return nil, time.Time{}, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(admin)
	if err != nil {
		return nil, time.Time{}, fail.Wrap(err, fail.Malformed, "the kubeconfig cannot be used")
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, time.Time{}, fail.Wrap(err, fail.Malformed, "the kubeconfig cannot be used")
	}
	role := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON(a.Role)
	if err == nil {
		err = json.Unmarshal(data, &role.Object)
	}
	if err != nil {
		return nil, time.Time{}, fail.Wrap(err, fail.Internal, "the ClusterRole cannot be read")
	}
	const rbac = "rbac.authorization.k8s.io"
	accounts := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(a.Namespace)
	for _, made := range []struct {
		of     dynamic.ResourceInterface
		object map[string]any
	}{
		{client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}), map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": a.Namespace},
		}},
		{accounts, map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": a.Name, "namespace": a.Namespace}}},
		{client.Resource(schema.GroupVersionResource{Group: rbac, Version: "v1", Resource: "clusterroles"}), role.Object},
		{client.Resource(schema.GroupVersionResource{Group: rbac, Version: "v1", Resource: "clusterrolebindings"}), map[string]any{
			"apiVersion": rbac + "/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": a.Name},
			"roleRef":  map[string]any{"apiGroup": rbac, "kind": "ClusterRole", "name": role.GetName()},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": a.Name, "namespace": a.Namespace}},
		}},
	} {
		o := &unstructured.Unstructured{Object: made.object}
		if _, err := made.of.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: FieldManager}); err != nil {
			return nil, time.Time{}, fmt.Errorf("make %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	if kubeconfig, expires, err = issue(ctx, accounts, tokenRequest(a), a, file); err != nil {
		return nil, time.Time{}, fmt.Errorf("ask for a token of the ServiceAccount %s: %w", a.Name, err)
	}
	return kubeconfig, expires, nil
}

// tokenRequest asks for a token of an account.
func tokenRequest(a Account) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": map[string]any{"name": a.Name, "namespace": a.Namespace},
		"spec": map[string]any{"expirationSeconds": int64(a.Life.Seconds())},
	}}
}

// issue has a token made, and makes a kubeconfig with it that leads where the administrator's does, and of nothing else.
func issue(ctx context.Context, accounts dynamic.ResourceInterface, asked *unstructured.Unstructured, a Account, file *clientcmdapi.Config) (kubeconfig []byte, expires time.Time, err error) {
	answer, err := accounts.Create(ctx, asked, metav1.CreateOptions{}, "token")
	if err != nil {
		return nil, time.Time{}, err
	}
	token, _, _ := unstructured.NestedString(answer.Object, "status", "token")
	until, _, _ := unstructured.NestedString(answer.Object, "status", "expirationTimestamp")
	if expires, err = time.Parse(time.RFC3339, until); err != nil || token == "" {
		return nil, time.Time{}, fail.New(fail.Unavailable, "the cluster has answered a request for a token with none")
	}
	user := a.Name + "@" + a.Namespace
	made := clientcmdapi.NewConfig()
	made.Clusters["cluster"] = file.Clusters[file.Contexts[file.CurrentContext].Cluster]
	made.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	made.Contexts["drover"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: user}
	made.CurrentContext = "drover"
	if kubeconfig, err = clientcmd.Write(*made); err != nil {
		return nil, time.Time{}, fail.Wrap(err, fail.Internal, "the kubeconfig cannot be written")
	}
	return kubeconfig, expires, nil
}
