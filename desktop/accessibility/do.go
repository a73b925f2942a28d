package accessibility

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/godbus/dbus/v5"

	"github.com/deskhand/deskhand/desktop"
)

// Verb is what Do does with an element.
type Verb string

// The verbs. Those with a value say what it is.
const (
	Click          Verb = "click"
	Focus          Verb = "focus"
	SetText        Verb = "setText"  // the new text
	SetValue       Verb = "setValue" // a number
	Select         Verb = "select"   // the name of an option, or nothing to select the element itself
	Expand         Verb = "expand"
	Collapse       Verb = "collapse"
	ScrollIntoView Verb = "scrollIntoView"
	Menu           Verb = "menu" // the context menu
)

// Verbs returns all verbs.
func Verbs() []Verb {
	return []Verb{Click, Focus, SetText, SetValue, Select, Expand, Collapse, ScrollIntoView, Menu}
}

// Action is something to do with an element.
type Action struct {
	Ref   string
	Do    Verb
	Value string
}

// How an action was done.
const (
	ViaAction  = "action"  // by the program's own action
	ViaPointer = "pointer" // by the pointer, or the keyboard
	ViaNothing = "nothing" // the element was in that state already
)

// Done is what Do did.
type Done struct {
	Via string         // ViaAction, ViaPointer or ViaNothing
	At  *desktop.Point // where the pointer clicked; nil: it did not
}

// maxValue is the largest size of a value.
const maxValue = 1 << 20

// Times of actions.
const (
	askLimit   = 2 * time.Second        // of questions to the program
	doLimit    = 500 * time.Millisecond // of the program's action; a dialog that it opens may delay the answer
	checkLimit = 300 * time.Millisecond // until the program shows the effect
	checkPace  = 10 * time.Millisecond
)

// Do acts on an element, in one turn of the desktop's input. Click and Menu scroll the element
// into view, raise its window, and click its middle with the pointer. If the pointer cannot reach
// the element, as in a closed menu, they use the program's own action. The other verbs use the
// program's own actions, and the pointer or the keyboard if these have no effect.
//
// Do waits for its turn, and is subject to control and to Config.Policy of the desktop, as all
// input is. It returns a *StaleError if the element is gone, a *RefusedError if the element is
// disabled or does not support the verb, or if a window that came before the press got the click,
// an *InvalidError, ErrTimeout if the program does not answer within 2 s, or an error of the
// desktop: a *desktop.InterruptedError if ctx ends or another actor takes control, or a
// *desktop.ControlHeldError, for example. The returned Done is only valid without an error.
func (t *Tree) Do(ctx context.Context, a Action) (done Done, err error) {
	if err := a.Validate(); err != nil {
		return done, err
	}
	b, err := t.connect(ctx)
	if err != nil {
		return done, err
	}
	err = t.cfg.Desktop.Exclusive(ctx, func(ctx context.Context, turn *desktop.Turn) error {
		if err := turn.Quiesce(ctx); err != nil {
			return err
		}
		u := &use{tree: t, bus: b, verb: a.Do, value: a.Value}
		err := u.open(ctx, a.Ref)
		if err == nil {
			err = u.do(ctx)
			done = u.done
		}
		if errors.Is(err, ErrTimeout) && ctx.Err() != nil {
			err = &desktop.InterruptedError{Op: string(a.Do) + " element", Cause: context.Cause(ctx)}
		}
		return err
	})
	if errors.Is(err, ErrStale) {
		err = t.withNearest(ctx, err)
	}
	return done, err
}

// Validate returns an *InvalidError if Do would return one without looking at the element.
func (a Action) Validate() error {
	if _, err := ParseRef(a.Ref); err != nil {
		return err
	}
	switch {
	case len(a.Value) > maxValue:
		return &InvalidError{"Value", fmt.Sprintf("must have at most %d bytes", maxValue)}
	case !utf8.ValidString(a.Value) || strings.ContainsRune(a.Value, 0):
		return &InvalidError{"Value", "must be UTF-8 without NUL"}
	case a.Do == SetValue:
		if _, err := number(a.Value); err != nil {
			return err
		}
	}
	if slices.Contains(Verbs(), a.Do) {
		return nil
	}
	return &InvalidError{"Do", "must be click, focus, setText, setValue, select, expand, collapse, scrollIntoView or menu"}
}

