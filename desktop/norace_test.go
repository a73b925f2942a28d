//go:build !race

package desktop_test

// raceDetector says whether the tests were built with -race.
const raceDetector = false
