package jobfiles

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// DriverDir is where NVIDIA's driver has a directory for each board, named as its place on the
// PCI bus.
const DriverDir = "/proc/driver/nvidia/gpus"

// Boards returns the numbers of the boards by their UUIDs where these are not the driver's minor
// numbers, nil where they are, or where it is not known. Files of jobs count as dcgm-exporter
// and nvidia-smi do, and Slurm with AutoDetect=nvml: in the order of the bus. The name nvidiaN
// has that number by the exporter, and the minor number by NVML.
func Boards(dir string) map[string]int {
	// The order is that of the names, which have a fixed width.
	files, _ := filepath.Glob(filepath.Join(dir, "*", "information")) // the pattern is none that fails
	numbers, minors, same := map[string]int{}, []int{}, true
	for i, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // It is the driver's.
		if err != nil {
			return nil
		}
		uuid, minor := "", -1
		for line := range strings.Lines(string(text)) {
			switch key, value, _ := strings.Cut(line, ":"); key {
			case "GPU UUID":
				uuid = strings.TrimSpace(value) // with ? while nothing uses the board
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
	// Where some boards are out of sight, as in a container, those that are not say nothing.
	slices.Sort(minors)
	for i, minor := range minors {
		if minor != i {
			return nil
		}
	}
	return numbers
}
