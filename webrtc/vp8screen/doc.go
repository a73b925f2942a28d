// Package vp8screen encodes the picture of a computer screen as VP8 video.
//
// It is made for what screens show: text, flat areas, long stretches without
// any change, and regions that scroll. What did not change costs nothing, what
// scrolled is copied by a vector, and what changed is coded coarsely at first
// when the bit rate demands it and made near-lossless once it has been quiet.
package vp8screen
