package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// applyFlags are those of apply.
type applyFlags struct {
	sources
	dryRun, wait, outside bool
	timeout               time.Duration
}

// apply is the command apply.
func (s *session) apply() *cobra.Command {
	f := &applyFlags{}
	c := &cobra.Command{
		Use: "apply -f FILE", Short: "Make what files describe, or change it to that",
		Long: `Make what files describe, or change it to that. The files are those of EMCO's command line client:

  version: emco/v2
  resourceContext:
    anchor: projects/demo/composite-apps/vfw/v1/apps
  metadata:
    name: sink
  file: sink.tgz

A document is made before those that refer to it, whatever the order in the files; operations (anchor …/instantiate, …/approve)
come last. Each is said to be created, configured (replaced) or unchanged; an operation that was asked for before, and has not come to its
end, "goes on". What is refused is said, the others are done, and the exit code is then 1. A file: is a path from where the command is started, or else from the document's folder; a folder is packed.
Documents of somebody else may name any file, such as a kubeconfig: one that is in neither folder needs --allow-outside.

A StatusCollector as KubeStellar has it (apiVersion: control.kubestellar.io/v1alpha1) needs no anchor. It goes to the fleet's library, or to
that of the project where --project names one.`,
		Example: `  drover apply -f emcoctl/ -v values.yaml
  drover apply -f app.yaml --wait
  drover get group web -o yaml | drover apply -f -`,
		Args: noArguments,
	}
	f.add(c)
	c.Flags().BoolVar(&f.outside, "allow-outside", false, "let documents name files outside of their folder and of this one")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would be done, and do nothing")
	c.Flags().BoolVar(&f.wait, "wait", false, "wait for the end of each operation")
	c.Flags().DurationVar(&f.timeout, "timeout", defaultWait, "how long to wait for one; 0 for as long as it takes")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if len(f.files) == 0 {
			return usage("-f is needed: the files to apply")
		}
		if err := timed(c, f.wait, "--wait"); err != nil {
			return err
		}
		return s.applyFiles(c.Context(), f)
	}
	return c
}

// applier makes documents, and knows what was there.
type applier struct {
	*session
	api     *client.API
	dryRun  bool
	outside bool                                        // files may be anywhere
	made    map[domain.Key]bool                         // in this run: nothing was below them
	lists   map[domain.Key]map[domain.Key]domain.Object // by collection, what was there
	partly  map[domain.Key]bool                         // the collections of which some could not be read
	same    map[domain.Key]bool                         // what was found to have the file that is wanted
	written []domain.Key                                // in this run, or would be
	moves   map[domain.Key]*paper                       // the migrates of the files, by the group that they hand over
}

func (s *session) applier(api *client.API, dryRun bool) *applier {
	return &applier{
		session: s, api: api, dryRun: dryRun, made: map[domain.Key]bool{},
		lists: map[domain.Key]map[domain.Key]domain.Object{}, partly: map[domain.Key]bool{}, same: map[domain.Key]bool{}, moves: map[domain.Key]*paper{},
	}
}

func (s *session) applyFiles(ctx context.Context, f *applyFlags) error {
	papers, err := s.readPapers(&f.sources)
	if err != nil {
		return err
	}
	var bad []string // half of the documents would be made before the first of these is met
	for _, p := range papers {
		if err := p.check(f.outside); err != nil {
			bad = append(bad, err.Error())
		}
	}
	if len(bad) > 0 {
		return usage("%s", strings.Join(bad, "\n"))
	}
	api, err := s.api()
	if err != nil {
		return err
	}
	a := s.applier(api, f.dryRun)
	a.outside = f.outside
	for _, p := range papers {
		if p.object == nil && p.operation.Operation == domain.OpMigrate {
			a.moves[p.key] = p
		}
	}
	var failed failures
	list := ordered(papers)
	for i, p := range list {
		done, err := a.do(ctx, p)
		if err == nil && f.wait && p.object == nil && p.operation.Operation != domain.OpApprove && done != unchanged && !f.dryRun {
			s.sayf("%s %s", p.what(), done)
			err = s.await(ctx, api, watched(p.key, p.operation.Operation, p.spec), p.operation.Operation, f.timeout)
			done = ""
		}
		if err != nil {
			if stops(err) {
				fmt.Fprintf(s.Err, "%s: it ends here; %s after it not tried\n", p.what(), counted(len(list)-i-1, "document"))
				return err
			}
			failed = append(failed, err)
			s.failed(p.what(), err)
			continue
		}
		if f.dryRun {
			done += " (dry run)"
		}
		if done != "" {
			s.sayf("%s %s", p.what(), done)
		}
	}
	return failed.said()
}

