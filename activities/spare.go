package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/plan"
)

// holders are the kinds with which goes what others have: a terminate that deletes one deletes that, too.
var holders = []string{"Namespace", "CustomResourceDefinition", "PersistentVolumeClaim", "PersistentVolume"}

// claimed are the resources, with the id of the installation on holders that are to be applied. The label alone does not say whose a holder is: it names a
// context, of which other installations know nothing, nor does this one once the context is deleted.
func (a *attempt) claimed() []plan.Resource {
	resources, whose := a.resources, map[string]string{plan.InstallationAnnotation: a.kube.Installation}
	for i := range resources {
		r := resources[i]
		if !slices.Contains(holders, r.Kind) || !a.all[i].ToApply() {
			continue
		}
		manifest, err := plan.Annotate(r.Manifest, whose)
		if err != nil { // to apply it tells of that
			continue
		}
		if &resources[0] == &a.resources[0] { // they are the bundle's, which others use, too
			resources = slices.Clone(resources)
		}
		resources[i].Manifest = manifest
	}
	return resources
}

// spare leaves alone what was in the cluster before, if it would later be deleted with the leaf and with all that others have in it. These are an app's
// holders that have no label of a deployment or are another installation's, and a logical cloud's namespace that is not its own. The label decides, not the records: they may be of an attempt that was killed. Hooks do the same in hookRun.spares.
// A CRD that is to stay is left alone if it is another's and the chart's would take versions away and bring none; likewise fields of the same versions. So is one that
// another deployment has as the chart has it: of two with one CRD, each apply would move its label from one to the other. The app's own CRD
// is left alone so in a rollback only. An object that is being deleted is not left alone. It is looked at with the rights with which it would be applied.
// If these do not show it, it is applied, and the cluster's refusal says why.
func (a *attempt) spare(ctx context.Context, cluster *kube.Cluster, job kube.Job) error {
	for i := range a.resources {
		r := &a.resources[i]
		if r.Hook != nil || !job.Marks[i].ToApply() {
			continue
		}
		why, err := a.spared(ctx, cluster, i)
		if err != nil && !fail.KindOf(err).Retryable() { // to apply it tells of that
			continue
		}
		if err != nil {
			return err
		}
		unenforced, err := a.unenforced(ctx, cluster, i)
		if err != nil {
			return err
		}
		switch {
		case why == "" && unenforced != "":
			a.lose(i, unenforced)
		case why != "":
			if unenforced != "" {
				why += "; " + unenforced
			}
			job.Marks[i] = domain.MarkKept
			a.mark(i, domain.MarkKept, why)
		}
	}
	return a.handOn(ctx)
}

// spared says why a resource is left alone, "" where it is not.
func (a *attempt) spared(ctx context.Context, cluster *kube.Cluster, i int) (string, error) {
	r := &a.resources[i]
	if !a.mayBeSpared(r) {
		return "", nil
	}
	id := r.ResourceID
	id.Namespace = cmp.Or(id.Namespace, a.in.Namespace)
	data, err := cluster.Object(ctx, id)
	if err != nil || data == nil {
		return "", err
	}
	return a.sparedAs(i, data)
}

// mayBeSpared says whether it depends on what the cluster has.
func (a *attempt) mayBeSpared(r *plan.Resource) bool {
	if domain.Certifies(a.in.Owner) {
		return r.Kind == "Namespace" && !r.Keep
	}
	return slices.Contains(holders, r.Kind) && (!r.Keep || r.IsDefinition())
}

// sparedAs says why a resource that may be spared is left alone as the cluster has it, "" where it is not.
func (a *attempt) sparedAs(i int, data []byte) (string, error) {
	r, certifies := &a.resources[i], domain.Certifies(a.in.Owner)
	var live metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &live); err != nil {
		return "", fail.Wrap(err, fail.Unavailable, "what answers is no API server")
	}
	if live.DeletionTimestamp != nil {
		return "", nil
	}
	label, of := live.Labels[plan.DeploymentLabel], live.Annotations[plan.InstallationAnnotation]
	switch {
	case r.Keep:
		own := label == a.in.deploymentID()
		why := a.definedBefore(i, plan.DefinitionIn(data), plan.DefinitionIn(r.Manifest), own)
		if why == "" && !own && label != "" && plan.SaysAll(data, r.Manifest) {
			why = "another deployment has it, as the chart has it: it is left as it is" // which one is not told: it may be another project's
		}
		return why, nil
	case certifies && label != a.in.deploymentID():
		why := "the namespace was there before the logical cloud: it is left as it is, and stays"
		if least := enforcedBy(r.Manifest); least != "" && least != domain.PodPrivileged && !domain.PodSecurity(live.Labels[domain.PodSecurityEnforce]).AtLeast(least) {
			why += fmt.Sprintf("; it does not say that it enforces Pod Security %s", least)
		}
		return why, nil
	case !certifies && !r.Keep && label == "":
		return "it was there before the app: it is left as it is, and stays", nil
	case !certifies && !r.Keep && label != a.in.deploymentID() && of != "" && of != a.kube.Installation:
		return fmt.Sprintf("the installation %s of Drover has it (its annotation %s says so): it is left as it is, and stays", of, plan.InstallationAnnotation), nil
	default:
		return "", nil
	}
}

