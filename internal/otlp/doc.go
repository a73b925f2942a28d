// Package otlp sends spans to a collector with the OpenTelemetry Protocol over HTTP.
//
// It is the only package that knows the SDK of OpenTelemetry. Other packages make spans with
// the API of OpenTelemetry and get a [trace.TracerProvider].
//
// The exporter otlptracehttp of OpenTelemetry would link gRPC, which the protocol over HTTP
// does not need. This package has a client of its own for otlptrace instead.
package otlp