// failures are errors that have been said, of some of many things.
type failures []error

// said is the end of the command, nil when nothing has failed. That time was over for all that has failed, and nothing else went wrong, is told from
// the rest.
func (f failures) said() error {
	late := 0
	for _, err := range f {
		if codeOf(err) == exitTimeout {
			late++
		}
	}
	switch len(f) {
	case 0:
		return nil
	case late:
		return errSaid{exitTimeout}
	default:
		return errSaid{exitFailed}
	}
}

// failed says what went wrong with one of many things.
func (s *session) failed(what string, err error) {
	var said errSaid
	if !errors.As(err, &said) {
		fmt.Fprintf(s.Err, "%s: %s\n", what, s.text(err))
	}
}

// stops says whether what comes after an error would end in the same way: the user has had enough, the API does not answer, or
// does not know who asks, is elsewhere, or has too much to do for who asks.
func stops(err error) bool {
	var answered *client.Error
	if errors.As(err, &answered) && answered.Code/100 == 3 {
		return true
	}
	var unanswered *client.Unanswered
	return errors.Is(err, context.Canceled) || fail.Is(err, fail.Unavailable) || fail.Is(err, fail.Unauthorized) || errors.As(err, &unanswered) ||
		fail.Is(err, fail.Exhausted) && fail.RetryAfterOf(err) > 0
}

// What becomes of a document.
const (
	created    = "created"
	configured = "configured"
	unchanged  = "unchanged"
	goesOn     = "goes on" // an operation that was accepted before
)

// do makes one document, and says what became of it.
func (a *applier) do(ctx context.Context, p *paper) (string, error) {
	if p.object == nil {
		return a.operate(ctx, p)
	}
	file, files, err := p.attached(a.outside)
	if err != nil {
		return "", err
	}
	return a.put(ctx, p.object, p.written, file, files)
}

// put makes a document or replaces it, unless it is as it is wanted already. written is the document as its file has it, nil where there is none.
func (a *applier) put(ctx context.Context, o domain.Object, written any, file []byte, files []domain.Upload) (string, error) {
	key, asked := domain.KeyOf(o), members(o)
	old, err := a.before(ctx, o)
	if err != nil {
		return "", err
	}
	if old == nil {
		return a.create(ctx, o, file, files)
	}
	if secret, ok := o.(domain.Bearer); ok { // it cannot be changed, and what it is for is shown once
		asks, _, _ := secret.Parts()
		has, _, _ := old.(domain.Bearer).Parts()
		if asks.ExpiresAfter != "" && asks.Life() != has.Life() {
			return "", unchangeable(o)
		}
		return unchanged, nil
	}
	complete(o, old)
	same := bytes.Equal(mustJSON(o), mustJSON(old))
	hidden := false
	if same && (file != nil || len(files) > 0) && !a.same[key] {
		same, hidden, err = a.sameFiles(ctx, key, file, files)
		if err != nil {
			return "", err
		}
	}
	switch {
	case same:
		return unchanged, nil
	case a.dryRun && o.Noun().Fixed:
		return fixed(o, old, asked, written)
	case a.dryRun && hidden:
		a.written = append(a.written, key)
		return "perhaps " + configured + ": its file may not be read to compare it", nil
	case a.dryRun:
		a.written = append(a.written, key)
		return configured, nil
	case hidden:
		kept, warnings, err := a.api.PutSame(ctx, o, file)
		if err != nil {
			return "", err
		}
		a.warn(warnings)
		a.stored(o)
		return a.outcome(key, old, o, kept), nil
	}
	sent := file
	if _, app := o.(*domain.App); app && file == nil { // the API takes no app without its chart
		if sent, err = a.api.File(ctx, key); err != nil {
			return "", err
		}
	}
	warnings, err := a.api.Put(ctx, o, sent, files...)
	var refused *client.Error
	if errors.As(err, &refused) && refused.Code == http.StatusMethodNotAllowed {
		return fixed(o, old, asked, written)
	}
	if err != nil {
		return "", err
	}
	a.warn(warnings)
	a.stored(o)
	// What the API fills in is in the answer as it was before.
	return a.outcome(key, old, o, file == nil && len(files) == 0), nil
}

