package kube

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/address"
	"github.com/drover-io/drover/internal/atomicfile"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// Allowed says what kubeconfigs may have that makes a server do what its operator may not want: run a program, read a file, trust anybody,
// connect to somebody else, or send credentials and manifests in plain. The operator allows each.
type Allowed struct {
	Exec, AuthProvider, Files, Insecure, Proxy, HTTP bool
}

// AllowedWords are the names of Allowed's members, as a kubeconfig has them, but for files, of which it has several, and for http, with
// which a server begins.
var AllowedWords = []string{"exec", "auth-provider", "files", "insecure-skip-tls-verify", "proxy-url", "http"}

// Allow is what words of AllowedWords allow; false when one is no such word.
func Allow(words []string) (a Allowed, ok bool) {
	for _, w := range words {
		switch w {
		case "exec":
			a.Exec = true
		case "auth-provider":
			a.AuthProvider = true
		case "files":
			a.Files = true
		case "insecure-skip-tls-verify":
			a.Insecure = true
		case "proxy-url":
			a.Proxy = true
		case "http":
			a.HTTP = true
		default:
			return a, false
		}
	}
	return a, true
}

// CheckKubeconfig says whether a server can use the kubeconfig's current context. It must stand on its own, and lead to a
// cluster that may be connected to: see Allowed. Malformed when it is not a kubeconfig, Invalid with every member that is not
// acceptable otherwise.
func (c Config) CheckKubeconfig(data []byte) error {
	_, err := newCluster(data, "", c.withDefaults())
	return err
}

// Credentials are those of a logical cloud's user in one cluster, which the kubeconfig calls Cluster.
type Credentials struct {
	Cluster, User, Namespace string
	Certificate, Key         []byte // PEM
	// GivenOut says that the kubeconfig is for the user, who is not the administrator, and not for Drover itself.
	GivenOut bool
}

// UserKubeconfig is a kubeconfig of the user for the cluster that the administrator's kubeconfig is for: the same
// server, authority and proxy, and a context "<user>@<cluster>" in the namespace. Errors are those of CheckKubeconfig.
func UserKubeconfig(admin []byte, c Credentials) ([]byte, error) {
	file, err := loadAny(admin) // whoever uses what is made of it checks that
	if err != nil {
		return nil, err
	}
	name := c.User + "@" + c.Cluster
	config := clientcmdapi.NewConfig()
	config.Clusters[c.Cluster] = file.Clusters[file.Contexts[file.CurrentContext].Cluster]
	if c.GivenOut {
		config.Clusters[c.Cluster] = forOthers(config.Clusters[c.Cluster])
	}
	config.AuthInfos[c.User] = &clientcmdapi.AuthInfo{ClientCertificateData: c.Certificate, ClientKeyData: c.Key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: c.Cluster, AuthInfo: c.User, Namespace: c.Namespace}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the kubeconfig cannot be written")
	}
	return data, nil
}

// forOthers is a cluster as others than its administrator may know it: without what a proxy knows him by, and without extensions, which may
// be anything. Who needs a password for the proxy brings one.
func forOthers(c *clientcmdapi.Cluster) *clientcmdapi.Cluster {
	c = c.DeepCopy()
	c.Extensions = nil
	if proxy, err := url.Parse(c.ProxyURL); err == nil && c.ProxyURL != "" {
		c.ProxyURL = (&url.URL{Scheme: proxy.Scheme, Host: proxy.Host}).String()
	}
	return c
}

// load reads a kubeconfig and checks its current context.
func (c Config) load(data []byte) (*clientcmdapi.Config, error) {
	if len(data) > limits.Kubeconfig {
		return nil, fail.New(fail.Invalid, "the kubeconfig has %d bytes, of which it may have %d", len(data), limits.Kubeconfig)
	}
	file, err := clientcmd.Load(data)
	if err != nil {
		return nil, fail.Wrap(err, fail.Malformed, "the kubeconfig cannot be read: it is not one in YAML or JSON")
	}
	var p fail.Problems
	c.checkCurrent(&p, file)
	checkSpelling(&p, data)
	return file, p.Err()
}

// loadAny is load of one whose cluster and user are there, whatever else it has.
func loadAny(data []byte) (*clientcmdapi.Config, error) {
	all, _ := Allow(AllowedWords)
	return Config{Allowed: all, Networks: anywhere}.load(data)
}

