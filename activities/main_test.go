package activities_test

import (
	"os"
	"testing"

	"github.com/drover-io/drover/internal/kubetest"
)

func TestMain(m *testing.M) { os.Exit(kubetest.Main(m)) }
