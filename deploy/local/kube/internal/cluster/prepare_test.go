package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func TestPrepareMakesAPrivateSelfContainedKubeconfig(t *testing.T) {
	layout := prepared(t, Ports{APIServer: 16443})
	info, err := os.Stat(layout.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the kubeconfig has mode %o", mode)
	}
	config, err := clientcmd.BuildConfigFromFlags("", layout.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://127.0.0.1:16443" {
		t.Errorf("the server is %s", config.Host)
	}
	if len(config.CAData) == 0 || len(config.CertData) == 0 || len(config.KeyData) == 0 {
		t.Error("certificates and keys are not all embedded")
	}
}

func TestPrepareKeepsCertificatesAndMovesPorts(t *testing.T) {
	layout := prepared(t, Ports{APIServer: 16443})
	before := pkiFiles(t, layout)
	if err := layout.Prepare(Ports{APIServer: 26443}); err != nil {
		t.Fatal(err)
	}
	after := pkiFiles(t, layout)
	if !slices.Equal(before, after) {
		t.Error("keys or certificates were made again")
	}
	kubeconfig, err := os.ReadFile(layout.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(kubeconfig), ":26443") {
		t.Error("the kubeconfig has the old port")
	}
}

func TestPodsNeedNoServiceAccountWithoutControllerManager(t *testing.T) {
	const flag = "--disable-admission-plugins=ServiceAccount"
	layout := Layout{Name: "edge01", Dir: t.TempDir()}
	for _, test := range []struct {
		running []string
		want    bool
	}{
		{Components(), false},
		{[]string{Etcd, APIServer}, true},
	} {
		args, err := layout.Args(APIServer, Ports{}, test.running)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(args, flag); got != test.want {
			t.Errorf("with %v: flag given: %v", test.running, got)
		}
	}
}

func prepared(t *testing.T, ports Ports) Layout {
	t.Helper()
	layout, err := NewLayout(t.TempDir(), "edge01")
	if err != nil {
		t.Fatal(err)
	}
	if err := layout.Prepare(ports); err != nil {
		t.Fatal(err)
	}
	return layout
}

func pkiFiles(t *testing.T, layout Layout) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(layout.Dir, "pki", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var contents []string
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		contents = append(contents, path, string(content))
	}
	if len(contents) == 0 {
		t.Fatal("there are no keys")
	}
	return contents
}
