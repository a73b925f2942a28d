package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

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
func (b *bench) withMore(ctx context.Context, v viewer, window time.Duration) (f found, err error) {
	var more []*pion.PeerConnection
	defer func() {
		for _, pc := range more {
			err = errors.Join(err, pc.GracefulClose())
		}
	}()
	for range moreViewers {
		pc, err := b.discardVideo(ctx)
		if err != nil {
			return found{}, fmt.Errorf("a further viewer: %w", err)
		}
		more = append(more, pc)
	}
	if err := benchkit.Pause(ctx, b.settling); err != nil {
		return found{}, err
	}
	if f, err = v.over(ctx, window); err != nil {
		return found{}, err
	}
	for _, pc := range more {
		if state := pc.ConnectionState(); state != pion.PeerConnectionStateConnected {
			return found{}, fmt.Errorf("a further viewer is %s", state)
		}
	}
	return f, nil
}

// discardVideo connects a WHEP player that discards what it gets. It returns after
// the first packet.
func (b *bench) discardVideo(ctx context.Context) (_ *pion.PeerConnection, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var settings pion.SettingEngine
	settings.SetIncludeLoopbackCandidate(true)
	pc, err := pion.NewAPI(pion.WithSettingEngine(settings)).NewPeerConnection(pion.Configuration{})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, pc.GracefulClose())
		}
	}()
	watching := make(chan struct{})
	pc.OnTrack(func(track *pion.TrackRemote, _ *pion.RTPReceiver) {
		packet := make([]byte, 1600)
		for first := true; ; first = false {
			if _, _, err := track.Read(packet); err != nil {
				return
			}
			if first {
				close(watching)
			}
		}
	})
	if _, err := pc.AddTransceiverFromKind(pion.RTPCodecTypeVideo, pion.RTPTransceiverInit{Direction: pion.RTPTransceiverDirectionRecvonly}); err != nil {
		return nil, err
	}
	offer, err := pc.CreateOffer(nil)
	if err != nil {
		return nil, err
	}
	gathered := pion.GatheringCompletePromise(pc)
	if err := pc.SetLocalDescription(offer); err != nil {
		return nil, err
	}
	<-gathered
	req, err := b.server.Request(ctx, http.MethodPost, "/v1/desktop/stream/whep", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/sdp")
	req.Body, req.Close = io.NopCloser(strings.NewReader(pc.LocalDescription().SDP)), true
	var answer strings.Builder
	if err := benchkit.Do(http.DefaultClient, req, &answer); err != nil {
		return nil, err
	}
	if err := pc.SetRemoteDescription(pion.SessionDescription{Type: pion.SDPTypeAnswer, SDP: answer.String()}); err != nil {
		return nil, err
	}
	select {
	case <-watching:
		return pc, nil
	case <-ctx.Done():
		return nil, errors.New("it gets no video")
	}
}
