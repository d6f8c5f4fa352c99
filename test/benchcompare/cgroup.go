package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// memoryCgroup is a memory cgroup of a contestant's own, of either version. A contestant without
// one is measured by /proc alone, which does not say what the kernel charges for.
type memoryCgroup string

// newMemoryCgroup makes one in a directory of a cgroup that may have children with the memory
// controller; in none where dir is empty.
func newMemoryCgroup(dir string) (memoryCgroup, error) {
	if dir == "" {
		return "", nil
	}
	own, err := os.MkdirTemp(dir, "benchcompare-")
	return memoryCgroup(own), err
}

// command returns a command that runs in the cgroup from its first instruction on.
func (c memoryCgroup) command(args []string) []string {
	if c == "" {
		return args
	}
	return append([]string{"/bin/sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(string(c), "cgroup.procs")}, args...)
}

// remove removes the cgroup, which its process has left.
func (c memoryCgroup) remove() {
	if c != "" {
		_ = os.Remove(string(c))
	}
}

// charged returns what the cgroup is charged, and the page cache in it, in MiB; 0 without one.
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
