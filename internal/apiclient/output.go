package apiclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"golang.org/x/term"
)

// print prints an answer or writes it to the file.
func (r *run) print(ctx context.Context, res *http.Response, file *outputFile) error {
	if r.include {
		r.printHead(res)
	}
	if res.StatusCode == http.StatusRequestedRangeNotSatisfiable && file.has() {
		file.forget()
		return fmt.Errorf("the kept part of a broken download does not match the file any more and was removed; run this again")
	}
	if res.StatusCode >= 300 && res.StatusCode != http.StatusNotModified {
		return r.printProblem(res)
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case res.StatusCode == http.StatusNoContent || res.StatusCode == http.StatusNotModified || res.Request.Method == http.MethodHead:
		return nil
	case kind == eventStream && !r.raw:
		return r.printEvents(res.Body, file)
	case file != nil:
		return r.save(ctx, res, file)
	case isJSON(kind) && !r.raw:
		return r.printJSON(res.Body)
	}
	return r.printBytes(res, kind)
}

// printHead prints the status and the headers.
func (r *run) printHead(res *http.Response) {
	fmt.Fprintf(r.Stdout, "%s %s\n", res.Proto, res.Status)
	for _, name := range sortedKeys(res.Header) {
		for _, value := range res.Header[name] {
			fmt.Fprintf(r.Stdout, "%s: %s\n", name, value)
		}
	}
	fmt.Fprintln(r.Stdout)
}

func (r *run) printProblem(res *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(res.Body, mostProblem))
	if err != nil {
		return err
	}
	if r.raw || r.include {
		if _, err := r.Stdout.Write(text); err != nil {
			return err
		}
		if !r.raw && !bytes.HasSuffix(text, []byte("\n")) {
			fmt.Fprintln(r.Stdout)
		}
	}
	return problemOf(res, text)
}

// printJSON prints JSON, indented on a terminal and on one line elsewhere.
func (r *run) printJSON(body io.Reader) error {
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	if p := lateProblem(text); p != nil {
		return p
	}
	var b bytes.Buffer
	if r.pretty || isTerminal(r.Stdout) {
		err = json.Indent(&b, text, "", "  ")
	} else {
		err = json.Compact(&b, text)
	}
	if err != nil {
		return fmt.Errorf("the answer is not JSON: %w", err)
	}
	if r.decode {
		data, err := decodedData(text)
		if err == nil {
			_, err = r.Stdout.Write(data)
		}
		return err
	}
	// Programs get the characters that act on terminals.
	out := bytes.TrimRight(b.Bytes(), "\n")
	if isTerminal(r.Stdout) {
		out = []byte(printable(string(out)))
	}
	_, err = r.Stdout.Write(append(out, '\n'))
	return err
}

// printBytes prints an answer that is neither JSON nor a stream of events. It
// refuses to print binary data on a terminal.
func (r *run) printBytes(res *http.Response, kind string) error {
	body := bufio.NewReader(res.Body)
	if r.output != "-" && isTerminal(r.Stdout) {
		begin, err := body.Peek(512)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if !isText(kind, begin) {
			return usagef("", "the answer is %s, which would garble the terminal; write it to a file with --output FILE", kind)
		}
		_, err = io.Copy(r.Stdout, body)
		return err
	}
	_, err := io.Copy(r.Stdout, body)
	return err
}

// isText reports whether data that begins so can be shown on a terminal.
func isText(kind string, begin []byte) bool {
	if kind == octetStream || kind == "" {
		kind = http.DetectContentType(begin)
	}
	return strings.HasPrefix(kind, "text/") || isJSON(kind) || len(begin) == 0
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
