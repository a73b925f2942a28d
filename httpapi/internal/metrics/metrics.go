// Package metrics has the metrics of a server in the format of Prometheus. Counters grow as
// requests are answered and events are stored; all other values are read during a scrape,
// so that a server that is not scraped does nothing for them.
package metrics

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/process"
)

// Config names what metrics are read from. The functions are called during scrapes.
type Config struct {
	Version     string
	Fleet       *fleet.Fleet
	Processes   func(process.Owner) []process.Info // the owner "" selects all
	Agents      func() *agents.Host                // nil result: the host has not started
	Streams     func() int                         // open event streams
	Connections func() int                         // open connections
}

// Metrics has the metrics of one server.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	events   prometheus.Counter
	commits  prometheus.Histogram
	lag      prometheus.Histogram

	operations map[desktop.Operation]prometheus.Histogram
	frames     prometheus.Histogram
	turns      *prometheus.HistogramVec
}

// Buckets of durations, in seconds: from an unchanged screenshot to a long wait.
var (
	requestBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60}
	actionBuckets  = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}
	turnBuckets    = []float64{.1, 1, 5, 15, 60, 300, 900, 3600}
	lagBuckets     = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30, 300}
	commitBuckets  = []float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .5, 2}
)

// New returns the metrics of a server, without values yet.
func New(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "deskhand_http_request_duration_seconds", Buckets: requestBuckets,
			Help: "Time to the end of the answer to a request; of a stream, to its beginning.",
		}, []string{"method", "route", "status"}),
		events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "deskhand_log_events_total", Help: "Events that this server stored in the log of agent sessions.",
		}),
		commits: histogram("log_commit_duration_seconds", "Time that the database took for a commit of the log.", commitBuckets),
		lag:     histogram("log_lag_seconds", "Time from the writing of events by another server to their arrival here.", lagBuckets),
		operations: map[desktop.Operation]prometheus.Histogram{
			desktop.OperationInput:      histogram("input_duration_seconds", "Time from a call to the end of its input, with the wait for its turn.", actionBuckets),
			desktop.OperationScreenshot: histogram("screenshot_duration_seconds", "Time to capture and encode a screenshot, after the wait for the screen.", actionBuckets),
			desktop.OperationSettle:     histogram("settle_duration_seconds", "Time until the screen had settled.", actionBuckets),
		},
		turns: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "deskhand_agent_turn_duration_seconds", Buckets: turnBuckets, Help: "Time from a prompt to the end of the turn.",
		}, []string{"agent", "outcome"}),
		frames: histogram("frame_age_seconds", "Time from the change of a screen to its encoded picture in the live view.", actionBuckets),
	}
	for _, h := range m.operations {
		m.registry.MustRegister(h)
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "deskhand_build_info", Help: "1, with the version of the server.", ConstLabels: prometheus.Labels{"version": version},
	})
	info.Set(1)
	m.registry.MustRegister(m.requests, m.events, m.commits, m.lag, m.frames, m.turns, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "deskhand_" + name, Help: help, Buckets: buckets})
}

// Register adds the route of the metrics to an API, and the values that are read during
// scrapes.
func Register(api *rest.API, m *Metrics, cfg Config) {
	m.registry.MustRegister(&collector{cfg})
	rest.Add(rest.Group{API: api}, rest.Route{
		ID: "getMetrics", Method: http.MethodGet, Path: rest.MetricsPath, Tag: "Server",
		Summary: "Get the metrics of the server",
		About:   "In the text format of Prometheus. --metrics-listen serves them on another address without a token.",
		Content: map[string]*huma.MediaType{contentType: {Schema: &huma.Schema{Type: huma.TypeString}}},
	}, func(context.Context, *struct{}) (*output, error) { return m.text() })
}

type output struct {
	ContentType string `header:"Content-Type"`
	Cache       string `header:"Cache-Control"`
	Body        []byte
}

var contentType = string(expfmt.NewFormat(expfmt.TypeTextPlain))

// text returns the metrics in the text format.
func (m *Metrics) text() (*output, error) {
	families, err := m.registry.Gather()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&b, family); err != nil {
			return nil, err
		}
	}
	return &output{contentType, "no-store", b.Bytes()}, nil
}

// Request counts a request. route is the pattern of its path.
func (m *Metrics) Request(method, route string, status int, took time.Duration) {
	m.requests.WithLabelValues(method, route, strconv.Itoa(status)).Observe(took.Seconds())
}

// Appended counts events of the log.
func (m *Metrics) Appended(n int64) { m.events.Add(float64(n)) }

// Committed counts a commit of the log.
func (m *Metrics) Committed(took time.Duration) { m.commits.Observe(took.Seconds()) }

// Arrived counts events of another server.
func (m *Metrics) Arrived(lag time.Duration) { m.lag.Observe(lag.Seconds()) }

// Operation counts an operation of a desktop that has succeeded.
func (m *Metrics) Operation(o desktop.Observed) {
	if o.Err == nil {
		m.operations[o.Operation].Observe(time.Since(o.Began).Seconds())
	}
}

// Turn counts a turn of an agent that has ended.
func (m *Metrics) Turn(t agents.EndedTurn) {
	m.turns.WithLabelValues(t.Agent, t.Outcome).Observe(t.Took.Seconds())
}

// Frame counts a frame of a live view.
func (m *Metrics) Frame(age time.Duration) { m.frames.Observe(age.Seconds()) }

// Handler answers scrapes.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, MaxRequestsInFlight: 4, Timeout: rest.ReadTime})
}

// scrapeTime bounds the calls of the log during a scrape.
const scrapeTime = 2 * time.Second

func scrapeContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), scrapeTime)
}
