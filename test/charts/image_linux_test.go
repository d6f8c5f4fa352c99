package charts

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/notruntest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/scripttest"
)

// image contains the properties of the image that the Dockerfile defines.
type image struct {
	uid, gid        int
	entrypoint, cmd string
	// config is the repository path of the configuration file that cmd uses.
	config string
	// state is a directory that the image's user owns.
	state string
	env   []string
}

func readDockerfile(t *testing.T) image {
	t.Helper()
	content, err := os.ReadFile(root + "/Dockerfile")
	require.NoError(t, err)
	find := func(expression string) []string {
		match := regexp.MustCompile("(?m)^" + expression + "$").FindStringSubmatch(string(content))
		require.NotNil(t, match, expression)
		return match[1:]
	}
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	user := find(`USER (\d+):(\d+)`)
	img := image{uid: number(user[0]), gid: number(user[1]), env: find(`ENV (\S+=\S*)`)}
	img.entrypoint = find(`ENTRYPOINT \["(\S+)"\]`)[0]
	img.cmd = find(`CMD \["--config=(\S+)"\]`)[0]
	img.config = find(`COPY --from=build /src/(\S+) ` + img.cmd)[0]
	state := find(`COPY --from=build --chown=(\S+) /out/state (\S+)`)
	assert.Equal(t, strings.Join(user, ":"), state[0], "the state directory is the user's")
	img.state = state[1]
	return img
}

// The root file system of the image contains only the program, its configuration, certificates, and
// a state directory. With only these files, the image's user can scrape an exporter and send a
// window to a backend over TLS.
func TestTheStaticProgramRunsInAnEmptyRoot(t *testing.T) {
	program := os.Getenv("OTELCOL_GPU_STATIC")
	if program == "" {
		notruntest.Skip(t, "the static program: OTELCOL_GPU_STATIC does not name it; `make check` builds it and runs this")
	}
	img := readDockerfile(t)
	arrived := make(chan struct{}, 1)
	backend := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case arrived <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(backend.Close)
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",device="nvidia0",modelName="NVIDIA L4",Hostname="n1"} 50`+"\n")
	}))
	t.Cleanup(exporter.Close)

	dir := t.TempDir()
	install := func(file string, content []byte) {
		path := filepath.Join(dir, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, content, 0o644))
		require.NoError(t, os.Chmod(path, 0o644))
	}
	read := func(file string) []byte {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		return content
	}
	entrypoint := filepath.Join(dir, img.entrypoint)
	require.NoError(t, os.MkdirAll(filepath.Dir(entrypoint), 0o755))
	scripttest.Write(t, entrypoint, string(read(program)))
	install(img.cmd, read(filepath.Join(root, img.config)))
	install("/etc/ssl/certs/ca-certificates.crt",
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: backend.Certificate().Raw}))
	state := filepath.Join(dir, img.state)
	require.NoError(t, os.MkdirAll(state, 0o755))
	// The test's directory and its parent are private by default, but the image's user needs to
	// access them.
	for _, path := range []string{dir, filepath.Dir(dir)} {
		require.NoError(t, os.Chmod(path, 0o755))
	}

	health, telemetry := processtest.FreeAddress(t), processtest.Port(t, processtest.FreeAddress(t))
	cmd := exec.Command(img.entrypoint, "--config="+img.cmd,
		"--set=receivers.dcgm.collection_interval=500ms", "--set=receivers.dcgm.stages.gpu_window.window=2s", "--set=receivers.dcgm.stages.gpu_window.grace=1s")
	cmd.Env = append(slices.Clone(img.env), "HEALTH_ENDPOINT="+health, "TELEMETRY_PORT="+telemetry,
		"DCGM_ENDPOINT="+exporter.URL+"/metrics", "OTLP_ENDPOINT="+backend.URL)
	cmd.Dir = "/"
	if os.Getuid() == 0 {
		require.NoError(t, os.Chown(state, img.uid, img.gid))
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: uint32(img.uid), Gid: uint32(img.gid)}}
	} else {
		// In a new user namespace, the user who runs the test is mapped to the image's user and is
		// allowed to call chroot.
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Chroot: dir, Cloneflags: syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: img.uid, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: img.gid, HostID: os.Getgid(), Size: 1}},
		}
	}
	collector := processtest.StartBy(t, cmd, func() error {
		err := cmd.Start()
		if errors.Is(err, syscall.EPERM) {
			notruntest.Skip(t, fmt.Sprintf("the static program in an empty root: changing the root needs privileges: %v", err))
		}
		return err
	})
	processtest.Until(t, "a window", func() bool { return len(arrived) > 0 }, collector)
	assert.Contains(t, processtest.Get(t, "http://"+health), "Server available")
	status, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/status")
	require.NoError(t, err)
	if os.Getuid() == 0 {
		assert.Contains(t, string(status), "\nUid:\t"+strconv.Itoa(img.uid)+"\t")
	}

	collector.Stop(t)
	kept, err := os.ReadDir(state)
	require.NoError(t, err)
	assert.NotEmpty(t, kept, "the window processor's state")
}

