package httpapi

import (
	bin "encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// toneFile writes a minute of 1000 Hz, on the right, as a WAV file.
func toneFile(t *testing.T) string {
	t.Helper()
	const rate, seconds = 48000, 60
	const size = 4 * rate * seconds
	data := make([]byte, 0, 44+size)
	put := func(v any) { data, _ = bin.Append(data, bin.LittleEndian, v) }
	data = append(data, "RIFF"...)
	put(uint32(36 + size))
	data = append(data, "WAVEfmt "...)
	put([]uint16{16, 0, 1, 2})
	put([]uint32{rate, 4 * rate})
	put([]uint16{4, 16})
	data = append(data, "data"...)
	put(uint32(size))
	for i := range rate * seconds {
		v := int16(16384 * math.Sin(2*math.Pi*1000*float64(i)/rate))
		put([]int16{0, v})
	}
	path := filepath.Join(t.TempDir(), "tone.wav")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// loudest is the frequencies that are loudest on the left and the right of the
// sound that the page gets; 0 is none.
const loudest = `(() => {
	const stream = document.querySelector("video").srcObject;
	if (!stream) return [0, 0];
	if (window.heard?.stream !== stream) {
		const context = window.heard?.context ?? new AudioContext();
		const sides = context.createChannelSplitter(2);
		context.createMediaStreamSource(stream).connect(sides);
		const analysers = [0, 1].map((channel) => {
			const analyser = context.createAnalyser();
			analyser.fftSize = 4096;
			sides.connect(analyser, channel);
			return analyser;
		});
		window.heard = { stream, context, analysers };
	}
	const { context, analysers } = window.heard;
	return analysers.map((analyser) => {
		const levels = new Float32Array(analyser.frequencyBinCount);
		analyser.getFloatFrequencyData(levels);
		const most = Math.max(...levels);
		return most > -60 ? levels.indexOf(most) * context.sampleRate / analyser.fftSize : 0;
	});
})()`

// TestPageSound turns the sound on and off while something plays, and reloads.
func TestPageSound(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "pulseaudio", "paplay")
	for codec, want := range map[string]string{
		"opus": "%s.map((hertz) => Math.round(hertz / 50)).join() === '0,20'",
		"g722": "%s.map((hertz) => Math.round(hertz / 50)).join() === '20,20'",
	} {
		t.Run(codec, func(t *testing.T) {
			t.Parallel()
			s := startReal(t, Config{}, fmt.Sprintf(`{"width":640,"height":480,"streamAudioCodec":%q}`, codec))
			v := s.view(t, s.withToken())
			v.is("live")
			if c := s.get(t, mainPath+"/stream/status").want(t, 200).json(t); c["audioCodec"] != codec {
				t.Errorf("audioCodec = %v", c["audioCodec"])
			}
			s.post(t, mainPath+"/launch", fmt.Sprintf(`{"app":"paplay","args":[%q]}`, toneFile(t))).want(t, 200)
			v.holds(`!document.querySelector("#sound").hidden && document.querySelector("#sound").ariaPressed === "false" && document.querySelector("video").muted`)
			v.click("#sound")
			v.holds(`document.querySelector("#sound").ariaPressed === "true" && !document.querySelector("video").muted && !document.querySelector("video").paused`)
			v.holds(want, loudest)
			v.click("#sound")
			v.holds(`document.querySelector("#sound").ariaPressed === "false" && document.querySelector("video").muted`)
			v.holds(`%s.join() === "0,0"`, loudest)
			v.click("#sound")
			v.holds(want, loudest)
			// After a reload it comes back with the first click.
			testbrowser.Do(v.ctx, t, chromedp.Reload())
			v.is("live")
			v.holds(`!document.querySelector("#sound").hidden`)
			v.point(320, 240)
			v.holds(`document.querySelector("#sound").ariaPressed === "true"`)
			v.holds(want, loudest)
		})
	}
}
