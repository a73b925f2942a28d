package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrTooLarge is returned if a result is larger than its bound.
var ErrTooLarge = errors.New("the result is too large")

// ScriptError is an exception that the script of Evaluate has thrown.
type ScriptError struct{ Message string }

func (e *ScriptError) Error() string { return "the script has failed: " + e.Message }

// evaluateIn evaluates an expression in a session and an execution context, where 0 is the
// page's own. It decodes the value into result.
func (b *tabs) evaluateIn(ctx context.Context, session string, contextID int, expression string, result any) error {
	params := map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}
	if contextID != 0 {
		params["contextId"] = contextID
	}
	if deadline, ok := ctx.Deadline(); ok {
		params["timeout"] = max(1, time.Until(deadline).Milliseconds())
	}
	var v struct {
		Result           remoteObject `json:"result"`
		ExceptionDetails *exception   `json:"exceptionDetails"`
	}
	if err := b.callPage(ctx, session, "Runtime.evaluate", params, &v); err != nil {
		return err
	}
	if v.ExceptionDetails != nil {
		return &ScriptError{limited(v.ExceptionDetails.message())}
	}
	if result == nil || v.Result.Value == nil {
		return nil
	}
	if err := json.Unmarshal(v.Result.Value, result); err != nil {
		return fmt.Errorf("evaluate: %w", err)
	}
	return nil
}

// DialogError says that a dialog stops the scripts of a page.
type DialogError struct{ Dialog Dialog }

func (e *DialogError) Error() string {
	return fmt.Sprintf("a dialog (%s) is open in the page: %q; answer it first", e.Dialog.Type, e.Dialog.Message)
}

// dialogTime is how long the policy, or a client, may take to answer a dialog.
const dialogTime = time.Second

// awaitNoDialog waits until no dialog is open in the tab of a session. It returns a
// *DialogError if one stays open.
func (b *tabs) awaitNoDialog(ctx context.Context, session string) error {
	var open *Dialog
	limit, cancel := context.WithTimeout(ctx, dialogTime)
	defer cancel()
	err := b.await(limit, func() bool {
		open = nil
		if t := b.followed[session]; t != nil {
			open = t.dialog
		}
		return open == nil
	})
	if err != nil && ctx.Err() == nil && open != nil && !errors.Is(err, ErrEnded) {
		return &DialogError{*open}
	}
	return err
}

// callPage is call for a command that a page answers. It returns a *NotReadyError if the page has
// crashed, or crashes: such a page does not answer.
func (b *tabs) callPage(ctx context.Context, session, method string, params, result any) error {
	b.mu.Lock()
	t := b.followed[session]
	if t == nil {
		b.mu.Unlock()
		return b.call(ctx, session, method, params, result)
	}
	crash, title, main := t.crash, t.info.Title, session == t.session
	b.mu.Unlock()
	err := b.conn.callUntil(ctx, crash, session, method, params, result)
	if errors.Is(err, errStopped) {
		return &NotReadyError{"the page " + title, "crashed; load another page"}
	}
	if f, ok := errors.AsType[*Fault](err); ok && f.Code == errNoSession.Code && main {
		return errClosed
	}
	return err
}

// targetCrashed handles the crash of a page. Chromium crashes with pages of some thousand nested
// elements.
func (b *tabs) targetCrashed(params json.RawMessage) {
	var v targetInfo
	if json.Unmarshal(params, &v) != nil {
		return
	}
	if t := b.find(v.TargetID); t != nil && !t.crashed {
		t.crashed = true
		close(t.crash)
	}
}
