package browser

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	chrome "github.com/deskhand/deskhand/desktop/browser"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// The bodies of the routes. The document has their names.
type (
	browserNavigation chrome.Navigate
	browserWait       chrome.Wait
	browserClick      chrome.Click
	browserFill       chrome.Fill
	browserSelect     chrome.Select
	browserPress      chrome.Press
	browserUpload     chrome.Upload
	browserEvaluation chrome.Evaluate
	browserPDF        chrome.PDF
	browserDialog     chrome.DialogAnswer
	browserStorage    chrome.State

	browserTabURL struct {
		URL string `json:"url,omitempty" doc:"Defaults to an empty page"`
	}
	browserTabs struct {
		Tabs []chrome.Tab `json:"tabs" nullable:"false"`
	}
	browserOutline struct {
		Tab       string        `json:"tab"`
		URL       string        `json:"url"`
		Title     string        `json:"title"`
		Outline   string        `json:"outline,omitempty" doc:"One node in each line, with format=outline"`
		Nodes     []chrome.Node `json:"nodes,omitempty" nullable:"false" doc:"With format=json"`
		Truncated bool          `json:"truncated" doc:"The page has more"`
	}
	browserDone struct {
		Done bool `json:"done"`
	}
)

type tabInput struct {
	Desktop string `path:"desktop" default:"main"`
	Tab     string `query:"tab" doc:"Id of a tab; defaults to the active one"`
}

type tabID struct {
	Desktop string `path:"desktop" default:"main"`
	ID      string `path:"id"`
}

type outlineInput struct {
	Desktop   string `path:"desktop" default:"main"`
	Tab       string `query:"tab" doc:"Id of a tab; defaults to the active one"`
	All       bool   `query:"all" doc:"Also elements outside of the window"`
	Limit     int    `query:"limit" default:"300" minimum:"1" maximum:"5000" doc:"Maximum number of nodes"`
	TimeoutMS int    `query:"timeoutMs" default:"300" minimum:"1" maximum:"10000" doc:"Maximum duration of the search"`
	Format    string `query:"format" default:"outline" enum:"outline,json"`
}

type pictureInput struct {
	Desktop string `path:"desktop" default:"main"`
	Tab     string `query:"tab" doc:"Id of a tab; defaults to the active one"`
	Full    bool   `query:"full" doc:"The whole page, at most 16384 pixels wide and high"`
	Format  string `query:"format" default:"png" enum:"png,jpeg,webp"`
	Quality int    `query:"quality" default:"80" minimum:"1" maximum:"100" doc:"Of jpeg and webp"`
}

type textInput struct {
	Desktop string `path:"desktop" default:"main"`
	Tab     string `query:"tab" doc:"Id of a tab; defaults to the active one"`
	Limit   int    `query:"limit" default:"100000" minimum:"1" maximum:"1000000" doc:"Maximum number of characters"`
}

// method adds a route that calls a method of the browser with its body.
func method[B, R any](a *area, r rest.Route, f func(context.Context, *chrome.Browser, B) (R, error)) {
	r = r.WithErrors(http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusBadGateway)
	add(a, r, func(ctx context.Context, in *input[B]) (*rest.Output[R], error) {
		b, err := a.running(in.Desktop)
		if err != nil {
			return nil, err
		}
		return rest.Reply(f(ctx, b, in.Body))
	})
}

// query adds a route that reads from the browser. id returns the desktop of the input.
func query[I, R any](a *area, r rest.Route, id func(*I) string, f func(context.Context, *chrome.Browser, *I) (R, error)) {
	add(a, r.WithErrors(http.StatusNotFound, http.StatusBadGateway), func(ctx context.Context, in *I) (*rest.Output[R], error) {
		b, err := a.running(id(in))
		if err != nil {
			return nil, err
		}
		return rest.Reply(f(ctx, b, in))
	})
}

func done(err error) (browserDone, error) { return browserDone{err == nil}, err }

