package packages

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/notruntest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/scripttest"
)

const (
	// root is the path of the repository's root directory, relative to this package.
	root = "../.."

	agent       = "/etc/otelcol-gpu/agent.yaml"
	config      = "/etc/otelcol-gpu/config.yaml" // merged over it
	environment = "/etc/otelcol-gpu/otelcol-gpu.env"
	unit        = "/usr/lib/systemd/system/otelcol-gpu.service"
	program     = "/usr/bin/otelcol-gpu"
)

// modes maps each file that a package installs to its mode.
var modes = map[string]fs.FileMode{
	agent:  0o644,
	config: 0o644,
	// The environment file can contain tokens.
	environment:                            0o600,
	unit:                                   0o644,
	program:                                0o755,
	"/usr/bin/gpudoctor":                   0o755,
	"/usr/share/doc/otelcol-gpu/copyright": 0o644,
}

// run runs a command in the repository's root directory and returns the output.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), env...)
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), output)
	return string(output)
}

// The needs function skips the test if the machine does not have the given command.
func needs(t *testing.T, command, what string) {
	t.Helper()
	if _, err := exec.LookPath(command); err != nil {
		notruntest.Skip(t, what+": no "+command+" on this machine")
	}
}

// build builds the packages for one of this project's programs and returns the packages' paths,
// keyed by format.
func build(t *testing.T, program, version string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	run(t, []string{"SOURCE_DATE_EPOCH=1700000000"}, "packaging/build.sh", processtest.Tool(t, "OTELCOL_GPU_NFPM"),
		"amd64", version, processtest.Binary(t, program), processtest.Binary(t, "gpudoctor"), dir)
	return map[string]string{
		"deb": filepath.Join(dir, "otelcol-gpu_"+version+"-1_amd64.deb"),
		"rpm": filepath.Join(dir, "otelcol-gpu-"+version+"-1.x86_64.rpm"),
	}
}

// checkInstalled checks that the directory in which a package was installed contains exactly the
// package's files, except for the package manager's own directories.
func checkInstalled(t *testing.T, dir string) {
	t.Helper()
	got := map[string]fs.FileMode{}
	for _, top := range []string{"etc/otelcol-gpu", "usr/bin", "usr/lib/systemd", "usr/share/doc"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(dir, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			got[strings.TrimPrefix(path, dir)] = info.Mode()
			return err
		}))
	}
	assert.Equal(t, modes, got)
	for file, example := range map[string]string{agent: "agent.yaml", config: "overlays/slurm.yaml"} {
		want, err := os.ReadFile(root + "/examples/" + example)
		require.NoError(t, err)
		installed, err := os.ReadFile(dir + file)
		require.NoError(t, err)
		assert.Equal(t, string(want), string(installed), "the configuration is the example")
	}
}

func TestTheSameFilesGiveTheSamePackages(t *testing.T) {
	first, second := build(t, "gpudoctor", "1.2.3"), build(t, "gpudoctor", "1.2.3") // a small program
	for format, file := range first {
		one, err := os.ReadFile(file)
		require.NoError(t, err)
		other, err := os.ReadFile(second[format])
		require.NoError(t, err)
		assert.True(t, bytes.Equal(one, other), format)
	}
}

