package accessibility

import (
	"context"
	"errors"
	"strings"

	"github.com/godbus/dbus/v5"
)

// bus is a connection to the accessibility bus.
type bus struct {
	conn      *dbus.Conn
	transport *transport
	uid       int // of the programs
	listeners listeners
	links     links
	kept      budget // what queries keep of answers
	queued    budget // answers that were read and not decoded
}

// busDaemon is the bus itself.
var busDaemon = address{"org.freedesktop.DBus", "/org/freedesktop/DBus"}

func (b *bus) close() error {
	b.links.close()
	err := b.conn.Close()
	if errors.Is(err, dbus.ErrClosed) {
		return nil
	}
	return err
}

// The names of AT-SPI's interfaces.
const (
	ifaceAccessible   = "org.a11y.atspi.Accessible"
	ifaceAction       = "org.a11y.atspi.Action"
	ifaceComponent    = "org.a11y.atspi.Component"
	ifaceEditableText = "org.a11y.atspi.EditableText"
	ifaceSelection    = "org.a11y.atspi.Selection"
	ifaceText         = "org.a11y.atspi.Text"
	ifaceValue        = "org.a11y.atspi.Value"
	ifaceProperties   = "org.freedesktop.DBus.Properties"
)

// address identifies an element: the name of its program on the bus, and its path there.
type address struct {
	Name string
	Path dbus.ObjectPath
}

// nullPath is the path of no element.
const nullPath = "/org/a11y/atspi/null"

// mostPath is the length of the longest path that a program may give an element.
const mostPath = 512

// null reports whether an address is not the address of an element, or is one that the bus would
// refuse: the bus ends connections that send to invalid names.
func (a address) null() bool {
	return !isUnique(a.Name) || a.Path == nullPath || len(a.Path) > mostPath || !a.Path.IsValid()
}

// isUnique reports whether a bus can have given a name to a connection, such as ":1.23".
func isUnique(name string) bool {
	number := func(s string) bool { return s != "" && len(s) <= 20 && strings.Trim(s, "0123456789") == "" }
	rest, ok := strings.CutPrefix(name, ":")
	first, second, _ := strings.Cut(rest, ".")
	return ok && number(first) && number(second)
}

// rootPath is the path of the root of every program.
const rootPath = "/org/a11y/atspi/accessible/root"

// rootOf returns the address of a program's root.
func rootOf(name string) address { return address{name, rootPath} }

// request is a call of a method of an element.
type request struct {
	to     address
	method string // with its interface
	args   []any
	long   bool   // the whole text is wanted; else its first 4096 bytes or more
	into   any    // a pointer to the first result; nil: the result is not needed
	then   func() // called when into is set; nil: nothing
	err    error  // after all
}

// propertyOf returns a request for a property.
func propertyOf(of address, iface, name string, into any) *request {
	return &request{to: of, method: ifaceProperties + ".Get", args: []any{iface, name}, into: into}
}

// do sends one request.
func (b *bus) do(ctx context.Context, to address, method string, into any, args ...any) error {
	r := &request{to: to, method: method, args: args, into: into}
	if err := b.all(ctx, []*request{r}); err != nil {
		return err
	}
	return r.err
}

// gone reports whether an error means that an element does not exist any more.
func gone(err error) bool {
	var e dbus.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Name {
	case "org.freedesktop.DBus.Error.UnknownObject", "org.freedesktop.DBus.Error.UnknownMethod", "org.freedesktop.DBus.Error.ServiceUnknown",
		"org.freedesktop.DBus.Error.NameHasNoOwner", "org.freedesktop.DBus.Error.UnknownInterface", "org.freedesktop.DBus.Error.NoReply":
		return true
	}
	return false
}
