package diagnose

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestXIDsAreReportedWithNVIDIAsAdvice(t *testing.T) {
	const (
		gpu    = " " + l4
		new483 = " UUID=GPU-1 pci_bus_id=0 hostname=n"
	)
	for name, tt := range map[string]struct {
		rows []string
		want []XIDReport
	}{
		"the last code": {
			[]string{"XID_ERRORS 79" + gpu},
			[]XIDReport{{79, "GPU has fallen off the bus", "reboot_node", "reboot the node; if the error occurs again, contact support", true, []string{"GPU-1"}}},
		},
		"a counter by code": {
			[]string{"EXP_XID_ERRORS_TOTAL 3 xid=109" + new483},
			[]XIDReport{{109, "context switch timeout", "reset_gpu", "reset the GPU", true, []string{"GPU-1"}}},
		},
		"a code of several devices is listed once, fatal codes first": {
			[]string{"XID_ERRORS 8" + gpu, "XID_ERRORS 8 UUID=GPU-2 pci_bus_id=1 device=nvidia1 Hostname=n", "EXP_XID_ERRORS_TOTAL 1 xid=119" + new483},
			[]XIDReport{
				{119, "timeout of a call to the GPU system processor", "reset_gpu", "reset the GPU", true, []string{"GPU-1"}},
				{8, "GPU stopped processing", "restart_app", "restart the application", false, []string{"GPU-1", "GPU-2"}},
			},
		},
		"a code that the catalogue does not list": {
			[]string{"XID_ERRORS 500" + gpu},
			[]XIDReport{{Code: 500, Devices: []string{"GPU-1"}}},
		},
		"no error, no code":         {[]string{"XID_ERRORS 0" + gpu, "EXP_XID_ERRORS_TOTAL 0 xid=31" + new483, "GPU_TEMP 30" + gpu}, nil},
		"values that are not codes": {[]string{"XID_ERRORS 31.5" + gpu, "EXP_XID_ERRORS_TOTAL 1 xid=x" + new483, "EXP_XID_ERRORS_COUNT 1 xid=-3" + new483}, nil},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, expose(t, tt.rows...).Report().XIDs) })
	}
}
