package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Instead of a cgroup, the test uses a directory that contains files in the kernel's format for
// each cgroup version.
func TestTheChargedMemoryIsReadFromBothCgroupVersions(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"version 2": {"memory.current": "41943040\n", "memory.stat": "anon 20971520\nfile 10485760\nfile_mapped 5\n"},
		"version 1": {"memory.usage_in_bytes": "41943040\n", "memory.stat": "cache 10485760\nrss 20971520\ntotal_cache 5\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, content := range files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600))
			}
			all, cache, err := memoryCgroup(dir).charged()
			require.NoError(t, err)
			assert.InDelta(t, 40, all, 0)
			assert.InDelta(t, 10, cache, 0)
		})
	}
	_, _, err := memoryCgroup(t.TempDir()).charged()
	require.Error(t, err, "no cgroup has no files")
	all, cache, err := memoryCgroup("").charged()
	require.NoError(t, err)
	assert.Zero(t, all+cache, "no values without a cgroup")
}

func TestAContestantIsInItsCgroupBeforeItRuns(t *testing.T) {
	group, err := newMemoryCgroup(t.TempDir())
	require.NoError(t, err)
	p, err := start(t.Context(), t.TempDir(), group.command([]string{"/bin/sh", "-c", `echo "$$ $1"`, "sh", "two words"}))
	require.NoError(t, err)
	<-p.ended
	pid := strconv.Itoa(p.cmd.Process.Pid)
	moved, err := os.ReadFile(filepath.Join(string(group), "cgroup.procs"))
	require.NoError(t, err)
	assert.Equal(t, pid, strings.TrimSpace(string(moved)))
	assert.Equal(t, pid+" two words\n", p.output(), "the same process, with its arguments")

	none, err := newMemoryCgroup("")
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, none.command([]string{"a", "b"}))
	none.remove()
}
