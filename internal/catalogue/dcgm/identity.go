package dcgm

import "strings"

// instanceMark separates the board's UUID from the GPU instance id in the hw.id of a MIG instance:
// GPU-<uuid>/gi<id>.
const instanceMark = "/gi"

// IsBoardUUID reports whether a text is a board's UUID, GPU-<uuid>, or the hw.id of a board or of
// one of its instances, which have the same prefix.
func IsBoardUUID(text string) bool { return strings.HasPrefix(text, "GPU-") }

// IsMIGUUID reports whether a text is the UUID of a MIG device, MIG-<uuid>.
func IsMIGUUID(text string) bool { return strings.HasPrefix(text, "MIG-") }

// properUUID returns a UUID as the driver writes it. Some stores convert label values to lower
// case.
func properUUID(uuid string) string {
	if kind, rest, found := strings.Cut(uuid, "-"); found && (kind == "gpu" || kind == "mig") {
		return strings.ToUpper(kind) + "-" + rest
	}
	return uuid
}

// BoardID returns the hw.id of a board. Exporters print a UUID with the prefix of a board or of a
// MIG device. A UUID without a prefix gets the board's prefix.
func BoardID(uuid string) string {
	if uuid = properUUID(uuid); IsBoardUUID(uuid) || IsMIGUUID(uuid) {
		return uuid
	}
	return "GPU-" + uuid
}

// InstanceID returns the hw.id of a MIG instance of a board. For a board's display name it returns
// the instance's display name.
func InstanceID(board, instance string) string { return board + instanceMark + instance }

// BoardOf returns the hw.id of an instance's board, or "" for a board.
func BoardOf(id string) string {
	if board, _, ok := strings.Cut(id, instanceMark); ok {
		return board
	}
	return ""
}
