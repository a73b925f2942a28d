package browser_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// hostileBrowser is a program that answers more than it was asked for.
const hostileBrowser = `#!/usr/bin/env python3
import json, os
def write(text):
    text = text.encode() + b"\0"
    while text: text = text[os.write(4, text):]
def value(expression):
    if "outline(" in expression[-200:]:
        node = '{"n":%d,"role":"button","name":"' + 5000 * "x" + '"}'
        return '{"nonce":"1","nodes":[%s]}' % ",".join(node % (i + 1) for i in range(100))
    if "text(" in expression[-200:]: return '{"text":"%s"}' % (5000 * "x")
    if expression == "flat": return "[%s1]" % (3_000_000 * "1,")
    if expression == "deep": return 1000 * "[" + 1000 * "]"
    if expression == "many": return "[%s1]" % (300_000 * "1,")
    return "1"
read = b""
while more := os.read(3, 1 << 20):
    *messages, read = (read + more).split(b"\0")
    for m in map(json.loads, messages):
        method, result = m["method"], "{}"
        if method == "Browser.getVersion": result = '{"product":"%s"}' % (100_000 * "x")
        if method == "Target.attachToBrowserTarget": result = '{"sessionId":"B"}'
        if method == "Target.setAutoAttach" and "sessionId" not in m:
            write('{"method":"Target.attachedToTarget","params":{"sessionId":"S","targetInfo":{"targetId":"T","type":"page","title":"one"}}}')
        if method == "Target.getTargets": result = '{"targetInfos":[%s{}]}' % (2_000_000 * "{},")
        if method == "Page.createIsolatedWorld": result = '{"executionContextId":1}'
        if method == "Runtime.evaluate": result = '{"result":{"value":%s}}' % value(m["params"]["expression"])
        if method == "Page.reload": write('{"id":%d,"error":{"code":1,"message":"%s"}}' % (m["id"], 2_000_000 * "x"))
        else: write('{"id":%d,"result":%s}' % (m["id"], result))
        if method == "Browser.close": raise SystemExit
`

// TestHostileAnswers starts a program that only pretends to be a browser. Its answers cost little memory, and
// return no more than was asked for.
func TestHostileAnswers(t *testing.T) { // not parallel: it counts what the process allocates
	testx11.Require(t, "python3")
	program := filepath.Join(t.TempDir(), "browser")
	if err := os.WriteFile(program, []byte(hostileBrowser), 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := browser.Start(t.Context(), browser.Config{Desktop: startDesktop(t, desktop.Config{}), Program: program, Headless: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx := t.Context()
	if n := len(b.Version().Product); n > 1100 {
		t.Errorf("the version has %d bytes", n)
	}
	for name, f := range map[string]func() error{
		"tabs": func() error {
			tabs, err := b.Tabs(ctx)
			if len(tabs) != 1 || tabs[0].Title != "one" {
				t.Errorf("%d tabs", len(tabs))
			}
			return err
		},
		"outline": func() error {
			o, err := b.Outline(ctx, browser.OutlineQuery{Limit: 10})
			if len(o.Nodes) != 10 || len(o.Nodes[0].Name) > 1100 || !o.Truncated {
				t.Errorf("%d nodes, truncated: %t", len(o.Nodes), o.Truncated)
			}
			return err
		},
		"text": func() error {
			text, err := b.Text(ctx, browser.TextQuery{Limit: 10})
			if len(text.Text) != 10 || !text.Truncated {
				t.Errorf("%d bytes, truncated: %t", len(text.Text), text.Truncated)
			}
			return err
		},
		"error": func() error {
			_, err := b.Reload(ctx, browser.Navigate{})
			if f, ok := errors.AsType[*browser.Fault](err); !ok || len(f.Message) > 1100 {
				t.Errorf("an error of %d bytes", len(fmt.Sprint(err)))
			}
			return nil
		},
		"flat": func() error { return tooLarge(t, b, "flat") },
		"deep": func() error { return tooLarge(t, b, "deep") },
		"many": func() error { return tooLarge(t, b, "many") },
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := f()
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Error(err)
			}
			// What is read takes up to four times the size of an answer.
			if n := after.TotalAlloc - before.TotalAlloc; n > 100<<20 {
				t.Errorf("%d bytes were allocated", n)
			}
		})
	}
}

// tooLarge returns an error unless the value of an expression is too large.
func tooLarge(t *testing.T, b *browser.Browser, expression string) error {
	t.Helper()
	v, err := b.Evaluate(t.Context(), browser.Evaluate{Expression: expression})
	if errors.Is(err, browser.ErrTooLarge) {
		return nil
	}
	return fmt.Errorf("a value of %d bytes: %w", len(v.Value), err)
}
