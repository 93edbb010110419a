package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/policy"
)

// kinds knows where one cluster serves each kind: from the table of built-in kinds, else by discovery. It
// asks for the group version that is wanted and nothing else: a whole discovery has some hundred kilobytes,
// and fails as a whole where one aggregated API is down.
type kinds struct {
	read    func(ctx context.Context, path string) ([]byte, error)
	timeout time.Duration
	flights singleflight.Group // by path

	mu     sync.Mutex
	served map[schema.GroupVersion]listing
}

// listing is what a cluster said of a group version; kinds is empty when it is not served.
type listing struct {
	kinds map[string]mapped
	asked time.Time
}

func newKinds(read func(context.Context, string) ([]byte, error), timeout time.Duration) *kinds {
	return &kinds{read: read, timeout: timeout, served: map[schema.GroupVersion]listing{}}
}

// locate says how objects of the kind are addressed; a *meta.NoKindMatchError when the cluster, asked a
// moment ago at most, does not have the kind in that version. Built-in kinds are located in any version.
func (k *kinds) locate(ctx context.Context, gvk schema.GroupVersionKind) (mapped, error) {
	if m, ok := builtInKinds[gvk.GroupKind()]; ok {
		return m, nil
	}
	known, recent := k.known(gvk.GroupVersion())
	if m, ok := known[gvk.Kind]; ok {
		return m, nil
	}
	if !recent {
		if err := k.fetch(ctx, gvk.GroupVersion()); err != nil {
			return mapped{}, err
		}
		known, _ = k.known(gvk.GroupVersion())
	}
	if m, ok := known[gvk.Kind]; ok {
		return m, nil
	}
	return mapped{}, noMatch(gvk)
}

// remappings is how often a kind may be served elsewhere by the time that it is asked for there.
const remappings = 3

// at does something with the kind where it is served. A cached mapping may have outlived its kind: a CRD is deleted and made
// anew, with another plural or scope. So where the cluster says that it serves nothing there, it is asked again, and it is done
// where the kind is now. Errors are do's, and locate's.
func (k *kinds) at(ctx context.Context, gvk schema.GroupVersionKind, do func(mapped) error) error {
	m, err := k.locate(ctx, gvk)
	for range remappings {
		if err != nil {
			return err
		}
		said := do(m)
		if !isUnserved(said) {
			return said
		}
		m, err = k.missing(ctx, gvk, m, said)
	}
	if err != nil {
		return err
	}
	return fail.New(fail.Unavailable, "the kind is served elsewhere again and again")
}

// missing is called when the cluster has said that it serves nothing where the kind was located. It asks the API server where
// the kind is, and gives that when it is elsewhere. A *meta.NoKindMatchError says that it is nowhere. Where it is still there by
// the API server's word, an answer that is no Status, such as a proxy's page, is not believed: it is asked again for a moment, as
// it hears of a CRD that is deleted a little later, and then the error is one to be tried again.
func (k *kinds) missing(ctx context.Context, gvk schema.GroupVersionKind, was mapped, said error) (mapped, error) {
	for range remappings {
		if err := k.fetch(ctx, gvk.GroupVersion()); err != nil {
			return mapped{}, err
		}
		known, _ := k.known(gvk.GroupVersion())
		m, ok := known[gvk.Kind]
		switch {
		case ok && m != was:
			return m, nil
		case !ok || !isForeign(said):
			return mapped{}, noMatch(gvk)
		}
		if err := pause.For(ctx, policy.DiscoverAgain); err != nil {
			return mapped{}, err
		}
	}
	return mapped{}, unsettled{fail.Wrap(said, fail.Unavailable, "the cluster says that it serves the kind, and not where")}
}

// unsettled is an error by which a cluster contradicts itself about what it serves, as it does for a moment after a change of CRDs, or a start.
type unsettled struct{ error }

func (u unsettled) Unwrap() error { return u.error }

func isUnsettled(err error) bool { return errors.As(err, new(unsettled)) }