// anywhere are all networks.
var anywhere, _ = address.Parse("", "")

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
func (c Config) restConfig(data []byte) (*rest.Config, error) {
	file, err := c.load(data)
	if err != nil {
		return nil, err
	}
	access, err := clientcmd.NewDefaultClientConfig(*file, nil).ClientConfig()
	if err != nil {
		return nil, fail.Wrap(err, fail.Invalid, "the kubeconfig cannot be used: %s", clip(err.Error()))
	}
	return access, nil
}

func (c Config) checkCurrent(p *fail.Problems, file *clientcmdapi.Config) {
	if file.CurrentContext == "" {
		p.Add("current-context", "is required")
		return
	}
	current, ok := file.Contexts[file.CurrentContext]
	if !ok {
		p.Add("current-context", "names the context %q, which is not there", file.CurrentContext)
		return
	}
	c.checkCluster(p, current.Cluster, file.Clusters[current.Cluster])
	// A context without a user has that user of the file who has no name: client-go looks for it by "".
	if user, ok := file.AuthInfos[current.AuthInfo]; ok || current.AuthInfo != "" {
		c.checkUser(p, current.AuthInfo, user)
	}
}

func (c Config) checkCluster(p *fail.Problems, name string, of *clientcmdapi.Cluster) {
	if of == nil {
		p.Add("clusters["+name+"]", "is not there")
		return
	}
	path := "clusters[" + name + "].cluster."
	server, err := url.Parse(of.Server)
	if err != nil || server.Host == "" || server.Scheme != "https" && server.Scheme != "http" {
		p.Add(path+"server", "is not a URL that begins with https:// or http://")
	} else if server.User != nil || server.RawQuery != "" || server.ForceQuery || strings.Contains(of.Server, "#") || server.Opaque != "" {
		p.Add(path+"server", "has more than a host, a port and a path: no user, no ? and no #")
	} else if err := c.Networks.CheckHost(server.Hostname()); err != nil {
		p.Add(path+"server", "cannot be connected to: %s; the operator says which networks clusters may be in", fail.TextOf(err))
	} else if server.Scheme == "http" && !c.Allowed.HTTP && !ownMachine(server.Hostname()) {
		p.Add(path+"server", "has credentials and manifests sent in plain; use https://"+unlessAllowed)
	}
	c.checkFile(p, path+"certificate-authority", of.CertificateAuthority)
	if of.InsecureSkipTLSVerify && !c.Allowed.Insecure {
		p.Add(path+"insecure-skip-tls-verify", "has anybody taken for the cluster; give the certificate of its authority instead"+unlessAllowed)
	}
	if of.ProxyURL != "" && !c.Allowed.Proxy {
		p.Add(path+"proxy-url", "leads to another machine than the cluster's"+unlessAllowed)
	}
}

// ownMachine says whether a host is this machine, whatever a resolver says: nobody is in between.
func ownMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// unlessAllowed ends what is said of what the operator may allow.
const unlessAllowed = ", unless the operator allows it (--kubeconfig-allow)"

func (c Config) checkUser(p *fail.Problems, name string, u *clientcmdapi.AuthInfo) {
	if u == nil {
		p.Add("users["+name+"]", "is not there")
		return
	}
	path := "users[" + name + "].user."
	c.checkFile(p, path+"client-certificate", u.ClientCertificate)
	c.checkFile(p, path+"client-key", u.ClientKey)
	c.checkFile(p, path+"tokenFile", u.TokenFile)
	if u.Exec != nil && !c.Allowed.Exec {
		p.Add(path+"exec", "runs a program, which a server does not do; use a token or a certificate"+unlessAllowed)
	}
	if u.AuthProvider != nil && !c.Allowed.AuthProvider {
		p.Add(path+"auth-provider", "is code of a server's; use a token or a certificate"+unlessAllowed)
	}
}

func (c Config) checkFile(p *fail.Problems, path, file string) {
	if file != "" && !c.Allowed.Files {
		p.Add(path, "names a file, which a server does not read; give its content instead"+unlessAllowed)
	} else if err := atomicfile.Regular(file); file != "" && err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.Add(path, "cannot be read: %v", err)
	}
}
