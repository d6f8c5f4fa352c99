package dcgm

import "strings"

// instanceMark separates the board's UUID from the GPU instance ID in a MIG instance's hw.id, which
// has the form GPU-<uuid>/gi<id>.
const instanceMark = "/gi"

// IsBoardUUID reports whether text is a board's UUID, which has the form GPU-<uuid>. IsBoardUUID
// also returns true for the hw.id of a board or an instance, because they start with the same
// prefix.
func IsBoardUUID(text string) bool { return strings.HasPrefix(text, "GPU-") }

// IsMIGUUID reports whether text is a MIG device's UUID, which has the form MIG-<uuid>.
func IsMIGUUID(text string) bool { return strings.HasPrefix(text, "MIG-") }

// properUUID converts the prefix of a UUID to uppercase, because the driver reports uppercase
// prefixes. Some storage backends convert label values to lowercase.
func properUUID(uuid string) string {
	if kind, rest, found := strings.Cut(uuid, "-"); found && (kind == "gpu" || kind == "mig") {
		return strings.ToUpper(kind) + "-" + rest
	}
	return uuid
}

// BoardID returns the hw.id of a board. A UUID from an exporter may have the prefix of a board or
// of a MIG device. If the UUID has no prefix, BoardID adds the prefix of a board.
func BoardID(uuid string) string {
	if uuid = properUUID(uuid); IsBoardUUID(uuid) || IsMIGUUID(uuid) {
		return uuid
	}
	return "GPU-" + uuid
}

// InstanceID returns the hw.id of a board's MIG instance. If the board argument is a display name,
// the result is the instance's display name.
func InstanceID(board, instance string) string { return board + instanceMark + instance }

// BoardOf returns the hw.id of an instance's board, or "" if id is the hw.id of a board.
func BoardOf(id string) string {
	if board, _, ok := strings.Cut(id, instanceMark); ok {
		return board
	}
	return ""
}
