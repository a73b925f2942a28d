package processes

import (
	"context"
	"net/http"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type inputBody struct {
	Data     string  `json:"data"`
	Encoding *string `json:"encoding,omitempty" doc:"base64, utf8 or text; defaults to base64"`
}

type processInput struct {
	ID   string `path:"id"`
	Body inputBody
}

type writtenOutput struct {
	Body struct {
		BytesWritten int `json:"bytesWritten"`
	}
}

// terminalSize is the size of a terminal in characters and lines.
type terminalSize struct {
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
}

type resizeInput struct {
	ID   string `path:"id"`
	Body terminalSize
}

func (a *Area) registerProcessInput() {
	r := rest.Route{
		Tag: "Processes", Other: rest.StreamError, Scope: grants.ScopeSupervise, Enter: a.enter,
		Errors: []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict},
	}
	rest.Add(a.Group, r.Post("sendProcessInput", "/v1/processes/{id}/input", "Write to the standard input of a process").
		WithErrors(http.StatusRequestEntityTooLarge, http.StatusGatewayTimeout), a.writeInput)
	end := r.Post("closeProcessInput", "/v1/processes/{id}/input/close", "Close the standard input of a process").
		WithAbout("On a terminal this is like Ctrl-D: a program that reads lines gets the end of its input.")
	rest.Add(a.Group, end, func(_ context.Context, in *processID) (*rest.OKOutput, error) {
		p, err := a.find(in.ID)
		if err != nil {
			return nil, err
		}
		return rest.OKOr(p.CloseInput())
	})
	resize := r.Post("resizeTerminal", "/v1/processes/{id}/terminal/resize", "Resize the terminal of a process")
	rest.Add(a.Group, resize, func(_ context.Context, in *resizeInput) (*rest.Output[terminalSize], error) {
		p, err := a.find(in.ID)
		if err != nil {
			return nil, err
		}
		return rest.Reply(in.Body, p.Resize(in.Body.Cols, in.Body.Rows))
	})
}

func (a *Area) writeInput(ctx context.Context, in *processInput) (*writtenOutput, error) {
	p, err := a.find(in.ID)
	if err != nil {
		return nil, err
	}
	data, err := decodeInput(in.Body.Data, rest.Value(in.Body.Encoding), "base64")
	if err != nil {
		return nil, rest.InvalidRequest.Problem("invalid request: " + err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, inputPatience)
	defer cancel()
	out := &writtenOutput{}
	out.Body.BytesWritten, err = p.Write(ctx, data)
	return out, err
}