// An administrator's changes must be kept if the package is removed, and deleted if the package is
// purged.
func TestTheDebianPackageIsInstalledAndRemoved(t *testing.T) {
	needs(t, "dpkg", "the Debian package's installation")
	file, dir := build(t, "otelcol-gpu", "1.2.3")["deb"], t.TempDir()
	for _, needed := range []string{"info", "updates"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "var", "lib", "dpkg", needed), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "var", "lib", "dpkg", "status"), nil, 0o644))
	dpkg := func(args ...string) {
		// The package's scripts run without chroot. Each script gets the path of the directory and
		// must not call this machine's systemd.
		args = append([]string{"--root=" + dir, "--force-script-chrootless", "--force-depends"}, args...)
		if os.Getuid() != 0 {
			needs(t, "fakeroot", "the Debian package's installation without being root")
			run(t, nil, "fakeroot", append([]string{"dpkg"}, args...)...)
			return
		}
		run(t, nil, "dpkg", args...)
	}

	dpkg("--install", file)
	checkInstalled(t, dir)
	collector := exec.CommandContext(t.Context(), dir+program, "validate", "--config", dir+agent, "--config", dir+config)
	collector.Env = processtest.Environment(map[string]string{"STORAGE_DIR": t.TempDir()})
	output, err := collector.CombinedOutput()
	require.NoError(t, err, "%s", output)

	state := filepath.Join(dir, "var", "lib", "otelcol-gpu")
	require.NoError(t, os.Mkdir(state, 0o755))
	require.NoError(t, os.WriteFile(dir+environment, []byte("OTLP_ENDPOINT=https://backend:4318\n"), 0o600))
	dpkg("--remove", "otelcol-gpu")
	assert.NoFileExists(t, dir+program)
	assert.NoFileExists(t, dir+unit)
	assert.FileExists(t, dir+environment)
	assert.DirExists(t, state)

	dpkg("--purge", "otelcol-gpu")
	assert.NoDirExists(t, dir+"/etc/otelcol-gpu")
	assert.NoDirExists(t, state)
}

// The package's scripts run with the directory as their root. The directory contains a shell and a
// fake systemctl that records its arguments. To save time, the package contains a smaller program
// instead of the collector.
func TestTheRPMPackageIsInstalledUpgradedAndRemoved(t *testing.T) {
	needs(t, "rpm", "the RPM package's installation")
	if os.Getuid() != 0 {
		notruntest.Skip(t, "the RPM package's installation: it needs root")
	}
	dir := t.TempDir()
	for _, file := range append(libraries(t, "/bin/sh"), "/bin/sh") {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o755))
		run(t, nil, "cp", "--dereference", file, dir+file)
	}
	scripttest.Write(t, dir+"/bin/systemctl", "#!/bin/sh\necho \"$@\" >>/asked\n")
	require.NoError(t, os.MkdirAll(dir+"/run/systemd/system", 0o755))
	rpm := func(args ...string) (asked string) {
		run(t, nil, "rpm", append([]string{"--root=" + dir, "--nodeps"}, args...)...)
		content, err := os.ReadFile(dir + "/asked")
		require.NoError(t, err)
		require.NoError(t, os.Remove(dir+"/asked"))
		return string(content)
	}

	asked := rpm("--install", build(t, "gpudoctor", "1.2.3")["rpm"])
	assert.Equal(t, "daemon-reload\ntry-restart otelcol-gpu.service\n", asked)
	checkInstalled(t, dir)

	changed := []byte("OTLP_ENDPOINT=https://backend:4318\n")
	require.NoError(t, os.WriteFile(dir+environment, changed, 0o600))
	asked = rpm("--upgrade", build(t, "gpudoctor", "1.2.4")["rpm"])
	assert.Equal(t, "daemon-reload\ntry-restart otelcol-gpu.service\ndaemon-reload\n", asked, "an upgrade does not stop the service")
	kept, err := os.ReadFile(dir + environment)
	require.NoError(t, err)
	assert.Equal(t, changed, kept, "an upgrade keeps what an administrator changed")
	checkInstalled(t, dir)

	assert.Equal(t, "disable --now otelcol-gpu.service\ndaemon-reload\n", rpm("--erase", "otelcol-gpu"))
	assert.NoFileExists(t, dir+program)
	assert.NoFileExists(t, dir+unit)
}

// libraries returns the paths of the shared libraries that a program uses.
func libraries(t *testing.T, program string) []string {
	t.Helper()
	return regexp.MustCompile(`/\S+\.so\S*`).FindAllString(run(t, nil, "ldd", program), -1)
}

