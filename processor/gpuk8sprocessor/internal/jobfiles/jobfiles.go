// Package jobfiles reads the batch jobs of each GPU from the directory that dcgm-exporter reads
// with --hpc-job-mapping-dir. The directory contains one file per GPU or MIG instance, with one job
// ID per line.
package jobfiles

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

const (
	// settled is the age from which a file counts as complete. Programs that write a file in
	// several steps need less time.
	settled = time.Second
	// maxEntries limits the entries of the directory. maxBytes limits the bytes that are read from
	// all files together.
	maxEntries = 10_000
	maxBytes   = 1 << 20
)

// State is the result of reading a file.
type State uint8

const (
	// Used files were read and are valid.
	Used State = iota
	// Unfinished files were changed less than a second ago and may be incomplete.
	Unfinished
	// Unreadable files cannot be opened or read, or are not regular files.
	Unreadable
	// Invalid files contain a line that is not a job ID.
	Invalid
	// TooLarge files exceed the byte limit.
	TooLarge
	// NumStates is the number of states.
	NumStates
)

// String returns the value of the self-metric's attribute.
func (s State) String() string {
	return [...]string{"used", "unfinished", "unreadable", "invalid", "too_large"}[s]
}

// Mapping contains the contents of the files.
type Mapping struct {
	// Jobs contains the job IDs by file name. A file name is the number of a GPU or "<gpu>.<GPU
	// instance>". Unused files have no IDs.
	Jobs map[string][]string
	// Files counts the files by state.
	Files [NumStates]int
	// Bad is the name of a file that is unusable until it is changed, or "". BadState is the state
	// of that file.
	Bad      string
	BadState State
}

var errEntries = fmt.Errorf("the directory has %d or more entries", maxEntries)

// name matches the names of job files.
var name = regexp.MustCompile(`^(0|[1-9]\d{0,4})(\.(0|[1-9]\d{0,4}))?$`)

// Read reads the files of a directory. A missing directory counts as empty.
func Read(dir string, now time.Time) (*Mapping, error) {
	m := &Mapping{Jobs: map[string][]string{}}
	entries, err := list(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, err
	}
	left := int64(maxBytes)
	for _, entry := range entries {
		if entry.IsDir() || !name.MatchString(entry.Name()) {
			continue
		}
		text, state := read(filepath.Join(dir, entry.Name()), now, &left)
		if state == Used {
			m.Jobs[entry.Name()], state = parse(text)
		}
		m.Files[state]++
		if state > Unfinished && m.Bad == "" {
			m.Bad, m.BadState = entry.Name(), state
		}
	}
	return m, nil
}

func list(dir string) ([]fs.DirEntry, error) {
	d, err := os.Open(dir) //nolint:gosec // The path is a setting.
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // the file was only read
	entries, err := d.ReadDir(maxEntries)
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil
	case len(entries) == maxEntries:
		return nil, errEntries
	}
	return entries, err
}

// read returns the text of a file. It reads at most left bytes.
func read(path string, now time.Time, left *int64) (string, State) {
	// Without O_NONBLOCK, opening a pipe that has no writer would block.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // The directory is a setting.
	if err != nil {
		return "", Unreadable
	}
	defer func() { _ = f.Close() }() // the file was only read
	info, err := f.Stat()
	switch {
	case err != nil || !info.Mode().IsRegular():
		return "", Unreadable
	case now.Sub(info.ModTime()) < settled:
		return "", Unfinished
	}
	text, err := io.ReadAll(io.LimitReader(f, *left+1))
	switch {
	case err != nil:
		return "", Unreadable
	case int64(len(text)) > *left:
		return "", TooLarge
	}
	*left -= int64(len(text))
	return string(text), Used
}

// parse returns the job IDs in a file's text. If any line is not a job ID, it returns none, and the
// holders of the GPU are unknown.
func parse(text string) ([]string, State) {
	var ids []string
	for line := range strings.Lines(text) {
		id := strings.TrimSpace(line)
		if id == "" {
			continue
		}
		if !catalogue.IsJobID(id) {
			return nil, Invalid
		}
		ids = append(ids, id)
	}
	return ids, Used
}
