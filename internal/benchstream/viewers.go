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

	"github.com/deskhand/deskhand/internal/benchkit"
)

// moreViewers is the number of viewers in addition to the browser.
const moreViewers = 3

// measureViewers measures the server with one viewer and with four, in turn. The
// further viewers discard what they get, so that the decoding of four videos does
// not take processor time from the server.
func (b *bench) measureViewers(ctx context.Context) (err error) {
	d, err := b.startDrawing(ctx, &scrolling{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.finish()) }()
	v, err := b.watch(ctx, 0)
	if err != nil {
		return err
	}
	var one, four float64
	window := max(b.window/time.Duration(b.turns), time.Second)
	for range b.turns {
		f, err := v.over(ctx, window)
		if err != nil {
			return err
		}
		g, err := b.withMore(ctx, v, window)
		if err != nil {
			return err
		}
		one, four = one+f.share, four+g.share
		b.note("one: %.1f %%, four: %.1f %% of a core; with four: %s", f.share*100, g.share*100, g.note)
	}
	b.add("four viewers instead of one, scrolling terminal: processor", four/one, "times", atMost(1.2))
	return v.disconnect(ctx)
}

// withMore measures while more viewers watch.
func (b *bench) withMore(ctx context.Context, v *viewer, window time.Duration) (f found, err error) {
	inner, leave := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer leave()
	ended := make(chan error, moreViewers)
	watching := make(chan struct{}, moreViewers)
	for range moreViewers {
		work.Go(func() { ended <- discardVideo(inner, b.signaling(), func() { watching <- struct{}{} }) })
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
	if err := benchkit.Pause(ctx, b.settling); err != nil {
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

// message is a message of the signalling.
type message struct {
	Event   string          `json:"event"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// discardVideo watches until ctx ends, and calls seen after the first packet.
func discardVideo(ctx context.Context, url string, seen func()) (err error) {
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
				return nil
			}
			return err
		}
		if err := answer(ctx, conn, pc, m); err != nil {
			return fmt.Errorf("%s: %w", m.Event, err)
		}
	}
}

// answer answers a message of the signalling.
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
