// Package top displays the newest window of every device. On a terminal, the devices can be sorted
// and searched. Otherwise, the output is one line per device and window.
package top

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/gdamore/tcell/v2"
)

// Source is the API of a page.
type Source struct {
	// Name is the source as the user entered it, without credentials.
	Name string
	// Fetch requests /api/devices. It returns the response and its ETag. The caller must close the
	// response. If the document with the given ETag is still the current one, the response is nil.
	Fetch func(ctx context.Context, tag string) (body io.ReadCloser, newTag string, err error)
	// Interval is the time between two requests. Timeout is the time limit for one request.
	Interval, Timeout time.Duration

	// tag and page are the ETag and the page of the last document.
	tag  string
	page *page
}

// response is the result of one request.
type response struct {
	page *page
	err  error
}

// fetch sends one request. If the document has not changed, it returns the earlier page again.
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

// poll sends requests until ctx is done.
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

// Screen displays the source in a terminal until the user quits or ctx is done. It returns an error
// if the first request fails or the terminal cannot be used.
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

// Lines writes one line of at most width characters per device and window, until ctx is done. After
// the first response, if several consecutive requests fail, it writes only the first failure to
// errs.
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
