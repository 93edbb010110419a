package render

import (
	"slices"
	"sync"

	"helm.sh/helm/v4/pkg/chart/common"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/internal/plan"
)

// kubeVersion is the Kubernetes that charts are told of: that of the API types in go.mod. Member clusters
// differ among each other, and one bundle serves all of them.
var kubeVersion = common.KubeVersion{Version: "v1.36.3", Major: "1", Minor: "36"}

// served are the APIs of a current cluster: what is stable. Since Kubernetes 1.24 a beta is served only
// where an administrator asked for it.
var served = runtime.NewSchemeBuilder(
	admissionregistrationv1.AddToScheme, appsv1.AddToScheme, authenticationv1.AddToScheme,
	authorizationv1.AddToScheme, autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme,
	certificatesv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme,
	eventsv1.AddToScheme, flowcontrolv1.AddToScheme, networkingv1.AddToScheme, nodev1.AddToScheme,
	policyv1.AddToScheme, rbacv1.AddToScheme, resourcev1.AddToScheme, schedulingv1.AddToScheme,
	storagev1.AddToScheme,
)

// extensions are served too; their types are not among k8s.io/api's.
var extensions = []string{
	"apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1/CustomResourceDefinition",
	"apiregistration.k8s.io/v1", "apiregistration.k8s.io/v1/APIService",
}

// capabilities is what templates see as .Capabilities: versions as "apps/v1" and as "apps/v1/Deployment",
// as Helm lists them when it asks a cluster.
var capabilities = sync.OnceValues(func() (*common.Capabilities, error) {
	known := runtime.NewScheme()
	if err := served.AddToScheme(known); err != nil {
		return nil, err
	}
	versions := slices.Clone(extensions)
	for gvk := range known.AllKnownTypes() {
		if gvk.Version != runtime.APIVersionInternal {
			gv := gvk.GroupVersion().String()
			versions = append(versions, gv, gv+"/"+gvk.Kind)
		}
	}
	slices.Sort(versions)
	return &common.Capabilities{
		KubeVersion: kubeVersion,
		APIVersions: slices.Compact(versions),
		HelmVersion: common.DefaultCapabilities.HelmVersion,
	}, nil
})

// defining are capabilities with the kinds that definitions bring: Helm creates what is in the crds directories, and asks the cluster
// anew, before it renders.
func defining(known *common.Capabilities, definitions []object) *common.Capabilities {
	var versions []string
	for i := range definitions {
		if !definitions[i].IsDefinition() {
			continue
		}
		d := plan.DefinitionIn(definitions[i].manifest)
		for _, version := range d.Served {
			gv := d.Group + "/" + version
			versions = append(versions, gv, gv+"/"+d.Kind)
		}
	}
	if len(versions) == 0 {
		return known
	}
	with := *known
	with.APIVersions = slices.Concat(known.APIVersions, versions)
	slices.Sort(with.APIVersions)
	with.APIVersions = slices.Compact(with.APIVersions)
	return &with
}
