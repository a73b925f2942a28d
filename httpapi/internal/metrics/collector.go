package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/recording"
	"github.com/deskhand/deskhand/webrtc"
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("deskhand_"+name, help, labels, nil)
}

var (
	desktopsDesc    = describe("desktops", "Desktops by state.", "state")
	viewersDesc     = describe("viewers", "Viewers of live views by transport.", "desktop", "transport")
	picturesDesc    = describe("live_view_pictures_total", "Pictures encoded since the live view began.", "desktop")
	bytesDesc       = describe("live_view_bytes_total", "Bytes encoded since the live view began.", "desktop")
	rateDesc        = describe("live_view_pictures_per_second", "Pictures encoded per second, of the last seconds.", "desktop")
	bitsDesc        = describe("live_view_bits_per_second", "Bits encoded per second, of the last seconds.", "desktop")
	targetDesc      = describe("live_view_target_bits_per_second", "Target of the encoder.", "desktop")
	failuresDesc    = describe("live_view_failures_total", "Failures of the capture and the encoder, after which both were started again.", "desktop")
	recordingsDesc  = describe("recordings_active", "Recordings in progress.", "desktop")
	recordedDesc    = describe("recording_active_bytes", "Bytes of the recordings in progress.", "desktop")
	processesDesc   = describe("processes", "Processes of clients and of desktops.", "owner", "state")
	sessionsDesc    = describe("agent_sessions", "Sessions of agents by state. Ended and failed ones are not counted.", "state")
	waitingDesc     = describe("agent_requests_waiting", "Permission requests and questions of agents without an answer.")
	oldestDesc      = describe("agent_request_oldest_seconds", "Time since the oldest of them was asked.")
	outageDesc      = describe("log_outage_seconds", "Time since the connection was lost by which other servers report events in Postgres.")
	childrenDesc    = describe("children", "Programs that this server has started and that run.")
	streamsDesc     = describe("event_streams", "Open event streams.")
	connectionsDesc = describe("connections", "Open connections of clients.")
)

// collector reads the values of one scrape.
type collector struct{ cfg Config }

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		desktopsDesc, viewersDesc, picturesDesc, bytesDesc, rateDesc, bitsDesc, targetDesc, failuresDesc, recordingsDesc, recordedDesc,
		processesDesc, sessionsDesc, waitingDesc, oldestDesc, outageDesc, childrenDesc, streamsDesc, connectionsDesc,
	} {
		to <- d
	}
}

// sample is one scrape.
type sample chan<- prometheus.Metric

func (s sample) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s sample) counter(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := sample(to)
	s.gauge(streamsDesc, float64(c.cfg.Streams()))
	s.gauge(connectionsDesc, float64(c.cfg.Connections()))
	s.gauge(childrenDesc, float64(runningChildren()))
	s.desktops(c.cfg.Fleet.List())
	s.processes(c.cfg)
	if host := c.cfg.Agents(); host != nil {
		ctx, cancel := scrapeContext()
		defer cancel()
		s.agents(ctx, host)
	}
}

func runningChildren() (n int) {
	for _, c := range supervise.Others(nil) {
		select {
		case <-c.Done():
		default:
			n++
		}
	}
	return n
}

var states = []desktop.State{desktop.StateInactive, desktop.StateStarting, desktop.StateActive, desktop.StateStopping, desktop.StateFailed}

func (s sample) desktops(all []*fleet.Instance) {
	byState := map[desktop.State]int{}
	for _, inst := range all {
		byState[inst.Status().State]++
		if stream := inst.RunningStream(); stream != nil {
			s.stream(inst.ID(), stream.Status())
		}
		active := inst.ActiveRecordings()
		s.gauge(recordingsDesc, float64(len(active)), inst.ID())
		s.gauge(recordedDesc, float64(size(active)), inst.ID())
	}
	for _, state := range states {
		s.gauge(desktopsDesc, float64(byState[state]), string(state))
	}
}

func size(active []recording.Info) (bytes int64) {
	for _, one := range active {
		bytes += one.Bytes
	}
	return bytes
}

func (s sample) stream(id string, st webrtc.Status) {
	byTransport := map[webrtc.Transport]int{}
	for _, v := range st.Viewers {
		byTransport[v.Transport]++
	}
	for transport, n := range byTransport {
		s.gauge(viewersDesc, float64(n), id, string(transport))
	}
	s.counter(picturesDesc, float64(st.Pictures), id)
	s.counter(bytesDesc, float64(st.Bytes), id)
	s.gauge(rateDesc, st.PicturesPerSecond, id)
	s.gauge(bitsDesc, float64(st.BitsPerSecond), id)
	s.gauge(targetDesc, float64(st.Target), id)
	s.counter(failuresDesc, float64(st.Failures), id)
}

func (s sample) processes(cfg Config) {
	type kind struct{ owner, state string }
	counts := map[kind]int{}
	for _, p := range cfg.Processes("") {
		state := "exited"
		if p.Running {
			state = "running"
		}
		counts[kind{string(p.Owner), state}]++
	}
	for k, n := range counts {
		s.gauge(processesDesc, float64(n), k.owner, k.state)
	}
}

var openStates = []eventlog.State{eventlog.Starting, eventlog.Idle, eventlog.Running, eventlog.Waiting, eventlog.Interrupted}

// pageSize is the number of sessions that are read in one query.
const pageSize = 1000

func (s sample) agents(ctx context.Context, host *agents.Host) {
	s.gauge(outageDesc, host.Log().Outage().Seconds())
	byState := map[eventlog.State]int{}
	for cursor := ""; ; {
		page, next, err := host.Log().Sessions(ctx, eventlog.SessionFilter{States: openStates}, cursor, pageSize)
		if err != nil {
			return // the scrape has no values rather than wrong ones
		}
		for _, one := range page {
			byState[one.State]++
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	for _, state := range openStates {
		s.gauge(sessionsDesc, float64(byState[state]), string(state))
	}
	open, err := host.Log().Requests(ctx, eventlog.RequestFilter{Pending: true, MaxParams: -1})
	if err != nil {
		return
	}
	waiting, oldest := 0, time.Duration(0)
	for _, r := range open {
		if r.PublicID == "" {
			continue // between programs: a person has nothing to answer
		}
		waiting++
		oldest = max(oldest, time.Since(r.AskedAt))
	}
	s.gauge(waitingDesc, float64(waiting))
	s.gauge(oldestDesc, oldest.Seconds())
}
