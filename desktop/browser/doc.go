// Package browser runs Chromium or Chrome on a desktop and drives it by the Chrome DevTools
// Protocol.
//
// # Usage
//
// Start starts a browser that is visible on a desktop. ServeClient serves clients of the
// protocol, such as Playwright and Puppeteer, which see an ordinary browser. See the example.
//
// The protocol goes through a pipe. The browser opens no port, so that no other program can
// debug it.
//
// # Lifetime
//
// A Browser lives until Close, until the desktop ends, or until a person closes its last
// window. Done is closed then, and calls return ErrEnded. The profile stays, and the next Start
// can use it.
//
// # Concurrency
//
// All methods may be called from any goroutine. Clients and the methods share the browser and
// its tabs. Each client has sessions of its own.
//
// # Errors
//
// The Err variables, which errors wrap: test with errors.Is. *InvalidError, *ProfileError,
// *StaleError and *NotReadyError wrap some of them. A *Fault is the browser's own answer.
//
// Every method that names a tab returns ErrNoTab if there is no such tab, and a
// *desktop.DeadlineError after its timeout: 10 s unless its argument or its comment says
// otherwise. Every method that names an element returns an *InvalidError, a *StaleError for a
// reference to an element that is gone, or ErrNotFound for a selector without a match.
//
// Methods that act are input of the desktop: they can return a *desktop.ControlHeldError and the
// error of desktop.Config.Policy. These are Stop, NewTab, ActivateTab, CloseTab, Navigate, Back,
// Forward, Reload, Click, Fill, Select, Press, Upload, Evaluate, AnswerDialog and SetState. Other
// input can run while Navigate, Back, Forward, Reload, Evaluate, SetState or Stop waits for the
// browser.
//
// # Requirements
//
// The programs that package desktop needs, and Chromium or Chrome.
package browser
