package activities_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/logicalcloud"
	"github.com/drover-io/drover/internal/plan"
)

const (
	cloudKey = domain.Key("projects/p/logical-clouds/lc")
	above    = domain.Key("projects/p")
)

// documents is a store of a logical cloud and what is below it.
type documents struct {
	*memory
	mu       sync.Mutex
	byKey    map[domain.Key]domain.Object
	replaces int

	certified []string
}

func newDocuments(objects ...domain.Object) *documents {
	d := &documents{memory: newMemory(), byKey: map[domain.Key]domain.Object{}}
	for _, o := range objects {
		d.byKey[domain.KeyOf(o)] = o
	}
	return d
}

func (d *documents) Get(_ context.Context, n *domain.Noun, key domain.Key) (domain.Object, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o, ok := d.byKey[key]; ok && o.Noun() == n {
		return copied(o), nil
	}
	return nil, fail.New(fail.NotFound, "%s not found", key)
}

func (d *documents) List(_ context.Context, n *domain.Noun, parent domain.Key) ([]domain.Object, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []domain.Object
	for _, o := range d.byKey {
		if o.Noun() == n && o.Base().Parent == parent {
			found = append(found, copied(o))
		}
	}
	slices.SortFunc(found, func(a, b domain.Object) int { return strings.Compare(a.LocalName(), b.LocalName()) })
	return found, nil
}

func (d *documents) Replace(_ context.Context, o domain.Object) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replaces++
	if d.byKey[domain.KeyOf(o)].Base().Revision != o.Base().Revision {
		return fail.New(fail.Conflict, "changed meanwhile")
	}
	o.Base().Revision++
	d.byKey[domain.KeyOf(o)] = copied(o)
	return nil
}

func (d *documents) PutCertified(_ context.Context, all ...domain.Certified) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, is := range all {
		d.certified = append(d.certified, fmt.Sprintf("%s %s %s %s", is.Cluster, is.User, is.Scope, is.Expires.Format(time.RFC3339)))
	}
	return nil
}

func (d *documents) Referring(_ context.Context, n *domain.Noun, key domain.Key) (domain.Key, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, o := range d.byKey {
		if r, ok := o.(domain.Referrer); ok && o.Noun() == n && slices.ContainsFunc(r.References(), func(to domain.Reference) bool { return to.Key == key }) {
			return k, true, nil
		}
	}
	return "", false, nil
}

func (d *documents) ActiveInstances(context.Context) (active []*domain.Instance, err error) {
	d.memory.mu.Lock()
	defer d.memory.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(d.instances)) {
		if i := d.instances[id]; !i.Status.Over() && i.LogicalCloud != "" {
			active = append(active, &i)
		}
	}
	return active, nil
}

func copied(o domain.Object) domain.Object {
	switch o := o.(type) {
	case *domain.LogicalCloud:
		c := *o
		return &c
	case *domain.ClusterReference:
		c := *o
		return &c
	case *domain.DeploymentIntentGroup:
		c := *o
		c.History.Actions = slices.Clone(o.History.Actions)
		return &c
	default:
		return o
	}
}

// open seals by doing nothing.
type open struct{}

func (open) Seal(aad string, plain []byte) (domain.Sealed, error) {
	return domain.Sealed{KeyID: aad, Data: plain}, nil
}

func level1() *domain.LogicalCloud {
	c := &domain.LogicalCloud{Identity: domain.Identity{Parent: above, Revision: 5}, Metadata: domain.Metadata{Name: "lc"}, History: domain.NewHistory(begun)}
	c.Spec = domain.LogicalCloudSpec{Level: "1", Namespace: "ns", User: domain.CloudUser{UserName: "bob"}}
	return c
}

// level0 is a cloud whose groups have the rights of the kubeconfigs of its clusters.
func level0() domain.LogicalCloud {
	return domain.LogicalCloud{
		Metadata: domain.Metadata{Name: "lc"}, Spec: domain.LogicalCloudSpec{Level: domain.LevelAdmin, Namespace: domain.AdminNamespace},
	}
}

func reference(name, cluster string) *domain.ClusterReference {
	return &domain.ClusterReference{
		Identity: domain.Identity{Parent: cloudKey}, Metadata: domain.Metadata{Name: name},
		Spec: domain.ClusterReferenceSpec{ClusterProvider: "p", Cluster: cluster},
	}
}

