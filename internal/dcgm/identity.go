package dcgm

import "strings"

// instanceMark parts the board's UUID from the GPU instance id in the hw.id of a MIG
// instance: GPU-<uuid>/gi<id>.
const instanceMark = "/gi"

// InstanceID returns the hw.id of a MIG instance of a board.
func InstanceID(board, instance string) string { return board + instanceMark + instance }

// BoardOf returns the hw.id of an instance's board, empty for a board.
func BoardOf(id string) string {
	if board, _, ok := strings.Cut(id, instanceMark); ok {
		return board
	}
	return ""
}