func number(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0, &InvalidError{"Value", "must be a number"}
	}
	return f, nil
}

// use is the use of an element in one turn.
type use struct {
	tree  *Tree
	bus   *bus
	verb  Verb
	value string

	ref  reference
	node *node
	done Done
}

// open finds the element.
func (u *use) open(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var err error
	if u.ref, err = u.tree.find(ctx, u.bus, ref); err != nil {
		return err
	}
	return u.look(ctx)
}

// look reads the element, and its box on the screen.
func (u *use) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	n := &node{at: u.ref.at}
	w := &walker{bus: u.bus}
	w.one(ctx, n)
	switch {
	case ctx.Err() != nil:
		return ErrTimeout
	case !w.answered:
		return &StaleError{Ref: FormatRef(u.ref.number)}
	}
	n.box = moved(n.box, u.ref.shift)
	u.node = n
	return nil
}

func (u *use) refused(reason string) error {
	return &RefusedError{FormatRef(u.ref.number), reason}
}

func (u *use) do(ctx context.Context) error {
	if u.verb != ScrollIntoView && u.node.states != 0 && !u.node.states.enabled() {
		return u.refused("it is disabled")
	}
	switch u.verb {
	case Click:
		return u.click(ctx, desktop.ButtonLeft)
	case Menu:
		return u.click(ctx, desktop.ButtonRight)
	case Focus:
		return u.focus(ctx)
	case SetText:
		return u.setText(ctx)
	case SetValue:
		return u.setValue(ctx)
	case Select:
		return u.selects(ctx)
	case Expand:
		return u.expand(ctx, true)
	case Collapse:
		return u.expand(ctx, false)
	default:
		return u.scrollIntoView(ctx)
	}
}

// perform runs f as an input of the desktop.
func (u *use) perform(ctx context.Context, f func(context.Context) error) error {
	a := desktop.Action{Name: desktop.ActionElement, Command: string(u.verb), Target: u.ref.role.String(), Window: u.ref.window}
	if !u.ref.typed {
		a.Target += " " + strconv.Quote(u.ref.name)
	}
	switch {
	case u.verb != SetText:
	case u.ref.role == rolePassword:
		a.Length = utf8.RuneCountInString(u.value)
	default:
		a.Text, a.Length = shorten(u.value, mostEventText), utf8.RuneCountInString(u.value)
	}
	return desktop.Extend(u.tree.cfg.Desktop).Act(ctx, a, 0, f)
}

// mostEventText is how many characters of a text an event has.
const mostEventText = 4096

// call calls a method of the element as an input. A program that opens a dialog may answer only
// when that is closed, so a late answer is no error.
func (u *use) call(ctx context.Context, method string, into any, args ...any) error {
	return u.perform(ctx, func(ctx context.Context) error {
		asked, cancel := context.WithTimeout(ctx, doLimit)
		defer cancel()
		err := u.bus.do(asked, u.ref.at, method, into, args...)
		if asked.Err() != nil && ctx.Err() == nil {
			return nil
		}
		return err
	})
}

// until looks at the element until ok accepts it. It reports whether it did.
func (u *use) until(ctx context.Context, ok func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	for {
		if u.look(ctx) == nil && ok() {
			return true
		}
		if sleep(ctx, checkPace) != nil {
			return false
		}
	}
}

