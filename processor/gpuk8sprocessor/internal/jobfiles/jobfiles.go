// Package jobfiles reads the batch jobs of each GPU from the directory that is passed to
// dcgm-exporter in --hpc-job-mapping-dir. The directory contains one file for each GPU or MIG
// instance. Each file contains one job ID per line.
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
	// settled is the minimum age at which a file counts as complete. A program that writes a file
	// in several steps takes less than one second.
	settled = time.Second
	// If the directory has maxEntries or more entries, no file is read. maxBytes is the maximum
	// number of bytes that are read from all files together.
	maxEntries = 10_000
	maxBytes   = 1 << 20
)

// State is the result of reading a file.
type State uint8

const (
	// Used means that the file was read and is valid.
	Used State = iota
	// Unfinished means that the file was modified less than a second ago and may be incomplete.
	Unfinished
	// Unreadable means that the file cannot be opened or read, or is not a regular file.
	Unreadable
	// Invalid means that the file contains a line that is not a job ID.
	Invalid
	// TooLarge means that the file exceeds what is left of the byte limit for all files together.
	TooLarge
	// NumStates is the number of states.
	NumStates
)

// String returns the state as an attribute value of the self-metric.
func (s State) String() string {
	return [...]string{"used", "unfinished", "unreadable", "invalid", "too_large"}[s]
}

// Mapping contains the contents of all job files in the directory.
type Mapping struct {
	// Jobs maps file names to job IDs. A file name has the format "<GPU>" or "<GPU>.<GPU
	// instance>", where both parts are numbers. Files whose state is not Used have no job IDs.
	Jobs map[string][]string
	// Unusable contains the names of the files whose state is not Used. The jobs of the GPUs of
	// these files are unknown.
	Unusable map[string]bool
	// Files contains the number of files in each state.
	Files [NumStates]int
	// Bad is the name of the first file that cannot be used until the file is changed, or "" if
	// there is no such file. BadState is the state of the Bad file.
	Bad      string
	BadState State
}

var errEntries = fmt.Errorf("the directory has %d or more entries", maxEntries)

// name is a regular expression that matches valid names of job files.
var name = regexp.MustCompile(`^(0|[1-9]\d{0,4})(\.(0|[1-9]\d{0,4}))?$`)

// Read reads the job files in a directory. If the directory does not exist, the result contains no
// jobs.
func Read(dir string, now time.Time) (*Mapping, error) {
	m := &Mapping{Jobs: map[string][]string{}, Unusable: map[string]bool{}}
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
		if state != Used {
			m.Unusable[entry.Name()] = true
		}
		if state > Unfinished && m.Bad == "" {
			m.Bad, m.BadState = entry.Name(), state
		}
	}
	return m, nil
}

func list(dir string) ([]fs.DirEntry, error) {
	d, err := os.Open(dir) //nolint:gosec // The path comes from the configuration.
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // Ignore the error, because nothing was written.
	entries, err := d.ReadDir(maxEntries)
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil
	case len(entries) == maxEntries:
		return nil, errEntries
	}
	return entries, err
}

// read returns the contents of a file and subtracts the file's length from *left. If the file is
// longer than *left, the state is TooLarge.
func read(path string, now time.Time, left *int64) (string, State) {
	// If the file were a named pipe without a writer, opening the file would block without
	// O_NONBLOCK.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // The directory comes from the configuration.
	if err != nil {
		return "", Unreadable
	}
	defer func() { _ = f.Close() }() // Ignore the error, because nothing was written.
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

// parse returns the job IDs in the contents of a file. If any line is not a job ID, parse returns
// no job IDs, so that the holders of the GPU are unknown.
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
