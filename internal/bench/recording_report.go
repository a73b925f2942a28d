package main

import (
	"fmt"
	"io"

	"github.com/deskhand/deskhand/internal/benchkit"
)

// Goals of recordings that no scene has of its own.
const (
	mostLost = 0.005
	mostStop = 500 // milliseconds
)

// write prints the recordings as a table in Markdown.
func (r *recordings) write(w io.Writer, alone bool) {
	fmt.Fprintf(w, "\nRecorded at up to %d pictures a second for %v each, and while moments are looked at, for which everything stands still. Processor time is what all processes of the server use more than without the recording; SSIM is that of %d moments.\n\n",
		recordedRate, r.length, probes)
	fmt.Fprintf(w, "| recording %dx%d | deskhand | reference | goal | |\n|---|---|---|---|---|\n", screenWidth, screenHeight)
	for _, s := range r.scenes {
		ours, theirs := s.of[0], s.of[1]
		line := func(what string, tell func(recordedBy) string, goal string, met bool) {
			reference := ""
			if !alone {
				reference = tell(theirs)
			}
			verdict := ""
			if goal != "" {
				verdict = benchkit.Verdict(met)
			}
			fmt.Fprintf(w, "| %s: %s | %s | %s | %s | %s |\n", s.title, what, tell(ours), reference, goal, verdict)
		}
		core := func(r recordedBy) string { return fmt.Sprintf("%.1f %% of a core", 100*r.processor) }
		switch {
		case s.processor > 0:
			line("processor", core, fmt.Sprintf("at most %g %%", 100*s.processor), ours.processor <= s.processor)
		case s.ratio > 0 && !alone:
			line("processor", core, fmt.Sprintf("at most %gx", s.ratio), ours.processor <= s.ratio*theirs.processor)
		default:
			line("processor", core, "", true)
		}
		size := func(r recordedBy) string { return fmt.Sprintf("%.2f MB, SSIM %.4f", float64(r.bytes)/1e6, r.ssim) }
		if s.size > 0 && !alone {
			goal := fmt.Sprintf("at most %gx", s.size)
			if s.ssim > 0 {
				goal += fmt.Sprintf(", SSIM %g", s.ssim)
			}
			line("bytes", size, goal, float64(ours.bytes) <= s.size*float64(theirs.bytes) && ours.ssim >= s.ssim)
		} else {
			line("bytes", size, "", true)
		}
		line("pictures lost", func(r recordedBy) string {
			if r.lost < 0 {
				return "not told"
			}
			return fmt.Sprintf("%.2f %%", 100*r.lost)
		}, fmt.Sprintf("below %g %%", 100*mostLost), ours.lost >= 0 && ours.lost < mostLost)
		line("from stop to the file's first bytes", func(r recordedBy) string {
			return fmt.Sprintf("%s, of %.1f s", benchkit.Milliseconds(r.stop), r.seconds)
		}, fmt.Sprintf("below %d ms", mostStop), ours.stop.Milliseconds() < mostStop)
	}
}
