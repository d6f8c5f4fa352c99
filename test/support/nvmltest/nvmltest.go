// Package nvmltest builds a stub of libnvidia-ml.so.1 for tests. The stub returns scripted results.
// The format of the script is described in testdata/nvml.c.
package nvmltest

import (
	"embed"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed testdata
var sources embed.FS

// built contains the compiled libraries, keyed by compiler flags.
var built = struct {
	sync.Mutex
	libraries map[string][]byte
}{libraries: map[string][]byte{}}

// Stub is a stub library in a separate directory.
type Stub struct {
	// Path is the path of the library.
	Path string
	// Dir is the directory of the library and the script.
	Dir string
}

// Build builds a stub library with an empty script. The flags are passed to the compiler and can
// include -DOLD and -DR535.
func Build(tb testing.TB, flags ...string) *Stub {
	tb.Helper()
	built.Lock()
	defer built.Unlock()
	key := strings.Join(flags, " ")
	library, ok := built.libraries[key]
	if !ok {
		library = read(tb, compile(tb, "nvml.c", append(flags, "-shared", "-fPIC")...))
		built.libraries[key] = library
	}
	s := &Stub{Dir: tb.TempDir()}
	s.Path = filepath.Join(s.Dir, "libnvidia-ml.so.1")
	write(tb, s.Path, library)
	s.Script(tb, "")
	return s
}

// Script sets the results that the library returns after its next initialization. The script file
// is replaced atomically.
func (s *Stub) Script(tb testing.TB, script string) {
	tb.Helper()
	next := filepath.Join(s.Dir, "script.next")
	write(tb, next, []byte(script))
	require.NoError(tb, os.Rename(next, filepath.Join(s.Dir, "script")))
}

// Record starts a new recording of function calls.
func (s *Stub) Record(tb testing.TB) {
	tb.Helper()
	write(tb, filepath.Join(s.Dir, "calls"), nil)
}

// Calls returns the names of the functions that have been called since the last call to Record.
func (s *Stub) Calls(tb testing.TB) []string {
	tb.Helper()
	return strings.Fields(string(read(tb, filepath.Join(s.Dir, "calls"))))
}

// Layout returns the sizes of NVML's structs and the offsets of their fields, as laid out by the C
// compiler. Sizes are labeled "struct", and offsets are labeled "struct.field".
func Layout(tb testing.TB) string {
	tb.Helper()
	program := compile(tb, "layout.c")
	out, err := exec.CommandContext(tb.Context(), program).Output() //nolint:gosec // The program has just been compiled.
	require.NoError(tb, err)
	return string(out)
}

// compile compiles one of the C sources and returns the path of the output file.
func compile(tb testing.TB, source string, flags ...string) string {
	tb.Helper()
	dir := tb.TempDir()
	folder, err := fs.Sub(sources, "testdata")
	require.NoError(tb, err)
	require.NoError(tb, os.CopyFS(dir, folder))
	output := filepath.Join(dir, "output")
	args := append([]string{"-O1", "-Wall", "-Wextra", "-Werror", "-o", output, filepath.Join(dir, source)}, flags...)
	out, err := exec.CommandContext(tb.Context(), "gcc", args...).CombinedOutput() //nolint:gosec // Paths and flags are set by the tests.
	require.NoError(tb, err, "gcc: %s", out)
	return output
}

func write(tb testing.TB, path string, data []byte) {
	tb.Helper()
	require.NoError(tb, os.WriteFile(path, data, 0o600))
}

func read(tb testing.TB, path string) []byte {
	tb.Helper()
	data, err := os.ReadFile(path) //nolint:gosec // The path is in one of the test's directories.
	require.NoError(tb, err)
	return data
}