func permission(namespace string) *domain.UserPermission {
	return &domain.UserPermission{
		Identity: domain.Identity{Parent: cloudKey}, Metadata: domain.Metadata{Name: "in-" + namespace},
		Spec: domain.UserPermissionSpec{Namespace: namespace, APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	}
}

func TestPrepareALogicalCloud(t *testing.T) {
	store := newDocuments(level1(), reference("r2", "b"), reference("r1", "b"), reference("r3", "a"), permission("ns"))
	l := &activities.Control{Store: store, Sealer: open{}, Now: func() time.Time { return begun }}
	scope := domain.Scope{Owner: cloudKey, ContextID: "1", Operation: domain.OpInstantiate}
	prepared, err := l.Prepare(t.Context(), scope)
	require.NoError(t, err)
	require.Equal(t, cloudKey, prepared.LogicalCloud)
	require.Empty(t, prepared.User, "its own resources take the administrator's rights")
	require.Equal(t, "default", prepared.Namespace)
	require.Len(t, prepared.Apps, 1)
	require.Equal(t, 4, prepared.Apps[0].Resources)
	require.Equal(t, []domain.ClusterName{{Provider: "p", Name: "a"}, {Provider: "p", Name: "b"}}, prepared.Apps[0].Targets.Clusters)

	cloud := store.byKey[cloudKey].(*domain.LogicalCloud)
	require.Equal(t, prepared.OwnerRevision, cloud.Revision, "the key was stored before the plan was made")
	require.True(t, logicalcloud.MadeFor(cloud.Request, "bob"))
	require.Equal(t, string(cloudKey), cloud.Key.KeyID, "the key is sealed for this cloud")
	again, err := l.Prepare(t.Context(), scope)
	require.NoError(t, err)
	require.Equal(t, prepared, again, "with the same key")

	cloud.Spec.User.UserName = "eve"
	_, err = l.Prepare(t.Context(), scope)
	require.NoError(t, err)
	require.True(t, logicalcloud.MadeFor(store.byKey[cloudKey].(*domain.LogicalCloud).Request, "eve"), "another user has another key")
}

// doneTwice does a write a second time, whose answer counts.
type doneTwice struct{ *documents }

func (d doneTwice) Replace(ctx context.Context, o domain.Object) error {
	if err := d.documents.Replace(ctx, copied(o)); err != nil {
		return err
	}
	return d.documents.Replace(ctx, o)
}

// TestPrepareKnowsItsOwnKey is of a slow database, see TestSlowStore.
func TestPrepareKnowsItsOwnKey(t *testing.T) {
	store := newDocuments(level1(), reference("r", "a"), permission("ns"))
	l := &activities.Control{Store: doneTwice{store}, Sealer: open{}, Now: func() time.Time { return begun }}
	prepared, err := l.Prepare(t.Context(), domain.Scope{Owner: cloudKey, ContextID: "1", Operation: domain.OpInstantiate})
	require.NoError(t, err)
	require.Equal(t, prepared.OwnerRevision, store.byKey[cloudKey].Base().Revision)
	require.Equal(t, 2, store.replaces, "the key is the one that is stored")
}

func TestPrepareRefusesALogicalCloud(t *testing.T) {
	for name, c := range map[string]struct {
		objects []domain.Object
		kind    fail.Kind
		text    string
	}{
		"without clusters":   {[]domain.Object{level1(), permission("ns")}, fail.Invalid, "No Cluster References associated"},
		"without permission": {[]domain.Object{level1(), reference("r", "a"), permission("")}, fail.Conflict, "Level-1 Logical Clouds require a User Permission"},
	} {
		t.Run(name, func(t *testing.T) {
			store := newDocuments(c.objects...)
			l := &activities.Control{Store: store, Sealer: open{}}
			_, err := l.Prepare(t.Context(), domain.Scope{Owner: cloudKey, ContextID: "1", Operation: domain.OpInstantiate})
			require.Equal(t, c.kind, fail.KindOf(err), "%v", err)
			require.Contains(t, fail.TextOf(err), c.text)
			require.Zero(t, store.replaces, "a refusal leaves nothing behind")
		})
	}
}

func TestRenewals(t *testing.T) {
	cloud := level1()
	cloud.History.Append(domain.Instantiated, "1", 1, begun)
	store := newDocuments(cloud, reference("r", "a"))
	store.instances["1"] = domain.Instance{ContextID: "1", Status: domain.ContextInstantiated, Label: "0", Plan: store.put(t, plan.Plan{
		ContextID: "1", Namespace: "default", Apps: []plan.App{{Name: logicalcloud.App, Bundle: "digest", Resources: make([]plan.ResourceID, 4), Targets: []plan.Target{
			{ClusterName: domain.ClusterName{Provider: "p", Name: "a"}}, {ClusterName: domain.ClusterName{Provider: "p", Name: "gone"}},
		}}},
	})}
	l := &activities.Control{Store: store}
	leaf, a := activities.LeafInput{
		Scope: domain.Scope{Owner: cloudKey, ContextID: "1", Operation: domain.OpInstantiate}, Label: "0", App: logicalcloud.App, Bundle: "digest", Resources: 4, Namespace: "default",
	}, domain.ClusterName{Provider: "p", Name: "a"}
	part := &activities.RenewalsPart{By: begun, Most: 10}
	got, err := l.Renewals(t.Context(), cloudKey, part)
	require.NoError(t, err)
	require.Equal(t, &activities.Renewals{Leaf: leaf, Clusters: []domain.ClusterName{a}}, got, "what has no certificate is due; what has no reference waits for an update")
	leaf.Cluster = a
	got, err = l.Renewals(t.Context(), cloudKey, nil)
	require.NoError(t, err)
	require.Equal(t, &activities.Renewals{Due: []activities.Renewal{{Leaf: leaf}}}, got, "a worker of v0.1.0 is given what it knows")

	for name, change := range map[string]func(){
		"one that is terminated":          func() { store.instances["1"] = domain.Instance{Status: domain.ContextTerminating} },
		"one that was never instantiated": func() { delete(store.instances, "1") },
		"one that is gone":                func() { delete(store.byKey, cloudKey) },
	} {
		change()
		got, err := l.Renewals(t.Context(), cloudKey, part)
		require.NoError(t, err, name)
		require.Equal(t, &activities.Renewals{Over: true}, got, name)
	}
}

// TestRenewalsInParts: each part is short however many clusters there are, and all parts together have each cluster that is due once, though those of
// the parts before have other certificates by then.
func TestRenewalsInParts(t *testing.T) {
	const clusters, most, days = 20_000, 500, 40
	leaf := activities.LeafInput{Scope: domain.Scope{Owner: cloudKey, ContextID: "1"}, App: logicalcloud.App}
	places, at := []activities.RenewalPlace{}, map[domain.ClusterName]int{}
	for i := range clusters {
		name := domain.ClusterName{Provider: strings.Repeat("p", 128), Name: fmt.Sprintf("%0128d", i)}
		at[name] = i
		places = append(places, activities.RenewalPlace{At: begun.Add(time.Duration(i%days-days/2) * 24 * time.Hour), Cluster: name})
	}
	for name, c := range map[string]struct {
		all  bool
		want int
		next time.Time
	}{
		"those that are due": {false, clusters/2 + clusters/days, begun.Add(24 * time.Hour)},
		"all":                {true, clusters, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			places := slices.Clone(places)
			part, seen := &activities.RenewalsPart{By: begun, All: c.all, Most: most}, map[domain.ClusterName]bool{}
			last, count := begun.Add(days*24*time.Hour), 0
			for {
				got := part.Of(leaf, places)
				data, err := json.Marshal(got)
				require.NoError(t, err)
				require.Less(t, len(data), 256<<10, "Temporal takes 2 MiB")
				require.Equal(t, leaf, got.Leaf)
				require.Equal(t, c.next, got.Next)
				for _, cluster := range got.Clusters {
					require.False(t, places[at[cluster]].At.After(last), "what came due last comes first")
					last = places[at[cluster]].At
					require.False(t, seen[cluster], "%v again", cluster)
					seen[cluster] = true
					count++
					if at[cluster]%7 > 0 { // the others fail
						places[at[cluster]].At = begun.Add(2 * days * 24 * time.Hour)
					}
				}
				if got.Last == nil {
					break
				}
				data, err = json.Marshal(got.Last) // as Temporal hands it on
				require.NoError(t, err)
				part.After = nil
				require.NoError(t, json.Unmarshal(data, &part.After))
			}
			require.Equal(t, c.want, count)
		})
	}
}

// cloudLeaf is a leaf of a logical cloud on a cluster that holds what is applied, and signs or does not.
type cloudLeaf struct {
	*leaf
	documents *documents
	space     bool   // the namespace was there before
	label     string // with this plan.DeploymentLabel
	condition certificatesv1.RequestConditionType
	looks     int // at an approved request until it is signed
	issued    []byte
	csr       *certificatesv1.CertificateSigningRequest
}

func newCloudLeaf(t *testing.T) *cloudLeaf {
	t.Helper()
	c := &cloudLeaf{leaf: newLeaf(t, domain.OpInstantiate), documents: newDocuments(reference("r", "c"))}
	cloud := level1()
	_, request, err := logicalcloud.NewKey("bob")
	require.NoError(t, err)
	cloud.Request = request
	bundle, err := logicalcloud.Render(logicalcloud.Cloud{LogicalCloud: cloud, Permissions: []*domain.UserPermission{permission("ns")}})
	require.NoError(t, err)
	c.in.Owner, c.in.App, c.in.Bundle, c.in.Resources = cloudKey, logicalcloud.App, c.store.put(t, bundle), len(bundle.Resources)
	c.kube.References, c.issued = c.documents, []byte("certificate")
	c.handle = c.serve
	c.condition = certificatesv1.CertificateApproved
	return c
}

func (c *cloudLeaf) serve(w http.ResponseWriter, r *http.Request) {
	ofCSR := strings.Contains(r.URL.Path, "certificatesigningrequests")
	switch {
	case r.Method == http.MethodPatch:
		if ofCSR && c.csr == nil {
			c.csr = c.request()
		}
		answer(w, http.StatusCreated, map[string]any{"apiVersion": "v1", "kind": "Object", "metadata": map[string]any{"uid": "1"}})
	case r.Method == http.MethodPut:
		c.decide(c.csr)
		answer(w, http.StatusOK, c.csr)
	case ofCSR && r.Method == http.MethodDelete:
		c.csr = nil
		answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
	case ofCSR && c.csr != nil:
		if c.looks--; c.looks < 0 && isApproved(c.csr) && c.csr.Status.Certificate == nil {
			c.csr.Status.Certificate = c.issued
		}
		answer(w, http.StatusOK, c.csr)
	case strings.HasSuffix(r.URL.Path, "/namespaces/ns") && c.space:
		answer(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "ns", "uid": "1", "labels": map[string]string{plan.DeploymentLabel: c.label}}})
	default:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, path.Base(r.URL.Path))
	}
}

// request is the certificate request as it was applied.
func (c *cloudLeaf) request() *certificatesv1.CertificateSigningRequest {
	r := &certificatesv1.CertificateSigningRequest{TypeMeta: metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"}}
	require.NoError(c.t, json.Unmarshal(c.manifest(), r))
	r.UID, r.Labels = "1", map[string]string{plan.DeploymentLabel: "1-" + logicalcloud.App}
	return r
}

// decide answers a request.
func (c *cloudLeaf) decide(csr *certificatesv1.CertificateSigningRequest) {
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: c.condition, Reason: "because", Message: "of this"}}
}

func isApproved(csr *certificatesv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved
	})
}

// manifest is the certificate request's.
func (c *cloudLeaf) manifest() []byte {
	data, err := c.store.Blob(c.t.Context(), c.in.Bundle)
	require.NoError(c.t, err)
	var bundle plan.Bundle
	require.NoError(c.t, json.Unmarshal(data, &bundle))
	return bundle.Resources[1].Manifest
}

func (c *cloudLeaf) certificate() string {
	r := c.documents.byKey[cloudKey.Child("cluster-references", "r")].(*domain.ClusterReference)
	return r.Spec.Certificate
}

