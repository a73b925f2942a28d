package otlp

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// HeaderVariables are the environment variables with headers for the collector, which may be
// secret.
var HeaderVariables = []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"}

// settings says how spans are sent.
type settings struct {
	url     string
	header  http.Header
	timeout time.Duration // of one attempt
	gzip    bool
	tls     *tls.Config // nil: Go's default
}

const defaultTimeout = 10 * time.Second

// variable returns an environment variable for traces, or else the one for all signals, and
// its name.
func variable(suffix string) (value, name string) {
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"} {
		name = prefix + suffix
		if value = os.Getenv(name); value != "" {
			return value, name
		}
	}
	return "", name
}

// wanted reports whether the environment asks for traces.
func wanted() (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch exporter := os.Getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "otlp":
		return true, nil
	case "none":
		return false, nil
	case "":
		endpoint, _ := variable("ENDPOINT")
		return endpoint != "", nil
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER must be otlp or none, not %q", exporter)
	}
}

// readSettings reads the settings from the environment. A base URL that is not empty replaces
// the URLs of the environment.
func readSettings(base string) (s settings, err error) {
	if protocol, name := variable("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return s, fmt.Errorf("%s must be http/protobuf, not %q", name, protocol)
	}
	if s.url, err = endpoint(base); err != nil {
		return s, err
	}
	if s.header, err = headers(); err != nil {
		return s, err
	}
	s.timeout = defaultTimeout
	if text, name := variable("TIMEOUT"); text != "" {
		ms, err := strconv.ParseUint(text, 10, 31)
		if err != nil || ms == 0 {
			return s, fmt.Errorf("%s must be a number of milliseconds, not %q", name, text)
		}
		s.timeout = time.Duration(ms) * time.Millisecond
	}
	switch compression, name := variable("COMPRESSION"); compression {
	case "", "none":
	case "gzip":
		s.gzip = true
	default:
		return s, fmt.Errorf("%s must be gzip or none, not %q", name, compression)
	}
	s.tls, err = readTLS()
	return s, err
}

// endpoint returns the URL for traces.
func endpoint(base string) (string, error) {
	const path = "v1/traces"
	name := "the endpoint"
	if base == "" {
		if at := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); at != "" {
			u, err := parseURL("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", at)
			return u.String(), err
		}
		name = "OTEL_EXPORTER_OTLP_ENDPOINT"
		base = cmp.Or(os.Getenv(name), "http://localhost:4318")
	}
	u, err := parseURL(name, base)
	return u.JoinPath(path).String(), err
}

func parseURL(name, text string) (url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return url.URL{}, fmt.Errorf("%s must be a URL such as http://localhost:4318", name) // the text may hold a password
	case u.User != nil:
		return url.URL{}, fmt.Errorf("%s must have no user and no password; put them into OTEL_EXPORTER_OTLP_HEADERS", name)
	case u.RawQuery != "" || u.Fragment != "":
		return url.URL{}, fmt.Errorf("%s must have no query and no fragment", name)
	}
	return *u, nil
}

// headers returns the headers for the collector: pairs of name=value between commas, whose
// values are escaped as in a URL. The errors do not have the values.
func headers() (http.Header, error) {
	all := http.Header{}
	text, name := variable("HEADERS")
	for i, pair := range strings.Split(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !found || key == "" || err != nil {
			return nil, fmt.Errorf("%s: part %d must be name=value, with the value escaped as in a URL", name, i+1)
		}
		all.Set(key, value)
	}
	return all, nil
}

// readTLS reads the certificates of the environment.
func readTLS() (*tls.Config, error) {
	authority, authorityName := variable("CERTIFICATE")
	certificate, certificateName := variable("CLIENT_CERTIFICATE")
	key, keyName := variable("CLIENT_KEY")
	if authority == "" && certificate == "" && key == "" {
		return nil, nil //nolint:nilnil // Go's default
	}
	if (certificate == "") != (key == "") {
		return nil, fmt.Errorf("%s and %s must be set together", certificateName, keyName)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if authority != "" {
		pem, err := os.ReadFile(authority)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", authorityName, err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s has no certificate", authorityName, authority)
		}
	}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", certificateName, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
