package browser

import (
	"context"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/fasthttp/websocket"

	"github.com/deskhand/deskhand/desktop"
	chrome "github.com/deskhand/deskhand/desktop/browser"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

const aboutEndpoint = `Playwright, Puppeteer and other clients of the Chrome DevTools Protocol find the browser here:
chromium.connectOverCDP("http://HOST/v1/desktop/browser?access_token=TOKEN"), or with the header Authorization.
The URL of the WebSocket has the host of this request, and its token if that came in the query.`

// browserVersion is what clients expect of json/version (Chrome DevTools Protocol, "HTTP
// Endpoints").
type browserVersion struct {
	Browser    string `json:"Browser" example:"Chrome/148.0.7778.167"`
	Protocol   string `json:"Protocol-Version" example:"1.3"`
	UserAgent  string `json:"User-Agent"`
	JavaScript string `json:"V8-Version"`
	WebKit     string `json:"WebKit-Version"`
	Socket     string `json:"webSocketDebuggerUrl" example:"ws://127.0.0.1:2468/v1/desktop/browser/devtools/browser/current"`
}

type browserTarget struct {
	ID     string `json:"id"`
	Type   string `json:"type" example:"page"`
	Title  string `json:"title"`
	URL    string `json:"url"`
	Socket string `json:"webSocketDebuggerUrl"`
}

type socketInput struct {
	Desktop string `path:"desktop" default:"main"`
	ID      string `path:"id"`
}

func (a *area) registerEndpoint(r rest.Route) {
	r.Query = true
	version := r.Get("getBrowserVersion", "/json/version", "Get the URL at which clients of the DevTools protocol connect").WithAbout(aboutEndpoint)
	add(a, version, a.version)
	add(a, r.Get("listBrowserTargets", "/json/list", "List the tabs, as clients of the DevTools protocol expect"), a.list)
	root := version
	version.ID, version.Path, version.Hidden = "getBrowserVersionSlash", "/json/version/", true // as Playwright asks
	add(a, version, a.version)
	root.ID, root.Path = "getMainBrowserVersion", "/json/version"
	root.About = "The same for main, where Puppeteer's browserURL, which has no path, looks for it. Puppeteer sends no token there: " +
		"with a token, give it browserWSEndpoint."
	rest.Add(a.Group, root, a.version)

	r.More = map[string]*huma.Response{"101": {Description: "The connection is a WebSocket from now on"}}
	add(a, r.Get("connectBrowser", "/devtools/browser/{id}", "Connect a client of the DevTools protocol to the browser").
		WithAbout("Upgrades to a WebSocket. The id is in json/version, or current. Clients do not see each other's sessions; "+
			"Browser.close ends the client's connection and not the browser."),
		func(ctx context.Context, in *socketInput) (*rest.SocketOutput, error) {
			b, err := a.running(in.Desktop)
			if err == nil && in.ID != "current" && in.ID != b.ID() {
				err = chrome.ErrNoTarget
			}
			return a.connect(ctx, b, "", err)
		})
	add(a, r.Get("connectTab", "/devtools/page/{id}", "Connect a client of the DevTools protocol to a tab").WithAbout("Upgrades to a WebSocket."),
		func(ctx context.Context, in *socketInput) (*rest.SocketOutput, error) {
			b, err := a.running(in.Desktop)
			return a.connect(ctx, b, in.ID, err)
		})
}

// socketURL returns the URL of a WebSocket below the browser of a desktop, as the client of
// the request reaches it.
func (a *area) socketURL(ctx context.Context, id, path string) string {
	r := rest.RequestIn(ctx)
	u := url.URL{Scheme: "ws", Host: a.Gate.Host(r.Fiber), Path: mainPath + "/devtools/" + path}
	if id != fleet.Main {
		u.Path = "/v1/desktops/" + id + "/browser/devtools/" + path
	}
	if a.Gate.Secure(r.Fiber) {
		u.Scheme = "wss"
	}
	if token := r.Query("access_token"); token != "" {
		u.RawQuery = url.Values{"access_token": {token}}.Encode()
	}
	return u.String()
}

func (a *area) version(ctx context.Context, in *target) (*rest.Output[browserVersion], error) {
	b, err := a.running(in.Desktop)
	if err != nil {
		return nil, err
	}
	v := b.Version()
	return rest.Reply(browserVersion{
		Browser: v.Product, Protocol: v.Protocol, UserAgent: v.UserAgent, JavaScript: v.JavaScript,
		WebKit: "537.36 (" + v.Revision + ")", Socket: a.socketURL(ctx, in.Desktop, "browser/"+b.ID()),
	}, nil)
}

type targetsOutput struct {
	Body []browserTarget `nullable:"false"`
}

func (a *area) list(ctx context.Context, in *target) (*targetsOutput, error) {
	b, err := a.running(in.Desktop)
	if err != nil {
		return nil, err
	}
	tabs, err := b.Tabs(ctx)
	if err != nil {
		return nil, err
	}
	out := &targetsOutput{[]browserTarget{}}
	for _, t := range tabs {
		out.Body = append(out.Body, browserTarget{t.ID, "page", t.Title, t.URL, a.socketURL(ctx, in.Desktop, "page/"+t.ID)})
	}
	return out, nil
}

// connect makes a request the WebSocket of a client, unless err is not nil. ctx has the actor.
func (a *area) connect(ctx context.Context, b *chrome.Browser, targetID string, err error) (*rest.SocketOutput, error) {
	if err == nil && targetID != "" && !b.HasTab(targetID) {
		err = chrome.ErrNoTab
	}
	if err != nil {
		return nil, err
	}
	actor := desktop.ActorFrom(ctx)
	var guest any
	if r := rest.RequestIn(ctx); r.Limited() {
		guest = r.Grant
	}
	return &rest.SocketOutput{Body: func(ctx huma.Context) {
		a.Upgrade(ctx, chrome.MaxClientMessage, func(ctx context.Context, ws *rest.Socket) {
			if err := b.ServeGuest(desktop.WithActor(ctx, actor), guest, targetID, socket{ws}); err != nil {
				a.Logger.Debug("client of the browser", "error", err)
			}
			ws.Finish()
		})
	}}, nil
}

// socket is a WebSocket as package browser wants it.
type socket struct{ ws *rest.Socket }

// patience is how long a client may take to accept a message.
const patience = 30 * time.Second

func (s socket) Receive() ([]byte, error) {
	_, text, err := s.ws.Receive()
	return text, err
}

func (s socket) Send(text []byte) error {
	return s.ws.SendWithin(patience, websocket.TextMessage, text)
}

func (s socket) Close() { s.ws.End(websocket.CloseGoingAway) }
