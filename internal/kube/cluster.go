package kube

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
)

// Cluster is the client of one cluster. It may be used by any number of goroutines, also after its
// Clusters has closed or replaced it.
type Cluster struct {
	config    Config
	digest    domain.Digest // of the kubeconfig
	base      string        // URL of the API server, without a slash at its end
	client    *http.Client
	streams   *http.Client // for watches that do not fit into the connection of client
	transport *transport
	kinds     *kinds
	slots     chan struct{} // holds one for each request that is under way
	most      int64         // that is read of an answer
	answers   atomic.Int64  // counts answers to requests
	unpatched               // by the client's user
	made      time.Time     // when the credentials were asked for the first time
	checked   atomic.Int64  // when they were last known to be current, in ns since 1970
	ready     atomic.Int64  // when the API server last was, as far as was asked, in ns since 1970
	life      context.Context
	end       context.CancelFunc    // of life: others have come in place of the credentials
	users     atomic.Int64          // what goes on with it, see While
	unused    func()                // is called when nothing does any more
	again     func(context.Context) // asks for the credentials, and ends life where others have come; nil for a client that is nobody's
}

// ErrReplaced ends what goes on with credentials, or is begun with them, when others have come in their place. It is not
// about the cluster: the client that its Clients gives then goes on.
var ErrReplaced = &fail.Error{
	Kind: fail.Unavailable, Message: "the cluster's registration was replaced; the work goes on with the new one", RetryAfter: policy.Replaced,
}

// While is ctx for as long as nothing has come in place of the client's credentials; the cause of its end is ErrReplaced
// then. leave must be called.
func (c *Cluster) While(ctx context.Context) (while context.Context, leave func()) {
	while, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.life, func() { cancel(ErrReplaced) })
	c.users.Add(1)
	return while, sync.OnceFunc(func() {
		stop()
		cancel(nil)
		if c.users.Add(-1) == 0 && c.unused != nil {
			c.unused()
		}
	})
}

// said is err, of a request within ctx, or ErrReplaced when that is why it was cut off.
func (c *Cluster) said(ctx context.Context, err error) error {
	if err != nil && c.life.Err() != nil && ctx.Err() == nil && answerOf(err) == nil {
		return ErrReplaced
	}
	return err
}

func newCluster(kubeconfig []byte, digest domain.Digest, config Config) (*Cluster, error) {
	access, err := config.restConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	c := &Cluster{config: config, digest: digest, slots: make(chan struct{}, config.Parallel), most: limits.ClusterAnswer}
	if err := c.connect(access); err != nil {
		return nil, err
	}
	c.kinds = newKinds(c.read, config.Request)
	c.life, c.end = context.WithCancel(context.Background())
	return c, nil
}

// fresh says whether the credentials need not be asked for again yet.
func (c *Cluster) fresh() bool { return c.checkedWithin(c.config.Fresh) }

// checkedWithin says whether the credentials were known to be current so long ago, or later. A clock that was set back says nothing of how old
// they are.
func (c *Cluster) checkedWithin(d time.Duration) bool {
	age := time.Since(time.Unix(0, c.checked.Load()))
	return age >= 0 && age < d
}

// checkedSince says whether the credentials were known to be current at a time, or later.
func (c *Cluster) checkedSince(at time.Time) bool { return c.checked.Load() >= at.UnixNano() }

// Made is when the client's credentials were asked for the first time.
func (c *Cluster) Made() time.Time { return c.made }

// Answers counts what has answered requests in the cluster's place.
func (c *Cluster) Answers() int64 { return c.answers.Load() }

// replaced says whether others have come in place of the credentials. That is asked for again unless it was a moment ago.
func (c *Cluster) replaced(ctx context.Context) bool {
	was := c.checked.Load()
	if c.again != nil && !c.checkedWithin(c.config.Fresh/doubted) {
		ctx, cancel := context.WithTimeout(ctx, policy.Credentials)
		defer cancel()
		c.checked.CompareAndSwap(was, 0) // unless another one has asked meanwhile
		c.again(ctx)
	}
	return c.life.Err() != nil
}

// doubted is for which part of Config.Fresh credentials are good in any case.
const doubted = 10

// recheck makes the next Get ask for the credentials.
func (c *Cluster) recheck() { c.checked.Store(0) }

func (c *Cluster) close() { c.transport.closeIdle() }

// lookAt is a client for a look at a cluster that somebody has registered, who need not be trusted: little is read of its answers. leave ends
// all that goes on with it.
func (c Config) lookAt(kubeconfig []byte) (one *Cluster, leave func(), err error) {
	one, err = newCluster(kubeconfig, "", c.withDefaults())
	if err != nil {
		return nil, nil, err
	}
	one.most = limits.ClusterGroups
	return one, func() {
		one.end()
		one.close()
	}, nil
}

// Reach says whether a cluster can be reached with a kubeconfig, by nothing that work on it would not do: it asks for the
// groups that the API serves, as any work does first. It gives the version of its Kubernetes, such as v1.34.1, "" where the cluster
// does not tell. Errors are those of CheckKubeconfig, and as Apply's Outcome.Retry has them; ctx bounds it.
func (c Config) Reach(ctx context.Context, kubeconfig []byte) (version string, err error) {
	one, leave, err := c.lookAt(kubeconfig)
	if err != nil {
		return "", err
	}
	defer leave()
	if _, err = one.groups(ctx); err != nil {
		return "", kindOf(err)
	}
	return one.version(ctx), nil
}

// versioned is how versions look; what a cluster says is shown.
var versioned = regexp.MustCompile(`^v[0-9][0-9A-Za-z.+_-]{0,63}$`)

// version is that of the cluster's Kubernetes, "" where it does not tell.
func (c *Cluster) version(ctx context.Context) string {
	said, err := c.asked(ctx)
	if err != nil {
		return ""
	}
	return versionOf(said)
}

// Older is the version of the cluster's Kubernetes where that is older than least, such as 1.23; "" where it is not, and where the cluster does not tell.
// Errors are as Apply's Outcome.Retry has them: another answer may come.
func (c *Cluster) Older(ctx context.Context, least string) (string, error) {
	release, err := c.slot(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	said, err := c.asked(ctx)
	switch {
	case err == nil:
	case fail.KindOf(kindOf(err)).Retryable():
		return "", kindOf(err)
	default:
		return "", nil
	}
	told := versionOf(said)
	is, err := version.ParseGeneric(told) // distributions add words of their own
	if err != nil || is.AtLeast(version.MustParseGeneric(least)) {
		return "", nil
	}
	return told, nil
}

// versionOf is the version by what a cluster says of it, "" where that is none.
func versionOf(said []byte) string {
	var told struct {
		GitVersion string `json:"gitVersion"`
	}
	if json.Unmarshal(said, &told) != nil || !versioned.MatchString(told.GitVersion) {
		return ""
	}
	return told.GitVersion
}

// asked is what the cluster says of its version.
func (c *Cluster) asked(ctx context.Context) ([]byte, error) {
	return c.do(ctx, request{method: http.MethodGet, path: "/version", accept: contentJSON, most: limits.ClusterWord})
}

// Ping says whether the cluster's API answers: nil, or an error as Apply's Outcome.Retry has it.
func (c *Cluster) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, policy.Ping)
	defer cancel()
	_, err := c.read(ctx, "/version")
	return kindOf(err)
}

// slot waits for a place among the requests to this cluster.
func (c *Cluster) slot(ctx context.Context) (release func(), err error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	}
}