func (a *area) registerUse(r rest.Route) {
	const load = "Waits until the page is loaded, or as far as until says. The tab defaults to the active one."
	method(a, r.Post("navigateBrowser", "/navigate", "Load a URL").WithAbout(load), func(ctx context.Context, b *chrome.Browser, n browserNavigation) (chrome.Tab, error) {
		return b.Navigate(ctx, chrome.Navigate(n))
	})
	for name, f := range map[string]func(*chrome.Browser, context.Context, chrome.Navigate) (chrome.Tab, error){
		"back": (*chrome.Browser).Back, "forward": (*chrome.Browser).Forward, "reload": (*chrome.Browser).Reload,
	} {
		summary := map[string]string{"back": "Go to the previous page", "forward": "Go to the next page", "reload": "Load the page again"}[name]
		method(a, r.Post(name+"Browser", "/"+name, summary), func(ctx context.Context, b *chrome.Browser, n browserNavigation) (chrome.Tab, error) {
			return f(b, ctx, chrome.Navigate(n))
		})
	}
	method(a, r.Post("waitForBrowser", "/wait", "Wait for a page").WithAbout("Waits for all that is given: until, selector, text and url."),
		func(ctx context.Context, b *chrome.Browser, w browserWait) (chrome.Tab, error) {
			return b.Wait(ctx, chrome.Wait(w))
		})
	method(a, r.Post("clickInBrowser", "/click", "Click an element").
		WithAbout("Waits until the element is at rest, enabled and uncovered. Clicks with the desktop's pointer if the element is visible on the screen, as via says."),
		func(ctx context.Context, b *chrome.Browser, c browserClick) (chrome.Clicked, error) {
			return b.Click(ctx, chrome.Click(c))
		})
	method(a, r.Post("fillInBrowser", "/fill", "Replace the content of a field"), func(ctx context.Context, b *chrome.Browser, f browserFill) (browserDone, error) {
		return done(b.Fill(ctx, chrome.Fill(f)))
	})
	method(a, r.Post("selectInBrowser", "/select", "Select options of a list"), func(ctx context.Context, b *chrome.Browser, s browserSelect) (chrome.Selected, error) {
		return b.Select(ctx, chrome.Select(s))
	})
	method(a, r.Post("pressInBrowser", "/press", "Press a key or chord in a page"), func(ctx context.Context, b *chrome.Browser, p browserPress) (browserDone, error) {
		return done(b.Press(ctx, chrome.Press(p)))
	})
	method(a, r.Post("uploadInBrowser", "/upload", "Choose files for a file field").
		WithAbout("The files are in the desktop's home, or below a root of the server."),
		func(ctx context.Context, b *chrome.Browser, u browserUpload) (browserDone, error) {
			return done(b.Upload(ctx, chrome.Upload(u)))
		})
	method(a, r.Post("evaluateInBrowser", "/evaluate", "Evaluate JavaScript in a page"), func(ctx context.Context, b *chrome.Browser, e browserEvaluation) (chrome.Value, error) {
		return b.Evaluate(ctx, chrome.Evaluate(e))
	})
	method(a, r.Post("answerBrowserDialog", "/dialog", "Answer the dialog of a page"), func(ctx context.Context, b *chrome.Browser, d browserDialog) (browserDone, error) {
		return done(b.AnswerDialog(ctx, d.Tab, d.Accept, d.Text))
	})
	method(a, r.Post("openBrowserTab", "/tabs", "Open a tab"), func(ctx context.Context, b *chrome.Browser, t browserTabURL) (chrome.Tab, error) {
		return b.NewTab(ctx, t.URL)
	})
	r.Status = 0
	query(a, r.Get("listBrowserTabs", "/tabs", "List the tabs"), func(in *target) string { return in.Desktop },
		func(ctx context.Context, b *chrome.Browser, _ *target) (browserTabs, error) {
			tabs, err := b.Tabs(ctx)
			return browserTabs{tabs}, err
		})
	query(a, r.Post("activateBrowserTab", "/tabs/{id}/activate", "Show a tab"), func(in *tabID) string { return in.Desktop },
		func(ctx context.Context, b *chrome.Browser, in *tabID) (browserDone, error) {
			return done(b.ActivateTab(ctx, in.ID))
		})
	closeTab := r.Delete("closeBrowserTab", "/tabs/{id}", "Close a tab")
	closeTab.Status = 0
	query(a, closeTab, func(in *tabID) string { return in.Desktop }, func(ctx context.Context, b *chrome.Browser, in *tabID) (browserDone, error) {
		return done(b.CloseTab(ctx, in.ID))
	})
	a.registerReading(r)
}