// complete has a document say what the API makes of it where its file does not: written once more as it is, an approved group would be approved no
// more, and its writer be one of those who have changed it.
func complete(o, old domain.Object) {
	switch o := o.(type) {
	case *domain.DeploymentIntentGroup:
		o.Fill()
	case *domain.InterfaceIntent:
		o.Fill()
	case *domain.ClusterReference: // what the cluster has signed
		o.Spec.Certificate = cmp.Or(o.Spec.Certificate, old.(*domain.ClusterReference).Spec.Certificate)
	}
}

// fixed is what becomes of a document that is there and cannot be replaced: it stays as it is, where that has all that is asked for.
func fixed(o, old domain.Object, asked, written any) (string, error) {
	if has := members(old); says(has, asked) && !emptied(has, written) && sameQuota(old, o) {
		return unchanged, nil // the rest is what the API has filled in
	}
	return "", unchangeable(o)
}

func unchangeable(o domain.Object) error {
	return fail.New(fail.Conflict, "%s cannot be changed: delete it, and apply again", aOf(o.Noun()))
}

// sameQuota says whether quotas bound the same: one that says nothing of a resource does not bound it. The API fills in nothing there.
func sameQuota(old, o domain.Object) bool {
	q, ok := o.(*domain.ClusterQuota)
	return !ok || maps.Equal(q.Spec, old.(*domain.ClusterQuota).Spec)
}

// emptied says whether something is to be empty, in so many words, that is not. What says nothing of a member does not ask for that.
func emptied(has, written any) bool {
	switch written := written.(type) {
	case map[string]any:
		m, _ := has.(map[string]any)
		for name, value := range written {
			if emptied(m[name], value) {
				return true
			}
		}
		return false
	case nil:
		return false
	case []any:
		list, _ := has.([]any)
		return len(written) == 0 && len(list) > 0
	default:
		return has != nil && reflect.ValueOf(written).IsZero() && !reflect.ValueOf(has).IsZero()
	}
}

// says whether a value has all that is asked for; what is empty asks for nothing, as it may not be in the file: see emptied.
func says(has, asked any) bool {
	switch asked := asked.(type) {
	case map[string]any:
		m, ok := has.(map[string]any)
		for name, value := range asked {
			if !says(m[name], value) {
				return false
			}
		}
		return ok || len(asked) == 0
	case nil:
		return true
	case []any:
		return len(asked) == 0 || reflect.DeepEqual(has, any(asked))
	default:
		return reflect.ValueOf(asked).IsZero() || reflect.DeepEqual(has, asked)
	}
}

// outcome tells a document that was written as it was from one that has changed; sameFile says that its file has not.
func (a *applier) outcome(key domain.Key, old, o domain.Object, sameFile bool) string {
	if sameFile && bytes.Equal(mustJSON(old), mustJSON(o)) {
		return unchanged
	}
	a.written = append(a.written, key)
	return configured
}

