package browser

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/deskhand/deskhand/internal/jsonlimit"
)

// ringSize is how many console messages and requests of a tab are kept.
const ringSize = 200

// maxRecorded bounds the console messages and requests of all tabs, in bytes. Beyond it the oldest ones
// are dropped.
const maxRecorded = 64 << 20

// record is a [ConsoleMessage] or a [NetworkRequest].
type record interface{ begun() time.Time }

// ring keeps the latest values.
type ring[T record] struct {
	values  []T
	dropped uint64
}

// dropUntil drops the values that have begun by then.
func (r *ring[T]) dropUntil(then time.Time) {
	before := len(r.values)
	r.values = slices.DeleteFunc(r.values, func(v T) bool { return !v.begun().After(then) })
	r.dropped += uint64(before - len(r.values)) //nolint:gosec // not negative
}

// recorded counts bytes that were added to records. Once they are a quarter of maxRecorded, it drops the
// oldest records until all have at most three quarters. The caller has mu.
func (b *tabs) recorded(size int) {
	if b.added += size; b.added <= maxRecorded/4 {
		return
	}
	b.added = 0
	type entry struct {
		begun time.Time
		size  int
	}
	var all []entry
	for _, t := range b.all {
		for _, m := range t.console.values {
			all = append(all, entry{m.begun(), m.size()})
		}
		for _, r := range t.network.values {
			all = append(all, entry{r.begun(), r.size()})
		}
		for _, r := range t.requests {
			all = append(all, entry{r.begun(), r.size()})
		}
	}
	slices.SortFunc(all, func(x, y entry) int { return y.begun.Compare(x.begun) }) // the newest first
	left := maxRecorded * 3 / 4
	for _, e := range all {
		if left -= e.size; left < 0 {
			b.dropUntil(e.begun)
			return
		}
	}
}

// dropUntil drops the records that have begun by then.
func (b *tabs) dropUntil(then time.Time) {
	for _, t := range b.all {
		t.console.dropUntil(then)
		t.network.dropUntil(then)
		before := len(t.requests)
		maps.DeleteFunc(t.requests, func(_ string, r *NetworkRequest) bool { return !r.begun().After(then) })
		t.network.dropped += uint64(before - len(t.requests)) //nolint:gosec // not negative
	}
}

func (r *ring[T]) add(v T) {
	if len(r.values) == ringSize {
		r.values = slices.Delete(r.values, 0, 1)
		r.dropped++
	}
	r.values = append(r.values, v)
}

// ConsoleMessage is a message on a page's console, or an exception. Its texts have at most 1024
// characters.
type ConsoleMessage struct {
	Time  time.Time `json:"time"`
	Level string    `json:"level"` // "log", "warning", "error", "exception" and others
	Text  string    `json:"text"`
	URL   string    `json:"url,omitempty"`
	Line  int       `json:"line,omitempty"` // from 1
}

func (m ConsoleMessage) begun() time.Time { return m.Time }

// size returns the bytes in memory.
func (m ConsoleMessage) size() int {
	return int(unsafe.Sizeof(m)) + len(m.Level) + len(m.Text) + len(m.URL)
}

// NetworkRequest is a request of a page. Its texts have at most 1024 characters.
type NetworkRequest struct {
	Time     time.Time `json:"time"`
	Method   string    `json:"method"`
	URL      string    `json:"url"`
	Type     string    `json:"type,omitempty"` // "Document", "XHR", "Fetch", "Image" and others
	Status   int       `json:"status,omitempty"`
	MimeType string    `json:"mimeType,omitempty"`
	Size     int64     `json:"size,omitempty"` // bytes that were received
	Failed   string    `json:"failed,omitempty"`
	Done     bool      `json:"done"`

	id    string
	start float64 // by the browser's clock
	// Milliseconds is how long the request took.
	Milliseconds int64 `json:"ms,omitempty"`
}

func (r NetworkRequest) begun() time.Time { return r.Time }

// size returns the bytes in memory.
func (r NetworkRequest) size() int {
	return int(unsafe.Sizeof(r)) + len(r.Method) + len(r.URL) + len(r.Type) + len(r.MimeType) + len(r.Failed) + len(r.id)
}

type stackTrace struct {
	CallFrames []struct {
		URL        string `json:"url"`
		LineNumber int    `json:"lineNumber"`
	} `json:"callFrames"`
}

func (s *stackTrace) place(m *ConsoleMessage) {
	if s != nil && len(s.CallFrames) > 0 {
		m.URL, m.Line = limited(s.CallFrames[0].URL), s.CallFrames[0].LineNumber+1
	}
}

// remoteObject is a value of a page.
type remoteObject struct {
	Type                string          `json:"type"`
	Subtype             string          `json:"subtype"`
	Value               json.RawMessage `json:"value"`
	UnserializableValue string          `json:"unserializableValue"`
	Description         string          `json:"description"`
	ObjectID            string          `json:"objectId"`
}

func (o remoteObject) text() string {
	var s string
	switch {
	case o.Type == "string" && json.Unmarshal(o.Value, &s) == nil:
		return s
	case o.Value != nil:
		return string(o.Value)
	case o.UnserializableValue != "":
		return o.UnserializableValue
	case o.Description != "":
		return o.Description
	}
	return o.Type
}