func TestACloudsLeafEndsWithItsCertificate(t *testing.T) {
	c := newCloudLeaf(t)
	out, err := c.run()
	require.NoError(t, err)
	require.Equal(t, "4A", out.Marks)
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte("certificate")), c.certificate())

	c.csr = nil // the cluster has removed it meanwhile, and the attempt was lost
	c.env.SetHeartbeatDetails(progress{Marks: "4A", Connectivity: domain.ConnectivityAvailable})
	out, err = c.run()
	require.NoError(t, err)
	require.Equal(t, "4A", out.Marks)
	require.NotNil(t, c.csr, "it was made anew")
}

// TestWhomACertificateIsForIsNoted: it is good until it expires, when the reference is long gone.
func TestWhomACertificateIsForIsNoted(t *testing.T) {
	c := newCloudLeaf(t)
	c.issued = certificateOf(t, "bob", time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC))
	_, err := c.run()
	require.NoError(t, err)
	require.Equal(t, base64.StdEncoding.EncodeToString(c.issued), c.certificate())
	require.Equal(t, []string{c.in.Cluster.String() + " bob " + string(domain.ScopeOf(cloudKey)) + " 2027-01-02T03:04:05Z"}, c.documents.certified)
}

// TestACertificateThatIsReplacedIsNoted: a worker of v0.1.0 noted nothing of it, and it may be good for longer than the one that takes its place.
func TestACertificateThatIsReplacedIsNoted(t *testing.T) {
	c := newCloudLeaf(t)
	reference := c.documents.byKey[cloudKey.Child("cluster-references", "r")].(*domain.ClusterReference)
	reference.Spec.Certificate = base64.StdEncoding.EncodeToString(certificateOf(t, "alice", time.Date(2027, 11, 1, 0, 0, 0, 0, time.UTC)))
	c.issued = certificateOf(t, "bob", time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC))
	_, err := c.run()
	require.NoError(t, err)
	require.Equal(t, base64.StdEncoding.EncodeToString(c.issued), c.certificate())
	of := func(user string) string {
		return c.in.Cluster.String() + " " + user + " " + string(domain.ScopeOf(cloudKey))
	}
	require.Equal(t, []string{of("bob") + " 2027-01-02T03:04:05Z", of("alice") + " 2027-11-01T00:00:00Z"}, c.documents.certified)
}

func certificateOf(t *testing.T, user string, until time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: user}, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestACloudsCertificateIsDenied(t *testing.T) {
	c := newCloudLeaf(t)
	c.condition = certificatesv1.CertificateDenied
	out, err := c.run()
	require.NoError(t, err, "a refusal is an end")
	require.Equal(t, "1A1X2A", out.Marks)
	require.Equal(t, []domain.Note{{Index: 1, Message: "Denied: because: of this"}}, c.recorded().Notes)
	require.Empty(t, c.certificate())
}

func TestACloudSparesANamespaceThatWasThere(t *testing.T) {
	for name, c := range map[string]struct{ inherited, label string }{
		"nothing was done yet":                {},
		"another cloud's, of another Drover":  {label: "7-logical-cloud"},
		"an update changes it":                {inherited: "1o3A"},
		"an instantiate was killed before it": {inherited: "4s"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newCloudLeaf(t)
			l.space, l.label, l.in.Inherited = true, c.label, c.inherited
			out, err := l.run()
			require.NoError(t, err)
			require.Equal(t, "1K3A", out.Marks)
			require.NotContains(t, l.seen(), "PATCH ns")
		})
	}
}

// TestACloudSaysWhatItsClusterDoesNotEnforce: a cluster takes any label.
func TestACloudSaysWhatItsClusterDoesNotEnforce(t *testing.T) {
	const unenforced = "Kubernetes v1.22.17-eks-1 does not enforce Pod Security baseline: the namespace may have any Pods, whatever its label says; that takes 1.23"
	const before = "the namespace was there before the logical cloud: it is left as it is, and stays; "
	const unlabelled = "it does not say that it enforces Pod Security baseline; "
	for name, tc := range map[string]struct {
		least   domain.PodSecurity
		version string
		want    string // of the namespace; "": nothing
		was     bool   // the namespace was there before
		labels  map[string]string
		busy    int // how often the cluster does not tell
	}{
		"an old cluster":                        {least: domain.PodBaseline, version: "v1.22.17-eks-1", want: unenforced},
		"an old cluster that is busy first":     {least: domain.PodBaseline, version: "v1.22.17-eks-1", busy: 1, want: unenforced},
		"nothing is to be enforced":             {version: "v1.22.17-eks-1"},
		"a cluster that enforces it":            {least: domain.PodBaseline, version: "v1.23.0+k3s1"},
		"a cluster that says none":              {least: domain.PodBaseline},
		"an old cluster with a namespace":       {least: domain.PodBaseline, version: "v1.22.17-eks-1", was: true, want: before + unlabelled + unenforced},
		"an old cluster with one that has said": {least: domain.PodBaseline, version: "v1.22.17-eks-1", was: true, labels: map[string]string{domain.PodSecurityEnforce: "baseline"}, want: before + unenforced},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloudLeaf(t)
			cloud := level1()
			_, request, err := logicalcloud.NewKey("bob")
			require.NoError(t, err)
			cloud.Request = request
			bundle, err := logicalcloud.Render(logicalcloud.Cloud{LogicalCloud: cloud, PodSecurity: tc.least})
			require.NoError(t, err)
			c.in.Bundle, c.in.Resources = c.store.put(t, bundle), len(bundle.Resources)
			asked := 0
			c.handle = func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/version" && tc.version != "":
					if asked++; asked <= tc.busy {
						refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "busy")
						return
					}
					answer(w, http.StatusOK, map[string]string{"gitVersion": tc.version})
				case strings.HasSuffix(r.URL.Path, "/namespaces/ns") && r.Method == http.MethodGet && tc.was:
					answer(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "ns", "uid": "1", "labels": tc.labels}})
				default:
					c.serve(w, r)
				}
			}
			out, err := c.run()
			if tc.busy > 0 {
				require.True(t, fail.IsUnanswered(err), "%v", err)
				out, err = c.run()
			}
			require.NoError(t, err)
			marks, got := "2A", c.recorded().Warnings
			if tc.was {
				marks, got = "1K1A", c.recorded().Notes
			}
			require.Equal(t, marks, out.Marks)
			var want []domain.Note
			if tc.want != "" {
				want = []domain.Note{{Index: 0, Message: tc.want}}
			}
			require.Equal(t, want, got)
		})
	}
}

func TestRenewCertificate(t *testing.T) {
	const kept = "kept"
	for name, c := range map[string]struct {
		found func(*cloudLeaf, *certificatesv1.CertificateSigningRequest) // what became of the request in the cluster; nil: there is none
		anew  bool                                                        // it is deleted, and made again
	}{
		"there is none": {},
		"of the certificate that is to be replaced": {anew: true, found: func(l *cloudLeaf, r *certificatesv1.CertificateSigningRequest) {
			l.decide(r)
			r.Status.Certificate = []byte(kept)
		}},
		"denied": {anew: true, found: func(l *cloudLeaf, r *certificatesv1.CertificateSigningRequest) {
			l.condition = certificatesv1.CertificateDenied
			l.decide(r)
			l.condition = certificatesv1.CertificateApproved
		}},
		"another's": {anew: true, found: func(_ *cloudLeaf, r *certificatesv1.CertificateSigningRequest) {
			r.Spec.Request = []byte("of an earlier key")
		}},
		"not approved yet": {found: func(*cloudLeaf, *certificatesv1.CertificateSigningRequest) {}},
		"not signed yet": {found: func(l *cloudLeaf, r *certificatesv1.CertificateSigningRequest) {
			l.decide(r)
			l.looks = 3
		}},
		"signed for an attempt that could not store it": {found: func(l *cloudLeaf, r *certificatesv1.CertificateSigningRequest) {
			l.decide(r)
			r.Status.Certificate = []byte("certificate")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newCloudLeaf(t)
			r := reference("r", "c")
			r.Spec.Certificate = base64.StdEncoding.EncodeToString([]byte(kept))
			l.documents.byKey[domain.KeyOf(r)] = r
			if c.found != nil {
				csr := l.request()
				c.found(l, csr)
				l.csr = csr
			}
			_, err := l.env.ExecuteActivity(l.kube.RenewCertificate, l.in)
			require.NoError(t, err)
			require.Equal(t, base64.StdEncoding.EncodeToString([]byte("certificate")), l.certificate())
			require.Equal(t, c.anew, slices.Contains(l.seen(), "DELETE lc-ns-user-csr"), "%v", l.seen())
			require.Equal(t, c.anew || c.found == nil, slices.Contains(l.seen(), "PATCH lc-ns-user-csr"), "%v", l.seen())
		})
	}
}

