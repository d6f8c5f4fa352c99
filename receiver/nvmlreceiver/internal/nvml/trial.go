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

// A library that crashes during its initialization also crashes the process that has loaded it.
// Therefore, this program runs a trial before it loads a library for the first time, and again
// after the library file has changed. If no path is configured, the program also runs another trial
// after a library failed to initialize. A trial is a child process that runs the same program, but
// only loads and initializes the library.

// trialName is the value of argv[0] for a trial. Only the parent process sets argv[0], so neither
// the environment nor the configuration can turn a process into a trial. The arguments of the child
// process are the library candidates.
const trialName = "libnvidia-ml-trial"

// Before the child process loads a candidate, it writes a line with the candidate to a pipe to the
// parent process. Finally, the child process writes a line with the result.
const (
	resultTrying    = "trying"
	resultReturned  = "answered" // Followed by the file name; nvmlInit returned, either with success or with an error.
	resultNotLoaded = "none"     // Followed by the error; no candidate could be loaded.
)

// trialLimit is the time limit for a trial. The initialization may take several seconds per GPU.
var trialLimit = 2 * time.Minute

// trialProgram is the path of the program that this process runs, even if the program file was
// replaced in the meantime.
var trialProgram = "/proc/self/exe"

func init() {
	if len(os.Args) == 0 || os.Args[0] != trialName {
		return
	}
	// Stdout is the pipe to the parent process. Redirect stdout to stderr, so that text from the
	// library does not get into the pipe.
	pipe, err := unix.FcntlInt(uintptr(syscall.Stdout), unix.F_DUPFD_CLOEXEC, 0)
	if err = errors.Join(err, unix.Dup3(syscall.Stderr, syscall.Stdout, 0)); err != nil {
		syscall.Exit(1)
	}
	out := os.NewFile(uintptr(pipe), "pipe")
	say := func(what, of string) { fmt.Fprintf(out, "%s %s\n", what, strings.ReplaceAll(of, "\n", ": ")) }
	l, file, err := first(os.Args[1:], func(candidate string) { say(resultTrying, candidate) })
	if err == nil {
		_ = l.Close() // Ignore the error, because it will occur again when the parent process uses the library.
	}
	if file != "" {
		say(resultReturned, file)
	} else {
		say(resultNotLoaded, err.Error())
	}
	syscall.Exit(0) // exits immediately; os.Exit takes a second with the race detector
}

// The trials variable contains the library files that passed a trial, keyed by the configured path.
var trials = struct {
	sync.Mutex
	files map[string]triedFile
}{files: map[string]triedFile{}}

// triedFile is a library file that passed a trial, which means that its initialization returned.
// The info field describes the file at the time of the trial.
type triedFile struct {
	name string
	info os.FileInfo
}

// The same method reports whether the file is unchanged since the trial.
func (f triedFile) same() bool {
	now, err := os.Stat(f.name)
	return err == nil && os.SameFile(f.info, now) && f.info.Size() == now.Size() && f.info.ModTime().Equal(now.ModTime())
}

func forget(path string) {
	trials.Lock()
	defer trials.Unlock()
	delete(trials.files, path)
}

// The tried function returns the library file that passed a trial. If the file has not changed
// since the last trial, the function does not run another trial. If no child process can be run,
// the function returns "", and the library is used without a trial.
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

// signalName matches the name of the signal that the Go runtime prints when a signal ends the
// process.
var signalName = regexp.MustCompile(`SIG[A-Z]+`)

// The try function runs a child process and returns the library file whose initialization returned.
func try(candidates []string) (string, error) {
	// Pdeathsig makes the kernel kill the child process when the thread that created it ends, so
	// the goroutine must stay on this thread. The thread also ends when this process ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeout(context.Background(), trialLimit)
	defer cancel()
	child := exec.CommandContext(ctx, trialProgram, candidates...) //nolint:gosec // The command is this program.
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
	how := child.ProcessState.String() // err is nil if the library ended the process with the status 0
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

// The file method returns the path of the file from which the library with the given name was
// loaded. If the path is unknown, the method returns the name.
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
