// Package recording records desktops as MP4 files, with timelines of what happened.
//
// # Usage
//
// Open returns a [Store], which is a directory with a folder for each recording. Store.Start
// starts a [Recording] of a desktop, Recording.Stop ends it, and Store.Video opens its file.
// The folder has the video, a manifest, a timeline (package timeline) and pictures. See the
// example.
//
// # Cost
//
// A picture is encoded when the screen has changed, at most Config.FrameRate times a second.
// Only the part that has changed is captured and converted. While the screen does not change,
// a picture of a few bytes is encoded every two seconds.
//
// # Crashes
//
// A video is written in fragments of half a second and can be played at any time, also after
// ffmpeg, this program, the X server or the machine was killed. A crash of the machine costs
// the last seconds. If ffmpeg ends, the recording ends with [StatusRecovered]. If the X server
// is restarted, the recording continues. Open repairs recordings that were active when this
// program ended.
//
// A recording is [StatusCompleted] only if its first picture can be decoded and the file has
// every byte that was written. Open checks the sizes of files again.
//
// After the end, the file is replaced by one with the same pictures, its index at the start,
// and chapters. Programs that read the old file can continue.
//
// # Lifetime
//
// A Recording is active until [Recording.Stop], the end of its desktop or store, or a limit of
// its Config. Store.Close stops and completes all active recordings.
//
// # Concurrency
//
// All methods may be called from any goroutine. Several recordings can be active at the same
// time, also of one desktop. One store at a time can use a directory, among all programs.
//
// # Errors
//
// Methods return or wrap the Err variables. [InvalidError] wraps [ErrInvalid], and
// [MissingError] wraps [ErrMissingPrograms].
//
// # Requirements
//
// ffmpeg 4.4 or later with libx264, and ffprobe, on PATH. Sound has the requirements of
// package desktop for it.
package recording
