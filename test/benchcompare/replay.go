package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
)

// replay sends requests on behalf of many agents.
type replay struct {
	sent, failed, late atomic.Int64
	first              atomic.Pointer[string]
}

// patience is the timeout for an agent's request.
const patience = 10 * time.Second

// senders is the maximum number of agents that send concurrently.
const senders = 32

// run sends one request per agent in each scrape interval, evenly spread over the interval, until
// ctx is done. Each agent has its own connection to a gateway. The gateway function returns the
// host:port of the gateway with the given index.
func (rp *replay) run(ctx context.Context, tr tier, r *recording, gateway func(int) string) error {
	connections := make([]*grpc.ClientConn, 0, tr.agents())
	defer func() {
		for _, c := range connections {
			_ = c.Close()
		}
	}()
	for i := range tr.agents() {
		c, err := grpc.NewClient("passthrough:///"+gateway(i%tr.run),
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithReadBufferSize(0), grpc.WithDisableServiceConfig(),
			grpc.WithDefaultCallOptions(grpc.ForceCodec(asItIs{}), grpc.UseCompressor(gzip.Name)))
		if err != nil {
			return err
		}
		connections = append(connections, c)
	}
	due := make(chan int)
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			var body []byte
			for node := range due {
				body = r.of(body[:0], node, time.Now())
				call, cancel := context.WithTimeout(ctx, patience)
				var answer []byte
				err := connections[node].Invoke(call, "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", &body, &answer)
				cancel()
				if ctx.Err() != nil {
					continue
				}
				rp.sent.Add(1)
				if err != nil {
					rp.failed.Add(1)
					text := err.Error()
					rp.first.CompareAndSwap(nil, &text)
				}
			}
		})
	}
	defer wg.Wait()
	defer close(due)
	begun := time.Now()
	for n := 0; ; n++ {
		at := begun.Add(time.Duration(n) * tr.interval / time.Duration(len(connections)))
		select {
		case <-time.After(time.Until(at)):
		case <-ctx.Done():
			return nil
		}
		if time.Since(at) > tr.interval/4 {
			rp.late.Add(1)
		}
		select {
		case due <- n % len(connections):
		case <-ctx.Done():
			return nil
		}
	}
}

// asItIs is a gRPC codec for messages that are already encoded.
type asItIs struct{}

var _ encoding.Codec = asItIs{}

func (asItIs) Name() string { return "proto" }

func (asItIs) Marshal(v any) ([]byte, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("%T is not a message", v)
	}
	return *b, nil
}

func (asItIs) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("%T is not a message", v)
	}
	*b = bytes.Clone(data)
	return nil
}
