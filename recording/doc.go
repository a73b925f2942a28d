// Package recording records desktops as MP4 files that survive anything, with what
// happened in them.
//
// # Usage
//
//	store, err := recording.Open(ctx, recording.StoreConfig{Dir: "recordings"})
//	defer store.Close()
//	r, err := store.Start(ctx, desk, recording.Config{})
//	...
//	info, err := r.Stop(ctx)
//	file, info, err := store.Video(info.ID)
//
// A [Store] is a directory with a folder for each recording: its video, a manifest,
// a timeline of what was done and what happened on the desktop, and pictures.
//
// # Cost
//
// A picture is recorded when the screen changes, at most Config.FrameRate in a
// second, and what did not change is neither fetched nor converted. While nothing
// changes, there is a picture of a few bytes every two seconds.
//
// # What survives
//
// A video is written in fragments of half a second, each whole or not at all, and
// is playable at any moment, whatever was killed: ffmpeg, this program, the X
// server, the machine (which costs the last seconds). The end of ffmpeg ends the
// recording, as [StatusRecovered]; a new X server does not. What was not ended when
// this program died is repaired by Open. A recording is [StatusCompleted] only when
// its first picture was seen to decode and its file has every byte that was written.
// Open looks at the sizes of files again.
//
// After the end, the file is replaced by one that has its index in front and
// chapters, with the same pictures; whoever reads the old one is not disturbed.
//
// # Lifetime
//
// A Recording goes on until [Recording.Stop], the end of the desktop or of the
// store, or a limit of its Config. Store.Close stops and finishes all that run.
//
// # Concurrency
//
// All methods may be called from any goroutine. Several recordings may run at once,
// also of one desktop. A directory has one store at a time, among all programs.
//
// # Errors
//
// The Err variables, and [InvalidError] and [MissingError], which wrap some of
// them.
//
// # Requirements
//
// ffmpeg 4.4 or later with libx264, and ffprobe, on PATH; for sound, what the
// desktop needs.
package recording
