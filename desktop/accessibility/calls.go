package accessibility

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/godbus/dbus/v5"
)

// firstSerial is the serial number of the first call of calls. godbus counts from 1.
const firstSerial = 1 << 31

// calls are the calls of a connection that wait for answers.
type calls struct {
	mu      sync.Mutex // guards the fields below
	serial  uint32     // of the call before
	waiting map[uint32]waiting
	ended   bool // the connection has ended
}

// waiting is a call that waits for its answer.
type waiting struct {
	index   int  // in the requests of its caller
	long    bool // the whole text is wanted
	answers chan<- answer
}

// answer is the answer to a call.
type answer struct {
	index int
	ended bool // there is no answer, because the connection has ended
	size  int  // of the message
	header
	order binary.ByteOrder
}

// add gives a call a serial number. It answers the call if the connection has ended.
func (c *calls) add(w waiting) (serial uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial = max(c.serial+1, firstSerial) // also after an overflow
	if c.ended {
		w.answers <- answer{index: w.index, ended: true}
		return c.serial
	}
	if c.waiting == nil {
		c.waiting = map[uint32]waiting{}
	}
	c.waiting[c.serial] = w
	return c.serial
}

// take removes a call, and returns it.
func (c *calls) take(serial uint32) (waiting, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.waiting[serial]
	delete(c.waiting, serial)
	return w, ok
}

// long reports whether a call wants the whole text.
func (c *calls) long(serial uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting[serial].long
}

// end answers all calls that wait.
func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, w := range c.waiting {
		w.answers <- answer{index: w.index, ended: true}
	}
	clear(c.waiting)
}

// inFlight is how many requests to one program are under way at a time.
const inFlight = 64

// all sends requests, and returns when all are answered or ctx ends. Each request then has its
// error. all returns the error of ctx.
func (b *bus) all(ctx context.Context, requests []*request) error {
	if len(requests) == 0 {
		return ctx.Err()
	}
	name := requests[0].to.Name
	link := b.links.to(name)
	if link == nil || slices.ContainsFunc(requests, func(r *request) bool { return r.to.Name != name }) {
		return b.transport.all(ctx, requests)
	}
	err := link.all(ctx, requests)
	requests = slices.DeleteFunc(slices.Clone(requests), func(r *request) bool { return !errors.Is(r.err, dbus.ErrClosed) })
	if len(requests) > 0 { // the link has ended, which the bus knows to be the end of the program or not
		return b.transport.all(ctx, requests)
	}
	return err
}

func (t *transport) all(ctx context.Context, requests []*request) error {
	c := &t.calls
	answers := make(chan answer, inFlight) // the reader of the connection never waits
	serials := make([]uint32, len(requests))
	sent, err := 0, ctx.Err()
	for answered := 0; answered < len(requests) && err == nil; {
		if under := sent - answered; under <= inFlight/2 && sent < len(requests) {
			from := sent
			sent += min(inFlight-under, len(requests)-sent)
			err = t.send(requests[from:sent], serials[from:sent], from, answers)
		}
		select {
		case a := <-answers:
			answered++
			serials[a.index] = 0
			requests[a.index].finish(a)
			t.queued.give(a.size)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		for i, r := range requests {
			if serials[i] != 0 || i >= sent {
				r.err = err
			}
			if _, unanswered := c.take(serials[i]); serials[i] != 0 && !unanswered {
				t.queued.give((<-answers).size)
			}
		}
	}
	return ctx.Err()
}

// send writes calls together. from is the index of the first one. If that fails, it ends the
// connection and returns dbus.ErrClosed.
func (t *transport) send(requests []*request, serials []uint32, from int, answers chan<- answer) error {
	var text []byte
	for i, r := range requests {
		serials[i] = t.calls.add(waiting{from + i, r.long, answers})
		text = appendCall(text, serials[i], r)
	}
	if _, err := t.Write(text); err != nil {
		_ = t.Close() // the peer may have a part of a message, and the calls are not answered
		return dbus.ErrClosed
	}
	return nil
}

// finish stores the answer to a request.
func (r *request) finish(a answer) {
	switch {
	case a.ended:
		r.err = dbus.ErrClosed
	case a.failure != "":
		r.err = dbus.Error{Name: a.failure}
	case r.into != nil:
		r.err = a.decode(a.order, r.into)
	}
	if r.err == nil && r.then != nil {
		r.then()
	}
}