// The unit must refer to the files that the package installs.
func TestTheUnitIsValidAndHardened(t *testing.T) {
	content, err := os.ReadFile(root + "/packaging/otelcol-gpu.service")
	require.NoError(t, err)
	for _, line := range []string{
		"ExecStart=" + program + " --config=" + agent + " --config=" + config, "EnvironmentFile=-" + environment, "StateDirectory=otelcol-gpu",
		"DynamicUser=yes", "ProtectSystem=strict", "CapabilityBoundingSet=", "DevicePolicy=closed", "DeviceAllow=char-nvidia* rw",
		"Restart=on-failure",
	} {
		assert.Contains(t, "\n"+string(content), "\n"+line+"\n")
	}
	example, err := os.ReadFile(root + "/examples/agent.yaml")
	require.NoError(t, err)
	assert.Contains(t, string(example), "${env:STORAGE_DIR:-/var/lib/otelcol-gpu}", "the state directory is the unit's")

	needs(t, "systemd-analyze", "the systemd unit")
	installed := filepath.Join(t.TempDir(), "otelcol-gpu.service")
	text := strings.ReplaceAll(string(content), program, processtest.Binary(t, "otelcol-gpu"))
	require.NoError(t, os.WriteFile(installed, []byte(text), 0o600))
	// Ignore other lines, because the output also contains problems with other units on this
	// machine.
	for line := range strings.Lines(run(t, nil, "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", installed)) {
		assert.NotContains(t, line, installed)
	}
	said := run(t, nil, "systemd-analyze", "security", "--offline=true", installed)
	exposure := regexp.MustCompile(`Overall exposure level for otelcol-gpu.service: (\S+)`).FindStringSubmatch(said)
	require.NotNil(t, exposure, said)
	var level float64
	_, err = fmt.Sscan(exposure[1], &level)
	require.NoError(t, err)
	assert.LessOrEqual(t, level, 2.0, "exposure is from 0 (none) to 10 (full):\n%s", said)
}

// The source archive must contain everything that is needed to compile the programs offline.
func TestTheSourceArchiveNeedsNoNetwork(t *testing.T) {
	if err := exec.CommandContext(t.Context(), "git", "-C", root, "rev-parse", "HEAD").Run(); err != nil {
		notruntest.Skip(t, "the source archive: this tree is not a git checkout")
	}
	dir := t.TempDir()
	run(t, nil, "packaging/source.sh", "1.2.3", dir)
	run(t, nil, "tar", "-xzf", filepath.Join(dir, "otelcol-gpu_1.2.3_source.tar.gz"), "-C", dir)
	source := filepath.Join(dir, "otelcol-gpu_1.2.3_source")
	assert.FileExists(t, filepath.Join(source, "Dockerfile"))
	run(t, []string{"GOPROXY=off", "GOFLAGS=", "GOMODCACHE=" + t.TempDir()},
		"go", "-C", source, "list", "-deps", "-tags", "remove_all_sd", "./cmd/otelcol-gpu", "./cmd/gpudoctor")
}

// The version is defined in builder-config.yaml. For each of this project's components,
// `otelcol-gpu components` must print the same version, and CHANGELOG.md must contain release notes
// for that version.
func TestAllPartsHaveTheSameVersion(t *testing.T) {
	manifest := func(name string) string {
		content, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		return string(content)
	}
	line := regexp.MustCompile(`(?m)^ {2}version: (\S+)$`)
	version := line.FindStringSubmatch(manifest("builder-config.yaml"))
	require.NotNil(t, version)
	for _, name := range []string{"builder-config.yaml", "builder-config-agent.yaml"} {
		assert.Equal(t, version, line.FindStringSubmatch(manifest(name)), name)
		modules := regexp.MustCompile(`gomod: github\.com/otelcol-gpu/otelcol-gpu (\S+)`).FindAllStringSubmatch(manifest(name), -1)
		require.NotEmpty(t, modules)
		for _, module := range modules {
			assert.Equal(t, "v"+version[1], module[1], name)
		}
	}
	assert.Contains(t, manifest("cmd/gpudoctor/main.go"), `const version = "`+version[1]+`"`)
	assert.Contains(t, run(t, nil, "packaging/notes.sh", version[1]), "\n* [FEATURE] ")
}

// Workflows must pin actions to commits, because tags can be moved.
func TestWorkflowsNameActionsByCommit(t *testing.T) {
	files, err := filepath.Glob(root + "/.github/workflows/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, use := range regexp.MustCompile(`uses: (.*)`).FindAllStringSubmatch(string(content), -1) {
			assert.Regexp(t, `^(\./\S+|\S+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$`, use[1], file)
		}
	}
}