func (a *applier) create(ctx context.Context, o domain.Object, file []byte, files []domain.Upload) (string, error) {
	key := domain.KeyOf(o)
	a.made[key] = true
	a.written = append(a.written, key)
	if a.dryRun {
		return created, nil
	}
	warnings, err := a.api.Create(ctx, o, file, files...)
	if err != nil {
		delete(a.made, key)
		return "", err
	}
	a.warn(warnings)
	if secret, ok := o.(domain.Bearer); ok {
		if _, status, _ := secret.Parts(); status.Token != "" { // also to who wants it quiet: nobody can ask for it again
			_, err := fmt.Fprintf(a.Out, "%s %s; its token, which is shown this once: %s\n", key, created, status.Token)
			return "", err
		}
	}
	return created, nil
}

// touched says whether something was written of which an owner is made: below it, and of a group its composite app, but not other
// groups of that.
func (a *applier) touched(owner domain.Key) bool {
	if a.changed(owner) {
		return true
	}
	noun := domain.OwnerNoun(owner)
	if noun != domain.DeploymentIntentGroups {
		return false
	}
	app, _ := domain.Cut(noun, owner)
	return slices.ContainsFunc(a.written, func(key domain.Key) bool { return within(key, app) && !within(key, app.Child(noun.Collection)) })
}

// changed says whether an owner was written, or something below it: by that, and not by what is written of its composite app, a group is approved no
// more.
func (a *applier) changed(owner domain.Key) bool {
	return slices.ContainsFunc(a.written, func(key domain.Key) bool { return within(key, owner) })
}

func within(key, above domain.Key) bool { return key == above || key.Under(above) }

// before is what is there of a document, nil for nothing. What was made in this run had nothing below it; else all that is beside
// the document is read at once.
func (a *applier) before(ctx context.Context, o domain.Object) (domain.Object, error) {
	noun, parent, key := o.Noun(), o.Base().Parent, domain.KeyOf(o)
	if a.made[parent] && !a.made[key] {
		return nil, nil
	}
	collection := parent.Child(noun.Collection)
	list, known := a.lists[collection]
	if !known || a.made[key] {
		list = map[domain.Key]domain.Object{}
		var found []domain.Object
		var err error
		if noun == domain.DeploymentIntents {
			found, err = a.api.Intents(ctx, parent)
		} else {
			found, err = a.api.List(ctx, noun, parent)
		}
		var left leftOut
		if err = left.keep(err); left.first != nil { // the others can be applied all the same
			a.partly[collection] = true
			a.warn([]string{left.first.Error()})
		}
		switch {
		case fail.Is(err, fail.NotFound): // the parent: what is refused says so
		case fail.Is(err, fail.Forbidden): // who may write here need not see what is beside it
			return a.alone(ctx, noun, key)
		case err != nil:
			return nil, err
		}
		for _, one := range found {
			list[domain.KeyOf(one)] = one
		}
		a.lists[collection] = list
		delete(a.made, key)
	}
	if old, ok := list[key]; ok {
		return old, nil
	}
	if a.partly[collection] {
		return a.alone(ctx, noun, key)
	}
	return nil, nil
}