// TestCloudWhoseInstantiateWasEndedByHand takes no groups, for the reason that its status shows: nobody is to wait for it.
func TestCloudWhoseInstantiateWasEndedByHand(t *testing.T) {
	for name, c := range map[string]struct {
		runs  activities.Runs
		wants string
	}{
		"ended by hand": {closed{}, "The Logical Cloud has failed instantiating"},
		"goes on":       {going{}, "The Logical Cloud is still instantiating"},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := level1()
			cloud.History.Append(domain.Instantiated, "1", 1, begun)
			group := &domain.DeploymentIntentGroup{
				Identity: domain.Identity{Parent: "projects/p/composite-apps/ca/v1"}, Metadata: domain.Metadata{Name: "dig"},
				Spec: domain.DeploymentIntentGroupSpec{LogicalCloud: "lc"}, History: domain.NewHistory(begun),
			}
			group.History.Append(domain.Approved, "", 0, begun)
			d := newDocuments(cloud, group)
			require.NoError(t, d.PutInstance(t.Context(), &domain.Instance{
				ContextID: "1", Owner: cloudKey, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Status: domain.ContextInstantiating,
			}))
			l := &activities.Control{Store: d, Runs: c.runs, Now: func() time.Time { return begun }}
			_, err := l.Prepare(t.Context(), domain.Scope{Owner: domain.KeyOf(group), ContextID: "2", Operation: domain.OpInstantiate})
			require.True(t, fail.Is(err, fail.Conflict), "%v", err)
			require.Contains(t, fail.TextOf(err), c.wants)
		})
	}
}

// TestCloudWhoseUpdateIsBehind has its groups changed, but on clusters that are new to them and to which it has not got through.
func TestCloudWhoseUpdateIsBehind(t *testing.T) {
	for name, c := range map[string]struct {
		origin domain.Operation // of the cloud's context
		status domain.ContextStatus
		runs   activities.Runs
		wants  string // of the rollback that is refused
		back   string // the cluster to which it goes
	}{
		"goes on":             {origin: domain.OpUpdate, status: domain.ContextInstantiating, runs: going{}, back: "here"},
		"has failed":          {origin: domain.OpUpdate, status: domain.ContextInstantiateFailed, runs: closed{}, back: "here"},
		"a cluster it has":    {origin: domain.OpUpdate, status: domain.ContextInstantiating, runs: going{}, back: "there"},
		"one it has not yet":  {origin: domain.OpUpdate, status: domain.ContextInstantiating, runs: going{}, back: "dead", wants: "has not got through"},
		"the first":           {origin: domain.OpInstantiate, status: domain.ContextInstantiating, runs: going{}, back: "here", wants: "is still instantiating"},
		"is being terminated": {origin: domain.OpUpdate, status: domain.ContextTerminating, runs: going{}, back: "here", wants: "is terminating"},
	} {
		t.Run(name, func(t *testing.T) {
			cloud, group := cloudAndGroup()
			d := newDocuments(cloud, group, reference("r", "here"), reference("s", "there"), reference("u", "dead"))
			on := func(user domain.Key, app, marks string, clusters ...string) domain.Digest {
				bundle := plan.Bundle{App: app, Resources: []plan.Resource{{ResourceID: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: app}, Manifest: json.RawMessage(`{}`)}}}
				a := plan.App{Name: app, Bundle: d.put(t, bundle), Resources: []plan.ResourceID{bundle.Resources[0].ResourceID}}
				for _, name := range clusters {
					target := plan.Target{ClusterName: reference("r", name).ClusterName()}
					if name != "dead" {
						target.Inherited = &plan.Inherited{Marks: marks}
					}
					a.Targets = append(a.Targets, target)
				}
				return d.put(t, plan.Plan{Namespace: "lc-ns", User: user, Apps: []plan.App{a}})
			}
			for _, i := range []*domain.Instance{
				{ContextID: "1", Owner: cloudKey, Origin: c.origin, Operation: c.origin, Status: c.status, Plan: on("", "logical-cloud", "1A", "here", "there", "dead")},
				{ContextID: "2", Owner: domain.KeyOf(group), LogicalCloud: cloudKey, Namespace: "lc-ns", Status: domain.ContextUpdated, Plan: on(cloudKey, "web", "1p", c.back)},
				{ContextID: "3", Owner: domain.KeyOf(group), LogicalCloud: cloudKey, Namespace: "lc-ns", Origin: domain.OpUpdate, Status: domain.ContextInstantiated, Plan: on(cloudKey, "sink", "1A", "here")},
			} {
				require.NoError(t, d.PutInstance(t.Context(), i))
			}
			l := &activities.Control{Store: d, Runs: c.runs, Now: func() time.Time { return begun }}
			change := activities.ChangeInput{
				Scope: domain.Scope{Owner: domain.KeyOf(group), ContextID: "4", Operation: domain.OpRollback}, Goal: domain.Goal{Revert: "2"},
			}
			prepared, err := l.PrepareChange(t.Context(), change)
			if c.wants != "" {
				require.True(t, fail.Is(err, fail.Conflict), "%v", err)
				require.ErrorContains(t, err, c.wants)
				return
			}
			require.NoError(t, err)
			require.Contains(t, prepared.Warnings, `the last update of logical cloud "lc" has not got through to all of its clusters: it is in state Instantiated`)

			change.Operation, change.Goal = domain.OpUpdate, domain.Goal{}
			_, err = l.PrepareChange(t.Context(), change)
			require.ErrorContains(t, err, "has no apps", "an update gets as far as that")
			group.History = domain.NewHistory(begun)
			group.History.Append(domain.Approved, "", 0, begun)
			d.byKey[domain.KeyOf(group)] = group
			_, err = l.Prepare(t.Context(), domain.Scope{Owner: domain.KeyOf(group), ContextID: "4", Operation: domain.OpInstantiate})
			require.ErrorContains(t, err, "The Logical Cloud ", "a new instance waits")
		})
	}
}

// TestARollbackSaysWhatStays: a namespace that it drops, and in which it wants something.
func TestARollbackSaysWhatStays(t *testing.T) {
	mon := plan.Resource{ResourceID: plan.ResourceID{Version: "v1", Kind: "Namespace", Name: "mon"}, Manifest: json.RawMessage(`{}`)}
	in := plan.Resource{ResourceID: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Namespace: "mon", Name: "in"}, Manifest: json.RawMessage(`{}`)}
	more := plan.Resource{ResourceID: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: "more"}, Manifest: json.RawMessage(`{}`)}
	for name, to := range map[string][]plan.Resource{"and nothing else": {in}, "and something else": {in, more}} {
		t.Run(name, func(t *testing.T) {
			cloud, group := cloudAndGroup()
			d := newDocuments(cloud, group, reference("r", "c"))
			of := func(marks string, resources ...plan.Resource) domain.Digest {
				a := plan.App{Name: "web", Bundle: d.put(t, plan.Bundle{App: "web", Resources: resources})}
				for _, r := range resources {
					a.Resources = append(a.Resources, r.ResourceID)
				}
				a.Targets = []plan.Target{{ClusterName: reference("r", "c").ClusterName(), Inherited: &plan.Inherited{Marks: marks}}}
				return d.put(t, plan.Plan{Namespace: "lc-ns", User: cloudKey, Apps: []plan.App{a}})
			}
			for _, i := range []*domain.Instance{
				{ContextID: "1", Owner: cloudKey, Origin: domain.OpInstantiate, Status: domain.ContextInstantiated, Plan: d.put(t, plan.Plan{})},
				{ContextID: "2", Owner: domain.KeyOf(group), LogicalCloud: cloudKey, Namespace: "lc-ns", Status: domain.ContextUpdated, Plan: of("2A", to...)},
				{ContextID: "3", Owner: domain.KeyOf(group), LogicalCloud: cloudKey, Namespace: "lc-ns", Origin: domain.OpUpdate, Status: domain.ContextInstantiated, Plan: of("2A", mon, in)},
			} {
				require.NoError(t, d.PutInstance(t.Context(), i))
			}
			l := &activities.Control{Store: d, Runs: closed{}, Now: func() time.Time { return begun }}
			prepared, err := l.PrepareChange(t.Context(), activities.ChangeInput{
				Scope: domain.Scope{Owner: domain.KeyOf(group), ContextID: "4", Operation: domain.OpRollback}, Goal: domain.Goal{Revert: "2"},
			})
			require.NoError(t, err)
			require.Equal(t, len(to) == 1, prepared.Unchanged)
			if prepared.Unchanged {
				require.Equal(t, "nothing to rollback: revision 2 has all that is wanted", prepared.Warnings[0], "and more")
			} else {
				held := blob[plan.Plan](t, d, prepared.Plan).Held
				require.Equal(t, []plan.Held{{App: "web", Resource: mon.ResourceID, Clusters: []domain.ClusterName{reference("r", "c").ClusterName()}}}, held)
			}
			require.Contains(t, prepared.Warnings,
				`Namespace "mon", which app "web" does not have any more, stays on cluster p+c: with it would go ConfigMap "in" of app "web"`)
		})
	}
}

