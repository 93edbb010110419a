package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/store"
)

// Keys does what `drover keys` is asked for with the keys that seal the store, while the product runs: list says how much each seals,
// rotate has the first one seal everything, and drop takes one that seals nothing out of the file. They may be broken off at any
// moment, and asked for again.
func Keys(ctx context.Context, c *config.Config, log *slog.Logger, ask, id string, out io.Writer) error {
	keys, err := sealer(c)
	if err != nil {
		return err
	}
	defer keys.Close()
	s, err := store.Open(store.Config{URI: c.MongoURI, Database: c.Database, Keys: keys})
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := s.Close(end); err != nil {
			log.Warn("close the store", "error", err)
		}
	}()
	if err := s.RequireLayout(ctx); err != nil { // of another one, it is not known what is sealed
		return err
	}
	k := &keyring{store: s, keys: keys, file: c.SecretKeysFile, out: out, wait: othersWritten}
	switch ask {
	case "list":
		return k.list(ctx)
	case "rotate":
		return k.rotate(ctx)
	default:
		return k.drop(ctx, id)
	}
}

type keyring struct {
	store *store.Store
	keys  *secret.Sealer
	file  string
	out   io.Writer
	wait  func(context.Context) error // until what others were writing as a key was dropped is written
}

// othersWrite is longer than processes take to look at the file again, and then to write what they have sealed.
const othersWrite = 20 * time.Second

func othersWritten(ctx context.Context) error { return pause.For(ctx, othersWrite) }

// ringOf are the keys of an installation, which are in a file or in a setting: see sealer.
func ringOf(keys *secret.Sealer) *secret.Ring { return keys.Keeper().(*secret.Ring) }

func (k *keyring) ring() *secret.Ring { return ringOf(k.keys) }

