package accessibility

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
)

// TestAppendCall checks that godbus reads calls as they are meant.
func TestAppendCall(t *testing.T) {
	var text []byte
	requests := []*request{
		{to: address{":1.2", "/a/b"}, method: "org.example.Iface.Method"},
		{to: address{":1.23", "/a"}, method: "org.example.Other", args: []any{"Grüße", int32(-3), uint32(1<<32 - 1), "", 2.5}},
		{to: rootOf("org.a11y.atspi.Registry"), method: ifaceComponent + ".GetExtents", args: []any{uint32(0)}},
	}
	for i, r := range requests {
		text = appendCall(text, uint32(firstSerial+i), r)
	}
	stream := bytes.NewReader(text)
	for i, r := range requests {
		m, err := dbus.DecodeMessage(stream)
		if err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		field := func(f dbus.HeaderField) any { return m.Headers[f].Value() }
		dot := strings.LastIndexByte(r.method, '.')
		iface, member := r.method[:dot], r.method[dot+1:]
		if m.Serial() != uint32(firstSerial+i) || m.Type != dbus.TypeMethodCall || m.Flags != dbus.FlagNoAutoStart ||
			field(dbus.FieldPath) != r.to.Path || field(dbus.FieldDestination) != r.to.Name || field(dbus.FieldInterface) != iface || field(dbus.FieldMember) != member {
			t.Errorf("call %d: %v", i, m)
		}
		want := append([]any(nil), r.args...)
		for i, arg := range want {
			if f, ok := arg.(float64); ok {
				want[i] = dbus.MakeVariant(f)
			}
		}
		if len(want) != len(m.Body) || len(want) > 0 && !reflect.DeepEqual(want, m.Body) {
			t.Errorf("call %d: arguments %v, want %v", i, m.Body, want)
		}
	}
	if stream.Len() > 0 {
		t.Errorf("%d bytes after the calls", stream.Len())
	}
}

// answers are variables of all forms that answers can have, and values for them.
func answers() map[any]any {
	return map[any]any{
		new(bool): true, new(int32): int32(-7), new(uint32): uint32(1 << 31), new(string): "Grüße", new(float64): math.Pi,
		new(extents): extents{-1, 2, 3, 4}, new(address): address{":1.2", "/a"}, new([]uint32): []uint32{1, 2},
		new([]address): []address{{":1.2", "/a"}, {":1.23456", "/"}}, new([]action): []action{{"a", "", "bcd"}, {"", "x", ""}},
	}
}

// TestDecode checks that answers of godbus are read as they are meant, alone and as variants.
func TestDecode(t *testing.T) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		for into, want := range answers() {
			for _, sent := range []any{want, dbus.MakeVariant(want)} {
				var b bytes.Buffer
				m := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
					dbus.FieldReplySerial: dbus.MakeVariant(uint32(firstSerial + 9)), dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(sent)),
					dbus.FieldSender: dbus.MakeVariant(":1.2"),
				}, Body: []any{sent}}
				m.Headers[dbus.FieldErrorName] = dbus.MakeVariant("org.example.Error")
				if err := m.EncodeTo(&b, order); err != nil {
					t.Fatal(err)
				}
				reflect.ValueOf(into).Elem().SetZero()
				h, ok := parseHeader(b.Bytes(), order)
				if !ok || h.serial != firstSerial+9 || h.failure != "org.example.Error" || !expected(h, int64(b.Len())) && h.signature != "d" {
					t.Fatalf("%T: header %+v, %v", want, h, ok)
				}
				err := h.decode(order, into)
				if got := reflect.ValueOf(into).Elem().Interface(); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%v in %v is %v, %v", want, order, got, err)
				}
			}
		}
	}
}

// FuzzDecode checks that no answer does harm, whatever it contains.
func FuzzDecode(f *testing.F) {
	f.Add("a(so)", []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1, 0, 0, 0, 'a', 0})
	f.Add("v", []byte{2, 'a', 'u', 0, 8, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0})
	f.Add("s", []byte{0xff, 0xff, 0xff, 0x7f, 'a'})
	f.Add("(iiii)", []byte{1, 2, 3})
	f.Add("v", append([]byte{0xff}, make([]byte, 256)...))
	f.Fuzz(func(t *testing.T, signature string, body []byte) {
		if len(signature) > 255 || strings.ContainsRune(signature, 0) {
			return
		}
		text := hostileMessage(typeReply, signature, body)
		h, ok := parseHeader(text, binary.LittleEndian)
		if !ok || h.signature != signature || !bytes.Equal(h.body, body) {
			t.Fatalf("header %+v, %v", h, ok)
		}
		_, _ = parseHeader(append([]byte("l\x02\x00\x01\x00\x00\x00\x00\x01\x00\x00\x00"), body...), binary.LittleEndian)
		for into := range answers() {
			if err := h.decode(binary.LittleEndian, into); err != nil && !errors.Is(err, errForm) {
				t.Error(err)
			}
			if v := reflect.ValueOf(into).Elem(); v.Kind() == reflect.Slice && v.Len() > len(body)/4 {
				t.Errorf("%d values from %d bytes", v.Len(), len(body))
			}
		}
	})
}
