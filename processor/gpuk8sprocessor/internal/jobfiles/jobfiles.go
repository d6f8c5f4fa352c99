// Package jobfiles reads which batch jobs have which GPU from the directory that dcgm-exporter
// reads with --hpc-job-mapping-dir: a file for each GPU or MIG instance, with one job id a line.
package jobfiles

import (
	"errors"
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
	// settled is how long ago a file was changed that is whole: who writes it in several steps
	// takes less.
	settled = time.Second
	// maxEntries bounds what the directory may hold, maxBytes what is read of all its files.
	maxEntries = 10_000
	maxBytes   = 1 << 20
)

// State is what became of a file.
type State uint8

const (
	// Used files were read.
	Used State = iota
	// Unfinished files were changed just now, and may be half written.
	Unfinished
	// Unreadable files cannot be opened or read, or are no regular files.
	Unreadable
	// Invalid files have a line that is no id.
	Invalid
	// TooLarge files are more than is read.
	TooLarge
	// NumStates is one more than the highest State.
	NumStates
)

// String names the state as the self-metric does.
func (s State) String() string {
	return [...]string{"used", "unfinished", "unreadable", "invalid", "too_large"}[s]
}

// Mapping is what the files say.
type Mapping struct {
	// Jobs are the ids by file name: the number of a GPU, or "<gpu>.<GPU instance>". A file
	// that is not used has none.
	Jobs map[string][]string
	// Files counts the files by state.
	Files [NumStates]int
	// Bad is the name of a file that will not be used as it is, empty for none, and BadState why.
	Bad      string
	BadState State
}

var errEntries = errors.New("the directory holds too much")

// name matches the name of a file.
var name = regexp.MustCompile(`^(0|[1-9]\d{0,4})(\.(0|[1-9]\d{0,4}))?$`)

// Read reads the files of a directory. One that does not exist has none.
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
	d, err := os.Open(dir) //nolint:gosec // The path is configured.
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // nothing was written
	entries, err := d.ReadDir(maxEntries)
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil
	case len(entries) == maxEntries:
		return nil, errEntries
	}
	return entries, err
}

// read returns the text of a file. At most left bytes are read.
func read(path string, now time.Time, left *int64) (string, State) {
	// A pipe without a writer would not come back.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // Of a directory that is configured.
	if err != nil {
		return "", Unreadable
	}
	defer func() { _ = f.Close() }() // nothing was written
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

// parse returns the ids in a file's text. If a line is no id, the holder of the GPU is unknown.
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
