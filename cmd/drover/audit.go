package main

import (
	"crypto/ed25519"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/config"
)

const auditUsage = `usage: drover audit verify [flags] FILE

Checks an export of audit records, offline, and says where it was changed. FILE is what

  curl -H "Authorization: Bearer $TOKEN" -H 'Accept: application/x-ndjson' http://127.0.0.1:9015/v2/audit

answers to the token of who may read the audit log, and - for the standard input. It ends with 1 when something is wrong.

`

// errForged ends the process with 1 when all that is wrong has been said.
var errForged = errors.New("the records are not as they were written")

// verifyAudit is the command audit verify.
func verifyAudit(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("drover audit verify", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintf(stderr, "%s", auditUsage)
		flags.PrintDefaults()
	}
	keys := flags.String("keys", "", "`file` with the keys that may sign, as /v2/audit/keys answers; without it every key that the records name counts")
	partial := flags.Bool("partial", false, "whether the export is of a part of the time (from, to), so that records before it and after it may be missing")
	files, err := config.ParseAround(flags, args)
	if err != nil {
		return wrongLine(err)
	}
	if len(files) != 1 {
		flags.Usage()
		return wrongLine(errors.New("one file is to be given"))
	}
	options := audit.Options{Partial: *partial}
	if *keys != "" {
		data, err := os.ReadFile(*keys)
		if err != nil {
			return wrongLine(err)
		}
		if options.Keys, err = audit.ParseKeys(data); err != nil {
			return wrongLine(err)
		}
	}
	file := os.Stdin
	if name := files[0]; name != "-" {
		if file, err = os.Open(name); err != nil {
			return wrongLine(err)
		}
		defer file.Close()
	}
	report, err := audit.Verify(file, options)
	if err != nil {
		return err
	}
	return tell(stdout, report, options.Keys)
}

// tell says what was found.
func tell(w io.Writer, r *audit.Report, trusted map[string]ed25519.PublicKey) error {
	for _, p := range r.Problems {
		say(w, "%s", p)
	}
	if more := r.Found - len(r.Problems); more > 0 {
		say(w, "and %d more", more)
	}
	for _, o := range r.Open {
		say(w, "note: %s %d: nothing says what came of %s %s, which %s has asked for at %s",
			o.Writer, o.Number, o.Verb, o.Key, o.Who.Text(), o.Time.Format(time.RFC3339))
	}
	if more := r.Unknown - len(r.Open); more > 0 {
		say(w, "note: and of %d more", more)
	}
	for _, t := range r.Tails {
		say(w, "note: %s: numbers %d to %d are not sealed yet: whether all are there is not known", t.Writer, t.From, t.To)
	}
	all := fmt.Sprintf("%d records of %d writers with %d checkpoints", r.Records, r.Writers, r.Checkpoints)
	if r.Records > 0 {
		all += fmt.Sprintf(", from %s to %s", r.First.Format(time.RFC3339), r.Last.Format(time.RFC3339))
	}
	say(w, "%s", all)
	for _, k := range r.Keys {
		say(w, "signed by %s", k)
	}
	if len(trusted) == 0 && len(r.Keys) > 0 {
		say(w, "note: without --keys it is not known whether these are the installation's")
	}
	if r.Found > 0 {
		return fmt.Errorf("%w: %d problems", errForged, r.Found)
	}
	if r.Checkpoints == 0 {
		return errors.New("nothing of it is signed: it may be anybody's")
	}
	return nil
}

// say writes one line. Names in it come from whoever has asked for something, and from who can write to the database: a break, and
// what a terminal would act on, is shown as Go spells it.
func say(w io.Writer, format string, args ...any) {
	var line strings.Builder
	for _, r := range fmt.Sprintf(format, args...) {
		if strconv.IsPrint(r) {
			line.WriteRune(r)
		} else {
			line.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	fmt.Fprintln(w, line.String())
}
