package tenantagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/drover-io/drover/internal/convey"
	"github.com/drover-io/drover/internal/lasting"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/span"
	"github.com/drover-io/drover/internal/universe"
)

// lookEvery is how often the rules of the control plane are compared with those that there are to be.
var lookEvery = 30 * time.Second

// carrier has the WorkloadRules of the cluster be rules of the tenant.
type carrier struct {
	agent   *agent
	dynamic dynamic.Interface
	client  universe.WorkloadRuleServiceClient
	queue   workqueue.TypedRateLimitingInterface[string] // namespace/name of those that are to be looked at
	known   toolscache.Store                             // as the cluster last told them
	now     func() time.Time
	// troubles has what is in the way of a rule, by namespace/name. It is of who looks at rules one by one.
	troubles map[string]*lasting.Trouble

	mu   sync.Mutex
	pods map[string]int64 // to how many Pods a rule applies, by namespace/name
	// since is when a WorkloadRule, by namespace/name, was first seen to go whose rule may yet be made, by a request that had no answer.
	since map[string]leaving
}

// leaving is when an object was first seen to go.
type leaving struct {
	uid types.UID
	at  time.Time
}

func newCarrier(a *agent, rules universe.WorkloadRuleServiceClient) *carrier {
	return &carrier{
		agent: a, dynamic: a.objects, client: rules, now: time.Now, pods: map[string]int64{}, since: map[string]leaving{}, troubles: map[string]*lasting.Trouble{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryMost)),
	}
}

// run carries rules over until ctx ends.
func (c *carrier) run(ctx context.Context) error {
	rules := c.dynamic.Resource(workloadRules)
	informer, err := follow(c.agent.scopes.watches, "the WorkloadRules of the cluster", c.dynamic, &unstructured.Unstructured{}, rules.List, rules.Watch)
	if err != nil {
		return err
	}
	c.known = informer.GetStore()
	if err := informer.SetTransform(func(o any) (any, error) {
		if rule, ok := o.(*unstructured.Unstructured); ok {
			rule.SetManagedFields(nil)
		}
		return o, nil
	}); err != nil {
		return err
	}
	add := func(o any) {
		if key, err := toolscache.MetaNamespaceKeyFunc(o); err == nil {
			c.queue.Add(key)
		}
	}
	update := func(before, now any) {
		if asksForMore(before, now) {
			add(now)
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: update}); err != nil {
		return err
	}
	var wait sync.WaitGroup
	defer wait.Wait()
	defer c.queue.ShutDown()
	wait.Go(func() { informer.RunWithContext(ctx) })
	wait.Go(func() {
		for c.one(ctx) {
		}
	})
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.agent.spoken: // what has waited for the server need not wait longer
		case <-tick.C:
		}
		c.look(ctx)
		tick.Reset(lookEvery) // over a slow line a look takes longer, and the next one would begin at once
	}
}

// asksForMore says whether a WorkloadRule has changed otherwise than by what the agent writes into it: who fails would try again
// at once for that.
func asksForMore(before, now any) bool {
	b, ok := before.(*unstructured.Unstructured)
	n, is := now.(*unstructured.Unstructured)
	return !ok || !is || b.GetUID() != n.GetUID() || b.GetGeneration() != n.GetGeneration() ||
		b.GetDeletionTimestamp().IsZero() != n.GetDeletionTimestamp().IsZero() ||
		slices.Contains(b.GetFinalizers(), finalizer) && !slices.Contains(n.GetFinalizers(), finalizer)
}

// one looks at the next rule of the queue; false when there will be none.
func (c *carrier) one(ctx context.Context) bool {
	key, over := c.queue.Get()
	if over {
		return false
	}
	defer c.queue.Done(key)
	err := c.carryTraced(ctx, key)
	switch {
	case ctx.Err() != nil:
	case err == nil, pending(err):
		c.queue.Forget(key)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // it has changed since it was read
		c.queue.AddRateLimited(key)
	case refused(status.Code(err)): // the next look comes in time
		c.queue.Forget(key)
	default:
		c.queue.AddRateLimited(key)
	}
	if ctx.Err() == nil {
		c.tell(ctx, key, err)
	}
	return true
}

