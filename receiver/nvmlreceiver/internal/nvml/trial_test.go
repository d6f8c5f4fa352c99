//go:build linux && !otelcol_gpu_no_nvml

package nvml

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/nvmltest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/scripttest"
)

func TestReceiverSurvivesALibraryThatCrashes(t *testing.T) {
	stub := nvmltest.Build(t)
	for how, want := range map[string]string{
		"crash=segv": "SIGSEGV", "crash=abort": "SIGABRT", "crash=exit": "exit status 3", "crash=exit status=0": "exit status 0",
		// the library also writes to stdout
		"text=failed crash=segv": "SIGSEGV", "text=answered crash=abort": "SIGABRT", "text=none crash=exit": "exit status 3",
	} {
		t.Run(how, func(t *testing.T) {
			stub.Script(t, "init "+how+"\n")
			for range 2 {
				_, err := Open(stub.Path)
				require.ErrorIs(t, err, ErrCrashed)
				require.EqualError(t, err, ErrCrashed.Error()+": "+stub.Path+": "+want)
				require.False(t, mapped(t, stub.Path), "the library is not loaded into this process")
			}
		})
	}
	stub.Script(t, h100)
	l, err := Open(stub.Path)
	require.NoError(t, err, "the library was repaired")
	require.NoError(t, l.Close())
}

// The child function makes trials run a shell script instead of this program.
func child(t *testing.T, script string) {
	t.Helper()
	before := trialProgram
	t.Cleanup(func() { trialProgram = before })
	trialProgram = filepath.Join(t.TempDir(), "child")
	scripttest.Write(t, trialProgram, "#!/bin/sh\n"+script)
}

// The opened function reports whether the library at the given path can be opened.
func opened(t *testing.T, path string) bool {
	t.Helper()
	l, err := Open(path)
	if err != nil {
		require.ErrorIs(t, err, ErrCrashed)
		return false
	}
	require.NoError(t, l.Close())
	return true
}

func TestLibraryIsRetriedWhenItsFileChanges(t *testing.T) {
	stub := nvmltest.Build(t)
	require.True(t, opened(t, stub.Path))
	stub.Script(t, "init rc=9\n")
	_, err := Open(stub.Path)
	require.ErrorIs(t, err, ErrDriverNotLoaded)
	stub.Script(t, "")

	child(t, "echo trying $1; exit 1")
	require.True(t, opened(t, stub.Path), "an error of nvmlInit does not cause another trial")
	data, err := os.ReadFile(stub.Path)
	require.NoError(t, err)
	later := time.Now().Add(time.Second)
	for name, change := range map[string]func() error{
		"its time":  func() error { return os.Chtimes(stub.Path, later, later) },
		"its inode": func() error { return os.Rename(nvmltest.Build(t).Path, stub.Path) },
		"its size":  func() error { return os.WriteFile(stub.Path, append(data, 0), 0o600) },
	} {
		require.NoError(t, change())
		require.False(t, opened(t, stub.Path), name)
		require.False(t, opened(t, stub.Path), "%s: a library that crashed is tried again", name)
		crashing := trialProgram
		trialProgram = "/proc/self/exe"
		require.True(t, opened(t, stub.Path))
		trialProgram = crashing
	}
}

func TestHangingLibraryIsAbandoned(t *testing.T) {
	before := trialLimit
	t.Cleanup(func() { trialLimit = before })
	trialLimit = time.Second
	stub := nvmltest.Build(t)
	stub.Script(t, "init ms=600000\n")
	_, err := Open(stub.Path)
	require.EqualError(t, err, "nvmlInit of "+stub.Path+" did not return within 1s")
}

// Even if no child process can run, the library might work.
func TestLibraryIsLoadedWithoutATrialIfNoChildCanRun(t *testing.T) {
	stub := nvmltest.Build(t)
	child(t, "echo usage: something; exit 1")
	require.True(t, opened(t, stub.Path))
	trialProgram = filepath.Join(t.TempDir(), "none")
	require.True(t, opened(t, stub.Path))
}

func TestLibraryOnTheLoaderPathIsIdentifiedByItsFile(t *testing.T) {
	stub := nvmltest.Build(t)
	// the loader reads this variable only when a program starts, so only the child process uses it
	t.Setenv("LD_LIBRARY_PATH", stub.Dir)
	require.True(t, opened(t, ""))
	child(t, "echo trying $1; exit 1")
	require.True(t, opened(t, ""))
	require.NoError(t, os.Rename(nvmltest.Build(t, "-DOLD").Path, stub.Path))
	require.False(t, opened(t, ""))
}
