package httpapi

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrape returns the metrics of a server, by their names and labels.
func (s *testServer) scrape(t *testing.T) (values map[string]float64, names []string) {
	t.Helper()
	a := s.get(t, "/metrics").want(t, 200)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(a.body)))
	if err != nil {
		t.Fatal(err)
	}
	values = map[string]float64{}
	for name, family := range families {
		if strings.HasPrefix(name, "deskhand_") {
			names = append(names, name)
		}
		for _, m := range family.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			values[name+"{"+strings.Join(labels, ",")+"}"] = valueOf(m)
		}
	}
	slices.Sort(names)
	return values, names
}

func valueOf(m *dto.Metric) float64 {
	switch {
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	case m.Counter != nil:
		return m.Counter.GetValue()
	default:
		return m.Gauge.GetValue()
	}
}

// TestMetrics compares the metrics with what the server has done.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	ann := s.view(t, s.withToken())
	ann.is("live")
	s.post(t, mainPath+"/recordings", "").want(t, 201)
	s.post(t, "/v1/processes", `{"command":"sleep","args":["1000"]}`).want(t, 200)
	s.post(t, "/v1/sessions/one", fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
	s.message(t, "one", "permission")
	s.post(t, "/v1/sessions/two", fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
	s.turn(t, "two", "hello")
	for range 3 {
		s.post(t, mainPath+"/mouse/move", `{"x":9,"y":9}`).want(t, 200)
	}
	for range 2 {
		s.get(t, mainPath+"/screenshot?settleMs=50").want(t, 200)
	}
	s.get(t, "/v1/nothing/here").want(t, 404)
	want := map[string]float64{
		"deskhand_desktops{state=active}":                                                             1,
		"deskhand_viewers{desktop=main,transport=webrtc}":                                             1,
		"deskhand_recordings_active{desktop=main}":                                                    1,
		"deskhand_processes{owner=user,state=running}":                                                1,
		"deskhand_agent_sessions{state=waiting}":                                                      1,
		"deskhand_agent_sessions{state=idle}":                                                         1,
		"deskhand_agent_requests_waiting{}":                                                           1,
		"deskhand_agent_turn_duration_seconds{agent=mock,outcome=end_turn}":                           1,
		"deskhand_log_lag_seconds{}":                                                                  0,
		"deskhand_input_duration_seconds{}":                                                           3,
		"deskhand_settle_duration_seconds{}":                                                          2,
		"deskhand_log_outage_seconds{}":                                                               0,
		"deskhand_live_view_failures_total{desktop=main}":                                             0,
		"deskhand_http_request_duration_seconds{method=POST,route=/v1/desktop/mouse/move,status=200}": 3,
		"deskhand_http_request_duration_seconds{method=GET,route=,status=404}":                        1,
	}
	var got map[string]float64
	var names []string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%v", got)
		}
	})
	eventually(t, "the metrics tell what the server does", func() bool {
		got, names = s.scrape(t)
		for name, value := range want {
			if got[name] != value {
				return false
			}
		}
		return true
	})
	for _, name := range []string{
		"deskhand_live_view_pictures_total{desktop=main}", "deskhand_live_view_bytes_total{desktop=main}", "deskhand_log_events_total{}",
		"deskhand_log_commit_duration_seconds{}", "deskhand_connections{}", "deskhand_event_streams{}", "deskhand_agent_request_oldest_seconds{}",
		"deskhand_frame_age_seconds{}", "deskhand_children{}",
		"deskhand_screenshot_duration_seconds{}",
		"process_open_fds{}", "go_goroutines{}",
	} {
		if got[name] <= 0 {
			t.Errorf("%s is %v", name, got[name])
		}
	}

	// Each metric is in the documentation.
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var described []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(deskhand_[a-z_]+)").FindAllSubmatch(text, -1) {
		described = append(described, string(m[1]))
	}
	slices.Sort(described)
	if diff := cmp.Diff(names, described); diff != "" {
		t.Errorf("metrics in docs/operations.md (-server +docs):\n%s", diff)
	}

	// Only the server's token reads them.
	s.do(t, call{path: "/metrics", anon: true}).problem(t, 401, "token_invalid")
	token := s.post(t, "/v1/tokens", `{"scope":"view"}`).want(t, 200).json(t)["token"].(string)
	s.do(t, call{method: "GET", path: "/metrics", header: map[string]string{"Authorization": "Bearer " + token}}).problem(t, 403, "permission_denied")
}
