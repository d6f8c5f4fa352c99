package componenthelper

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// With returns an option that adds an attribute to a value of a self-metric.
func With(key, value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(key, value)))
}

// Observed returns the callback for a self-metric with a single value.
func Observed(value func() int64) metric.Int64Callback {
	return func(_ context.Context, o metric.Int64Observer) error {
		o.Observe(value())
		return nil
	}
}

// CountBy adds counts to a self-metric that has one attribute. The index of each count, converted
// to V and formatted as text, is the attribute's value.
func CountBy[V interface {
	~int | ~uint8
	fmt.Stringer
}](ctx context.Context, to metric.Int64Counter, key string, counts []int64) {
	for v, n := range counts {
		if n > 0 {
			to.Add(ctx, n, With(key, V(v).String()))
		}
	}
}
