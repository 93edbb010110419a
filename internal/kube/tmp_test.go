package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"net/http"

	"github.com/drover-io/drover/internal/plan"
)

func cpu(pid string) float64 {
	d, _ := os.ReadFile("/proc/" + pid + "/stat")
	_, f, _ := strings.Cut(string(d), ") ")
	x := strings.Fields(f)
	u, _ := strconv.Atoi(x[11])
	s, _ := strconv.Atoi(x[12])
	return float64(u+s) * 1e4 // us
}
func self() float64 {
	var r syscall.Rusage
	syscall.Getrusage(0, &r)
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e3
}

func TestVariants(t *testing.T) {
	kc, _ := os.ReadFile("/tmp/dk/data/one/kubeconfig")
	pid := os.Getenv("APID")
	c, err := newCluster(kc, "", Config{}.withDefaults())
	if err != nil { t.Fatal(err) }
	round := 0
	for rep := range 4 {
	_ = rep
	for _, v := range []struct{ n, accept, q string }{
		{"json", "application/json", "fieldManager=drover&force=true"},
		{"json-ignore", "application/json", "fieldManager=drover&force=true&fieldValidation=Ignore"},
		{"meta-ignore", metadataOnly, "fieldManager=drover&force=true&fieldValidation=Ignore"},
		{"pb-ignore", "application/vnd.kubernetes.protobuf,application/json", "fieldManager=drover&force=true&fieldValidation=Ignore"},
	} {
		round++
		a, b := cpu(pid), self()
		const n = 1500
		q := make(chan int)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := range q {
					name := fmt.Sprintf("v%d-%d", round, i)
					m, _ := json.Marshal(map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name, "namespace": "kube-public"}, "spec": map[string]any{"replicas":0, "selector": map[string]any{"matchLabels": map[string]any{"a": name}}, "template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": name}}, "spec": map[string]any{"containers": []any{map[string]any{"name":"a","image":"b", "env": []any{map[string]any{"name":"A","value":"b"}}, "ports": []any{map[string]any{"containerPort": 80}}}}}}}})
					if os.Getenv("KIND") == "cm" {
						m, _ = json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "kube-public"}, "data": map[string]any{"a": "some text", "b": "more"}})
						_, err := c.do(context.Background(), request{method: http.MethodPatch, path: "/api/v1/namespaces/kube-public/configmaps/" + name, query: v.q, contentType: contentApply, accept: v.accept, body: m, discard: true})
						if err != nil && !strings.Contains(err.Error(), "answer") && !strings.Contains(err.Error(), "protobuf") { panic(err) }
						continue
					}
					_, err := c.do(context.Background(), request{method: http.MethodPatch, path: "/apis/apps/v1/namespaces/kube-public/deployments/" + name, query: v.q, contentType: contentApply, accept: v.accept, body: m, discard: true})
					if err != nil && !strings.Contains(err.Error(), "protobuf") { panic(err) }
				}
			})
		}
		for i := range n { q <- i }
		close(q)
		wg.Wait()
		fmt.Printf("%-12s server %.0f us client %.0f us\n", v.n, (cpu(pid)-a)/n, (self()-b)/n)
	}
	}
	_ = plan.App{}
}