// enforcing is the first version of Kubernetes that looks at the labels of Pod Security, unless somebody has switched that off.
const enforcing = "1.23"

// unenforced says of a logical cloud's namespace, its own or one that was there before, that the cluster takes the label of Pod Security, and lets any
// Pods in; "" where it does not.
func (a *attempt) unenforced(ctx context.Context, cluster *kube.Cluster, i int) (string, error) {
	if !domain.Certifies(a.in.Owner) || a.resources[i].Kind != "Namespace" {
		return "", nil
	}
	least := enforcedBy(a.resources[i].Manifest)
	if least == "" || least == domain.PodPrivileged {
		return "", nil
	}
	is, err := cluster.Older(ctx, enforcing)
	if err != nil || is == "" {
		return "", err
	}
	return fmt.Sprintf("Kubernetes %s does not enforce Pod Security %s: the namespace may have any Pods, whatever its label says; that takes %s", is, least, enforcing), nil
}

// enforcedBy is the standard of Pod Security that the manifest of a namespace has it enforce, "" for none.
func enforcedBy(manifest []byte) domain.PodSecurity {
	var wanted metav1.PartialObjectMetadata
	if err := json.Unmarshal(manifest, &wanted); err != nil { // to apply it tells of that
		return ""
	}
	return domain.PodSecurity(wanted.Labels[domain.PodSecurityEnforce])
}

// definedBefore is sparedAs for a CRD that stays. One that has the app's own label is left alone in a rollback only: the older CRD would take fields away that the objects
// of the newer chart have, or would be refused, as objects are stored in a version that it lacks. An update means what it brings. If the CRD is applied, a warning
// says what the cluster loses by that, see lose.
func (a *attempt) definedBefore(i int, has, brings plan.Definition, own bool) (why string) {
	lost, added := without(has.Served, brings.Served), without(brings.Served, has.Served)
	if own { // to name a version and not to serve it is meant: an older chart does not know it
		lost = without(lost, brings.Retired)
	}
	if len(lost)+len(added) == 0 {
		added = brings.Beyond(has)
	}
	lost = append(lost, has.Beyond(brings)...)
	if len(lost) == 0 {
		if !own { // else the attempt before may have taken away what it noted, and not have told of it
			a.lose(i, "")
		}
		return ""
	}
	said := strings.Join(lost[:min(len(lost), maxLost)], ", ")
	if more := len(lost) - maxLost; more > 0 {
		said += fmt.Sprintf(" and %d more", more)
	}
	if own && a.in.Operation == domain.OpRollback || !own && len(added) == 0 {
		return fmt.Sprintf("the cluster has it with %s, too, which the chart does not: it is left as it is", said)
	}
	a.lose(i, fmt.Sprintf("the cluster had it with %s, too, and the chart's took that away", said))
	return ""
}

// lose notes what the cluster loses once a resource is applied, "" for nothing: a warning from then on, as the cluster may refuse it.
func (a *attempt) lose(i int, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Losses = slices.DeleteFunc(a.state.Losses, func(n domain.Note) bool { return n.Index == i })
	if n := (domain.Note{Index: i, Message: noted(text)}); text != "" && room(a.state.Losses, n) {
		a.state.Losses = append(a.state.Losses, n)
	}
}

// applied warns of what the cluster has lost by a resource. It is applied by now, even if something is still waited for.
func (a *attempt) applied(i int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.warnOfLosses(i)
}

func (p *progress) warnOfLosses(i int) {
	for _, n := range p.Losses {
		if n.Index == i {
			p.warn(i, n.Message)
		}
	}
}

// handOn tells the next attempt what is about to be lost. That attempt may find the leaf's own resource in the cluster, or none, and could no longer tell
// what it has replaced. A try in the workflow's own task cannot hand anything on, so it leaves the work to an activity.
func (a *attempt) handOn(ctx context.Context) error {
	a.handing.Lock() // what is handed on last is the newest
	defer a.handing.Unlock()
	p := a.snapshot()
	switch {
	case len(p.Losses) == 0:
		return nil
	case triedAtOnce(ctx):
		return ErrNotAtOnce
	default:
		activity.RecordHeartbeat(ctx, p)
		return nil
	}
}

// maxLost bounds what is named of what a CRD would take away.
const maxLost = 5

// without are the words of all that are not among some.
func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(word string) bool { return slices.Contains(some, word) })
}
