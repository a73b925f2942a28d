package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/deskhand/deskhand/httpapi"
	"github.com/deskhand/deskhand/internal/otlp"
)

// lastSpansTime bounds the sending of spans at the end of the server.
const lastSpansTime = 3 * time.Second

// startTraces has the server make spans if --otlp-endpoint or the environment asks for that. end
// sends the last spans.
func (f *serverFlags) startTraces(ctx context.Context, cfg *httpapi.Config, log *slog.Logger) (end func(), err error) {
	p, err := otlp.Start(ctx, otlp.Config{Endpoint: f.otlpEndpoint, Version: cfg.Version, Logger: log})
	switch {
	case err != nil && f.otlpEndpoint != "":
		return nil, usagef("--otlp-endpoint: %s", err)
	case err != nil:
		return nil, usagef("%s", err)
	case p == nil:
		return func() {}, nil
	}
	cfg.TracerProvider = p
	cfg.Secrets = append(cfg.Secrets, otlp.HeaderVariables...)
	if err := unsetSecrets(cfg); err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), lastSpansTime)
		defer cancel()
		_ = p.Close(ctx) // the provider has logged that the collector does not answer
	}, nil
}