// cloudAndGroup are a logical cloud that is instantiated as context 1, and a group there that was instantiated as 2, and then updated as 3.
func cloudAndGroup() (*domain.LogicalCloud, *domain.DeploymentIntentGroup) {
	cloud := level1()
	cloud.Spec.Namespace = "lc-ns"
	cloud.History.Append(domain.Instantiated, "1", 1, begun)
	group := &domain.DeploymentIntentGroup{
		Identity: domain.Identity{Parent: "projects/p/composite-apps/ca/v1"}, Metadata: domain.Metadata{Name: "dig"},
		Spec: domain.DeploymentIntentGroupSpec{LogicalCloud: "lc"}, History: domain.NewHistory(begun),
	}
	group.History.Append(domain.Instantiated, "2", 1, begun)
	group.History.Leave("2", "3", 1, begun)
	group.History.Append(domain.Instantiated, "3", 2, begun)
	return cloud, group
}

// updatedOnce is a group that is instantiated in a logical cloud: context 2 on the cluster here, and 3, an update, which has that status, also on there.
func updatedOnce(t *testing.T, status domain.ContextStatus) (*documents, *domain.DeploymentIntentGroup) {
	t.Helper()
	cloud, group := cloudAndGroup()
	d := newDocuments(cloud, group, reference("r", "here"), reference("s", "there"))
	on := func(contextID string, clusters ...string) domain.Digest {
		bundle := plan.Bundle{App: "web", Resources: []plan.Resource{{ResourceID: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: "web"}, Manifest: json.RawMessage(`{}`)}}}
		a := plan.App{Name: "web", Bundle: d.put(t, bundle), Resources: []plan.ResourceID{bundle.Resources[0].ResourceID}}
		for _, name := range clusters {
			a.Targets = append(a.Targets, plan.Target{ClusterName: reference("r", name).ClusterName()})
		}
		return d.put(t, plan.Plan{ContextID: contextID, Namespace: "lc-ns", User: cloudKey, Apps: []plan.App{a}})
	}
	for _, i := range []*domain.Instance{
		{ContextID: "1", Owner: cloudKey, Origin: domain.OpInstantiate, Status: domain.ContextInstantiated, Plan: d.put(t, plan.Plan{})},
		{ContextID: "2", Owner: domain.KeyOf(group), LogicalCloud: cloudKey, Namespace: "lc-ns", Status: domain.ContextUpdated, Plan: on("2", "here")},
		{ContextID: "3", Owner: domain.KeyOf(group), LogicalCloud: cloudKey, Namespace: "lc-ns", Origin: domain.OpUpdate, Status: status, Plan: on("3", "here", "there")},
	} {
		require.NoError(t, d.PutInstance(t.Context(), i))
	}
	return d, group
}

// TestARecordOlderThanItsRun: after a restore the engine may know that a run has come to its end, of which the database does not have all. What the run has brought to
// a cluster is looked for there, and does not stay when the next revision has the cluster no more.
func TestARecordOlderThanItsRun(t *testing.T) {
	for name, c := range map[string]struct {
		status domain.ContextStatus
		leaves bool // the cluster is in the plan
	}{
		"goes on":   {domain.ContextInstantiating, true},
		"has ended": {domain.ContextInstantiateFailed, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, group := updatedOnce(t, c.status)
			l := &activities.Control{Store: d, Runs: closed{}, Now: func() time.Time { return begun }}
			prepared, err := l.PrepareChange(t.Context(), activities.ChangeInput{
				Scope: domain.Scope{Owner: domain.KeyOf(group), ContextID: "4", Operation: domain.OpRollback}, Goal: domain.Goal{Revert: "2"},
			})
			require.NoError(t, err)
			leaves := slices.ContainsFunc(blob[plan.Plan](t, d, prepared.Plan).Apps[0].Targets, func(t plan.Target) bool { return t.Name == "there" && t.Leaving })
			require.Equal(t, c.leaves, leaves)
		})
	}
}

// TestAChangeCarriesFewWarnings: a plan has them anew for each cluster on which something stays as it is.
func TestAChangeCarriesFewWarnings(t *testing.T) {
	d, group := updatedOnce(t, domain.ContextInstantiated)
	here := reference("r", "here").ClusterName()
	leaf := domain.Leaf{ID: domain.LeafID("3", "web", here), ContextID: "3", App: "web", Cluster: here, Operation: domain.OpUpdate, Marks: "1A"}
	for range 100 {
		leaf.Warnings = append(leaf.Warnings, domain.Note{Message: strings.Repeat("x", 600)})
	}
	require.NoError(t, d.PutLeaf(t.Context(), leaf))
	there := leaf
	there.Cluster, there.Warnings = reference("s", "there").ClusterName(), nil
	there.ID = domain.LeafID("3", "web", there.Cluster)
	require.NoError(t, d.PutLeaf(t.Context(), there))
	l := &activities.Control{Store: d, Runs: closed{}, Now: func() time.Time { return begun }}
	prepared, err := l.PrepareChange(t.Context(), activities.ChangeInput{
		Scope: domain.Scope{Owner: domain.KeyOf(group), ContextID: "4", Operation: domain.OpRollback}, Goal: domain.Goal{Revert: "2"},
	})
	require.NoError(t, err)
	changed := blob[plan.Plan](t, d, prepared.Plan)
	stays := changed.App("web").Targets[0]
	require.Equal(t, here, stays.ClusterName)
	warnings := stays.Warnings(nil)
	require.Len(t, warnings, 4)
	require.Contains(t, warnings[3].Message, "97 more warnings, ")
}

// TestARollbackIntoAnotherCloud is refused for good: the cloud of the revision was abandoned, and there is another one of its name.
func TestARollbackIntoAnotherCloud(t *testing.T) {
	for name, c := range map[string]struct {
		change func(cloud *domain.LogicalCloud, group *domain.DeploymentIntentGroup)
		wants  string // "" where it is taken
	}{
		"the same": {func(*domain.LogicalCloud, *domain.DeploymentIntentGroup) {}, ""},
		"another namespace": {
			func(cloud *domain.LogicalCloud, _ *domain.DeploymentIntentGroup) { cloud.Spec.Namespace = "other-ns" },
			`there is another one now, "lc" with namespace other-ns at level 1: terminate the group, then instantiate it`,
		},
		"another level": {
			func(cloud *domain.LogicalCloud, _ *domain.DeploymentIntentGroup) {
				cloud.Spec.Level = domain.LevelAdmin
			},
			`the revision is of a logical cloud "lc" with namespace lc-ns at level 1, and there is another one now, "lc" with namespace lc-ns at level 0`,
		},
		"another name": {
			func(_ *domain.LogicalCloud, group *domain.DeploymentIntentGroup) { group.Spec.LogicalCloud = "second" },
			`there is another one now, "second" with namespace lc-ns at level 1`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cloud, second := level1(), level1()
			second.Name = "second"
			for _, c := range []*domain.LogicalCloud{cloud, second} {
				c.Spec.Namespace = "lc-ns"
				c.History.Append(domain.Instantiated, "1", 1, begun)
			}
			group := &domain.DeploymentIntentGroup{
				Identity: domain.Identity{Parent: "projects/p/composite-apps/ca/v1"}, Metadata: domain.Metadata{Name: "dig"},
				Spec: domain.DeploymentIntentGroupSpec{LogicalCloud: "lc"}, History: domain.NewHistory(begun),
			}
			group.History.Append(domain.Instantiated, "2", 1, begun)
			group.History.Leave("2", "3", 1, begun)
			group.History.Append(domain.Instantiated, "3", 2, begun)
			c.change(cloud, group)
			d := newDocuments(cloud, second, group, reference("r", "c"))
			of := func(app string) domain.Digest {
				r := plan.Resource{ResourceID: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: app}, Manifest: json.RawMessage(`{}`)}
				return d.put(t, plan.Plan{Namespace: "lc-ns", User: cloudKey, Apps: []plan.App{{
					Name: app, Bundle: d.put(t, plan.Bundle{App: app, Resources: []plan.Resource{r}}), Resources: []plan.ResourceID{r.ResourceID},
					Targets: []plan.Target{{ClusterName: reference("r", "c").ClusterName(), Inherited: &plan.Inherited{Marks: "1A"}}},
				}}})
			}
			for _, i := range []*domain.Instance{
				{ContextID: "1", Owner: cloudKey, Origin: domain.OpInstantiate, Status: domain.ContextInstantiated, Plan: d.put(t, plan.Plan{})},
				{ContextID: "2", Owner: domain.KeyOf(group), LogicalCloud: cloudKey, Namespace: "lc-ns", Status: domain.ContextUpdated, Plan: of("web")},
				{ContextID: "3", Owner: domain.KeyOf(group), LogicalCloud: cloudKey, Namespace: "lc-ns", Origin: domain.OpUpdate, Status: domain.ContextInstantiated, Plan: of("sink")},
			} {
				require.NoError(t, d.PutInstance(t.Context(), i))
			}
			l := &activities.Control{Store: d, Runs: closed{}, Now: func() time.Time { return begun }}
			_, err := l.PrepareChange(t.Context(), activities.ChangeInput{
				Scope: domain.Scope{Owner: domain.KeyOf(group), ContextID: "4", Operation: domain.OpRollback}, Goal: domain.Goal{Revert: "2"},
			})
			if c.wants == "" {
				require.NoError(t, err)
				return
			}
			require.True(t, fail.Is(err, fail.Conflict), "%v", err)
			require.ErrorContains(t, err, c.wants)
		})
	}
}

