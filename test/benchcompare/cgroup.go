package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// memoryCgroup is the directory of a contestant's own memory cgroup, version 1 or 2. Without a
// cgroup, only /proc measures a contestant's memory. It does not include all memory that the kernel
// charges.
type memoryCgroup string

// newMemoryCgroup creates a memory cgroup in dir, which must be a cgroup whose children may use the
// memory controller. It returns "" if dir is empty.
func newMemoryCgroup(dir string) (memoryCgroup, error) {
	if dir == "" {
		return "", nil
	}
	own, err := os.MkdirTemp(dir, "benchcompare-")
	return memoryCgroup(own), err
}

// command returns a command that runs in the cgroup from the start.
func (c memoryCgroup) command(args []string) []string {
	if c == "" {
		return args
	}
	return append([]string{"/bin/sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(string(c), "cgroup.procs")}, args...)
}

// remove deletes the cgroup. Its process must have ended.
func (c memoryCgroup) remove() {
	if c != "" {
		_ = os.Remove(string(c))
	}
}

// charged returns the memory that is charged to the cgroup, and the page cache in it, in MiB. Both
// are 0 without a cgroup.
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
