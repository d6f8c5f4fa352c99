package dcgm

import "strings"

// instanceMark parts the board's UUID from the GPU instance id in the hw.id of a MIG
// instance: GPU-<uuid>/gi<id>.
const instanceMark = "/gi"

// BoardID returns the hw.id of a board. Exporters print the prefix of the UUID, or that of a
// MIG device's; one that does not is brought into the same form.
func BoardID(uuid string) string {
	if strings.HasPrefix(uuid, "GPU-") || strings.HasPrefix(uuid, "MIG-") {
		return uuid
	}
	return "GPU-" + uuid
}

// InstanceID returns the hw.id of a MIG instance of a board, or its name for people where
// the board is given by name.
func InstanceID(board, instance string) string { return board + instanceMark + instance }

// BoardOf returns the hw.id of an instance's board, empty for a board.
func BoardOf(id string) string {
	if board, _, ok := strings.Cut(id, instanceMark); ok {
		return board
	}
	return ""
}