// focus gives the element the keyboard.
func (u *use) focus(ctx context.Context) error {
	focused := func() bool { return u.node.states.has(stateFocused) }
	if focused() {
		u.done.Via = ViaNothing
	}
	if d := u.tree.cfg.Desktop; u.ref.window != 0 {
		if w, err := d.FocusedWindow(ctx); err != nil || w.ID != u.ref.window {
			u.done.Via = ViaAction
			if _, err := d.FocusWindow(ctx, u.ref.window); err != nil {
				return err
			}
		}
	}
	if focused() {
		return nil
	}
	u.done.Via = ViaAction
	err := u.call(ctx, ifaceComponent+".GrabFocus", nil)
	if err == nil && u.until(ctx, focused) {
		return nil
	}
	var refused dbus.Error
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	if !u.node.states.has(stateEditable) {
		return u.refused("it does not take the focus")
	}
	return u.click(ctx, desktop.ButtonLeft)
}

// setText replaces the text of the element.
func (u *use) setText(ctx context.Context) error {
	secret := u.node.role == rolePassword
	if !u.node.states.has(stateEditable) {
		return u.refused("it has no text that can be changed")
	}
	var ok bool
	u.done.Via = ViaAction
	err := u.call(ctx, ifaceEditableText+".SetTextContents", &ok, u.value)
	var refused dbus.Error
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	if err == nil && ok && (secret || u.hasText(ctx)) {
		return nil
	}
	return u.typeText(ctx)
}

// hasText reports whether the element gets the text that was set.
func (u *use) hasText(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	for {
		var text string
		r := &request{to: u.ref.at, method: ifaceText + ".GetText", args: []any{int32(0), int32(-1)}, into: &text, long: true}
		if u.bus.all(ctx, []*request{r}) == nil && r.err == nil && strings.TrimRight(text, "\n") == strings.TrimRight(u.value, "\n") {
			return true
		}
		if sleep(ctx, checkPace) != nil {
			return false
		}
	}
}

// typeText replaces the text by keys.
func (u *use) typeText(ctx context.Context) error {
	d := u.tree.cfg.Desktop
	if err := u.click(ctx, desktop.ButtonLeft); err != nil {
		return err
	}
	u.done.Via = ViaPointer
	if err := d.Press(ctx, desktop.Press{Keys: "ctrl+a"}); err != nil {
		return err
	}
	if u.value == "" {
		return d.Press(ctx, desktop.Press{Keys: "Delete"})
	}
	return d.Type(ctx, desktop.Type{Text: u.value, Secret: u.node.role == rolePassword})
}

// setValue sets the number of a slider or a spin button.
func (u *use) setValue(ctx context.Context) error {
	want, err := number(u.value)
	if err != nil {
		return err
	}
	u.done.Via = ViaAction
	err = u.call(ctx, ifaceProperties+".Set", nil, ifaceValue, "CurrentValue", want)
	if _, ok := errors.AsType[dbus.Error](err); ok {
		return u.refused("it has no value that can be set")
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	have := math.NaN()
	for {
		_ = u.bus.do(ctx, u.ref.at, ifaceProperties+".Get", &have, ifaceValue, "CurrentValue")
		if math.Abs(have-want) <= 1e-6*max(1, math.Abs(want)) {
			return nil
		}
		if sleep(ctx, checkPace) != nil {
			return u.refused(fmt.Sprintf("its value is still %g", have))
		}
	}
}

// expand opens or closes the element.
func (u *use) expand(ctx context.Context, open bool) error {
	isOpen := func() bool { return u.node.states.has(stateExpanded) }
	if isOpen() == open && (open || u.node.states.has(stateCollapsed) || u.node.states.has(stateExpandable)) {
		u.done.Via = ViaNothing
		return nil
	}
	names := []string{"expand or contract", "expand", "expand or collapse"}
	if !open {
		names = []string{"expand or contract", "collapse", "contract", "expand or collapse"}
	}
	if i, ok := u.action(ctx, names, false); ok {
		u.done.Via = ViaAction
		if err := u.call(ctx, ifaceAction+".DoAction", nil, int32(i)); err != nil {
			return err
		}
		if u.until(ctx, func() bool { return isOpen() == open }) {
			return nil
		}
	}
	return u.click(ctx, desktop.ButtonLeft)
}
