package supervise

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFind(t *testing.T) {
	t.Parallel()
	mine, other := newTestGroup(t, GroupConfig{Owner: "user"}), newTestGroup(t, GroupConfig{Owner: "desktop"})
	a, _ := shell(t, mine, "sleep 1000")
	b, _ := shell(t, other, "exit 3")
	wait(t, b)
	if Find(a.ID()) != a || Find(b.ID()) != b || Find("proc_0") != nil || Find("") != nil {
		t.Errorf("Find: %v, %v, %v, %v", Find(a.ID()), Find(b.ID()), Find("proc_0"), Find(""))
	}
	if o := Others(mine); !slices.Contains(o, b) || slices.Contains(o, a) {
		t.Error("Others has the group's own child, or lacks a child of another group")
	}
	if a.Owner() != "user" || b.Owner() != "desktop" {
		t.Errorf("owners %q, %q", a.Owner(), b.Owner())
	}
	if a.Forget() || !b.Forget() || b.Forget() || Find(a.ID()) == nil || Find(b.ID()) != nil {
		t.Error("Forget: want false for a running child, true once for an ended one")
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(Others(mine), b) {
		t.Error("Others has the child of a closed group")
	}
}

// A reader that calls Since again and again gets every byte once, unless it is too slow. New
// output wakes it.
func TestSince(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	c, _ := shell(t, g, "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; echo end")
	var text strings.Builder
	var at int64
	for over := false; !over; {
		select {
		case <-c.Done():
			over = true
		default:
		}
		b, total, changed := c.Since(at)
		if int64(len(b)) > total-at {
			t.Fatalf("%d bytes of %d since %d", len(b), total, at)
		}
		if int64(len(b)) < total-at { // too slow
			text.Reset()
		}
		text.Write(b)
		at = total
		if len(b) == 0 && !over {
			select {
			case <-changed:
			case <-c.Done():
			}
		}
	}
	if s := text.String(); !strings.HasSuffix(s, "line 1998\nline 1999\nend\n") {
		t.Errorf("read %q at the end", s[max(0, len(s)-100):])
	}
	b, total, _ := c.Since(0)
	if len(b) < tailSize || int64(len(b)) > total || !strings.HasSuffix(string(b), "end\n") {
		t.Errorf("Since(0) has %d bytes of %d", len(b), total)
	}
	if b, _, _ := c.Since(total + 5); len(b) != 0 {
		t.Errorf("after the end: %q", b)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	c, out := shell(t, g, `sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo busy; exec sleep 1000' & sleep 1000`)
	out.await(t, "busy")
	if err := poll(time.Minute, func() error {
		u, err := c.Usage()
		if err == nil && (u.Processes != 3 || u.CPU <= 0 || u.Memory < 100_000 || u.Memory > 1<<30) {
			t.Logf("usage %+v", u)
			err = errFull
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	before, err := c.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := c.Usage()
	if err != nil || after.Processes != 0 || after.Memory != 0 {
		t.Errorf("after the end: %+v, %v", after, err)
	}
	if before.CPU < 10*time.Millisecond {
		t.Errorf("300000 rounds of a shell took %v", before.CPU)
	}

	// The usage of an ended child includes the children that it waited for.
	c, _ = shell(t, g, `sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; true`)
	wait(t, c)
	if u, err := c.Usage(); err != nil || u.CPU < 10*time.Millisecond || u.Processes != 0 {
		t.Errorf("of an ended child: %+v, %v", u, err)
	}
}
