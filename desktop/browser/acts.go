package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/deskhand/deskhand/desktop"
)

// looking matches the commands that only look at pages, run scripts in them, attach to them, or let
// pages go on that wait for the client. While another actor has control alone, a client can send no
// others.
var looking = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:` +
		`(?:Accessibility|Audits|Console|DOMSnapshot|HeapProfiler|Inspector|IO|LayerTree|Log|Performance|PerformanceTimeline|Profiler|Schema|SystemInfo|Tracing)\.\w+|` +
		`(?:Animation|Browser|CacheStorage|CSS|DOM|DOMStorage|Emulation|IndexedDB|Media|Network|Overlay|Page|Runtime|Security|ServiceWorker|Storage|Target|WebAudio)` +
		`\.(?:can|capture|collect|describe|disable|enable|get|perform|print|push|query|release|request|resolve|search|take|track|untrack)(?:[A-Z]\w*)?|` +
		`Browser\.setDownloadBehavior|Debugger\.(?:disable|resume)|Fetch\.(?:disable|(?:continue|fail|fulfill|get|take)\w+)|` +
		`DOM\.(?:discardSearchResults|scrollIntoViewIfNeeded)|Emulation\.(?:setEmulatedMedia|setFocusEmulationEnabled)|` +
		`CSS\.st(?:art|op)RuleUsageTracking|DOMDebugger\.getEventListeners|Memory\.getDOMCounters|Network\.streamResourceContent|` +
		`Page\.(?:addScriptToEvaluateOnNewDocument|createIsolatedWorld|removeScriptToEvaluateOnNewDocument|screencastFrameAck|set(?:DownloadBehavior|LifecycleEventsEnabled)|st(?:art|op)Screencast)|` +
		`Runtime\.(?:addBinding|awaitPromise|callFunctionOn|compileScript|discardConsoleEntries|evaluate|globalLexicalScopeNames|removeBinding|run\w+|set\w+)|` +
		`Target\.(?:attachTo\w+|createBrowserContext|detachFromTarget|setAutoAttach|setDiscoverTargets))$`)
})

// checkControl returns an error for a command that does more than look while another actor has
// control alone.
func (c *client) checkControl(method string) error {
	if err := c.held(); err != nil && !looking().MatchString(method) {
		return err
	}
	return nil
}

// acting are the commands, and the domains of commands, that do what a person does with the
// browser's window, and what events call them.
var acting = map[string]string{
	"Page.navigate": "navigate", "Page.reload": "reload", "Page.navigateToHistoryEntry": "go in the history",
	"Page.resetNavigationHistory": "go in the history", "Page.stopLoading": "stop loading", "Page.setWebLifecycleState": "freeze page",
	"Page.bringToFront": "activate tab", "Page.close": "close tab", "Page.crash": "crash tab",
	"Page.handleJavaScriptDialog": "answer dialog", "DOM.setFileInputFiles": "upload", "Browser.setWindowBounds": "set window bounds",
	"Browser.setContentsSize": "set window bounds", "Browser.executeBrowserCommand": "run browser command",
	"Target.createTarget": "open tab", "Target.activateTarget": "activate tab", "Target.closeTarget": "close tab",
	"Target.disposeBrowserContext": "close tabs", "Target.openDevTools": "open DevTools",
	"Emulation.setDeviceMetricsOverride": "emulate screen", "Emulation.setVisibleSize": "emulate screen",
	"Emulation.setPageScaleFactor": "emulate screen", "Emulation.resetPageScaleFactor": "emulate screen",
	"Emulation.setScriptExecutionDisabled": "disable scripts", "Emulation.setCPUThrottlingRate": "slow page down",
	"Emulation.setTouchEmulationEnabled": "emulate touch", "Overlay.setInspectMode": "inspect",
	"Emulation.setEmitTouchEventsForMouse": "emulate touch", "Emulation.setVirtualTimePolicy": "stop time",
	"Page.setDeviceMetricsOverride": "emulate screen", "Page.setTouchEmulationEnabled": "emulate touch", "Page.setFontSizes": "emulate screen",
	"Page.setRPHRegistrationMode": "answer permission dialogs", "Page.setSPCTransactionMode": "answer payment dialogs",
	"Network.emulateNetworkConditions": "slow page down", "Network.emulateNetworkConditionsByRule": "slow page down",
	"Network.overrideNetworkState": "slow page down", "Network.setBlockedURLs": "block requests",
	"Browser.grantPermissions": "answer permission dialogs", "Browser.setPermission": "answer permission dialogs",
	"Browser.resetPermissions": "answer permission dialogs", "Browser.cancelDownload": "cancel download",
	"Runtime.terminateExecution": "stop scripts",
	"Storage.clearDataForOrigin": "clear data", "Storage.clearDataForStorageKey": "clear data", "Storage.clearCookies": "clear data",
	"Network.clearBrowserCookies": "clear data", "Network.clearBrowserCache": "clear data", "Network.deleteCookies": "clear data",
	"Security.setIgnoreCertificateErrors": "ignore certificates", "Security.handleCertificateError": "ignore certificates",
	"Security.setOverrideCertificateErrors": "ignore certificates",
	"Fetch.enable":                          "intercept requests", "Network.setRequestInterception": "intercept requests",
	"Autofill": "fill form", "DeviceAccess": "choose device", "FedCm": "answer sign-in dialog", "Input": "", "PWA": "use web app",
}

// commandOf returns what events call a command, and whether they tell it.
func commandOf(method string) (command string, acts bool) {
	if command, acts = acting[method]; !acts {
		domain, _, _ := strings.Cut(method, ".")
		command, acts = acting[domain]
	}
	return command, acts
}

// refused are parameters that are false while another actor has control alone. By userGesture a
// script can do what a page may do only after a click, by waitForDebuggerOnStart new pages and
// frames wait for the client, and by captureBeyondViewport a page has another size for a moment.
var refused = map[string]string{
	"Runtime.evaluate": "userGesture", "Runtime.callFunctionOn": "userGesture", "Target.setAutoAttach": "waitForDebuggerOnStart",
	"Page.captureScreenshot": "captureBeyondViewport",
}

// with returns parameters with one of them set to a value. It returns a *Fault for more than maxMembers.
func with(params []byte, name string, value bool) ([]byte, error) {
	var p map[string]json.RawMessage
	if members(params) > maxMembers {
		return nil, &Fault{Code: -32602, Message: fmt.Sprintf("the command has more than %d parameters", maxMembers)}
	}
	if len(params) > 0 && json.Unmarshal(params, &p) != nil {
		return params, nil // the browser refuses them
	}
	if p == nil { // there are none, or they are null
		p = map[string]json.RawMessage{}
	}
	p[name] = encode(value)
	return encode(p), nil
}

// maxMembers bounds the parameters of a command that are decoded one by one.
const maxMembers = 100

// members returns the number of members of an object, or of elements of an array, from 1. text is valid
// JSON.
func members(text []byte) int {
	n := 1
	for i := skipSpace(text, 0) + 1; i < len(text); i++ {
		if text[i] == ',' {
			n++
		} else if c := text[i]; c == '"' || c == '{' || c == '[' {
			i = skipValue(text, i) - 1
		}
	}
	return n
}

// held returns an error while another actor has control alone.
func (c *client) held() error {
	if now := c.b.cfg.Desktop.Control(); now.Taken && !now.Holder.Same(c.actor) {
		return &desktop.ControlHeldError{Holder: *now.Holder}
	}
	return nil
}

// acts limits the events about what a client does.
type acts struct {
	second   time.Time // when the counted second began
	count    int
	scrolled time.Time // when the wheel was turned last
}

// The bounds of acts.
const (
	maxActs     = 100 // events in a second; further ones are dropped
	scrollPause = 2 * time.Second
)

// report emits the event of a command that acts. The event has neither text nor keys, and typing
// is joined, as for people.
func (c *client) report(method string, params []byte) {
	command, acts := commandOf(method)
	a := desktop.Action{Name: desktop.ActionBrowser, Command: command, Time: time.Now()}
	var p struct {
		Type string `json:"type"`
		Text string `json:"text"`
		URL  string `json:"url"`
	}
	switch {
	case !acts, json.Unmarshal(params, &p) != nil && len(params) > 0:
		return
	case p.URL != "":
		a.Target = limited(withoutSecrets(p.URL))
	}
	switch method {
	case "Input.insertText":
		a.Name, a.Length = desktop.ActionType, utf8.RuneCountInString(p.Text)
	case "Input.dispatchKeyEvent":
		if p.Type == "keyUp" {
			return
		}
		a.Name, a.Length = desktop.ActionType, utf8.RuneCountInString(p.Text)
		if p.Text == "" && p.Type == "rawKeyDown" {
			a.Name, a.Command = desktop.ActionBrowser, "press"
		}
	case "Input.dispatchMouseEvent", "Input.emulateTouchFromMouseEvent":
		switch p.Type {
		case "mousePressed":
			a.Command = "click"
		case "mouseWheel":
			a.Command = "scroll"
		}
	case "Input.dispatchTouchEvent":
		if p.Type == "touchStart" {
			a.Command = "tap"
		}
	case "Input.synthesizeTapGesture":
		a.Command = "tap"
	case "Input.synthesizeScrollGesture", "Input.synthesizePinchGesture":
		a.Command = "scroll"
	case "Input.dispatchDragEvent":
		if p.Type == "drop" {
			a.Command = "drop"
		}
	}
	if a.Command == "" && a.Length == 0 || !c.acts.admit(a) {
		return
	}
	ctx := desktop.WithActor(context.Background(), c.actor)
	if a.Name == desktop.ActionType {
		ctx = desktop.WithPerson(ctx)
	}
	told := desktop.ActionFrom(ctx, a)
	c.b.ext.Emit(desktop.Event{Type: desktop.EventAction, Action: &told})
}

// admit reports whether an event about an act is emitted: one for several turns of the wheel,
// and at most maxActs others in a second.
func (l *acts) admit(a desktop.Action) bool {
	switch a.Command {
	case "": // typing, which is joined
		return true
	case "scroll":
		same := a.Time.Sub(l.scrolled) < scrollPause
		l.scrolled = a.Time
		if same {
			return false
		}
	}
	if a.Time.Sub(l.second) >= time.Second {
		l.second, l.count = a.Time, 0
	}
	l.count++
	return l.count <= maxActs
}
