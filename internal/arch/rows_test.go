package arch

// layer is a group of packages, of those above which none may be imported.
type layer struct {
	name, about string
	rows        []row
}

// row says what a package may import beside most of the standard library. All are lists with spaces between.
type row struct {
	pkg   string // its folder, without internal/
	ours  string // packages of ours, all of which have rows below
	libs  string // modules or parts of them
	world string // those packages of the standard library with which one can act, see acts
}

// layers are the rows of all packages of this module, top to bottom.
var layers = []layer{
	{name: "programs", about: "what is started, and what it brings along", rows: []row{
		{
			pkg:   "cmd/drover",
			ours:  "cli app monitor tenantagent kube render secret access audit domain telemetry connections config policy panics fail",
			libs:  "golang.org/x/sync golang.org/x/term k8s.io/client-go",
			world: "context os os/signal syscall",
		},
		{
			pkg: "app",
			ours: "deploy/helm/monitor api api/rpc worker workflows door trail service notify engine activities observe store kube fetch render connections " +
				"secret sink telemetry codec measure policy config audit authn explain status view logicalcloud bundle readiness domain lease oidc pause caller limits token version panics fail",
			libs: "github.com/prometheus/client_golang go.temporal.io/sdk/client " +
				"google.golang.org/grpc",
			world: "context net net/http os",
		},
		{
			pkg:  "cli",
			ours: "client kube access service operations combined status combine audit authn rights domain nearest yamltext helmignore atomicfile connections hosts policy limits version pause fail",
			libs: "github.com/coreos/go-oidc github.com/spf13/cobra github.com/spf13/pflag go.yaml.in/yaml/v3 golang.org/x/oauth2 golang.org/x/sync golang.org/x/sys/unix golang.org/x/term golang.org/x/text/width k8s.io/client-go " +
				"helm.sh/helm/v4/pkg/chart/v2/loader helm.sh/helm/v4/pkg/chart/v2/util helm.sh/helm/v4/pkg/strvals sigs.k8s.io/yaml",
			world: "context net net/http os os/exec syscall",
		},
		{pkg: "deploy/helm/monitor", ours: "deploy/helm plan"},
		{pkg: "deploy/helm/tenant-agent", ours: "deploy/helm plan"},
		{pkg: "deploy/helm", ours: "render plan"},
		{pkg: "api/proto"},
		{pkg: "deploy/crd", ours: "plan", libs: "sigs.k8s.io/yaml"},
		{pkg: "deploy/examples"},
	}},
	{name: "tests", about: "what tests share; nothing else imports it", rows: []row{
		{
			pkg:  "kubetest",
			ours: "built tether kube plan domain tempdir freeport fail",
			libs: "github.com/google/go-cmp github.com/stretchr/testify k8s.io/apimachinery k8s.io/client-go " +
				"sigs.k8s.io/yaml",
			world: "context net/http os os/exec syscall",
		},
		{
			pkg:   "kmstest",
			libs:  "github.com/stretchr/testify google.golang.org/grpc k8s.io/kms",
			world: "context net",
		},
		{
			pkg:   "storetest",
			ours:  "mongotest store secret",
			libs:  "github.com/stretchr/testify",
			world: "context",
		},
		{
			pkg:   "mongotest",
			ours:  "built tether tempdir",
			libs:  "go.mongodb.org/mongo-driver",
			world: "context net os os/exec syscall",
		},
		{pkg: "postgrestest", ours: "tether freeport", libs: "github.com/stretchr/testify", world: "os os/exec os/user syscall"},
		{pkg: "notify/notifytest", ours: "notify status view readiness plan domain", world: "context"},
		{pkg: "service/servicetest", ours: "service operations explain view readiness domain fail", world: "context"},
		{
			pkg:   "rights/rightstest",
			ours:  "store authn rights domain caller token",
			libs:  "github.com/stretchr/testify",
			world: "context os",
		},
		{
			pkg:   "combine/combinetest",
			ours:  "combine domain",
			libs:  "github.com/google/go-cmp go.yaml.in/yaml/v3",
			world: "os",
		},
		{pkg: "span/spantest", ours: "span", libs: "go.opentelemetry.io/otel"},
		{pkg: "lru/lrutest"},
		{pkg: "idptest", ours: "built tether", libs: "github.com/stretchr/testify", world: "context net/http net/http/cookiejar os os/exec syscall"},
		{pkg: "built", world: "os"},
		{pkg: "tether", world: "os/exec syscall"},
		{pkg: "idle"},
	}},
	{name: "edges", about: "each speaks one protocol; none decides, and none knows of another", rows: []row{
		{
			pkg:  "api",
			ours: "api/page door service notify operations explain match combined status combine audit rights authn domain policy caller span connections hosts yamlsize yamltext limits nearest version panics fail",
			libs: "github.com/getkin/kin-openapi github.com/labstack/echo github.com/prometheus/client_golang golang.org/x/sync " +
				"github.com/swaggo/files go.opentelemetry.io/contrib go.opentelemetry.io/otel go.yaml.in/yaml",
			world: "context net net/http os",
		},
		{
			pkg:   "api/rpc",
			ours:  "door service notify status view convey connections authn domain policy caller statusnotify universe limits lru fail measure span panics",
			libs:  "golang.org/x/sync google.golang.org/grpc google.golang.org/protobuf",
			world: "context net",
		},
		{pkg: "api/page", world: "net/http"},
		{pkg: "client", ours: "service operations explain combined status combine audit authn domain policy version pause fail", world: "context net/http"},
		{
			pkg:  "monitor",
			ours: "bundle readiness plan measure connections policy span pause atomicfile lasting restored limits fail",
			libs: "github.com/go-logr/logr github.com/prometheus/client_golang k8s.io/api k8s.io/apimachinery " +
				"k8s.io/client-go k8s.io/klog sigs.k8s.io/controller-runtime",
			world: "context net/http os",
		},
		{
			pkg:  "tenantagent",
			ours: "convey match bundle domain measure connections span universe pause policy lasting restored limits fail",
			libs: "github.com/prometheus/client_golang golang.org/x/sync google.golang.org/grpc google.golang.org/protobuf " +
				"k8s.io/api k8s.io/apimachinery k8s.io/client-go sigs.k8s.io/yaml",
			world: "context net net/http os",
		},
		{
			pkg:  "worker",
			ours: "workflows activities telemetry domain fail measure span policy lease lru panics",
			libs: "go.opentelemetry.io/otel go.temporal.io/api/workflowservice go.temporal.io/sdk/activity go.temporal.io/sdk/client " +
				"go.temporal.io/sdk/interceptor go.temporal.io/sdk/worker go.temporal.io/sdk/workflow google.golang.org/grpc",
			world: "context",
		},
	}},
	{name: "commands", about: "what can be asked for, and how it is carried out; the world is behind interfaces that they declare", rows: []row{
		{
			pkg:   "door",
			ours:  "service notify operations explain status audit rights domain policy caller span limits lease panics fail",
			libs:  "go.opentelemetry.io/otel golang.org/x/time/rate",
			world: "context",
		},
		{
			pkg: "service",
			ours: "notify access operations explain combined status repair view combine network logicalcloud bundle match vary rights readiness plan stored audit " +
				"authn domain policy cas lease caller lru share limits token version pause panics fail",
			libs: "golang.org/x/sync", world: "context",
		},
		{pkg: "trail", ours: "audit authn policy lru lasting panics when fail", world: "context"},
		{pkg: "notify", ours: "status domain policy limits lasting panics fail", libs: "github.com/prometheus/client_golang", world: "context"},
		{
			pkg:  "engine",
			ours: "workflows activities operations explain outcome domain measure span policy pause caller lru version panics lease fail",
			libs: "go.temporal.io/api/enums go.temporal.io/api/failure go.temporal.io/api/operatorservice " +
				"go.temporal.io/api/serviceerror go.temporal.io/api/taskqueue go.temporal.io/api/workflow go.temporal.io/api/workflowservice " +
				"go.temporal.io/sdk/client go.temporal.io/sdk/converter go.temporal.io/sdk/temporal " +
				"google.golang.org/protobuf",
			world: "context",
		},
		{
			pkg:  "workflows",
			ours: "activities outcome plan domain policy fail",
			libs: "go.temporal.io/api/enums go.temporal.io/sdk/temporal go.temporal.io/sdk/worker " +
				"go.temporal.io/sdk/workflow",
		},
		{
			pkg: "activities",
			ours: "observe kube render outcome repair view placement vary match network logicalcloud bundle readiness fields plan lasting " +
				"audit share stored domain measure policy cas lease pause lru limits version panics when fail",
			libs: "go.temporal.io/sdk/activity go.temporal.io/sdk/log go.temporal.io/sdk/temporal " +
				"k8s.io/apimachinery",
			world: "context",
		},
	}},
	{name: "adapters", about: "each knows one thing outside, and no other adapter, but that observe hears clusters through kube", rows: []row{
		{
			pkg:   "observe",
			ours:  "kube bundle readiness plan domain policy pause limits panics fail",
			libs:  "k8s.io/apimachinery",
			world: "context",
		},
		{
			pkg:  "store",
			ours: "audit plan secret domain measure span policy cas share lease lru limits version panics when fail",
			libs: "github.com/hashicorp/golang-lru github.com/klauspost/compress go.mongodb.org/mongo-driver " +
				"golang.org/x/sync",
			world: "context",
		},
		{
			pkg:  "kube",
			ours: "access fields quantity plan domain measure span policy lease address pause atomicfile lru limits panics fail",
			libs: "github.com/hashicorp/golang-lru golang.org/x/sync k8s.io/api k8s.io/apimachinery k8s.io/client-go " +
				"sigs.k8s.io/yaml",
			world: "context math/rand/v2 net net/http",
		},
		{
			pkg:  "render",
			ours: "fields plan measure policy archive helmignore sandbox nearest limits fail",
			libs: "github.com/BurntSushi/toml github.com/Masterminds/sprig github.com/gobwas/glob " +
				"github.com/santhosh-tekuri/jsonschema helm.sh/helm k8s.io/api k8s.io/apimachinery sigs.k8s.io/yaml",
			world: "context",
		},
		{
			pkg: "codec", ours: "secret",
			libs:  "go.temporal.io/api/common go.temporal.io/sdk/converter go.temporal.io/sdk/temporal google.golang.org/protobuf",
			world: "net/http",
		},
		{
			pkg: "secret", ours: "atomicfile domain policy lru fail",
			libs:  "golang.org/x/sync google.golang.org/grpc google.golang.org/protobuf k8s.io/kms",
			world: "context net os",
		},
		{
			pkg:  "telemetry",
			ours: "measure span caller version lasting fail",
			libs: "github.com/prometheus/client_golang go.opentelemetry.io/otel go.temporal.io/api/common go.temporal.io/sdk/client go.temporal.io/sdk/contrib " +
				"go.temporal.io/sdk/converter go.temporal.io/sdk/interceptor go.temporal.io/sdk/log " +
				"go.temporal.io/sdk/temporal go.temporal.io/sdk/workflow",
			world: "context net/http net/http/pprof os",
		},
		{pkg: "sink", ours: "audit pause lasting", world: "context net os syscall"},
		{pkg: "connections", ours: "authn hosts policy limits", world: "context net net/http"},
		{pkg: "config", ours: "address hosts nearest lasting limits", world: "net net/http os"},
		{pkg: "fetch", ours: "address limits fail", world: "context net net/http"},
		{
			pkg: "oidc", ours: "authn domain policy caller hosts lru lease token nearest panics fail",
			libs:  "github.com/coreos/go-oidc github.com/go-jose/go-jose golang.org/x/oauth2 golang.org/x/sync sigs.k8s.io/yaml",
			world: "context net/http os",
		},
	}},
	{name: "decisions", about: "from values to values: no I/O, no clock", rows: []row{
		{pkg: "access", ours: "domain fail"},
		{pkg: "operations", ours: "explain domain fail when"},
		{pkg: "audit", ours: "fail when"},
		{pkg: "explain", ours: "match view bundle plan domain policy"},
		{
			pkg: "combined", ours: "status combine view bundle plan domain limits panics fail", libs: "k8s.io/apimachinery",
			world: "context", // which bounds what tables may take
		},
		{pkg: "status", ours: "view plan domain fail"},
		{pkg: "outcome", ours: "plan domain measure fail"},
		{pkg: "repair", ours: "domain"},
		{pkg: "view", ours: "bundle readiness plan domain policy fail", libs: "k8s.io/apimachinery"},
		{pkg: "placement", ours: "plan domain quantity fail"},
		{
			pkg: "rights", ours: "domain caller fail",
			world: "context", // which carries who asks
		},
		{
			pkg: "vary", ours: "plan domain quantity yamlsize limits fail",
			libs: "github.com/evanphx/json-patch k8s.io/apimachinery k8s.io/client-go/kubernetes/scheme sigs.k8s.io/yaml",
		},
		{pkg: "match", ours: "fields plan domain policy limits nearest when fail", libs: "k8s.io/api k8s.io/apimachinery k8s.io/pod-security-admission"},
		{pkg: "convey", ours: "domain universe fail"},
		{pkg: "network", ours: "plan domain"},
		{pkg: "logicalcloud", ours: "plan domain fail", libs: "k8s.io/api k8s.io/apimachinery"},
		{pkg: "bundle", ours: "plan limits fail", libs: "k8s.io/apimachinery"},
		{
			pkg:   "readiness",
			ours:  "expression share fail",
			libs:  "github.com/fluxcd/cli-utils github.com/google/cel-go k8s.io/apimachinery",
			world: "context", // which bounds how long rules are read
		},
		{
			pkg:   "combine",
			ours:  "expression domain quantity limits fail",
			libs:  "github.com/google/cel-go sigs.k8s.io/json",
			world: "context", // which bounds what collectors of users may take
		},
		{pkg: "fields", ours: "plan quantity", libs: "k8s.io/apimachinery k8s.io/client-go/kubernetes/scheme"}, // the schemas of built-in kinds
		{pkg: "plan", ours: "domain fail"},
	}},
	{name: "nouns", about: "what users name, with its rules", rows: []row{
		{pkg: "authn", ours: "domain policy caller lease lru limits token fail", libs: "golang.org/x/sync", world: "context"}, // who calls, by what was stored of it
		{pkg: "stored", ours: "domain version panics fail", world: "context"},
		{pkg: "domain", ours: "quantity limits fail"},
	}},
	{name: "ground", about: "knows nothing of Drover", rows: []row{
		{pkg: "span", libs: "go.opentelemetry.io/otel", world: "context net/http"},
		{pkg: "share", ours: "panics", world: "context"},
		{pkg: "panics", ours: "measure caller", libs: "golang.org/x/sync", world: "context"},
		{pkg: "measure", ours: "fail", libs: "go.opentelemetry.io/otel", world: "context"},
		{pkg: "address", ours: "fail", world: "syscall"},
		{pkg: "token"},
		{pkg: "quantity", ours: "limits"},
		{pkg: "expression", ours: "limits", libs: "github.com/google/cel-go", world: "context"}, // which bounds what an expression of users may take
		{pkg: "cas", ours: "pause fail", world: "context"},
		{pkg: "restored", ours: "lease pause policy lasting fail", libs: "k8s.io/apimachinery", world: "context"},
		{pkg: "lease", ours: "fail", libs: "golang.org/x/sys", world: "context"},
		{pkg: "pause", ours: "policy", world: "context math/rand/v2"},
		{pkg: "lasting"},
		{pkg: "policy"},
		{pkg: "caller", world: "context"},
		{pkg: "when", world: "context"},
		{pkg: "nearest"},
		{pkg: "atomicfile", world: "os syscall"},
		{pkg: "lru", libs: "github.com/hashicorp/golang-lru"},
		{pkg: "archive", ours: "limits fail"},
		{pkg: "helmignore", libs: "helm.sh/helm/v4/pkg/ignore"},
		{pkg: "yamltext", libs: "go.yaml.in/yaml/v3"},
		{pkg: "yamlsize", ours: "fail", libs: "go.yaml.in/yaml/v3"},
		{pkg: "sandbox", libs: "golang.org/x/sys/unix", world: "context os os/exec os/signal syscall"},
		{pkg: "statusnotify", libs: "google.golang.org/grpc google.golang.org/protobuf", world: "context"},
		{pkg: "universe", libs: "google.golang.org/grpc google.golang.org/protobuf", world: "context"},
		{pkg: "tenantcert", world: "net os"},
		{pkg: "tempdir", world: "os syscall"},
		{pkg: "freeport", world: "math/rand/v2 net"},
		{pkg: "hosts", world: "net net/http"},
		{pkg: "limits"},
		{pkg: "version", ours: "fail", world: "os", libs: "github.com/Masterminds/semver/v3"},
		{pkg: "fail", world: "context"},
	}},
}