// The image's build context must contain all source files of the program.
func TestTheImageIsBuiltFromEverythingThatItNeeds(t *testing.T) {
	content, err := os.ReadFile(root + "/.dockerignore")
	require.NoError(t, err)
	sent := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			sent[name] = true
		}
	}
	const module = "github.com/otelcol-gpu/otelcol-gpu/"
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", "remove_all_sd",
		"-f", `{{.ImportPath}}{{range .EmbedFiles}} {{.}}{{end}}`, "./cmd/otelcol-gpu")
	cmd.Dir = root
	output, err := cmd.Output()
	require.NoError(t, err)
	found := 0
	for line := range strings.Lines(string(output)) {
		fields := strings.Fields(line)
		path, ours := strings.CutPrefix(fields[0], module)
		if !ours {
			continue
		}
		found++
		top, _, _ := strings.Cut(path, "/")
		assert.True(t, sent[top], "%s is not part of the build context", path)
		for _, file := range fields[1:] {
			assert.NotContains(t, path+"/"+file, "/testdata/", "testdata is not part of the build context")
		}
	}
	assert.NotZero(t, found)
	for _, file := range []string{"go.mod", "go.sum", "builder-config.yaml", readDockerfile(t).config} {
		assert.True(t, sent[file], "%s is not part of the build context", file)
	}
}

// The version of the distribution is defined in builder-config.yaml.
func TestImageAndChartHaveTheVersionOfTheDistribution(t *testing.T) {
	read := func(file string) string {
		content, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		return string(content)
	}
	version, ok := at(t, read("builder-config.yaml"), "dist", "version").(string)
	require.True(t, ok)
	assert.Equal(t, version, at(t, read("charts/otelcol-gpu/Chart.yaml"), "appVersion"))
	assert.Contains(t, read("Dockerfile"), "\nARG VERSION="+version+"\n")
}

// A release build requires that all base images are pinned by digest.
func TestBaseImagesAreNamedByDigest(t *testing.T) {
	dir := t.TempDir()
	dockerfile, registry := filepath.Join(dir, "Dockerfile"), filepath.Join(dir, "crane")
	content, err := os.ReadFile(root + "/Dockerfile")
	require.NoError(t, err)
	tags := regexp.MustCompile(`(?m)^(ARG \w+_IMAGE=[^@\n]+).*$`).ReplaceAll(content, []byte("$1"))
	require.NoError(t, os.WriteFile(dockerfile, tags, 0o600))
	script := func(argument string) (string, error) {
		cmd := exec.CommandContext(t.Context(), root+"/.ci/pin-images", argument)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "DOCKERFILE=" + dockerfile}
		output, err := cmd.CombinedOutput()
		return string(output), err
	}
	committed := exec.CommandContext(t.Context(), root+"/.ci/pin-images", "--check")
	output, err := committed.CombinedOutput()
	require.NoError(t, err, string(output))

	missing, err := script("--check")
	require.Error(t, err)
	for _, argument := range []string{"GO_IMAGE", "BASE_IMAGE"} {
		assert.Contains(t, missing, argument+" is ")
	}
	for _, digit := range []string{"a", "b"} { // the second digest replaces the first
		digest := "sha256:" + strings.Repeat(digit, 64)
		scripttest.Write(t, registry, "#!/bin/sh\n[ \"$1\" = digest ] && case \"$2\" in *@*) exit 1 ;; esac && echo "+digest+"\n")
		said, err := script(registry)
		require.NoError(t, err, said)
		pinned, err := os.ReadFile(dockerfile)
		require.NoError(t, err)
		assert.Equal(t, 2, strings.Count(string(pinned), "@"+digest+"\n"))
		assert.Equal(t, string(tags), strings.ReplaceAll(string(pinned), "@"+digest, ""), "nothing else changes")
	}
	said, err := script("--check")
	require.NoError(t, err, said)

	scripttest.Write(t, registry, "#!/bin/sh\necho nonsense\n")
	_, err = script(registry)
	require.Error(t, err)
	kept, err := os.ReadFile(dockerfile)
	require.NoError(t, err)
	assert.Contains(t, string(kept), strings.Repeat("b", 64), "an invalid digest is not written")

	workflow, err := os.ReadFile(root + "/.github/workflows/release.yaml")
	require.NoError(t, err)
	assert.Contains(t, string(workflow), "run: .ci/pin-images --check\n")
}
