package browser

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"

	chrome "github.com/deskhand/deskhand/desktop/browser"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// The kinds of problem of browsers.
var (
	browserFailed    = rest.Kind{Code: "browser_failed", Title: "Browser Failed", Status: http.StatusBadGateway}
	browserStopped   = rest.Kind{Code: "browser_not_running", Title: "Browser Not Running", Status: http.StatusConflict}
	browserMissing   = rest.Kind{Code: "browser_not_installed", Title: "Browser Not Installed", Status: http.StatusServiceUnavailable}
	profileInUse     = rest.Kind{Code: "profile_in_use", Title: "Profile In Use", Status: http.StatusConflict}
	invalidArgument  = rest.Kind{Code: "invalid_request", Title: "Invalid Request", Status: http.StatusBadRequest}
	staleElement     = rest.Kind{Code: "stale_element", Title: "Stale Element", Status: http.StatusConflict}
	elementNotReady  = rest.Kind{Code: "element_not_ready", Title: "Element Not Ready", Status: http.StatusConflict}
	dialogOpen       = rest.Kind{Code: "dialog_open", Title: "Dialog Open", Status: http.StatusConflict}
	scriptFailed     = rest.Kind{Code: "script_failed", Title: "Script Failed", Status: http.StatusUnprocessableEntity}
	navigationFailed = rest.Kind{Code: "navigation_failed", Title: "Navigation Failed", Status: http.StatusBadGateway}
	tooManyClients   = rest.Kind{Code: "too_many_clients", Title: "Too Many Clients", Status: http.StatusServiceUnavailable}
)

// fields maps the fields of chrome.InvalidError to the fields of requests, where more than the
// case of the first letter differs.
var fields = map[string]string{"URL": "url"}

// problem returns the problem for an error of a browser or its desktop, or nil if err is
// another error.
func (a *area) problem(err error) *rest.Problem {
	if bad, ok := errors.AsType[*chrome.InvalidError](err); ok {
		field := fields[bad.Field]
		if field == "" {
			field = strings.ToLower(bad.Field[:1]) + bad.Field[1:]
		}
		return invalidArgument.Problem("invalid request: "+field+" "+bad.Reason).With("field", field)
	}
	if used, ok := errors.AsType[*chrome.ProfileError](err); ok {
		return profileInUse.WithCode(rest.Sentence(used)).With("profile", used.Profile).With("pid", used.PID)
	}
	if stale, ok := errors.AsType[*chrome.StaleError](err); ok {
		p := staleElement.WithCode(rest.Sentence(stale))
		if stale.Nearest != nil {
			p = p.With("nearest", stale.Nearest)
		}
		return p
	}
	if failed, ok := errors.AsType[*chrome.ScriptError](err); ok {
		return scriptFailed.WithCode(rest.Sentence(failed))
	}
	if failed, ok := errors.AsType[*chrome.NavigationError](err); ok {
		return navigationFailed.WithCode(rest.Sentence(failed)).With("reason", failed.Reason)
	}
	if open, ok := errors.AsType[*chrome.DialogError](err); ok {
		return dialogOpen.WithCode(rest.Sentence(open)).With("dialog", open.Dialog)
	}
	switch {
	case errors.Is(err, chrome.ErrNotInstalled):
		return browserMissing.WithCode(rest.Sentence(chrome.ErrNotInstalled) + "; install chromium")
	case errors.Is(err, chrome.ErrTooManyClients):
		return tooManyClients.WithCode(rest.Sentence(err)).WithHeader(fiber.HeaderRetryAfter, "5")
	case errors.Is(err, fleet.ErrNoBrowser), errors.Is(err, chrome.ErrEnded):
		return browserStopped.WithCode("No browser runs on this desktop; POST to its start first")
	case errors.Is(err, chrome.ErrNotReady):
		return elementNotReady.WithCode(rest.Sentence(err))
	case errors.Is(err, chrome.ErrNotFound):
		return rest.Missing("element", err.Error())
	case errors.Is(err, chrome.ErrNoTab), errors.Is(err, chrome.ErrNoTarget):
		return rest.Missing("tab", err.Error())
	case errors.Is(err, chrome.ErrTooLarge):
		return rest.PayloadTooLarge.Problem("payload too large: " + err.Error())
	case rest.IsAny(err, chrome.ErrNoHistory, chrome.ErrNoDialog, chrome.ErrHidden):
		return rest.ConflictOf(err.Error())
	}
	return a.DesktopProblem(err)
}
