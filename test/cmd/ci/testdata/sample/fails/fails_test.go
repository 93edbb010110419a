package fails

import "testing"

func TestPasses(t *testing.T) {}
func TestFails(t *testing.T) {
	t.Run("one", func(t *testing.T) {})
	t.Run("other", func(t *testing.T) { t.Error("not as it should be") })
}
func TestSkips(t *testing.T) { t.Skip("why") }
