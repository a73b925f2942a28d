// Package recording records desktops as MP4 files, with a timeline of what happened.
//
// # Usage
//
// Open returns a [Store]: a directory with a folder for each recording. Store.Start
// starts a [Recording] of a desktop, Recording.Stop ends it, and Store.Video opens its
// file. See the example. The folder has the video, a manifest, a timeline of the actions
// and events on the desktop, and pictures.
//
// # Cost
//
// A picture is recorded when the screen changes, at most Config.FrameRate times a second.
// Only what has changed is fetched and converted. While the screen does not change, a
// picture of a few bytes is recorded every two seconds.
//
// # Crashes
//
// A video is written in fragments of half a second. It is playable at any time, also
// after ffmpeg, this program, the X server or the machine was killed. A crash of the
// machine costs the last seconds. If ffmpeg ends, the recording ends with
// [StatusRecovered]. If the X server is restarted, the recording continues. Open repairs
// recordings that were running when this program ended.
//
// A recording is [StatusCompleted] only if its first picture can be decoded and the file
// has every byte that was written. Open checks the sizes of files again.
//
// After the end, the file is replaced by one with the same pictures, which has its index
// at the start and chapters. A program that reads the old file is not disturbed.
//
// # Lifetime
//
// A Recording runs until [Recording.Stop], the end of its desktop or store, or a limit of
// its Config. Store.Close stops and completes all recordings that run.
//
// # Concurrency
//
// All methods may be called from any goroutine. Several recordings can run at the same
// time, also of one desktop. One store at a time can use a directory, among all programs.
//
// # Errors
//
// The Err variables. [InvalidError] and [MissingError] wrap some of them.
//
// # Requirements
//
// ffmpeg 4.4 or later with libx264, and ffprobe, on PATH. Sound needs what the desktop
// needs for it.
package recording