// anywhere is at in the version that is wanted, or in another one where the cluster does not serve that any more.
func (k *kinds) anywhere(ctx context.Context, gvk schema.GroupVersionKind, do func(schema.GroupVersion, mapped) error) error {
	in := func(gv schema.GroupVersion) error {
		return k.at(ctx, gv.WithKind(gvk.Kind), func(m mapped) error { return do(gv, m) })
	}
	if err := in(gvk.GroupVersion()); !meta.IsNoMatchError(err) {
		return err
	}
	gv, _, err := k.elsewhere(ctx, gvk)
	if err != nil {
		return err
	}
	return in(gv)
}

// elsewhere finds another version in which the cluster serves the kind, be it of the group to which Kubernetes has moved it: the one wanted may be gone since a
// cluster was upgraded, the objects are not. A *meta.NoKindMatchError when there is none.
func (k *kinds) elsewhere(ctx context.Context, gvk schema.GroupVersionKind) (schema.GroupVersion, mapped, error) {
	gv, m, err := k.inGroup(ctx, gvk)
	if group, moved := movedKinds[gvk.GroupKind()]; moved && meta.IsNoMatchError(err) {
		return k.inGroup(ctx, schema.GroupVersionKind{Group: group, Kind: gvk.Kind})
	}
	return gv, m, err
}

// inGroup finds another version of the group in which the cluster serves the kind.
func (k *kinds) inGroup(ctx context.Context, gvk schema.GroupVersionKind) (schema.GroupVersion, mapped, error) {
	versions, err := k.versions(ctx, gvk.Group)
	if err != nil {
		return schema.GroupVersion{}, mapped{}, err
	}
	for _, version := range versions {
		gv := schema.GroupVersion{Group: gvk.Group, Version: version}
		if version == gvk.Version {
			continue
		}
		if err := k.fetch(ctx, gv); err != nil {
			return schema.GroupVersion{}, mapped{}, err
		}
		known, _ := k.known(gv)
		if m, ok := known[gvk.Kind]; ok {
			return gv, m, nil
		}
	}
	return schema.GroupVersion{}, mapped{}, noMatch(gvk)
}

func noMatch(gvk schema.GroupVersionKind) error {
	return &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

// known is what was last said of gv, and whether that was a moment ago.
func (k *kinds) known(gv schema.GroupVersion) (known map[string]mapped, recent bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.served[gv]
	return l.kinds, time.Since(l.asked) < policy.DiscoverAgain
}

// fetch asks for the kinds of gv. That nothing is served there is not believed where the API server lists the version: it may have been started a
// moment ago and not know the CRD yet, or something in between has answered. It is asked again for a moment, as the list is a little behind when a CRD
// is deleted, and then the error is one to be tried again.
func (k *kinds) fetch(ctx context.Context, gv schema.GroupVersion) error {
	path := groupVersionPath(gv)
	_, err := k.once(ctx, path, func(ctx context.Context) (any, error) {
		asked := time.Now()
		var list metav1.APIResourceList
		for tries := 0; ; tries++ {
			err := k.document(ctx, path, "APIResourceList", &list)
			if err == nil {
				break
			}
			if !isUnserved(err) {
				return nil, err
			}
			versions, listErr := k.versions(ctx, gv.Group)
			if listErr != nil {
				return nil, listErr
			}
			if !slices.Contains(versions, gv.Version) {
				break
			}
			if tries == remappings {
				return nil, unsettled{fail.Wrap(err, fail.Unavailable, "the cluster says that it serves %s, and not what is in it", gv)}
			}
			if err := pause.For(ctx, policy.DiscoverAgain); err != nil {
				return nil, err
			}
		}
		found := map[string]mapped{}
		for _, r := range list.APIResources {
			if len(r.Name)+len(r.Kind) > 2*limits.ObjectName {
				return nil, notAnAPIServer(fmt.Errorf("%s has a kind whose name is too long", path))
			}
			if !strings.Contains(r.Name, "/") { // not a subresource
				found[r.Kind] = mapped{r.Name, r.Namespaced}
			}
		}
		if len(found) > limits.ServedKinds {
			return nil, notAnAPIServer(fmt.Errorf("%s has more than %d kinds", path, limits.ServedKinds))
		}
		k.keep(gv, listing{found, asked})
		return nil, nil
	})
	return err
}

// keep keeps a listing. What was said before is forgotten when it is more than any cluster serves: one that says whatever comes to its mind has
// no more memory for it than others.
func (k *kinds) keep(gv schema.GroupVersion, l listing) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := len(l.kinds)
	for _, other := range k.served {
		all += len(other.kinds)
	}
	if all > limits.ServedKinds || len(k.served) >= limits.ServedGroups {
		clear(k.served)
	}
	k.served[gv] = l
}

