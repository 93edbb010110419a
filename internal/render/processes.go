package render

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"time"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/sandbox"
)

// purpose is what children of this package are started for.
const purpose = "render"

// Main renders in a process that Processes have started for that, and does not return there; in any other it returns
// at once. It comes first in main of every program that makes Processes, and in TestMain of tests that do.
func Main() { sandbox.Main(purpose, perform) }

// Options say how much Processes may take.
type Options struct {
	Size   int           // how many render at a time; 0 for one for each processor, up to 8
	Memory int64         // bytes of each; 0 for 1 GiB
	Time   time.Duration // of one rendering or check; 0 for that of DefaultLimits
	Log    *slog.Logger
}

const (
	mostProcesses = 8
)

// Processes render and check charts in child processes of the program, within DefaultLimits and those of the kernel.
type Processes struct {
	pool   *sandbox.Pool
	turns  *turns
	limits sandbox.Limits
	time   time.Duration
}

// NewProcesses starts them. Close ends them.
func NewProcesses(o Options) (*Processes, error) {
	o.Size = cmp.Or(o.Size, min(runtime.GOMAXPROCS(0), mostProcesses))
	o.Memory = cmp.Or(o.Memory, limits.RenderMemory)
	o.Time = cmp.Or(o.Time, DefaultLimits.Time)
	l := sandbox.Limits{
		Time: o.Time + policy.RenderOvertime, CPU: o.Time, Memory: o.Memory, Stack: limits.RenderStack,
		Request: math.MaxInt32, Answer: limits.Bundle,
	}
	pool, err := sandbox.New(sandbox.Config{Purpose: purpose, Size: o.Size, Limits: l, Log: o.Log})
	if err != nil {
		return nil, err
	}
	return &Processes{pool: pool, turns: newTurns(o.Size), limits: l, time: o.Time}, nil
}

// AtOnce is how many of one who asks may render at a time so that another one has a process, where there are several.
func (p *Processes) AtOnce() int { return p.turns.most }

// Close ends the processes; what they work on fails.
func (p *Processes) Close() { p.pool.Close() }

// Render is Render in a process of its own. What ends that process is Invalid; the message names app, file and limit.
func (p *Processes) Render(ctx context.Context, in Input) (*plan.Bundle, error) {
	in.Limits.Time = cmp.Or(in.Limits.Time, p.time)
	a, err := p.ask(ctx, request{
		Do: "render", App: in.App, Release: in.Release, Namespace: in.Namespace, OverrideValues: in.OverrideValues, Limits: in.Limits,
	}, in.Chart, in.Profile)
	if err != nil {
		return nil, err
	}
	a.Bundle.Warnings = a.Warnings
	return a.Bundle, nil
}

// CheckChart is CheckChart in a process of its own.
func (p *Processes) CheckChart(ctx context.Context, app string, tgz []byte) error {
	_, err := p.ask(ctx, request{Do: "check chart", App: app}, tgz, nil)
	return err
}

// CheckProfile is CheckProfile in a process of its own.
func (p *Processes) CheckProfile(ctx context.Context, tgz []byte) (warnings []string, err error) {
	a, err := p.ask(ctx, request{Do: "check profile"}, nil, tgz)
	if err != nil {
		return nil, err
	}
	return a.Warnings, nil
}

// request is what a child is asked. On its way it is the length of this as JSON, this, the chart and the profile.
type request struct {
	Do             string            `json:"do"`
	App            string            `json:"app"`
	Release        string            `json:"release"`
	Namespace      string            `json:"namespace"`
	OverrideValues map[string]string `json:"overrideValues"`
	Limits         Limits            `json:"limits"`
	Chart          int               `json:"chart"` // bytes
}

const lengthSize = 4

// encode is the request's parts, of which chart and profile are what was given.
func (r request) encode(chart, profile []byte) (parts [][]byte, err error) {
	r.Chart = len(chart)
	head, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	length := binary.BigEndian.AppendUint32(nil, uint32(len(head))) // #nosec G115 -- override values are bounded by the request's body
	return [][]byte{append(length, head...), chart, profile}, nil
}

func decodeRequest(data []byte) (r request, chart, profile []byte, err error) {
	end := lengthSize + int(binary.BigEndian.Uint32(data))
	if err := json.Unmarshal(data[lengthSize:end], &r); err != nil {
		return r, nil, nil, err
	}
	rest := data[end:]
	return r, rest[:r.Chart:r.Chart], rest[r.Chart:], nil
}

