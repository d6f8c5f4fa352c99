package diagnose

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Labels that most rows in the tests have.
const (
	l4   = `UUID=GPU-1 pci_bus_id=0 device=nvidia0 modelName=NVIDIA_L4 Hostname=n`
	h100 = `UUID=GPU-1 pci_bus_id=0 device=nvidia0 modelName=NVIDIA_H100_80GB_HBM3 Hostname=n`
	mig7 = h100 + ` GPU_I_PROFILE=1g.10gb GPU_I_ID=7`
	mig8 = h100 + ` GPU_I_PROFILE=1g.10gb GPU_I_ID=8`
)

// expose adds rows in the format "FIELD VALUE label=value …". If a name has no prefix, expose adds
// DCGM_FI_DEV_. Underscores in model names stand for spaces, and "-" stands for an empty value.
func expose(t *testing.T, rows ...string) *Exposition {
	t.Helper()
	e := &Exposition{}
	for _, r := range rows {
		words := strings.Fields(r)
		if words[0] == "HELP" || words[0] == "TYPE" {
			e.Declare(words[0], fullName(words[1]), strings.Join(words[2:], " "))
			continue
		}
		v, err := strconv.ParseFloat(words[1], 64)
		require.NoError(t, err)
		var labels []Label
		for _, w := range words[2:] {
			name, value, ok := strings.Cut(w, "=")
			require.True(t, ok, w)
			if value == "-" {
				value = ""
			}
			if name == "modelName" {
				value = strings.ReplaceAll(value, "_", " ")
			}
			labels = append(labels, Label{Name: name, Value: value})
		}
		e.Add(fullName(words[0]), labels, v)
	}
	return e
}

func fullName(name string) string {
	switch {
	case strings.HasPrefix(name, "DCGM_"), strings.HasPrefix(name, "other_"):
		return name
	case strings.HasPrefix(name, "PROF_"):
		return "DCGM_FI_" + name
	case strings.HasPrefix(name, "EXP_"):
		return "DCGM_" + name
	}
	return "DCGM_FI_DEV_" + name
}

// verdictTexts returns the report's text about a signal for each kind of device.
func verdictTexts(t *testing.T, r *Report, name string) string {
	t.Helper()
	for _, s := range r.Signals {
		if s.Signal != name {
			continue
		}
		var out []string
		for _, k := range s.Kinds {
			if k.Available > 0 {
				out = append(out, k.Kind+": yes")
			}
			if k.Elsewhere > 0 {
				out = append(out, k.Kind+": elsewhere")
			}
		}
		for _, m := range s.Missing {
			text := m.Kind + ": " + detail(m)
			if m.Likely {
				text = m.Kind + ": likely " + detail(m)
			}
			out = append(out, text)
		}
		return strings.Join(out, ", ")
	}
	require.Fail(t, "no such signal", name)
	return ""
}

// details contains names for causes that share their reason with other causes.
var details = map[cause]string{
	causeMIG: "mig", causeVGPU: "vgpu", causeOthersOnly: "others_only", causeSensor: "sensor", causeLink: "link",
	causeNoCounter: "no_counter", causeUnprofiled: "unprofiled", causeBridge: "bridge", causeVendor: "vendor",
	causeDriver: "driver", causeOldExporter: "exporter", causeCapacity: "capacity", causeUnit: "unit", causeNotExposed: "not_exposed",
	causeCopied: "copied", causeReserved: "reserved", causeNoProcessRows: "no_process_rows",
}

// detail returns the name of the cause, or the reason's code if the cause has no name.
func detail(m Missing) string {
	for c, name := range details {
		if c.text() == m.Text {
			return name
		}
	}
	return m.Reason
}