// largeEvent is the size of an event of which no text is taken.
const largeEvent = 1 << 20

// isLarge reports whether no text is taken of an event, because of its size or of its lists.
func isLarge(params []byte) bool {
	return len(params) > largeEvent || jsonlimit.CheckLimits(params, maxAnswerDepth, jsonlimit.MaxBodyValues) != nil
}

func (t *tab) consoleCalled(params json.RawMessage) {
	var v struct {
		Type       string         `json:"type"`
		Args       []remoteObject `json:"args"`
		StackTrace *stackTrace    `json:"stackTrace"`
	}
	m := ConsoleMessage{Time: time.Now(), Level: "log"}
	if isLarge(params) {
		m.Text = fmt.Sprintf("(a message of %d bytes)", len(params))
	} else if json.Unmarshal(params, &v) == nil {
		var texts []string
		for _, arg := range v.Args[:min(len(v.Args), 20)] {
			texts = append(texts, limited(arg.text()))
		}
		m.Level, m.Text = limited(v.Type), limited(strings.Join(texts, " "))
		v.StackTrace.place(&m)
	}
	t.console.add(m)
	t.b.recorded(m.size())
}

// exception is an exception of a script.
type exception struct {
	Text       string        `json:"text"`
	URL        string        `json:"url"`
	LineNumber int           `json:"lineNumber"`
	Exception  *remoteObject `json:"exception"`
	StackTrace *stackTrace   `json:"stackTrace"`
}

func (e exception) message() string {
	if e.Exception != nil {
		return e.Exception.text()
	}
	return e.Text
}

func (t *tab) exceptionThrown(params json.RawMessage) {
	var v struct {
		ExceptionDetails exception `json:"exceptionDetails"`
	}
	if isLarge(params) || json.Unmarshal(params, &v) != nil {
		return
	}
	e := v.ExceptionDetails
	m := ConsoleMessage{Time: time.Now(), Level: "exception", Text: limited(e.message()), URL: limited(e.URL), Line: e.LineNumber + 1}
	e.StackTrace.place(&m)
	t.console.add(m)
	t.b.recorded(m.size())
}

// networkEvent is the part of the events of domain Network that matters here.
type networkEvent struct {
	RequestID string  `json:"requestId"`
	Timestamp float64 `json:"timestamp"`
	Type      string  `json:"type"`
	Request   struct {
		URL    string `json:"url"`
		Method string `json:"method"`
	} `json:"request"`
	Response *struct {
		Status            int     `json:"status"`
		MimeType          string  `json:"mimeType"`
		EncodedDataLength float64 `json:"encodedDataLength"`
	} `json:"response"`
	RedirectResponse *struct {
		Status int `json:"status"`
	} `json:"redirectResponse"`
	EncodedDataLength float64 `json:"encodedDataLength"`
	ErrorText         string  `json:"errorText"`
}

// maxRequests bounds the requests of a tab that are followed until their end. The browser does not
// report the end of each.
const maxRequests = 2000

func (t *tab) requestSent(params json.RawMessage) {
	var e networkEvent
	if json.Unmarshal(params, &e) != nil {
		return
	}
	if r := t.requests[e.RequestID]; r != nil {
		if e.RedirectResponse != nil {
			r.Status = e.RedirectResponse.Status
		}
		t.endRequest(r, e)
	}
	if len(e.RequestID) > maxID {
		return
	}
	if len(t.requests) >= maxRequests {
		t.dropOldestRequest()
	}
	r := &NetworkRequest{
		Time: time.Now(), Method: limited(e.Request.Method), URL: limited(e.Request.URL), Type: limited(e.Type), id: e.RequestID, start: e.Timestamp,
	}
	t.requests[e.RequestID] = r
	t.b.recorded(r.size())
}

func (t *tab) dropOldestRequest() {
	var oldest *NetworkRequest
	for _, r := range t.requests {
		if oldest == nil || r.Time.Before(oldest.Time) {
			oldest = r
		}
	}
	delete(t.requests, oldest.id)
	t.network.dropped++
}

func (t *tab) responseReceived(params json.RawMessage) {
	var e networkEvent
	if json.Unmarshal(params, &e) != nil || e.Response == nil {
		return
	}
	if r := t.requests[e.RequestID]; r != nil {
		r.Type, r.Status, r.MimeType = limited(e.Type), e.Response.Status, limited(e.Response.MimeType)
		t.b.recorded(len(r.Type) + len(r.MimeType))
	}
}

func (t *tab) loadingFinished(params json.RawMessage) { t.requestEnded(params) }

func (t *tab) loadingFailed(params json.RawMessage) { t.requestEnded(params) }

func (t *tab) requestEnded(params json.RawMessage) {
	var e networkEvent
	if json.Unmarshal(params, &e) != nil {
		return
	}
	if r := t.requests[e.RequestID]; r != nil {
		r.Size, r.Failed = int64(e.EncodedDataLength), limited(e.ErrorText)
		t.endRequest(r, e)
		t.b.recorded(len(r.Failed))
	}
}

func (t *tab) endRequest(r *NetworkRequest, e networkEvent) {
	r.Done, r.Milliseconds = true, int64((e.Timestamp-r.start)*1000)
	delete(t.requests, r.id)
	t.network.add(*r)
}
