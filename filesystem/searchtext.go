package filesystem

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

const (
	// partSize bounds the part of a file that is searched in one step, and so the cost of
	// one match of a regular expression.
	partSize = 64 << 10
	// binarySize is the part of a file that is searched for a zero byte.
	binarySize = 8 << 10
	// maxInstructions bounds the size of a regular expression, and so the steps to match
	// one byte.
	maxInstructions = 5000
	// maxLineText bounds Line.Text in bytes.
	maxLineText = 500
)

// finder finds a text or a regular expression.
type finder struct {
	text   []byte         // every matching line contains it
	fold   bool           // text is in lower case and stands for both cases
	regexp *regexp.Regexp // nil to find text alone
}

// newFinder returns nil if the content of files does not matter.
func newFinder(o SearchOptions) (*finder, error) {
	switch {
	case o.Text == "" && o.Regexp == "":
		return nil, nil
	case o.Text != "" && o.Regexp != "":
		return nil, badPattern("regexp", "set beside text")
	case len(o.Text) > maxPattern:
		return nil, badPattern("text", "longer than 4096 bytes")
	case len(o.Regexp) > maxPattern:
		return nil, badPattern("regexp", "longer than 4096 bytes")
	case strings.Contains(o.Text, "\n"):
		return nil, badPattern("text", "holds a line break, and lines are searched one by one")
	case o.Regexp != "":
		return regexpFinder(o.Regexp, o.IgnoreCase)
	case o.IgnoreCase:
		return regexpFinder(regexp.QuoteMeta(o.Text), true)
	}
	return &finder{text: []byte(o.Text)}, nil
}

func regexpFinder(expression string, ignoreCase bool) (*finder, error) {
	if _, err := syntax.Parse(expression, syntax.Perl); err != nil {
		problem := err.Error()
		if e := (*syntax.Error)(nil); errors.As(err, &e) {
			problem = string(e.Code) + ": " + printable(e.Expr)
		}
		return nil, badPattern("regexp", problem)
	}
	if ignoreCase {
		expression = "(?i)" + expression
	}
	expression = "(?m)" + expression
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, badPattern("regexp", err.Error())
	}
	parsed = parsed.Simplify()
	program, err := syntax.Compile(parsed)
	if err != nil || len(program.Inst) > maxInstructions {
		return nil, badPattern("regexp", "too complex")
	}
	f := &finder{}
	if f.regexp, err = regexp.Compile(expression); err != nil {
		return nil, badPattern("regexp", err.Error())
	}
	f.text, f.fold = needed(parsed)
	return f, nil
}

// needed returns a text that is in all matches of an expression. It can be empty.
func needed(e *syntax.Regexp) (text []byte, fold bool) {
	switch e.Op {
	case syntax.OpLiteral:
		return neededLiteral(e.Rune, e.Flags&syntax.FoldCase != 0)
	case syntax.OpCapture, syntax.OpPlus:
		return needed(e.Sub[0])
	case syntax.OpConcat:
		for _, sub := range e.Sub {
			if t, f := needed(sub); len(t) > len(text) {
				text, fold = t, f
			}
		}
	default:
	}
	return text, fold
}

// neededLiteral returns the text of a literal. With fold it is the longest part whose letters
// are ASCII in both cases. k and s are not: they also stand for the Kelvin sign and the long s.
func neededLiteral(runes []rune, fold bool) ([]byte, bool) {
	if !fold {
		return []byte(string(runes)), false
	}
	var longest, text []byte
	for _, r := range runes {
		r = unicode.ToLower(r)
		if r >= utf8.RuneSelf || r == 'k' || r == 's' {
			text = nil
			continue
		}
		if text = append(text, byte(r)); len(text) > len(longest) {
			longest = text
		}
	}
	return longest, true
}

// find returns where the first match in some lines begins, or -1. If fold is set, lower has
// the lines in lower case.
//
// A regular expression is matched line by line, so the time grows with the length of the lines
// alone. A match over all lines could go far beyond its first line, again for each line.
func (f *finder) find(b, lower []byte) int {
	in := b
	if f.fold {
		in = lower
	}
	for from := 0; from < len(b); {
		at := bytes.Index(in[from:], f.text)
		switch {
		case at < 0:
			return -1
		case f.regexp == nil:
			return from + at
		}
		begin, end := lineAround(b, from+at)
		if found := f.regexp.FindIndex(bytes.TrimSuffix(b[begin:end], []byte("\r"))); found != nil {
			return begin + found[0]
		}
		from = end + 1
	}
	return -1
}

// lineAround returns where the line of a position begins and ends, without the line break.
func lineAround(b []byte, at int) (begin, end int) {
	begin = bytes.LastIndexByte(b[:at], '\n') + 1
	if end = bytes.IndexByte(b[at:], '\n'); end < 0 {
		return begin, len(b)
	}
	return begin, at + end
}

// lowered writes b with ASCII letters in lower case.
func lowered(to, b []byte) []byte {
	to = to[:len(b)]
	for i, c := range b {
		to[i] = lowerASCII[c]
	}
	return to
}