// answer is what a child says.
type answer struct {
	Bundle   *plan.Bundle `json:"bundle,omitempty"`
	Warnings []string     `json:"warnings,omitempty"` // the bundle's, or those of a profile
	Kind     fail.Kind    `json:"kind,omitempty"`     // of a refusal
	Text     string       `json:"text,omitempty"`
}

// ask has a child do what is asked.
func (p *Processes) ask(ctx context.Context, r request, chart, profile []byte) (a *answer, err error) {
	begun := time.Now()
	defer func() { measure.RenderDuration.Record(time.Since(begun).Seconds(), r.Do, measure.OutcomeOf(err)) }()
	parts, err := r.encode(chart, profile)
	if err != nil {
		return nil, err
	}
	leave, err := p.turns.take(ctx, chart, profile)
	if err != nil {
		return nil, err
	}
	defer leave()
	said, err := p.pool.Do(ctx, parts...)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, p.refuse(r.App, err)
	}
	a = &answer{}
	if err := json.Unmarshal(said, a); err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the answer of a process that renders cannot be read")
	}
	if a.Kind != "" {
		return nil, fail.New(a.Kind, "%s", a.Text)
	}
	return a, nil
}

// refuse makes an error of the pool one that may be shown.
func (p *Processes) refuse(app string, err error) error {
	var death *sandbox.Death
	switch {
	case errors.As(err, &death):
		return fail.Wrap(err, fail.Invalid, "%s", fail.TextOf(classify(app, errors.New(p.epitaph(death)))))
	case errors.Is(err, sandbox.ErrTooLarge):
		return classify(app, fail.Wrap(err, fail.Invalid, "chart and profile are too large"))
	default:
		return classify(app, fail.Wrap(err, fail.Unavailable, "there is no process to render charts in; try again later"))
	}
}

// epitaph says what a process died in, and of what.
func (p *Processes) epitaph(d *sandbox.Death) string {
	note := d.Note
	if note == "" {
		note = "reading it"
	}
	const mebi = 1 << 20
	switch d.Limit {
	case sandbox.Time:
		return fmt.Sprintf("%s takes longer than %s", note, p.time)
	case sandbox.CPU:
		return fmt.Sprintf("%s takes more than %s of processor time", note, p.limits.CPU)
	case sandbox.Memory:
		return fmt.Sprintf("%s takes more than %d MiB of memory", note, p.limits.Memory/mebi)
	case sandbox.Stack:
		return fmt.Sprintf("%s takes more than %d MiB of stack: something contains or calls itself, or is nested too deep", note, p.limits.Stack/mebi)
	case sandbox.Answer:
		return fmt.Sprintf("%s gives more than %d MiB", note, p.limits.Answer/mebi)
	case sandbox.Killed:
		return fmt.Sprintf("%s was killed twice, perhaps because the machine is short of memory", note)
	default:
		return note + " ends the process"
	}
}

// perform does in a child what is asked.
func perform(data []byte, note func(string)) []byte {
	said, err := json.Marshal(reply(context.WithValue(context.Background(), noteKey{}, note), data))
	if err != nil {
		panic(err) // what it is made of can be written
	}
	return said
}

func reply(ctx context.Context, data []byte) (a answer) {
	r, chart, profile, err := decodeRequest(data)
	if err == nil {
		switch r.Do {
		case "render":
			stop := listen()
			a.Bundle, err = renderIn(ctx, Input{
				App: r.App, Chart: chart, Profile: profile, OverrideValues: r.OverrideValues, Release: r.Release, Namespace: r.Namespace, Limits: r.Limits,
			})
			a.Warnings = stop()
		case "check chart":
			err = checkChartIn(ctx, r.App, chart)
		case "check profile":
			a.Warnings, err = checkProfileIn(ctx, profile)
		default:
			err = fail.New(fail.Internal, "nobody knows how to %q", r.Do)
		}
	}
	if err != nil {
		return answer{Kind: fail.KindOf(err), Text: fail.TextOf(err)}
	}
	if a.Bundle != nil {
		a.Warnings = append(a.Warnings, a.Bundle.Warnings...)
	}
	return a
}
