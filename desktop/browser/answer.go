package browser

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/deskhand/deskhand/internal/jsonlimit"
)

// Any program may be the browser, so its answers are bounded before they are decoded.
const (
	// maxAnswer bounds an answer that this package decodes, in bytes, unless answerSizes or the caller
	// says otherwise.
	maxAnswer = 1 << 20

	// maxAnswerDepth is how deep Chromium nests its answers.
	maxAnswerDepth = 300

	// maxFault bounds an error, in bytes.
	maxFault = 64 << 10

	// escaped is how many bytes a character that is not ASCII takes in an answer of Chromium.
	escaped = 6
)

// answerSizes bounds the answers that may be larger than maxAnswer.
var answerSizes = map[string]int{
	"Page.captureScreenshot": maxMessage,
	"Page.printToPDF":        maxMessage,

	// They have URLs, of up to 2 MiB each.
	"Page.getFrameTree":         16 << 20,
	"Page.getNavigationHistory": maxMessage,
	"Target.getTargets":         16 << 20,

	"Storage.getCookies": 16 << 20,
}

// answerSize returns the largest answer to a command, in bytes.
func answerSize(method string) int { return cmp.Or(answerSizes[method], maxAnswer) }

// decode decodes the result of an answer, unless result is nil. It returns a *Fault if the answer
// is an error, and an error that wraps ErrTooLarge if the result has more than most bytes or
// jsonlimit.MaxValues elements and members.
func (m message) decode(result any, most int) error {
	switch {
	case m.fault != nil:
		f := faultOf(m.fault)
		if *f == *errTooLarge {
			return fmt.Errorf("%w: %w", ErrTooLarge, f)
		}
		return f
	case result == nil:
		return nil
	case len(m.result) > most:
		return fmt.Errorf("%w: the browser's answer has more than %d bytes", ErrTooLarge, most)
	}
	if err := checkValues(m.result); err != nil {
		return err
	}
	return json.Unmarshal(m.result, result)
}

func checkValues(text []byte) error {
	if err := jsonlimit.CheckLimits(text, maxAnswerDepth, jsonlimit.MaxValues); err != nil {
		return fmt.Errorf("%w: the browser's answer %w", ErrTooLarge, err)
	}
	return nil
}

func faultOf(text []byte) *Fault {
	f := new(Fault)
	if len(text) > maxFault || json.Unmarshal(text, f) != nil {
		f.Message = "an error that cannot be read"
	}
	f.Message, f.Data = limited(f.Message), limited(f.Data)
	return f
}

var errLongID = errors.New("the browser's answer has an id that is too long")
