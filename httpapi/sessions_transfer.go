package httpapi

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// Sessions as files: what eventlog.Log.Export writes, for another server or the
// archive.

// jsonLines is the type of an exported session: a JSON object per line.
const jsonLines = "application/x-ndjson"

func (s *Server) registerTransfer(on func(id, method, path, summary string) route) {
	lines := map[string]*huma.MediaType{jsonLines: {Schema: &huma.Schema{Type: huma.TypeString}}}
	down := on("exportSession", http.MethodGet, "/{sessionId}/export", "Read all of a session, to import it elsewhere")
	down.about = "A JSON object per line: the session, its processes and questions, and everything that was said. The last line is " +
		"\"end\"; without it something is missing. Should something go wrong in the middle, the connection breaks."
	down.query, down.content = true, lines
	add(s, down, s.exportSession)
	up := on("importSessions", http.MethodPost, "", "Take sessions that were exported")
	up.about = "Exports of one session or several, one after the other. All of them are taken, or nothing. An imported session is read, " +
		"and goes on if its agent finds its own memory of it here, as any other."
	up.status, up.scope = http.StatusCreated, scopeAdmin
	up.body = &huma.RequestBody{Required: true, Content: lines}
	up.errors = append(slices.Clone(up.errors), http.StatusRequestTimeout, http.StatusConflict, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusInsufficientStorage)
	add(s, up, s.importSessions)
}

type sessionExport struct {
	ContentType string `header:"Content-Type"`
	Disposition string `header:"Content-Disposition"`
	Cache       string `header:"Cache-Control"`
	Body        func(huma.Context)
}

type sessionExportInput struct {
	SessionPath
	RawRequest
}

func (s *Server) exportSession(ctx context.Context, in *sessionExportInput) (*sessionExport, error) {
	v, err := s.view(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := &sessionExport{ContentType: jsonLines, Disposition: attachment(in.ID + ".jsonl"), Cache: "private, no-store"}
	if in.r.Method() == http.MethodHead {
		out.Body = func(ctx huma.Context) { ctx.SetStatus(http.StatusOK) }
		return out, nil
	}
	ctx = context.WithoutCancel(ctx)
	out.Body, err = s.pack(func(w io.Writer) error { return v.log.Export(ctx, in.ID, w) })
	if err != nil {
		return nil, acpError(err, in.ID, "")
	}
	return out, nil
}

type sessionImportInput struct {
	RawRequest
	ContentType string `header:"Content-Type" doc:"application/x-ndjson"`
}

type sessionImported struct {
	Body struct {
		Sessions []string `json:"sessions" nullable:"false" doc:"The ids of those that were taken"`
	}
}

func (s *Server) importSessions(ctx context.Context, in *sessionImportInput) (*sessionImported, error) {
	if kind, _, err := mime.ParseMediaType(in.ContentType); err != nil || kind != jsonLines {
		return nil, unsupportedMedia.problem("unsupported media type: content-type must be " + jsonLines)
	}
	host, err := s.agents.get(ctx)
	if err != nil {
		return nil, acpError(err, "", "")
	}
	lines, err := s.upload(in.r)
	if err != nil {
		return nil, err
	}
	defer lines.Close()
	out := &sessionImported{}
	if out.Body.Sessions, err = host.Log().Import(ctx, lines); err != nil {
		return nil, importProblem(err)
	}
	return out, nil
}

// importProblem is the answer to an import that was not taken.
func importProblem(err error) error {
	var broken *Problem
	var line *eventlog.LineError
	var bad *eventlog.InvalidError
	switch {
	case errors.As(err, &broken): // of the upload
		return broken
	case errors.Is(err, eventlog.ErrExists):
		return conflictOf(err.Error() + "; nothing was imported")
	case errors.As(err, &line):
		return invalidRequest.problem("invalid request: "+line.Error()+"; nothing was imported").with("line", line.Line)
	case errors.As(err, &bad):
		return invalidRequest.problem("invalid request: " + bad.Error() + "; nothing was imported")
	}
	return acpError(err, "", "")
}
