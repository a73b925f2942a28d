// Package webrtc shows a desktop to browsers, live, and brings their input back.
//
// # Usage
//
//	s, err := webrtc.Start(ctx, desk, webrtc.Config{})
//	defer s.Close()
//	http.ListenAndServe("127.0.0.1:8080", s.Handler())
//
// A Streamer encodes its desktop once, whoever watches and however many, and
// sends it to each. Viewers come in three ways:
//
//   - [Streamer.ServeSignaling] speaks the protocol of neko 3 over a connection
//     such as a WebSocket, as the published clients of sandbox-agent 0.4.2 do:
//     video by WebRTC, input and the pointer over its data channel.
//   - [Streamer.Play], and [Streamer.ServeWHEP] on top of it, answer players that
//     make the offer themselves (WHEP). They only watch.
//
// Where the desktop has sound (desktop.Status), both get it as a second track, of
// the same stream, so that browsers line it up with the picture. A client of the
// signalling protocol switches it on and off with signal/audio.
//
// Several desktops share the ports of one [Network].
//
// # Reaching viewers
//
// All media goes through one UDP port of the Network, or one a viewer from a
// range. A viewer is told to try it at every address of this machine, and at the
// one by which its request came (ViewerOptions.Host), which is why most port
// forwards need no configuration. Where UDP does not get through, it may come to
// the port of HTTP itself:
//
//	var tcp webrtc.TCP
//	go http.Serve(tcp.Share(listener), handler)
//	network, err := webrtc.NewNetwork(webrtc.NetworkConfig{TCP: &tcp})
//
// Where nothing but HTTP gets through, both sides can meet at a TURN server
// (NetworkConfig.ICEServers), or viewers get the pictures, without sound, over a
// WebSocket ([Streamer.ServeVideo]). [Streamer.Diagnose] says where the way ends.
//
// # Control
//
// A viewer's input is done only while it has control of the desktop: see
// desktop.Control. Whatever a viewer holds down is released when it loses control
// or leaves.
//
// # Cost
//
// Nothing is captured or encoded while nobody watches, nor listened to while no
// viewer wants sound. What is silent is not sent. While nothing changes on
// the screen, a picture of a few bytes every two seconds keeps browsers from
// asking for more. A viewer whose line is too slow skips to a later picture and
// slows nobody; one for whom the bit rate is too high lowers it for all, down to
// Config.MinBitrate. So does one whose session description asks for less (b=TIAS
// or b=AS).
//
// # Lifetime
//
// A Streamer lives until Close, and survives restarts of the X server and changes
// of the screen's size. It does not end with its desktop, but has nothing to show
// any more then.
//
// # Concurrency
//
// All methods may be called from any goroutine.
//
// # Errors
//
// [ErrClosed], [ErrTooManyViewers], [ErrTooManyOfOwner], [ErrViewerNotFound], [ErrOffer], [ErrNoCodec], [ErrCodec],
// [ErrNoPort].
//
// # Requirements
//
// None for VP8, Opus and G.722, whose encoders are built in; ffmpeg for VP9 and
// H.264. Sound needs a desktop that has some.
package webrtc
