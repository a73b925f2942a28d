package accessibility

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/godbus/dbus/v5"
)

// This file has the few forms of messages that an outline needs thousands of. godbus encodes
// and decodes any form, by reflection, which takes ten times as long.

// mostDBusName is the length of the longest name of a connection or an error (D-Bus specification,
// "Valid Names").
const mostDBusName = 255

// header is the header of a reply or an error.
type header struct {
	signature string // of the body
	serial    uint32 // of the call
	failure   string // the name of the error; empty: a reply
	body      []byte
}

// parseHeader reads the header of a message (D-Bus specification, "Message Format"). It reports
// whether all fields have types of the specification.
func parseHeader(text []byte, order binary.ByteOrder) (h header, ok bool) {
	const ofError, ofSerial, ofSignature = 4, 5, 8
	if len(text) < 16 || text[0] != 'l' && text[0] != 'B' || uint64(order.Uint32(text[12:])) > uint64(len(text)-16) {
		return h, false
	}
	end := 16 + int(order.Uint32(text[12:]))
	for i := 16; i < end; i = (i + 7) &^ 7 {
		field := text[i:end]
		if len(field) < 4 || field[1] != 1 || field[3] != 0 { // its number, and its signature
			return h, false
		}
		if field[2] != 'g' && len(field) < 8 {
			return h, false
		}
		switch field[2] {
		case 'u':
			if field[0] == ofSerial {
				h.serial = order.Uint32(field[4:])
			}
			i += 8
		case 's', 'o':
			n := order.Uint32(field[4:])
			if uint64(n) > uint64(len(field)-8) {
				return h, false
			}
			if field[0] == ofError {
				h.failure = string(field[8 : 8+min(n, mostDBusName)])
			}
			i += 8 + int(n) + 1
		case 'g':
			s, ok := shortString(field[4:])
			if !ok || field[0] != ofSignature {
				return h, false
			}
			h.signature = s
			i += 4 + 1 + len(s) + 1
		default:
			return h, false
		}
	}
	h.body = text[min((end+7)&^7, len(text)):]
	return h, true
}

// form returns the signature of the value in a body. A variant stands for the value in it.
func (h header) form() string {
	signature := h.signature
	if signature == "v" {
		signature, _ = shortString(h.body)
	}
	return signature
}

// shorten makes the text in a body whose end is missing end with the body.
func (h header) shorten(order binary.ByteOrder) {
	text := h.body
	if h.signature == "v" {
		const variant = 4 // the signature of the text
		text = text[min(variant, len(text)):]
	}
	if most := len(text) - 4 - 1; most >= 0 && int64(order.Uint32(text)) > int64(most) {
		order.PutUint32(text, uint32(most))
		text[len(text)-1] = 0
	}
}

// shortString returns the signature at the beginning of a text.
func shortString(text []byte) (string, bool) {
	if len(text) < 2 || len(text) < int(text[0])+2 {
		return "", false
	}
	return string(text[1 : 1+int(text[0])]), true
}

// appendCall appends a call of a method to a buffer of calls.
func appendCall(b []byte, serial uint32, r *request) []byte {
	const call, noAutoStart, version = 1, 2, 1
	start := len(b)
	signature, body := encodeArgs(r.args)
	b = append(b, 'l', call, noAutoStart, version)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	b = binary.LittleEndian.AppendUint32(b, serial)
	b = append(b, 0, 0, 0, 0) // the length of the fields
	i := strings.LastIndexByte(r.method, '.')
	text := func(number, kind byte, s string) {
		b = align(b, start, 8)
		b = appendString(append(b, number, 1, kind, 0), start, s)
	}
	text(1, 'o', string(r.to.Path))
	text(6, 's', r.to.Name)
	text(2, 's', r.method[:i])
	text(3, 's', r.method[i+1:])
	if signature != "" {
		b = align(b, start, 8)
		b = append(append(append(b, 8, 1, 'g', 0, byte(len(signature))), signature...), 0)
	}
	binary.LittleEndian.PutUint32(b[start+12:], uint32(len(b)-start-16))
	return append(align(b, start, 8), body...)
}

// align appends zeros until the distance from start is a multiple of n.
func align(b []byte, start, n int) []byte {
	for (len(b)-start)%n != 0 {
		b = append(b, 0)
	}
	return b
}

func appendString(b []byte, start int, s string) []byte {
	b = binary.LittleEndian.AppendUint32(align(b, start, 4), uint32(len(s)))
	return append(append(b, s...), 0)
}

