package processtest

import (
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// listening is the state of a socket that accepts connections, in /proc/net/tcp.
const listening = "0A"

// Listens returns the TCP addresses on which a process accepts connections, as the kernel
// lists them.
func Listens(t testing.TB, pid int) []netip.AddrPort {
	t.Helper()
	proc := "/proc/" + strconv.Itoa(pid)
	files, err := os.ReadDir(filepath.Join(proc, "fd"))
	require.NoError(t, err)
	sockets := map[string]bool{}
	for _, file := range files {
		// A file may be closed meanwhile.
		if link, err := os.Readlink(filepath.Join(proc, "fd", file.Name())); err == nil && strings.HasPrefix(link, "socket:[") {
			sockets[strings.Trim(link[len("socket:"):], "[]")] = true
		}
	}
	var addresses []netip.AddrPort
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(filepath.Join(proc, "net", table))
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
			fields := strings.Fields(line)
			if len(fields) > 9 && fields[3] == listening && sockets[fields[9]] {
				addresses = append(addresses, localAddress(t, fields[1]))
			}
		}
	}
	return addresses
}

// localAddress reads an address as /proc/net/tcp prints it: words of four bytes in the
// machine's order, which is little-endian here, and the port.
func localAddress(t testing.TB, text string) netip.AddrPort {
	t.Helper()
	host, port, found := strings.Cut(text, ":")
	require.True(t, found, text)
	raw, err := hex.DecodeString(host)
	require.NoError(t, err)
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	address, ok := netip.AddrFromSlice(raw)
	require.True(t, ok, text)
	number, err := strconv.ParseUint(port, 16, 16)
	require.NoError(t, err)
	return netip.AddrPortFrom(address.Unmap(), uint16(number))
}
