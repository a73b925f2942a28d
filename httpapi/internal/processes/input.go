package processes

import (
	"context"
	"net/http"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type inputBody struct {
	Data     string  `json:"data"`
	Encoding *string `json:"encoding,omitempty" doc:"base64, utf8 or text; base64 when left out"`
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

type (
	resizeInput struct {
		ID   string `path:"id"`
		Body terminalSize
	}

	resizeOutput struct{ Body terminalSize }
)

func (a *Area) registerProcessInput() {
	r := rest.Route{
		Method: http.MethodPost, Tag: "Processes", Other: rest.StreamError,
		Errors: []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict},
	}
	write := r
	write.ID, write.Path, write.Summary = "sendProcessInput", "/v1/processes/{id}/input", "Write to a process's input"
	write.Errors = append(write.Errors, http.StatusRequestEntityTooLarge, http.StatusGatewayTimeout)
	rest.Add(a.Group, write, a.writeInput)
	end := r
	end.ID, end.Path, end.Summary = "closeProcessInput", "/v1/processes/{id}/input/close", "End a process's input"
	end.About = "On a terminal this is what Ctrl-D does: the program sees the end of its input if it reads whole lines."
	rest.Add(a.Group, end, func(_ context.Context, in *processID) (*rest.OKOutput, error) {
		p, err := a.find(in.ID)
		if err != nil {
			return nil, err
		}
		return rest.OKOr(p.CloseInput())
	})
	resize := r
	resize.ID, resize.Path, resize.Summary = "resizeTerminal", "/v1/processes/{id}/terminal/resize", "Change the size of a process's terminal"
	rest.Add(a.Group, resize, func(_ context.Context, in *resizeInput) (*resizeOutput, error) {
		p, err := a.find(in.ID)
		if err != nil {
			return nil, err
		}
		if err := p.Resize(in.Body.Cols, in.Body.Rows); err != nil {
			return nil, err
		}
		return &resizeOutput{in.Body}, nil
	})
}

func (a *Area) writeInput(ctx context.Context, in *processInput) (*writtenOutput, error) {
	p, err := a.find(in.ID)
	if err != nil {
		return nil, err
	}
	encoding := ""
	if in.Body.Encoding != nil {
		encoding = *in.Body.Encoding
	}
	data, err := decodeInput(in.Body.Data, encoding, "base64")
	if err != nil {
		return nil, rest.InvalidRequest.Problem("invalid request: " + err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, inputPatience)
	defer cancel()
	out := &writtenOutput{}
	out.Body.BytesWritten, err = p.Write(ctx, data)
	return out, err
}
