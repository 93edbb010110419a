package kube

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/fail"
)

// CheckKubeconfig says whether a server can use the kubeconfig's current context. It must stand on its own:
// what would run a program or read a file on the server is refused. Malformed when it is not a kubeconfig,
// Invalid with every member that is not acceptable otherwise.
func CheckKubeconfig(data []byte) error {
	_, err := newCluster(data, "", Config{}.withDefaults())
	return err
}

// Credentials are those of a logical cloud's user in one cluster, which the kubeconfig calls Cluster.
type Credentials struct {
	Cluster, User, Namespace string
	Certificate, Key         []byte // PEM
}

// UserKubeconfig is a kubeconfig of the user for the cluster that the administrator's kubeconfig is for: the same
// server and authority, and a context "<user>@<cluster>" in the namespace. Errors are those of CheckKubeconfig.
func UserKubeconfig(admin []byte, c Credentials) ([]byte, error) {
	file, err := load(admin)
	if err != nil {
		return nil, err
	}
	name := c.User + "@" + c.Cluster
	config := clientcmdapi.NewConfig()
	config.Clusters[c.Cluster] = file.Clusters[file.Contexts[file.CurrentContext].Cluster]
	config.AuthInfos[c.User] = &clientcmdapi.AuthInfo{ClientCertificateData: c.Certificate, ClientKeyData: c.Key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: c.Cluster, AuthInfo: c.User, Namespace: c.Namespace}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the kubeconfig cannot be written")
	}
	return data, nil
}

// load reads a kubeconfig and checks its current context.
func load(data []byte) (*clientcmdapi.Config, error) {
	file, err := clientcmd.Load(data)
	if err != nil {
		return nil, fail.Wrap(err, fail.Malformed, "the kubeconfig cannot be read: it is not one in YAML or JSON")
	}
	var p fail.Problems
	checkCurrent(&p, file)
	checkSpelling(&p, data)
	return file, p.Err()
}

// checkSpelling refuses members that differ from those of a kubeconfig in the case of letters alone, such as Exec.
// client-go does not read them, and other programs that the file may be given to do: nobody could tell from what was
// checked here what the file does there.
func checkSpelling(p *fail.Problems, data []byte) {
	var document any
	if err := yaml.Unmarshal(data, &document); err != nil {
		return // what client-go has read is YAML
	}
	misspelt(p, reflect.TypeFor[clientcmdv1.Config](), document, "")
}

// misspelt goes over what a document has where the type has members.
func misspelt(p *fail.Problems, t reflect.Type, document any, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch d := document.(type) {
	case []any:
		if t.Kind() != reflect.Slice {
			return
		}
		for i, x := range d {
			at := fmt.Sprint(i)
			if m, ok := x.(map[string]any); ok && m["name"] != nil {
				at = fmt.Sprint(m["name"])
			}
			misspelt(p, t.Elem(), x, path+"["+at+"]")
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(d)) {
			at := strings.TrimPrefix(path+"."+name, ".")
			for _, f := range reflect.VisibleFields(t) {
				switch tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
				case tag == name:
					misspelt(p, f.Type, d[name], at)
				case strings.EqualFold(tag, name):
					p.Add(at, "is not a member of a kubeconfig: it is spelt %q", tag)
				}
			}
		}
	}
}

// restConfig reads the current context.
func restConfig(data []byte) (*rest.Config, error) {
	file, err := load(data)
	if err != nil {
		return nil, err
	}
	access, err := clientcmd.NewDefaultClientConfig(*file, nil).ClientConfig()
	if err != nil {
		return nil, fail.Wrap(err, fail.Invalid, "the kubeconfig cannot be used")
	}
	return access, nil
}

func checkCurrent(p *fail.Problems, file *clientcmdapi.Config) {
	if file.CurrentContext == "" {
		p.Add("current-context", "is required")
		return
	}
	current, ok := file.Contexts[file.CurrentContext]
	if !ok {
		p.Add("current-context", "names the context %q, which is not there", file.CurrentContext)
		return
	}
	checkCluster(p, current.Cluster, file.Clusters[current.Cluster])
	if current.AuthInfo != "" {
		checkUser(p, current.AuthInfo, file.AuthInfos[current.AuthInfo])
	}
}

func checkCluster(p *fail.Problems, name string, c *clientcmdapi.Cluster) {
	if c == nil {
		p.Add("clusters["+name+"]", "is not there")
		return
	}
	path := "clusters[" + name + "].cluster."
	if server, err := url.Parse(c.Server); err != nil || server.Host == "" || server.Scheme != "https" && server.Scheme != "http" {
		p.Add(path+"server", "is not a URL that begins with https:// or http://")
	}
	checkFile(p, path+"certificate-authority", c.CertificateAuthority)
}

func checkUser(p *fail.Problems, name string, u *clientcmdapi.AuthInfo) {
	if u == nil {
		p.Add("users["+name+"]", "is not there")
		return
	}
	path := "users[" + name + "].user."
	checkFile(p, path+"client-certificate", u.ClientCertificate)
	checkFile(p, path+"client-key", u.ClientKey)
	checkFile(p, path+"tokenFile", u.TokenFile)
	if u.Exec != nil {
		p.Add(path+"exec", "runs a program, which a server does not do; use a token or a certificate")
	}
	if u.AuthProvider != nil {
		p.Add(path+"auth-provider", "is not supported; use a token or a certificate")
	}
}

func checkFile(p *fail.Problems, path, file string) {
	if file != "" {
		p.Add(path, "names a file, which a server does not read; give its content instead")
	}
}
