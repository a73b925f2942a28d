package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/sdktest"
	"github.com/deskhand/deskhand/internal/supervise"
)

// steps are what a task does. Positions are in the window that has the focus, and DIR is
// the directory of the round.
//
//	press KEY [KEY]...   press keys, one after the other
//	type TEXT
//	choose PATH          in a dialog for files
//	click X Y, double X Y, right X Y, middle X Y
//	drag X Y X Y
//	scroll X Y CLICKS
//	await REGEXP         a window with such a title, which then has the focus
//	settle               wait until the screen does not change for half a second
type steps []string

const (
	startLimit = 60 * time.Second // how long an application may take to be ready
	awaitLimit = 20 * time.Second // how long a window may take to come
)

// each returns the steps, with each key of a press as a step.
func (s steps) each() (out steps) {
	for _, step := range s {
		if keys, ok := strings.CutPrefix(step, "press "); ok {
			for key := range strings.FieldsSeq(keys) {
				out = append(out, "press "+key)
			}
			continue
		}
		out = append(out, step)
	}
	return out
}

// action is an action of the API.
type action map[string]any

// step returns a step as an action of the API, and as the arguments of xdotool.
func (r *round) step(step string, w window) (action, []string) {
	verb, text, _ := strings.Cut(step, " ")
	text = r.expand(text)
	at := func(i int) int {
		n, err := strconv.Atoi(strings.Fields(text)[i])
		if err != nil {
			panic(step)
		}
		return n + []int{w.X, w.Y}[i%2]
	}
	move := func(i int) []string { return []string{"mousemove", strconv.Itoa(at(i)), strconv.Itoa(at(i + 1))} }
	click := func(button string, number, count int) (action, []string) {
		return action{"type": "click", "x": at(0), "y": at(1), "button": button, "clickCount": count},
			append(move(0), "click", "--repeat", strconv.Itoa(count), "--delay", "0", strconv.Itoa(number))
	}
	switch verb {
	case "press":
		return action{"type": "press", "key": text}, []string{"key", "--delay", "0", text}
	case "type":
		return action{"type": "type", "text": text}, []string{"type", "--", text}
	case "choose":
		return r.step("type "+text+"\n", w)
	case "click":
		return click("left", 1, 1)
	case "double":
		return click("left", 1, 2)
	case "middle":
		return click("middle", 2, 1)
	case "right":
		return click("right", 3, 1)
	case "drag":
		return action{"type": "drag", "path": [][2]int{{at(0), at(1)}, {at(2), at(3)}}},
			append(append(append(move(0), "mousedown", "1"), move(2)...), "mouseup", "1")
	case "scroll":
		n := at(2) - w.X
		return action{"type": "scroll", "x": at(0), "y": at(1), "deltaY": n}, append(move(0), "click", "--repeat", strconv.Itoa(n), "--delay", "0", "5")
	case "await":
		return action{"type": "wait", "until": "window", "window": "~" + text, "timeoutMs": awaitLimit.Milliseconds()},
			[]string{"search", "--sync", "--onlyvisible", "--name", text, "windowactivate", "--sync"}
	case "settle":
		return action{"type": "wait", "until": "settled"}, []string{"sleep", "0.5"}
	}
	panic(step)
}

// routes are the routes of single actions. Others have to be in a list.
var routes = map[any]string{"press": "/keyboard/press", "type": "/keyboard/type", "click": "/mouse/click", "scroll": "/mouse/scroll"}

// act does each step by one call of the server.
func (r *round) act(s steps) error {
	for _, step := range s.each() {
		a, _ := r.step(step, r.focused())
		path, ok := routes[a["type"]]
		if !ok {
			if err := r.list([]action{a}); err != nil {
				return err
			}
			continue
		}
		delete(a, "type")
		if err := r.call(r.ctx, http.MethodPost, path, a, nil); err != nil {
			return err
		}
	}
	return nil
}

// actInLists does the steps by one call of the server, and another one after each window
// that it waits for, as the client needs the position of that.
func (r *round) actInLists(s steps) error {
	var list []action
	w := r.focused()
	for _, step := range s.each() {
		a, _ := r.step(step, w)
		list = append(list, a)
		if a["type"] == "wait" {
			if err := r.list(list); err != nil {
				return err
			}
			list, w = nil, r.focused()
		}
	}
	return r.list(list)
}

func (r *round) list(actions []action) error {
	var answer struct {
		Done    int
		Results []struct{ Error map[string]any }
	}
	if len(actions) == 0 {
		return nil
	}
	err := r.call(r.ctx, http.MethodPost, "/actions", map[string]any{"actions": actions, "settle": map[string]any{"ms": 0}}, &answer)
	if err == nil && answer.Done < len(actions) {
		return fmt.Errorf("%d of %d actions: %v", answer.Done, len(actions), answer.Results)
	}
	return err
}

// actByXdotool does each step by one run of xdotool.
func (r *round) actByXdotool(s steps) error {
	ctx, cancel := context.WithTimeout(r.ctx, awaitLimit)
	defer cancel()
	for _, step := range s.each() {
		_, args := r.step(step, r.focused())
		if err := sdktest.Run(ctx, supervise.Spec{Path: "xdotool", Args: args, Env: r.display}); err != nil {
			return err
		}
	}
	return nil
}
