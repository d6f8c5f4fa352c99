package gpuprocesses

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	cat "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

func row(labels string) *cat.Row {
	r := cat.NewRow(Exporter)
	for kv := range strings.FieldsSeq(labels) {
		k, v, _ := strings.Cut(kv, "=")
		r.Set(k, v)
	}
	return r
}

func TestARowNamesAContainerOrABoardAndAlwaysAProcess(t *testing.T) {
	for labels, want := range map[string]struct {
		claimed     bool
		holder      cat.Holder
		uuid, index string
	}{
		"namespace=ns pod=p container=c process_name=python pid=7":                              {true, cat.Holder{Namespace: "ns", Pod: "p", Container: "c"}, "", ""},
		"namespace=ns pod=p container=c pod_uid=u pid=7 gpu=1":                                  {true, cat.Holder{Namespace: "ns", Pod: "p", UID: "u", Container: "c"}, "", "1"},
		"namespace=unknown pod=unknown container=host pid=9":                                    {true, cat.Holder{}, "", ""},
		"uuid=00000001 pid=7 process_name=python":                                               {true, cat.Holder{}, "00000001", ""},
		"namespace=ns pod=p container=c":                                                        {false, cat.Holder{Namespace: "ns", Pod: "p", Container: "c"}, "", ""},
		"namespace=m pod=monitor exported_namespace=ns exported_pod=p pid=7 job=j instance=a:1": {true, cat.Holder{Namespace: "ns", Pod: "p"}, "", ""},
	} {
		r := row(labels)
		assert.Equal(t, want.claimed, Exporter.Claims(r), labels)
		holder, _ := r.Named()
		assert.Equal(t, want.holder, holder, labels)
		assert.Equal(t, want.uuid, r.Get(cat.RoleUUID), labels)
		assert.Equal(t, want.index, r.Get(cat.RoleIndex), labels)
	}
}

func TestTheExportersOwnPodsAreRecognizedByName(t *testing.T) {
	for pod, want := range map[string]bool{"gpu-pod-exporter-x7z": true, "nvidia-gpu-exporter-abcde": true, "gpu-podded": false} {
		assert.Equal(t, want, Exporter.IsExporter(cat.Holder{Namespace: "monitoring", Pod: pod, Container: "c"}), pod)
	}
}
