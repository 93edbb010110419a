package monitor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/monitor"
)

// TestSaysWhatItCannotHear: the lists of a kind begin to fail while the agent runs.
func TestSaysWhatItCannotHear(t *testing.T) {
	monitor.SetPatience(t, 400*time.Millisecond)
	w := newWorld(t)
	kind := schema.GroupKind{Group: kubetest.Name("group") + ".example.com", Kind: "Widget"}
	widgets := kubetest.Widgets(t, w.client, kind.Group, false)
	t.Cleanup(func() { kubetest.Undefine(t, w.client, widgets) })
	unheard := func(b bundle.Bundle) *bundle.Unheard {
		i := slices.IndexFunc(b.Unheard, func(u bundle.Unheard) bool { return u.GroupKind == kind })
		if i < 0 {
			return nil
		}
		return &b.Unheard[i]
	}
	w.bundleState()
	w.create(widgets, `{"apiVersion":"`+kind.Group+`/v1","kind":"Widget","metadata":{"name":"w"}}`)
	w.agent(nil)
	w.await("it is there", func(b bundle.Bundle) bool { return has("Widget", "w")(b) && unheard(b) == nil && b.Ready })

	kubetest.Widgets(t, w.client, kind.Group, true)
	w.patch(widgets, "w", map[string]any{"spec": "changed"})
	b := w.await("the kind is not heard", func(b bundle.Bundle) bool {
		return unheard(b) != nil && strings.Contains(unheard(b).Reason, "conversion webhook")
	})
	require.False(t, unheard(b).Since.IsZero())
	require.Contains(t, b.Kinds, kind)
	require.Equal(t, []string{"w"}, names(b, "Widget"), "what was heard is not forgotten")
	require.False(t, b.Ready)
	w.configMap("late")
	b = w.await("other kinds are heard", has("ConfigMap", "late"))
	require.NotNil(t, unheard(b))

	w.delete(widgets, "w")
	kubetest.Widgets(t, w.client, kind.Group, false)
	w.await("the kind is heard again", func(b bundle.Bundle) bool { return unheard(b) == nil && has("Widget")(b) })
}