// alone is what is there of one document, nil for nothing, or where it may not be read.
func (a *applier) alone(ctx context.Context, noun *domain.Noun, key domain.Key) (domain.Object, error) {
	one, err := a.api.Get(ctx, noun, key)
	switch {
	case fail.Is(err, fail.NotFound), fail.Is(err, fail.Forbidden):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return one, nil
}

// forget has what is there be read anew: others may have written it while something was waited for.
func (a *applier) forget() {
	clear(a.lists)
	clear(a.partly)
	clear(a.same)
}

// stored notes what is there from now on: another document of the same name may come.
func (a *applier) stored(o domain.Object) {
	if list := a.lists[o.Base().Parent.Child(o.Noun().Collection)]; list != nil {
		list[domain.KeyOf(o)] = o
	}
}

// sameFiles compares what comes with a document with what is stored; hidden when that may not be read.
func (a *applier) sameFiles(ctx context.Context, key domain.Key, file []byte, files []domain.Upload) (same, hidden bool, err error) {
	if file != nil {
		stored, err := a.api.File(ctx, key)
		if fail.Is(err, fail.Forbidden) {
			return false, true, nil
		}
		return bytes.Equal(stored, file), false, err
	}
	stored, err := a.api.Files(ctx, key)
	if err != nil {
		return false, false, err
	}
	files = slices.DeleteFunc(slices.Clone(files), func(f domain.Upload) bool { return len(f.Data) == 0 }) // which the API does not keep
	if len(stored) == 1 && len(files) == 1 && stored[0].Name == "" {
		stored[0].Name = files[0].Name
	}
	return slices.EqualFunc(stored, files, func(a, b domain.Upload) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) }), false, nil
}

func mustJSON(o domain.Object) []byte {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err) // it was read from JSON
	}
	return data
}

// operate carries out an operation of a file, unless its owner is already there.
func (a *applier) operate(ctx context.Context, p *paper) (string, error) {
	if a.made[p.key] && a.dryRun {
		return p.operation.Called() + " would be asked for", nil
	}
	if stands, err := a.stands(ctx, p); err != nil || stands != "" {
		if err == nil && a.touched(p.key) && p.operation.Operation == domain.OpInstantiate && !a.dryRun {
			a.warn([]string{fmt.Sprintf("%s has changed; '%s update %s %s' carries it out", p.key, a.Program, p.noun.Kind, p.key)})
		}
		return stands, err
	}
	if a.dryRun {
		return p.operation.Called() + " would be asked for", nil
	}
	accepted, err := a.ask(ctx, a.api, p.key, p.operation.Operation, p.spec)
	if err != nil {
		return "", err
	}
	a.warn(accepted.Warnings)
	return "accepted", nil
}

// stands says where an owner stands that an operation need not be asked of, "" for one of which it is: apply asks for it once, as for
// everything. That the same operation has failed before is an error.
func (a *applier) stands(ctx context.Context, p *paper) (string, error) {
	op := p.operation.Operation
	if !slices.Contains([]domain.Operation{domain.OpApprove, domain.OpInstantiate, domain.OpMigrate, domain.OpTerminate}, op) {
		return "", nil
	}
	d, err := a.api.Status(ctx, p.key, summary)
	if fail.Is(err, fail.NotFound) || fail.Is(err, fail.Conflict) || fail.Is(err, fail.Invalid) {
		return "", nil // the operation says why not
	}
	if err != nil {
		return "", err
	}
	state := d.States.State()
	if move := a.moves[p.key]; move != nil && state == domain.Updated && op != domain.OpTerminate {
		if op == domain.OpMigrate {
			move = p
		}
		return a.moved(ctx, p, move)
	}
	switch op {
	case domain.OpMigrate: // it has something to hand over
	case domain.OpApprove:
		if state == domain.Approved && a.dryRun && a.changed(p.key) {
			return "", nil // by what would be written it would be approved no more
		}
		if state == domain.Approved || state == domain.Instantiated {
			return unchanged, nil
		}
	case domain.OpInstantiate:
		if state != domain.Instantiated && state != domain.Applied && (p.noun != domain.LogicalClouds || state != domain.Updated) {
			return "", nil
		}
		switch d.Status {
		case domain.ContextInstantiated:
			return unchanged, nil
		case domain.ContextInstantiateFailed:
			return "", fail.New(fail.Conflict, "it was asked for before and has failed: '%s explain %s %s' says why; update it, or terminate it",
				a.Program, p.noun.Kind, p.key)
		default:
			return goesOn, nil
		}
	default:
		if state != domain.Instantiated && d.Status == domain.ContextTerminated {
			return unchanged, nil
		}
		if d.Status == domain.ContextTerminating && state != domain.TerminateStopped {
			return goesOn, nil
		}
	}
	return "", nil
}

