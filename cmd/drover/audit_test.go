package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
)

// TestAuditVerify: an export as it was written is good, one that was changed is not, and each says so in its words and its error.
func TestAuditVerify(t *testing.T) {
	key, other := audit.NewKey(bytes.Repeat([]byte{1}, 32)), audit.NewKey(bytes.Repeat([]byte{2}, 32))
	chain, at := audit.NewChain("api-1"), time.Date(2026, 11, 23, 1, 0, 0, 0, time.UTC)
	var lines []string
	for _, r := range []audit.Record{
		{Event: audit.Sealed, Checkpoint: &audit.Checkpoint{}},
		{Event: audit.Begun, Verb: "put", Key: "projects/p", Who: &audit.Who{Kind: "user", Name: "alice"}},
		{Event: audit.Answered, Begun: 2, Verb: "put", Key: "projects/p", Result: audit.Done},
		{Event: audit.Begun, Verb: "delete", Key: "projects/p", Who: &audit.Who{Kind: "user", Name: "bob"}},
		{Event: audit.Sealed, Checkpoint: &audit.Checkpoint{Closes: true}},
	} {
		line, _, err := chain.Add(r, at, key)
		require.NoError(t, err)
		lines = append(lines, string(line.Text))
	}
	folder := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	export := func(name string, lines ...string) string { return file(name, []byte(strings.Join(lines, "\n")+"\n")) }
	keysOf := func(name string, k *audit.Key) string {
		data, err := json.Marshal(audit.Keys{Keys: []audit.PublicKey{k.Stated()}})
		require.NoError(t, err)
		return file(name, data)
	}
	ours, others, good := keysOf("keys.json", key), keysOf("others.json", other), export("good", lines...)
	for name, c := range map[string]struct {
		args  []string
		says  []string
		wrong string // "" when it is good
	}{
		"as it was written": {
			[]string{"--keys", ours, good},
			[]string{"5 records of 1 writers with 2 checkpoints", "signed by " + key.Stated().Key, "nothing says what came of delete projects/p, which user bob has asked for"}, "",
		},
		"keys after it":     {[]string{good, "--keys", ours}, []string{"signed by " + key.Stated().Key}, ""},
		"without keys":      {[]string{good}, []string{"without --keys it is not known whether these are the installation's"}, ""},
		"by another key":    {[]string{"--keys", others, good}, []string{"is none of those that may sign"}, "the records are not as they were written"},
		"one was changed":   {[]string{"--keys", ours, export("changed", lines[0], strings.Replace(lines[1], "alice", "carol", 1), lines[2], lines[3], lines[4])}, []string{"line 2: api-1 2: was changed"}, "the records are not as they were written"},
		"one is missing":    {[]string{"--keys", ours, export("missing", lines[0], lines[1], lines[3], lines[4])}, []string{"number 3 is missing"}, "the records are not as they were written"},
		"none is signed":    {[]string{"--partial", export("unsigned", lines[1], lines[2])}, []string{"2 records"}, "nothing of it is signed"},
		"no such file":      {[]string{filepath.Join(folder, "nothing")}, nil, "no such file"},
		"no keys":           {[]string{"--keys", good, good}, nil, "key"},
		"two files":         {[]string{good, good}, nil, "one file is to be given"},
		"no flags after --": {[]string{good, "--", "--partial"}, nil, "one file is to be given"},
		"one unknown after": {[]string{good, "--none"}, nil, "flag provided but not defined: -none"},
		"two unknown flags": {[]string{"--all", "--none", good}, nil, "flag provided but not defined: -none"},
		"an unknown flag":   {[]string{"--all", good}, nil, "flag provided but not defined"},
		"a part of a chain": {[]string{"--partial", "--keys", ours, export("part", lines[2:]...)}, []string{"3 records"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out, usage bytes.Buffer
			err := verifyAudit(c.args, &out, &usage)
			if c.wrong == "" {
				require.NoError(t, err, "%s", out.String())
			} else {
				require.ErrorContains(t, err, c.wrong)
			}
			for _, says := range c.says {
				require.Contains(t, out.String(), says)
			}
		})
	}
}

// TestAuditVerifyOfMadeUpNames: what callers have chosen, and who can write to the database, makes no line of its own and does
// nothing to a terminal.
func TestAuditVerifyOfMadeUpNames(t *testing.T) {
	key := audit.NewKey(bytes.Repeat([]byte{1}, 32))
	const made = "\x1b[2J\x1b[H5 records of 2 writers\r\nsigned by ed25519:00\n\u202e\x1b[8m"
	chain, at := audit.NewChain("api"+made), time.Date(2026, 11, 23, 1, 0, 0, 0, time.UTC)
	var lines []string
	for _, r := range []audit.Record{
		{Event: audit.Sealed, Checkpoint: &audit.Checkpoint{Heads: []audit.Head{{Writer: "gone" + made, Number: 7, Hash: "x"}}}},
		{Event: audit.Begun, Verb: "create", Key: "projects/" + made, Who: &audit.Who{Kind: "user", Name: "alice" + made}},
	} {
		line, _, err := chain.Add(r, at, key)
		require.NoError(t, err)
		lines = append(lines, string(line.Text))
	}
	export := filepath.Join(t.TempDir(), "export")
	require.NoError(t, os.WriteFile(export, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	var out bytes.Buffer
	require.ErrorIs(t, verifyAudit([]string{export}, &out, io.Discard), errForged)
	said := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, said, 6, "a problem, a command, a tail, how much there is, the key, and that it may be anybody's: %s", out.String())
	for _, line := range said {
		require.NotContains(t, strings.Map(func(r rune) rune {
			if strconv.IsPrint(r) {
				return -1
			}
			return '!'
		}, line), "!", line)
		require.False(t, strings.HasPrefix(line, "signed by ed25519:00"))
	}
	require.Contains(t, said[1], `nothing says what came of create projects/\x1b[2J\x1b[H5 records of 2 writers\r\nsigned by`)
}
