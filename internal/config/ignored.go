package config

import (
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/nearest"
)

// Parse reads the flags of a command that is no process with settings. The error says of all flags what is wrong, or is flag.ErrHelp after -h.
func Parse(flags *flag.FlagSet, args []string) error {
	good, rest, wrong := known(flags, args)
	return parse(flags, append(good, rest...), wrong)
}

// ParseAround is Parse for a command that takes more than flags, which may stand before and after it. It gives what is no flag; after -- nothing is one.
func ParseAround(flags *flag.FlagSet, args []string) (others []string, err error) {
	var good []string
	var wrong []error
	for len(args) > 0 {
		before, rest, bad := known(flags, args)
		good, wrong, args = append(good, before...), append(wrong, bad...), nil
		switch {
		case len(rest) == 0:
		case rest[0] == "--":
			others = append(others, rest[1:]...)
		default:
			others, args = append(others, rest[0]), rest[1:]
		}
	}
	return others, parse(flags, good, wrong)
}

// parse has the flags read, and says with what is wrong already what else is.
func parse(flags *flag.FlagSet, args []string, wrong []error) error {
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	return errors.Join(append(wrong, err)...)
}

// known splits the arguments into those that the flags can read, the rest from the first one on that is no flag, and what is wrong before it. The
// library ends at the first one that it does not know, and so says nothing of all that is wrong after it.
func known(flags *flag.FlagSet, args []string) (good, rest []string, wrong []error) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" || len(arg) < 2 || arg[0] != '-' {
			return good, args[i:], wrong
		}
		name, _, valued := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		f := flags.Lookup(name)
		switch {
		case name == "h" || name == "help":
			good = append(good, arg)
		case f == nil:
			wrong = append(wrong, fmt.Errorf("flag provided but not defined: -%s%s", name, advice(flags, name)))
			if !valued && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				i++ // what looks like its value
			}
		case valued || alone(f):
			good = append(good, arg)
		case i+1 == len(args):
			wrong = append(wrong, fmt.Errorf("flag needs an argument: -%s", name))
		default:
			i++
			good = append(good, arg, args[i])
		}
	}
	return good, nil, wrong
}

func alone(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// advice says what may be meant by a flag that a process has not.
func advice(flags *flag.FlagSet, name string) string {
	var of []string
	for _, s := range settings {
		for _, p := range []Process{API, Worker, Monitoring, TenantAgents, Admin, Keys} {
			if s.name == name && s.of&p != 0 {
				of = append(of, p.String())
			}
		}
	}
	if len(of) > 0 {
		return "; it is one of " + strings.Join(of, ", ")
	}
	var names []string
	flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	if near := nearest.Name(name, names); near != "" {
		return "; perhaps --" + near + " is meant"
	}
	return ""
}

// checkIgnored refuses settings that would be read and have no effect, because another one is missing. given are those that somebody has given.
func (c *Config) checkIgnored(given func(name string) bool) (wrong []error) {
	for _, s := range []struct {
		names   []string
		without bool
		needs   string
	}{
		{[]string{"tenant-tls-cert", "tenant-tls-key", "tenant-tls-ca", "tenant-rate"}, c.TenantListen == "", both("tenant-listen")},
		{[]string{"audit-syslog-ca"}, !strings.HasPrefix(c.AuditSyslog, "tls:"), both("audit-syslog") + " with tls://"},
		{[]string{"config-map"}, c.TenantAgent.Namespace == "", both("agent-namespace")},
	} {
		for _, name := range s.names {
			if s.without && given(name) {
				wrong = append(wrong, fmt.Errorf("%s means nothing without %s", both(name), s.needs))
			}
		}
	}
	return wrong
}

// Unread are the variables of an environment that begin as ours do, and that neither a process nor the client reads, each with what may be meant
// instead, "" for nothing: one that is misspelt would be ignored in silence. They are no error: who runs the process may keep others there.
func Unread(environ []string) map[string]string {
	names := slices.Clone(ofTheClient)
	for _, s := range settings {
		names = append(names, Variable(s.name))
	}
	found := map[string]string{}
	for _, one := range environ {
		name, value, _ := strings.Cut(one, "=")
		if value == "" || !strings.HasPrefix(name, "DROVER_") || slices.Contains(names, name) || ofOthers.MatchString(name) {
			continue
		}
		found[name] = nearest.Name(name, names)
	}
	return found
}

// ofTheClient are the variables that package cli reads, and which no process does.
var ofTheClient = []string{
	"DROVER_CA", "DROVER_CLIENT_CERTIFICATE", "DROVER_CONFIG", "DROVER_CONTEXT", "DROVER_EDITOR", "DROVER_PROJECT", "DROVER_TOKEN",
}

// ofOthers are what Kubernetes sets in each container for Services whose names begin with drover, what processes of ours tell their children, and
// what tests do.
var ofOthers = regexp.MustCompile(`_SERVICE_(HOST|PORT(_.+)?)$|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)?$|^DROVER_(SANDBOX|TETHER|TEST|BENCH|EXPLORE|UPDATE|RECORD|TRAIL)(_|$)`)
