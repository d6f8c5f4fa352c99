package jobfiles

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// DriverDir contains one directory per board. NVIDIA's driver uses the PCI address as the name.
const DriverDir = "/proc/driver/nvidia/gpus"

// Boards maps the UUIDs of boards to their numbers in the names of job files. These numbers are in
// PCI bus order, as in dcgm-exporter, nvidia-smi, and Slurm with AutoDetect=nvml. In a device name
// nvidiaN from the exporter, N is this number. In a device name from NVML, N is the driver's minor
// number. Boards returns nil if both numbers are equal for all boards, or if the numbers are
// unknown.
func Boards(dir string) map[string]int {
	// Glob sorts by name. Names have a fixed width, so the result is in PCI bus order.
	files, _ := filepath.Glob(filepath.Join(dir, "*", "information")) // this pattern never fails
	numbers, minors, same := map[string]int{}, []int{}, true
	for i, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // The driver provides the file.
		if err != nil {
			return nil
		}
		uuid, minor := "", -1
		for line := range strings.Lines(string(text)) {
			switch key, value, _ := strings.Cut(line, ":"); key {
			case "GPU UUID":
				uuid = strings.TrimSpace(value) // contains ? while the board is not in use
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
	// If some boards are not visible, for example in a container, the numbers of the other boards
	// are unknown.
	slices.Sort(minors)
	for i, minor := range minors {
		if minor != i {
			return nil
		}
	}
	return numbers
}
