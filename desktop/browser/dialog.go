package browser

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"

	"github.com/deskhand/deskhand/desktop"
)

// ErrNoDialog is returned if a tab has no open dialog.
var ErrNoDialog = errors.New("the tab has no open dialog")

// Dialog is a dialog of a page.
type Dialog struct {
	Type    string `json:"type"` // "alert", "confirm", "prompt" or "beforeunload"
	Message string `json:"message"`
	Default string `json:"default,omitempty"` // of a prompt
}

func (t *tab) dialogOpening(params json.RawMessage) {
	var v struct{ Type, Message, DefaultPrompt string }
	if len(params) > largeEvent || json.Unmarshal(params, &v) != nil {
		v.Type = "alert"
	}
	t.dialog = &Dialog{Type: limited(v.Type), Message: limited(v.Message), Default: limited(v.DefaultPrompt)}
	t.b.emit(t.dialogEvent("open"))
	t.answerDialog()
}

func (t *tab) dialogEvent(state string) desktop.BrowserEvent {
	return desktop.BrowserEvent{
		Kind: desktop.BrowserDialog, Tab: t.id, URL: t.info.shownURL,
		Dialog: t.dialog.Type, Message: t.dialog.Message, State: state,
	}
}

// answerDialog answers the open dialog by the policy, unless a client answers it. The caller
// has mu.
func (t *tab) answerDialog() {
	policy := t.b.cfg.Dialogs
	if t.dialog == nil || policy == DialogLeave || t.b.answersDialogs(t.id) {
		return
	}
	// A page must not prevent that it is left.
	accept := policy == DialogAccept || t.dialog.Type == "beforeunload"
	params := map[string]any{"accept": accept}
	if accept && t.dialog.Type == "prompt" {
		params["promptText"] = t.dialog.Default
	}
	t.b.post(t.session, "Page.handleJavaScriptDialog", params)
}

func (t *tab) dialogClosed(params json.RawMessage) {
	var v struct{ Result bool }
	if json.Unmarshal(params, &v) != nil || t.dialog == nil {
		return
	}
	state := "dismissed"
	if v.Result {
		state = "accepted"
	}
	t.b.emit(t.dialogEvent(state))
	t.dialog = nil
}

// clientGone answers dialogs that a client has left.
func (b *clients) clientGone() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.all {
		t.answerDialog()
	}
}

// AnswerDialog answers the open dialog of a tab, and waits until it is closed. text is for a
// prompt. It returns ErrNoDialog if no dialog is open.
func (b *Browser) AnswerDialog(ctx context.Context, tabID string, accept bool, text string) error {
	ctx, cancel := Milliseconds(pageLimit).limit(ctx, "answer dialog", 0)
	defer cancel()
	t, session, err := b.tab(ctx, tabID)
	if err != nil {
		return explain(ctx, err)
	}
	b.mu.Lock()
	open := t.dialog != nil
	b.mu.Unlock()
	if !open {
		return ErrNoDialog
	}
	err = b.act(ctx, "answer dialog", "", func(ctx context.Context) error {
		return b.call(ctx, session, "Page.handleJavaScriptDialog", map[string]any{"accept": accept, "promptText": text}, nil)
	})
	if err != nil {
		return explain(ctx, err)
	}
	return explain(ctx, b.await(ctx, func() bool { return t.dialog == nil }))
}

// Download is a download of the browser, into the directory Downloads of the desktop's home.
type Download struct {
	ID       string `json:"id"`
	URL      string `json:"url"`
	Name     string `json:"name"`           // as the site suggests it
	State    string `json:"state"`          // "started", "completed" or "canceled"
	Path     string `json:"path,omitempty"` // once it is completed
	Received int64  `json:"received"`
	Size     int64  `json:"size,omitempty"` // 0: unknown

	shownURL string // for events; see withoutSecrets
}

const (
	maxDownloads = 100  // that are kept
	maxPath      = 4096 // bytes of a path, as in Linux
)

func (b *tabs) downloadWillBegin(params json.RawMessage) {
	var v struct{ GUID, URL, SuggestedFilename string }
	if json.Unmarshal(params, &v) != nil || len(v.GUID) > maxID {
		return
	}
	if len(b.downloads) >= maxDownloads {
		b.downloads = b.downloads[1:]
	}
	d := &Download{
		ID: v.GUID, URL: limited(v.URL), Name: limited(filepath.Base(v.SuggestedFilename)), State: "started",
		shownURL: limited(withoutSecrets(v.URL)),
	}
	b.downloads = append(b.downloads, d)
	b.emit(desktop.BrowserEvent{Kind: desktop.BrowserDownload, URL: d.shownURL, Title: d.Name, State: d.State})
}

func (b *tabs) downloadProgress(params json.RawMessage) {
	var v struct {
		GUID, State, FilePath     string
		TotalBytes, ReceivedBytes float64
	}
	if json.Unmarshal(params, &v) != nil || len(v.FilePath) > maxPath {
		return
	}
	for _, d := range b.downloads {
		if d.ID != v.GUID || d.State != "started" {
			continue
		}
		d.Received, d.Size = int64(v.ReceivedBytes), int64(v.TotalBytes)
		if v.State != "completed" && v.State != "canceled" {
			continue
		}
		d.State, d.Path = v.State, v.FilePath
		b.emit(desktop.BrowserEvent{Kind: desktop.BrowserDownload, URL: d.shownURL, Title: d.Name, State: d.State, Path: d.Path, Size: d.Received})
	}
}

// Downloads returns the latest downloads, at most 100, the oldest first. It also works after the
// browser has ended.
func (b *Browser) Downloads() []Download {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := []Download{}
	for _, d := range b.downloads {
		all = append(all, *d)
	}
	return all
}