// encodeArgs returns arguments as a body, and its signature. A float64 is sent as a variant.
func encodeArgs(args []any) (signature string, body []byte) {
	for _, arg := range args {
		switch v := arg.(type) {
		case string:
			signature, body = signature+"s", appendString(body, 0, v)
		case int32:
			signature, body = signature+"i", binary.LittleEndian.AppendUint32(align(body, 0, 4), uint32(v))
		case uint32:
			signature, body = signature+"u", binary.LittleEndian.AppendUint32(align(body, 0, 4), v)
		case float64:
			signature, body = signature+"v", append(body, 1, 'd', 0)
			body = binary.LittleEndian.AppendUint64(align(body, 0, 8), math.Float64bits(v))
		default:
			panic(fmt.Sprintf("accessibility: argument of type %T", arg))
		}
	}
	return signature, body
}

// values reads the values of a body. It fails at the end of the body, and all reads after that
// fail, too.
type values struct {
	text   []byte
	order  binary.ByteOrder
	at     int
	failed bool
}

// next returns the next n bytes after a multiple of align.
func (v *values) next(n, align int) []byte {
	v.at = (v.at + align - 1) &^ (align - 1)
	if v.failed || n < 0 || v.at > len(v.text) || n > len(v.text)-v.at {
		v.failed = true
		return make([]byte, 8)
	}
	b := v.text[v.at : v.at+n]
	v.at += n
	return b
}

func (v *values) uint32() uint32 { return v.order.Uint32(v.next(4, 4)) }

// bytes returns a string as a part of the body.
func (v *values) bytes() []byte {
	n := v.uint32()
	if n > maxText {
		v.failed = true
		return nil
	}
	s := v.next(int(n), 1)
	v.next(1, 1)
	if v.failed {
		return nil
	}
	return s
}

func (v *values) string() string { return string(v.bytes()) }

// address returns the zero address for one that is too long.
func (v *values) address() address {
	v.next(0, 8)
	name, path := v.bytes(), v.bytes()
	if v.failed || len(name) > mostDBusName || len(path) > mostPath {
		return address{}
	}
	return address{string(name), dbus.ObjectPath(path)}
}

// array calls read for each element of an array whose elements are aligned.
func (v *values) array(align int, read func()) {
	end := int(v.uint32())
	v.next(0, align)
	end += v.at
	for v.at < end && !v.failed {
		read()
	}
}

// errForm is returned for a reply whose types are not the expected ones.
var errForm = errors.New("the reply has unexpected types")

// formOf returns the signature of the values that a variable can hold.
func formOf(into any) string {
	switch into.(type) {
	case *bool:
		return "b"
	case *int32:
		return "i"
	case *uint32:
		return "u"
	case *float64:
		return "d"
	case *string:
		return "s"
	case *extents:
		return "(iiii)"
	case *address:
		return "(so)"
	case *[]uint32:
		return "au"
	case *[]address:
		return "a(so)"
	case *[]action:
		return "a(sss)"
	}
	panic(fmt.Sprintf("accessibility: answer of type %T", into))
}

// decode stores the first value of a body. Programs may answer with any types. A variant
// stands for the value in it.
func (h header) decode(order binary.ByteOrder, into any) error {
	v := &values{text: h.body, order: order}
	signature := h.form()
	if h.signature == "v" {
		v.at = min(2+len(signature), len(h.body))
	}
	if signature != formOf(into) {
		return errForm
	}
	switch p := into.(type) {
	case *bool:
		*p = v.uint32() != 0
	case *int32:
		*p = int32(v.uint32())
	case *uint32:
		*p = v.uint32()
	case *float64:
		*p = math.Float64frombits(order.Uint64(v.next(8, 8)))
	case *string:
		*p = v.string()
	case *extents:
		v.next(0, 8)
		*p = extents{int32(v.uint32()), int32(v.uint32()), int32(v.uint32()), int32(v.uint32())}
	case *address:
		*p = v.address()
	case *[]uint32:
		v.array(4, func() { *p = append(*p, v.uint32()) })
	case *[]address:
		v.array(8, func() { *p = append(*p, v.address()) })
	case *[]action:
		v.array(8, func() {
			v.next(0, 8)
			*p = append(*p, action{v.string(), v.string(), v.string()})
		})
	}
	if v.failed {
		reflect.ValueOf(into).Elem().SetZero() // what was read before the failure takes memory
		return errForm
	}
	return nil
}
