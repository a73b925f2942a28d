package x11

import (
	"errors"
	"sync"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/damage"
	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"
)

// damageWatch makes the server collect the parts of the screen that are drawn on (DAMAGE
// extension), and closes a channel at the first drawing.
type damageWatch struct {
	c      *Conn
	id     damage.Damage
	region xfixes.Region // receives the damage of a request; reused
	remove func()        // of the event handler

	mu     sync.Mutex // guards the fields below
	wake   chan struct{}
	woken  bool   // wake is closed
	events uint   // how many events were handled
	last   uint16 // the sequence number of the last one
	// stale reports that the next event may be about damage that the request with the
	// sequence number staleBefore has returned already.
	stale       bool
	staleBefore uint16
	closed      bool
}

// start starts the watch. The whole screen counts as damaged at first.
func (d *damageWatch) start() error {
	var err error
	if d.id, err = damage.NewDamageId(d.c.x); err != nil {
		return err
	}
	if d.region, err = xfixes.NewRegionId(d.c.x); err != nil {
		return err
	}
	d.remove = d.c.handle(d.event)
	region := xfixes.CreateRegionChecked(d.c.x, d.region, nil)
	create := damage.CreateChecked(d.c.x, d.id, xproto.Drawable(d.c.root), damage.ReportLevelNonEmpty)
	if err = errors.Join(region.Check(), create.Check()); err != nil {
		d.remove()
	}
	return err
}

// stop ends the watch and closes its channel.
func (d *damageWatch) stop() {
	d.remove()
	damage.Destroy(d.c.x, d.id)
	xfixes.DestroyRegion(d.c.x, d.region)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.wakeLocked()
}

func (d *damageWatch) wakeLocked() {
	if !d.woken {
		d.woken = true
		close(d.wake)
	}
}

// event handles damage and new screen sizes, which may come without damage.
func (d *damageWatch) event(ev xgb.Event) {
	if e, ok := d.c.screenChange(ev); ok {
		d.announce(e.Sequence, false)
		return
	}
	raw, ok := ev.(RawEvent)
	if !ok || raw[0]&127 != d.c.ext.damage+damage.Notify {
		return
	}
	if e := damage.NotifyEventNew(raw).(damage.NotifyEvent); e.Damage == d.id {
		d.announce(e.Sequence, true)
	}
}

// announce closes the channel. seq is the last request that the server had handled.
func (d *damageWatch) announce(seq uint16, isDamage bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events++
	d.last = seq
	if isDamage && d.stale {
		d.stale = false
		if before(seq, d.staleBefore) {
			return
		}
	}
	d.wakeLocked()
}

// before compares the sequence numbers of requests that are close together.
func before(a, b uint16) bool { return int16(a-b) < 0 }

// damageRequest is a request for the damage whose answer has not been read.
type damageRequest struct {
	events uint // handled when it was sent
	seq    uint16
	region xfixes.FetchRegionCookie
}

// request asks for the damage since the last request.
func (d *damageWatch) request() damageRequest {
	d.mu.Lock()
	t := damageRequest{events: d.events}
	d.mu.Unlock()
	t.seq = damage.Subtract(d.c.x, d.id, 0, d.region).Sequence
	t.region = xfixes.FetchRegion(d.c.x, d.region)
	return t
}

// wait reports whether there is damage, and calls mark, unless it is nil, with the rows of
// each damaged rectangle.
func (d *damageWatch) wait(t damageRequest, mark func(top, bottom int)) (dirty bool, err error) {
	// The raw reply of XFIXES FetchRegion: a header of 32 bytes, then
	// rectangles of 8.
	reply, err := t.region.Cookie.Reply()
	if err != nil {
		return false, err
	}
	rects := reply[32:]
	dirty = len(rects) >= 8
	d.renew(t, dirty)
	for ; mark != nil && len(rects) >= 8; rects = rects[8:] {
		y := int(int16(xgb.Get16(rects[2:])))
		mark(y, y+int(xgb.Get16(rects[6:])))
	}
	return dirty, nil
}

// renew makes a new channel, unless the event of newer damage was handled already. If the
// event of the taken damage has not come yet, it closes the old channel.
func (d *damageWatch) renew(t damageRequest, dirty bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	newer := d.events != t.events && !before(d.last, t.seq)
	if d.closed || newer || !d.woken && !dirty {
		return
	}
	if !d.woken {
		d.stale, d.staleBefore = true, t.seq
		close(d.wake)
	}
	d.woken = false
	d.wake = make(chan struct{})
}

// damaged returns a channel that is closed at the first damage after the last request.
func (d *damageWatch) damaged() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wake
}
