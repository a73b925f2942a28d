package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	pion "github.com/pion/webrtc/v4"
)

// moreViewers is how many watch beside the browser.
const moreViewers = 3

// manyViewers measures the server with one viewer and with four, in turn. Those
// beside the browser throw away what they get, so that the decoding of four
// videos does not take the machine from the server.
func manyViewers(ctx context.Context, b *bed, o options, r *result) (err error) {
	d, err := b.startDrawing(&scrolling{}, steady(pictureRate))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.finish()) }()
	v, err := b.watch(ctx, o, 0)
	if err != nil {
		return err
	}
	var one, four []float64
	window := max(o.window/time.Duration(o.turns), time.Second)
	for range o.turns {
		f, err := v.over(ctx, window)
		if err != nil {
			return err
		}
		one = append(one, f.share)
		if f, err = b.withMore(ctx, v, o.settling, window); err != nil {
			return err
		}
		four = append(four, f.share)
		r.note("one: %.1f %%, four: %.1f %% of a core; with four: %s", one[len(one)-1]*100, f.share*100, f.note)
	}
	r.add("four viewers instead of one, scrolling terminal: processor", mean(four)/mean(one), "times", atMost(1.2))
	return v.disconnect(ctx)
}

func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// withMore measures while more viewers watch.
func (b *bed) withMore(ctx context.Context, v *viewer, settling, window time.Duration) (f found, err error) {
	inner, leave := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer leave()
	ended := make(chan error, moreViewers)
	watching := make(chan struct{}, moreViewers)
	for range moreViewers {
		work.Go(func() { ended <- watchBlindly(inner, b.signaling(), func() { watching <- struct{}{} }) })
	}
	limit := time.After(patience)
	for range moreViewers {
		select {
		case <-watching:
		case err := <-ended:
			return found{}, fmt.Errorf("a further viewer: %w", err)
		case <-limit:
			return found{}, errors.New("further viewers get no video")
		}
	}
	if err := pause(ctx, settling); err != nil {
		return found{}, err
	}
	f, err = v.over(ctx, window)
	select {
	case e := <-ended:
		err = errors.Join(err, fmt.Errorf("a further viewer: %w", e))
	default:
	}
	return f, err
}

// message is one of the signalling.
type message struct {
	Event   string          `json:"event"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// watchBlindly watches until ctx ends, and calls seen when the first packet has
// come.
func watchBlindly(ctx context.Context, url string, seen func()) (err error) {
	conn, _, err := websocket.Dial(ctx, url, nil) //nolint:bodyclose // the library closes it
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(1 << 20)
	var settings pion.SettingEngine
	settings.SetIncludeLoopbackCandidate(true)
	pc, err := pion.NewAPI(pion.WithSettingEngine(settings)).NewPeerConnection(pion.Configuration{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pc.GracefulClose()) }()
	pc.OnTrack(func(track *pion.TrackRemote, _ *pion.RTPReceiver) {
		packet := make([]byte, 1600)
		for first := true; ; first = false {
			if _, _, err := track.Read(packet); err != nil {
				return
			}
			if first {
				seen()
			}
		}
	})
	for {
		var m message
		if err := wsjson.Read(ctx, conn, &m); err != nil {
			if ctx.Err() != nil {
				return nil // as it should end
			}
			return err
		}
		if err := answer(ctx, conn, pc, m); err != nil {
			return fmt.Errorf("%s: %w", m.Event, err)
		}
	}
}

// answer does what a message of the signalling asks for.
func answer(ctx context.Context, conn *websocket.Conn, pc *pion.PeerConnection, m message) error {
	switch m.Event {
	case "system/init":
		return wsjson.Write(ctx, conn, map[string]any{"event": "signal/request", "payload": struct{}{}})
	case "signal/provide":
		var offer struct{ SDP string }
		if err := json.Unmarshal(m.Payload, &offer); err != nil {
			return err
		}
		if err := pc.SetRemoteDescription(pion.SessionDescription{Type: pion.SDPTypeOffer, SDP: offer.SDP}); err != nil {
			return err
		}
		a, err := pc.CreateAnswer(nil)
		if err != nil {
			return err
		}
		gathered := pion.GatheringCompletePromise(pc)
		if err := pc.SetLocalDescription(a); err != nil {
			return err
		}
		<-gathered
		return wsjson.Write(ctx, conn, map[string]any{"event": "signal/answer", "payload": map[string]string{"sdp": pc.LocalDescription().SDP}})
	case "signal/candidate":
		var c pion.ICECandidateInit
		if err := json.Unmarshal(m.Payload, &c); err != nil {
			return err
		}
		return pc.AddICECandidate(c)
	}
	return nil
}