// TestCloudThatAGroupCameToName is not terminated: whoever was asked to has looked, and slept until there was one.
func TestCloudThatAGroupCameToName(t *testing.T) {
	cloud := level1()
	cloud.History.Append(domain.Instantiated, "1", 1, begun)
	group := &domain.DeploymentIntentGroup{
		Identity: domain.Identity{Parent: "projects/p/composite-apps/ca/v1"}, Metadata: domain.Metadata{Name: "dig"},
		Spec: domain.DeploymentIntentGroupSpec{LogicalCloud: "lc"}, History: domain.NewHistory(begun),
	}
	d := newDocuments(cloud, group)
	require.NoError(t, d.PutInstance(t.Context(), &domain.Instance{
		ContextID: "1", Owner: cloudKey, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated,
	}))
	l := &activities.Control{Store: d, Runs: closed{}, Now: func() time.Time { return begun }}
	in := activities.RecordInput{
		Scope: domain.Scope{Owner: cloudKey, ContextID: "1", Operation: domain.OpTerminate}, Seen: domain.Seen{Status: domain.ContextInstantiated},
	}
	err := l.Record(t.Context(), in)
	require.True(t, fail.Is(err, fail.Invalid), "%v", err)
	require.Contains(t, fail.TextOf(err), "Found at least one DIG associated with Logical Cloud")
	require.Equal(t, domain.ContextInstantiated, d.instances["1"].Status)
	require.Zero(t, d.replaces)

	delete(d.byKey, domain.KeyOf(group))
	require.NoError(t, l.Record(t.Context(), in))
	require.Equal(t, domain.ContextTerminating, d.instances["1"].Status)
	d.byKey[domain.KeyOf(group)] = group
	require.NoError(t, l.Record(t.Context(), in), "done again, after one has come that will find no cloud")
}

// TestCloudInWhichAGroupHasLeftSomething is not terminated, though the group names another one by now: what is left there could not be
// deleted any more.
func TestCloudInWhichAGroupHasLeftSomething(t *testing.T) {
	cloud := level1()
	cloud.History.Append(domain.Instantiated, "1", 1, begun)
	group := &domain.DeploymentIntentGroup{
		Identity: domain.Identity{Parent: "projects/p/composite-apps/ca/v1"}, Metadata: domain.Metadata{Name: "dig"},
		Spec: domain.DeploymentIntentGroupSpec{LogicalCloud: "other"}, History: domain.NewHistory(begun),
	}
	group.History.Append(domain.Instantiated, "2", 1, begun)
	group.History.Append(domain.Terminated, "2", 1, begun)
	d := newDocuments(cloud, group)
	for _, i := range []*domain.Instance{
		{ContextID: "1", Owner: cloudKey, LogicalCloud: cloudKey, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated},
		{ContextID: "2", Owner: domain.KeyOf(group), LogicalCloud: cloudKey, Origin: domain.OpInstantiate, Operation: domain.OpTerminate, Status: domain.ContextTerminateFailed},
	} {
		require.NoError(t, d.PutInstance(t.Context(), i))
	}
	l := &activities.Control{Store: d, Runs: closed{}, Now: func() time.Time { return begun }}
	in := activities.RecordInput{
		Scope: domain.Scope{Owner: cloudKey, ContextID: "1", Operation: domain.OpTerminate}, Seen: domain.Seen{Status: domain.ContextInstantiated},
	}
	err := l.Record(t.Context(), in)
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.Contains(t, fail.TextOf(err), string(domain.KeyOf(group))+" has something in its clusters")
	require.Zero(t, d.replaces)

	require.NoError(t, d.UpdateInstance(t.Context(), "2", func(i *domain.Instance) error { i.Status = domain.ContextTerminated; return nil }))
	require.NoError(t, l.Record(t.Context(), in))
	require.Equal(t, domain.ContextTerminating, d.instances["1"].Status)
}

// membership is a store of a group, of its logical cloud and of the cloud's references.
type membership struct {
	*memory
	cloud      domain.LogicalCloud
	references []domain.Object
}

func (m *membership) Get(ctx context.Context, noun *domain.Noun, key domain.Key) (domain.Object, error) {
	if noun == domain.LogicalClouds {
		return &m.cloud, nil
	}
	return m.memory.Get(ctx, noun, key)
}

func (m *membership) List(_ context.Context, noun *domain.Noun, _ domain.Key) ([]domain.Object, error) {
	if noun != domain.ClusterReferences {
		return nil, nil
	}
	return m.references, nil
}

// TestRecordAfterAClusterHasLeftTheCloud: a reference may go while a plan is made, as nothing tells yet of what is to be put into the cluster.
func TestRecordAfterAClusterHasLeftTheCloud(t *testing.T) {
	both := []domain.Object{reference("r1", "a"), reference("r2", "b")}
	for name, update := range map[string]bool{"an instantiate": false, "an update": true} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			in := d.instantiate()
			if update {
				d, in = updating(t)
			}
			in.Prepared.LogicalCloud = cloudKey
			m := &membership{memory: d.store, cloud: level0(), references: both[:1]}
			d.Store = m
			states, label := d.store.states(), d.store.group.History.StatusContextID
			for range 2 { // the second one is a late attempt
				err := d.Record(t.Context(), in)
				require.True(t, fail.Is(err, fail.Conflict), "%v", err)
				require.Equal(t, states, d.store.states())
				require.Equal(t, label, d.store.group.History.StatusContextID)
				require.NotContains(t, d.store.instances, in.ContextID, "nobody waits for what does not come")
			}
			m.references, in.Prepared.OwnerRevision = both, d.store.group.Revision
			require.NoError(t, d.Record(t.Context(), in))
			require.Equal(t, domain.ContextInstantiating, d.store.instances[in.ContextID].Status)
		})
	}
}

// TestRecordInACloudThatIsAnotherOneMeanwhile: what its clusters give only to who may write them is there until it is taken back from who may not,
// and a group that was planned meanwhile has another revision of its own.
func TestRecordInACloudThatIsAnotherOneMeanwhile(t *testing.T) {
	other := level0()
	other.Spec.Level, other.Spec.User.UserName = "1", "bob"
	elsewhere := level0()
	elsewhere.Spec.Namespace = "ns"
	for name, cloud := range map[string]domain.LogicalCloud{"of level 1": other, "with another namespace": elsewhere} {
		for asked, update := range map[string]bool{"an instantiate": false, "an update": true} {
			t.Run(name+", "+asked, func(t *testing.T) {
				d := newDeployment(t)
				in := d.instantiate()
				if update {
					d, in = updating(t)
				}
				in.Prepared.LogicalCloud = cloudKey
				m := &membership{memory: d.store, cloud: cloud, references: []domain.Object{reference("r1", "a"), reference("r2", "b")}}
				d.Store = m
				states := d.store.states()
				err := d.Record(t.Context(), in)
				require.True(t, fail.Is(err, fail.Conflict), "%v", err)
				require.ErrorContains(t, err, `logical cloud "lc" was changed meanwhile`)
				require.Equal(t, states, d.store.states())
				require.NotContains(t, d.store.instances, in.ContextID)
				m.cloud, in.Prepared.OwnerRevision = level0(), d.store.group.Revision
				require.NoError(t, d.Record(t.Context(), in))
			})
		}
	}
}

