// Package webrtc shows a desktop live in browsers, and passes their input to it.
//
// # Usage
//
// Start returns a [Streamer] of a desktop. Its Handler serves a page that only shows the
// desktop, see the example. A program with its own routes calls these methods:
//
//   - [Streamer.ServeSignaling] speaks the protocol of neko 3 over a connection such
//     as a WebSocket, as the published clients of sandbox-agent 0.4.2 do. Video and
//     sound come by WebRTC. Viewers that may have control use its data channel for input
//     and the pointer. Other viewers get the pointer in messages of the connection.
//   - [Streamer.ServeWHEP], and [Streamer.Play] below it, answer players that make
//     the offer (WHEP). These viewers can only watch.
//   - [Streamer.ServeVideo] sends the pictures, without sound, over a WebSocket.
//
// A viewer's input takes effect only while the viewer has control of the desktop, see
// desktop.Control. Keys and buttons that a viewer holds are released when it loses
// control or leaves.
//
// # Reaching viewers
//
// Media goes through one UDP port of a [Network], or one for each viewer from a range.
// Streamers can share a Network. A viewer tries that port at every address of this
// machine and at the address to which its request came (ViewerOptions.Host), so most
// port forwards need no configuration. Where UDP is blocked, media can use the TCP
// port of HTTP ([TCP]) or a TURN server (NetworkConfig.ICEServers).
// [Streamer.Diagnose] finds out why a viewer is not connected.
//
// # Cost
//
// The desktop is captured and encoded once for all viewers, and only while there are
// viewers. Sound is captured while a viewer wants it. While the screen does not change,
// a picture of a few bytes is sent every two seconds. A viewer with a slow connection
// skips pictures. If the bit rate is too high for a viewer, or its session description
// asks for less (b=TIAS or b=AS), the rate is lowered for all viewers, to
// Config.MinBitrate at least.
//
// # Lifetime
//
// A Streamer runs until Close. It continues after restarts of the X server and changes of the
// screen's size. When its desktop ends, viewers stay connected and keep the last picture.
//
// # Concurrency
//
// All methods may be called from any goroutine.
//
// # Errors
//
// Methods return or wrap the Err variables. Other errors of Start are about its Config, its
// context or the network.
//
// # Requirements
//
// None for VP8, Opus and G.722, whose encoders are built in. VP9 and H.264 need ffmpeg.
// Sound needs a desktop that has sound.
package webrtc