// versions asks for the versions of a group, the preferred one first; none when there is no such group.
// That there is a list at all shows that it is an API server that answers.
func (k *kinds) versions(ctx context.Context, group string) ([]string, error) {
	if group == "" {
		return k.coreVersions(ctx)
	}
	groups, err := k.once(ctx, "/apis", func(ctx context.Context) (any, error) {
		var list metav1.APIGroupList
		err := k.root(ctx, "/apis", "APIGroupList", &list)
		return list.Groups, err
	})
	if err != nil {
		return nil, err
	}
	for _, g := range groups.([]metav1.APIGroup) {
		if g.Name != group {
			continue
		}
		return versionsOf(g)
	}
	return nil, nil
}

// versionsOf are those of a group, the preferred one first.
func versionsOf(g metav1.APIGroup) ([]string, error) {
	if len(g.Versions) > limits.ServedVersions {
		return nil, notAnAPIServer(fmt.Errorf("%s has more than %d versions", g.Name, limits.ServedVersions))
	}
	versions := []string{g.PreferredVersion.Version}
	for _, v := range g.Versions {
		if v.Version != g.PreferredVersion.Version {
			versions = append(versions, v.Version)
		}
	}
	return versions, nil
}

func (k *kinds) coreVersions(ctx context.Context) ([]string, error) {
	var list metav1.APIVersions
	if err := k.root(ctx, "/api", "APIVersions", &list); err != nil {
		return nil, err
	}
	if len(list.Versions) > limits.ServedVersions {
		return nil, notAnAPIServer(fmt.Errorf("/api has more than %d versions", limits.ServedVersions))
	}
	return list.Versions, nil
}

// document reads a document of the kind. What is something else was not said by an API server, and counts
// as no answer.
func (k *kinds) document(ctx context.Context, path, kind string, into any) error {
	body, err := k.read(ctx, path)
	if err != nil {
		return err
	}
	var is metav1.TypeMeta
	if err := json.Unmarshal(body, &is); err != nil || is.Kind != kind {
		return notAnAPIServer(fmt.Errorf("%s is not a document of kind %s", path, kind))
	}
	if err := json.Unmarshal(body, into); err != nil {
		return notAnAPIServer(fmt.Errorf("read %s: %w", path, err))
	}
	return nil
}

// root is document for one that every API server has.
func (k *kinds) root(ctx context.Context, path, kind string, into any) error {
	err := k.document(ctx, path, kind, into)
	if isUnserved(err) {
		return notAnAPIServer(err)
	}
	return err
}

func notAnAPIServer(cause error) error {
	return fail.Wrap(cause, fail.Unavailable, "what answers in the cluster's place is not an API server")
}

// once does the work unless it is being done, in which case it shares the outcome. Who waits may leave; the
// others get what they wait for.
func (k *kinds) once(ctx context.Context, path string, work func(context.Context) (any, error)) (any, error) {
	flight := k.flights.DoChan(path, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.timeout)
		defer cancel()
		return panics.Value(ctx, func() (any, error) { return work(ctx) })
	})
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case r := <-flight:
		return r.Val, r.Err
	}
}