var lowerASCII = func() (table [256]byte) {
	for i := range table {
		table[i] = byte(i)
		if 'A' <= i && i <= 'Z' {
			table[i] += 'a' - 'A'
		}
	}
	return table
}()

// scan is the search of one file.
type scan struct {
	search    *search
	name      string // in its directory
	most      int    // limit of lines
	mostBytes int    // limit of held
	lines     []Line
	held      int // bytes of the text of lines
	bytes     int64
	outcome   outcome
	err       error // why the search ends

	number int  // of the line in which the next part begins
	begun  int  // characters of that line in earlier parts
	found  bool // lines has that line
}

// outcome is the result of a scan.
type outcome int

const (
	scanned outcome = iota
	scannedBinary
	scannedTooLarge
	scannedUnreadable
	scannedGone // removed, no longer a regular file, or not searched
)

// run searches the file for at most a number of lines. It ends after the line with which their
// text has more than mostBytes.
func (c *scan) run(d folder, most, mostBytes int) {
	if c.err = c.search.check(); c.err != nil {
		c.outcome = scannedGone
		return
	}
	file, err := d.open(c.name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		c.outcome = scannedUnreadable
		if err == unix.ENOENT {
			c.outcome = scannedGone
		}
		return
	}
	defer file.Close()
	n, err := nodeOfFile(file)
	switch {
	case err != nil || !n.isRegular() || c.search.inSystem:
		c.outcome = scannedGone
		return
	case n.size > c.search.options.MaxFileSize:
		c.outcome = scannedTooLarge
		return
	}
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	c.most, c.mostBytes, c.number = most, mostBytes, 1
	c.outcome, c.err = c.read(file, buffer[:partSize], buffer[partSize:])
}

// read searches a file part by part. Each part except the last ends with a line, unless a line
// is longer than a part.
func (c *scan) read(file io.Reader, buffer, lower []byte) (outcome, error) {
	held := 0 // bytes of a line that has not ended
	for {
		n, last, broken := readPart(file, buffer[held:])
		part := buffer[:held+n]
		if c.bytes == 0 && bytes.IndexByte(part[:min(n, binarySize)], 0) >= 0 {
			return scannedBinary, nil
		}
		c.bytes += int64(n)
		if c.search.budget.Add(-int64(n)) < 0 {
			return scanned, limitError(LimitBytes)
		}
		whole := len(part)
		if end := bytes.LastIndexByte(part, '\n'); end >= 0 && !last {
			whole = end + 1
		}
		enough := c.part(part[:whole], lower)
		switch {
		case broken:
			return scannedUnreadable, nil
		case last || enough:
			return scanned, nil
		case c.bytes > c.search.options.MaxFileSize: // the file grows
			return scannedTooLarge, nil
		}
		if err := c.search.check(); err != nil {
			return scanned, err
		}
		held = copy(buffer, part[whole:])
	}
}

// readPart fills a buffer, unless the file ends or cannot be read.
func readPart(file io.Reader, b []byte) (n int, last, broken bool) {
	n, err := io.ReadFull(file, b)
	last = err != nil
	return n, last, last && err != io.EOF && err != io.ErrUnexpectedEOF
}

// part searches some lines. It reports whether enough were found.
func (c *scan) part(b, lower []byte) bool {
	finder := c.search.finder
	if finder.fold {
		lower = lowered(lower, b)
	} else {
		lower = b
	}
	counted := 0 // line breaks before this offset were counted
	for from := 0; from < len(b); {
		at := finder.find(b[from:], lower[from:])
		if at < 0 {
			break
		}
		begin, end := lineAround(b, from+at)
		c.number += bytes.Count(b[counted:begin], []byte("\n"))
		if begin > 0 {
			c.begun, c.found = 0, false
		}
		if !c.found {
			l := c.line(b[begin:end], from+at-begin)
			c.lines = append(c.lines, l)
			c.held += len(l.Text)
			c.found = true
		}
		if len(c.lines) >= c.most || c.held > c.mostBytes {
			return true
		}
		counted, from = begin, end+1
	}
	rest := b[counted:]
	if i := bytes.LastIndexByte(rest, '\n'); i >= 0 {
		c.number += bytes.Count(rest, []byte("\n"))
		c.begun, c.found = 0, false
		rest = rest[i+1:]
	}
	c.begun += utf8.RuneCount(rest)
	return false
}

// line describes a line, or a part of a line, with a match at an offset.
func (c *scan) line(b []byte, at int) Line {
	l := Line{Number: c.number, Column: c.begun + utf8.RuneCount(b[:at]) + 1, Cut: c.begun > 0}
	b = bytes.TrimSuffix(b, []byte("\r"))
	if len(b) > maxLineText {
		begin := max(0, min(at-maxLineText/4, len(b)-maxLineText))
		for begin > 0 && begin < at && !utf8.RuneStart(b[begin]) {
			begin++
		}
		end := min(begin+maxLineText, len(b))
		for end < len(b) && end > begin && !utf8.RuneStart(b[end]) {
			end--
		}
		b, l.Cut = b[begin:end], true
	}
	l.Invalid = !utf8.Valid(b)
	l.Text = strings.ToValidUTF8(string(b), string(utf8.RuneError))
	return l
}
