package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// State is the cookies and the local storage of a profile, as Playwright's storageState has
// them.
type State struct {
	Cookies []Cookie `json:"cookies"`
	Origins []Origin `json:"origins"`
}

// Cookie is a cookie.
type Cookie struct {
	Name     string  `json:"name"`
	Value    string  `json:"value"`
	Domain   string  `json:"domain"`
	Path     string  `json:"path"`
	Expires  float64 `json:"expires"` // Unix time in seconds; -1: with the session
	HTTPOnly bool    `json:"httpOnly"`
	Secure   bool    `json:"secure"`
	SameSite string  `json:"sameSite,omitempty"` // "Strict", "Lax" or "None"
}

// Origin is the local storage of an origin.
type Origin struct {
	Origin       string `json:"origin"` // "https://example.com"
	LocalStorage []Item `json:"localStorage"`
}

// Item is an item of a local storage.
type Item struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// stateLimit bounds State and SetState, maxOrigins the origins of a State, and maxStorage the bytes
// of all names and values in the local storages of a State.
const (
	stateLimit Milliseconds = 60_000
	maxOrigins int          = 100
	maxStorage int          = 16 << 20
)

// State returns all cookies of the profile, and the local storage of the origins that tabs
// show. Its limit is 60 s. The error wraps ErrTooLarge if the names and values in the local storages
// have more than 16 MiB.
func (b *Browser) State(ctx context.Context) (State, error) {
	ctx, cancel := stateLimit.limit(ctx, "state", 0)
	defer cancel()
	state := State{Cookies: []Cookie{}, Origins: []Origin{}}
	if err := b.call(ctx, "", "Storage.getCookies", nil, &state); err != nil {
		return State{}, explain(ctx, err)
	}
	b.mu.Lock()
	tabs := slices.Clone(b.all)
	b.mu.Unlock()
	size := 0
	for _, t := range tabs {
		b.mu.Lock()
		id, session := t.id, t.session
		b.mu.Unlock()
		var o Origin
		err := b.evaluateStorage(ctx, frame{id: id, session: session}, `({origin: location.origin, localStorage:
			Object.entries(localStorage).map(([name, value]) => ({name, value: String(value)}))})`, &o)
		known := slices.ContainsFunc(state.Origins, func(p Origin) bool { return p.Origin == o.Origin })
		if err == nil && !known && len(o.LocalStorage) > 0 && strings.HasPrefix(o.Origin, "http") {
			state.Origins = append(state.Origins, o)
			for _, item := range o.LocalStorage {
				size += len(item.Name) + len(item.Value)
			}
		}
		if size > maxStorage {
			return State{}, fmt.Errorf("%w: the local storage of open pages has more than 16 MiB", ErrTooLarge)
		}
	}
	return state, nil
}

// evaluateStorage evaluates a script beside the page, which could replace the functions.
func (b *tabs) evaluateStorage(ctx context.Context, f frame, script string, result any) error {
	contextID, err := b.world(ctx, f)
	if err != nil {
		return err
	}
	return b.evaluateLarge(ctx, f.session, contextID, script, result, maxMessage)
}

// SetState adds cookies and items of local storages to those that the profile has. It visits no
// site. Its limit is 60 s.
func (b *Browser) SetState(ctx context.Context, s State) error {
	if len(s.Origins) > maxOrigins {
		return &InvalidError{"Origins", fmt.Sprintf("must be at most %d", maxOrigins)}
	}
	for _, o := range s.Origins {
		if u, err := url.Parse(o.Origin); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" {
			return &InvalidError{"Origins", fmt.Sprintf("must be like https://example.com, unlike %q", o.Origin)}
		}
	}
	ctx, cancel := stateLimit.limit(ctx, "set state", 0)
	defer cancel()
	if err := b.admit(ctx, "set state", ""); err != nil {
		return err
	}
	if len(s.Cookies) > 0 {
		cookies := slices.Clone(s.Cookies)
		if err := b.call(ctx, "", "Storage.setCookies", map[string]any{"cookies": cookies}, nil); err != nil {
			return &InvalidError{"Cookies", "are refused: " + err.Error()}
		}
	}
	if len(s.Origins) == 0 {
		return nil
	}
	return explain(ctx, b.setStorages(ctx, s.Origins))
}

// setStorages opens a tab in the background whose requests this package answers, so that no
// site is visited.
func (b *tabs) setStorages(ctx context.Context, origins []Origin) error {
	var v targetInfo
	if err := b.call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank", "background": true}, &v); err != nil {
		return err
	}
	defer b.call(context.WithoutCancel(ctx), "", "Target.closeTarget", map[string]any{"targetId": v.TargetID}, nil) //nolint:errcheck // it may be closed
	t, session, err := b.tab(ctx, v.TargetID)
	if err != nil {
		return err
	}
	b.mu.Lock()
	t.empty = true
	b.mu.Unlock()
	if err := b.call(ctx, session, "Fetch.enable", nil, nil); err != nil {
		return err
	}
	for _, o := range origins {
		b.mu.Lock()
		before := t.loader
		b.mu.Unlock()
		var loaded struct{ LoaderID, ErrorText string }
		if err := b.call(ctx, session, "Page.navigate", map[string]any{"url": o.Origin + "/"}, &loaded); err != nil {
			return err
		}
		if loaded.ErrorText != "" {
			return &NavigationError{o.Origin, limited(loaded.ErrorText)}
		}
		if err := b.awaitLoad(ctx, t, before, loaded.LoaderID, LoadDOM, true); err != nil {
			return err
		}
		script := fmt.Sprintf("(%s).forEach(({name, value}) => localStorage.setItem(name, value))", encode(append([]Item{}, o.LocalStorage...)))
		if err := b.evaluateStorage(ctx, frame{id: v.TargetID, session: session}, script, nil); err != nil {
			return err
		}
	}
	return nil
}

// requestPaused answers a request of a tab that setStorages has opened.
func (t *tab) requestPaused(params json.RawMessage) {
	var v struct{ RequestID string }
	if !t.empty || json.Unmarshal(params, &v) != nil || len(v.RequestID) > maxID {
		return
	}
	t.b.post(t.session, "Fetch.fulfillRequest", map[string]any{
		"requestId": v.RequestID, "responseCode": 200,
		"responseHeaders": []map[string]string{{"name": "Content-Type", "value": "text/html"}},
	})
}