// TestRecordInACloudThatIsTerminatedMeanwhile: a group and the terminate of its logical cloud that are accepted at the same time have not seen each
// other. Each looks again when it has written what the other looks at, so that one of them is refused, and leaves nothing.
func TestRecordInACloudThatIsTerminatedMeanwhile(t *testing.T) {
	group := &domain.DeploymentIntentGroup{
		Identity: domain.Identity{Parent: "projects/p/composite-apps/ca/v1"}, Metadata: domain.Metadata{Name: "dig"},
		Spec: domain.DeploymentIntentGroupSpec{LogicalCloud: "lc"}, History: domain.NewHistory(begun),
	}
	group.History.Append(domain.Approved, "", 0, begun)
	cloud := level1()
	cloud.History.Append(domain.Instantiated, "1", 1, begun)
	terminate := activities.RecordInput{
		Scope: domain.Scope{Owner: cloudKey, ContextID: "1", Operation: domain.OpTerminate}, Seen: domain.Seen{Status: domain.ContextInstantiated},
	}
	instantiate := activities.RecordInput{
		Scope: domain.Scope{Owner: domain.KeyOf(group), ContextID: "2", Operation: domain.OpInstantiate}, Seen: domain.Seen{Status: domain.ContextNone},
		Prepared: &activities.Prepared{LogicalCloud: cloudKey},
	}
	fixture := func(t *testing.T) (*crossing, *activities.Control) {
		t.Helper()
		d := &crossing{documents: newDocuments(cloud, reference("r1", "a"))}
		require.NoError(t, d.PutInstance(t.Context(), &domain.Instance{
			ContextID: "1", Owner: cloudKey, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated,
			Plan: d.put(t, plan.Plan{}),
		}))
		instantiate.Prepared.Plan = d.put(t, plan.Plan{User: cloudKey, Namespace: cloud.Spec.Namespace})
		return d, &activities.Control{Store: d, Runs: closed{}, Now: func() time.Time { return begun }}
	}
	t.Run("the terminate sees the group", func(t *testing.T) {
		d, l := fixture(t)
		d.looked = func() { // it has seen no group
			d.byKey[domain.KeyOf(group)] = copied(group)
			require.NoError(t, l.Record(t.Context(), instantiate))
		}
		err := l.Record(t.Context(), terminate)
		require.True(t, fail.Is(err, fail.Invalid), "%v", err)
		require.Equal(t, domain.Instantiated, d.byKey[cloudKey].(*domain.LogicalCloud).History.State())
		require.Equal(t, domain.ContextInstantiated, d.instances["1"].Status)
		require.Equal(t, domain.ContextInstantiating, d.instances["2"].Status)
	})
	t.Run("the group sees the terminate", func(t *testing.T) {
		d, l := fixture(t)
		require.NoError(t, l.Record(t.Context(), terminate))
		d.byKey[domain.KeyOf(group)] = copied(group) // it was prepared before
		err := l.Record(t.Context(), instantiate)
		require.True(t, fail.Is(err, fail.Conflict), "%v", err)
		require.ErrorContains(t, err, `logical cloud "lc" was terminated meanwhile`)
		require.NotContains(t, d.instances, "2")
		require.Equal(t, domain.Approved, d.byKey[domain.KeyOf(group)].(*domain.DeploymentIntentGroup).History.State())
		require.NoError(t, l.Record(t.Context(), terminate), "done again")
	})
}

// crossing is a store of which something else is done after it was looked who uses a cloud.
type crossing struct {
	*documents
	looked func()
}

func (c *crossing) ActiveInstances(ctx context.Context) ([]*domain.Instance, error) {
	active, err := c.documents.ActiveInstances(ctx)
	if then := c.looked; then != nil {
		c.looked = nil
		then()
	}
	return active, err
}

// TestRecordThatWasStoppedMeanwhile is not taken back: whoever stopped it has seen it.
func TestRecordThatWasStoppedMeanwhile(t *testing.T) {
	d := newDeployment(t)
	in := d.instantiate()
	in.Prepared.LogicalCloud = cloudKey
	require.NoError(t, d.Record(t.Context(), d.instantiate()))
	d.store.group.History.Append(domain.InstantiateStopped, "1", 1, begun)
	d.Store = &membership{memory: d.store, cloud: level0()}
	require.NoError(t, d.Record(t.Context(), in))
	require.Equal(t, after(domain.Instantiated, domain.InstantiateStopped), d.store.states())
	require.Contains(t, d.store.instances, "1")
}

// terminated is a membership of whose group a terminate begins while it is looked whether an instantiate may go on.
type terminated struct {
	*membership
	begin func()
}

func (m *terminated) List(ctx context.Context, noun *domain.Noun, parent domain.Key) ([]domain.Object, error) {
	if noun == domain.ClusterReferences && m.begin != nil {
		m.begin()
		m.begin = nil
	}
	return m.membership.List(ctx, noun, parent)
}

// TestRecordThatIsRefusedLeavesTheRecordOfATerminate: without it the terminate would record nothing, and what it deletes would look as if it were there.
func TestRecordThatIsRefusedLeavesTheRecordOfATerminate(t *testing.T) {
	d := newDeployment(t)
	in := d.instantiate()
	in.Prepared.LogicalCloud = cloudKey
	m := &terminated{membership: &membership{memory: d.store, cloud: level0()}}
	m.begin = func() {
		m.begin = nil
		d.store.group.History.Append(domain.Terminated, "1", 1, begun)
		d.store.group.Revision++
		require.NoError(t, d.store.UpdateInstance(t.Context(), "1", func(i *domain.Instance) error {
			i.Operation, i.Status = domain.OpTerminate, domain.ContextTerminating
			return nil
		}))
	}
	d.Store = m
	require.NoError(t, d.Record(t.Context(), in), "something else was asked since")
	require.NoError(t, d.Record(t.Context(), in), "done again")
	require.Equal(t, after(domain.Instantiated, domain.Terminated), d.store.states())
	require.Equal(t, domain.ContextTerminating, d.store.instances["1"].Status)
}