// moved says where an operation of a group stands that was migrated, "" where that was not to the group that the files say. What the files say of
// the group before its migrate was carried out, too: it would be refused, or make the group anew.
func (a *applier) moved(ctx context.Context, p, move *paper) (string, error) {
	target := watched(move.key, domain.OpMigrate, move.spec)
	d, err := a.api.Status(ctx, target, summary)
	if fail.Is(err, fail.NotFound) || fail.Is(err, fail.Conflict) || fail.Is(err, fail.Invalid) {
		return "", nil // the operation says why not
	}
	if err != nil {
		return "", err
	}
	version, _ := domain.CompositeAppVersion(move.key)
	detail := fmt.Sprintf("%s from %s/%s", domain.OpMigrate, version, move.key.Name()) // as histories say it
	switch {
	case !slices.ContainsFunc(d.States.Actions, func(x domain.Action) bool { return x.Operation == detail }):
		return "", nil
	case p != move:
		return unchanged, nil
	case d.Status == domain.ContextInstantiateFailed:
		return "", fail.New(fail.Conflict, "it was asked for before and has failed: '%s explain %s %s' says why; update that, or terminate it",
			a.Program, p.noun.Kind, target)
	case d.Status == domain.ContextInstantiating:
		return goesOn, nil
	}
	return unchanged, nil
}

// deletions are the parts in which files are deleted: what lies in composite apps, which refers to the rest; logical clouds, which
// refer to clusters; and the rest. Before a part is deleted, what it has in clusters is terminated.
func deletions(papers []*paper) [][]*paper {
	parts := make([][]*paper, 3)
	list := ordered(papers)
	slices.Reverse(list)
	for _, p := range list {
		above := p.noun.Lineage()
		switch {
		case slices.Contains(above, domain.CompositeApps):
			parts[0] = append(parts[0], p)
		case slices.Contains(above, domain.LogicalClouds):
			parts[1] = append(parts[1], p)
		default:
			parts[2] = append(parts[2], p)
		}
	}
	return parts
}

// boundIn are the bindings whose scope is to be deleted as well, by that. The API deletes them with it: who has her rights by one of them could delete
// nothing more without it.
func boundIn(papers []*paper) map[domain.Key][]*paper {
	bound := map[domain.Key][]*paper{}
	for _, p := range papers {
		if p.object == nil || !slices.Contains(domain.BindingNouns, p.noun) {
			continue
		}
		scope := p.object.Base().Parent
		if slices.ContainsFunc(papers, func(q *paper) bool { return q.object != nil && q.key == scope }) {
			bound[scope] = append(bound[scope], p)
		}
	}
	return bound
}

// deleteFiles deletes what files describe, the last one first.
func (s *session) deleteFiles(ctx context.Context, f *deleteFlags) error {
	papers, err := s.readPapers(&f.sources)
	if err != nil {
		return err
	}
	api, err := s.api()
	if err != nil {
		return err
	}
	var failed failures
	each := func(p *paper, do func() (string, error)) error {
		done, err := do()
		switch {
		case err != nil && stops(err):
			return err
		case err != nil:
			failed = append(failed, err)
			s.failed(p.what(), err)
		case done != "":
			s.sayf("%s %s", p.key, done)
		}
		return nil
	}
	plain := *f // what is in clusters has been terminated then
	plain.terminate = false
	plain.leaving = newLeaving(func(key domain.Key) bool {
		return slices.ContainsFunc(papers, func(p *paper) bool { return p.object != nil && p.key == key })
	})
	defer func() { s.warn(plain.leaving.stayed()) }()
	for _, part := range deletions(papers) {
		out, before := map[domain.Key]bool{}, len(failed)
		for _, p := range part {
			asked := p.object == nil && p.operation.Operation == domain.OpInstantiate
			if out[p.key] || !asked && (!f.terminate || p.object == nil || p.noun.Owner == nil) {
				continue
			}
			out[p.key] = true
			if err := each(p, func() (string, error) { return s.takeOut(ctx, api, f, p.key) }); err != nil {
				return err
			}
		}
		if len(failed) > before { // what is below is what it is to be terminated, or updated, by
			return failed.said()
		}
		bound := boundIn(part)
		for _, p := range part {
			if p.object == nil || slices.Contains(bound[p.object.Base().Parent], p) {
				continue
			}
			var done string
			err := each(p, func() (_ string, err error) {
				done, err = s.deleteAlone(ctx, api, &plain, p.noun, p.key)
				if fail.Is(err, fail.NotFound) {
					done, err = "is not there", nil
				}
				return done, err
			})
			if err != nil {
				return err
			}
			for _, b := range bound[p.key] {
				if done != "" {
					s.sayf("%s %s", b.key, done)
				}
			}
		}
	}
	return failed.said()
}

