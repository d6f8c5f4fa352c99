package lease

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
)

// conflictBackoff is the delay before a write is retried after a conflict. Many processes may try
// to write the Lease at the same time. Each conflict means that another process has written the
// Lease. Steps is the number of attempts. All delays together are at most 7 s. There is no Cap,
// because a delay that reaches the Cap ends the attempts.
var conflictBackoff = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 1.5, Jitter: 1, Steps: 12}

// RecordConfig configures a [Record].
type RecordConfig struct {
	// Enabled enables the record.
	Enabled bool `mapstructure:"enabled"`
	// Namespace is the namespace of the Lease. Namespace has the same default as
	// [Config.Namespace].
	Namespace string `mapstructure:"namespace"`
	// Name is the Lease's name. Processes that use the same Lease name share the record.
	Name string `mapstructure:"name"`
}

// Validate implements confmap.Validator. Each error message includes the field's name, its value,
// and the allowed values.
func (cfg *RecordConfig) Validate() error {
	if !cfg.Enabled {
		return nil
	}
	var p componenthelper.Problems
	if namespace := orOwnNamespace(cfg.Namespace); namespace == "" {
		p.Add(fmt.Errorf("namespace is empty and the process does not run in a pod (neither %s nor a service account): "+
			"must be the namespace of the Lease, or set enabled to false", podNamespaceEnv))
	} else {
		p.Check(componenthelper.IsObjectName(namespace), "namespace is %q: must be a namespace", namespace)
	}
	p.Check(componenthelper.IsObjectName(cfg.Name), "name is %q: must be a name that consists of lowercase letters, digits, '-', and '.'", cfg.Name)
	return p.Err()
}

// Record is a string that processes share. The string is stored in an annotation of a Lease that
// has no holder. A write succeeds only if no other process has changed the Lease since this process
// read it.
type Record struct {
	client kubernetes.Interface
	cfg    RecordConfig
	key    string
}

// NewRecord returns the record that is stored in the annotation with the given key.
func NewRecord(client kubernetes.Interface, cfg RecordConfig, key string) *Record {
	cfg.Namespace = orOwnNamespace(cfg.Namespace)
	return &Record{client: client, cfg: cfg, key: key}
}

// Get returns the shared string, or "" if the Lease does not contain one.
func (r *Record) Get(ctx context.Context) (string, error) {
	l, err := r.client.CoordinationV1().Leases(r.cfg.Namespace).Get(ctx, r.cfg.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", r.named(err)
	}
	return l.Annotations[r.key], nil
}

// Update calls the change function with the shared string and stores the string that the change
// function returns. If another process changes the Lease in the meantime, Update calls the change
// function again with the new string. If the change function returns false, Update writes nothing.
// If the Lease does not exist, Update creates it.
func (r *Record) Update(ctx context.Context, change func(text string) (string, bool)) error {
	leases := r.client.CoordinationV1().Leases(r.cfg.Namespace)
	var conflict error
	err := wait.ExponentialBackoffWithContext(ctx, conflictBackoff, func(ctx context.Context) (bool, error) {
		l, err := leases.Get(ctx, r.cfg.Name, metav1.GetOptions{})
		missing := apierrors.IsNotFound(err)
		switch {
		case missing:
			l = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.cfg.Namespace, Name: r.cfg.Name}}
		case err != nil:
			return false, err
		}
		text, ok := change(l.Annotations[r.key])
		if !ok || !missing && text == l.Annotations[r.key] {
			return true, nil
		}
		if l.Annotations == nil {
			l.Annotations = map[string]string{}
		}
		l.Annotations[r.key] = text
		if missing {
			_, err = leases.Create(ctx, l, metav1.CreateOptions{})
		} else {
			_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
		}
		// If the Lease was deleted in the meantime, the next attempt creates it again.
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || !missing && apierrors.IsNotFound(err) {
			conflict = err
			return false, nil
		}
		return err == nil, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil && conflict != nil {
		err = conflict
	}
	return r.named(err)
}

func (r *Record) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("lease %s/%s: %w", r.cfg.Namespace, r.cfg.Name, err)
}