// tell logs what is in the way of a rule, which is looked at every lookEvery: when it begins, when it is refused or waits for another reason, or the failure
// is of another kind, and when nothing is any more.
func (c *carrier) tell(ctx context.Context, key string, err error) {
	log := c.agent.config.Log.With(slog.String("rule", key))
	before := c.troubles[key]
	if err == nil {
		if delete(c.troubles, key); before != nil {
			log.InfoContext(ctx, "a rule is neither refused nor held up any more")
		}
		return
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // it is looked at anew
		return
	}
	if before == nil {
		before = &lasting.Trouble{}
		c.troubles[key] = before
	}
	code := status.Code(err)
	switch {
	case pending(err):
		if before.Begins(err.Error()) {
			log.WarnContext(ctx, "a rule is not carried over", slog.Any("error", err))
		}
	case !refused(code):
		if before.Begins(code.String() + string(apierrors.ReasonForError(err))) { // its text may be another one each time
			log.WarnContext(ctx, "a rule cannot be carried over now", slog.Any("error", err))
		}
	case before.Begins(err.Error()):
		log.WarnContext(ctx, "a rule is refused", slog.Any("error", err))
	}
}

// look has all rules looked at that differ from those of the control plane, or are not synced; and counts.
func (c *carrier) look(ctx context.Context) {
	for _, o := range c.known.List() { // what needs no answer does not wait for one
		if rule, err := readRule(o.(*unstructured.Unstructured)); err == nil && (!rule.Status.Synced || rule.DeletionTimestamp != nil) {
			c.queue.Add(keyOf(rule))
		}
	}
	call, cancel := c.calling(ctx, listTime)
	defer cancel()
	answer, err := c.client.List(call, &universe.ListRequest{})
	there := map[string]*universe.Rule{}
	for _, r := range answer.GetRules() {
		there[r.GetId()] = r
	}
	var rules []*workloadRule
	reasons := map[string]int{}
	for _, o := range c.known.List() {
		rule, readErr := readRule(o.(*unstructured.Unstructured))
		if readErr != nil {
			continue // carry says so
		}
		rules = append(rules, rule)
		reasons[rule.Status.reason()]++
		differs := err == nil && !proto.Equal(there[rule.id()], rule.want()) ||
			status.Code(err) == codes.ResourceExhausted // all together are too much for one answer
		if differs {
			c.queue.Add(keyOf(rule))
		}
	}
	c.agent.state.carries(reasons)
	c.count(rules)
}

// count counts the Pods that rules apply to, and has those rules looked at of which it is not what their status says.
func (c *carrier) count(rules []*workloadRule) {
	pods, known := c.agent.scopes.list()
	if !known {
		return
	}
	counts := countPods(pods, rules)
	var differ []string
	for _, r := range rules {
		if counts[keyOf(r)] != r.Status.Pods {
			differ = append(differ, keyOf(r))
		}
	}
	c.mu.Lock()
	c.pods = counts // from here on counted writes into them
	c.mu.Unlock()
	for _, key := range differ {
		c.queue.Add(key)
	}
}

// counted is to how many Pods a rule applies, when that was last counted.
func (c *carrier) counted(r *workloadRule) int64 {
	c.mu.Lock()
	n, counted := c.pods[keyOf(r)]
	c.mu.Unlock()
	if counted {
		return n
	}
	pods, known := c.agent.scopes.list()
	if !known {
		return r.Status.Pods
	}
	n = countPods(pods, []*workloadRule{r})[keyOf(r)]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods[keyOf(r)] = n
	return n
}

// countPods is to how many Pods each rule applies, by namespace/name.
func countPods(pods []*pod, rules []*workloadRule) map[string]int64 {
	counts, compiled := map[string]int64{}, map[string]*match.Rule{}
	for _, r := range rules {
		counts[keyOf(r)] = 0
		// Without a tenant nothing is asked of its template, which the tenant's settings at the control plane decide on.
		if one, err := match.Compile(nil, r.rule()); err == nil {
			compiled[keyOf(r)] = one
		}
	}
	for _, p := range pods {
		var said universe.WorkloadUpdate
		if err := proto.Unmarshal(p.said, &said); err != nil {
			continue // it is our own
		}
		w := convey.WorkloadOf(&said)
		for key, r := range compiled {
			if r.Matches(w) {
				counts[key]++
			}
		}
	}
	return counts
}

func keyOf(r *workloadRule) string { return r.Namespace + "/" + r.Name }

// call is the context of one call for the tenant.
func (c *carrier) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return c.calling(ctx, callTime)
}

// calling is call for one that may take longer, or less.
func (c *carrier) calling(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	ctx = metadata.AppendToOutgoingContext(ctx, tenantHeader, c.agent.config.Tenant)
	if parent := span.ParentOf(ctx); parent != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", parent)
	}
	return context.WithTimeout(ctx, within)
}

// carryTraced is carry, in a trace of its own, in which what it calls at the control plane is, too.
func (c *carrier) carryTraced(ctx context.Context, key string) error {
	ctx, end := span.First(ctx, "carry rule", span.String("drover.rule", key))
	err := c.carry(ctx, key)
	end(measure.SucceededOf(err), err != nil && !pending(err))
	return err
}

