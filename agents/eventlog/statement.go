package eventlog

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// statement is some SQL that both databases understand, with $1, $2... for its
// arguments: int64, string, []byte, *int or nil.
type statement struct {
	sql  string
	args []any
}

// The kinds of arguments in a redo log.
const (
	argNull = iota
	argInt
	argText
	argBytes
	argNoBytes // a []byte that is nil
)

// encodeStatements appends statements to b as decodeStatements reads them.
// Numbers are varints.
func encodeStatements(b []byte, all []statement) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for i := range all {
		b = appendBytes(b, all[i].sql)
		b = binary.AppendUvarint(b, uint64(len(all[i].args)))
		for _, arg := range all[i].args {
			b = appendArg(b, arg)
		}
	}
	return b
}

func appendBytes[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func appendArg(b []byte, arg any) []byte {
	switch v := arg.(type) {
	case int64:
		return binary.AppendVarint(append(b, argInt), v)
	case *int:
		if v != nil {
			return binary.AppendVarint(append(b, argInt), int64(*v))
		}
	case string:
		return appendBytes(append(b, argText), v)
	case []byte:
		if v == nil {
			return append(b, argNoBytes)
		}
		return appendBytes(append(b, argBytes), v)
	case nil:
	default:
		panic(fmt.Sprintf("an argument of a statement is a %T", arg)) // would be lost
	}
	return append(b, argNull)
}

// statementsSize is at least what encodeStatements adds.
func statementsSize(all []statement) int {
	n := binary.MaxVarintLen64
	for i := range all {
		n += len(all[i].sql) + 2*binary.MaxVarintLen64
		for _, arg := range all[i].args {
			n += 1 + binary.MaxVarintLen64
			switch v := arg.(type) {
			case string:
				n += len(v)
			case []byte:
				n += len(v)
			}
		}
	}
	return n
}

var errNoStatements = errors.New("these are no statements")

// decodeStatements reads what encodeStatements wrote. What they have is b's.
func decodeStatements(b []byte) ([]statement, error) {
	d := &decoder{b: b}
	all := make([]statement, d.count())
	for i := range all {
		all[i].sql = string(d.bytes())
		all[i].args = make([]any, d.count())
		for k := range all[i].args {
			all[i].args[k] = d.arg()
		}
	}
	if d.bad || len(d.b) > 0 {
		return nil, errNoStatements
	}
	return all, nil
}

// decoder reads from b, until something is wrong.
type decoder struct {
	b   []byte
	bad bool
}

// fail returns nothing any more.
func (d *decoder) fail() { d.b, d.bad = nil, true }

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count is a number of things that take a byte each, at least.
func (d *decoder) count() int {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) bytes() []byte {
	n := d.count()
	text := d.b[:n:n]
	d.b = d.b[n:]
	return text
}

func (d *decoder) arg() any {
	if len(d.b) == 0 {
		d.fail()
		return nil
	}
	kind := d.b[0]
	d.b = d.b[1:]
	switch kind {
	case argNull:
		return nil
	case argInt:
		v, n := binary.Varint(d.b)
		if n <= 0 {
			d.fail()
			return nil
		}
		d.b = d.b[n:]
		return v
	case argText:
		return string(d.bytes())
	case argBytes:
		return d.bytes()
	case argNoBytes:
		return []byte(nil)
	}
	d.fail()
	return nil
}