// deleteKey deletes one document; with --terminate what is in clusters of it goes before.
func (s *session) deleteKey(ctx context.Context, api *client.API, f *deleteFlags, n *domain.Noun, key domain.Key) (string, error) {
	if f.terminate && n.Owner != nil {
		done, err := s.takeOut(ctx, api, f, key)
		if err != nil {
			return "", err
		}
		if done != "" { // of a dry run; else it is said while it is waited for
			s.sayf("%s %s", key, done)
		}
	}
	return s.deleteAlone(ctx, api, f, n, key)
}

// deleteAlone deletes one document, of which nothing is in clusters any more, or would be.
func (s *session) deleteAlone(ctx context.Context, api *client.API, f *deleteFlags, n *domain.Noun, key domain.Key) (string, error) {
	var left []string
	var err error
	done := "deleted"
	switch {
	case f.dryRun:
		done = "would be deleted (dry run)"
		_, err = api.Get(ctx, n, key)
		if err == nil && len(f.files) == 0 { // of files what is below it may be in others
			err = s.refusable(ctx, api, f, n, key)
		}
	case f.unreadable:
		left, err = api.Discard(ctx, key, f.abandon)
	case f.abandon && n.Abandons:
		left, err = api.Abandon(ctx, key)
	default:
		left, err = api.Remove(ctx, key)
	}
	s.warn(f.leaving.hold(key, left, err == nil))
	if f.missing && fail.Is(err, fail.NotFound) {
		return "is not there", nil
	}
	if err != nil {
		return "", s.helped(ctx, api, f, n, key, err)
	}
	return done, nil
}

// takeOut terminates an owner where it has something in clusters; with --terminate it waits for that.
func (s *session) takeOut(ctx context.Context, api *client.API, f *deleteFlags, key domain.Key) (string, error) {
	d, err := api.Status(ctx, key, summary)
	if fail.Is(err, fail.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	state := d.States.State()
	terminating := d.Status == domain.ContextTerminating && state != domain.TerminateStopped
	gone := d.Status == domain.ContextTerminated || d.Status == domain.ContextNone // what is below it may have been changed since
	out := (state == domain.Created || state == domain.Approved || state == domain.Terminated) && gone ||
		state == domain.Updated && domain.OwnerNoun(key) == domain.DeploymentIntentGroups
	switch {
	case out:
		return "", nil
	case f.dryRun:
		return "would be terminated (dry run)", nil
	}
	if !terminating {
		accepted, err := s.ask(ctx, api, key, domain.OpTerminate, nil)
		if err != nil {
			return "", err
		}
		s.warn(accepted.Warnings)
	}
	if !f.terminate {
		return "terminating", nil
	}
	s.sayf("%s terminating", key)
	if err := s.await(ctx, api, key, domain.OpTerminate, f.timeout); err != nil {
		return "", err
	}
	return "", nil
}