// carry has one rule be as it is to be. What the cluster has is asked for: its last word may not have been told yet, and who
// acts on an older one would not know what it has made.
func (c *carrier) carry(ctx context.Context, key string) error {
	namespace, name, err := toolscache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	objects := c.dynamic.Resource(workloadRules).Namespace(namespace)
	// All that is asked for on what is read here has one deadline: see lateAfter.
	asking, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	o, err := objects.Get(asking, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		delete(c.troubles, key)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.since, key)
		return nil
	}
	if err != nil {
		return err
	}
	rule, err := readRule(o)
	if err != nil {
		return err
	}
	k := &carriage{carrier: c, objects: objects, rule: rule, status: rule.Status}
	if rule.DeletionTimestamp != nil {
		return k.takeBack(ctx, asking)
	}
	return k.bring(ctx, asking)
}

// carriage is what is done for one rule.
type carriage struct {
	*carrier
	objects dynamic.ResourceInterface
	rule    *workloadRule // as it is in the cluster
	status  ruleStatus    // as it is to be
}

// bring has the control plane have the rule. asking is for what is asked for, ctx for what is said of that afterwards.
func (k *carriage) bring(ctx, asking context.Context) error {
	if !k.rule.hasFinalizer() {
		change := map[string]any{"metadata": map[string]any{"finalizers": append(slices.Clone(k.rule.Finalizers), finalizer)}}
		if err := k.patch(asking, change); err != nil {
			return err
		}
	}
	k.status.Pods = k.counted(k.rule)
	want := k.rule.want()
	have, err := k.get(asking)
	if err == nil {
		err = k.step(asking, decide(want, have, &k.status), want, have)
	}
	return k.answer(ctx, err)
}

// errConflict says that the rule of this id is somebody else's.
var errConflict = errors.New("a rule of this id is there that was not made for this object: delete it there, or give this object another name")

// step does what has been decided. What is about to be made is noted first: the answer may be lost, or the agent end.
func (k *carriage) step(ctx context.Context, do step, want, have *universe.Rule) error {
	if do == conflict { // what may be on its way still stays noted: it is made when the other rule has gone
		return errConflict
	}
	if do != nothing { // a process that was frozen acts on what it has read long ago
		if err := k.agent.stillLeads(ctx); err != nil {
			return err
		}
	}
	switch do {
	case create:
		again := k.status.Made || k.status.Making != "" // a request of ours may be on its way still
		if noted := k.status.isMaking(hashOf(want)); noted || k.status.Tenant != k.agent.config.Tenant {
			k.status.Tenant = k.agent.config.Tenant
			if err := k.writeStatus(ctx); err != nil {
				return err
			}
		}
		call, cancel := k.call(ctx)
		defer cancel()
		_, err := k.client.Create(call, &universe.CreateRequest{Rule: want})
		switch {
		case status.Code(err) == codes.AlreadyExists && again:
			err = k.arrived(ctx)
		case status.Code(err) == codes.AlreadyExists: // somebody else has made it since we have looked
			k.status.Made, k.status.Making = false, ""
			err = errConflict
		case refused(status.Code(err)) && !again: // this one has not made it
			k.status.Making = ""
		}
		if err != nil {
			return err
		}
	case update:
		call, cancel := k.call(ctx)
		defer cancel()
		if _, err := k.client.Update(call, &universe.UpdateRequest{Rule: want}); err != nil {
			return err
		}
		k.agent.config.Log.InfoContext(ctx, "a rule was changed", slog.String("rule", have.GetId()))
	case nothing, conflict:
	}
	k.status.Made, k.status.Making, k.status.Tenant = true, "", k.agent.config.Tenant
	return nil
}

// arrived says whose a rule is that was made since we have looked: an earlier request of ours, of which there was no answer, may
// have come late. errConflict when it is not ours.
func (k *carriage) arrived(ctx context.Context) error {
	have, err := k.get(ctx)
	if err != nil {
		return err
	}
	if have != nil && ours(have, &k.status) { // what differs is found by the next look
		return nil
	}
	k.status.Made = false // what may be on its way still is noted as before
	return errConflict
}

// get is the rule as the control plane has it; nil when it has none.
func (k *carriage) get(ctx context.Context) (*universe.Rule, error) {
	call, cancel := k.call(ctx)
	defer cancel()
	answer, err := k.client.Get(call, &universe.GetRequest{Id: k.rule.id()})
	if status.Code(err) == codes.NotFound {
		return nil, nil //nolint:nilnil // that there is none is an answer
	}
	return answer.GetRule(), err
}

