package jobfiles

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// DriverDir has one directory per board. NVIDIA's driver names them by PCI address.
const DriverDir = "/proc/driver/nvidia/gpus"

// Boards maps the UUIDs of boards to their numbers in the names of job files. These numbers are in
// PCI bus order, as in dcgm-exporter, nvidia-smi, and Slurm with AutoDetect=nvml. In a device name
// nvidiaN, N is this number if the name is from the exporter, and the driver's minor number if it
// is from NVML. Boards returns nil if both numbers are equal for all boards, or if the numbers are
// unknown.
func Boards(dir string) map[string]int {
	// Glob sorts by name. Names have a fixed width, so this is the order of the bus.
	files, _ := filepath.Glob(filepath.Join(dir, "*", "information")) // this pattern never fails
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
				uuid = strings.TrimSpace(value) // contains ? while nothing uses the board
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
	// If some boards are not visible, as in a container, the numbers of the others are unknown.
	slices.Sort(minors)
	for i, minor := range minors {
		if minor != i {
			return nil
		}
	}
	return numbers
}
