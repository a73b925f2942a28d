package rest

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"go.opentelemetry.io/otel/trace"
)

type requestIDKey struct{}

// asked is what the log says of a request that an error is about. It may be used
// after the request.
type asked struct {
	id, method, path string
	trace            string // the id of its trace; empty: none
}

func askedOf(c *fiber.Ctx) asked {
	id, _ := c.Locals(requestIDKey{}).(string)
	about := asked{id: strings.Clone(id), method: strings.Clone(c.Method()), path: hideSecret(strings.Clone(c.Path()))}
	if span, ok := c.Locals(spanKey{}).(trace.Span); ok {
		about.trace = span.SpanContext().TraceID().String()
	}
	return about
}

// failed logs an error of a request's.
func (a *API) failed(about asked, message string, more ...any) {
	a.log.Error(message, slices.Concat(about.ids(), []any{"method", about.method, "path", about.path}, more)...)
}

// survive logs a panic and closes the connection. It is deferred where a connection is served
// after the handler has returned, because a panic there would end the server.
func survive(a *API, about asked, conn net.Conn) {
	if p := recover(); p != nil {
		logPanic(a, about, p)
		_ = conn.Close()
	}
}

// logPanic logs the value of a panic, with the stack.
func logPanic(a *API, about asked, value any) {
	a.failed(about, "panic", "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
}

var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// enter is around everything: it names the request, survives panics, and leaves
// the connection fit for the next request.
func (a access) enter(c *fiber.Ctx) (err error) {
	begun := time.Now()
	if a.Quiet != nil && !isProbe(c.Path()) {
		a.Quiet.Reset(quietTime)
	}
	id := c.Get(fiber.HeaderXRequestID)
	if !requestID.MatchString(id) {
		id = rand.Text()
	}
	c.Locals(requestIDKey{}, id)
	c.Set(fiber.HeaderXRequestID, id)
	c.Set(fiber.HeaderVary, "origin, access-control-request-method, access-control-request-headers")
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	_ = c.Context().Conn().SetWriteDeadline(time.Now().Add(writeTime))
	defer func() {
		if p := recover(); p != nil {
			logPanic(a.API, askedOf(c), p)
			err = a.answerError(c, errPanic)
		}
		a.finishBody(c)
		a.logAccess(c, begun)
		a.observe(c, begun)
		a.endSpan(c)
	}()
	if a.cfg.Leaving() && !c.Context().Request.Header.ConnectionUpgrade() {
		c.Context().SetConnectionClose()
	}
	if why := badFraming(c); why != "" {
		c.Context().SetConnectionClose()
		return a.answerError(c, InvalidRequest.Problem("invalid request: "+why))
	}
	if err := c.Next(); err != nil {
		return a.answerError(c, err)
	}
	return nil
}

// quietTime is how long no request comes before Config.Quiet is called. Until
// then desktops have let go of what the last screenshot needed.
const quietTime = 35 * time.Second

// isProbe reports whether requests with this path are health checks, which come
// every few seconds to an idle server.
func isProbe(path string) bool {
	return path == "/livez" || path == "/readyz" || path == "/v1/health"
}

// writeTime is how long an answer that is not a stream may take, from the
// request's arrival: longer than the longest call and a slow connection.
const writeTime = 15 * time.Minute

// observe tells Config.Observe about a request.
func (a access) observe(c *fiber.Ctx, begun time.Time) {
	if a.cfg.Observe == nil {
		return
	}
	route, status := c.Route().Path, c.Response().StatusCode()
	if route == "/" && c.Path() != "/" || status == fiber.StatusNotFound && route == "/*" {
		route = ""
	}
	a.cfg.Observe(c.Method(), route, status, time.Since(begun))
}

func (a access) logAccess(c *fiber.Ctx, begun time.Time) {
	if !a.cfg.AccessLog {
		return
	}
	status, address := c.Response().StatusCode(), redact(c.OriginalURL())
	if status >= fiber.StatusBadRequest {
		address = hideSecret(address)
	}
	a.log.Info("request", append([]any{"method", c.Method(), "url", address, "status", status,
		"duration", time.Since(begun).Round(time.Microsecond), "client", a.Client(c)}, askedOf(c).ids()...)...)
}

// Client returns the address of a request's client.
func (a *API) Client(c *fiber.Ctx) string {
	if a.cfg.TrustProxy {
		first, _, _ := strings.Cut(c.Get(fiber.HeaderXForwardedFor), ",")
		first = strings.TrimSpace(first)
		at, err := netip.ParseAddr(first)
		if err != nil {
			var withPort netip.AddrPort
			withPort, err = netip.ParseAddrPort(first)
			at = withPort.Addr()
		}
		if err == nil {
			return at.WithZone("").Unmap().String() // a zone can be any text
		}
	}
	if a.EntryOf(c.Context()).proxied {
		return c.Get(innerClient)
	}
	return c.Context().RemoteAddr().String()
}

// hideSecret takes the name of a secret out of a path. A client may have sent its value as the
// name.
func hideSecret(path string) string {
	const secrets = "secrets/"
	plain, err := url.PathUnescape(path)
	if err != nil {
		plain = path
	}
	if i := strings.Index(strings.ToLower(plain), secrets); i >= 0 && i+len(secrets) <= len(plain) {
		return plain[:i+len(secrets)] + "REDACTED"
	}
	return path
}

// redact takes the tokens out of a URL.
func redact(raw string) string {
	raw = tokens.ReplaceAllString(raw, "REDACTED")
	path, query, found := strings.Cut(raw, "?")
	if !found {
		return raw
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		if decoded, err := url.QueryUnescape(name); err == nil {
			name = decoded
		}
		if slices.Contains(tokenNames, name) {
			pairs[i] = name + "=REDACTED"
		}
	}
	return path + "?" + strings.Join(pairs, "&")
}

// tokens matches the tokens that the server makes. A client may have misspelt the parameter.
var tokens = regexp.MustCompile(`dha?_[0-9A-Za-z]{8,}`)

// gate decides from where requests may come.
type gate struct {
	cfg     Config
	origins []string // lower case, without default ports
	hosts   []string // of origins
}

func newGate(cfg Config) gate {
	g := gate{cfg: cfg}
	for _, o := range cfg.Origins {
		g.origins = append(g.origins, normalOrigin(o))
		if u, err := url.Parse(o); err == nil {
			g.hosts = append(g.hosts, strings.ToLower(u.Hostname()))
		}
	}
	return g
}

// normalOrigin is an origin in the form in which two may be compared.
func normalOrigin(o string) string {
	o = strings.ToLower(strings.TrimSuffix(o, "/"))
	for scheme, port := range map[string]string{"http://": ":80", "https://": ":443"} {
		if strings.HasPrefix(o, scheme) {
			return strings.TrimSuffix(o, port)
		}
	}
	return o
}

// listed says whether pages of an origin may call.
func (g gate) listed(origin string) bool {
	return slices.Contains(g.origins, "*") || slices.Contains(g.origins, normalOrigin(origin))
}

// own says whether an origin is the server itself, under the name by which the
// request reached it.
func (g gate) own(origin string, c *fiber.Ctx) bool {
	scheme, host, ok := strings.Cut(normalOrigin(origin), "://")
	if !ok || host == "" {
		return false
	}
	// A proxy may have taken TLS off, so that only the name can be compared.
	return host == strings.TrimPrefix(normalOrigin(scheme+"://"+g.Host(c)), scheme+"://")
}

// Secure reports whether the client reached this server by TLS.
func (g gate) Secure(c *fiber.Ctx) bool {
	if g.cfg.TrustProxy {
		if first, _, _ := strings.Cut(c.Get(fiber.HeaderXForwardedProto), ","); first != "" {
			return strings.EqualFold(strings.TrimSpace(first), "https")
		}
	}
	return c.Context().IsTLS()
}

// Host is the name and port by which the client knows this server.
func (g gate) Host(c *fiber.Ctx) string {
	if g.cfg.TrustProxy {
		if first, _, _ := strings.Cut(c.Get(fiber.HeaderXForwardedHost), ","); first != "" {
			return strings.TrimSpace(first)
		}
	}
	return string(c.Request().Header.Host())
}

// guard refuses requests that another site's page sent without leave, and
// answers preflights.
func (a access) guard(c *fiber.Ctx) error {
	if a.cfg.NoToken && a.byLoopback(c) {
		// A page whose name was pointed at this machine (DNS rebinding) is
		// same-origin to its browser; only the name gives it away.
		if name := a.Gate.foreignHost(c); name != "" {
			return PermissionDenied.Problem(fmt.Sprintf(
				"permission denied: this server needs no token and listens on loopback, so it does not answer as %q; use 127.0.0.1 or localhost, set a token, or list that origin (-O)",
				name))
		}
	}
	origin := c.Get(fiber.HeaderOrigin)
	if origin == "" {
		if a.cfg.NoToken && !a.Gate.admitLoad(c) {
			return PermissionDenied.Problem("permission denied: pages of other sites may not load from this server, which needs no token; " +
				"list their origin (-O) to allow them, or set a token")
		}
		return c.Next()
	}
	listed := a.Gate.listed(origin)
	if a.cfg.NoToken {
		setResourcePolicy(c, listed)
	}
	if !listed && !a.Gate.own(origin, c) && !a.proven(c, origin) {
		return PermissionDenied.Problem(fmt.Sprintf(
			"permission denied: requests from pages of %q are not accepted; list that origin (-O) to allow them", origin))
	}
	if listed {
		a.Gate.allow(c, origin)
	}
	if c.Method() == fiber.MethodOptions && c.Get(fiber.HeaderAccessControlRequestMethod) != "" {
		c.Status(fiber.StatusOK)
		return nil
	}
	return c.Next()
}

// admitLoad reports whether a server without a token may answer a request without an
// Origin. Browsers send such requests when a page of any site loads pictures, videos,
// scripts or links, and Sec-Fetch-Site says how the page is related (Fetch Metadata).
// Programs do not send that header.
func (g gate) admitLoad(c *fiber.Ctx) bool {
	listed := slices.Contains(g.origins, "*")
	if from, err := url.Parse(c.Get(fiber.HeaderReferer)); err == nil && from.Host != "" {
		listed = listed || g.listed(from.Scheme+"://"+from.Host)
	}
	setResourcePolicy(c, listed)
	navigation := c.Get("Sec-Fetch-Mode") == "navigate" && c.Get("Sec-Fetch-Dest") == "document"
	return !fromOtherSite(c) || listed || navigation && c.Method() == fiber.MethodGet && isPage(c.Path())
}

// fromOtherSite reports whether a browser says that a page of another origin sends a request.
func fromOtherSite(c *fiber.Ctx) bool {
	site := strings.ToLower(c.Get("Sec-Fetch-Site"))
	return site == "cross-site" || site == "same-site"
}

// setResourcePolicy has browsers withhold an answer from pages whose origin is not
// listed (Fetch standard, section 3.7).
func setResourcePolicy(c *fiber.Ctx, listed bool) {
	policy := "same-origin"
	if listed {
		policy = "cross-origin"
	}
	c.Set("Cross-Origin-Resource-Policy", policy)
}

// isPage reports whether a path is the page's, or redirects to it.
func isPage(path string) bool {
	path += "/"
	return path == "//" || strings.HasPrefix(path, "/ui/") || strings.HasPrefix(path, "/docs/") || path == "/llms.txt/"
}

// byLoopback says whether only programs on this machine come the way that a
// request came.
func (a access) byLoopback(c *fiber.Ctx) bool {
	e := a.EntryOf(c.Context())
	return e.loopback || e.proxied && c.Get(innerLoopback) != ""
}

// foreignHost returns the host name of a request if it may name another machine,
// else "". It checks both Host and X-Forwarded-Host, because a page can set
// X-Forwarded-Host but not Host.
func (g gate) foreignHost(c *fiber.Ctx) string {
	for _, name := range []string{g.Host(c), string(c.Request().Header.Host())} {
		if !g.knownHost(name) {
			return name
		}
	}
	return ""
}

// knownHost reports whether a host can only mean this machine.
func (g gate) knownHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if ip, err := netip.ParseAddr(host); err == nil && !ip.Is4In6() && ip.IsLoopback() {
		return true // no name, so none that could have been pointed here
	}
	// Other addresses also lead here, as 0.0.0.0 and ::ffff:127.0.0.1 do, but browsers send no
	// Sec-Fetch-Site to them.
	return host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		slices.Contains(g.hosts, host) || slices.Contains(g.origins, "*")
}

