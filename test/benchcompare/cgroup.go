package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// memoryCgroup is the directory of a contestant's own memory cgroup, version 1 or 2. Without a
// cgroup, a contestant's memory is read only from /proc, which does not include all the memory that
// the kernel charges to a cgroup.
type memoryCgroup string

// newMemoryCgroup creates a memory cgroup in dir, which must be a cgroup that enables the memory
// controller for its children. If dir is empty, newMemoryCgroup returns "".
func newMemoryCgroup(dir string) (memoryCgroup, error) {
	if dir == "" {
		return "", nil
	}
	own, err := os.MkdirTemp(dir, "benchcompare-")
	return memoryCgroup(own), err
}

// command returns a command that joins the cgroup and then executes args.
func (c memoryCgroup) command(args []string) []string {
	if c == "" {
		return args
	}
	return append([]string{"/bin/sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(string(c), "cgroup.procs")}, args...)
}

// remove deletes the cgroup. The kernel does not delete a cgroup that still contains a process.
func (c memoryCgroup) remove() {
	if c != "" {
		_ = os.Remove(string(c))
	}
}

// charged returns the memory charged to the cgroup and how much of that is page cache, in MiB. If
// there is no cgroup, both results are 0.
func (c memoryCgroup) charged() (all, cache float64, err error) {
	if c == "" {
		return 0, 0, nil
	}
	name, key := "memory.current", "file"
	if _, err := os.Stat(filepath.Join(string(c), name)); err != nil {
		name, key = "memory.usage_in_bytes", "cache"
	}
	content, err := os.ReadFile(filepath.Join(string(c), name))
	if err != nil {
		return 0, 0, err
	}
	if all, err = strconv.ParseFloat(string(bytes.TrimSpace(content)), 64); err != nil {
		return 0, 0, err
	}
	stat, err := os.ReadFile(filepath.Join(string(c), "memory.stat"))
	if err != nil {
		return 0, 0, err
	}
	for line := range bytes.Lines(stat) {
		if text, ok := bytes.CutPrefix(line, []byte(key+" ")); ok {
			cache, err = strconv.ParseFloat(string(bytes.TrimSpace(text)), 64)
			return all / mib, cache / mib, err
		}
	}
	return 0, 0, fmt.Errorf("no %q in memory.stat of %s", key, c)
}

const mib = 1 << 20
