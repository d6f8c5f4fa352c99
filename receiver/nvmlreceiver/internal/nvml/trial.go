//go:build linux && !otelcol_gpu_no_nvml

package nvml

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

// If a library crashes during its initialization, it crashes the process that loaded it. Therefore,
// this program runs itself as a child process that only tries the library. It does this before it
// loads the library for the first time, and again after the file of the library has changed.

// trialName is the argv[0] that tells a process that it is a trial. The parent process sets
// argv[0], so it cannot come from the environment or the configuration. The arguments of the child
// process are the candidates.
const trialName = "libnvidia-ml-trial"

// A child process prints a line for each candidate before it loads the candidate, and then a line
// with the result.
const (
	resultTrying    = "trying"
	resultReturned  = "answered" // followed by the file name, regardless of the result of nvmlInit
	resultNotLoaded = "none"     // no candidate could be loaded
)

// trialLimit is the time limit of a trial. A driver may need seconds per GPU.
var trialLimit = 2 * time.Minute

// trialProgram is the program that is currently running, even if its file was replaced in the
// meantime.
var trialProgram = "/proc/self/exe"

func init() {
	if len(os.Args) == 0 || os.Args[0] != trialName {
		return
	}
	say := func(what, of string) { fmt.Printf("\n%s %s\n", what, strings.ReplaceAll(of, "\n", ": ")) }
	l, file, err := first(os.Args[1:], func(candidate string) { say(resultTrying, candidate) })
	if err == nil {
		_ = l.Close() // The same error occurs when the library is used.
	}
	if file != "" {
		say(resultReturned, file)
	} else {
		say(resultNotLoaded, err.Error())
	}
	syscall.Exit(0) // immediately, because os.Exit takes a second with the race detector
}

// trials contains the files that were tried, keyed by the configured path.
var trials = struct {
	sync.Mutex
	files map[string]triedFile
}{files: map[string]triedFile{}}

// triedFile is a library whose initialization returned. It contains the state of the file at that
// time.
type triedFile struct {
	name string
	info os.FileInfo
}

// same reports whether the file is unchanged.
func (f triedFile) same() bool {
	now, err := os.Stat(f.name)
	return err == nil && os.SameFile(f.info, now) && f.info.Size() == now.Size() && f.info.ModTime().Equal(now.ModTime())
}

func forget(path string) {
	trials.Lock()
	defer trials.Unlock()
	delete(trials.files, path)
}

// tried returns the first candidate whose initialization is known to return. If no child process can
// be run, the library is untested, and tried returns "".
func tried(path string, candidates []string) (string, error) {
	trials.Lock()
	defer trials.Unlock()
	if f, ok := trials.files[path]; ok && f.same() {
		return f.name, nil
	}
	delete(trials.files, path)
	file, err := try(candidates)
	if file == "" || err != nil {
		return "", err
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoLibrary, err)
	}
	trials.files[path] = triedFile{file, info}
	return file, nil
}

// signalName matches the signal in the output of Go's runtime when a signal ends the process.
var signalName = regexp.MustCompile(`SIG[A-Z]+`)

// try runs a child and returns the file whose initialization returned.
func try(candidates []string) (string, error) {
	// The kernel kills the child when the thread that created the child ends, which is also the
	// case when this process ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeout(context.Background(), trialLimit)
	defer cancel()
	child := exec.CommandContext(ctx, trialProgram, candidates...) //nolint:gosec // It is this program.
	child.Args[0] = trialName
	child.Env = append(os.Environ(), "GOTRACEBACK=none")
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	child.WaitDelay = time.Second
	out, err := child.Output()
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	what, of, _ := strings.Cut(string(lines[len(lines)-1]), " ")
	switch {
	case what == resultReturned:
		return of, nil
	case what == resultNotLoaded:
		return "", fmt.Errorf("%w: %s", ErrNoLibrary, strings.TrimPrefix(of, ErrNoLibrary.Error()+": "))
	case ctx.Err() != nil:
		return "", fmt.Errorf("nvmlInit of %s did not return within %s", cmp.Or(of, candidates[0]), trialLimit)
	case what != resultTrying:
		return "", nil
	}
	how := err.Error()
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		if name := signalName.Find(ended.Stderr); name != nil {
			how = string(name)
		}
	}
	return "", fmt.Errorf("%w: %s: %s", ErrCrashed, of, how)
}

// dlInfo is Dl_info.
type dlInfo struct {
	file *byte
	_    [3]uintptr
}

// file returns the file of a library that was loaded with the given name, or the name itself.
func (l *Library) file(name string) string {
	dladdr, err := purego.Dlsym(purego.RTLD_DEFAULT, "dladdr")
	if err != nil {
		return name
	}
	purego.SyscallN(dladdr, l.symbols[symInit], address(&l.info))
	if l.info.file == nil {
		return name
	}
	return unix.BytePtrToString(l.info.file)
}
