package processes

import (
	"testing"
)

func FuzzTerminalFrame(f *testing.F) {
	for _, seed := range []string{
		`{"type":"input","data":"x"}`, `{"type":"input","data":"eA==","encoding":"base64"}`, `{"type":"resize","cols":80,"rows":24}`,
		`{"type":"close"}`, `{"type":"resize","cols":-1,"rows":1e9}`, `[]`, `null`, `{"type":null}`, `{"type":"input","data":"\ud800"}`, "{\"type\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := parseTerminalFrame(data)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		switch frame.kind {
		case "input", "resize", "close":
		default:
			t.Errorf("%q was accepted as %q", data, frame.kind)
		}
		if frame.kind != "input" && frame.input != nil || frame.kind != "resize" && (frame.cols != 0 || frame.rows != 0) {
			t.Errorf("%q = %+v", data, frame)
		}
		if len(frame.input) > len(data) {
			t.Errorf("%d bytes of input in %d", len(frame.input), len(data))
		}
	})
}
