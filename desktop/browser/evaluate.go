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

// scriptValue decodes the value of a script into result, unless that is nil. null and undefined
// leave result as it is.
type scriptValue struct {
	result any
	err    error
}

func (v *scriptValue) UnmarshalJSON(text []byte) error {
	if v.result != nil && string(text) != "null" {
		v.err = json.Unmarshal(text, v.result)
	}
	return nil // there may be an exception
}

// evaluateIn evaluates an expression in a session and an execution context, where 0 is the
// page's own. It decodes the value into result. It returns an error that wraps ErrTooLarge if the value has
// more than maxAnswer bytes.
func (b *tabs) evaluateIn(ctx context.Context, session string, contextID int, expression string, result any) error {
	return b.evaluateLarge(ctx, session, contextID, expression, result, maxAnswer)
}

// evaluateLarge is like evaluateIn for a value of at most most bytes.
func (b *tabs) evaluateLarge(ctx context.Context, session string, contextID int, expression string, result any, most int) error {
	params := map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}
	if contextID != 0 {
		params["contextId"] = contextID
	}
	if deadline, ok := ctx.Deadline(); ok {
		params["timeout"] = max(1, time.Until(deadline).Milliseconds())
	}
	var v struct {
		Result struct {
			Value scriptValue `json:"value"`
		} `json:"result"`
		ExceptionDetails *exception `json:"exceptionDetails"`
	}
	v.Result.Value.result = result
	const around = 64 << 10 // what the answer has in addition to the value
	if err := b.callLarge(ctx, session, "Runtime.evaluate", params, &v, most+around); err != nil {
		return err
	}
	if v.ExceptionDetails != nil {
		return &ScriptError{limited(v.ExceptionDetails.message())}
	}
	if err := v.Result.Value.err; err != nil {
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
	return b.callLarge(ctx, session, method, params, result, answerSize(method))
}

// callLarge is like callPage for an answer of at most most bytes.
func (b *tabs) callLarge(ctx context.Context, session, method string, params, result any, most int) error {
	b.mu.Lock()
	t := b.followed[session]
	if t == nil {
		b.mu.Unlock()
		return b.conn.callUntil(ctx, nil, session, method, params, result, most)
	}
	crash, title, main := t.crash, t.info.Title, session == t.session
	b.mu.Unlock()
	err := b.conn.callUntil(ctx, crash, session, method, params, result, most)
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
