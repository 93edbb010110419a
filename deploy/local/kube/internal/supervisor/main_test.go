package supervisor

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// A keeper runs its own executable. In these tests, that is the test binary,
// which therefore plays the following components.
const (
	failing   = "failing"   // complains and ends at once
	obedient  = "obedient"  // runs until it is told to stop
	stubborn  = "stubborn"  // runs until it is killed
	announced = "announced" // what a running component says
)

func TestMain(m *testing.M) {
	component := ""
	if len(os.Args) > 1 {
		component = os.Args[1]
	}
	switch component {
	case failing:
		fmt.Println("no such luck")
		os.Exit(3)
	case obedient:
		fmt.Println(announced)
		time.Sleep(time.Hour)
	case stubborn:
		signal.Ignore(syscall.SIGTERM)
		fmt.Println(announced)
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}
