package sandbox

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// variable marks a process as a child; its value says what it is to work on.
const variable = "DROVER_SANDBOX"

// exceededCPU is what a child says when its processor time is over.
const exceededCPU = "SIGXCPU"

// mark is what a child writes to its standard error when a request comes: what it has said before has nothing to do with it.
const mark = 0

// Work answers one request. It says with note what it is at, so that the death of the child can name it.
type Work func(request []byte, note func(string)) (answer []byte)

// Main does the work in a process that a Pool has started for the purpose, and does not return there. In any other
// process it returns at once. It must come first in main, or in TestMain, of every program that makes a Pool: before
// anything that reads settings, opens files or takes its time.
func Main(purpose string, work Work) {
	if os.Getenv(variable) == purpose {
		os.Exit(serve(work))
	}
}

// serve answers requests until the parent goes or closes the pipe.
func serve(work Work) int {
	// What anybody prints must not get between the frames.
	in, out := bufio.NewReader(os.Stdin), os.Stdout
	os.Stdout = os.Stderr
	_, content, err := readFrame(in, maxNote)
	var l Limits
	if err == nil {
		err = json.Unmarshal(content, &l)
	}
	var note func(request uint32, text string)
	if err == nil {
		note, err = noter(out)
	}
	if err == nil {
		err = confine(l)
	}
	if err == nil {
		err = writeFrame(out, readyFrame, nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		return 1
	}
	go func() {
		untilParentGoes()
		os.Exit(0)
	}()
	for n := uint32(1); ; n++ {
		_, request, err := readFrame(in, l.Request)
		if err != nil {
			return 0
		}
		_, _ = os.Stderr.Write([]byte{mark})
		if err := allowCPU(l.CPU); err != nil {
			fmt.Fprintln(os.Stderr, "sandbox:", err)
			return 1
		}
		if err := writeFrame(out, answerFrame, work(request, func(text string) { note(n, text) })); err != nil {
			return 0
		}
		giveBack()
	}
}

// kept is how much memory a child may keep from one request to the next.
const kept = 64 << 20

// giveBack returns the memory that a large request took.
func giveBack() {
	// Unlike runtime.ReadMemStats, this stops nothing.
	inUse := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(inUse)
	if inUse[0].Value.Uint64()+inUse[1].Value.Uint64()+inUse[2].Value.Uint64() > kept {
		debug.FreeOSMemory()
	}
}

// confine sets the limits of the process that hold for all requests.
func confine(l Limits) error {
	// One thread works; a second one lets the collector, and the reader of the pipe, keep up.
	runtime.GOMAXPROCS(2)
	debug.SetMaxStack(int(l.Stack))
	// Requests are short and memory is bounded: collecting late is faster.
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(l.Memory)
	return setLimits(l)
}
