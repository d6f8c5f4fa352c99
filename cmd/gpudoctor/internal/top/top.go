// Package top displays the newest window of every device. On a terminal, the user can sort and
// search the devices. If the output is not a terminal, the package writes one line per device and
// window.
package top

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/gdamore/tcell/v2"
)

// Source is a gpu_view page whose API is read.
type Source struct {
	// Name is the URL that the user entered, without credentials.
	Name string
	// Fetch requests /api/devices and returns the response body and its ETag. The caller must close
	// the body. If the document's current ETag equals tag, the returned body is nil.
	Fetch func(ctx context.Context, tag string) (body io.ReadCloser, newTag string, err error)
	// Interval is the time between two requests. Timeout is the time limit for one request.
	Interval, Timeout time.Duration

	// tag is the ETag of the last document, and page is its decoded content.
	tag  string
	page *page
}

// response is the result of one request.
type response struct {
	page *page
	err  error
}

// fetch sends one request. If the document has not changed, the fetch method returns the earlier
// page again.
func (s *Source) fetch(ctx context.Context) response {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	body, tag, err := s.Fetch(ctx, s.tag)
	if err != nil {
		return response{err: err}
	}
	if body == nil {
		return response{page: s.page}
	}
	defer body.Close()
	p, err := read(body)
	if err != nil {
		return response{err: err}
	}
	s.tag, s.page = tag, p
	return response{page: p}
}

// poll sends a request every s.Interval until ctx is done, and sends the responses on the returned
// channel.
func (s *Source) poll(ctx context.Context, first response) <-chan response {
	out := make(chan response)
	go func() {
		tick := time.NewTicker(s.Interval)
		defer tick.Stop()
		for next := first; ; next = s.fetch(ctx) {
			select {
			case out <- next:
			case <-ctx.Done():
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// Screen displays the source in a terminal until the user quits or ctx is done. Screen returns an
// error if the first request fails or if the terminal cannot be used.
func Screen(ctx context.Context, s *Source, zone *time.Location, color bool) error {
	first := s.fetch(ctx)
	if first.err != nil {
		return first.err
	}
	tty, err := tcell.NewScreen()
	if err == nil {
		err = tty.Init()
	}
	if err != nil {
		return fmt.Errorf("the terminal cannot be used (%w); add | cat to print one line per device and window", err)
	}
	defer tty.Fini()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	newScreen(tty, s.Name, zone, color).run(ctx, s.poll(ctx, first))
	return nil
}

// Lines writes one line to out for each window of each device, until ctx is done. Lines omits
// columns and shortens holders so that each line has at most width characters, if that is possible.
// If several consecutive requests fail after the first response, only the first failure is written
// to errs.
func Lines(ctx context.Context, s *Source, zone *time.Location, width int, out, errs io.Writer) error {
	first := s.fetch(ctx)
	if first.err != nil {
		return first.err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	table := &lines{out: out, zone: zone, width: width}
	failing := false
	responses := s.poll(ctx, first)
	for {
		select {
		case <-ctx.Done():
			return nil
		case a := <-responses:
			if a.err == nil {
				if err := table.write(a.page, time.Now()); err != nil {
					return err
				}
			} else if !failing && ctx.Err() == nil {
				fmt.Fprintf(errs, "%s: %v\n", s.Name, a.err)
			}
			failing = a.err != nil
		}
	}
}
