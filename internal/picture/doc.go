// Package picture turns the pixels of a screen into PNG, JPEG and lossless WebP files, whole or
// a region, scaled, with a crosshair or the pointer.
//
// # Usage
//
// An [Encoder] belongs to one screen. Its zero value is ready to use. [Encoder.Encode] takes an
// [Image], which has the time of the last change of each band of rows, and [Options]. The
// Encoder keeps compressed strips, and scales and compresses only the strips that have
// changed since, on all cores. The strips of a PNG are deflated independently, the strips of
// a JPEG are restart intervals, and the strips of a WebP have their own prefix codes.
//
// # Lifetime
//
// An Encoder holds only memory: caches of a few views (format, region, size) up to a fixed
// number of bytes, and as many compressors as there are cores. [Encoder.Trim] frees all of it.
// Seq and Bands of the images must not decrease, except after Trim.
//
// # Concurrency
//
// All methods may be called from any goroutine. Concurrent calls for the same file share the
// work: one makes it, and the others wait for it or for the end of their context.
//
// # Errors
//
// Encode returns an error that wraps [ErrInvalid] for an invalid image or invalid options, or
// the error of its context.
//
// # Requirements
//
// None.
package picture