func (k *keyring) list(ctx context.Context) error {
	used, err := k.store.SealedBy(ctx, func(store.Resealing) {})
	if err != nil {
		return err
	}
	now := k.ring().Sealing()
	for _, id := range k.ring().IDs() {
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(used)), func(name string) bool { return k.opens(name) != id })
		switch {
		case len(names) == 0:
			names = []string{id}
			if k.opens(now) == id {
				names = []string{now}
			}
		case k.opens(now) == id && !slices.Contains(names, now):
			names = append(names, now)
		}
		for _, name := range names {
			role := "opens"
			if name == now {
				role = "seals"
			}
			fmt.Fprintf(k.out, "%s: %s; %d sealed with it\n", name, role, used[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if k.opens(name) == "" {
			fmt.Fprintf(k.out, "%s: missing; %d sealed with it cannot be opened\n", name, used[name])
		}
	}
	return k.ring().Problem()
}

// opens is which of the keys, or of the services that have keys, opens what one of a name has sealed; "" for none.
func (k *keyring) opens(name string) string {
	id, _ := k.ring().IDOf(name)
	return id
}

// usedOf is how much is sealed with a key, or with all of a service that has keys, which may be out of the file by now.
func (k *keyring) usedOf(used map[string]int, id string) (n int) {
	for name, sealed := range used {
		if by := k.opens(name); by == id || by == "" && secret.IsOf(name, id) {
			n += sealed
		}
	}
	return n
}

// passes is how often rotate goes over everything: what a process sealed with another key meanwhile is found by the next pass.
const passes = 3

func (k *keyring) rotate(ctx context.Context) error {
	if err := k.ring().Ready(); err != nil { // what seals then is not known, or not what others seal with
		return err
	}
	var now string
	var damaged []error
	for range passes {
		now = k.ring().Sealing() // which a KMS may have changed
		sealed, left, err := k.store.Reseal(ctx, k.say)
		if err != nil {
			return fmt.Errorf("seal everything with key %q: %w; what is done is done, run this again", now, err)
		}
		if damaged = left; sealed == 0 {
			break
		}
	}
	used, err := k.store.SealedBy(ctx, func(store.Resealing) {})
	if err != nil {
		return err
	}
	others := 0
	var missing []string
	for _, id := range slices.Sorted(maps.Keys(used)) {
		switch n := used[id]; {
		case id == now:
		case id != "" && k.opens(id) == "":
			missing = append(missing, fmt.Sprintf("%q", id))
			fmt.Fprintf(k.out, "key %s: missing; %d sealed with it cannot be opened\n", id, n)
			others += n
		default:
			fmt.Fprintf(k.out, "key %s: still seals %d\n", id, n)
			others += n
		}
	}
	damaged = slices.DeleteFunc(damaged, func(err error) bool { return errors.Is(err, secret.ErrNoKey) }) // which is whole, and said by its key
	for _, err := range damaged {
		fmt.Fprintf(k.out, "damaged, and left as it is: %v\n", err)
	}
	if len(damaged) > 0 {
		return fail.New(fail.Precondition, "%d of those that are sealed with other keys than %q cannot be opened; the others are done", len(damaged), now)
	}
	if len(missing) > 0 {
		return fail.New(fail.Precondition, "what is sealed with %s cannot be opened without it, and nothing of it is damaged: have it in the file of keys, and run this again; the others are done", strings.Join(missing, ", "))
	}
	if others > 0 {
		return fail.New(fail.Precondition, "%d are sealed with other keys than %q: a process seals with them still, whose keys are others; have all know the same, and run this again", others, now)
	}
	fmt.Fprintf(k.out, "key %s seals everything: %d\n", now, used[now])
	return nil
}

func (k *keyring) say(r store.Resealing) {
	total, old := 0, 0
	for id, n := range r.Found {
		if total += n; id != k.ring().Sealing() {
			old += n
		}
	}
	fmt.Fprintf(k.out, "%s: %d of %d sealed anew, of %d\n", r.What, r.Sealed, old, total)
}

// drop takes a key out of the file, and then looks whether somebody has sealed with it meanwhile. Who dies between the two is followed by
// another run, which finds the key where it is kept and goes on with the look.
func (k *keyring) drop(ctx context.Context, id string) error {
	ids := k.ring().IDs()
	kept, begun := secret.Dropped(k.file, id)
	switch {
	case k.file == "":
		return fail.New(fail.Precondition, "the keys are not in a file (--secret-keys-file); take key %q out where they are", id)
	case !slices.Contains(ids, id) && begun:
		return k.dropped(ctx, id, kept)
	case !slices.Contains(ids, id) && k.opens(id) != "":
		return fail.New(fail.Precondition, "key %q is one of the KMS %q, which alone can take it out; there are %s here", id, k.opens(id), strings.Join(ids, ", "))
	case !slices.Contains(ids, id):
		return fail.New(fail.NotFound, "there is no key %q in %s; there are %s", id, k.file, strings.Join(ids, ", "))
	case ids[0] == id:
		return fail.New(fail.Precondition, "key %q is the one that seals: put another one before it, and run `drover keys rotate`", id)
	}
	used, err := k.store.SealedBy(ctx, func(store.Resealing) {})
	if err != nil {
		return err
	}
	if n := k.usedOf(used, id); n > 0 {
		return fail.New(fail.Precondition, "key %q is in use: it seals %d; run `drover keys rotate` first", id, n)
	}
	if kept, err = secret.Drop(k.file, id); err != nil {
		return err
	}
	return k.dropped(ctx, id, kept)
}

// dropped looks whether a key is needed that is no longer in the file, and puts it back then.
func (k *keyring) dropped(ctx context.Context, id, kept string) error {
	fmt.Fprintf(k.out, "key %s is kept in %s; looking whether somebody seals with it still\n", id, kept)
	if err := k.unused(ctx, id); err != nil {
		return errors.Join(err, k.putBack(id))
	}
	fmt.Fprintf(k.out, "key %s is no longer in %s. Backups of before need it: keep %s with the keys of those, and delete it here when no process has other keys than these\n", id, k.file, kept)
	return nil
}

// unused says whether a key that was dropped seals nothing after a while.
func (k *keyring) unused(ctx context.Context, id string) error {
	if err := k.wait(ctx); err != nil {
		return err
	}
	used, err := k.store.SealedBy(ctx, func(store.Resealing) {})
	if err != nil {
		return err
	}
	if n := k.usedOf(used, id); n > 0 {
		return fail.New(fail.Precondition, "a process seals with key %q still, whose keys are others: it has sealed %d meanwhile; have all know the same, and run `drover keys rotate`", id, n)
	}
	return nil
}

// putBack has a key again that may be needed.
func (k *keyring) putBack(id string) error {
	if err := secret.PutBack(k.file, id); err != nil {
		return fmt.Errorf("put key %q back: %w", id, err)
	}
	fmt.Fprintf(k.out, "key %s is in %s again, as the last one\n", id, k.file)
	return nil
}

// keysUnreadable tells when the file of keys cannot be read again: then a process may seal with another key than others. It tells of a KMS
// that does not answer, too: before long nothing can be sealed then.
func (p *Parts) keysUnreadable() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "drover_secret_keys_unreadable", Help: "1 while the file of secret keys cannot be read again, and the keys of before are used, or while a KMS does not answer.",
	}, func() float64 {
		if ringOf(p.sealer).Problem() != nil {
			return 1
		}
		return 0
	})
}
