// Package picture turns pixels of a screen into PNG, JPEG and lossless WebP
// files: whole or a region, scaled, with a crosshair or the pointer drawn in.
//
// # Usage
//
// An Encoder belongs to one screen. Its zero value is ready. Encode takes an
// Image, which says when each band of its rows last changed, and Options.
// Screens change little between two pictures, so the Encoder keeps the
// compressed strips that it made: only strips whose rows changed since are
// scaled and compressed again, on all cores. A PNG is made of strips that are
// deflated independently, a JPEG of strips that are restart intervals, a WebP
// of strips with their own prefix codes.
//
// # Lifetime
//
// An Encoder holds memory only: caches of a few views (format, region, size)
// up to a fixed number of bytes, and as many compressors as there are cores.
// Trim lets go of all of it. Seq and Bands of the images of one Encoder must
// come from one clock that never goes back: call Trim when it restarts.
//
// # Concurrency
//
// Every method may be called from any goroutine. Calls which want the same
// file share the work: one makes it and the others wait for it, until their
// own context ends.
//
// # Errors
//
// ErrInvalid for an image or options that make no sense; the error of the
// context when it ended first.
package picture