// Exposed are the response headers that pages of other sites may read.
const Exposed = "ETag, X-Request-Id, Deskhand-Observation, Deskhand-Scale, Deskhand-Damage, Deskhand-Settled, Deskhand-Settle-Ms, " +
	"Deskhand-Animating, Deskhand-Problem, " +
	"Accept-Ranges, Content-Disposition, Content-Range, Deskhand-Next, Deskhand-Skipped, Deskhand-Approved, Location, Link, " +
	"Acp-Connection-Id, Mcp-Protocol-Version, X-Accel-Buffering, Allow, Retry-After, WWW-Authenticate"

// allow lets a browser know that a listed origin's page may see the answer
// (Fetch standard, section 3.3).
func (g gate) allow(c *fiber.Ctx, origin string) {
	c.Set(fiber.HeaderAccessControlAllowOrigin, origin)
	c.Set(fiber.HeaderAccessControlExposeHeaders, Exposed)
	if g.cfg.Credentials {
		c.Set(fiber.HeaderAccessControlAllowCredentials, "true")
	}
	if c.Method() != fiber.MethodOptions {
		return
	}
	// A * would not cover Authorization, nor anything with credentials, so
	// what is asked for is repeated.
	methods, headers := strings.Join(g.cfg.Methods, ", "), strings.Join(g.cfg.Headers, ", ")
	if methods == "" {
		methods = c.Get(fiber.HeaderAccessControlRequestMethod)
	}
	if headers == "" {
		headers = c.Get(fiber.HeaderAccessControlRequestHeaders)
	}
	for name, value := range map[string]string{
		fiber.HeaderAccessControlAllowMethods: methods,
		fiber.HeaderAccessControlAllowHeaders: headers,
		fiber.HeaderAccessControlMaxAge:       "600",
	} {
		if value != "" {
			c.Set(name, value)
		}
	}
	if c.Get("Access-Control-Request-Private-Network") == "true" {
		c.Set("Access-Control-Allow-Private-Network", "true")
	}
}
