package jobfiles

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// DriverDir is the directory in which NVIDIA's driver provides one directory for each board. The
// name of each directory is the board's PCI address.
const DriverDir = "/proc/driver/nvidia/gpus"

// Boards returns a map from the UUID of each board to the number that identifies the board in the
// names of job files. Boards are numbered in PCI bus order, as in dcgm-exporter, nvidia-smi, and
// Slurm with AutoDetect=nvml. dcgm-exporter also uses the number in the board's device name, such
// as nvidia0. In NVML's device name, the number is the driver's minor number instead. If every
// board's number equals the board's minor number, or if the numbers are unknown, Boards returns
// nil.
func Boards(dir string) map[string]int {
	// Glob sorts the files by name. All PCI addresses have the same length, so the files are in PCI
	// bus order.
	files, _ := filepath.Glob(filepath.Join(dir, "*", "information")) // The error is always nil, because the pattern is valid.
	numbers, minors, same := map[string]int{}, []int{}, true
	for i, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // NVIDIA's driver provides the file.
		if err != nil {
			return nil
		}
		uuid, minor := "", -1
		for line := range strings.Lines(string(text)) {
			switch key, value, _ := strings.Cut(line, ":"); key {
			case "GPU UUID":
				uuid = strings.TrimSpace(value) // While the board is not in use, the UUID contains question marks.
			case "Device Minor":
				if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil {
					minor = n
				}
			}
		}
		numbers[uuid] = i
		minors, same = append(minors, minor), same && minor == i
	}
	if same {
		return nil
	}
	// If some boards are not visible, for example inside a container, the numbers of the visible
	// boards are unknown.
	slices.Sort(minors)
	for i, minor := range minors {
		if minor != i {
			return nil
		}
	}
	return numbers
}
