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

// A library that crashes in its initialisation takes its process with it. So this program is
// run once more, as a child that only tries the library, before the library is loaded here
// for the first time, and again when its file is another one.

// trialName is the name by which a child knows that it is one: argv[0], which only who runs
// a program chooses, and not its environment or its configuration. Its arguments are the
// candidates.
const trialName = "libnvidia-ml-trial"

// What a child says, a line each: a candidate before it is loaded, and what came of all.
const (
	saysTrying   = "trying"
	saysAnswered = "answered" // by a file, whatever nvmlInit returned
	saysNone     = "none"     // could be loaded
)

// trialLimit is how long a trial may take. A driver may need seconds for each GPU.
var trialLimit = 2 * time.Minute

// trialProgram is this one, also when its file was replaced meanwhile.
var trialProgram = "/proc/self/exe"

func init() {
	if len(os.Args) == 0 || os.Args[0] != trialName {
		return
	}
	say := func(what, of string) { fmt.Printf("\n%s %s\n", what, strings.ReplaceAll(of, "\n", ": ")) }
	l, file, err := first(os.Args[1:], func(candidate string) { say(saysTrying, candidate) })
	if err == nil {
		_ = l.Close() // What it returns is seen when it is used.
	}
	if file != "" {
		say(saysAnswered, file)
	} else {
		say(saysNone, err.Error())
	}
	syscall.Exit(0) // at once: with the race detector os.Exit takes a second
}

// trials are the files that were tried, by the path that is configured.
var trials = struct {
	sync.Mutex
	files map[string]triedFile
}{files: map[string]triedFile{}}

// triedFile is a library whose initialisation came back, and what its file was then.
type triedFile struct {
	name string
	info os.FileInfo
}

// same reports whether the file is still what it was.
func (f triedFile) same() bool {
	now, err := os.Stat(f.name)
	return err == nil && os.SameFile(f.info, now) && f.info.Size() == now.Size() && f.info.ModTime().Equal(now.ModTime())
}

func forget(path string) {
	trials.Lock()
	defer trials.Unlock()
	delete(trials.files, path)
}

// tried returns the first of the candidates that is known to survive its initialisation. It
// returns "" where no child can be run, which says nothing about a library.
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

// signalName is in what Go's runtime writes when a signal ends the process.
var signalName = regexp.MustCompile(`SIG[A-Z]+`)

// try runs a child and returns the file that it says has answered.
func try(candidates []string) (string, error) {
	// The kernel ends the child with the thread that made it, so with this process.
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
	case what == saysAnswered:
		return of, nil
	case what == saysNone:
		return "", fmt.Errorf("%w: %s", ErrNoLibrary, strings.TrimPrefix(of, ErrNoLibrary.Error()+": "))
	case ctx.Err() != nil:
		return "", fmt.Errorf("nvmlInit of %s did not come back within %s", cmp.Or(of, candidates[0]), trialLimit)
	case what != saysTrying:
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

// file returns the file of a library that was loaded by a name, or that name.
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
