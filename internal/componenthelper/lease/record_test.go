package lease

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubetest"
)

const recordKey = "example.com/record"

var recordConfig = RecordConfig{Enabled: true, Namespace: "monitoring", Name: "record"}

func TestNoWriteOfARecordIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		kubetest.VersionLeases(client)
		var writing sync.WaitGroup
		for range 20 {
			writing.Go(func() {
				r := NewRecord(client, recordConfig, recordKey)
				assert.NoError(t, r.Update(t.Context(), func(text string) (string, bool) { return text + "x", true }))
			})
		}
		writing.Wait()
		text, err := NewRecord(client, recordConfig, recordKey).Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, strings.Repeat("x", 20), text)
	})
}

func TestAContendedRecordIsWrittenAtTheLastAttempt(t *testing.T) {
	for conflicts, written := range map[int]bool{11: true, 12: false} {
		synctest.Test(t, func(t *testing.T) {
			client := fake.NewClientset()
			kubetest.VersionLeases(client)
			r := NewRecord(client, recordConfig, recordKey)
			require.NoError(t, r.Update(t.Context(), func(string) (string, bool) { return "a", true }))
			attempts, last := 0, time.Time{}
			client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
				attempts, last = attempts+1, time.Now()
				if attempts > conflicts {
					return false, nil, nil
				}
				return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), "record", errors.New("written by another process"))
			})
			err := r.Update(t.Context(), func(text string) (string, bool) { return text + "b", true })
			assert.Equal(t, 12, attempts)
			assert.Equal(t, written, err == nil, "%d conflicts: %v", conflicts, err)
			assert.Equal(t, last, time.Now(), "Update does not wait after the last attempt")
		})
	}
}

func TestARecordThatIsToStayIsNotWritten(t *testing.T) {
	client := fake.NewClientset()
	kubetest.VersionLeases(client)
	r := NewRecord(client, recordConfig, recordKey)
	text, err := r.Get(t.Context())
	require.NoError(t, err)
	assert.Empty(t, text)
	require.NoError(t, r.Update(t.Context(), func(string) (string, bool) { return "", false }))
	_, err = client.CoordinationV1().Leases("monitoring").Get(t.Context(), "record", metav1.GetOptions{})
	require.Error(t, err, "the Lease is not made for nothing")
	require.NoError(t, r.Update(t.Context(), func(string) (string, bool) { return "a", true }))
	client.ClearActions()
	require.NoError(t, r.Update(t.Context(), func(text string) (string, bool) { return text, true }))
	assert.Len(t, client.Actions(), 1, "the same text is not written again")
}

// Update keeps annotations that other programs have set on the Lease.
func TestARecordDoesNotChangeTheRestOfTheLease(t *testing.T) {
	client := fake.NewClientset()
	kubetest.VersionLeases(client)
	for _, key := range []string{recordKey, "example.com/other"} {
		require.NoError(t, NewRecord(client, recordConfig, key).Update(t.Context(), func(string) (string, bool) { return key, true }))
	}
	text, err := NewRecord(client, recordConfig, recordKey).Get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, recordKey, text)
}

func TestAFailureOfARecordNamesTheLease(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no quorum")
	})
	r := NewRecord(client, recordConfig, recordKey)
	_, err := r.Get(t.Context())
	require.EqualError(t, err, "lease monitoring/record: no quorum")
	require.EqualError(t, r.Update(t.Context(), func(string) (string, bool) { return "", true }), "lease monitoring/record: no quorum")

	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, NewRecord(fake.NewClientset(), recordConfig, recordKey).Update(over, func(string) (string, bool) { return "a", true }),
		context.Canceled)
}

func TestValidateOfARecordNamesTheFieldItsValueAndWhatIsAllowed(t *testing.T) {
	cfg := recordConfig
	require.NoError(t, cfg.Validate())
	cfg.Name = "A B"
	require.ErrorContains(t, cfg.Validate(), `name is "A B": must be`)
	cfg.Name, cfg.Namespace = "record", "a/b"
	require.ErrorContains(t, cfg.Validate(), `namespace is "a/b": must be`)
	t.Setenv(podNamespaceEnv, "")
	cfg.Namespace = ""
	require.ErrorContains(t, cfg.Validate(), "namespace is empty and the process does not run in a pod")
	cfg.Enabled = false
	require.NoError(t, cfg.Validate())
}