func (a *area) registerReading(r rest.Route) {
	query(a, r.Get("outlineBrowser", "/outline", "List the elements and texts of a page, with references"), func(in *outlineInput) string { return in.Desktop },
		func(ctx context.Context, b *chrome.Browser, in *outlineInput) (browserOutline, error) {
			o, err := b.Outline(ctx, chrome.OutlineQuery{Tab: in.Tab, All: in.All, Limit: in.Limit, Timeout: chrome.Milliseconds(in.TimeoutMS)})
			out := browserOutline{Tab: o.Tab, URL: o.URL, Title: o.Title, Truncated: o.Truncated}
			if in.Format == "json" {
				out.Nodes = o.Nodes
			} else {
				out.Outline = o.Text()
			}
			return out, err
		})
	query(a, r.Get("getBrowserText", "/text", "Get the text of a page"), func(in *textInput) string { return in.Desktop },
		func(ctx context.Context, b *chrome.Browser, in *textInput) (chrome.PageText, error) {
			return b.Text(ctx, chrome.TextQuery{Tab: in.Tab, Limit: in.Limit})
		})
	query(a, r.Get("getBrowserConsole", "/console", "Get the latest 200 messages on a page's console"), func(in *tabInput) string { return in.Desktop },
		func(ctx context.Context, b *chrome.Browser, in *tabInput) (chrome.ConsoleLog, error) {
			return b.Console(ctx, chrome.TabQuery{Tab: in.Tab})
		})
	query(a, r.Get("getBrowserNetwork", "/network", "Get the latest 200 requests of a page"), func(in *tabInput) string { return in.Desktop },
		func(ctx context.Context, b *chrome.Browser, in *tabInput) (chrome.NetworkLog, error) {
			return b.Network(ctx, chrome.TabQuery{Tab: in.Tab})
		})
	get := r.Get("getBrowserStorage", "/state", "Get the cookies, and the local storage of open pages").
		WithAbout("In the format of Playwright's storageState.")
	get.Large = true
	query(a, get, func(in *target) string { return in.Desktop },
		func(ctx context.Context, b *chrome.Browser, _ *target) (browserStorage, error) {
			s, err := b.State(ctx)
			return browserStorage(s), err
		})
	put := r.Post("setBrowserStorage", "/state", "Add cookies and items of local storages")
	put.Method = http.MethodPut
	method(a, put, func(ctx context.Context, b *chrome.Browser, s browserStorage) (browserDone, error) {
		return done(b.SetState(ctx, chrome.State(s)))
	})
	r.Large = true
	picture := r.Get("getBrowserScreenshot", "/screenshot", "Take a picture of a page").WithErrors(http.StatusNotFound, http.StatusBadGateway)
	picture.Content = map[string]*huma.MediaType{"image/png": rest.Binary(), "image/jpeg": rest.Binary(), "image/webp": rest.Binary()}
	add(a, picture, func(ctx context.Context, in *pictureInput) (*rest.BodyOutput, error) {
		return a.file(in.Desktop, "image/"+in.Format, func(b *chrome.Browser) ([]byte, error) {
			return b.Screenshot(ctx, chrome.Screenshot{Tab: in.Tab, Full: in.Full, Format: in.Format, Quality: in.Quality})
		})
	})
	pdf := r.Post("printBrowser", "/pdf", "Print a page to PDF").WithErrors(http.StatusNotFound, http.StatusBadGateway)
	pdf.Content = map[string]*huma.MediaType{"application/pdf": rest.Binary()}
	add(a, pdf, func(ctx context.Context, in *input[browserPDF]) (*rest.BodyOutput, error) {
		return a.file(in.Desktop, "application/pdf", func(b *chrome.Browser) ([]byte, error) { return b.PDF(ctx, chrome.PDF(in.Body)) })
	})
}

// file answers with the file that f returns for the browser of a desktop.
func (a *area) file(id, kind string, f func(*chrome.Browser) ([]byte, error)) (*rest.BodyOutput, error) {
	b, err := a.running(id)
	if err != nil {
		return nil, err
	}
	data, err := f(b)
	if err != nil {
		return nil, err
	}
	return &rest.BodyOutput{ContentType: kind, Body: func(ctx huma.Context) {
		ctx.SetHeader(fiber.HeaderContentType, kind)
		rest.RequestOf(ctx).Send(data)
	}}, nil
}
