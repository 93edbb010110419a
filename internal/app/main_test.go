package app

import (
	"os"
	"testing"

	"github.com/drover-io/drover/internal/render"
)

func TestMain(m *testing.M) {
	render.Main()
	os.Exit(m.Run())
}
