package lease

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/otelcol-gpu/otelcol-gpu/internal/controlplane"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(controlplane.Main(m)) }

func config(namespace string, change ...func(*Config)) Config {
	cfg := NewDefaultConfig("leader")
	cfg.Namespace = namespace
	for _, c := range change {
		c(&cfg)
	}
	return cfg
}

// replica takes part in an election and keeps the term it was handed.
type replica struct {
	stop  func()
	mu    sync.Mutex
	term  *Term
	wrong error
}

func join(t *testing.T, client kubernetes.Interface, cfg Config) *replica {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r, terms := &replica{}, make(chan *Term)
	var running sync.WaitGroup
	running.Go(func() {
		err := Run(ctx, cfg, client, terms, func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.wrong = err
		})
		assert.NoError(t, err)
		close(terms)
	})
	running.Go(func() {
		for term := range terms {
			r.mu.Lock()
			r.term = term
			r.mu.Unlock()
		}
	})
	r.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(r.stop)
	return r
}

func (r *replica) current() *Term {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.term
}

func (r *replica) leads() bool { return r.current().Holds() }

func (r *replica) error() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wrong
}

// pass lets time of the bubble pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestOneOfTwoLeadsAndTheOtherTakesOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		first := join(t, client, config("monitoring"))
		pass(time.Second)
		second := join(t, client, config("monitoring"))
		pass(time.Minute)
		assert.True(t, first.leads())
		assert.False(t, second.leads())
		ended := first.current()
		first.stop()
		assert.False(t, ended.Holds())
		require.Error(t, ended.Context().Err())
		pass(5 * time.Second)
		assert.True(t, second.leads(), "the lease was given back: nobody waits for its end")
		second.stop()
	})
}

func TestALeaderThatCannotRenewStopsAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var mu sync.Mutex
		var failure error
		client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			return failure != nil, nil, failure
		})
		set := func(err error) {
			mu.Lock()
			defer mu.Unlock()
			failure = err
		}
		r := join(t, client, config("monitoring"))
		pass(time.Minute)
		require.True(t, r.leads())
		set(errors.New("no quorum"))
		pass(15 * time.Second) // now another one may take it
		assert.False(t, r.leads())
		require.ErrorContains(t, r.error(), "lease monitoring/leader: no quorum")
		set(nil)
		pass(15 * time.Second)
		assert.True(t, r.leads())
		require.NoError(t, r.error())
		r.stop()
	})
}

func TestWithoutALeaseEveryoneLeadsAndThereAreNoNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := join(t, nil, Config{})
		pass(time.Second)
		require.True(t, r.leads())
		require.NoError(t, r.current().SetNote(t.Context(), "key", "value"))
		note, err := r.current().Note(t.Context(), "key")
		require.NoError(t, err)
		assert.Empty(t, note)
		r.stop()
		assert.False(t, r.leads())
	})
	var none *Term
	assert.False(t, none.Holds())
}

// What a fake API server cannot show: writes that were overtaken are refused.
func TestNotesOutliveTheirWriterAndOnlyTheHolderWrites(t *testing.T) {
	plane := controlplane.Start(t)
	cfg := config(plane.Namespace(t), func(cfg *Config) { cfg.RetryPeriod = 100 * time.Millisecond })
	eventually := func(condition func() bool) {
		t.Helper()
		require.Eventually(t, condition, 30*time.Second, 50*time.Millisecond)
	}
	first := join(t, plane.Admin(), cfg)
	eventually(first.leads)
	written := first.current()
	for range 20 { // renewals run beside
		require.NoError(t, written.SetNote(t.Context(), "example.com/note", "from the first"))
	}
	leases := plane.Admin().CoordinationV1().Leases(cfg.Namespace)
	noted, err := leases.Get(t.Context(), cfg.Name, metav1.GetOptions{})
	require.NoError(t, err)
	eventually(func() bool {
		l, err := leases.Get(t.Context(), cfg.Name, metav1.GetOptions{})
		return err == nil && l.Spec.RenewTime.After(noted.Spec.RenewTime.Time)
	})
	assert.True(t, first.leads(), "a note does not cost the lease")

	first.stop()
	second := join(t, plane.Admin(), cfg)
	eventually(second.leads)
	note, err := second.current().Note(t.Context(), "example.com/note")
	require.NoError(t, err)
	assert.Equal(t, "from the first", note)

	// A process that was stopped believes in its term until it looks.
	late := *written
	late.ctx, late.valid = t.Context(), func() bool { return true }
	require.ErrorIs(t, late.SetNote(t.Context(), "example.com/note", "too late"), ErrLost)
	note, err = second.current().Note(t.Context(), "example.com/note")
	require.NoError(t, err)
	assert.Equal(t, "from the first", note)
}

func TestTheNamespaceIsThatOfThePod(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	before := namespaceFile
	t.Cleanup(func() { namespaceFile = before })
	namespaceFile = file
	t.Setenv(podNamespaceEnv, "")
	cfg := NewDefaultConfig("leader")
	require.ErrorContains(t, cfg.Validate(), "namespace is empty and the process runs in no pod")
	require.NoError(t, os.WriteFile(file, []byte("of-the-account\n"), 0o600))
	assert.Equal(t, "of-the-account/leader", cfg.String())
	t.Setenv(podNamespaceEnv, "of-the-pod")
	assert.Equal(t, "of-the-pod/leader", cfg.String())
	cfg.Namespace = "configured"
	assert.Equal(t, "configured/leader", cfg.String())
	require.NoError(t, cfg.Validate())
}

func TestValidateNamesTheFieldItsValueAndWhatIsAllowed(t *testing.T) {
	for want, change := range map[string]func(*Config){
		`name is "A B": must be`:                             func(c *Config) { c.Name = "A B" },
		`namespace is "a/b": must be`:                        func(c *Config) { c.Namespace = "a/b" },
		"retry_period is 2ns: must be at least 100ms":        func(c *Config) { c.RetryPeriod = 2 },
		"renew_deadline is 2s: must be more than 2.4s":       func(c *Config) { c.RenewDeadline = 2 * time.Second },
		"lease_duration is 10s: must be whole seconds and":   func(c *Config) { c.LeaseDuration = 10 * time.Second },
		"lease_duration is 15.5s: must be whole seconds and": func(c *Config) { c.LeaseDuration = 15500 * time.Millisecond },
	} {
		cfg := config("monitoring", change)
		require.ErrorContains(t, cfg.Validate(), want)
		cfg.Enabled = false
		require.NoError(t, cfg.Validate())
	}
}
