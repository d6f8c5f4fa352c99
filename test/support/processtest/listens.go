package processtest

import (
	"net/netip"
	"testing"

	"github.com/shirou/gopsutil/v4/net"
	"github.com/stretchr/testify/require"
)

// Listens returns the TCP addresses that a process listens on, according to the kernel.
func Listens(t testing.TB, pid int) []netip.AddrPort {
	t.Helper()
	connections, err := net.ConnectionsPidWithContext(t.Context(), "tcp", int32(pid))
	require.NoError(t, err)
	var addresses []netip.AddrPort
	for _, c := range connections {
		if c.Status == "LISTEN" {
			address, err := netip.ParseAddr(c.Laddr.IP)
			require.NoError(t, err)
			addresses = append(addresses, netip.AddrPortFrom(address.Unmap(), uint16(c.Laddr.Port)))
		}
	}
	return addresses
}
