package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(namespace string, change ...func(*Config)) Config {
	cfg := NewDefaultConfig("leader")
	cfg.Namespace = namespace
	for _, c := range change {
		c(&cfg)
	}
	return cfg
}

// replica is a participant in an election. A replica stores its current term and the list of
// reported results.
type replica struct {
	stop  func()
	mu    sync.Mutex
	term  *Term
	wrong []error
}

func join(t *testing.T, client kubernetes.Interface, cfg Config) *replica {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &replica{}
	lead := func(term *Term) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.term = term
	}
	var running sync.WaitGroup
	running.Go(func() {
		assert.NoError(t, Run(ctx, cfg, client, lead, func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.wrong = append(r.wrong, err)
		}))
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

func (r *replica) leads() bool { return r.current().IsLeading() }

// newResults returns the results that were reported since the last call.
func (r *replica) newResults() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	said := r.wrong
	r.wrong = nil
	return said
}

// The pass function advances the clock of the synctest bubble by the given duration.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestOneOfTwoLeadsAndTheOtherTakesOverImmediately(t *testing.T) {
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
		assert.False(t, ended.IsLeading())
		require.Error(t, ended.Context().Err())
		pass(5 * time.Second)
		assert.True(t, second.leads(), "the lease was given back: nobody waits for its end")
		second.stop()
	})
}

// The refusing function lets a test make the client's requests for Leases fail. The returned set
// function replaces the function that returns the error for each verb.
func refusing(client *fake.Clientset) (set func(failure func(verb string) error)) {
	var mu sync.Mutex
	fails := func(string) error { return nil }
	client.PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		err := fails(action.GetVerb())
		return err != nil, nil, err
	})
	return func(failure func(string) error) {
		mu.Lock()
		defer mu.Unlock()
		fails = failure
	}
}

func works(string) error { return nil }

func forbidden(verb string) error {
	return apierrors.NewForbidden(coordinationv1.Resource("leases"), "leader", errors.New("cannot "+verb))
}

// The away function returns the error that a request gets when the API server refuses the
// connection.
func away(verb string) error {
	return &url.Error{Op: verb, URL: "https://10.0.0.1:6443/apis/" + rand.Text(), Err: syscall.ECONNREFUSED}
}

func TestALeaderThatCannotRenewStopsAndReportsWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		set := refusing(client)
		r := join(t, client, config("monitoring"))
		pass(time.Minute)
		require.True(t, r.leads())
		require.Empty(t, r.newResults())
		set(func(string) error { return errors.New("no quorum") })
		pass(15 * time.Second) // now another replica may acquire the Lease
		assert.False(t, r.leads())
		said := r.newResults()
		require.Len(t, said, 1)
		require.EqualError(t, said[0], "lease monitoring/leader: no quorum")
		set(works)
		pass(15 * time.Second)
		assert.True(t, r.leads())
		assert.Equal(t, []error{nil}, r.newResults())
		r.stop()
	})
}

// Two kinds of requests fail alternately, and each error text contains the kind of request.
func TestAnErrorIsReportedOnceUntilItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		set := refusing(client)
		replicas := []*replica{join(t, client, config("monitoring")), join(t, client, config("monitoring"))}
		pass(time.Minute)
		for _, stage := range []struct {
			name    string
			failure func(verb string) error
			want    []string
		}{
			{"all goes well", works, nil},
			{"nothing is allowed", forbidden, []string{`"leader" is forbidden: cannot `}},
			{"leases may be read", func(verb string) error {
				if verb == "get" {
					return nil
				}
				return forbidden(verb)
			}, nil},
			{"there is no API server", away, []string{"connection refused"}},
			{"nothing is allowed again", forbidden, []string{`"leader" is forbidden: cannot `}},
			{"all is well again", works, []string{""}},
		} {
			set(stage.failure)
			pass(5 * time.Minute)
			for _, r := range replicas {
				said := r.newResults()
				require.Len(t, said, len(stage.want), "%s: %v", stage.name, said)
				for i, want := range stage.want {
					if want == "" {
						require.NoError(t, said[i], stage.name)
					} else {
						require.ErrorContains(t, said[i], want, stage.name)
					}
				}
			}
		}
		for _, r := range replicas {
			r.stop()
		}
	})
}

func TestWithoutALeaseEveryoneLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := join(t, nil, Config{})
		pass(time.Second)
		require.True(t, r.leads())
		r.stop()
		assert.False(t, r.leads())
	})
	var none *Term
	assert.False(t, none.IsLeading())
}

func TestTheNamespaceIsThatOfThePod(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	before := namespaceFile
	t.Cleanup(func() { namespaceFile = before })
	namespaceFile = file
	t.Setenv(podNamespaceEnv, "")
	cfg := NewDefaultConfig("leader")
	require.ErrorContains(t, cfg.Validate(), "namespace is empty and the process does not run in a pod")
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
