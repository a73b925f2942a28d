package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Config configures a [Provider]. The environment has all that it leaves out: see [Start].
type Config struct {
	// Endpoint is the URL of the collector, to which v1/traces is added. Empty: the URL of
	// the environment.
	Endpoint string

	// Version is the version of this program.
	Version string

	// Logger gets a line when spans can no longer be sent, and when they are sent again.
	Logger *slog.Logger
}

// Provider provides tracers, and sends their spans in batches.
type Provider struct {
	trace.TracerProvider
	sdk *sdktrace.TracerProvider
}

// Start returns a provider, which must be closed. It does not contact the collector. Without
// an endpoint in cfg and the environment it returns nil.
//
// It follows OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS, _TIMEOUT, _COMPRESSION, _CERTIFICATE,
// _CLIENT_CERTIFICATE, _CLIENT_KEY and _PROTOCOL, each also with TRACES_ after OTLP_, and
// OTEL_TRACES_EXPORTER, OTEL_SDK_DISABLED, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES,
// OTEL_TRACES_SAMPLER, OTEL_BSP_* and OTEL_SPAN_*. Its error names the variable.
func Start(ctx context.Context, cfg Config) (*Provider, error) {
	if cfg.Endpoint == "" {
		if on, err := wanted(); !on {
			return nil, err
		}
	}
	s, err := readSettings(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "deskhand"), attribute.String("service.version", cfg.Version)),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	// The SDK reports to these what no caller gets.
	otel.SetLogger(logr.FromSlogHandler(cfg.Logger.Handler()))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if _, logged := errors.AsType[*uploadError](err); !logged {
			cfg.Logger.Warn("traces", "error", err)
		}
	}))
	exporter, err := otlptrace.New(ctx, newClient(s, cfg.Logger))
	if err != nil {
		return nil, err
	}
	sdk := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return &Provider{sdk, sdk}, nil
}

// Flush sends the spans that have ended.
func (p *Provider) Flush(ctx context.Context) error { return p.sdk.ForceFlush(ctx) }

// Close sends the spans that have ended and releases what the provider holds. After the end of
// ctx it sends no more.
func (p *Provider) Close(ctx context.Context) error { return p.sdk.Shutdown(ctx) }