// pending says that no more can be done for a rule now, and that its status says so: the next look comes in time, or it was said when to look again.
func pending(err error) bool {
	return err == errConflict || err == errOnItsWay //nolint:errorlint // with another error beside it, such as of the status, it is tried again
}

// answer writes into the status how it stands after err, and returns err.
func (k *carriage) answer(ctx context.Context, err error) error {
	_, fromServer := status.FromError(err)
	switch {
	case err == nil:
		k.status.say(k.rule, reasonSynced, "", k.now())
	case errors.Is(err, errConflict):
		k.status.say(k.rule, reasonConflict, err.Error(), k.now())
	case errors.Is(err, errOnItsWay):
		k.status.say(k.rule, reasonUnreachable, err.Error(), k.now())
	case fromServer && ctx.Err() == nil:
		k.status.say(k.rule, reasonOf(status.Code(err)), words(err), k.now())
	default: // of the cluster, which would not take a status either
		return err
	}
	if wrote := k.writeStatus(ctx); wrote != nil {
		return errors.Join(err, wrote)
	}
	return err
}

// lateAfter is after how long a request that had no answer does not arrive any more. By its deadline it was sent and was heard, and
// what was begun then is over some seconds later.
var lateAfter = callTime + 5*time.Second

// errOnItsWay says that the rule may be made yet.
var errOnItsWay = errors.New("a request to make the rule had no answer and may arrive yet: the object goes when it cannot any more")

// takeBack deletes the rule, if it was made for this object, and lets the object go. It waits for a request to make the rule that
// had no answer: with the object the last one would go that knows whose the rule is. Nobody who has read the object since begins
// another one.
func (k *carriage) takeBack(ctx, asking context.Context) error {
	if !k.rule.hasFinalizer() {
		return nil
	}
	if err := k.agent.stillLeads(asking); err != nil {
		return err
	}
	if k.status.Made || k.status.Making != "" {
		have, err := k.get(asking)
		if err == nil && have != nil && ours(have, &k.status) {
			call, cancel := k.call(asking)
			defer cancel()
			_, err = k.client.Delete(call, &universe.DeleteRequest{Id: k.rule.id()})
		}
		if err != nil && !k.isGone(status.Code(err)) {
			return k.answer(ctx, fmt.Errorf("the rule cannot be deleted: %w", err))
		}
		if wait := k.late(); wait > 0 {
			k.queue.AddAfter(keyOf(k.rule), wait)
			return k.answer(ctx, errOnItsWay)
		}
	}
	left := slices.DeleteFunc(slices.Clone(k.rule.Finalizers), func(f string) bool { return f == finalizer })
	if err := k.patch(ctx, map[string]any{"metadata": map[string]any{"finalizers": left}}); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.since, keyOf(k.rule))
	return nil
}

// isGone says whether an answer to who takes the rule back says that there is none: it is not there, or went with its tenant. That there is no
// tenant of the agent's name says so only of a rule that was made for that one: the agent may be told a wrong name.
func (k *carriage) isGone(code codes.Code) bool {
	return code == codes.NotFound || code == codes.FailedPrecondition && k.status.Tenant == k.agent.config.Tenant
}

// late is for how long yet a request to make the rule may arrive.
func (k *carriage) late() time.Duration {
	if k.status.Making == "" {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	since := k.since[keyOf(k.rule)]
	if since.uid != k.rule.UID {
		since = leaving{k.rule.UID, k.now()}
		k.since[keyOf(k.rule)] = since
	}
	return since.at.Add(lateAfter).Sub(k.now())
}

// writeStatus writes the status, if it differs from that in the cluster.
func (k *carriage) writeStatus(ctx context.Context) error {
	if apiequality.Semantic.DeepEqual(k.status, k.rule.Status) {
		return nil
	}
	if k.status.Conditions == nil {
		k.status.Conditions = []metav1.Condition{}
	}
	return k.patch(ctx, map[string]any{"status": k.status}, "status")
}

// patch changes the object, unless it has changed since it was read.
func (k *carriage) patch(ctx context.Context, change map[string]any, subresources ...string) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	meta, ok := change["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		change["metadata"] = meta
	}
	meta["resourceVersion"], meta["uid"] = k.rule.ResourceVersion, k.rule.UID
	data, err := json.Marshal(change)
	if err != nil {
		return err
	}
	o, err := k.objects.Patch(ctx, k.rule.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: userAgent}, subresources...)
	if err != nil {
		return err
	}
	rule, err := readRule(o)
	if err == nil {
		k.rule = rule
	}
	return err
}
