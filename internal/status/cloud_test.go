package status_test

import (
	"iter"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/view"
)

// cloud is a logical cloud of level 1 on a cluster that was reached and one that was not. Its certificate request has
// gone from the first, as it does.
func cloud() status.Source {
	at := time.Date(2026, 11, 21, 5, 29, 7, 36e6, time.UTC)
	h := domain.NewHistory(at)
	h.Append(domain.Instantiated, "42", 1, at)
	resources := []plan.ResourceID{
		{Version: "v1", Kind: "Namespace", Name: "ns"},
		{Group: "certificates.k8s.io", Version: "v1", Kind: "CertificateSigningRequest", Name: "lc-ns-user-csr"},
	}
	c1, c2 := domain.ClusterName{Provider: "p", Name: "c1"}, domain.ClusterName{Provider: "p", Name: "c2"}
	return status.Source{
		Subject: status.SubjectCloud, Project: "proj", Name: "lc", History: h,
		Source: view.Source{ContextID: "42", Status: domain.ContextInstantiating, Apps: []view.App{{Name: "logical-cloud", Resources: resources, Clusters: []view.Cluster{
			{ClusterName: c1, Connectivity: domain.ConnectivityAvailable, Marks: domain.DecodeMarks("2A"), Placement: "cluster reference r1"},
			{ClusterName: c2, Connectivity: domain.ConnectivityRetrying, Marks: domain.DecodeMarks("2p"), InProgress: true, LastError: "refused"},
		}}},
			Namespace: "default",
			Observations: func(string, []domain.ClusterName) iter.Seq2[*view.Observation, error] {
				return func(yield func(*view.Observation, error) bool) {
					yield(&view.Observation{
						ClusterName: c1, Seen: true, Connected: true,
						Kinds: []schema.GroupKind{{Kind: "Namespace"}, {Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}},
						Resources: []view.ObservedResource{
							{ResourceID: plan.ResourceID{Version: "v1", Kind: "Namespace", Name: "ns"}, State: readiness.State{Status: readiness.Ready}},
						},
					}, nil)
				}
			}},
	}
}

const (
	cloudHead   = `{"project":"proj","name":"lc"`
	cloudStates = cloudHead + `,"states":{"statusctxid":"42","actions":[{"state":"Created","instance":"","time":"2026-11-21T05:29:07.036Z","revision":0},{"state":"Instantiated","instance":"42","time":"2026-11-21T05:29:07.036Z","revision":1}]}`
	gvkOfSpace  = `"GVK":{"Group":"","Version":"v1","Kind":"Namespace"}`
	gvkOfCSR    = `"GVK":{"Group":"certificates.k8s.io","Version":"v1","Kind":"CertificateSigningRequest"}`
)

func TestDocumentsOfALogicalCloud(t *testing.T) {
	deployed := cloudStates + `,"deployedStatus":"Instantiating","deployedCounts":{"Applied":2,"Pending":2}`
	ready := cloudStates + `,"deployedStatus":"Instantiating","readyStatus":"NotReady","readyCounts":{"Ready":1},"unconfirmedClusters":1`
	first := `{"clusterProvider":"p","cluster":"c1","connectivity":"Available","resources":[{` + gvkOfCSR + `,"name":"lc-ns-user-csr","deployedStatus":"Applied"},{` + gvkOfSpace + `,"name":"ns","deployedStatus":"Applied"}]}`
	second := `{"clusterProvider":"p","cluster":"c2","connectivity":"Retrying","resources":[{` + gvkOfCSR + `,"name":"lc-ns-user-csr","deployedStatus":"Pending"},{` + gvkOfSpace + `,"name":"ns","deployedStatus":"Pending"}]}`
	for query, want := range map[string]string{
		"?status=deployed":                   deployed + `,"clusters":[` + first + "," + second + "]}\n",
		"?status=deployed&output=summary":    deployed + "}\n",
		"?status=deployed&cluster=p%2Bc1":    strings.Replace(deployed, `,"Pending":2`, "", 1) + `,"clusters":[` + first + "]}\n",
		"?output=summary":                    ready + "}\n",
		"?type=rsync&output=summary":         ready + "}\n",
		"?cluster=p%2Bc1":                    strings.Replace(strings.Replace(ready, `,"unconfirmedClusters":1`, "", 1), "NotReady", "Ready", 1) + `,"clusters":[{"clusterProvider":"p","cluster":"c1","connectivity":"Available","resources":[{` + gvkOfCSR + `,"name":"lc-ns-user-csr"},{` + gvkOfSpace + `,"name":"ns","readyStatus":"Ready"}]}]}` + "\n",
		"?clusters":                          cloudHead + `,"clustersByApp":[{"app":"logical-cloud","clusters":[{"clusterProvider":"p","cluster":"c1"},{"clusterProvider":"p","cluster":"c2"}]}]}` + "\n",
		"?resources&cluster=p%2Bc1":          cloudHead + `,"resourcesByApp":[{"app":"logical-cloud","clusterProvider":"p","cluster":"c1","resources":[{"name":"ns",` + gvkOfSpace + `}]}]}` + "\n",
		"?apps&status=deployed&app=nonsense": deployed + `,"clusters":[` + first + "," + second + "]}\n",
	} {
		t.Run(query, func(t *testing.T) {
			u, err := url.Parse(query)
			require.NoError(t, err)
			q, err := status.ParseQuery(u.Query())
			require.NoError(t, err)
			require.Equal(t, want, write(t, q.For(status.SubjectCloud), cloud()))
		})
	}
}

func TestDocumentsOfAnAdminCloud(t *testing.T) {
	s := cloud()
	s.Apps, s.Observations = nil, nil
	ready := status.Query{}.For(status.SubjectCloud)
	ready.Output = status.OutputAll
	for state, want := range map[domain.ContextStatus]string{
		domain.ContextInstantiated: `,"deployedStatus":"Instantiated","readyStatus":"Ready"}`,
		domain.ContextTerminated:   `,"deployedStatus":"Terminated"}`,
	} {
		s.Status = state
		require.Equal(t, cloudStates+want+"\n", write(t, ready, s))
	}
	s.ContextID = ""
	require.Equal(t, cloudStates+"}\n", write(t, ready, s), "never instantiated")
	ready.List = status.ListResources
	require.Equal(t, cloudHead+`,"resourcesByApp":[]}`+"\n", write(t, ready, s))
}

// A namespace that was there before the cloud does not carry its label, so no cluster reports it.
func TestASparedNamespaceIsNotMissing(t *testing.T) {
	s := cloud()
	s.Status = domain.ContextInstantiated
	s.Apps[0].Resources = append(s.Apps[0].Resources, plan.ResourceID{Version: "v1", Kind: "Namespace", Name: "before"})
	s.Apps[0].Clusters = s.Apps[0].Clusters[:1]
	s.Apps[0].Clusters[0].Marks = domain.DecodeMarks("2A1K")
	require.Contains(t, write(t, parseQuery(t, "?status=ready&output=summary"), s), `"readyStatus":"Ready","readyCounts":{"Ready":1}`)
}