// TestRecordOfTwoThatAreAskedAtOnce and have the same resource: neither has seen the other while its plan was made. One that sees the other when its
// own record is there is refused, and leaves nothing.
func TestRecordOfTwoThatAreAskedAtOnce(t *testing.T) {
	group := func(name string) *domain.DeploymentIntentGroup {
		g := &domain.DeploymentIntentGroup{
			Identity: domain.Identity{Parent: "projects/p/composite-apps/ca/v1", Revision: 1}, Metadata: domain.Metadata{Name: name}, History: domain.NewHistory(begun),
		}
		g.History.Append(domain.Approved, "", 0, begun)
		return g
	}
	settings, other := plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: "settings"}, plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: "other"}
	mon := plan.ResourceID{Version: "v1", Kind: "Namespace", Name: "mon"}
	for name, resource := range map[string]plan.ResourceID{"the same": settings, "another": other, "what is held": mon} {
		for how, update := range map[string]bool{"an instantiate": false, "an update": true} {
			t.Run(name+" by "+how, func(t *testing.T) {
				a, b := group("a"), group("b")
				d := newDocuments(a, b)
				l := &activities.Control{Store: d, Runs: going{}, Now: func() time.Time { return begun }}
				prepared := func(g *domain.DeploymentIntentGroup, contextID string, resource plan.ResourceID, held ...plan.Held) activities.RecordInput {
					digest := d.put(t, plan.Plan{ContextID: contextID, Owner: domain.KeyOf(g), Namespace: "default", Held: held, Apps: []plan.App{{
						Name: "app", Resources: []plan.ResourceID{resource}, Targets: []plan.Target{{ClusterName: domain.ClusterName{Provider: "p", Name: "edge01"}}},
					}}})
					return activities.RecordInput{
						Scope:    domain.Scope{Owner: domain.KeyOf(g), ContextID: contextID, Operation: domain.OpInstantiate},
						Prepared: &activities.Prepared{Plan: digest, Namespace: "default", OwnerRevision: g.Revision},
					}
				}
				if update {
					b.History.Append(domain.Instantiated, "0", 1, begun)
					d.instances["0"] = domain.Instance{ContextID: "0", Owner: domain.KeyOf(b), Status: domain.ContextInstantiated, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate,
						Plan: d.put(t, plan.Plan{ContextID: "0", Owner: domain.KeyOf(b)})}
				}
				held := plan.Held{App: "app", Resource: mon, Kept: true, Clusters: []domain.ClusterName{{Provider: "p", Name: "edge01"}}}
				first, second := prepared(a, "1", settings, held), prepared(b, "2", resource)
				if update {
					second.Operation, second.Prepared.From = domain.OpUpdate, &activities.From{ContextID: "0", Owner: domain.KeyOf(b), OwnerRevision: b.Revision}
				}
				require.NoError(t, l.Record(t.Context(), first))
				states := b.History.State()
				err := l.Record(t.Context(), second)
				if resource == other {
					require.NoError(t, err)
					require.Contains(t, d.instances, "2")
					return
				}
				require.True(t, fail.Is(err, fail.Conflict), "%v", err)
				require.ErrorContains(t, err, fmt.Sprintf("%s %q on cluster p+edge01 belongs to %s already", resource.Kind, resource.Name, domain.KeyOf(a)))
				require.Equal(t, resource == mon, strings.Contains(err.Error(), "it is held there"), "how it ends is in docs/how-to/troubleshoot.md")
				require.NotContains(t, d.instances, "2", "nobody waits for what does not come")
				now, err := d.Get(t.Context(), domain.DeploymentIntentGroups, domain.KeyOf(b))
				require.NoError(t, err)
				require.Equal(t, states, now.(*domain.DeploymentIntentGroup).History.State())
				require.NoError(t, l.Record(t.Context(), first), "done again")
			})
		}
	}
}

// TestNamesOutsideANamespaceAreNotTaken by a group of another project whose chart the cluster refuses: neither does it keep a project from what is its own, nor
// is it told what others have. What a permission of its cloud gives it counts.
func TestNamesOutsideANamespaceAreNotTaken(t *testing.T) {
	group := func(project string) *domain.DeploymentIntentGroup {
		g := &domain.DeploymentIntentGroup{
			Identity: domain.Identity{Parent: domain.Join("projects", project, "composite-apps/ca/v1"), Revision: 1}, Metadata: domain.Metadata{Name: "group"}, History: domain.NewHistory(begun),
		}
		g.History.Append(domain.Approved, "", 0, begun)
		return g
	}
	for name, c := range map[string]struct {
		first, second string
		permitted     bool
	}{
		"q is first":                         {"q", "p", false},
		"p is first":                         {"p", "q", false},
		"q is first, and has a permission":   {"q", "p", true},
		"p is first, and q has a permission": {"p", "q", true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDocuments(group("p"), group("q"))
			if c.permitted {
				p := permission("p-ns")
				p.Identity, p.Name = domain.Identity{Parent: "projects/q/logical-clouds/lc"}, "more"
				d.byKey[domain.KeyOf(p)] = p
			}
			l := &activities.Control{Store: d, Runs: going{}, Now: func() time.Time { return begun }}
			record := func(project string) error {
				g := group(project)
				s := domain.Scope{Owner: domain.KeyOf(g), ContextID: project, Operation: domain.OpInstantiate}
				digest := d.put(t, plan.Plan{
					ContextID: project, Owner: s.Owner, Namespace: project + "-ns", User: domain.Join("projects", project, "logical-clouds/lc"), Apps: []plan.App{{
						Name: "app", Resources: []plan.ResourceID{{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "p-ns", Name: "web"}},
						Targets: []plan.Target{{ClusterName: domain.ClusterName{Provider: "p", Name: "edge01"}}},
					}},
				})
				return l.Record(t.Context(), activities.RecordInput{
					Scope: s, Prepared: &activities.Prepared{Plan: digest, Namespace: project + "-ns", OwnerRevision: g.Revision},
				})
			}
			require.NoError(t, record(c.first))
			if !c.permitted {
				require.NoError(t, record(c.second))
				return
			}
			err := record(c.second)
			require.True(t, fail.Is(err, fail.Conflict), "%v", err)
			require.ErrorContains(t, err, `Deployment "web" on cluster p+edge01 belongs to a deployment outside of projects/`+c.second+" already")
		})
	}
}

// lateReplace sends the first write of an owner, whose answer is late: what comes of it is seen when the test has it arrive.
type lateReplace struct {
	*documents
	arrive func() error
}

func (l *lateReplace) Replace(ctx context.Context, o domain.Object) error {
	if l.arrive != nil {
		return l.documents.Replace(ctx, o)
	}
	sent := copied(o)
	l.arrive = func() error { return l.documents.Replace(ctx, sent) }
	return fail.New(fail.Timeout, "the database does not answer in time")
}

// TestRecordOfATakeoverThatIsRefusedIsTheLastWord: what an earlier attempt has sent comes to nothing. Else the group would have a context that
// nobody has a record of.
func TestRecordOfATakeoverThatIsRefusedIsTheLastWord(t *testing.T) {
	group := func(name string) *domain.DeploymentIntentGroup {
		g := &domain.DeploymentIntentGroup{
			Identity: domain.Identity{Parent: "projects/p/composite-apps/ca/v1", Revision: 1}, Metadata: domain.Metadata{Name: name}, History: domain.NewHistory(begun),
		}
		g.History.Append(domain.Approved, "", 0, begun)
		return g
	}
	for name, migrate := range map[string]bool{"an update": false, "a migrate": true} {
		t.Run(name, func(t *testing.T) {
			a, b, other := group("a"), group("b"), group("other")
			source, op := b, domain.OpUpdate
			if migrate {
				source, op = a, domain.OpMigrate
			}
			source.History.Append(domain.Instantiated, "0", 1, begun)
			d := &lateReplace{documents: newDocuments(a, b, other)}
			l := &activities.Control{Store: d, Runs: going{}, Now: func() time.Time { return begun }}
			planOf := func(g *domain.DeploymentIntentGroup, contextID, resource string) domain.Digest {
				return d.put(t, plan.Plan{ContextID: contextID, Owner: domain.KeyOf(g), Namespace: "default", Apps: []plan.App{{
					Name: "app", Resources: []plan.ResourceID{{Version: "v1", Kind: "ConfigMap", Name: resource}},
					Targets: []plan.Target{{ClusterName: domain.ClusterName{Provider: "p", Name: "edge01"}}},
				}}})
			}
			d.instances["0"] = domain.Instance{
				ContextID: "0", Owner: domain.KeyOf(source), Status: domain.ContextInstantiated, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Plan: planOf(source, "0", "before"),
			}
			in := activities.RecordInput{Scope: domain.Scope{Owner: domain.KeyOf(b), ContextID: "2", Operation: op}, Prepared: &activities.Prepared{
				Plan: planOf(b, "2", "settings"), Namespace: "default", OwnerRevision: b.Revision,
				From: &activities.From{ContextID: "0", Owner: domain.KeyOf(source), OwnerRevision: source.Revision},
			}}
			require.True(t, fail.Is(l.Record(t.Context(), in), fail.Timeout))
			other.History.Append(domain.Instantiated, "9", 1, begun) // meanwhile somebody else has got the resource
			d.instances["9"] = domain.Instance{
				ContextID: "9", Owner: domain.KeyOf(other), Status: domain.ContextInstantiated, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Plan: planOf(other, "9", "settings"),
			}
			err := l.Record(t.Context(), in)
			require.True(t, fail.Is(err, fail.Conflict), "%v", err)
			require.NotContains(t, d.instances, "2")
			require.Error(t, d.arrive(), "what the first attempt has sent comes too late")
			now, err := d.Get(t.Context(), domain.DeploymentIntentGroups, domain.KeyOf(source))
			require.NoError(t, err)
			require.Equal(t, "0", now.(*domain.DeploymentIntentGroup).History.ContextID())
			require.Empty(t, now.(*domain.DeploymentIntentGroup).History.Last().By)
		})
	}
}
